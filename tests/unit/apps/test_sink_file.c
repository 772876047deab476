/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of apps/sink_file.c. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"
#include "support.h"

#define MESSAGE 100u

static char content[10 * MESSAGE];

static int open_file(const char *path, bool overwrite, struct sink *sink, struct pst_error *error)
{
  const struct sink_params params = {
      .stream = "s", .file = path, .message = MESSAGE, .overwrite = overwrite};
  memset(sink, 0, sizeof(*sink));
  return app_sink_open(sink, "file", &params, error);
}

/* Message `sequence` of `content`, shorter when length is given. */
static struct pst_view view_of(uint64_t sequence, uint32_t length)
{
  return (struct pst_view){
      .host = content + sequence * MESSAGE, .length = length, .sequence = sequence};
}

static int take(struct sink *sink, struct pst_receiver *receiver, const struct pst_view *views,
                uint32_t n, struct pst_error *error)
{
  struct pst_fence *fence = (struct pst_fence *)&content;
  int rc = sink->ops->take(sink->state, receiver, views, n, &fence, error);
  if (rc == 0)
    assert_null(fence);
  return rc;
}

static void expect_file(const char *path, size_t length)
{
  size_t got;
  char *bytes = read_whole(path, &got);
  assert_int_equal(got, length);
  assert_memory_equal(bytes, content, length);
  free(bytes);
}

/* A foreign sender's, in messages of up to MESSAGE. */
static void open_joined(struct sink *sink)
{
  const struct sink_params params = {
      .stream = "s", .file = "out", .message = MESSAGE, .joins = true};
  struct pst_error error = PST_ERROR_INIT;

  memset(sink, 0, sizeof(*sink));
  assert_int_equal(app_sink_open(sink, "file", &params, &error), 0);
}

static void a_joined_stream_begins_the_file(void **state)
{
  struct sink sink;
  struct pst_error error = PST_ERROR_INIT;
  struct pst_view views[] = {view_of(0, 100), view_of(2, 100), view_of(1, 100)};

  (void)state;
  for (uint32_t i = 0; i < 3; i++)
    views[i].sequence += 65536 + 7;
  open_joined(&sink);
  assert_int_equal(take(&sink, NULL, views, 3, &error), 0);
  assert_int_equal(sink.ops->finish(sink.state, NULL, &error), 0);
  expect_file("out", 300);
  app_sink_close(&sink);
  unlink("out");
}

/* The first two have changed places: where the second stands, the first has no room. */
static void a_message_from_before_the_file_makes_it_a_part(void **state)
{
  struct sink sink;
  struct pst_error error = PST_ERROR_INIT;
  struct pst_view views[] = {view_of(0, 100), view_of(1, 100), view_of(2, 100)};
  struct pst_view before = view_of(0, 100);

  (void)state;
  for (uint32_t i = 0; i < 3; i++)
    views[i].sequence += 65536 + 7;
  before.sequence = 65536 + 6;
  open_joined(&sink);
  assert_int_equal(take(&sink, NULL, views, 1, &error), 0);
  assert_int_equal(take(&sink, NULL, &before, 1, &error), 0);
  assert_int_equal(take(&sink, NULL, views + 1, 2, &error), 0);
  assert_int_equal(sink.ops->finish(sink.state, NULL, &error), -EILSEQ);
  assert_int_equal(error.exit_status, PST_EXIT_FAILED);
  assert_non_null(strstr(error.text, "out lacks 1 message that came too late"));
  assert_non_null(strstr(error.text, "assemble: {by: sequence, packets: 64}"));
  assert_non_null(strstr(error.text, "the others are kept as .out.penstock-part"));
  app_sink_close(&sink);
  expect_file(".out.penstock-part", 300);
  assert_int_equal(access("out", F_OK), -1);
  unlink(".out.penstock-part");
}

static void messages_in_order_make_the_file(void **state)
{
  struct sink sink;
  struct pst_error error = PST_ERROR_INIT;
  const struct pst_view views[] = {view_of(0, 100), view_of(1, 100), view_of(2, 30)};

  (void)state;
  assert_int_equal(open_file("out", false, &sink, &error), 0);
  assert_int_equal(take(&sink, NULL, views, 1, &error), 0);
  assert_int_equal(access("out", F_OK), -1);
  assert_int_equal(count_entries(), 0);
  assert_int_equal(take(&sink, NULL, views + 1, 2, &error), 0);
  assert_int_equal(sink.ops->finish(sink.state, NULL, &error), 0);
  expect_file("out", 230);
  app_sink_close(&sink);
  unlink("out");
}

