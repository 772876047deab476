/* SPDX-License-Identifier: Apache-2.0 */
/* A capture file, one packet a message. */
#include <errno.h>
#include <inttypes.h>
#include <pcap/pcap.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "capture.h"
#include "clock.h"
#include "log.h"
#include "source.h"

#define AHEAD_BYTES (UINT64_C(4) << 20)
#define WHY_BYTES (PCAP_ERRBUF_SIZE + 256)

struct packet {
  uint64_t offset; /* in `bytes` */
  uint32_t length;
  uint64_t meta;
  int64_t after; /* since the base, in the file's precision */
};

struct capture {
  const char *stream, *path;
  uint64_t message;
  bool loop, timed;
  int exit_status; /* of what is wrong in it: as with all of the configuration until it is sent */
  pcap_t *pcap;
  bool nanoseconds;
  int64_t base;
  bool base_known;
  uint64_t lap_number; /* of packets read in this round */
  /* Packets read ahead, since the end of a capture shows only behind its last. */
  struct packet packets[SOURCE_BATCH];
  uint32_t first, count;
  char *bytes;
  uint64_t bytes_size, bytes_used;
  bool ended;
  /* The errno of the packet behind those read ahead; 0: none. */
  int wrong;
  char why[WHY_BYTES];
  uint64_t lap_ns;  /* timed: when this round's base was due */
  bool lap_pending; /* timed: none of this round has gone yet */
};

/* libpcap reads with either precision; the file's own loses nothing. Times of
 * pcapng are converted to ns. */
static int source_pcap_read_precision(struct capture *capture, struct pst_error *error)
{
  unsigned char magic[4] = {0};
  FILE *file = fopen(capture->path, "rbe");

  if (!file)
    return app_log_fail(error, PST_EXIT_USAGE, -errno, "stream '%s': cannot open capture %s: %s",
                        capture->stream, capture->path, strerror(errno));
  size_t got = fread(magic, 1, sizeof(magic), file);
  int code = ferror(file) ? errno : 0;
  fclose(file);
  if (got < sizeof(magic))
    return app_log_fail(error, PST_EXIT_USAGE, code != 0 ? -code : -EINVAL,
                        "stream '%s': cannot read capture %s: %s; name a pcap or pcapng file",
                        capture->stream, capture->path,
                        code != 0 ? strerror(code) : "it has less than a header");
  uint32_t word = (uint32_t)magic[0] << 24 | (uint32_t)magic[1] << 16 | (uint32_t)magic[2] << 8 |
                  (uint32_t)magic[3];
  capture->nanoseconds = word == 0xa1b23c4d || word == 0x4d3cb2a1 || word == 0x0a0d0d0a;
  return 0;
}

static int source_pcap_open_capture(struct capture *capture, struct pst_error *error)
{
  char why[PCAP_ERRBUF_SIZE];

  capture->pcap = pcap_open_offline_with_tstamp_precision(
      capture->path,
      capture->nanoseconds ? PCAP_TSTAMP_PRECISION_NANO : PCAP_TSTAMP_PRECISION_MICRO, why);
  if (!capture->pcap)
    return app_log_fail(error, capture->exit_status, -EINVAL,
                        "stream '%s': %s is not a capture that can be read: %s; name a pcap or "
                        "pcapng file",
                        capture->stream, capture->path, why);
  capture->lap_number = 0;
  capture->lap_pending = true;
  return 0;
}

static void source_pcap_capture_extent(const void *state, struct source_extent *extent)
{
  const struct capture *capture = state;
  *extent = (struct source_extent){.endless = capture->loop};
}

static void source_pcap_capture_close(void *state)
{
  struct capture *capture = state;
  if (capture->pcap)
    pcap_close(capture->pcap);
  free(capture->bytes);
}

static int source_pcap_fail_packet(const struct capture *capture, struct pst_error *error)
{
  return app_log_fail(error, capture->exit_status, capture->wrong,
                      "stream '%s': packet %" PRIu64 " of %s %s", capture->stream,
                      capture->lap_number, capture->path, capture->why);
}

PST_PRINTF(3, 4)
static int source_pcap_bad_packet(struct capture *capture, int code, const char *format, ...)
{
  va_list args;

  va_start(args, format);
  vsnprintf(capture->why, sizeof(capture->why), format, args);
  va_end(args);
  capture->wrong = code;
  return code;
}

