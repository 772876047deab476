/* SPDX-License-Identifier: Apache-2.0 */
/* Times of departure: the kernel's queueing disciplines fq and etf keep them, by SO_TXTIME. */
#ifndef UDP_DEPARTURE_H
#define UDP_DEPARTURE_H

#include <stdbool.h>
#include <stdint.h>

#include <linux/errqueue.h>

#include "described.h"

struct msghdr;
struct pst_endpoint;

struct udp_departures {
  bool are_kept;           /* messages carry their times */
  bool is_tai;             /* by etf and its clock, and not by CLOCK_MONOTONIC */
  uint64_t delta_ns;       /* etf: a message that comes less than this before its time is dropped */
  uint64_t offset_ns;      /* of that clock over CLOCK_MONOTONIC */
  uint64_t earliest_ns;    /* that etf still takes, by CLOCK_MONOTONIC */
  uint64_t look_ns;        /* when its errors are read next */
  uint32_t margin_ns;      /* from a post() to its queue, as far as is known */
  uint64_t missed;         /* messages that etf dropped, since their time was over */
  uint64_t refused;        /* that it did not take, for that or its clock: they are sent again */
  uint64_t refused_before; /* at the last look */
  bool told_missed, told_refused;
};

/* The option `departure`, on a sender's socket. 0, or -errno, logged. */
int udp_departures_open(struct pst_endpoint *endpoint);
/* Finds out, once the peer is known, whether the queueing discipline on the way keeps times. Else
 * the log says which command makes it so, and messages leave as soon as the kernel has them. */
void udp_departures_connect(struct pst_endpoint *endpoint);
/* Once a post() by etf: how CLOCK_TAI stands to CLOCK_MONOTONIC now; and, every millisecond, what
 * etf has dropped. */
void udp_departures_begin(struct pst_endpoint *endpoint);

/* When the kernel is to send what is to leave at `departure_ns`; 0: at once. */
static inline uint64_t udp_departures_time(const struct udp_departures *departures,
                                           uint64_t departure_ns)
{
  if (!departures->are_kept)
    return 0;
  /* etf takes nothing without a time. */
  if (departures->is_tai && departure_ns < departures->earliest_ns)
    departure_ns = departures->earliest_ns;
  return departure_ns ? departure_ns + departures->offset_ns : 0;
}

/* Was that an error of a time? Then it is counted, and told once. */
bool udp_departures_told(struct pst_endpoint *endpoint, const struct sock_extended_err *error);

#endif