static void no_message_makes_an_empty_file(void **state)
{
  struct sink sink;
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  assert_int_equal(open_file("out", false, &sink, &error), 0);
  assert_int_equal(sink.ops->finish(sink.state, NULL, &error), 0);
  app_sink_close(&sink);
  expect_file("out", 0);
  unlink("out");
}

static void any_order_of_full_messages_makes_the_file(void **state)
{
  struct sink sink;
  struct pst_error error = PST_ERROR_INIT;
  const struct pst_view views[] = {view_of(1, 100), view_of(0, 100), view_of(4, 10),
                                   view_of(2, 100), view_of(3, 100), view_of(1, 100)};

  (void)state;
  assert_int_equal(open_file("out", false, &sink, &error), 0);
  assert_int_equal(take(&sink, NULL, views, 6, &error), 0);
  assert_int_equal(sink.ops->finish(sink.state, NULL, &error), 0);
  app_sink_close(&sink);
  expect_file("out", 410);
  unlink("out");
}

/* Full messages and a short last one, in an order of a Fisher-Yates shuffle, in takes of many
 * sizes: each goes to its place, also right behind one that was late. */
static void shuffled_messages_make_the_file(void **state)
{
  unsigned seed = 3;

  (void)state;
  for (unsigned round = 0; round < 300; round++) {
    struct sink sink;
    struct pst_error error = PST_ERROR_INIT;
    struct pst_view views[10];

    for (uint32_t i = 0; i < 10; i++)
      views[i] = view_of(i, i == 9 ? 30 : MESSAGE);
    for (uint32_t i = 9; i > 0; i--) {
      uint32_t j = (uint32_t)rand_r(&seed) % (i + 1);
      struct pst_view other = views[i];
      views[i] = views[j];
      views[j] = other;
    }
    assert_int_equal(open_file("out", false, &sink, &error), 0);
    for (uint32_t done = 0; done < 10;) {
      uint32_t n = 1 + (uint32_t)rand_r(&seed) % (10 - done);
      assert_int_equal(take(&sink, NULL, views + done, n, &error), 0);
      done += n;
    }
    assert_int_equal(sink.ops->finish(sink.state, NULL, &error), 0);
    app_sink_close(&sink);
    expect_file("out", 930);
    unlink("out");
  }
}

static char warned[1024];

/* The lines on stderr from here to take_warnings(). */
static int keep_warnings(void)
{
  int before = dup(STDERR_FILENO), kept = memfd_create("warnings", MFD_CLOEXEC);

  assert_true(before >= 0 && kept >= 0);
  assert_true(dup2(kept, STDERR_FILENO) >= 0);
  close(kept);
  app_log_level(PST_LOG_WARN);
  return before;
}

static void take_warnings(int before)
{
  ssize_t got = pread(STDERR_FILENO, warned, sizeof(warned) - 1, 0);

  assert_true(got >= 0);
  warned[got] = '\0';
  quiet();
  assert_true(dup2(before, STDERR_FILENO) >= 0);
  close(before);
}

/* Two messages of a stream that was joined at number `first`. */
static const char *warning_of_a_joined_stream(uint64_t first, uint64_t second)
{
  const struct sink_params params = {
      .stream = "s", .file = "out", .message = MESSAGE, .joins = true};
  struct pst_view views[] = {view_of(0, 100), view_of(second, 100)};
  struct pst_error error = PST_ERROR_INIT;
  struct sink sink = {0};

  views[0].sequence += first;
  views[1].sequence += first;
  assert_int_equal(app_sink_open(&sink, "file", &params, &error), 0);
  assert_int_equal(take(&sink, NULL, views, 2, &error), 0);
  int before = keep_warnings();
  int rc = sink.ops->finish(sink.state, NULL, &error);
  take_warnings(before);
  assert_int_equal(rc, 0);
  app_sink_close(&sink);
  unlink("out");
  return warned;
}

