/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes, bounds and remedies in words. */
#include <inttypes.h>
#include <stdio.h>

#include "format.h"
#include "meminfo.h"

struct host_text host_size_text(uint64_t bytes)
{
  static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  struct host_text out;
  size_t unit = 0;
  while (bytes != 0 && bytes % 1024 == 0 && unit + 1 < sizeof(units) / sizeof(units[0])) {
    bytes /= 1024;
    unit++;
  }
  snprintf(out.text, sizeof(out.text), "%" PRIu64 " %s", bytes, units[unit]);
  return out;
}

/* "19.6 GiB" */
static struct host_text host_about_text(uint64_t bytes)
{
  struct host_text out;
  bool gib = bytes >= UINT64_C(1) << 30;
  snprintf(out.text, sizeof(out.text), "%.1f %s", (double)bytes / (double)(1u << (gib ? 30 : 20)),
           gib ? "GiB" : "MiB");
  return out;
}

struct host_line host_room_text(void)
{
  struct host_line out;
  uint64_t left = host_address_space_left(), available = host_available_bytes();

  if (left < available)
    snprintf(out.text, sizeof(out.text), "`ulimit -v` leaves %s", host_about_text(left).text);
  else
    snprintf(out.text, sizeof(out.text), "%s are available", host_about_text(available).text);
  return out;
}

struct host_line host_remedy_text(const struct pst_alloc_params *params)
{
  struct host_line out;

  snprintf(out.text, sizeof(out.text), "%s%s%s", params->lower ? "lower " : "ask for less",
           params->lower ? params->lower : "",
           host_address_space_left() < host_available_bytes() ? ", or raise that limit"
                                                              : ", or free memory");
  return out;
}
