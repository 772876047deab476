/* SPDX-License-Identifier: Apache-2.0 */
/* An address of this host, from words that each host of a job takes for itself. */
#ifndef APP_BENCH_OWN_ADDRESS_H
#define APP_BENCH_OWN_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#include <penstock/penstock.h>

#define OWN_ADDRESS_MAX 72

/* `word`: an interface (eth0), a network (10.1.0.0/16), or an address or name of this host. NULL:
 * 127.0.0.1, or with `beyond` the one address that the host has beyond that. Writes "192.0.2.1" or
 * "[2001:db8::1]". 0, or reported in *error. */
int bench_own_address(const char *word, bool beyond, char address[OWN_ADDRESS_MAX],
                      struct pst_error *error);

#endif