static void holes_are_reported_where_messages_were_lost(void **state)
{
  (void)state;
  assert_string_equal(warning_of_a_joined_stream(65541, 1), "");
  assert_non_null(
      strstr(warning_of_a_joined_stream(65541, 3), "holes in place of 2 lost messages"));
}

/* `content` in messages of 30 bytes, as a camera's, which fill no message of 100. */
static struct pst_view short_view(uint64_t i)
{
  return (struct pst_view){.host = content + 30 * i, .length = 30, .sequence = 65541 + i};
}

static void a_recording_of_short_messages_goes_on_behind_a_loss(void **state)
{
  const struct pst_view views[] = {short_view(0), short_view(1), short_view(4), short_view(5)};
  struct pst_error error = PST_ERROR_INIT;
  struct sink sink;
  size_t got;

  (void)state;
  open_joined(&sink);
  assert_int_equal(take(&sink, NULL, views, 4, &error), 0);
  int before = keep_warnings();
  int rc = sink.ops->finish(sink.state, NULL, &error);
  take_warnings(before);
  assert_int_equal(rc, 0);
  app_sink_close(&sink);
  assert_null(strstr(warned, "holes"));
  assert_non_null(strstr(warned, "lacks 2 messages without a hole"));
  char *bytes = read_whole("out", &got);
  assert_int_equal(got, 120);
  assert_memory_equal(bytes, content, 60);
  assert_memory_equal(bytes + 60, content + 120, 60);
  free(bytes);
  unlink("out");
}

/* Checks that finish() refuses these views, and returns the part that is kept. */
static char *part_of(const struct pst_view *views, uint32_t n, size_t *got)
{
  struct pst_error error = PST_ERROR_INIT;
  struct sink sink;

  open_joined(&sink);
  assert_int_equal(take(&sink, NULL, views, n, &error), 0);
  int before = keep_warnings();
  int rc = sink.ops->finish(sink.state, NULL, &error);
  take_warnings(before);
  assert_int_equal(rc, -EILSEQ);
  app_sink_close(&sink);
  assert_int_equal(access("out", F_OK), -1);
  char *bytes = read_whole(".out.penstock-part", got);
  unlink(".out.penstock-part");
  return bytes;
}

/* 2 is lost, and 3 late: each is reported once. */
static void a_late_short_message_is_no_loss(void **state)
{
  const struct pst_view views[] = {short_view(0), short_view(1), short_view(4),
                                   short_view(5), short_view(3), short_view(6)};
  size_t got;

  (void)state;
  char *bytes = part_of(views, 6, &got);
  assert_null(strstr(warned, "holes"));
  assert_non_null(strstr(warned, "lacks 1 message without a hole"));
  assert_non_null(strstr(warned, "lacks 1 message that came too late"));
  assert_int_equal(got, 150);
  assert_memory_equal(bytes, content, 60);
  assert_memory_equal(bytes + 60, content + 120, 90);
  free(bytes);
}

/* Its place is as long as a whole one's: bytes of nobody would follow it. */
static void a_late_short_message_among_full_ones_has_no_place(void **state)
{
  const struct pst_view views[] = {view_of(0, 100), view_of(2, 100), view_of(1, 30),
                                   view_of(3, 100)};
  size_t got;

  (void)state;
  char *bytes = part_of(views, 4, &got);
  assert_null(strstr(warned, "lost message"));
  assert_non_null(strstr(warned, "lacks 1 message that came too late"));
  assert_int_equal(got, 400);
  assert_memory_equal(bytes + 200, content + 200, 200);
  free(bytes);
}

/* The stream has failed for another reason, and the file is a part already. */
static void a_late_message_of_a_stream_that_was_cut_is_a_warning(void **state)
{
  const struct pst_view views[] = {short_view(0), short_view(2), short_view(1)};
  struct pst_error error = PST_ERROR_INIT;
  struct sink sink;

  (void)state;
  open_joined(&sink);
  assert_int_equal(take(&sink, NULL, views, 3, &error), 0);
  assert_int_equal(sink.ops->cut(sink.state), 0);
  int before = keep_warnings();
  int rc = sink.ops->finish(sink.state, NULL, &error);
  take_warnings(before);
  assert_int_equal(rc, 0);
  app_sink_close(&sink);
  assert_non_null(strstr(warned, "lacks 1 message that came too late"));
  unlink(".out.penstock-part");
}

