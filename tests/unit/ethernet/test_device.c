/* SPDX-License-Identifier: Apache-2.0 */
/* device.c: which memory a card reads and writes, and what is registered for it. DPDK's calls are
 * this file's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_mbuf_dyn.h>

#include <penstock/page.h>

#include "pool.h"
#include "port.h"
#include "stubs.h"

#define PAGE pst_page_size()
enum { BIT = 23 };

static const struct eth_driver card = {.name = "pci", .traits = ETH_IS_DMA | ETH_HAS_RULES},
                               copies = {.name = "memif", .traits = ETH_DONE_AT_ONCE};
static const struct eth_network network_v6 = {.prefix = 64};
static const struct pst_host host = {.log = take_log};
static struct eth_port port;
static struct pst_device device, *devices[1];
static struct pst_region region;
static struct pst_path_info path;
static bool has_v6;
static int map_error, flag_error;
static bool is_known; /* to DPDK and to the card already */
static uint32_t registered, mapped, asked;
static const void *mapped_at;
static size_t mapped_length;

const struct eth_driver eth_drivers[ETH_DRIVERS];
RTE_DEFINE_PER_LCORE(int, _rte_errno);

/* ---- Stand-ins for other files -----------------------------------------------------------------
 */

enum rte_iova_mode rte_eal_iova_mode(void)
{
  return RTE_IOVA_VA;
}

int rte_extmem_register(void *at, size_t length, rte_iova_t addresses[], unsigned pages,
                        size_t page)
{
  (void)at, (void)addresses, (void)pages;
  assert_int_equal(length % page, 0);
  rte_errno = EEXIST;
  registered += !is_known;
  return is_known ? -1 : 0;
}

int rte_extmem_unregister(void *at, size_t length)
{
  (void)at, (void)length;
  registered--;
  return 0;
}

int rte_dev_dma_map(struct rte_device *of, void *at, uint64_t iova, size_t length)
{
  (void)of;
  assert_int_equal(registered, !is_known); /* DPDK maps nothing else */
  assert_int_equal(iova, (uintptr_t)at);
  rte_errno = is_known ? EEXIST : map_error;
  mapped += map_error == 0;
  mapped_at = at;
  mapped_length = length;
  return is_known || map_error ? -1 : 0;
}

int rte_dev_dma_unmap(struct rte_device *of, void *at, uint64_t iova, size_t length)
{
  (void)of, (void)at, (void)iova, (void)length;
  mapped--;
  return 0;
}

int rte_mbuf_dynflag_register(const struct rte_mbuf_dynflag *flag)
{
  assert_string_equal(flag->name, "mlx5_fine_granularity_inline");
  asked++;
  return flag_error ? -1 : BIT;
}

const struct eth_network *eth_port_network(const struct eth_port *of, int family)
{
  (void)of;
  return family == AF_INET6 && !has_v6 ? NULL : &network_v6;
}

int eth_port_open(struct pst_device *of, const struct pst_options *options, struct eth_port **made)
{
  (void)of, (void)options, (void)made;
  return -ENOSYS;
}

void eth_port_leave(struct eth_port *of, struct pst_device *who)
{
  (void)of, (void)who;
}

int eth_port_start(struct eth_port *of)
{
  (void)of;
  return -ENOSYS;
}

bool eth_port_is_sealed(const struct eth_port *of)
{
  (void)of;
  return false;
}

void eth_port_end_ring(struct eth_port *of, struct pst_ring *ring)
{
  (void)of, (void)ring;
}

/* ---- The tests ---------------------------------------------------------------------------------
 */

static int open_all(void **state)
{
  (void)state;
  map_error = flag_error = 0;
  registered = mapped = asked = 0;
  has_v6 = is_known = false;
  port = (struct eth_port){.host = &host,
                           .driver = &card,
                           .mtu = 1500,
                           .reads_by_reference = true,
                           .segments_max = 40,
                           .wants_rules = true,
                           .info = {.driver_name = "mlx5_pci",
                                    .tx_offload_capa = ETH_TX_SUMS,
                                    .rx_offload_capa = RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT,
                                    .rx_seg_capa = {.multi_pools = 1, .max_nseg = 2},
                                    .max_rx_queues = 3}};
  devices[0] = &device;
  port.devices = devices;
  port.device_count = 1;
  device = (struct pst_device){.dg = {.host = &host, .framing = DG_FRAMING_RTP}, .port = &port};
  region = (struct pst_region){
      .struct_size = sizeof(region), .length = 16 * PAGE, .address = UINT64_C(0x7f0000000000)};
  path = (struct pst_path_info){.struct_size = sizeof(path)};
  return 0;
}

