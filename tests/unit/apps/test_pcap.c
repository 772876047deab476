/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of apps: pcap. */
#include <errno.h>
#include <inttypes.h>
#include <pcap/pcap.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "capture.h"
#include "support.h"

#define MESSAGE 2000u

struct param {
  char key[32], value[256];
};
static struct param params[16];
static size_t param_count;

/* The library's calls: what the sender tells is what the receiver learns. */
int pst_sender_param_set(struct pst_sender *sender, const char *key, const char *value)
{
  (void)sender;
  assert_true(strlen(key) < sizeof(params->key) && strlen(value) < sizeof(params->value));
  snprintf(params[param_count].key, sizeof(params->key), "%s", key);
  snprintf(params[param_count].value, sizeof(params->value), "%s", value);
  param_count++;
  return 0;
}

const char *pst_receiver_param(struct pst_receiver *receiver, const char *key)
{
  (void)receiver;
  for (size_t i = 0; i < param_count; i++) {
    if (strcmp(params[i].key, key) == 0)
      return params[i].value;
  }
  return NULL;
}

struct record {
  uint32_t sec, fraction, captured, original;
};

/* A classic capture of this host's byte order, written by hand. */
static void write_capture(const char *path, bool nanoseconds, uint32_t snaplen, uint32_t linktype,
                          const struct record *records, size_t n)
{
  const struct {
    uint32_t magic;
    uint16_t major, minor;
    uint32_t zone, sigfigs, snaplen, linktype;
  } header = {nanoseconds ? 0xa1b23c4d : 0xa1b2c3d4, 2, 4, 0, 0, snaplen, linktype};
  FILE *file = fopen(path, "wb");

  assert_non_null(file);
  assert_int_equal(fwrite(&header, sizeof(header), 1, file), 1);
  for (size_t i = 0; i < n; i++) {
    assert_int_equal(fwrite(&records[i], sizeof(records[i]), 1, file), 1);
    for (uint32_t j = 0; j < records[i].captured; j++)
      putc((int)(i * 17 + j) & 0xff, file);
  }
  assert_int_equal(fclose(file), 0);
}

static int open_source(const char *path, uint64_t message, bool timed, struct source *source,
                       struct pst_error *error)
{
  const struct source_params wanted = {
      .stream = "s", .file = path, .message = message, .timed = timed};
  memset(source, 0, sizeof(*source));
  return app_source_open(source, "pcap", &wanted, error);
}

static void write_sink(const struct run *run, const char *path, uint32_t flags, int wanted_result)
{
  const struct sink_params sink_params = {.stream = "s", .file = path, .message = MESSAGE};
  struct pst_error error = PST_ERROR_INIT;
  struct pst_fence *fence;
  struct sink sink = {0};
  size_t at = 0;
  int rc = 0;

  assert_int_equal(app_sink_open(&sink, "pcap", &sink_params, &error), 0);
  for (uint32_t i = 0; rc == 0 && i < run->count; i++) {
    const struct pst_view view = {.host = run->bytes + at,
                                  .length = run->lengths[i],
                                  .sequence = i,
                                  .meta = run->metas[i],
                                  .flags = flags};
    rc = sink.ops->take(sink.state, NULL, &view, 1, &fence, &error);
    at += run->lengths[i];
  }
  if (rc == 0)
    rc = sink.ops->finish(sink.state, NULL, &error);
  assert_int_equal(rc, wanted_result);
  if (rc == -EOPNOTSUPP)
    assert_int_equal(error.exit_status, PST_EXIT_UNAVAILABLE);
  if (rc == -ENOMSG)
    assert_int_equal(error.exit_status, PST_EXIT_USAGE);
  app_sink_close(&sink);
}

static void read_source(const char *path, struct run *run)
{
  struct pst_error error = PST_ERROR_INIT;
  struct source source;

  param_count = 0;
  assert_int_equal(open_source(path, MESSAGE, false, &source, &error), 0);
  assert_int_equal(source.ops->announce(source.state, NULL, &error), 0);
  drain_source(&source, NULL, MESSAGE, run);
  assert_int_equal(run->result, -ENODATA);
  app_source_close(&source);
}

