/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of udp. */
#include "support.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <linux/errqueue.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <unistd.h>

struct kernel kernel;
struct rig rig;
struct pst_completion polled[64];

/* ---- The kernel ---------------------------------------------------------------------------- */

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t length);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *length);
int __real_getsockopt(int fd, int level, int name, void *value, socklen_t *length);
int __wrap_bind(int fd, const struct sockaddr *address, socklen_t length);
int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *length);
int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length);
int __wrap_recvmmsg(int fd, struct mmsghdr *vector, unsigned int n, int flags,
                    struct timespec *timeout);
int __wrap_sendmmsg(int fd, struct mmsghdr *vector, unsigned int n, int flags);
int __wrap_getifaddrs(struct ifaddrs **all);
void __wrap_freeifaddrs(struct ifaddrs *all);
unsigned int __wrap_if_nametoindex(const char *name);
FILE *__wrap_fopen64(const char *path, const char *mode);
FILE *__real_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);

FILE *__wrap_fopen64(const char *path, const char *mode)
{
  static char text[256];

  if (strncmp(path, "/proc/net/snmp", 14) != 0)
    return __real_fopen64(path, mode);
  snprintf(text, sizeof(text),
           path[14] ? "Udp6InCsumErrors %lu\nUdp6RcvbufErrors %lu\n"
                    : "Udp: InCsumErrors RcvbufErrors\nUdp: %lu %lu\n",
           kernel.bad_sums, kernel.full);
  return fmemopen(text, strlen(text), "r");
}

FILE *__wrap_fopen(const char *path, const char *mode)
{
  return __wrap_fopen64(path, mode);
}

static struct call *note(const char *what)
{
  struct call *call = &kernel.calls[kernel.call_count++];
  assert_true(kernel.call_count <= CALLS_MAX);
  *call = (struct call){.what = what};
  return call;
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t length)
{
  struct call *call = note("setsockopt");
  (void)fd;
  call->level = level;
  call->name = name;
  if (length == sizeof(int))
    memcpy(&call->value, value, sizeof(int));
  if (kernel.refused_errno && level == kernel.refused_level && name == kernel.refused_name) {
    errno = kernel.refused_errno;
    return -1;
  }
  return 0;
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *length)
{
  if (level == SOL_SOCKET && (name == SO_RCVBUF || name == SO_SNDBUF)) {
    int doubled = 2 * kernel.buffer;
    memcpy(value, &doubled, sizeof(doubled));
    return 0;
  }
  if (level == SOL_SOCKET && name == SO_MEMINFO) {
    ((uint32_t *)value)[SK_MEMINFO_DROPS] = kernel.drops;
    return 0;
  }
  if (level == IPPROTO_IP && name == IP_MTU) {
    memcpy(value, &kernel.mtu, sizeof(kernel.mtu));
    return 0;
  }
  return __real_getsockopt(fd, level, name, value, length);
}

int __wrap_bind(int fd, const struct sockaddr *address, socklen_t length)
{
  (void)fd;
  memcpy(&note("bind")->address, address, length);
  errno = kernel.bind_errno;
  return kernel.bind_errno ? -1 : 0;
}

int __wrap_getsockname(int fd, struct sockaddr *address, socklen_t *length)
{
  (void)fd;
  for (uint32_t i = 0; i < kernel.call_count; i++)
    if (strcmp(kernel.calls[i].what, "bind") == 0) {
      union dg_address bound = kernel.calls[i].address;
      if (dg_address_port(&bound) == 0)
        dg_address_port_set(&bound, 40000); /* the kernel's choice */
      memcpy(address, &bound, dg_address_length(&bound));
      *length = dg_address_length(&bound);
    }
  return 0;
}

int __wrap_connect(int fd, const struct sockaddr *address, socklen_t length)
{
  (void)fd;
  memcpy(&note("connect")->address, address, length);
  errno = kernel.connect_errno;
  return kernel.connect_errno ? -1 : 0;
}

static void put_control(struct msghdr *header, const struct arrival *arrival)
{
  int size = (int)arrival->segment;
  size_t room = header->msg_controllen;
  memset(header->msg_control, 0, room);
  struct cmsghdr *c = CMSG_FIRSTHDR(header);
  size_t used = 0;
  if (size) {
    *c = (struct cmsghdr){CMSG_LEN(sizeof(size)), SOL_UDP, UDP_GRO};
    memcpy(CMSG_DATA(c), &size, sizeof(size));
    used += CMSG_SPACE(sizeof(size));
    c = (struct cmsghdr *)((uint8_t *)header->msg_control + used);
  }
  if (arrival->has_drops) {
    *c = (struct cmsghdr){CMSG_LEN(sizeof(arrival->drops)), SOL_SOCKET, SO_RXQ_OVFL};
    memcpy(CMSG_DATA(c), &arrival->drops, sizeof(arrival->drops));
    used += CMSG_SPACE(sizeof(arrival->drops));
    c = (struct cmsghdr *)((uint8_t *)header->msg_control + used);
  }
  if (arrival->stamp) {
    const struct scm_timestamping times = {{{.tv_sec = (time_t)(arrival->stamp / 1000000000u),
                                             .tv_nsec = (long)(arrival->stamp % 1000000000u)}}};
    *c = (struct cmsghdr){CMSG_LEN(sizeof(times)), SOL_SOCKET, SO_TIMESTAMPING};
    memcpy(CMSG_DATA(c), &times, sizeof(times));
    used += CMSG_SPACE(sizeof(times));
  }
  header->msg_controllen = used;
}

