/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of a client: what its thread makes of packets that are none, come in a wrong order, or
 * name what is not there. */
#include "support.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

void __wrap_loader_defer_drain(const struct loader_plugin *plugin);

/* The transport has no deferred work. */
void __wrap_loader_defer_drain(const struct loader_plugin *plugin)
{
  (void)plugin;
}

static int sock; /* the client's end */
static struct share_client *client;
static struct pst_share_reply reply;
static struct {
  struct pst_share_request request;
  unsigned char bytes[PST_SHARE_BYTES + 64];
} packet;

/* ---- The client ------------------------------------------------------------------------------ */

static void begin_client(void)
{
  struct share_user *user;
  char why[SHARE_WHY_BYTES];
  int ends[2];

  assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  assert_int_equal(share_user_join(&router, geteuid(), &user, why, sizeof(why)), 0);
  sock = ends[0];
  assert_int_equal(share_client_start(&router, ends[1], getpid(), user), 0);
  client = router.clients;
  router.clients = client->next;
  router.expelled = 0;
}

static void end_client(void)
{
  shutdown(sock, SHUT_WR);
  share_client_join(client);
  close(sock);
}

static void prepare(uint32_t call)
{
  memset(&packet, 0, sizeof(packet));
  packet.request.version = PST_SHARE_VERSION;
  packet.request.call = call;
}

static void send_packet(size_t length, const int *fds, uint32_t fd_count)
{
  assert_int_equal(pst_share_send(sock, &packet, length, fds, fd_count), 0);
}

/* The router's answer; false: it has hung up. */
static bool receive(void)
{
  static struct {
    struct pst_share_reply reply;
    unsigned char bytes[PST_SHARE_BYTES];
  } in;
  int fds[PST_SHARE_FDS];
  uint32_t fd_count = 0;
  const int64_t got = pst_share_receive(sock, &in, sizeof(in), fds, &fd_count);

  for (uint32_t i = 0; i < fd_count; i++)
    close(fds[i]);
  if (got <= 0)
    return false;
  assert_int_equal(got, sizeof(in.reply) + in.reply.length);
  reply = in.reply;
  return true;
}

/* Sends `packet` and returns the answer's status. */
static int ask(void)
{
  send_packet(sizeof(packet.request) + packet.request.length, NULL, 0);
  assert_true(receive());
  return reply.status;
}

static int ask_for(uint32_t call, uint32_t worker, uint32_t object)
{
  prepare(call);
  packet.request.worker = worker;
  packet.request.object = object;
  return ask();
}

static int open_device(void)
{
  prepare(PST_SHARE_OPEN);
  packet.request.u.open.plan =
      (struct pst_plan){.struct_size = sizeof(struct pst_plan), .workers = 1, .message_max = 64};
  return ask();
}

/* The router hangs up, since the client broke a rule. */
static void assert_expels(const char *what)
{
  if (receive())
    fail_msg("%s is answered: %d %s", what, reply.status, reply.text);
  if (router.expelled != 1)
    fail_msg("%s: %lu clients were disconnected", what, (unsigned long)router.expelled);
}

/* Registers a memfd of the length, with what the caller has changed in `packet`. */
static int register_fd(int fd)
{
  send_packet(sizeof(packet.request), &fd, fd >= 0);
  assert_true(receive());
  return reply.status;
}

static int make_memory(size_t length, int seals)
{
  const int fd = memfd_create("client", MFD_CLOEXEC | MFD_ALLOW_SEALING);

  assert_int_equal(ftruncate(fd, (off_t)length), 0);
  assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
  return fd;
}

static void prepare_mr(uint64_t offset, uint64_t length)
{
  prepare(PST_SHARE_MR_REGISTER);
  packet.request.u.mr = (struct pst_share_mr){.length = length,
                                              .access = PST_ACCESS_LOCAL_READ |
                                                        PST_ACCESS_LOCAL_WRITE | PST_ACCESS_RING,
                                              .from = {.struct_size = sizeof(struct pst_export),
                                                       .kind = PST_EXPORT_FD,
                                                       .offset = offset,
                                                       .length = length}};
}

