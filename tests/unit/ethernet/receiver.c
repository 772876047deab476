/* SPDX-License-Identifier: Apache-2.0 */
/* A receiver of transports/ethernet whose card is the test's. */
#include "receiver.h"

struct eth_table table;
struct eth_port port;
struct pst_device owner;
struct pst_worker worker;
struct pst_ring ring;
struct eth_rx rx;
struct pst_endpoint endpoint;
struct eth_rxq queue;

static uint64_t now(const struct pst_host *host)
{
  (void)host;
  return SECOND;
}

static const struct pst_host host = {.clock_ns = now, .log = take_log};

void eth_port_control(struct pst_worker *who, const struct eth_bytes *frame,
                      const struct eth_packet *packet)
{
  (void)who, (void)frame, (void)packet;
  fail();
}

uint64_t eth_time_now(void)
{
  return 0;
}

void receiver_begin(const struct eth_driver *driver, uint8_t *base)
{
  memset(&endpoint, 0, sizeof(endpoint));
  memset(&rx, 0, sizeof(rx));
  memset(&table, 0, sizeof(table));
  owner = (struct pst_device){.dg = {.host = &host, .framing = DG_FRAMING_SEQUENCE}, .port = &port};
  port = (struct eth_port){.host = &host,
                           .driver = driver,
                           .vlan = ETH_UNTAGGED,
                           .stage = ETH_PORT_RUNNING,
                           .rxqs = &queue,
                           .rxq_count = 1,
                           .table = &table};
  memcpy(port.mac, mac_b, sizeof(port.mac));
  worker.device = &owner;
  ring = (struct pst_ring){.worker = &worker,
                           .queue = &queue,
                           .cpu = {.base = base,
                                   .params = {.slots = SLOTS,
                                              .stride = STRIDE,
                                              .payload_max = PAYLOAD,
                                              .headroom = ETH_SLOT_HEADROOM,
                                              .tailroom = ETH_SLOT_MORE}}};
  queue = (struct eth_rxq){.port = &port, .ring = &ring, .only = &endpoint, .receivers = 1};
}

void receiver_open(const struct eth_pool_params *pool, const struct dg_flow_params *flow,
                   eth_rx_burst_t burst)
{
  static void *queues[1], *callbacks[1];

  assert_int_equal(pst_slots_open(&ring.cpu.slots, SLOTS), 0);
  assert_int_equal(eth_pool_open(&ring, pool, &ring.pool), 0);
  endpoint.worker = &worker;
  endpoint.rx = &rx;
  endpoint.udp_port = 5004;
  endpoint.dg.device = &owner.dg;
  endpoint.dg.receiver = &rx.receiver;
  endpoint.dg.header_bytes = SEQUENCE;
  endpoint.dg.cpu.ring = &ring.cpu;
  endpoint.dg.cpu.state = PST_CPU_UP;
  endpoint.dg.cpu.params.cookie = 7;
  dg_flow_begin(&rx.receiver.flow, flow);
  memcpy(endpoint.match.at, end_of("192.0.2.1", 0).address, sizeof(endpoint.match.at));
  table.chains[5004] = &endpoint.match;
  rte_eth_fp_ops[0].rx_pkt_burst = burst;
  rte_eth_fp_ops[0].rxq.data = queues;
  rte_eth_fp_ops[0].rxq.clbk = callbacks;
}

void receiver_close(uint32_t spares)
{
  eth_rxq_drop(&queue);
  dg_receiver_end(&rx.receiver, &ring.cpu);
  eth_pool_refill(ring.pool);
  assert_int_equal(rte_mempool_avail_count(ring.pool->mempool), SLOTS + spares);
  eth_pool_close(ring.pool);
  pst_slots_close(&ring.cpu.slots);
}

uint32_t receiver_frame(uint32_t sequence, uint32_t length, uint8_t first, uint16_t to_port,
                        enum eth_checksum sum, uint8_t *frame)
{
  struct eth_template_params params = params_of("192.0.2.9", "192.0.2.1");
  uint8_t payload[4096];

  assert_true(SEQUENCE + length <= sizeof(payload));
  params.to.port = to_port;
  params.udp_checksum = sum;
  eth_put16(payload, sequence >> 16);
  eth_put16(payload + 2, sequence);
  memset(payload + 4, 0, 4);
  for (uint32_t i = 0; i < length; i++)
    payload[SEQUENCE + i] = (uint8_t)(first + i);
  return frame_of(&params, payload, SEQUENCE + length, frame);
}