/* As the kernel scatters: each part is filled before the next; what has no room is cut off. */
static void scatter(struct mmsghdr *vector, const struct arrival *arrival)
{
  struct msghdr *header = &vector->msg_hdr;
  uint32_t done = 0;
  for (size_t i = 0; i < header->msg_iovlen && done < arrival->length; i++) {
    size_t left = arrival->length - done;
    size_t n = left < header->msg_iov[i].iov_len ? left : header->msg_iov[i].iov_len;
    memcpy(header->msg_iov[i].iov_base, arrival->wire + done, n);
    done += (uint32_t)n;
  }
  vector->msg_len = done;
  header->msg_flags = done < arrival->length ? MSG_TRUNC : 0;
  put_control(header, arrival);
  inet_pton(AF_INET, "192.0.2.9", &((struct sockaddr_in *)header->msg_name)->sin_addr);
  ((struct sockaddr_in *)header->msg_name)->sin_family = AF_INET;
  ((struct sockaddr_in *)header->msg_name)->sin_port = htons(5000);
}

int __wrap_recvmmsg(int fd, struct mmsghdr *vector, unsigned int n, int flags,
                    struct timespec *timeout)
{
  unsigned int given = 0;
  (void)fd, (void)timeout;
  assert_int_equal(flags, MSG_DONTWAIT);
  kernel.asked = n;
  while (given < n && kernel.arrived < kernel.arrival_count)
    scatter(&vector[given++], &kernel.arrivals[kernel.arrived++]);
  errno = EAGAIN;
  return given ? (int)given : -1;
}

static void gather(const struct msghdr *header, struct sent *sent)
{
  *sent = (struct sent){0};
  for (size_t i = 0; i < header->msg_iovlen; i++) {
    assert_true(sent->length + header->msg_iov[i].iov_len <= sizeof(sent->wire));
    memcpy(sent->wire + sent->length, header->msg_iov[i].iov_base, header->msg_iov[i].iov_len);
    sent->length += (uint32_t)header->msg_iov[i].iov_len;
  }
  struct msghdr copy = *header;
  for (struct cmsghdr *c = CMSG_FIRSTHDR(&copy); c; c = CMSG_NXTHDR(&copy, c)) {
    uint16_t segment;
    if (c->cmsg_level == SOL_UDP && c->cmsg_type == UDP_SEGMENT) {
      memcpy(&segment, CMSG_DATA(c), sizeof(segment));
      sent->segment = segment;
    } else {
      assert_true(c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TXTIME);
      memcpy(&sent->time, CMSG_DATA(c), sizeof(sent->time));
    }
  }
}

int __wrap_sendmmsg(int fd, struct mmsghdr *vector, unsigned int n, int flags)
{
  (void)fd;
  assert_int_equal(flags, MSG_DONTWAIT | MSG_NOSIGNAL);
  assert_in_range(n, 1, UDP_SEND_BUFFERS);
  int error = kernel.send_error < 16 ? kernel.send_errors[kernel.send_error++] : 0;
  if (error) {
    errno = error;
    return -1;
  }
  n = n < kernel.buffers_max ? n : kernel.buffers_max;
  for (unsigned int i = 0; i < n; i++) {
    assert_true(kernel.sent_count < SENT_MAX);
    gather(&vector[i].msg_hdr, &kernel.sent[kernel.sent_count++]);
  }
  return (int)n;
}

/* ---- This host's interfaces ------------------------------------------------------------------ */

static const struct {
  const char *name, *address, *mask;
  bool is_down, is_loopback;
} own[] = {
    {"lo", "127.0.0.1", "255.0.0.0", false, true},
    {"lo", "::1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", false, true},
    {"eth0", "192.0.2.1", "255.255.255.0", false, false},
    {"eth0", "2001:db8::1", "ffff:ffff:ffff:ffff::", false, false},
    {"eth1", "fe80::5", "ffff:ffff:ffff:ffff::", false, false},
    {"eth1", "2001:db8:1::5", "ffff:ffff:ffff:ffff::", false, false},
    {"down0", "198.51.100.1", "255.255.255.0", true, false},
    {"lo", "198.51.100.77", "255.255.255.255", false, true},
};
#define OWN (sizeof(own) / sizeof(own[0]))

