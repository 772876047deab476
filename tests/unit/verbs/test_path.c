/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of transports/verbs/path.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "path.h"

static void mtus(void **state)
{
  (void)state;
  assert_int_equal(vb_mtu_of(0), IBV_MTU_256);
  assert_int_equal(vb_mtu_of(1023), IBV_MTU_512);
  assert_int_equal(vb_mtu_of(1024), IBV_MTU_1024);
  assert_int_equal(vb_mtu_of(1500), IBV_MTU_1024);
  assert_int_equal(vb_mtu_of(9000), IBV_MTU_4096);
  for (enum ibv_mtu mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++)
    assert_int_equal(vb_mtu_of(vb_mtu_bytes(mtu)), mtu);
}

static void times(void **state)
{
  (void)state;
  assert_int_equal(vb_ack_timeout_ns(14), 67108864);
  assert_int_equal(vb_ack_timeout_ns(0), 0);
  struct vb_path path = {.timeout = 14, .retry_cnt = 6};
  assert_int_equal(vb_silence_ns(&path), 7 * UINT64_C(67108864));
}

static bool is_set;

static uint64_t option_uint(const struct pst_options *options, const char *name)
{
  (void)options;
  return strcmp(name, "timeout") == 0 ? 17 : strcmp(name, "retry_cnt") == 0 ? 7 : 0;
}

static int option_is_set(const struct pst_options *options, const char *name)
{
  (void)options;
  (void)name;
  return is_set;
}

/* On soft-RoCE 7 retries would never end. */
static void defaults(void **state)
{
  (void)state;
  const struct pst_host host = {.option_uint = option_uint, .option_is_set = option_is_set};
  struct vb_path path;
  is_set = false;
  vb_path_read(&host, NULL, false, &path);
  assert_int_equal(path.timeout, 17);
  assert_int_equal(path.retry_cnt, 7);
  assert_int_equal(vb_silence_ns(&path), UINT64_C(4294967296));
  vb_path_read(&host, NULL, true, &path);
  assert_int_equal(path.timeout, 14);
  assert_int_equal(path.retry_cnt, 6);
  is_set = true;
  vb_path_read(&host, NULL, true, &path);
  assert_int_equal(path.timeout, 17);
  assert_int_equal(path.retry_cnt, 7);
}

static void address_vectors(void **state)
{
  (void)state;
  struct vb_path path = {.hop_limit = 64, .traffic_class = 104, .service_level = 3};
  struct vb_peer peer = {.is_ethernet = true, .lid = 7};
  struct ibv_ah_attr attr;
  memset(&attr, 0xa5, sizeof(attr));
  memset(peer.gid, 0x11, sizeof(peer.gid));
  struct vb_gid gid = {.index = 5};
  struct vb_local_port own = {.port = 2, .gid = &gid};
  memset(gid.raw, 0x11, sizeof(gid.raw));
  vb_address_vector(&path, &peer, &own, &attr);
  assert_int_equal(attr.port_num, 2);
  assert_int_equal(attr.is_global, 1);
  assert_int_equal(attr.dlid, 0);
  assert_int_equal(attr.sl, 3);
  assert_int_equal(attr.grh.hop_limit, 64);
  assert_int_equal(attr.grh.traffic_class, 104);
  assert_int_equal(attr.grh.sgid_index, 5);
  assert_int_equal(attr.grh.flow_label, 0); /* and what is not ours to set */
  assert_int_equal(attr.static_rate, 0);
  assert_memory_equal(attr.grh.dgid.raw, peer.gid, 16);
  peer.is_ethernet = false;
  vb_address_vector(&path, &peer, &own, &attr);
  assert_int_equal(attr.dlid, 7);
  assert_int_equal(attr.sl, 3);
  assert_int_equal(attr.is_global, 0); /* within a subnet */
  own.needs_grh = true;
  vb_address_vector(&path, &peer, &own, &attr);
  assert_int_equal(attr.is_global, 1);
  own.needs_grh = false;
  gid.raw[7]++;
  vb_address_vector(&path, &peer, &own, &attr);
  assert_int_equal(attr.is_global, 1);
  assert_int_equal(attr.grh.hop_limit, 64);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(mtus), cmocka_unit_test(times),
                                     cmocka_unit_test(defaults), cmocka_unit_test(address_vectors)};
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