static void round_trip(bool nanoseconds, const struct record *records, size_t n)
{
  struct run run;
  size_t a, b;

  write_capture("in.pcap", nanoseconds, 65535, 1, records, n);
  read_source("in.pcap", &run);
  assert_int_equal(run.count, n);
  write_sink(&run, "out.pcap", PST_VIEW_META, 0);
  char *in = read_whole("in.pcap", &a), *out = read_whole("out.pcap", &b);
  assert_int_equal(a, b);
  assert_memory_equal(in, out, a);
  free(in);
  free(out);
  free(run.bytes);
  unlink("in.pcap");
  unlink("out.pcap");
  assert_int_equal(count_entries(), 0);
}

static const struct record sample[] = {
    {1700000000, 999999, 60, 60}, {1700000001, 0, 1500, 1500},     {1700000000, 5, 100, 9000},
    {1699999990, 123456, 0, 0},   {1700000500, 1, 64, 64 + 65535}, {1700000500, 1, 2000, 2000},
};

static void microseconds_come_back_byte_for_byte(void **state)
{
  (void)state;
  round_trip(false, sample, sizeof(sample) / sizeof(sample[0]));
}

static void nanoseconds_come_back_byte_for_byte(void **state)
{
  struct record records[sizeof(sample) / sizeof(sample[0])];

  (void)state;
  memcpy(records, sample, sizeof(sample));
  records[0].fraction = 999999999;
  records[3].fraction = 123456789;
  round_trip(true, records, sizeof(records) / sizeof(records[0]));
}

static void capture_without_packets_comes_back(void **state)
{
  (void)state;
  round_trip(false, sample, 0);
}

static void more_packets_than_a_batch_come_back(void **state)
{
  static struct record records[3000];

  (void)state;
  for (uint32_t i = 0; i < 3000; i++)
    records[i] = (struct record){1000000 + i / 7, i * 100, 40 + i % 1400, 40 + i % 1400};
  round_trip(false, records, 3000);
}

static void other_link_type_and_snap_length_are_kept(void **state)
{
  struct run run;
  char why[PCAP_ERRBUF_SIZE];

  (void)state;
  write_capture("in.pcap", false, 96, 101, sample, 1);
  read_source("in.pcap", &run);
  write_sink(&run, "out.pcap", PST_VIEW_META, 0);
  pcap_t *out = pcap_open_offline("out.pcap", why);
  assert_non_null(out);
  assert_int_equal(pcap_datalink(out), 12); /* DLT_RAW, which LINKTYPE 101 is here */
  assert_int_equal(pcap_snapshot(out), 96);
  pcap_close(out);
  free(run.bytes);
  unlink("in.pcap");
  unlink("out.pcap");
}

static void packet_over_the_message_is_named_with_the_remedy(void **state)
{
  struct source source;
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  write_capture("in.pcap", false, 65535, 1, sample, 2);
  assert_int_equal(open_source("in.pcap", 1000, false, &source, &error), -EMSGSIZE);
  assert_non_null(strstr(error.text, "packet 2 of in.pcap"));
  assert_non_null(strstr(error.text, "1500 B"));
  unlink("in.pcap");
}

static void too_much_cut_off_is_an_error(void **state)
{
  const struct record record = {1, 0, 64, 64 + 65536};
  struct source source;
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  write_capture("in.pcap", false, 65535, 1, &record, 1);
  assert_int_equal(open_source("in.pcap", MESSAGE, false, &source, &error), -ERANGE);
  assert_non_null(strstr(error.text, "packet 1"));
  unlink("in.pcap");
}

static void nanoseconds_over_39_hours_are_an_error(void **state)
{
  const struct record records[] = {{1000, 0, 60, 60}, {1000 + 200000, 0, 60, 60}};
  struct source source;
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  write_capture("in.pcap", true, 65535, 1, records, 2);
  assert_int_equal(open_source("in.pcap", MESSAGE, false, &source, &error), -ERANGE);
  assert_non_null(strstr(error.text, "39 hours"));
  round_trip(false, records, 2);
  unlink("in.pcap");
}

/* pcapng whose interface counts whole seconds (if_tsresol 0), in 64 bits. */
static void write_pcapng(const char *path, const int64_t *seconds, size_t n)
{
  const uint32_t section[] = {0x0a0d0d0a, 28, 0x1a2b3c4d, 1, UINT32_MAX, UINT32_MAX, 28};
  const uint32_t interface[] = {1, 32, 1, 65535, 0x00010009, 0, 0, 32};
  FILE *file = fopen(path, "wb");

  assert_non_null(file);
  assert_int_equal(fwrite(section, sizeof(section), 1, file), 1);
  assert_int_equal(fwrite(interface, sizeof(interface), 1, file), 1);
  for (size_t i = 0; i < n; i++) {
    uint64_t time = (uint64_t)seconds[i];
    const uint32_t packet[] = {6, 36, 0, (uint32_t)(time >> 32), (uint32_t)time, 4, 4, 0, 36};
    assert_int_equal(fwrite(packet, sizeof(packet), 1, file), 1);
  }
  assert_int_equal(fclose(file), 0);
}