/* Sets the length and the metadata (time after the first packet, bytes cut off) of a packet.
 * -ERANGE, -EMSGSIZE: reported. */
static int source_pcap_describe_packet(struct capture *capture, const struct pcap_pkthdr *header,
                                       struct packet *packet)
{
  int64_t unit = capture->nanoseconds ? 1000000000 : 1000000;
  int64_t time;

  /* pcapng has seconds of 64 bits, which no file that a clock wrote needs. */
  if (__builtin_mul_overflow((int64_t)header->ts.tv_sec, unit, &time) ||
      __builtin_add_overflow(time, (int64_t)header->ts.tv_usec, &time))
    return source_pcap_bad_packet(capture, -ERANGE,
                                  "has a time that no clock shows; the capture is damaged");
  if (!capture->base_known) {
    capture->base = time;
    capture->base_known = true;
  }
  if (header->caplen > capture->message)
    return source_pcap_bad_packet(capture, -EMSGSIZE,
                                  "has %u bytes, a message of the stream holds %" PRIu64
                                  "; raise `message` to %u B",
                                  header->caplen, capture->message, header->caplen);
  if (__builtin_sub_overflow(time, capture->base, &packet->after) ||
      !capture_offset_fits(packet->after))
    return source_pcap_bad_packet(
        capture, -ERANGE, "%s",
        capture->nanoseconds
            ? "is more than 39 hours from the first one, too far to carry its time "
              "in nanoseconds; split the capture (editcap -i) or reduce it to "
              "microseconds"
            : "is more than 4 years from the first one; split the capture");
  if (header->len < header->caplen || header->len - header->caplen > CAPTURE_CUT_MAX)
    return source_pcap_bad_packet(
        capture, -ERANGE,
        "says %u bytes captured of %u; at most 65535 may be cut off, so capture "
        "with a larger snap length",
        header->caplen, header->len);
  packet->length = header->caplen;
  packet->meta = capture_meta(packet->after, header->len - header->caplen);
  return 0;
}

/* 1: one more packet is in `packets`; 0: the capture has ended; -errno: `why` says it. */
static int source_pcap_read_packet(struct capture *capture)
{
  struct pcap_pkthdr *header;
  const u_char *bytes;

  int got = pcap_next_ex(capture->pcap, &header, &bytes);
  if (got == PCAP_ERROR_BREAK) /* end of the file */
    return 0;
  capture->lap_number++;
  if (got != 1)
    return source_pcap_bad_packet(
        capture, -EIO,
        "cannot be read: %s; the capture is cut short or damaged: take a whole copy "
        "of it",
        pcap_geterr(capture->pcap));
  struct packet *packet = &capture->packets[capture->count];
  int rc = source_pcap_describe_packet(capture, header, packet);
  if (rc < 0)
    return rc;
  packet->offset = capture->bytes_used;
  memcpy(capture->bytes + packet->offset, bytes, packet->length);
  capture->bytes_used += packet->length;
  capture->count++;
  return 1;
}

static int source_pcap_read_ahead(struct capture *capture, struct pst_error *error)
{
  capture->first = capture->count = 0;
  capture->bytes_used = 0;
  while (capture->wrong == 0 && !capture->ended && capture->count < SOURCE_BATCH &&
         capture->bytes_size - capture->bytes_used >= capture->message)
    capture->ended = source_pcap_read_packet(capture) == 0;
  if (capture->wrong != 0 && capture->count == 0)
    return source_pcap_fail_packet(capture, error); /* what was whole before it has gone */
  if (capture->count > 0 || !capture->loop || capture->lap_number == 0)
    return 0;
  pcap_close(capture->pcap);
  int rc = source_pcap_open_capture(capture, error);
  capture->ended = false;
  return rc < 0 ? rc : source_pcap_read_ahead(capture, error);
}

static int source_pcap_capture_open(void *state, const struct source_params *params,
                                    struct pst_error *error)
{
  struct capture *capture = state;

