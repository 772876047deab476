/* SPDX-License-Identifier: Apache-2.0 */
/* A worker with its endpoints: who hears of which event, what a lent region may be, how endpoints
 * close, and why one does not connect. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engine/worker.h"
#include "util/log.h"

static struct {
  char heard[16]; /* a letter for each event */
  struct engine_endpoint *endpoint;
  int status;
  uint64_t released;
  int answer;       /* of endpoint_connect and endpoint_close */
  const char *said; /* by the transport, as it does not connect */
  int closes, worker_closes;
  struct pst_completion queue[8];
  int queued;
  bool polls_one; /* at a time */
} world;

/* ---- The transport ------------------------------------------------------------------ */

static int fake_worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker)
{
  (void)device;
  *worker = (struct pst_worker *)(uintptr_t)(100 + index);
  return world.answer;
}

static int fake_event_fd(struct pst_worker *worker)
{
  return (int)(uintptr_t)worker;
}

static void fake_worker_close(struct pst_worker *worker)
{
  assert_ptr_equal(worker, (struct pst_worker *)(uintptr_t)100);
  world.worker_closes++;
}

static int fake_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                     struct pst_endpoint **endpoint)
{
  assert_ptr_equal(worker, (struct pst_worker *)(uintptr_t)100);
  *endpoint = (struct pst_endpoint *)(uintptr_t)params->cookie;
  return world.answer;
}

static int fake_address(struct pst_endpoint *endpoint, struct pst_blob *address)
{
  (void)endpoint;
  if (address->capacity < 4)
    return -EMSGSIZE;
  memcpy(address->bytes, "here", 4);
  address->length = 4;
  return 0;
}

static int fake_connect(struct pst_endpoint *endpoint, const struct pst_blob *address)
{
  (void)endpoint;
  (void)address;
  if (world.said)
    pst_log(PST_LOG_ERROR, "%s", world.said);
  return world.answer;
}

static int fake_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns)
{
  (void)endpoint;
  (void)mode;
  (void)deadline_ns;
  world.closes++;
  return world.answer;
}

static int fake_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max)
{
  const int n = world.polls_one && world.queued ? 1 : world.queued;

  (void)worker;
  assert_true((uint32_t)n <= max);
  memcpy(completions, world.queue, sizeof(world.queue[0]) * (size_t)n);
  world.queued -= n;
  memmove(world.queue, world.queue + n, sizeof(world.queue[0]) * (size_t)world.queued);
  return n;
}

static int fake_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n)
{
  (void)worker;
  assert_int_equal(n, 1);
  world.released = tokens[0];
  return 0;
}

/* ---- The owner ---------------------------------------------------------------------- */

static void hear(char letter, struct engine_endpoint *endpoint, int status)
{
  const size_t length = strlen(world.heard);

  assert_true(length + 1 < sizeof(world.heard));
  world.heard[length] = letter;
  world.endpoint = endpoint;
  world.status = status;
}

static void hear_connected(struct engine_endpoint *endpoint)
{
  hear('c', endpoint, 0);
}

static void hear_disconnected(struct engine_endpoint *endpoint, int status)
{
  hear('d', endpoint, status);
}

static void hear_readdressed(struct engine_endpoint *endpoint)
{
  hear('r', endpoint, 0);
}

static void hear_closed(struct engine_endpoint *endpoint)
{
  assert_int_equal(endpoint->state, ENGINE_ENDPOINT_CLOSED);
  hear('x', endpoint, 0);
}

static void hear_device_failed(struct engine_worker *worker, int status)
{
  (void)worker;
  hear('f', NULL, status);
}

static void hear_lent(struct engine_worker *worker, struct engine_lent *lent)
{
  (void)worker;
  lent->pinned = 5;
  hear('l', NULL, (int)lent->length);
}

static void hear_unlent(struct engine_worker *worker, const struct engine_lent *lent)
{
  (void)worker;
  assert_int_equal(lent->pinned, 5);
  hear('u', NULL, (int)lent->length);
}

static const struct pst_transport_ops ops = {.worker_open = fake_worker_open,
                                             .worker_close = fake_worker_close,
                                             .event_fd = fake_event_fd,
                                             .endpoint_open = fake_open,
                                             .endpoint_address = fake_address,
                                             .endpoint_connect = fake_connect,
                                             .endpoint_close = fake_close,
                                             .poll = fake_poll,
                                             .release = fake_release};
static const struct engine_events events = {.connected = hear_connected,
                                            .disconnected = hear_disconnected,
                                            .readdressed = hear_readdressed,
                                            .closed = hear_closed,
                                            .device_failed = hear_device_failed,
                                            .lent = hear_lent,
                                            .unlent = hear_unlent};