/* Its place would be a number of more than 64 bits, or one of more than a file's offsets have. */
static void message_beyond_all_files_is_an_error(void **state)
{
  static const uint64_t sequences[] = {UINT64_MAX / MESSAGE + 1, INT64_MAX / MESSAGE, UINT64_MAX};

  (void)state;
  for (size_t i = 0; i < sizeof(sequences) / sizeof(sequences[0]); i++) {
    struct pst_view views[] = {view_of(0, MESSAGE), view_of(0, MESSAGE)};
    struct pst_error error = PST_ERROR_INIT;
    struct sink sink;

    views[1].sequence = sequences[i];
    assert_int_equal(open_file("out", false, &sink, &error), 0);
    assert_int_equal(take(&sink, NULL, views, 2, &error), -EFBIG);
    assert_non_null(strstr(error.text, "beyond the largest size of a file"));
    app_sink_close(&sink);
    assert_int_equal(count_entries(), 0);
  }
}

static void gap_behind_a_short_message_is_an_error(void **state)
{
  struct sink sink;
  struct pst_error error = PST_ERROR_INIT;
  const struct pst_view views[] = {view_of(0, 50), view_of(2, 100)};

  (void)state;
  assert_int_equal(open_file("out", false, &sink, &error), 0);
  assert_int_equal(take(&sink, NULL, views, 2, &error), -EILSEQ);
  assert_non_null(strstr(error.text, "assemble: {by: sequence, packets: 64}"));
  app_sink_close(&sink);
  assert_int_equal(count_entries(), 0);
}

static void short_messages_in_order_follow_each_other(void **state)
{
  struct sink sink;
  struct pst_error error = PST_ERROR_INIT;
  const struct pst_view views[] = {
      {.host = content, .length = 50, .sequence = 0},
      {.host = content + 50, .length = 0, .sequence = 1},
      {.host = content + 50, .length = 100, .sequence = 2},
  };

  (void)state;
  assert_int_equal(open_file("out", false, &sink, &error), 0);
  assert_int_equal(take(&sink, NULL, views, 3, &error), 0);
  assert_int_equal(sink.ops->finish(sink.state, NULL, &error), 0);
  app_sink_close(&sink);
  expect_file("out", 150);
  unlink("out");
}

static void nothing_is_left_of_an_unfinished_file(void **state)
{
  struct sink sink;
  struct pst_error error = PST_ERROR_INIT;
  const struct pst_view view = view_of(0, 100);

  (void)state;
  assert_int_equal(open_file("out", false, &sink, &error), 0);
  assert_int_equal(take(&sink, NULL, &view, 1, &error), 0);
  app_sink_close(&sink);
  assert_int_equal(count_entries(), 0);
}

static void existing_file_is_kept(void **state)
{
  struct sink sink;
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  write_file("out", content, 5);
  assert_int_equal(open_file("out", false, &sink, &error), -EEXIST);
  assert_int_equal(error.exit_status, PST_EXIT_USAGE);
  assert_non_null(strstr(error.text, "overwrite"));
  expect_file("out", 5);
  unlink("out");
}

static void file_that_appears_meanwhile_is_kept(void **state)
{
  struct sink sink;
  struct pst_error error = PST_ERROR_INIT;
  const struct pst_view view = view_of(0, 100);

  (void)state;
  assert_int_equal(open_file("out", false, &sink, &error), 0);
  assert_int_equal(take(&sink, NULL, &view, 1, &error), 0);
  write_file("out", content, 5);
  assert_int_equal(sink.ops->finish(sink.state, NULL, &error), -EEXIST);
  app_sink_close(&sink);
  expect_file("out", 5);
  expect_file(".out.penstock-part", 100);
  assert_non_null(strstr(error.text, "kept as .out.penstock-part"));
  assert_int_equal(count_entries(), 2);
  unlink("out");
  unlink(".out.penstock-part");
}