static void times_beyond_64_bits_of_nanoseconds_are_an_error(void **state)
{
  const int64_t too_late[] = {INT64_C(1) << 57};
  const int64_t too_far[] = {INT64_C(-9000000000), INT64_C(9000000000)};
  struct source source;
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  write_pcapng("in.pcap", too_late, 1);
  assert_int_equal(open_source("in.pcap", MESSAGE, false, &source, &error), -ERANGE);
  assert_non_null(strstr(error.text, "packet 1 of in.pcap has a time that no clock shows"));
  write_pcapng("in.pcap", too_far, 2);
  assert_int_equal(open_source("in.pcap", MESSAGE, false, &source, &error), -ERANGE);
  assert_non_null(strstr(error.text, "packet 2 of in.pcap is more than 39 hours"));
  unlink("in.pcap");
}

static void what_is_no_capture_is_refused(void **state)
{
  struct source source;
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  write_file("in.pcap", "not a capture, just words", 25);
  assert_int_equal(open_source("in.pcap", MESSAGE, false, &source, &error), -EINVAL);
  assert_int_equal(error.exit_status, PST_EXIT_USAGE);
  write_file("in.pcap", "ab", 2);
  assert_true(open_source("in.pcap", MESSAGE, false, &source, &error) < 0);
  assert_int_equal(open_source("none.pcap", MESSAGE, false, &source, &error), -ENOENT);
  unlink("in.pcap");
}

static void broken_capture_ends_with_an_error(void **state)
{
  struct source source;
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  write_capture("in.pcap", false, 65535, 1, sample, 2);
  assert_int_equal(truncate("in.pcap", 24 + 16 + 60 + 16 + 700), 0);
  assert_int_equal(open_source("in.pcap", MESSAGE, false, &source, &error), -EIO);
  assert_non_null(strstr(error.text, "packet 2"));
  assert_int_equal(error.exit_status, PST_EXIT_USAGE);
  unlink("in.pcap");
}

/* The run has begun, so its status is not 2; the packets before the damage are sent. */
static void broken_behind_the_first_batch_fails_the_run(void **state)
{
  enum { WHOLE = SOURCE_BATCH + 9 };
  struct record records[WHOLE + 1];
  struct source source;
  struct pst_error error = PST_ERROR_INIT;
  uint64_t until_ns = UINT64_MAX;

  (void)state;
  for (uint32_t i = 0; i <= WHOLE; i++)
    records[i] = (struct record){1000, i, 60, 60};
  write_capture("in.pcap", false, 65535, 1, records, WHOLE + 1);
  assert_int_equal(truncate("in.pcap", 24 + WHOLE * 76 + 16 + 30), 0);
  assert_int_equal(open_source("in.pcap", MESSAGE, false, &source, &error), 0);
  struct pst_slot *slots = make_slots(SOURCE_BATCH, MESSAGE);
  const int n = source.ops->ready(source.state, SOURCE_BATCH, &until_ns, &error);
  assert_int_equal(n, SOURCE_BATCH);
  assert_int_equal(source.ops->fill(source.state, NULL, slots, SOURCE_BATCH, &error), 0);
  assert_int_equal(source.ops->ready(source.state, SOURCE_BATCH, &until_ns, &error), 9);
  assert_int_equal(source.ops->fill(source.state, NULL, slots, 9, &error), 0);
  assert_int_equal(error.code, 0);
  assert_int_equal(source.ops->ready(source.state, 1, &until_ns, &error), -EIO);
  assert_non_null(strstr(error.text, "packet 266 of in.pcap cannot be read"));
  assert_non_null(strstr(error.text, "take a whole copy"));
  assert_int_equal(error.exit_status, PST_EXIT_FAILED);
  free(slots[0].host);
  free(slots);
  app_source_close(&source);
  unlink("in.pcap");
}

