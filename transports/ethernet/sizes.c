/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that are checked against each other when a port starts. */
#include "sizes.h"

#include <errno.h>
#include <stdio.h>

#define FEWEST 64u /* descriptors that a small ring leaves, unless the file has a number */

static uint32_t eth_sizes_fit(const struct eth_descriptor_limits *limits, uint32_t wanted)
{
  const uint32_t align = limits->align ? limits->align : 1;

  wanted = (wanted + align - 1) / align * align;
  if (wanted > limits->max)
    wanted = limits->max / align * align;
  return wanted < limits->min ? limits->min : wanted;
}

int eth_descriptors_settle(const struct eth_descriptor_limits *limits, const char *queue,
                           uint32_t wanted, bool is_fixed, uint32_t *descriptors,
                           char why[ETH_SIZES_WHY])
{
  const uint32_t fit = eth_sizes_fit(limits, wanted);
  const uint32_t align = limits->align ? limits->align : 1;

  if (fit < ETH_BURST) {
    snprintf(why, ETH_SIZES_WHY,
             "the driver's %s queue has at most %u descriptors, and a burst has %u frames; this "
             "plugin cannot use the driver",
             queue, limits->max, ETH_BURST);
    return -EINVAL;
  }
  if (is_fixed && (wanted < limits->min || wanted > limits->max)) {
    snprintf(why, ETH_SIZES_WHY,
             "descriptors: %u is not possible: the driver's %s queue has %u to %u, in steps of %u; "
             "write `descriptors: %u`",
             wanted, queue, limits->min, limits->max, align, fit);
    return -EINVAL;
  }
  *descriptors = fit;
  if (fit == wanted)
    return 0;
  snprintf(why, ETH_SIZES_WHY,
           "descriptors: %u becomes %u: the driver's %s queue has %u to %u, in steps of %u", wanted,
           fit, queue, limits->min, limits->max, align);
  return 1;
}

bool eth_ring_settle(const struct eth_descriptor_limits *limits, uint32_t slots, bool is_fixed,
                     uint32_t *descriptors, char why[ETH_SIZES_WHY])
{
  while (!is_fixed && *descriptors > FEWEST && slots < *descriptors + ETH_RING_BEYOND) {
    const uint32_t fewer = eth_sizes_fit(limits, *descriptors / 2);
    if (fewer >= *descriptors)
      break;
    *descriptors = fewer;
  }
  if (slots >= *descriptors + ETH_RING_BEYOND)
    return true;
  snprintf(why, ETH_SIZES_WHY,
           "the ring has %u slots, and the driver keeps %u filled: it needs %u, %u more; make "
           "`ring` larger%s",
           slots, *descriptors, *descriptors + ETH_RING_BEYOND, ETH_RING_BEYOND,
           is_fixed ? " or `descriptors` smaller" : "");
  return false;
}

bool eth_queue_check(uint32_t buffers, uint32_t descriptors, uint32_t made, char why[ETH_SIZES_WHY])
{
  if (buffers >= made + ETH_RING_BEYOND)
    return true;
  snprintf(why, ETH_SIZES_WHY,
           "the driver made %u descriptors of %u, and %u buffers do not keep them filled: it needs "
           "%u; write `descriptors: %u`, or make `ring` larger",
           made, descriptors, buffers, made + ETH_RING_BEYOND, made / 2);
  return false;
}

uint32_t eth_own_buffers(uint32_t descriptors, uint32_t rings)
{
  return descriptors + 4 * ETH_BURST + rings * (ETH_INBOX + ETH_BURST);
}
