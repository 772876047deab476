/* SPDX-License-Identifier: Apache-2.0 */
/* How much a stream of frames needs, and its life from open to close. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "frames.h"

#define FRAMES_ZEROS (UINT64_C(1) << 20) /* bytes that one piece can zero, at most */
/* Alignment of a frame, and no more: if a frame's bytes are a multiple of it, the next frame
 * follows at the packets' own stride, and one strided copy takes both. */
#define FRAMES_ALIGNMENT CACHE_LINE

static struct assemble_params frames_params_of(const struct config_stream *config)
{
  struct assemble_params params = {
      .by_marker = config->receiver.assemble.by == CONFIG_BY_RTP_MARKER,
      .drops = config->receiver.assemble.missing == CONFIG_MISSING_DROP,
      .packets = config->receiver.assemble.packets,
      .open = config->receiver.assemble.frames / 2,
      .buffers = config->receiver.assemble.frames,
      .timeout_ns = config->receiver.assemble.timeout_ns,
      .stride = config->stride ? config->stride : config->message};

  params.frame_stride = region_round_up(assemble_cells(&params) * params.stride, FRAMES_ALIGNMENT);
  return params;
}

static uint64_t frames_zeros_of(const struct assemble_params *params)
{
  uint64_t length = params->packets * params->stride;

  return length < FRAMES_ZEROS ? length : FRAMES_ZEROS;
}

/* Every other packet missing, and runs cut where the zeros end. */
static uint32_t frames_pieces(const struct assemble_params *params)
{
  uint64_t pieces =
      params->packets / 2 + 1 + params->packets * params->stride / frames_zeros_of(params) + 1;

  return pieces > SESSION_DEVICE_BATCH ? (uint32_t)pieces : SESSION_DEVICE_BATCH;
}

void frames_want(const struct config_stream *config, struct receive_ring *wanted)
{
  const struct assemble_params params = frames_params_of(config);

  wanted->final =
      (struct region_params){.label = "frames",
                             .use = " for the frames",
                             .lower = "`assemble.packets`, `assemble.frames` or `message`",
                             .length = params.frame_stride * params.buffers};
  wanted->why = "`assemble` copies each payload to its place in a frame";
  wanted->pieces = frames_pieces(&params);
}

static int frames_check_transport(const struct pst_receiver *receiver, struct pst_error *error)
{
  if (receiver->end.device->limits.capabilities & PST_CAP_SEQUENCE)
    return 0;
  return pst_fail(
      error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
      "stream %s: assemble needs sequence numbers, which transport %s does not carry with these "
      "options; see `penstock plugins %s` for an option that does, or choose "
      "another transport, or remove \"assemble\"",
      receiver->end.name, receiver->end.device->plugin->name, receiver->end.device->plugin->name);
}

static int frames_open_zeros(struct pst_receiver *receiver, struct frames *frames,
                             struct pst_error *error)
{
  const struct region_params params = {.memory = receiver->ring->memory,
                                       .length = frames_zeros_of(&frames->params),
                                       .purpose = PST_ALLOC_STAGING,
                                       .needs = PST_NEED_CPU_ACCESS,
                                       .label = "zeros for missing packets",
                                       .lower = "`message`",
                                       .use = " of staging memory for zeros"};
  struct region_why why;
  int rc;

  if (receiver->end.config->receiver.assemble.missing != CONFIG_MISSING_ZERO)
    return 0;
  rc = region_alloc(&frames->zeros, &params, &why);
  if (rc == 0 && !frames->zeros.mem.host)
    rc = -EOPNOTSUPP;
  if (rc < 0)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, rc,
                    "stream %s: memory %s cannot allocate %lu B of staging memory for zeros: %s; "
                    "`missing: keep` and `drop` need none",
                    receiver->end.name, receiver->ring->memory->plugin->name, params.length,
                    strerror(-rc));
  memset(frames->zeros.mem.host, 0, params.length);
  return 0;
}

int frames_open(struct pst_receiver *receiver, struct pst_error *error)
{
  const struct config_stream *config = receiver->end.config;
  uint32_t bits = receiver->end.device->limits.sequence_bits;
  struct frames *frames;
  int rc = frames_check_transport(receiver, error);

  if (rc < 0)
    return rc;
  frames = calloc(1, sizeof(*frames));
  if (!frames)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "stream %s: out of memory", config->name);
  receiver->client_data = frames;
  receiver->client = &frames_client_ops;
  frames->params = frames_params_of(config);
  /* A foreign sender's numbers begin behind all that its framing has. */
  frames->params.joins = receiver->end.peer_ops->is_foreign;
  if (frames->params.joins && !frames->params.by_marker && bits < 64)
    frames->params.origin = UINT64_C(1) << bits;
  frames->out = calloc(frames->params.buffers, sizeof(*frames->out));
  rc = copy_rows_open(&frames->rows, frames_pieces(&frames->params));
  if (rc == 0)
    rc = frames->out ? assemble_open(&frames->params, &frames->assemble) : -ENOMEM;
  if (rc < 0)
    return pst_fail(error, PST_EXIT_FAILED, rc, "stream %s: no frames: %s", config->name,
                    strerror(-rc));
  return frames_open_zeros(receiver, frames, error);
}