static const struct loader_plugin plugin = {.name = "pigeon"};
static struct engine engine;
static struct engine_device device;
static struct engine_worker worker;
static struct engine_endpoint endpoint;
static char page[64];

static int open_all(void **state)
{
  struct pst_endpoint_params params = {.label = "packets"};
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  memset(&world, 0, sizeof(world));
  memset(&worker, 0, sizeof(worker));
  memset(&endpoint, 0, sizeof(endpoint));
  device = (struct engine_device){.plugin = &plugin, .ops = &ops};
  assert_int_equal(engine_worker_open(&engine, &device, &events, &worker, &error), 0);
  assert_int_equal(engine_endpoint_open(&endpoint, &worker, &params), 0);
  assert_ptr_equal(endpoint.handle, &endpoint); /* by its cookie */
  assert_int_equal(worker.endpoints, 1);
  return 0;
}

static int close_all(void **state)
{
  (void)state;
  world.heard[0] = 0;
  engine_close_workers(&engine);
  assert_int_equal(world.worker_closes, 1);
  assert_int_equal(engine.worker_count, 0);
  return 0;
}

static struct pst_completion event_of(uint8_t code, int status)
{
  return (struct pst_completion){.kind = PST_COMPLETION_EVENT,
                                 .code = code,
                                 .status = status,
                                 .endpoint = (uint64_t)(uintptr_t)&endpoint};
}

static void tell(uint8_t code, int status)
{
  const struct pst_completion completion = event_of(code, status);

  engine_worker_take_event(&worker, &completion);
}

static void tell_lent(uint8_t code, uint32_t buffer, const struct pst_region *region)
{
  const struct pst_completion completion = {
      .kind = PST_COMPLETION_EVENT, .code = code, .u.region = {.buffer = buffer, .region = region}};

  engine_worker_take_event(&worker, &completion);
}

static struct pst_region region_of(uint32_t kind, const char *name, void *host, uint64_t address)
{
  struct pst_region region = {.struct_size = sizeof(region),
                              .kind = kind,
                              .host = host,
                              .address = address,
                              .length = sizeof(page)};

  snprintf(region.device, sizeof(region.device), "%s", name);
  return region;
}

/* ---- Workers and events ------------------------------------------------------------- */

static void a_worker_that_does_not_open_has_a_cause(void **state)
{
  struct pst_error error = PST_ERROR_INIT;
  struct engine_worker other = {.handle = NULL};

  (void)state;
  world.answer = -ENODEV;
  assert_int_equal(engine_worker_open(&engine, &device, &events, &other, &error), -ENODEV);
  assert_non_null(strstr(error.text, "transport pigeon cannot open worker 1"));
  assert_null(other.handle);
  assert_int_equal(engine.worker_count, 1);
  assert_int_equal(device.next_worker, 1);
}

static void only_a_worker_that_can_wake_has_a_descriptor(void **state)
{
  struct engine none = {.worker_count = 0};
  struct engine_worker other = {.handle = NULL};

  (void)state;
  assert_int_equal(worker.event_fd, -1);
  device.limits.capabilities = PST_CAP_WAKEUP;
  assert_int_equal(engine_worker_add(&none, &device, &events, worker.handle, &other), 0);
  assert_int_equal(other.event_fd, 100);
  free(none.workers);
}

static void each_event_reaches_its_owner(void **state)
{
  (void)state;
  tell(PST_EVENT_CONNECTED, 0);
  assert_ptr_equal(world.endpoint, &endpoint);
  tell(PST_EVENT_READDRESS, 0);
  tell(PST_EVENT_DISCONNECTED, -EPIPE);
  assert_int_equal(world.status, -EPIPE);
  tell(PST_EVENT_DEVICE, -EIO);
  assert_int_equal(world.status, -EIO);
  tell(99, 0); /* of a plugin that is newer */
  tell(PST_EVENT_CLOSED, 0);
  assert_string_equal(world.heard, "crdfx");
  assert_int_equal(worker.endpoints, 0);
}

/* ---- Lent regions ------------------------------------------------------------------- */

static bool takes(struct pst_region own, struct pst_region lent, bool is_copied)
{
  tell_lent(PST_EVENT_LENT, 3, &lent);
  assert_null(engine_lent_find(&worker, 2, &own, is_copied));
  assert_null(engine_lent_find(&worker, ENGINE_LENT_MAX, &own, is_copied));
  const struct pst_region *got = engine_lent_find(&worker, 3, &own, is_copied);
  assert_true(!got || got == &lent);
  tell_lent(PST_EVENT_UNLENT, 3, NULL);
  assert_null(engine_lent_find(&worker, 3, &own, is_copied));
  world.heard[0] = 0;
  memset(world.heard, 0, sizeof(world.heard));
  return got;
}