static uint32_t open_mr(void)
{
  const int fd = make_memory(8192, F_SEAL_SHRINK);

  prepare_mr(0, 8192);
  assert_int_equal(register_fd(fd), 0);
  close(fd);
  return reply.object;
}

static uint32_t open_worker(void)
{
  assert_int_equal(ask_for(PST_SHARE_WORKER_OPEN, 0, 0), 0);
  return reply.object;
}

static uint32_t open_endpoint(uint32_t worker)
{
  prepare(PST_SHARE_ENDPOINT_OPEN);
  packet.request.worker = worker;
  packet.request.u.endpoint = (struct pst_share_endpoint){
      .message_max = 64, .roles = PST_ROLE_SENDER | PST_ROLE_RMA, .requests = 4, .pieces = 2};
  assert_int_equal(ask(), 0);
  return reply.object;
}

/* ---- Packets --------------------------------------------------------------------------------- */

static void a_packet_of_a_wrong_size_ends_the_client(void **state)
{
  static const struct {
    size_t bytes;
    uint32_t length; /* that the request claims */
  } wrong[] = {
      {sizeof(packet.request) - 1, 0},
      {sizeof(packet.request) - 1, UINT32_MAX},
      {sizeof(packet.request) + 1, 0},
      {sizeof(packet.request), 1},
      {sizeof(packet.request) + 8, 16},
      {sizeof(packet.request) + PST_SHARE_BYTES + 1, PST_SHARE_BYTES + 1},
      {4, 0},
  };

  (void)state;
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    begin_client();
    prepare(PST_SHARE_OPEN);
    packet.request.length = wrong[i].length;
    send_packet(wrong[i].bytes, NULL, 0);
    assert_expels("a wrong size");
    end_client();
  }
}

static void another_version_is_refused_in_words(void **state)
{
  (void)state;
  for (size_t bytes = 4; bytes <= sizeof(packet.request); bytes += sizeof(packet.request) - 4) {
    begin_client();
    prepare(PST_SHARE_OPEN);
    packet.request.version = 77;
    send_packet(bytes, NULL, 0);
    assert_true(receive());
    assert_int_equal(reply.status, -EPROTONOSUPPORT);
    assert_non_null(strstr(reply.text, "the client 77"));
    assert_false(receive());
    end_client();
  }
}

static void nothing_comes_before_open(void **state)
{
  (void)state;
  for (uint32_t call = PST_SHARE_START; call <= PST_SHARE_DESCRIBE + 1; call++) {
    begin_client();
    prepare(call);
    send_packet(sizeof(packet.request), NULL, 0);
    assert_expels("a call before OPEN");
    end_client();
  }
}

static void a_device_is_opened_once(void **state)
{
  (void)state;
  begin_client();
  assert_int_equal(open_device(), 0);
  assert_int_equal(reply.u.limits.endpoints_max, ENDPOINTS); /* the class has fewer */
  assert_int_equal(reply.u.limits.workers_max, WORKERS);
  assert_int_equal(open_device(), -EALREADY);
  assert_int_equal(ask_for(PST_SHARE_START, 0, 0), 0);
  end_client();
}

static void unknown_calls_and_workers_end_the_client(void **state)
{
  static const uint32_t wrong[][2] = {{0, 1},
                                      {PST_SHARE_DESCRIBE + 1, 1},
                                      {UINT32_MAX, 1},
                                      {PST_SHARE_RING_OPEN, 0},
                                      {PST_SHARE_ENDPOINT_OPEN, 2},
                                      {PST_SHARE_DESCRIBE, SHARE_WORKERS_MAX + 1},
                                      {PST_SHARE_ENDPOINT_CLOSE, UINT32_MAX}};

  (void)state;
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    begin_client();
    assert_int_equal(open_device(), 0);
    open_worker();
    prepare(wrong[i][0]);
    packet.request.worker = wrong[i][1];
    send_packet(sizeof(packet.request), NULL, 0);
    assert_expels("an unknown call or worker");
    end_client();
  }
}

