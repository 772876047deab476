/* SPDX-License-Identifier: Apache-2.0 */
/* The transport udp on scripted system calls: the test reads what a socket was set to, and says
 * what arrives. */
#ifndef TEST_UDP_SUPPORT_H
#define TEST_UDP_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "address.h"
#include "endpoint.h"
#include "fake_host.h"
#include "ops.h"
#include "receive.h"
#include "send.h"
#include "socket.h"
#include "worker.h"

#define SENT_MAX 4096u
#define CALLS_MAX 64u
#define ARRIVALS_MAX 16u

/* A buffer that recvmmsg() gives next. */
struct arrival {
  uint32_t length;  /* bytes of `wire` */
  uint32_t segment; /* UDP_GRO's; 0: none */
  uint32_t drops;   /* SO_RXQ_OVFL's */
  bool has_drops;
  uint64_t stamp; /* SO_TIMESTAMPING's, in ns; 0: none */
  uint8_t wire[4096];
};

/* One buffer that sendmmsg() took. */
struct sent {
  uint32_t length;
  uint32_t segment; /* UDP_SEGMENT's; 0: none */
  uint64_t time;    /* SCM_TXTIME's; 0: none */
  uint8_t wire[2048];
};

/* One setsockopt(), bind() or connect(), in order. */
struct call {
  const char *what;
  int level, name, value;
  union dg_address address;
};

struct kernel {
  struct arrival arrivals[ARRIVALS_MAX];
  uint32_t arrived, arrival_count;
  uint32_t asked; /* buffers that the last recvmmsg() laid ready */

  struct sent sent[SENT_MAX];
  uint32_t sent_count;
  uint32_t buffers_max; /* that one sendmmsg() takes */
  int send_errors[16];  /* of the next calls; 0: none */
  uint32_t send_error;

  struct call calls[CALLS_MAX];
  uint32_t call_count;
  int refused_level, refused_name, refused_errno; /* this setsockopt() fails */
  int bind_errno, connect_errno;
  int buffer;              /* bytes of both buffers, as getsockopt() tells them */
  uint32_t drops;          /* SO_MEMINFO's */
  uint64_t bad_sums, full; /* this host's, in /proc/net/snmp and snmp6 */
  int mtu;
};
extern struct kernel kernel;

/* Interfaces of this host: eth0 (index 2) has 192.0.2.1/24 and 2001:db8::1/64, eth1 (index 3)
 * fe80::5/64 and 2001:db8:1::5/64, lo (index 1) 127.0.0.1/8 and ::1/128; down0 is down. */

#define SLOTS 8u
#define STRIDE 256u
#define PAYLOAD 200u

struct rig {
  struct pst_device *device;
  struct pst_worker *worker;
  struct pst_mr *mr;
  struct pst_ring *ring;
  struct pst_endpoint *endpoint;
  uint8_t memory[SLOTS * STRIDE];
};
extern struct rig rig;

#define LIST(...)                                                                                  \
  (const struct fake_option[])                                                                     \
  {                                                                                                \
    __VA_ARGS__ __VA_OPT__(, )                                                                     \
    {                                                                                              \
      NULL, NULL                                                                                   \
    }                                                                                              \
  }

int reset(void **state);
int teardown(void **state);
int open_device(const struct fake_option *options, uint32_t flags, const char *local_address);
int open_ring(uint32_t slots, struct pst_ring **ring);
int open_sender(const struct fake_option *options);
int open_receiver(const struct fake_option *options);
/* Device, worker, endpoint; not connected yet. */
void setup_sender(const struct fake_option *options);
void setup_receiver(const struct fake_option *options);

/* The address that a peer with these values gives. */
struct dg_blob peer_blob(bool is_receiver);
int connect_blob(const struct dg_blob *blob);
/* Connected to a peer without Penstock, by the options. */
void connect_foreign(void);

/* Put a datagram, or several of `segment` bytes, before recvmmsg(). Each has the header of framing
 * `sequence` and numbers from `number` on, and payload bytes `number`. */
struct arrival *arrive(uint32_t number, uint32_t datagrams, uint32_t payload,
                       uint32_t last_payload);
extern struct pst_completion polled[64];
int poll_up_to(uint32_t max);
/* Message i of the last poll has this number and its bytes. */
void expect_message(int i, uint32_t number, uint32_t payload);
void release_message(int i);
int release_token(uint64_t token);

struct pst_request send_of(uint64_t sequence, uint64_t length);
uint64_t counter(const char *name);
/* The only setsockopt() of level and name; NULL: there was none. */
const struct call *option_set(int level, int name);
uint32_t call_at(const struct call *call);

#endif