static struct ifaddrs links[OWN + 1];
static union dg_address addresses[OWN], masks[OWN];

int __wrap_getifaddrs(struct ifaddrs **all)
{
  char zone[DG_ZONE_MAX];
  links[OWN] = (struct ifaddrs){.ifa_name = (char *)(uintptr_t) "tun0", .ifa_flags = IFF_UP};
  for (size_t i = 0; i < OWN; i++) {
    assert_true(dg_address_read(own[i].address, &addresses[i], zone));
    assert_true(dg_address_read(own[i].mask, &masks[i], zone));
    links[i] = (struct ifaddrs){.ifa_next = &links[i + 1],
                                .ifa_name = (char *)(uintptr_t)own[i].name,
                                .ifa_flags = (own[i].is_down ? 0u : IFF_UP) |
                                             (own[i].is_loopback ? IFF_LOOPBACK : 0u),
                                .ifa_addr = &addresses[i].any,
                                .ifa_netmask = &masks[i].any};
  }
  *all = links;
  return 0;
}

void __wrap_freeifaddrs(struct ifaddrs *all)
{
  assert_true(!all || all == links);
}

unsigned int __wrap_if_nametoindex(const char *name)
{
  static const char *const names[] = {"lo", "eth0", "eth1", "down0"};
  for (unsigned int i = 0; i < 4; i++)
    if (strcmp(names[i], name) == 0)
      return i + 1;
  return 0;
}

/* ---- The transport -----------------------------------------------------------------------------
 */

int reset(void **state)
{
  (void)state;
  memset(&kernel, 0, sizeof(kernel));
  kernel.buffers_max = UDP_SEND_BUFFERS;
  kernel.buffer = 1 << 20;
  kernel.mtu = 1500;
  memset(&rig, 0, sizeof(rig));
  fake_log_clear();
  fake_clock_ns = 1000000000;
  return 0;
}

int teardown(void **state)
{
  (void)state;
  udp_worker_close(rig.worker);
  if (rig.mr)
    pst_cpu_mr_deregister(rig.device, rig.mr);
  udp_close(rig.device);
  return 0;
}

int open_device(const struct fake_option *options, uint32_t flags, const char *local_address)
{
  const struct pst_plan plan = {.struct_size = sizeof(plan), .flags = flags};
  const struct pst_open_params params = {.struct_size = sizeof(params),
                                         .options = FAKE_OPTIONS(options),
                                         .plan = &plan,
                                         .local_address = local_address};
  return udp_open(&fake_host, &params, &rig.device);
}

static void open_worker(const struct fake_option *options)
{
  struct pst_region region = {
      .struct_size = sizeof(region), .host = rig.memory, .length = sizeof(rig.memory)};
  const struct pst_mr_params params = {.struct_size = sizeof(params),
                                       .access = PST_ACCESS_LOCAL_READ | PST_ACCESS_LOCAL_WRITE |
                                                 PST_ACCESS_RING,
                                       .region = &region,
                                       .length = sizeof(rig.memory)};
  if (!rig.device)
    assert_int_equal(open_device(options, 0, NULL), 0);
  assert_int_equal(udp_worker_open(rig.device, 0, &rig.worker), 0);
  assert_int_equal(udp_mr_register(rig.device, &params, &rig.mr), 0);
}

int open_ring(uint32_t slots, struct pst_ring **ring)
{
  const struct pst_ring_params params = {.struct_size = sizeof(params),
                                         .slots = slots,
                                         .mr = rig.mr,
                                         .stride = STRIDE,
                                         .payload_max = PAYLOAD,
                                         .endpoints = 1};
  return udp_ring_open(rig.worker, &params, NULL, ring);
}

int open_sender(const struct fake_option *options)
{
  const struct pst_endpoint_params params = {.struct_size = sizeof(params),
                                             .roles = PST_ROLE_SENDER,
                                             .cookie = 7,
                                             .options = FAKE_OPTIONS(options),
                                             .label = "camera",
                                             .requests = 256,
                                             .pieces = 4,
                                             .message_max = PAYLOAD};
  if (!rig.worker)
    open_worker(options);
  return udp_endpoint_open(rig.worker, &params, &rig.endpoint);
}

