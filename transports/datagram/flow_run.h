/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Datagrams of one sender whose numbers follow each other, as most do: what dg_flow_take() makes of
 * each, with less work. dg_run_begin() checks once what holds for all of them; dg_run_take() checks
 * what each says of itself, and leaves a datagram that is not as expected to dg_flow_take().
 *
 * Between dg_run_begin() and dg_run_end() nothing else touches the flow.
 */
#ifndef DATAGRAM_FLOW_RUN_H
#define DATAGRAM_FLOW_RUN_H

#include <string.h>

#include "flow.h"

struct dg_run {
  struct dg_flow *flow;
  enum dg_framing framing;
  uint32_t header_bytes;
  uint32_t raw;          /* number on the wire of the next one */
  uint64_t next;         /* its sequence */
  uint64_t count, bytes; /* taken, and not yet in flow->counts */
};

static inline uint32_t dg_run_get32(const uint8_t *at)
{
  return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Can a run take datagrams of this source? False: nothing has happened. */
static inline bool dg_run_begin(struct dg_run *run, struct dg_flow *flow,
                                const struct dg_source *source)
{
  const struct dg_flow_params *params = &flow->params;
  const bool is_foreign = !params->numbered && params->framing != DG_FRAMING_NONE;

  if (params->tag || flow->holds || flow->credit || flow->tail.lost || flow->tail.no_message ||
      flow->tail.next || !dg_flow_is_source(params, source))
    return false;
  if (params->framing == DG_FRAMING_NONE && params->address_locks && !params->address_is_fixed)
    return false;
  if (is_foreign && (!flow->begun || source->port != flow->current.source.port ||
                     memcmp(source->address, flow->current.source.address, 16) != 0))
    return false;
  *run = (struct dg_run){.flow = flow,
                         .framing = params->framing,
                         .header_bytes = dg_header_bytes(params->framing, params->numbered),
                         .raw = flow->sequence.raw,
                         .next = flow->sequence.next};
  return true;
}

/* Is it the next one of the sequence framing, for this stream, and undamaged? */
static inline bool dg_run_is_sequence(const struct dg_run *run, const uint8_t *datagram,
                                      uint32_t length)
{
  const struct dg_flow_params *params = &run->flow->params;

  if (dg_run_get32(datagram) != run->raw ||
      (params->numbered && !dg_has_nonce(DG_FRAMING_SEQUENCE, datagram, 16, params->nonce)))
    return false;
  return !params->checks ||
         dg_run_get32(datagram + 4) == dg_byte_sum(datagram + run->header_bytes, length);
}

/* RTP version 2 without padding, contributing sources and an extension other than the nonce; no
 * RTCP; with the numbers that are expected. */
static inline bool dg_run_is_rtp(const struct dg_run *run, const uint8_t *datagram,
                                 struct dg_message *message)
{
  const struct dg_flow_params *params = &run->flow->params;
  const uint32_t first = dg_run_get32(datagram), type = first >> 16 & 0xff;
  const uint32_t ssrc = dg_run_get32(datagram + 8);

  if (first >> 24 != (params->numbered ? 0x90 : 0x80) || (type >= 192 && type <= 223) ||
      (first & 0xffff) != run->raw ||
      (params->payload_type >= 0 && (type & 0x7f) != (uint32_t)params->payload_type) ||
      (params->ssrc_is_fixed && ssrc != params->ssrc))
    return false;
  if (params->numbered ? !dg_has_nonce(DG_FRAMING_RTP, datagram, 24, params->nonce)
                       : ssrc != run->flow->current.ssrc)
    return false;
  message->has_meta = true;
  message->meta = (uint64_t)ssrc << 32 | dg_run_get32(datagram + 4);
  message->is_marked = type >> 7;
  return true;
}

/*
 * The next datagram: all of its `total` bytes lie at `datagram`, and may be read. True: it is
 * delivered, and *message says what it is; its payload lies message->offset bytes behind the
 * header. False: nothing has happened; behind dg_run_end(), dg_flow_take() takes it.
 */
__attribute__((always_inline)) static inline bool dg_run_take(struct dg_run *run,
                                                              const uint8_t *datagram,
                                                              uint32_t total, uint64_t time_ns,
                                                              struct dg_message *message)
{
  struct dg_flow *flow = run->flow;
  const uint32_t length = total - run->header_bytes;

  if (total < run->header_bytes || length > flow->params.message_max)
    return false;
  *message = (struct dg_message){.length = length, .time_ns = time_ns};
  if (run->framing != DG_FRAMING_NONE) {
    /* The pace is taken by dg_flow_take(). */
    if (time_ns - flow->pace_ns >= DG_PACE_NS ||
        !(run->framing == DG_FRAMING_RTP ? dg_run_is_rtp(run, datagram, message)
                                         : dg_run_is_sequence(run, datagram, length)))
      return false;
    message->has_sequence = true;
    message->sequence = run->next++;
    run->raw = (run->raw + 1) & flow->sequence.mask;
  }
  run->count++;
  run->bytes += length;
  dg_flow_note_arrival(flow, message);
  return true;
}

static inline void dg_run_end(struct dg_run *run)
{
  struct dg_flow *flow = run->flow;

  if (run->count == 0)
    return;
  flow->counts.datagrams += run->count;
  flow->counts.messages += run->count;
  flow->counts.bytes += run->bytes;
  if (run->framing == DG_FRAMING_NONE)
    return;
  flow->sequence.next = run->next;
  flow->sequence.raw = run->raw;
  flow->strays = 0;
  flow->successor.datagrams = 0;
}

#endif