/* Whatever call they come with. */
static void descriptors_are_closed(void **state)
{
  (void)state;
  for (uint32_t call = 0; call <= PST_SHARE_DESCRIBE; call++) {
    int ends[2];
    char byte;
    begin_client();
    if (call > PST_SHARE_OPEN) {
      assert_int_equal(open_device(), 0);
      open_worker();
    }
    assert_int_equal(pipe(ends), 0);
    const int fds[PST_SHARE_FDS] = {ends[1], ends[1], ends[1], ends[1]};
    prepare(call);
    packet.request.worker = 1;
    send_packet(sizeof(packet.request), fds, PST_SHARE_FDS);
    close(ends[1]);
    end_client();
    assert_int_equal(read(ends[0], &byte, 1), 0); /* once nobody has the other end */
    close(ends[0]);
  }
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static void memory_that_breaks_a_rule_is_refused(void **state)
{
  const int sealed = make_memory(8192, F_SEAL_SHRINK), open_ended = make_memory(8192, F_SEAL_GROW);
  int ends[2];

  (void)state;
  assert_int_equal(pipe(ends), 0);
  begin_client();
  assert_int_equal(open_device(), 0);
  prepare_mr(0, 8192);
  assert_true(register_fd(-1) < 0);
  assert_true(register_fd(open_ended) < 0);
  assert_true(register_fd(ends[0]) < 0);
  assert_non_null(strstr(reply.text, "sealed against shrinking"));
  prepare_mr(0, 0);
  assert_true(register_fd(sealed) < 0);
  prepare_mr(0, 8193);
  assert_true(register_fd(sealed) < 0);
  prepare_mr(8192, 1);
  assert_true(register_fd(sealed) < 0);
  prepare_mr(UINT64_MAX - 4095, 4096);
  assert_true(register_fd(sealed) < 0);
  prepare_mr(0, BYTES + 1);
  assert_true(register_fd(sealed) < 0);
  assert_non_null(strstr(reply.text, "raise --bytes"));
  prepare_mr(0, 8192);
  packet.request.u.mr.from.length = 4096; /* another than the registration's */
  assert_true(register_fd(sealed) < 0);
  prepare_mr(0, 8192);
  packet.request.u.mr.from.kind = 0x4000;
  assert_true(register_fd(sealed) < 0);
  prepare_mr(0, 8192);
  packet.request.u.mr.from.kind = PST_EXPORT_VENDOR_FD; /* no memory plugin */
  memset(packet.request.u.mr.from.device, 'x', sizeof(packet.request.u.mr.from.device));
  assert_int_equal(register_fd(sealed), -EOPNOTSUPP);
  assert_int_equal(registered, 0);
  end_client();
  close(sealed);
  close(open_ended);
  close(ends[0]);
  close(ends[1]);
}

static void a_registration_ends_once(void **state)
{
  (void)state;
  for (uint32_t i = 0; i < 4; i++) {
    begin_client();
    assert_int_equal(open_device(), 0);
    const uint32_t number = open_mr();
    if (i == 3)
      assert_int_equal(ask_for(PST_SHARE_MR_DEREGISTER, 0, number), 0);
    prepare(PST_SHARE_MR_DEREGISTER);
    packet.request.object = i == 0 ? 0 : i == 1 ? number + 1 : i == 2 ? UINT32_MAX : number;
    send_packet(sizeof(packet.request), NULL, 0);
    assert_expels("memory that is not registered");
    end_client();
  }
}

static void regions_are_bounded(void **state)
{
  const int fd = make_memory(4096, F_SEAL_SHRINK);

  (void)state;
  begin_client();
  assert_int_equal(open_device(), 0);
  for (uint32_t i = 0; i < REGIONS; i++)
    open_mr();
  prepare_mr(0, 4096);
  assert_int_equal(register_fd(fd), -ENOSPC);
  assert_non_null(strstr(reply.text, "raise --regions"));
  assert_int_equal(router.regions, REGIONS);
  end_client();
  close(fd);
}

/* ---- Workers, rings, endpoints --------------------------------------------------------------- */

static int open_ring(uint32_t worker, uint32_t mr, uint32_t slots)
{
  prepare(PST_SHARE_RING_OPEN);
  packet.request.worker = worker;
  packet.request.u.ring = (struct pst_share_ring){
      .stride = 64, .payload_max = 64, .slots = slots, .mr = mr, .endpoints = 1};
  return ask();
}

static void workers_and_endpoints_are_bounded(void **state)
{
  (void)state;
  begin_client();
  assert_int_equal(open_device(), 0);
  const uint32_t worker = open_worker();
  assert_int_equal(ask_for(PST_SHARE_WORKER_OPEN, 0, 0), -ENOSPC); /* it is open */
  assert_int_equal(ask_for(PST_SHARE_WORKER_OPEN, 0, UINT32_MAX), -ENOSPC);
  assert_int_equal(ask_for(PST_SHARE_WORKER_OPEN, 0, WORKERS), -ENOSPC);
  assert_non_null(strstr(reply.text, "raise --workers"));
  for (uint32_t i = 0; i < ENDPOINTS; i++)
    open_endpoint(worker);
  prepare(PST_SHARE_ENDPOINT_OPEN);
  packet.request.worker = worker;
  assert_int_equal(ask(), -ENOSPC);
  assert_non_null(strstr(reply.text, "raise --endpoints"));
  end_client();
}

static void a_ring_lies_in_its_region(void **state)
{
  (void)state;
  begin_client();
  assert_int_equal(open_device(), 0);
  const uint32_t worker = open_worker(), mr = open_mr();
  assert_true(open_ring(worker, mr, 0) < 0);
  assert_true(open_ring(worker, mr, 8192 / 64 + 1) < 0);
  assert_int_equal(open_ring(worker, mr, UINT32_MAX), -ENOSPC);
  assert_int_equal(open_ring(worker, mr, 8192 / 64), 0);
  assert_int_equal(ask_for(PST_SHARE_RING_CLOSE, worker, reply.object), 0);
  open_ring(worker, mr, 1);
  prepare(PST_SHARE_MR_DEREGISTER); /* under the ring */
  packet.request.object = mr;
  send_packet(sizeof(packet.request), NULL, 0);
  assert_expels("a region that a ring uses");
  end_client();
}

static void numbers_that_are_stale_end_the_client(void **state)
{
  static const uint32_t calls[] = {PST_SHARE_RING_CLOSE, PST_SHARE_REMOTE_CLOSE,
                                   PST_SHARE_RING_OPEN, PST_SHARE_ENDPOINT_OPEN};

  (void)state;
  for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
    begin_client();
    assert_int_equal(open_device(), 0);
    const uint32_t worker = open_worker(), endpoint = open_endpoint(worker);
    prepare(calls[i]);
    packet.request.worker = worker;
    packet.request.object = calls[i] == PST_SHARE_REMOTE_CLOSE ? endpoint : 5;
    packet.request.remote = 5;
    if (calls[i] == PST_SHARE_RING_OPEN)
      packet.request.u.ring =
          (struct pst_share_ring){.stride = 64, .slots = 1, .mr = 5, .endpoints = 1};
    else if (calls[i] == PST_SHARE_ENDPOINT_OPEN)
      packet.request.u.endpoint =
          (struct pst_share_endpoint){.roles = PST_ROLE_RECEIVER, .ring = 5, .requests = 1};
    send_packet(sizeof(packet.request), NULL, 0);
    assert_expels("a stale number");
    end_client();
  }
}

