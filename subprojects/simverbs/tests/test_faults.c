/* SPDX-License-Identifier: Apache-2.0 */
/* Faults planted by `ctl` while programs run. On paths.yaml, with a fast clock. */
#include "rig.h"

#include <stdio.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct rig_how near = {.from = "west0", .to = "west1", .retry_cnt = 3};

static int clear(void **state)
{
  (void)state;
  rig_ctl("clear");
  return 0;
}

static void some_are_dropped(void **state)
{
  (void)state;
  struct rig rig;
  rig_open(&rig, &near);
  uint64_t lost = rig_counter("lost_fault"), retries = rig_counter("retries");
  rig_ctl("drop --from h/west0 --count 2");
  assert_int_equal(rig_send(&rig), IBV_WC_SUCCESS);
  assert_int_equal(rig_counter("lost_fault"), lost + 2);
  assert_int_equal(rig_counter("retries"), retries + 2);
  rig_close(&rig);
}

static void all_are_dropped(void **state)
{
  (void)state;
  struct rig rig;
  rig_open(&rig, &near);
  rig_ctl("drop");
  uint64_t lost = rig_counter("lost_fault");
  rig_post_recv(&rig.a, 7, 8);
  rig_post_send(&rig.a, 1, 8);
  rig_post_send(&rig.a, 2, 8);
  struct ibv_wc first = rig_wait(&rig.a);
  assert_int_equal(first.wr_id, 1);
  assert_int_equal(first.status, IBV_WC_RETRY_EXC_ERR);
  /* Requests posted behind the failed one, and receives that wait, are flushed. */
  uint64_t flushed = 0;
  for (int i = 0; i < 2; i++) {
    struct ibv_wc wc = rig_wait(&rig.a);
    assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
    flushed += wc.wr_id;
  }
  assert_int_equal(flushed, 2 + 7);
  assert_int_equal(rig_counter("lost_fault"), lost + 1 + near.retry_cnt);
  rig_close(&rig);
}

static void the_third_is_dropped(void **state)
{
  (void)state;
  struct rig rig;
  struct rig_how how = near;
  how.retry_cnt = 0;
  rig_open(&rig, &how);
  rig_ctl("drop --after 2 --count 1");
  assert_int_equal(rig_send(&rig), IBV_WC_SUCCESS);
  assert_int_equal(rig_send(&rig), IBV_WC_SUCCESS);
  assert_int_equal(rig_send(&rig), IBV_WC_RETRY_EXC_ERR);
  rig_close(&rig);
}

static void a_share_is_dropped(void **state)
{
  (void)state;
  enum { MESSAGES = 200 };
  struct rig rig;
  struct rig_how how = near;
  how.retry_cnt = 7;
  rig_open(&rig, &how);
  uint64_t lost = rig_counter("lost_fault");
  rig_ctl("drop --share 10%");
  for (int i = 0; i < MESSAGES; i++)
    assert_int_equal(rig_send(&rig), IBV_WC_SUCCESS);
  lost = rig_counter("lost_fault") - lost;
  /* 22 are expected; one in a million million runs has none or 70. */
  assert_in_range(lost, 1, 70);
  rig_close(&rig);
}

static void one_queue_pairs_are_dropped(void **state)
{
  (void)state;
  struct rig hit, spared;
  char words[64];
  rig_open(&hit, &near);
  rig_open(&spared, &near);
  snprintf(words, sizeof(words), "drop --qp 0x%x", hit.a.qp->qp_num);
  rig_ctl(words);
  assert_int_equal(rig_send(&spared), IBV_WC_SUCCESS);
  assert_int_equal(rig_send(&hit), IBV_WC_RETRY_EXC_ERR);
  rig_close(&hit);
  rig_close(&spared);
}

static void receiver_is_not_ready(void **state)
{
  (void)state;
  struct rig rig;
  struct rig_how how = near;
  how.rnr_retry = 2;
  how.min_rnr_timer = 1;
  rig_open(&rig, &how);
  uint64_t naks = rig_counter("rnr_naks");
  rig_ctl("rnr h/east0");
  assert_int_equal(rig_send(&rig), IBV_WC_SUCCESS);
  assert_int_equal(rig_counter("rnr_naks"), naks);
  rig_ctl("rnr h/west1 --count 2");
  assert_int_equal(rig_send(&rig), IBV_WC_SUCCESS);
  assert_int_equal(rig_counter("rnr_naks"), naks + 2);
  rig_ctl("rnr h/west1");
  assert_int_equal(rig_send(&rig), IBV_WC_RNR_RETRY_EXC_ERR);
  assert_int_equal(rig_counter("rnr_naks"), naks + 5);
  rig_close(&rig);
}

