/* SPDX-License-Identifier: Apache-2.0 */
/* A capture file of packets that a pcap source has sent. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture.h"
#include "log.h"
#include "sink.h"

#define BUFFER_BYTES (1u << 20)

struct capture {
  struct recording to;
  pcap_t *pcap; /* describes the file */
  pcap_dumper_t *dumper;
  bool nanoseconds;
  int64_t base;
  uint64_t next; /* sequence number */
  bool out_of_order;
};

static void sink_pcap_capture_close(void *state)
{
  struct capture *capture = state;
  if (capture->dumper)
    pcap_dump_close(capture->dumper);
  if (capture->pcap)
    pcap_close(capture->pcap);
  app_recording_close(&capture->to);
}

static int sink_pcap_capture_open(void *state, const struct sink_params *params,
                                  struct pst_error *error)
{
  struct capture *capture = state;
  return app_recording_open(&capture->to, params, error);
}

static int sink_pcap_cannot_write(const struct capture *capture, int code, struct pst_error *error)
{
  char done[32];

  snprintf(done, sizeof(done), "%" PRIu64 " packets", capture->to.messages);
  return app_recording_failed(&capture->to, code, done, error);
}

static bool sink_pcap_parse_param(struct pst_receiver *receiver, const char *key, int64_t *value)
{
  const char *text = pst_receiver_param(receiver, key);
  char *end;

  if (!text || text[0] == '\0')
    return false;
  errno = 0;
  *value = strtoll(text, &end, 10);
  return errno == 0 && *end == '\0';
}

static int sink_pcap_open_dumper(struct capture *capture, struct pst_error *error)
{
  int copy = fcntl(capture->to.output.fd, F_DUPFD_CLOEXEC, 0);
  FILE *stream = copy >= 0 ? fdopen(copy, "w") : NULL;

  if (!stream) {
    int code = errno;
    if (copy >= 0)
      close(copy);
    return sink_pcap_cannot_write(capture, code, error);
  }
  setvbuf(stream, NULL, _IOFBF, BUFFER_BYTES);
  capture->dumper = pcap_dump_fopen(capture->pcap, stream);
  if (!capture->dumper) {
    app_log_fail(error, PST_EXIT_FAILED, -EIO, "stream '%s': cannot begin capture %s: %s",
                 capture->to.stream, capture->to.output.path, pcap_geterr(capture->pcap));
    fclose(stream);
    return -EIO;
  }
  return 0;
}

/* The file's header, when the sender's parameters are here. */
static int sink_pcap_begin(struct capture *capture, struct pst_receiver *receiver,
                           struct pst_error *error)
{
  int64_t linktype, snaplen;
  const char *precision = pst_receiver_param(receiver, CAPTURE_PARAM_PRECISION);

  if (!precision || !sink_pcap_parse_param(receiver, CAPTURE_PARAM_LINKTYPE, &linktype) ||
      !sink_pcap_parse_param(receiver, CAPTURE_PARAM_SNAPLEN, &snaplen) ||
      !sink_pcap_parse_param(receiver, CAPTURE_PARAM_BASE, &capture->base))
    return app_log_fail(
        error, PST_EXIT_USAGE, -ENOMSG,
        "stream '%s': the sender has not said what it captured; a pcap sink needs a "
        "sender with source: {type: pcap}",
        capture->to.stream);
  if (linktype < 0 || linktype > INT32_MAX || snaplen < 0 || snaplen > INT32_MAX ||
      (strcmp(precision, "ns") != 0 && strcmp(precision, "us") != 0))
    return app_log_fail(
        error, PST_EXIT_FAILED, -EPROTO,
        "stream '%s': the sender's capture parameters make no sense (link type %lld, "
        "snap length %lld, precision '%s'); are both ends of one version?",
        capture->to.stream, (long long)linktype, (long long)snaplen, precision);
  capture->nanoseconds = strcmp(precision, "ns") == 0;
  capture->pcap = pcap_open_dead_with_tstamp_precision(
      (int)linktype, (int)snaplen,
      capture->nanoseconds ? PCAP_TSTAMP_PRECISION_NANO : PCAP_TSTAMP_PRECISION_MICRO);
  if (!capture->pcap)
    return app_log_fail(error, PST_EXIT_FAILED, -ENOMEM, "stream '%s': out of memory",
                        capture->to.stream);
  return sink_pcap_open_dumper(capture, error);
}