/* Its own kind and device, host memory that copies reach, and a device's that is mapped there at
 * the same address. */
static void lent_memory_is_of_the_kind_that_is_read(void **state)
{
  const struct pst_region host = region_of(PST_MEMORY_HOST, "", page, (uintptr_t)page);
  const struct pst_region gpu = region_of(PST_MEMORY_CUDA, "gpu0", NULL, 4096);
  const struct pst_region other = region_of(PST_MEMORY_CUDA, "gpu1", NULL, 4096);
  const struct pst_region mapped = region_of(PST_MEMORY_MAPPED, "gpu0", page, (uintptr_t)page);
  const struct pst_region elsewhere = region_of(PST_MEMORY_MAPPED, "gpu0", page, 4096);

  (void)state;
  assert_true(takes(host, host, false));
  assert_true(takes(gpu, gpu, false));
  assert_false(takes(gpu, other, false)); /* of the same kind, on another device */
  assert_false(takes(host, gpu, false));
  assert_false(takes(gpu, host, false));
  assert_true(takes(host, mapped, false));
  assert_false(takes(host, elsewhere, false));
  assert_false(takes(gpu, mapped, false));
  assert_false(takes(mapped, host, false)); /* not mapped for the device */

  assert_true(takes(gpu, host, true)); /* copied: from where the CPU reaches it */
  assert_true(takes(gpu, elsewhere, true));
  assert_true(takes(gpu, gpu, true));
  assert_false(takes(gpu, other, true));
  assert_false(takes(host, gpu, true));
  assert_true(takes(mapped, gpu, true)); /* two kinds of one device */
  assert_false(takes(mapped, other, true));
}

static void more_than_can_be_lent_is_refused(void **state)
{
  const struct pst_region host = region_of(PST_MEMORY_HOST, "", page, (uintptr_t)page);

  (void)state;
  pst_log_clear_error();
  tell_lent(PST_EVENT_LENT, 0, &host); /* the ring's own number */
  assert_non_null(strstr(pst_log_last_error(), "pigeon lends more than 255 regions"));
  tell_lent(PST_EVENT_LENT, ENGINE_LENT_MAX, &host);
  tell_lent(PST_EVENT_UNLENT, ENGINE_LENT_MAX, NULL);
  tell_lent(PST_EVENT_UNLENT, 7, NULL); /* never lent */
  assert_string_equal(world.heard, "");
  tell_lent(PST_EVENT_LENT, ENGINE_LENT_MAX - 1, &host);
  assert_string_equal(world.heard, "l");
}

static void what_is_lent_is_given_up_with_the_worker(void **state)
{
  struct pst_region host = region_of(PST_MEMORY_HOST, "", page, (uintptr_t)page);

  tell_lent(PST_EVENT_LENT, 9, &host);
  memset(&host, 0xff, sizeof(host)); /* it is the transport's, and gone */
  memset(world.heard, 0, sizeof(world.heard));
  engine_close_workers(&engine);
  assert_string_equal(world.heard, "u");
  assert_int_equal(world.status, sizeof(page));
  (void)state;
}

/* ---- Endpoints ---------------------------------------------------------------------- */

static void an_address_has_room_for_what_the_channel_carries(void **state)
{
  struct engine_address address;

  (void)state;
  assert_int_equal(engine_endpoint_address(&endpoint, &address), 0);
  assert_int_equal(address.blob.capacity, CONTROL_ADDRESS_MAX);
  assert_int_equal(address.blob.length, 4);
  assert_memory_equal(address.bytes, "here", 4);
}

static void why_an_endpoint_does_not_connect(void **state)
{
  struct engine_why why = {.is_logged = true};

  (void)state;
  assert_int_equal(engine_endpoint_connect(&endpoint, NULL, "node7", "take the train", &why), 0);
  assert_true(why.is_logged); /* untouched */
  world.answer = -EHOSTUNREACH;
  pst_log(PST_LOG_ERROR, "of something else, before");
  assert_int_equal(engine_endpoint_connect(&endpoint, NULL, "node7", "take the train", &why),
                   -EHOSTUNREACH);
  assert_false(why.is_logged);
  assert_string_equal(why.text,
                      "transport pigeon cannot reach node7: No route to host; take the train");
  world.said = "transport pigeon: no seed";
  assert_int_equal(engine_endpoint_connect(&endpoint, NULL, "node7", "take the train", &why),
                   -EHOSTUNREACH);
  assert_true(why.is_logged);
  assert_string_equal(why.text, world.said);
}