static int registration_errno(struct ibv_pd *pd)
{
  static char bytes[4096];
  errno = 0;
  struct ibv_mr *mr = ibv_reg_mr(pd, bytes, sizeof(bytes), IBV_ACCESS_LOCAL_WRITE);
  int error = errno;
  if (!mr)
    return error;
  assert_int_equal(ibv_dereg_mr(mr), 0);
  return 0;
}

static void registration_is_refused(void **state)
{
  (void)state;
  struct rig_end west, east;
  rig_end_open(&west, "west0");
  rig_end_open(&east, "east0");
  rig_ctl("refuse-registration h/west0 --after 1 --count 2");
  rig_ctl("refuse-registration h/east0 --error EFAULT --count 1");
  assert_int_equal(registration_errno(west.pd), 0);
  assert_int_equal(registration_errno(west.pd), ENOMEM);
  assert_int_equal(registration_errno(east.pd), EFAULT);
  assert_int_equal(registration_errno(west.pd), ENOMEM);
  assert_int_equal(registration_errno(west.pd), 0);
  assert_int_equal(registration_errno(east.pd), 0);
  rig_end_close(&west);
  rig_end_close(&east);
}

static int dmabuf_errno(struct ibv_pd *pd, int fd)
{
  struct ibv_mr *mr = ibv_reg_dmabuf_mr(pd, 0, 4096, 0, fd, IBV_ACCESS_LOCAL_WRITE);
  int error = errno;
  if (!mr)
    return error;
  assert_int_equal(ibv_dereg_mr(mr), 0);
  return 0;
}

