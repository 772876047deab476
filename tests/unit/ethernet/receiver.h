/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A receiver of transports/ethernet: one port, one ring, and one endpoint at 192.0.2.1:5004 in
 * Rivermax's framing. The test is the card: what arrives is its own.
 */
#ifndef ETHERNET_RECEIVER_H
#define ETHERNET_RECEIVER_H

#include "dpdk.h"
#include "pool.h"
#include "port.h"
#include "stubs.h"
#include "support.h"

enum { SLOTS = 64, STRIDE = 2048, PAYLOAD = 1400, SEQUENCE = 8 };

extern struct eth_table table;
extern struct eth_port port;
extern struct pst_device owner;
extern struct pst_worker worker;
extern struct pst_ring ring;
extern struct eth_rx rx;
extern struct pst_endpoint endpoint;
extern struct eth_rxq queue;

/* All of the above as it is before its ring has a pool; `base` is where the ring lies. */
void receiver_begin(const struct eth_driver *driver, uint8_t *base);
/* Then the pool, the flow, and the queue, to which `burst` hands what has arrived. */
void receiver_open(const struct eth_pool_params *pool, const struct dg_flow_params *flow,
                   eth_rx_burst_t burst);
/* Fails if an mbuf of the ring's pool is lost. */
void receiver_close(uint32_t spares);

/* The frame of a message from 192.0.2.9, whose bytes count up from `first`. Returns its length. */
uint32_t receiver_frame(uint32_t sequence, uint32_t length, uint8_t first, uint16_t to_port,
                        enum eth_checksum sum, uint8_t *frame);

#endif