static void an_endpoint_that_is_not_there_is_told(void **state)
{
  (void)state;
  begin_client();
  assert_int_equal(open_device(), 0);
  const uint32_t worker = open_worker(), endpoint = open_endpoint(worker);
  for (uint32_t call = PST_SHARE_ENDPOINT_ADDRESS; call <= PST_SHARE_DESCRIBE; call++) {
    const int missing = call == PST_SHARE_ENDPOINT_CLOSE ? -EALREADY : -ENOTCONN;
    prepare(call);
    packet.request.worker = worker;
    packet.request.object = endpoint + 1;
    packet.request.flag = PST_SHARE_OF_ENDPOINT;
    assert_int_equal(ask(), missing);
    packet.request.object = 0;
    assert_int_equal(ask(), missing);
  }
  prepare(PST_SHARE_ENDPOINT_CLOSE);
  packet.request.worker = worker;
  packet.request.object = endpoint;
  packet.request.u.close.mode = 77;
  assert_int_equal(ask(), -EINVAL);
  packet.request.u.close.mode = PST_CLOSE_ABORT;
  packet.request.u.close.deadline_ns = UINT64_MAX;
  assert_int_equal(ask(), 0);
  assert_int_equal(ask(), -EALREADY);
  end_client();
}

static void ranges_of_peers_are_bounded(void **state)
{
  (void)state;
  begin_client();
  assert_int_equal(open_device(), 0);
  const uint32_t worker = open_worker(), endpoint = open_endpoint(worker);
  prepare(PST_SHARE_REMOTE_OPEN);
  packet.request.worker = worker;
  packet.request.object = endpoint;
  packet.request.length = 7; /* no key of this transport */
  assert_int_equal(ask(), -EPROTO);
  packet.request.length = 8;
  for (uint32_t i = 0; i < REGIONS; i++)
    assert_int_equal(ask(), 0);
  assert_int_equal(ask(), -ENOSPC);
  assert_non_null(strstr(reply.text, "raise --regions"));
  end_client(); /* with all of them open */
}