static void dmabuf_is_refused(void **state)
{
  (void)state;
  struct rig_end end;
  int fd = memfd_create("dmabuf", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  assert_true(fd >= 0);
  assert_int_equal(ftruncate(fd, 4096), 0);
  assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  rig_end_open(&end, "west0");
  assert_int_equal(dmabuf_errno(end.pd, fd), 0);
  rig_ctl("refuse-dmabuf h --count 1");
  rig_ctl("refuse-dmabuf h --error EINVAL --count 1");
  assert_int_equal(dmabuf_errno(end.pd, fd), EOPNOTSUPP);
  assert_int_equal(dmabuf_errno(end.pd, fd), EINVAL);
  assert_int_equal(dmabuf_errno(end.pd, fd), 0);
  assert_int_equal(registration_errno(end.pd), 0);
  rig_end_close(&end);
  close(fd);
}

static enum ibv_port_state port_state(const struct rig_end *end)
{
  struct ibv_port_attr attr;
  assert_int_equal(ibv_query_port(end->context, 1, &attr), 0);
  return attr.state;
}

static bool has_event(const struct rig_end *end)
{
  struct pollfd look = {.fd = end->context->async_fd, .events = POLLIN};
  return poll(&look, 1, 0) == 1;
}

static void port_goes_down_after_messages(void **state)
{
  (void)state;
  struct rig rig;
  rig_open(&rig, &near);
  rig_ctl("port-down h/west1/1 --after 3 --from h/west0");
  for (int i = 0; i < 3; i++)
    assert_int_equal(rig_send(&rig), IBV_WC_SUCCESS);
  assert_int_equal(port_state(&rig.b), IBV_PORT_ACTIVE);
  uint64_t lost = rig_counter("lost_port_down");
  assert_int_equal(rig_send(&rig), IBV_WC_RETRY_EXC_ERR);
  assert_int_equal(rig_counter("lost_port_down"), lost + 1 + near.retry_cnt);
  assert_int_equal(rig_event(rig.b.context), IBV_EVENT_PORT_ERR);
  assert_int_equal(port_state(&rig.b), IBV_PORT_DOWN);
  assert_int_equal(port_state(&rig.a), IBV_PORT_ACTIVE);
  rig_ctl("port-up h/west1");
  assert_int_equal(rig_event(rig.b.context), IBV_EVENT_PORT_ACTIVE);
  assert_int_equal(port_state(&rig.b), IBV_PORT_ACTIVE);
  assert_false(has_event(&rig.a));
  rig_close(&rig);
}

static void peer_is_lost(void **state)
{
  (void)state;
  struct rig rig;
  rig_open(&rig, &near);
  rig_ctl("lose-peer h/west1");
  uint64_t lost = rig_counter("lost_fault");
  assert_int_equal(rig_send(&rig), IBV_WC_RETRY_EXC_ERR);
  assert_int_equal(rig_counter("lost_fault"), lost + 1 + near.retry_cnt);
  /* No event is raised. */
  assert_int_equal(port_state(&rig.b), IBV_PORT_ACTIVE);
  assert_false(has_event(&rig.a));
  assert_false(has_event(&rig.b));
  rig_close(&rig);
  rig_ctl("restore-peer h/west1");
  rig_open(&rig, &near);
  assert_int_equal(rig_send(&rig), IBV_WC_SUCCESS);
  rig_close(&rig);
}

static void queue_pair_fails(void **state)
{
  (void)state;
  struct rig rig;
  rig_open(&rig, &near);
  rig_ctl("qp-error --from h/west0 --after 1 --count 1");
  assert_int_equal(rig_send(&rig), IBV_WC_SUCCESS);
  assert_int_equal(rig_send(&rig), IBV_WC_WR_FLUSH_ERR);
  assert_int_equal(rig_event(rig.a.context), IBV_EVENT_QP_FATAL);
  rig_close(&rig);
}

static void completion_queue_fails(void **state)
{
  (void)state;
  struct rig rig;
  rig_open(&rig, &near);
  rig_ctl("cq-error --from h/west0");
  rig_post_send(&rig.a, 6, 8);
  assert_int_equal(rig_event(rig.a.context), IBV_EVENT_CQ_ERR);
  assert_int_equal(rig_event(rig.a.context), IBV_EVENT_QP_FATAL);
  struct ibv_wc wc;
  assert_int_equal(ibv_poll_cq(rig.a.qp->send_cq, 1, &wc), 0);
  rig_close(&rig);
}

/* Each as often as it was planted, by every context of the device, and nothing changes. */
static void port_reports_events(void **state)
{
  (void)state;
  struct rig rig;
  rig_open(&rig, &near);
  struct ibv_context *other = rig_device("west1");
  static const struct {
    const char *action;
    enum ibv_event_type type;
  } all[] = {
      {"port-event h/west1/1 --event lid-change", IBV_EVENT_LID_CHANGE},
      {"port-event h/west1 --event pkey-change", IBV_EVENT_PKEY_CHANGE},
      {"port-event h/west1 --event sm-change", IBV_EVENT_SM_CHANGE},
      {"port-event h/west1/1 --event client-reregister", IBV_EVENT_CLIENT_REREGISTER},
      {"port-event h/west1/1 --event gid-change", IBV_EVENT_GID_CHANGE},
      {"port-event h/west1/1 --event gid-change", IBV_EVENT_GID_CHANGE},
      {"port-event h/west1/1 --event unknown", 31},
  };
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
    rig_ctl(all[i].action);
    assert_int_equal(rig_event(rig.b.context), all[i].type);
    assert_int_equal(rig_event(other), all[i].type);
  }
  assert_false(has_event(&rig.a));
  assert_int_equal(rig_send(&rig), IBV_WC_SUCCESS);
  rig_ctl("port-event h/west1/1 --event sm-change --after 1 --from h/west0");
  assert_int_equal(rig_send(&rig), IBV_WC_SUCCESS);
  assert_false(has_event(&rig.b));
  assert_int_equal(rig_send(&rig), IBV_WC_SUCCESS);
  assert_int_equal(rig_event(rig.b.context), IBV_EVENT_SM_CHANGE);
  ibv_close_device(other);
  rig_close(&rig);
  /* A device that is opened later gets no event. */
  rig_open(&rig, &near);
  assert_false(has_event(&rig.b));
  rig_close(&rig);
}