static void an_endpoint_is_closed_once(void **state)
{
  struct engine_endpoint none = {.worker = NULL};

  (void)state;
  engine_endpoint_close(&endpoint, PST_CLOSE_ABORT, 0);
  engine_endpoint_close(&endpoint, PST_CLOSE_ABORT, 0);
  engine_endpoint_close(&none, PST_CLOSE_ABORT, 0);
  assert_int_equal(world.closes, 1);
  assert_int_equal(endpoint.state, ENGINE_ENDPOINT_CLOSING);
  assert_int_equal(worker.endpoints, 1);
}

static void one_that_does_not_close_is_not_waited_for(void **state)
{
  (void)state;
  world.answer = -EIO; /* no CLOSED will come */
  engine_endpoint_close(&endpoint, PST_CLOSE_ABORT, 0);
  assert_int_equal(endpoint.state, ENGINE_ENDPOINT_CLOSED);
  assert_int_equal(worker.endpoints, 0);
  tell(PST_EVENT_CLOSED, 0); /* comes all the same */
  assert_int_equal(worker.endpoints, 0);
}

static void messages_go_back_while_endpoints_close(void **state)
{
  const struct pst_region host = region_of(PST_MEMORY_HOST, "", page, (uintptr_t)page);

  (void)state;
  tell_lent(PST_EVENT_LENT, 9, &host);
  engine_endpoint_close(&endpoint, PST_CLOSE_DRAIN, 0);
  world.queue[0] = event_of(PST_EVENT_CONNECTED, 0); /* too late for anybody */
  world.queue[1] = (struct pst_completion){.kind = PST_COMPLETION_MESSAGE, .u.message.token = 77};
  world.queue[2] = (struct pst_completion){.kind = PST_COMPLETION_DONE};
  world.queue[3] = event_of(PST_EVENT_UNLENT, 0);
  world.queue[3].u.region.buffer = 9;
  world.queue[4] = event_of(PST_EVENT_CLOSED, 0);
  world.queued = 5;
  assert_true(engine_await_closed(&engine, UINT64_MAX));
  assert_string_equal(world.heard, "lu");
  assert_int_equal(world.released, 77);
  assert_int_equal(endpoint.state, ENGINE_ENDPOINT_CLOSED);
}

static void an_endpoint_that_never_closes_is_given_up(void **state)
{
  (void)state;
  engine_endpoint_close(&endpoint, PST_CLOSE_ABORT, 0);
  assert_false(engine_await_closed(&engine, 0));
  assert_int_equal(endpoint.state, ENGINE_ENDPOINT_CLOSING);
}

/* The time is over when the first one closes, and the second gets more. */
static void those_that_close_one_by_one_are_waited_for(void **state)
{
  struct pst_endpoint_params params = {.label = "others"};
  struct engine_endpoint other = {0};

  (void)state;
  assert_int_equal(engine_endpoint_open(&other, &worker, &params), 0);
  engine_endpoint_close(&endpoint, PST_CLOSE_ABORT, 0);
  engine_endpoint_close(&other, PST_CLOSE_ABORT, 0);
  world.queue[0] = world.queue[1] = event_of(PST_EVENT_CLOSED, 0);
  world.queue[1].endpoint = (uint64_t)(uintptr_t)&other;
  world.queued = 2;
  world.polls_one = true;
  assert_true(engine_await_closed(&engine, 0));
  assert_int_equal(worker.endpoints, 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_all, close_all)

int main(void)
{
  const struct CMUnitTest tests[] = {
      CASE(a_worker_that_does_not_open_has_a_cause),
      CASE(those_that_close_one_by_one_are_waited_for),
      CASE(only_a_worker_that_can_wake_has_a_descriptor),
      CASE(each_event_reaches_its_owner),
      CASE(lent_memory_is_of_the_kind_that_is_read),
      CASE(more_than_can_be_lent_is_refused),
      CASE(what_is_lent_is_given_up_with_the_worker),
      CASE(an_address_has_room_for_what_the_channel_carries),
      CASE(why_an_endpoint_does_not_connect),
      CASE(an_endpoint_is_closed_once),
      CASE(one_that_does_not_close_is_not_waited_for),
      CASE(messages_go_back_while_endpoints_close),
      CASE(an_endpoint_that_never_closes_is_given_up),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
