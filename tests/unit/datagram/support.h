/* SPDX-License-Identifier: Apache-2.0 */
/* A transport of datagrams without a medium: the test says what arrives and who is near. */
#ifndef TEST_DATAGRAM_SUPPORT_H
#define TEST_DATAGRAM_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "counters.h"
#include "fake_host.h"

#define SLOTS 4u
#define STRIDE 256u
#define HEADROOM 32u
#define PAYLOAD 100u

/* Its causes of loss. */
enum { MISSED = 0, FULL = 1 };

struct end {
  struct dg_endpoint dg;
  struct dg_receiver receiver;
  struct dg_sender sender;
  struct dg_device device;
  struct pst_cpu_ring ring;
  struct pst_places rings;
};
extern struct end end;

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
/* A device and an endpoint of it, at 192.0.2.1:40000; not connected yet. */
int open_end(uint32_t role, const struct fake_option *options);

/* The address that a peer with these values gives: at 192.0.2.9:5000. */
struct dg_blob peer_blob(bool is_receiver);
int connect_blob(const struct dg_blob *blob, const struct dg_reach *reach);

uint64_t counter(const char *name, const char *cause);
/* Those of the last counter() alone. */
extern uint32_t counter_count;

#endif
