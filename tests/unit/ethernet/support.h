/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of transports/ethernet. */
#ifndef ETHERNET_SUPPORT_H
#define ETHERNET_SUPPORT_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "frame.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define SECOND UINT64_C(1000000000)
#define MS UINT64_C(1000000)

static const uint8_t mac_a[ETH_MAC_BYTES] = {2, 0, 0, 0, 0, 0xa},
                     mac_b[ETH_MAC_BYTES] = {2, 0, 0, 0, 0, 0xb},
                     mac_c[ETH_MAC_BYTES] = {2, 0, 0, 0, 0, 0xc};

/* "192.0.2.1" or "2001:db8::1". */
struct dg_source end_of(const char *address, uint16_t port);
/* The address alone, in memory of the caller's expression. */
#define AT(text) (end_of(text, 0).address)
struct eth_template_params params_of(const char *from, const char *to);
/* A whole frame of that template around `length` bytes; returns its length. */
uint32_t frame_of(const struct eth_template_params *params, const void *payload, uint32_t length,
                  uint8_t *frame);
/* A copy of which nothing beyond `readable` can be touched; until the next call. */
struct eth_bytes guarded(const uint8_t *bytes, uint32_t readable, uint32_t total);
/* eth_parse() of all of it, guarded; eth_parse_next() after the last one says the same. */
enum eth_verdict parse(const uint8_t *bytes, uint32_t total, struct eth_packet *packet);
/* "45 00 0073"; returns how many bytes. */
uint32_t hex(const char *text, uint8_t *bytes);

#endif