/* Returns the descriptors that all clients hold. */
static uint64_t held_fds(void)
{
  pthread_mutex_lock(&router.lock);
  const uint64_t held = router.held[SHARE_FDS];
  pthread_mutex_unlock(&router.lock);
  return held;
}

static void what_a_user_may_not_hold_is_refused(void **state)
{
  const int fd = make_memory(4096, F_SEAL_SHRINK);

  (void)state;
  begin_client();
  assert_int_equal(open_device(), 0);
  const uint32_t worker = open_worker();
  const uint64_t held = held_fds();
  router.room[SHARE_FDS] = held; /* the client's threads wait for a request */
  prepare_mr(0, 4096);
  assert_int_equal(register_fd(fd), -ENOSPC);
  assert_non_null(strstr(reply.text, "no descriptors left"));
  assert_int_equal(ask_for(PST_SHARE_WORKER_OPEN, 0, 1), -ENOSPC);
  assert_int_equal(open_ring(worker, 1, 1), -ENOSPC);
  prepare(PST_SHARE_ENDPOINT_OPEN);
  packet.request.worker = worker;
  assert_int_equal(ask(), -ENOSPC);
  assert_non_null(strstr(reply.text, "raise `ulimit -n`"));
  assert_int_equal(held_fds(), held);
  end_client();
  close(fd);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, router_begin, router_end)
  const struct CMUnitTest cases[] = {
      CASE(a_packet_of_a_wrong_size_ends_the_client),
      CASE(another_version_is_refused_in_words),
      CASE(nothing_comes_before_open),
      CASE(a_device_is_opened_once),
      CASE(unknown_calls_and_workers_end_the_client),
      CASE(descriptors_are_closed),
      CASE(memory_that_breaks_a_rule_is_refused),
      CASE(a_registration_ends_once),
      CASE(regions_are_bounded),
      CASE(workers_and_endpoints_are_bounded),
      CASE(a_ring_lies_in_its_region),
      CASE(numbers_that_are_stale_end_the_client),
      CASE(an_endpoint_that_is_not_there_is_told),
      CASE(ranges_of_peers_are_bounded),
      CASE(what_a_user_may_not_hold_is_refused),
  };
  return cmocka_run_group_tests(cases, NULL, NULL);
}