  capture->stream = params->stream;
  capture->path = params->file;
  capture->message = params->message;
  capture->loop = params->loop;
  capture->timed = params->timed;
  capture->exit_status = PST_EXIT_USAGE;
  capture->bytes_size = params->message > AHEAD_BYTES ? params->message : AHEAD_BYTES;
  capture->bytes = malloc(capture->bytes_size);
  int rc = !capture->bytes ? app_log_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory")
                           : source_pcap_read_precision(capture, error);
  if (rc == 0)
    rc = source_pcap_open_capture(capture, error);
  /* The base goes out with the stream's parameters, before any packet. */
  if (rc == 0)
    rc = source_pcap_read_ahead(capture, error);
  if (rc == 0 && capture->wrong != 0)
    rc = source_pcap_fail_packet(capture, error);
  capture->exit_status = PST_EXIT_FAILED;
  return rc;
}

static int source_pcap_capture_announce(void *state, struct pst_sender *sender,
                                        struct pst_error *error)
{
  struct capture *capture = state;
  char linktype[16], snaplen[16], base[32];

  snprintf(linktype, sizeof(linktype), "%d", pcap_datalink(capture->pcap));
  snprintf(snaplen, sizeof(snaplen), "%d", pcap_snapshot(capture->pcap));
  snprintf(base, sizeof(base), "%" PRId64, capture->base);
  const char *const pairs[][2] = {
      {CAPTURE_PARAM_LINKTYPE, linktype},
      {CAPTURE_PARAM_PRECISION, capture->nanoseconds ? "ns" : "us"},
      {CAPTURE_PARAM_SNAPLEN, snaplen},
      {CAPTURE_PARAM_BASE, base},
  };
  for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
    int rc = pst_sender_param_set(sender, pairs[i][0], pairs[i][1]);
    if (rc < 0)
      return app_log_fail(error, PST_EXIT_FAILED, rc,
                          "stream '%s': cannot tell the receiver %s: %s", capture->stream,
                          pairs[i][0], strerror(-rc));
  }
  return 0;
}

/* How many of the next n packets are due; the times of a capture may go back. */
static uint32_t source_pcap_due(struct capture *capture, uint32_t n, uint64_t *until_ns)
{
  uint64_t now = app_now_ns();
  int64_t ns = capture->nanoseconds ? 1 : 1000;

  for (uint32_t i = 0; i < n; i++) {
    int64_t after = capture->packets[capture->first + i].after * ns;
    if (after > 0 && capture->lap_ns + (uint64_t)after > now) {
      *until_ns = capture->lap_ns + (uint64_t)after;
      return i;
    }
  }
  return n;
}

static int source_pcap_capture_ready(void *state, uint32_t n, uint64_t *until_ns,
                                     struct pst_error *error)
{
  struct capture *capture = state;

  if (capture->first == capture->count) {
    int rc = source_pcap_read_ahead(capture, error);
    if (rc < 0)
      return rc;
    if (capture->count == 0)
      return -ENODATA;
  }
  uint32_t there = capture->count - capture->first;
  if (n > there)
    n = there;
  /* The clock starts when the first packet has really gone: see source_pcap_capture_fill. */
  if (capture->timed && capture->lap_pending)
    return n > 0;
  return (int)(capture->timed ? source_pcap_due(capture, n, until_ns) : n);
}

static int source_pcap_capture_fill(void *state, struct pst_sender *sender, struct pst_slot *slots,
                                    uint32_t n, struct pst_error *error)
{
  struct capture *capture = state;

  (void)sender;
  for (uint32_t i = 0; i < n; i++) {
    const struct packet *packet = &capture->packets[capture->first + i];
    if (!slots[i].host)
      return app_log_fail(error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                          "stream '%s': a capture cannot be read into memory that the CPU cannot "
                          "write: staging for sources is not in this version; set sender.memory to "
                          "host",
                          capture->stream);
    memcpy(slots[i].host, capture->bytes + packet->offset, packet->length);
    slots[i].length = packet->length;
    slots[i].meta = packet->meta;
  }
  if (capture->timed && capture->lap_pending) {
    int64_t ns = capture->nanoseconds ? 1 : 1000;
    capture->lap_ns = app_now_ns() - (uint64_t)(capture->packets[capture->first].after * ns);
    capture->lap_pending = false;
  }
  capture->first += n;
  return 0;
}

const struct source_ops app_source_pcap = {
    .name = "pcap",
    .reads = "capture",
    .size = sizeof(struct capture),
    .open = source_pcap_capture_open,
    .announce = source_pcap_capture_announce,
    .ready = source_pcap_capture_ready,
    .fill = source_pcap_capture_fill,
    .extent = source_pcap_capture_extent,
    .close = source_pcap_capture_close,
};
