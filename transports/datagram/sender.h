/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The headers of a sender: numbers, RTP's clock and markers, SSRC, nonce. The transport asks for
 * the header of each message, in any order.
 */
#ifndef DATAGRAM_SENDER_H
#define DATAGRAM_SENDER_H

#include "device.h"
#include "tag.h"

/* Messages of a frame may be sent later than those of the next ones: a filter may
 * hold them back. */
#define DG_FRAMES_KEPT 64u

struct dg_frame {
  uint64_t number; /* from 1; 0: none */
  uint32_t timestamp;
};

struct dg_sender {
  enum dg_framing framing;
  bool sums;          /* headers have the byte sum of the payload */
  struct dg_tag *tag; /* NULL: its datagrams have none */
  uint8_t key[DG_TAG_KEY_BYTES];
  struct dg_header header; /* of message 0, as it would be at the beginning */
  uint32_t clock_rate;
  uint32_t frame;      /* messages of a frame; 0: no marker */
  uint64_t ticks;      /* since started_ns, of the latest frame */
  uint64_t started_ns; /* host->clock_ns() */
  struct dg_frame frames[DG_FRAMES_KEPT];
};

/* By the options of options.h; random beginnings. 0, or -errno, logged. */
int dg_sender_open(struct dg_sender *sender, const struct dg_device *device,
                   const struct pst_options *options);
/* A sender that is all zero is legal. */
void dg_sender_close(struct dg_sender *sender);

static inline uint64_t dg_sender_ticks(const struct dg_sender *sender, uint64_t now_ns)
{
  uint64_t passed_ns = now_ns - sender->started_ns;

  return (uint64_t)((__uint128_t)passed_ns * sender->clock_rate / 1000000000u);
}

/* One for all messages of a frame, whichever of them is sent first or not at all, and
 * another than that of the frame before: by it receivers tell frames apart. */
static inline uint32_t dg_sender_frame_timestamp(struct dg_sender *sender, uint64_t number,
                                                 uint64_t now_ns)
{
  struct dg_frame *frame = &sender->frames[number % DG_FRAMES_KEPT];
  uint64_t ticks;

  if (frame->number == number + 1)
    return frame->timestamp;
  ticks = dg_sender_ticks(sender, now_ns);
  if (frame->number > number + 1) /* held back for longer than frames are kept */
    return sender->header.timestamp + (uint32_t)ticks;
  sender->ticks = ticks > sender->ticks ? ticks : sender->ticks + 1;
  *frame = (struct dg_frame){number + 1, sender->header.timestamp + (uint32_t)sender->ticks};
  return frame->timestamp;
}

/* The header of message `sequence` into dg_header_bytes() at `to`. `sum`: dg_byte_sum() of its
 * payload, where sender->sums asks for it. `now_ns`: host->clock_ns(), for RTP alone. With a tag,
 * dg_tag_sign() follows. */
static inline void dg_sender_header(struct dg_sender *sender, uint64_t sequence, uint32_t sum,
                                    uint64_t now_ns, uint8_t *to)
{
  struct dg_header header = sender->header;

  header.sequence += (uint32_t)sequence;
  header.checksum = sum;
  if (header.has_tag)
    header.nonce = dg_tag_number(sender->tag);
  if (sender->framing == DG_FRAMING_RTP) {
    uint64_t number = sender->frame ? sequence / sender->frame : 0;
    header.timestamp = sender->frame
                           ? dg_sender_frame_timestamp(sender, number, now_ns)
                           : sender->header.timestamp + (uint32_t)dg_sender_ticks(sender, now_ns);
    header.marker = sender->frame && sequence - number * sender->frame == sender->frame - 1;
  }
  dg_write(sender->framing, &header, to);
}

#endif