static int attempt(uint32_t access, struct pst_mr **mr)
{
  const struct pst_mr_params params = {.struct_size = sizeof(params),
                                       .access = access,
                                       .region = &region,
                                       .offset = PAGE + 64,
                                       .length = 2 * PAGE,
                                       .path = &path};

  return eth_mr_register(&device, &params, mr);
}

static void a_sender_s_payload_in_a_gpu_is_mapped(void **state)
{
  struct pst_mr *mr;

  (void)state;
  assert_int_equal(attempt(PST_ACCESS_LOCAL_READ, &mr), 0);
  assert_int_equal(path.path, PST_PATH_DIRECT);
  assert_string_equal(path.via, "pci, reference");
  assert_true(mr->is_device);
  assert_int_equal((uintptr_t)mr->cpu.base, region.address + PAGE + 64);
  assert_true(mr->cpu.access & PST_ACCESS_LOCAL_READ);
  assert_int_equal((uintptr_t)mapped_at, region.address + PAGE); /* whole pages */
  assert_int_equal(mapped_length, 3 * PAGE);
  assert_int_equal(port.no_inline, UINT64_C(1) << BIT);
  eth_mr_deregister(&device, mr);
  assert_int_equal(registered, 0);
  assert_int_equal(mapped, 0);
}

static void assert_refused(uint32_t access, const char *word)
{
  struct pst_mr *mr = NULL;

  assert_int_equal(attempt(access, &mr), -EOPNOTSUPP);
  assert_null(mr);
  assert_int_equal(path.path, PST_PATH_NONE);
  if (!strstr(path.reason, word))
    fail_msg("\"%s\" is not in \"%s\"", word, path.reason);
  assert_int_equal(registered, 0);
  assert_int_equal(mapped, 0);
}

static void assert_staged(const char *word)
{
  assert_refused(PST_ACCESS_LOCAL_READ, word);
}

/* The CPU does not read what lands there. */
static void a_ring_in_a_gpu_is_mapped_for_a_card_that_splits(void **state)
{
  const uint32_t access = PST_ACCESS_LOCAL_WRITE | PST_ACCESS_LOCAL_READ | PST_ACCESS_RING;
  struct pst_worker worker = {.device = &device}, *workers[] = {&worker};
  struct pst_mr *mr;

  (void)state;
  assert_int_equal(attempt(access, &mr), 0);
  assert_string_equal(path.via, "pci, split");
  assert_int_equal(mr->cpu.access, PST_ACCESS_LOCAL_WRITE | PST_ACCESS_RING);
  assert_int_equal(asked, 0);
  eth_mr_deregister(&device, mr);
  device.receive = ETH_RECEIVE_COPY;
  assert_refused(access, "`receive`");
  device.receive = 0;
  port.wants_rules = false;
  assert_refused(access, "`rules`");
  port.wants_rules = true;
  port.info.rx_seg_capa.max_nseg = 1;
  assert_refused(access, "one pool");
  port.info.rx_seg_capa.max_nseg = 2;
  port.info.rx_offload_capa = 0;
  assert_refused(access, "splits no headers");
  port.info.rx_queue_offload_capa = RTE_ETH_RX_OFFLOAD_BUFFER_SPLIT;
  device.workers = workers;
  device.worker_count = 1;
  worker.rings.room = 3;
  worker.rings.all = calloc(3, sizeof(worker.rings.all[0]));
  worker.rings.all[0].at = worker.rings.all[2].at = (void *)&worker;
  assert_refused(access, "3 queues, one for the rest and 2 for other rings");
  worker.rings.all[2].at = NULL;
  assert_int_equal(attempt(access, &mr), 0);
  eth_mr_deregister(&device, mr);
  free(worker.rings.all);
}