int open_receiver(const struct fake_option *options)
{
  if (!rig.worker)
    open_worker(options);
  if (!rig.ring)
    assert_int_equal(open_ring(SLOTS, &rig.ring), 0);
  const struct pst_endpoint_params params = {.struct_size = sizeof(params),
                                             .roles = PST_ROLE_RECEIVER,
                                             .ring = rig.ring,
                                             .cookie = 7,
                                             .options = FAKE_OPTIONS(options),
                                             .label = "camera",
                                             .message_max = PAYLOAD};
  return udp_endpoint_open(rig.worker, &params, &rig.endpoint);
}

void setup_sender(const struct fake_option *options)
{
  assert_int_equal(open_sender(options), 0);
}

void setup_receiver(const struct fake_option *options)
{
  assert_int_equal(open_receiver(options), 0);
}

struct dg_blob peer_blob(bool is_receiver)
{
  return (struct dg_blob){.framing = DG_FRAMING_SEQUENCE,
                          .family = 4,
                          .is_receiver = is_receiver,
                          .count = 1,
                          .port = 5000,
                          .payload_type = 96,
                          .nonce = UINT64_C(0x0102030405060708),
                          .addresses = {{[10] = 0xff, [11] = 0xff, 192, 0, 2, 9}}};
}

int connect_blob(const struct dg_blob *blob)
{
  uint8_t bytes[DG_BLOB_BYTES];
  const struct pst_blob address = {
      .struct_size = sizeof(address), .length = sizeof(bytes), .bytes = bytes};
  dg_blob_write(blob, bytes);
  return udp_endpoint_connect(rig.endpoint, &address);
}

void connect_foreign(void)
{
  assert_int_equal(udp_endpoint_connect(rig.endpoint, NULL), 0);
  assert_int_equal(udp_poll(rig.worker, polled, 1), 1);
  assert_int_equal(polled[0].code, PST_EVENT_CONNECTED);
}

struct arrival *arrive(uint32_t number, uint32_t datagrams, uint32_t payload, uint32_t last_payload)
{
  struct arrival *arrival = &kernel.arrivals[kernel.arrival_count++];
  assert_true(kernel.arrival_count <= ARRIVALS_MAX);
  *arrival = (struct arrival){.segment = datagrams > 1 ? payload + 8 : 0};
  for (uint32_t i = 0; i < datagrams; i++) {
    uint8_t *at = arrival->wire + arrival->length;
    uint32_t length = i + 1 == datagrams ? last_payload : payload;
    assert_true(arrival->length + 8 + length <= sizeof(arrival->wire));
    memset(at + 8, (int)(number + i), length);
    const struct dg_header header = {.sequence = number + i,
                                     .checksum = dg_byte_sum(at + 8, length)};
    dg_write(DG_FRAMING_SEQUENCE, &header, at);
    arrival->length += 8 + length;
  }
  return arrival;
}

int poll_up_to(uint32_t max)
{
  return udp_poll(rig.worker, polled, max);
}

/* A foreign sender's numbers begin one turn up, so that late ones have room. */
void expect_message(int i, uint32_t number, uint32_t payload)
{
  const struct pst_completion *message = &polled[i];
  assert_int_equal(message->kind, PST_COMPLETION_MESSAGE);
  assert_int_equal(message->endpoint, 7);
  assert_int_equal(message->u.message.sequence & UINT32_MAX, number);
  assert_int_equal(message->u.message.length, payload);
  assert_true(message->u.message.offset + payload <= sizeof(rig.memory));
  for (uint32_t k = 0; k < payload; k++)
    assert_int_equal(rig.memory[message->u.message.offset + k], (uint8_t)number);
}

int release_token(uint64_t token)
{
  return udp_release(rig.worker, &token, 1);
}

void release_message(int i)
{
  assert_int_equal(release_token(polled[i].u.message.token), 0);
}

struct pst_request send_of(uint64_t sequence, uint64_t length)
{
  return (struct pst_request){.opcode = PST_OP_SEND,
                              .local.mr = rig.mr,
                              .arg.length = length,
                              .cookie = 1000 + sequence,
                              .u.send.sequence = sequence};
}

uint64_t counter(const char *name)
{
  struct pst_counter all[64];
  int n = udp_counters(rig.device, rig.worker, rig.endpoint, all, 64);
  assert_in_range(n, 1, 64);
  for (int i = 0; i < n; i++)
    if (strcmp(all[i].name, name) == 0)
      return all[i].value;
  fail_msg("no counter is named %s", name);
  return 0;
}

const struct call *option_set(int level, int name)
{
  const struct call *found = NULL;
  for (uint32_t i = 0; i < kernel.call_count; i++) {
    const struct call *call = &kernel.calls[i];
    if (strcmp(call->what, "setsockopt") != 0 || call->level != level || call->name != name)
      continue;
    assert_null(found);
    found = call;
  }
  return found;
}

uint32_t call_at(const struct call *call)
{
  assert_non_null(call);
  return (uint32_t)(call - kernel.calls);
}