/* Where this is root's, of another user, in a folder where others may plant some. */
static void plant_link(const char *target, const char *name)
{
  assert_int_equal(symlink(target, name), 0);
  if (geteuid() != 0)
    return;
  assert_int_equal(chmod(".", 01777), 0);
  assert_int_equal(lchown(name, 65534, 65534), 0);
}

/* A link that another user planted must not choose the file that is replaced. */
static void overwrite_follows_no_link(void **state)
{
  struct sink sink;
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  write_file("real", content, 3);
  plant_link("real", "out");
  assert_int_equal(open_file("out", true, &sink, &error), -ELOOP);
  assert_int_equal(error.exit_status, PST_EXIT_USAGE);
  assert_non_null(strstr(error.text, "out is a symbolic link"));
  expect_file("real", 3);
  unlink("real"); /* now it leads nowhere */
  assert_int_equal(open_file("out", true, &sink, &error), -ELOOP);
  unlink("out");
}

/* The link comes between the opening and the end: its name is replaced, not what it leads to. */
static void link_planted_meanwhile_is_replaced(void **state)
{
  struct sink sink;
  struct pst_error error = PST_ERROR_INIT;
  const struct pst_view view = view_of(0, 100);
  struct stat st;

  (void)state;
  write_file("real", content, 3);
  assert_int_equal(open_file("out", true, &sink, &error), 0);
  assert_int_equal(take(&sink, NULL, &view, 1, &error), 0);
  plant_link("real", "out");
  assert_int_equal(sink.ops->finish(sink.state, NULL, &error), 0);
  app_sink_close(&sink);
  expect_file("real", 3);
  expect_file("out", 100);
  assert_int_equal(lstat("out", &st), 0);
  assert_true(S_ISREG(st.st_mode));
  unlink("out");
  unlink("real");
}

static void folder_that_is_missing_is_named(void **state)
{
  struct sink sink;
  struct pst_error error = PST_ERROR_INIT;

  (void)state;
  assert_int_equal(open_file("none/out", false, &sink, &error), -ENOENT);
  assert_int_equal(error.exit_status, PST_EXIT_USAGE);
  assert_non_null(strstr(error.text, "none/out"));
  assert_int_equal(open_file(".", false, &sink, &error), -EISDIR);
}

static void device_is_written_to_as_it_is(void **state)
{
  struct sink sink;
  struct pst_error error = PST_ERROR_INIT;
  const struct pst_view view = view_of(0, 100);
  struct stat st;

  (void)state;
  assert_int_equal(open_file("/dev/null", false, &sink, &error), 0);
  assert_int_equal(take(&sink, NULL, &view, 1, &error), 0);
  assert_int_equal(sink.ops->finish(sink.state, NULL, &error), 0);
  app_sink_close(&sink);
  assert_int_equal(stat("/dev/null", &st), 0);
  assert_true(S_ISCHR(st.st_mode));
}

static void *read_fifo(void *arg)
{
  char *bytes = arg;
  size_t got = 0;
  int fd = open("fifo", O_RDONLY);
  for (ssize_t part; got < 150 && (part = read(fd, bytes + got, 150 - got)) > 0;)
    got += (size_t)part;
  close(fd);
  return (void *)got;
}

static void fifo_gets_every_byte(void **state)
{
  struct sink sink;
  struct pst_error error = PST_ERROR_INIT;
  const struct pst_view views[] = {view_of(0, 100), view_of(1, 50)};
  char bytes[150];
  pthread_t reader;
  void *got;

  (void)state;
  assert_int_equal(mkfifo("fifo", 0600), 0);
  assert_int_equal(pthread_create(&reader, NULL, read_fifo, bytes), 0);
  assert_int_equal(open_file("fifo", false, &sink, &error), 0);
  assert_int_equal(take(&sink, NULL, views, 2, &error), 0);
  assert_int_equal(sink.ops->finish(sink.state, NULL, &error), 0);
  app_sink_close(&sink);
  pthread_join(reader, &got);
  assert_int_equal((size_t)got, 150);
  assert_memory_equal(bytes, content, 150);
  unlink("fifo");
}