static void times_that_did_not_travel_are_unknown(void **state)
{
  struct run run;

  (void)state;
  write_capture("in.pcap", false, 65535, 1, sample, 2);
  read_source("in.pcap", &run);
  write_sink(&run, "out.pcap", 0, -EOPNOTSUPP);
  unlink("in.pcap");
  assert_int_equal(count_entries(), 0);
  free(run.bytes);
}

static void sender_without_capture_is_refused(void **state)
{
  struct run run = {.count = 0};

  (void)state;
  param_count = 0;
  write_sink(&run, "out.pcap", PST_VIEW_META, -ENOMSG);
  assert_int_equal(count_entries(), 0);
}

static void base_that_leaves_no_room_is_refused(void **state)
{
  struct run run;

  (void)state;
  write_capture("in.pcap", false, 65535, 1, sample, 2);
  read_source("in.pcap", &run);
  for (size_t i = 0; i < param_count; i++)
    if (strcmp(params[i].key, CAPTURE_PARAM_BASE) == 0)
      snprintf(params[i].value, sizeof(params->value), "%" PRId64, INT64_MAX);
  run.metas[0] = capture_meta(1, 0);
  write_sink(&run, "out.pcap", PST_VIEW_META, -EPROTO);
  unlink("in.pcap");
  assert_int_equal(count_entries(), 0);
  free(run.bytes);
}

static void timed_keeps_the_intervals(void **state)
{
  const struct record records[] = {
      {100, 0, 60, 60}, {100, 30000, 60, 60}, {100, 10000, 60, 60}, {100, 60000, 60, 60}};
  struct source source;
  struct pst_error error = PST_ERROR_INIT;
  struct timespec begin, end;
  struct run run;

  (void)state;
  write_capture("in.pcap", false, 65535, 1, records, 4);
  assert_int_equal(open_source("in.pcap", MESSAGE, true, &source, &error), 0);
  clock_gettime(CLOCK_MONOTONIC, &begin);
  drain_source(&source, NULL, MESSAGE, &run);
  clock_gettime(CLOCK_MONOTONIC, &end);
  int64_t ns = (end.tv_sec - begin.tv_sec) * INT64_C(1000000000) + end.tv_nsec - begin.tv_nsec;
  assert_int_equal(run.count, 4);
  assert_true(ns >= 60000000);
  free(run.bytes);
  app_source_close(&source);
  unlink("in.pcap");
}

static void meta_holds_both_ends_of_its_ranges(void **state)
{
  const int64_t offsets[] = {0, 1, -1, CAPTURE_OFFSET_MAX, -CAPTURE_OFFSET_MAX - 1};

  (void)state;
  for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
    uint64_t meta = capture_meta(offsets[i], CAPTURE_CUT_MAX - i);
    assert_true(capture_offset_fits(offsets[i]));
    assert_true(capture_offset(meta) == offsets[i]);
    assert_int_equal(capture_cut(meta), CAPTURE_CUT_MAX - i);
  }
  assert_false(capture_offset_fits(CAPTURE_OFFSET_MAX + 1));
  assert_false(capture_offset_fits(-CAPTURE_OFFSET_MAX - 2));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(microseconds_come_back_byte_for_byte),
      cmocka_unit_test(nanoseconds_come_back_byte_for_byte),
      cmocka_unit_test(capture_without_packets_comes_back),
      cmocka_unit_test(more_packets_than_a_batch_come_back),
      cmocka_unit_test(other_link_type_and_snap_length_are_kept),
      cmocka_unit_test(packet_over_the_message_is_named_with_the_remedy),
      cmocka_unit_test(too_much_cut_off_is_an_error),
      cmocka_unit_test(nanoseconds_over_39_hours_are_an_error),
      cmocka_unit_test(times_beyond_64_bits_of_nanoseconds_are_an_error),
      cmocka_unit_test(what_is_no_capture_is_refused),
      cmocka_unit_test(broken_capture_ends_with_an_error),
      cmocka_unit_test(broken_behind_the_first_batch_fails_the_run),
      cmocka_unit_test(times_that_did_not_travel_are_unknown),
      cmocka_unit_test(sender_without_capture_is_refused),
      cmocka_unit_test(base_that_leaves_no_room_is_refused),
      cmocka_unit_test(timed_keeps_the_intervals),
      cmocka_unit_test(meta_holds_both_ends_of_its_ranges),
  };
  return cmocka_run_group_tests(tests, folder_setup, folder_teardown) ? 1 : 0;
}
