/* SPDX-License-Identifier: Apache-2.0 */
/* peer.c: when a sender has met its peer. The kernel's answers are this file's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "port.h"

#define SECOND UINT64_C(1000000000)

static const uint8_t mac[ETH_MAC_BYTES] = {2, 0, 0, 0, 0, 7};
static uint64_t now_ns = 1000;
static bool answers;
static struct eth_port port;
static struct pst_device device = {.port = &port};
static struct pst_worker worker = {.device = &device};
static struct eth_tx tx;
static struct pst_endpoint endpoint;

const struct eth_driver eth_drivers[ETH_DRIVERS];

static uint64_t clock_ns(const struct pst_host *host)
{
  (void)host;
  return now_ns;
}

__attribute__((format(printf, 3, 4))) static void no_log(const struct pst_host *host, int level,
                                                         const char *format, ...)
{
  (void)host, (void)level, (void)format;
}

static const struct pst_host host = {.clock_ns = clock_ns, .log = no_log};

int eth_kernel_open(uint32_t netdev, const uint8_t address[16], struct eth_route *route,
                    struct eth_kernel **kernel, char why[ETH_WHY_MAX])
{
  (void)netdev, (void)address, (void)route, (void)why;
  *kernel = (struct eth_kernel *)&answers;
  return 0;
}

void eth_kernel_close(struct eth_kernel *kernel)
{
  (void)kernel;
}

uint64_t eth_kernel_due(const struct eth_kernel *kernel)
{
  (void)kernel;
  return 0;
}

int eth_kernel_step(struct eth_kernel *kernel, uint64_t at_ns, uint8_t answer[ETH_MAC_BYTES],
                    char why[ETH_WHY_MAX])
{
  (void)kernel, (void)at_ns, (void)why;
  if (answers)
    memcpy(answer, mac, sizeof(mac));
  return answers;
}

/* The port's own neighbours, which it has not. */
int eth_neighbours_ask(struct eth_neighbours *neighbours, const uint8_t address[16], uint64_t at_ns,
                       uint32_t *index)
{
  (void)neighbours, (void)address, (void)at_ns, (void)index;
  return -ENOSYS;
}

void eth_neighbours_forget(struct eth_neighbours *neighbours, uint32_t index)
{
  (void)neighbours, (void)index;
}

enum eth_neighbour_state eth_neighbours_look(const struct eth_neighbours *neighbours,
                                             uint32_t index, uint8_t answer[ETH_MAC_BYTES])
{
  (void)neighbours, (void)index, (void)answer;
  return ETH_NEIGHBOUR_UNANSWERED;
}

const uint8_t *eth_next_hop(const uint8_t own[16], uint32_t prefix, const uint8_t *gateway,
                            const uint8_t to[16])
{
  (void)own, (void)prefix, (void)gateway;
  return to;
}

const struct eth_network *eth_port_network(const struct eth_port *of, int family)
{
  (void)family;
  return &of->networks[0];
}

static uint32_t events(int32_t *status)
{
  struct pst_completion out[4];
  uint32_t n = pst_cpu_endpoint_poll(&endpoint.dg.cpu, out, 4);

  n += pst_cpu_endpoint_poll_end(&endpoint.dg.cpu, out + n, 4 - n);
  assert_true(n <= 1);
  *status = n ? out[0].status : 0;
  return n ? out[0].code : 0;
}

/* To 192.0.2.7, with a timeout of a second. */
static int setup(void **state)
{
  union dg_address to = {.v4 = {.sin_family = AF_INET, .sin_port = htons(5004)}};

  (void)state;
  answers = false;
  tx = (struct eth_tx){.hop_limit = 64};
  port = (struct eth_port){.host = &host, .netdev = 1, .mtu = 1500, .vlan = ETH_UNTAGGED};
  device.dg.host = &host;
  endpoint = (struct pst_endpoint){.worker = &worker, .tx = &tx, .udp_port = 5000};
  endpoint.dg = (struct dg_endpoint){.device = &device.dg, .family = AF_INET, .message_max = 1000};
  endpoint.dg.cpu.params = (struct pst_endpoint_params){.timeout_ns = SECOND};
  memcpy(endpoint.own, (const uint8_t[16]){[10] = 0xff, 0xff, 192, 0, 2, 1}, 16);
  to.v4.sin_addr.s_addr = htonl(0xc0000207);
  assert_int_equal(eth_peer_find(&endpoint.dg, &to), 1);
  pst_cpu_enter(&endpoint.dg.cpu, PST_CPU_MEETING);
  return 0;
}

static void answer_connects(void **state)
{
  int32_t status;

  (void)state;
  eth_peer_look(&endpoint, now_ns + SECOND);
  assert_int_equal(events(&status), 0);
  answers = true;
  eth_peer_look(&endpoint, now_ns + SECOND);
  assert_int_equal(events(&status), PST_EVENT_CONNECTED);
  assert_memory_equal(tx.mac, mac, sizeof(mac));
}

static void answer_after_the_timeout_changes_nothing(void **state)
{
  int32_t status;

  (void)state;
  eth_peer_look(&endpoint, now_ns + SECOND + 1);
  assert_int_equal(events(&status), PST_EVENT_DISCONNECTED);
  assert_int_equal(status, -ETIMEDOUT);
  answers = true;
  eth_peer_look(&endpoint, now_ns + SECOND + 2);
  assert_int_equal(events(&status), 0);
  assert_int_equal(endpoint.dg.cpu.state, PST_CPU_DOWN);
}

static void answer_that_leaves_no_room_disconnects(void **state)
{
  int32_t status;

  (void)state;
  port.mtu = 1000;
  answers = true;
  eth_peer_look(&endpoint, now_ns);
  assert_int_equal(events(&status), PST_EVENT_DISCONNECTED);
  assert_int_equal(status, -EMSGSIZE);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, setup)
  const struct CMUnitTest tests[] = {
      CASE(answer_connects),
      CASE(answer_after_the_timeout_changes_nothing),
      CASE(answer_that_leaves_no_room_disconnects),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