static void full_disk_is_reported_with_path_and_bytes(void **state)
{
  struct sink sink;
  struct pst_error error = PST_ERROR_INIT;
  const struct pst_view view = view_of(0, 100);

  (void)state;
  assert_int_equal(open_file("/dev/full", false, &sink, &error), 0);
  assert_int_equal(take(&sink, NULL, &view, 1, &error), -ENOSPC);
  assert_int_equal(error.exit_status, PST_EXIT_FAILED);
  assert_non_null(strstr(error.text, "/dev/full after 0 bytes"));
  assert_non_null(strstr(error.text, "free space"));
  app_sink_close(&sink);
}

static void file_too_large_leaves_nothing(void **state)
{
  struct sink sink;
  struct pst_error error = PST_ERROR_INIT;
  const struct pst_view views[] = {view_of(0, 100), view_of(1, 100), view_of(2, 100)};
  struct rlimit before, small;

  (void)state;
  signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
  small = before;
  small.rlim_cur = 150;
  assert_int_equal(open_file("out", false, &sink, &error), 0);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
  int rc = take(&sink, NULL, views, 3, &error);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
  assert_int_equal(rc, -EFBIG);
  assert_non_null(strstr(error.text, "after 150 bytes"));
  app_sink_close(&sink);
  assert_int_equal(count_entries(), 0);
}

/* The library's call: the receiver is a counter of its calls. */
int pst_receiver_read(struct pst_receiver *receiver, const struct pst_view *view, void *to)
{
  ++*(unsigned *)receiver;
  memcpy(to, (const char *)(uintptr_t)view->address, view->length);
  return 0;
}

static void device_memory_is_copied_first(void **state)
{
  struct sink sink;
  struct pst_error error = PST_ERROR_INIT;
  unsigned reads = 0;
  struct pst_receiver *receiver = (struct pst_receiver *)&reads;
  struct pst_view views[3];

  (void)state;
  for (uint64_t i = 0; i < 3; i++)
    views[i] = (struct pst_view){
        .address = (uint64_t)(uintptr_t)(content + i * MESSAGE), .length = MESSAGE, .sequence = i};
  assert_int_equal(open_file("out", false, &sink, &error), 0);
  assert_int_equal(take(&sink, receiver, views, 3, &error), 0);
  assert_int_equal(sink.ops->finish(sink.state, receiver, &error), 0);
  app_sink_close(&sink);
  assert_int_equal(reads, 3);
  expect_file("out", 300);
  unlink("out");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_joined_stream_begins_the_file),
      cmocka_unit_test(a_message_from_before_the_file_makes_it_a_part),
      cmocka_unit_test(messages_in_order_make_the_file),
      cmocka_unit_test(no_message_makes_an_empty_file),
      cmocka_unit_test(any_order_of_full_messages_makes_the_file),
      cmocka_unit_test(shuffled_messages_make_the_file),
      cmocka_unit_test(holes_are_reported_where_messages_were_lost),
      cmocka_unit_test(a_recording_of_short_messages_goes_on_behind_a_loss),
      cmocka_unit_test(a_late_short_message_is_no_loss),
      cmocka_unit_test(a_late_short_message_among_full_ones_has_no_place),
      cmocka_unit_test(a_late_message_of_a_stream_that_was_cut_is_a_warning),
      cmocka_unit_test(message_beyond_all_files_is_an_error),
      cmocka_unit_test(gap_behind_a_short_message_is_an_error),
      cmocka_unit_test(short_messages_in_order_follow_each_other),
      cmocka_unit_test(nothing_is_left_of_an_unfinished_file),
      cmocka_unit_test(existing_file_is_kept),
      cmocka_unit_test(file_that_appears_meanwhile_is_kept),
      cmocka_unit_test(overwrite_follows_no_link),
      cmocka_unit_test(link_planted_meanwhile_is_replaced),
      cmocka_unit_test(folder_that_is_missing_is_named),
      cmocka_unit_test(device_is_written_to_as_it_is),
      cmocka_unit_test(fifo_gets_every_byte),
      cmocka_unit_test(full_disk_is_reported_with_path_and_bytes),
      cmocka_unit_test(file_too_large_leaves_nothing),
      cmocka_unit_test(device_memory_is_copied_first),
  };
  for (size_t i = 0; i < sizeof(content); i++)
    content[i] = (char)(i * 13 + i / 100);
  return cmocka_run_group_tests(tests, folder_setup, folder_teardown) ? 1 : 0;
}
