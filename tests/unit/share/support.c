/* SPDX-License-Identifier: Apache-2.0 */
/* A router with a transport that takes everything. */
#include "support.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "util/clock.h"

struct pst_share router;
_Atomic int registered;

struct pst_endpoint {
  struct pst_worker *worker;
  uint64_t cookie;
};

struct pst_worker {
  uint64_t closed[PST_SHARE_ENDPOINTS]; /* cookies whose CLOSED has not been polled */
  uint32_t count;
};

static int fake_open(const struct pst_host *host, const struct pst_open_params *params,
                     struct pst_device **device)
{
  (void)host, (void)params;
  *device = calloc(1, 1);
  return 0;
}

static void fake_close(struct pst_device *device)
{
  free(device);
}

static int fake_limits(struct pst_device *device, struct pst_limits *limits)
{
  (void)device;
  *limits = (struct pst_limits){.struct_size = sizeof(*limits),
                                .capabilities = PST_CAP_SEND | PST_CAP_WRITE | PST_CAP_READ,
                                .message_max = 4096,
                                .rma_max = BYTES,
                                .slot_alignment = 1,
                                .slots_min = 1,
                                .slots_max = 1024,
                                .workers_max = 8,
                                .endpoints_max = 8,
                                .requests_max = 64,
                                .pieces_max = 4,
                                .page_size = 1,
                                .address_max = 8,
                                .remote_max = 8};
  return 0;
}

static int fake_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                            struct pst_mr **mr)
{
  (void)device, (void)params;
  registered++;
  *mr = calloc(1, 1);
  return 0;
}

static void fake_mr_deregister(struct pst_device *device, struct pst_mr *mr)
{
  (void)device;
  registered--;
  free(mr);
}

static int fake_mr_pack(struct pst_device *device, struct pst_mr *mr, struct pst_blob *blob)
{
  (void)device, (void)mr;
  blob->length = 8;
  memset(blob->bytes, 1, 8);
  return 0;
}

static int fake_remote_open(struct pst_endpoint *endpoint, const struct pst_blob *blob,
                            struct pst_remote **remote)
{
  if (blob->length != 8)
    return -EPROTO;
  *remote = (struct pst_remote *)endpoint; /* CLOSED closes those that are still open */
  return 0;
}

static void fake_remote_close(struct pst_endpoint *endpoint, struct pst_remote *remote)
{
  (void)endpoint, (void)remote;
}

static int fake_worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker)
{
  (void)device, (void)index;
  *worker = calloc(1, sizeof(**worker));
  return 0;
}

static void fake_worker_close(struct pst_worker *worker)
{
  free(worker);
}

static int fake_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                          struct pst_path_info *path, struct pst_ring **ring)
{
  (void)worker, (void)params, (void)path;
  *ring = calloc(1, 1);
  return 0;
}

static void fake_ring_close(struct pst_worker *worker, struct pst_ring *ring)
{
  (void)worker;
  free(ring);
}

static int fake_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                              struct pst_endpoint **endpoint)
{
  *endpoint = calloc(1, sizeof(**endpoint));
  **endpoint = (struct pst_endpoint){worker, params->cookie};
  return 0;
}

static int fake_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address)
{
  address->length = 8;
  memcpy(address->bytes, &endpoint->cookie, 8);
  return 0;
}

static int fake_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address)
{
  (void)endpoint;
  return address && address->length == 8 ? 0 : -EPROTO;
}

static int fake_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path)
{
  (void)endpoint, (void)path;
  return 0;
}

static int fake_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns)
{
  (void)mode, (void)deadline_ns;
  endpoint->worker->closed[endpoint->worker->count++] = endpoint->cookie;
  free(endpoint);
  return 0;
}

static int fake_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
                     uint32_t *wait)
{
  (void)endpoint, (void)requests, (void)wait;
  return (int)n;
}

static int fake_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max)
{
  uint32_t n = 0;

  for (; n < max && worker->count; n++)
    pst_event_write(&completions[n], worker->closed[--worker->count], PST_EVENT_CLOSED, 0);
  return (int)n;
}

static int fake_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n)
{
  (void)worker, (void)tokens, (void)n;
  return 0;
}

static int fake_counters(struct pst_device *device, struct pst_worker *worker,
                         struct pst_endpoint *endpoint, struct pst_counter *counters, uint32_t max)
{
  (void)device, (void)worker, (void)endpoint, (void)max;
  counters[0] = (struct pst_counter){.name = "one", .value = 1};
  return 1;
}

static int fake_describe(struct pst_endpoint *endpoint, char *text, size_t size)
{
  (void)endpoint;
  pst_text_write(text, size, "fake");
  return 0;
}

static int fake_start(struct pst_device *device)
{
  (void)device;
  return 0;
}

const struct pst_transport_ops fake_ops = {
    .struct_size = sizeof(fake_ops),
    .capabilities = PST_CAP_SEND | PST_CAP_WRITE | PST_CAP_READ,
    .open = fake_open,
    .close = fake_close,
    .limits = fake_limits,
    .mr_register = fake_mr_register,
    .mr_deregister = fake_mr_deregister,
    .mr_pack = fake_mr_pack,
    .remote_open = fake_remote_open,
    .remote_close = fake_remote_close,
    .worker_open = fake_worker_open,
    .worker_close = fake_worker_close,
    .ring_open = fake_ring_open,
    .ring_close = fake_ring_close,
    .endpoint_open = fake_endpoint_open,
    .endpoint_address = fake_endpoint_address,
    .endpoint_connect = fake_endpoint_connect,
    .endpoint_path = fake_endpoint_path,
    .post = fake_post,
    .poll = fake_poll,
    .release = fake_release,
    .counters = fake_counters,
    .describe = fake_describe,
    .start = fake_start,
    .endpoint_close = fake_endpoint_close,
};

static void PST_PRINTF(3, 4)
    take_log(const struct pst_host *host, int level, const char *format, ...)
{
  (void)host, (void)level, (void)format;
}

static uint64_t now(const struct pst_host *host)
{
  (void)host;
  return clock_now_ns();
}

static const struct pst_host host = {.struct_size = sizeof(host), .log = take_log, .clock_ns = now};
static const struct loader_plugin transport = {
    .kind = PST_KIND_TRANSPORT, .name = "fake", .host = &host, .transport = &fake_ops};

int router_begin(void **state)
{
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  router = (struct pst_share){.params = {.struct_size = sizeof(router.params),
                                         .regions = REGIONS,
                                         .endpoints = ENDPOINTS,
                                         .workers = WORKERS,
                                         .bytes = BYTES,
                                         .clients = 8},
                              .transport = &transport};
  pthread_mutex_init(&router.lock, NULL);
  pthread_mutex_init(&router.lives_lock, NULL);
  pthread_mutex_init(&router.devices_lock, NULL);
  router.room[SHARE_FDS] = router.room[SHARE_MAPS] = 10000;
  return share_classes_read(&router, &error);
}

int router_end(void **state)
{
  (void)state;
  assert_int_equal(registered, 0);
  assert_null(router.users);
  assert_null(router.lives);
  for (uint32_t i = 0; i < SHARE_RESOURCES; i++)
    assert_int_equal(router.held[i], 0);
  assert_int_equal(router.regions + router.bytes + router.endpoints, 0);
  pthread_mutex_destroy(&router.devices_lock);
  pthread_mutex_destroy(&router.lives_lock);
  pthread_mutex_destroy(&router.lock);
  arena_free(&router.arena);
  return 0;
}
