/* SPDX-License-Identifier: Apache-2.0 */
/* Two ends of loopback whose memory the CPU cannot touch. */
#include "loopback_device.h"

#include <sched.h>

#include "config/options.h"

struct contract_variant variant = {.name = "loopback-device", .options = "mode=copy"};
const struct pst_plugin *cuda;
const struct pst_memory_ops *memory_ops;

/* ---- Memories ----------------------------------------------------------------------- */

struct pst_memory *open_memory(const char *text)
{
  struct pst_options *options = contract_options(cuda->described->description, text, NULL);
  struct pst_memory_params params = {.struct_size = sizeof(params), .options = options};
  struct pst_memory *memory = NULL;
  int rc = memory_ops->open(&contract_host, &params, &memory);
  options_free(options);
  return rc == 0 ? memory : NULL;
}

struct pst_region take(struct pst_memory *memory)
{
  struct pst_alloc_params params = {
      .struct_size = sizeof(params), .length = LENGTH, .label = "device"};
  struct pst_region region = {.struct_size = sizeof(region)};
  assert_int_equal(memory_ops->alloc(memory, &params, &region), 0);
  return region;
}

int work(const struct pst_region *region, bool verify, uint64_t offset, uint64_t length,
         uint64_t sequence)
{
  struct pst_queue_params params = {.struct_size = sizeof(params), .batches = 1, .pieces = 1};
  struct pst_payload_row payload = {region->address + offset, length, sequence, 0, 1, 0};
  struct pst_verify_result result = {.struct_size = sizeof(result)};
  struct pst_queue *queue;
  uint64_t ticket, done = 0;
  assert_int_equal(memory_ops->queue_open(region->memory, &params, &queue), 0);
  int rc = verify ? memory_ops->verify_rows(queue, 1, &payload, 1, &ticket)
                  : memory_ops->fill_rows(queue, 1, &payload, 1, &ticket);
  while (rc == 0 && done < ticket) {
    rc = memory_ops->queue_poll(queue, &done);
    sched_yield();
  }
  memory_ops->verify_result(queue, &result);
  memory_ops->queue_close(queue);
  return rc == 0 && result.corrupted ? -EBADMSG : rc;
}

/* ---- Ends ------------------------------------------------------------------------------ */

static void end_open(struct end *end, struct pst_memory *memory, bool apart, bool second)
{
  struct contract_side *side = &end->side;
  *end = (struct end){0};
  contract_image_open(&variant, second, &side->image);
  contract_device_open(&variant, &side->image, !apart, false, &side->device);
  side->limits.struct_size = sizeof(side->limits);
  assert_int_equal(side->image.ops->limits(side->device, &side->limits), 0);
  if (memory) {
    end->region = take(memory);
  } else {
    contract_region_make(LENGTH, &side->memory);
    end->region = side->memory.region;
  }
  struct pst_mr_params mr = {.struct_size = sizeof(mr),
                             .access = PST_ACCESS_LOCAL_READ | PST_ACCESS_LOCAL_WRITE |
                                       PST_ACCESS_REMOTE_READ | PST_ACCESS_REMOTE_WRITE |
                                       PST_ACCESS_REMOTE_ATOMIC,
                             .region = &end->region,
                             .length = LENGTH};
  assert_int_equal(side->image.ops->mr_register(side->device, &mr, &side->mr), 0);
  assert_int_equal(side->image.ops->worker_open(side->device, 0, &side->worker), 0);
  struct pst_endpoint_params endpoint = {.struct_size = sizeof(endpoint),
                                         .roles = PST_ROLE_RMA,
                                         .cookie = 1,
                                         .label = second ? "far" : "near",
                                         .requests = REQUESTS,
                                         .pieces = 8,
                                         .mr = side->mr};
  assert_int_equal(side->image.ops->endpoint_open(side->worker, &endpoint, &side->endpoints[0]), 0);
}

int open_remote(struct ends *ends, struct pst_mr *mr, struct pst_remote **remote)
{
  uint8_t bytes[4096];
  struct pst_blob blob = {.struct_size = sizeof(blob), .capacity = sizeof(bytes), .bytes = bytes};
  const struct contract_side *far = &ends->far.side;
  assert_int_equal(far->image.ops->mr_pack(far->device, mr, &blob), 0);
  assert_in_range(blob.length, 1, far->limits.remote_max);
  const struct contract_side *near = &ends->near.side;
  return near->image.ops->remote_open(near->endpoints[0], &blob, remote);
}

void meet(struct ends *ends, struct pst_memory *near, struct pst_memory *far, bool apart)
{
  struct pst_blob blob;
  *ends = (struct ends){.apart = apart};
  end_open(&ends->near, near, apart, false);
  end_open(&ends->far, far, apart, apart);
  contract_address(&ends->far.side, 0, &blob);
  assert_int_equal(contract_connect(&ends->near.side, 0, &blob), 0);
  contract_address(&ends->near.side, 0, &blob);
  assert_int_equal(contract_connect(&ends->far.side, 0, &blob), 0);
  contract_await(&ends->near.side, &ends->far.side, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
  contract_await(&ends->far.side, &ends->near.side, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
}

struct ends *open_ends(struct pst_memory *near, struct pst_memory *far, bool apart)
{
  struct ends *ends = malloc(sizeof(*ends));
  assert_non_null(ends);
  meet(ends, near, far, apart);
  assert_int_equal(open_remote(ends, ends->far.side.mr, &ends->remote), 0);
  return ends;
}

void end_close(struct end *end)
{
  struct pst_region region = end->region;
  contract_side_close(&end->side);
  if (region.kind == PST_MEMORY_CUDA)
    memory_ops->free_region(region.memory, &region);
}

void close_ends(struct ends *ends)
{
  end_close(&ends->near);
  end_close(&ends->far);
  free(ends);
}

struct pst_request request_of(const struct ends *ends, uint8_t opcode, uint64_t near, uint64_t far,
                              uint64_t length)
{
  struct pst_request request = {.opcode = opcode,
                                .local.mr = ends->near.side.mr,
                                .offset = near,
                                .arg.length = length,
                                .cookie = 9};
  request.u.rma.remote = ends->remote;
  request.u.rma.offset = far;
  return request;
}

int run(struct ends *ends, const struct pst_request *request)
{
  uint32_t wait;
  int rc = contract_post(&ends->near.side, 0, request, 1, &wait);
  if (rc < 0)
    return rc;
  struct pst_completion done =
      contract_await(&ends->near.side, NULL, PST_COMPLETION_DONE, request->opcode);
  assert_int_equal(done.u.done.cookie, request->cookie);
  return done.status;
}

const struct pst_request flush = {.opcode = PST_OP_FLUSH, .cookie = 77};