/* Writes one message as a packet, with the sender's time. -EOPNOTSUPP: the transport carries no
 * times. */
static int sink_pcap_take_packet(struct capture *capture, struct pst_receiver *receiver,
                                 const struct pst_view *view, struct pst_error *error)
{
  int64_t unit = capture->nanoseconds ? 1000000000 : 1000000;
  int64_t time;

  if ((view->flags & PST_VIEW_META) == 0)
    return app_log_fail(error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                        "stream '%s': the packets' times are unknown: this transport carries no "
                        "metadata beside a message; use one that does, or sink: {type: file}",
                        capture->to.stream);
  if (view->sequence < capture->next)
    capture->out_of_order = true;
  else
    capture->next = view->sequence + 1;
  if (__builtin_add_overflow(capture->base, capture_offset(view->meta), &time))
    return app_log_fail(error, PST_EXIT_FAILED, -EPROTO,
                        "stream '%s': the sender's packet %" PRIu64
                        " has a time that no clock shows; are both ends of one version?",
                        capture->to.stream, view->sequence);
  int64_t seconds = time / unit, rest = time % unit;
  if (rest < 0) {
    rest += unit;
    seconds--;
  }
  const void *bytes = NULL;
  uint64_t used = 0;
  int rc = app_recording_reach(&capture->to, receiver, view, &used, &bytes, error);
  if (rc < 0)
    return rc;
  const struct pcap_pkthdr header = {
      .ts = {.tv_sec = seconds, .tv_usec = rest},
      .caplen = view->length,
      .len = view->length + capture_cut(view->meta),
  };
  pcap_dump((u_char *)capture->dumper, &header, bytes);
  return 0;
}

static int sink_pcap_capture_take(void *state, struct pst_receiver *receiver,
                                  const struct pst_view *views, uint32_t n,
                                  struct pst_fence **fence, struct pst_error *error)
{
  struct capture *capture = state;

  *fence = NULL;
  if (!capture->dumper) {
    int rc = sink_pcap_begin(capture, receiver, error);
    if (rc < 0)
      return rc;
  }
  errno = 0;
  for (uint32_t i = 0; i < n; i++) {
    int rc = sink_pcap_take_packet(capture, receiver, &views[i], error);
    if (rc < 0)
      return rc;
  }
  /* pcap_dump says nothing about failures. */
  if (ferror(pcap_dump_file(capture->dumper)))
    return sink_pcap_cannot_write(capture, errno != 0 ? errno : EIO, error);
  capture->to.messages += n;
  return 0;
}

static int sink_pcap_capture_finish(void *state, struct pst_receiver *receiver,
                                    struct pst_error *error)
{
  struct capture *capture = state;

  if (!capture->dumper) {
    int rc = sink_pcap_begin(capture, receiver, error);
    if (rc < 0)
      return rc;
  }
  if (pcap_dump_flush(capture->dumper) < 0 || ferror(pcap_dump_file(capture->dumper)))
    return sink_pcap_cannot_write(capture, errno != 0 ? errno : EIO, error);
  if (capture->out_of_order)
    app_log_warn(
        FINDING_RECORDING, capture->to.where,
        "stream '%s': packets in %s stand in the order of arrival, not of sending; sort them "
        "with reordercap",
        capture->to.stream, capture->to.output.path);
  return app_recording_commit(&capture->to, error);
}

const struct sink_ops app_sink_pcap = {
    .name = "pcap",
    .writes = "capture",
    .size = sizeof(struct capture),
    .reads = true,
    .meta = true,
    .open = sink_pcap_capture_open,
    .take = sink_pcap_capture_take,
    .cut = app_recording_cut,
    .finish = sink_pcap_capture_finish,
    .close = sink_pcap_capture_close,
};