/* When the event comes, the port's attributes have changed, and its old address reaches nobody. */
static void port_has_another_address(void **state)
{
  (void)state;
  struct rig rig;
  struct ibv_port_attr port;
  union ibv_gid gid;
  const union ibv_gid other = {.raw = {[10] = 0xff, 0xff, 10, 1, 0, 77}};
  rig_open(&rig, &near);
  assert_int_equal(rig_send(&rig), IBV_WC_SUCCESS);
  rig_ctl("port-set h/west1/1 --mtu 512");
  assert_int_equal(ibv_query_port(rig.b.context, 1, &port), 0);
  assert_int_equal(port.active_mtu, IBV_MTU_512);
  rig_ctl("port-set h/west1/1 --mtu 4096");
  rig_ctl("port-set h/west1/1 --gid ::ffff:10.1.0.77 --index 3");
  assert_int_equal(rig_event(rig.b.context), IBV_EVENT_GID_CHANGE);
  assert_int_equal(ibv_query_gid(rig.b.context, 1, 3, &gid), 0);
  assert_memory_equal(&gid, &other, sizeof(gid));
  assert_int_equal(rig_send(&rig), IBV_WC_RETRY_EXC_ERR);
  rig_close(&rig);
  rig_open(&rig, &near);
  assert_int_equal(rig_send(&rig), IBV_WC_SUCCESS);
  rig_ctl("port-set h/west1/1 --gid ::ffff:10.1.0.2 --index 3");
  rig_close(&rig);
}

static void queue_pair_reports_events(void **state)
{
  (void)state;
  struct rig rig;
  rig_open(&rig, &near);
  rig_ctl("qp-event --from h/west0 --event path-mig --after 1 --count 1");
  assert_int_equal(rig_send(&rig), IBV_WC_SUCCESS);
  assert_false(has_event(&rig.a));
  assert_int_equal(rig_send(&rig), IBV_WC_SUCCESS);
  assert_int_equal(rig_event(rig.a.context), IBV_EVENT_PATH_MIG);
  rig_ctl("qp-event --event path-mig-err --count 1");
  assert_int_equal(rig_send(&rig), IBV_WC_SUCCESS);
  assert_int_equal(rig_event(rig.a.context), IBV_EVENT_PATH_MIG_ERR);
  assert_false(has_event(&rig.b));
  rig_close(&rig);
}

static void device_is_removed(void **state)
{
  (void)state;
  struct rig rig;
  rig_open(&rig, &near);
  rig_post_recv(&rig.b, 5, 8);
  rig_ctl("remove-device h/west1");
  enum ibv_event_type event;
  while ((event = rig_event(rig.b.context)) == IBV_EVENT_PORT_ERR)
    ;
  assert_int_equal(event, IBV_EVENT_DEVICE_FATAL);
  struct ibv_wc wc = rig_wait(&rig.b);
  assert_int_equal(wc.wr_id, 5);
  assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
  rig_post_send(&rig.a, 6, 8);
  wc = rig_wait(&rig.a);
  assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
  assert_null(rig_device("west1"));
  rig_close(&rig);
  rig_ctl("restore-device h/west1");
  rig_open(&rig, &near);
  assert_int_equal(rig_send(&rig), IBV_WC_SUCCESS);
  rig_close(&rig);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(some_are_dropped, clear),
      cmocka_unit_test_teardown(all_are_dropped, clear),
      cmocka_unit_test_teardown(the_third_is_dropped, clear),
      cmocka_unit_test_teardown(a_share_is_dropped, clear),
      cmocka_unit_test_teardown(one_queue_pairs_are_dropped, clear),
      cmocka_unit_test_teardown(receiver_is_not_ready, clear),
      cmocka_unit_test_teardown(registration_is_refused, clear),
      cmocka_unit_test_teardown(dmabuf_is_refused, clear),
      cmocka_unit_test_teardown(port_goes_down_after_messages, clear),
      cmocka_unit_test_teardown(peer_is_lost, clear),
      cmocka_unit_test_teardown(queue_pair_fails, clear),
      cmocka_unit_test_teardown(completion_queue_fails, clear),
      cmocka_unit_test_teardown(port_reports_events, clear),
      cmocka_unit_test_teardown(port_has_another_address, clear),
      cmocka_unit_test_teardown(queue_pair_reports_events, clear),
      cmocka_unit_test_teardown(device_is_removed, clear),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
