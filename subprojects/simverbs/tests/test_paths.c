/* SPDX-License-Identifier: Apache-2.0 */
/* Which packets the paths through a fabric let pass. Whatever is lost is lost alike, as on a wire:
 * the sender's retries run out; only the simulator's counters tell why. Runs on paths.yaml. */
#include "rig.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The connection does not carry a message; what it is counted as, and as nothing else. */
static void assert_lost(const struct rig_how *how, const char *counter)
{
  static const char *const all[] = {"lost_port_down", "lost_no_path", "lost_hop_limit",
                                    "lost_gid_type",  "lost_vlan",    "lost_mtu",
                                    "lost_no_qp",     "lost_psn",     "lost_peer_mismatch",
                                    "lost_pkey",      "lost_ece"};
  enum { N = sizeof(all) / sizeof(all[0]) };
  uint64_t before[N];
  struct rig rig;
  for (unsigned i = 0; i < N; i++)
    before[i] = rig_counter(all[i]);
  struct rig_how tries = *how;
  tries.retry_cnt = 2;
  rig_open(&rig, &tries);
  assert_int_equal(rig_send(&rig), IBV_WC_RETRY_EXC_ERR);
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  assert_int_equal(ibv_query_qp(rig.a.qp, &attr, IBV_QP_STATE, &init), 0);
  assert_int_equal(attr.qp_state, IBV_QPS_ERR);
  assert_true(rig_is_quiet(&rig.b));
  for (unsigned i = 0; i < N; i++) {
    /* Once, and twice again. */
    uint64_t expected = before[i] + (strcmp(all[i], counter) ? 0 : 3);
    if (rig_counter(all[i]) != expected)
      fail_msg("%s: %llu, not %llu", all[i], (unsigned long long)rig_counter(all[i]),
               (unsigned long long)expected);
  }
  rig_close(&rig);
}

static void assert_passes(const struct rig_how *how)
{
  struct rig rig;
  rig_open(&rig, how);
  assert_int_equal(rig_send(&rig), IBV_WC_SUCCESS);
  rig_close(&rig);
}

static void hop_limit_on_one_subnet(void **state)
{
  (void)state;
  for (uint8_t hops = 0; hops < 3; hops++)
    assert_passes(&(struct rig_how){.from = "west0", .to = "west1", .hop_limit = hops});
}

static void hop_limit_at_a_router(void **state)
{
  (void)state;
  for (uint8_t hops = 0; hops < 2; hops++)
    assert_lost(&(struct rig_how){.from = "west0", .to = "east0", .hop_limit = hops},
                "lost_hop_limit");
  assert_passes(&(struct rig_how){.from = "west0", .to = "east0", .hop_limit = 2});
  assert_passes(&(struct rig_how){.from = "east0", .to = "west0", .hop_limit = 255});
  char *shown = rig_ctl_read("show");
  assert_non_null(strstr(shown, "; 6 died of their hop limit"));
  free(shown);
}

static void mtu_of_a_router(void **state)
{
  (void)state;
  struct rig_how how = {.from = "west0", .to = "east0", .hop_limit = 2, .mtu = IBV_MTU_2048};
  assert_passes(&how);
  how.mtu = IBV_MTU_4096;
  assert_lost(&how, "lost_mtu");
}

static void mtu_of_the_peers_port(void **state)
{
  (void)state;
  struct rig_how how = {.from = "west0", .to = "small", .mtu = IBV_MTU_1024};
  assert_passes(&how);
  how.mtu = IBV_MTU_2048;
  assert_lost(&how, "lost_mtu");
}

static void gid_type(void **state)
{
  (void)state;
  /* Both ends have both types of this address, and must speak the same one. */
  struct rig_how how = {.from = "west0", .to = "west1", .gid_index = 2, .peers_gid_index = 2};
  assert_passes(&how);
  how.peers_gid_index = 3;
  assert_lost(&how, "lost_gid_type");
  assert_passes(&(struct rig_how){.from = "west0", .to = "onlyv2"});
  assert_lost(&(struct rig_how){.from = "west0", .to = "onlyv2", .gid_index = 2}, "lost_gid_type");
}

static void vlan(void **state)
{
  (void)state;
  assert_passes(&(struct rig_how){.from = "west7", .to = "west7"});
  assert_lost(&(struct rig_how){.from = "west0", .to = "west7"}, "lost_vlan");
}

