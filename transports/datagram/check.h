/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the options of options.h for a description's check(), without a machine. */
#ifndef DATAGRAM_CHECK_H
#define DATAGRAM_CHECK_H

#include <penstock/plugin.h>

#include "address.h"

struct dg_checked {
  enum dg_framing framing;
  int family;             /* AF_UNSPEC: no option says */
  union dg_address first; /* a sender's `to`, a receiver's `group` */
};

/* Addresses, their families, and the destination of a foreign receiver: what is wrong is reported.
 * `own` is the option that names this end's own address, or its interface (NULL: there is none of
 * one value); `own_remedy` ends the report of an address there that is no host's. Facts that follow
 * from the framing are filled in; `datagram_max` is that of dg_limits_fill(). */
void dg_options_check(const struct pst_check *check, const char *own, const char *own_remedy,
                      uint32_t datagram_max, struct dg_checked *checked, struct pst_facts *facts);
/* The address without its port, and with its zone if it has one. */
#define DG_HOST_TEXT 64
void dg_print_host(const union dg_address *address, const char *zone, char text[DG_HOST_TEXT]);

#endif