/* Two streams may have one range. */
static void memory_that_is_known_already_is_taken(void **state)
{
  struct pst_mr *mr;

  (void)state;
  is_known = true;
  assert_int_equal(attempt(PST_ACCESS_LOCAL_READ, &mr), 0);
  assert_string_equal(path.via, "pci, reference");
  registered = mapped = 1;
  eth_mr_deregister(&device, mr);
}

static void what_cannot_be_is_staged_with_the_reason(void **state)
{
  (void)state;
  port.driver = &copies;
  assert_staged("the CPU reads");
  port.driver = &card;
  port.info.driver_name = "net_ice";
  assert_staged("mlx5");
  port.info.driver_name = "mlx5_pci";
  port.segments_max = 1;
  assert_staged("several segments");
  port.segments_max = 40;
  port.reads_by_reference = false;
  assert_staged("the CPU reads");
  port.reads_by_reference = true;
  strcpy(port.arguments, "txq_inline_min=60");
  assert_staged("txq_inline_min");
  port.arguments[0] = '\0';
  device.sums = true;
  assert_staged("`checksum: false`");
  device.sums = false;
  device.dg.authenticates = true;
  assert_staged("`authenticate`");
  device.dg.authenticates = false;
  device.udp_sum = ETH_SUM_SOFTWARE;
  assert_staged("udp_checksum");
  device.udp_sum = ETH_SUM_AUTO;
  assert_int_equal(asked, 0); /* mbufs have few flags */
  flag_error = 1;
  assert_staged("flag");
}

/* Without the card's checksum IPv4 has none, and IPv6 must have one. */
static void without_checksums_of_the_card_there_is_ipv4(void **state)
{
  struct pst_mr *mr;

  (void)state;
  port.info.tx_offload_capa = 0;
  has_v6 = true;
  assert_staged("`family: ipv4`");
  device.dg.family = AF_INET;
  assert_int_equal(attempt(PST_ACCESS_LOCAL_READ, &mr), 0);
  eth_mr_deregister(&device, mr);
  device.dg.family = AF_UNSPEC;
  has_v6 = false;
  assert_int_equal(attempt(PST_ACCESS_LOCAL_READ, &mr), 0);
  eth_mr_deregister(&device, mr);
}

/* A bus that maps nothing suffices for memory of the host, and for no other. */
static void what_the_card_does_not_reach_is_not_registered(void **state)
{
  static uint8_t memory[16 * 65536]; /* of the largest pages */
  struct pst_mr *mr;

  (void)state;
  map_error = EFAULT;
  assert_staged("nvidia-peermem");
  map_error = ENOTSUP;
  assert_staged("nvidia-peermem");
  region.host = memory;
  assert_int_equal(attempt(PST_ACCESS_LOCAL_READ, &mr), 0);
  assert_false(mr->is_device);
  map_error = 0;
  mapped = 1;
  eth_mr_deregister(&device, mr);
}

static void a_card_asks_for_no_memory_of_the_cpu(void **state)
{
  struct pst_limits limits = {.struct_size = sizeof(limits)};

  (void)state;
  assert_int_equal(eth_limits(&device, &limits), 0);
  assert_int_equal(limits.send_needs | limits.ring_needs, 0);
  assert_int_equal(limits.pieces_max, 39); /* and one for the headers */
  port.driver = &copies;
  assert_int_equal(eth_limits(&device, &limits), 0);
  assert_int_equal(limits.send_needs, PST_NEED_CPU_ACCESS);
  assert_int_equal(limits.pieces_max, PST_CPU_PIECES_MAX);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(a_sender_s_payload_in_a_gpu_is_mapped, open_all),
      cmocka_unit_test_setup(a_ring_in_a_gpu_is_mapped_for_a_card_that_splits, open_all),
      cmocka_unit_test_setup(memory_that_is_known_already_is_taken, open_all),
      cmocka_unit_test_setup(what_cannot_be_is_staged_with_the_reason, open_all),
      cmocka_unit_test_setup(without_checksums_of_the_card_there_is_ipv4, open_all),
      cmocka_unit_test_setup(what_the_card_does_not_reach_is_not_registered, open_all),
      cmocka_unit_test_setup(a_card_asks_for_no_memory_of_the_cpu, open_all),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