static void roce_v1_is_not_routed(void **state)
{
  (void)state;
  assert_lost(&(struct rig_how){.from = "west0", .to = "east0", .hop_limit = 9, .gid_index = 2},
              "lost_no_path");
}

static void psn(void **state)
{
  (void)state;
  assert_lost(&(struct rig_how){.from = "west0", .to = "west1", .wrong_psn = 1}, "lost_psn");
}

static void no_such_qp(void **state)
{
  (void)state;
  assert_lost(&(struct rig_how){.from = "west0", .to = "west1", .wrong_qpn = 0x123456},
              "lost_no_qp");
}

static void another_qps_peer(void **state)
{
  (void)state;
  struct rig other;
  rig_open(&other, &(struct rig_how){.from = "west0", .to = "west1"});
  assert_lost(&(struct rig_how){.from = "west0", .to = "west1", .wrong_qpn = other.b.qp->qp_num},
              "lost_peer_mismatch");
  rig_close(&other);
}

/* A full member hears all members of the partition, a limited one the full ones. */
static void partitions(void **state)
{
  (void)state;
  assert_passes(&(struct rig_how){.from = "full", .to = "limited0", .dlid = 2, .peers_dlid = 1});
  assert_passes(&(struct rig_how){.from = "limited1", .to = "full", .dlid = 1, .peers_dlid = 3});
  assert_lost(&(struct rig_how){.from = "limited0", .to = "limited1", .dlid = 3, .peers_dlid = 2},
              "lost_pkey");
}

static uint32_t ece_of(struct rig_end *end)
{
  struct ibv_ece ece;
  assert_int_equal(ibv_query_ece(end->qp, &ece), 0);
  assert_int_equal(ece.vendor_id, 0x15b3);
  return ece.options;
}

/* A device accepts the options that it has; both ends have to use the same ones. */
static void ece(void **state)
{
  (void)state;
  struct rig_how how = {.from = "west0", .to = "west1", .ece = 0x30000002, .peers_ece = 0x30000002};
  struct ibv_ece wrong = {.vendor_id = 1, .options = 2};
  struct rig rig;
  assert_passes(&how);
  how.peers_ece = 0;
  assert_lost(&how, "lost_ece");
  how.ece = 0;
  assert_passes(&how);
  rig_open(&rig, &(struct rig_how){.from = "west0", .to = "west1", .ece = 0x10000007});
  assert_int_equal(ece_of(&rig.a), 0x10000002);
  assert_int_equal(ece_of(&rig.b), 0x30000002); /* what it could, as nothing was asked for */
  assert_int_equal(ibv_set_ece(rig.a.qp, &wrong), EINVAL);
  rig_close(&rig);
  rig_open(&rig, &(struct rig_how){.from = "west0", .to = "bare"});
  assert_int_equal(ibv_query_ece(rig.b.qp, &wrong), EOPNOTSUPP);
  rig_close(&rig);
}

static void grh(void **state)
{
  (void)state;
  struct rig_how how = {
      .from = "full", .to = "limited0", .dlid = 2, .peers_dlid = 1, .no_grh = true};
  assert_passes(&how);
  how = (struct rig_how){.from = "vf", .to = "full", .dlid = 1, .peers_dlid = 4};
  assert_passes(&how);
  how.no_grh = true;
  assert_lost(&how, "lost_no_path");
}

static void router_down(void **state)
{
  (void)state;
  struct rig_how how = {.from = "west0", .to = "east0", .hop_limit = 2};
  rig_ctl("router-down core");
  assert_lost(&how, "lost_no_path");
  rig_ctl("router-up core");
  assert_passes(&how);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(hop_limit_on_one_subnet),
      cmocka_unit_test(hop_limit_at_a_router),
      cmocka_unit_test(mtu_of_a_router),
      cmocka_unit_test(mtu_of_the_peers_port),
      cmocka_unit_test(gid_type),
      cmocka_unit_test(vlan),
      cmocka_unit_test(roce_v1_is_not_routed),
      cmocka_unit_test(psn),
      cmocka_unit_test(no_such_qp),
      cmocka_unit_test(another_qps_peer),
      cmocka_unit_test(partitions),
      cmocka_unit_test(ece),
      cmocka_unit_test(grh),
      cmocka_unit_test(router_down),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
