/* SPDX-License-Identifier: Apache-2.0 */
/* The state of an end: what it says to the control channel as it fails, and which of several
 * reasons it gives. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "stream/lane.h"
#include "stream/session.h"

static struct {
  int fails; /* control_fail() calls */
  int code;
  int answer;
  uint32_t path, worst; /* of the endpoint, and allowed */
  uint64_t now_ns;
} world;

/* ---- Stand-ins for the rest of the program ---------------------------------------- */

int control_fail(struct control *control, void *stream, int code, const char *text,
                 const struct control_totals *totals)
{
  (void)control;
  (void)stream;
  assert_non_null(text);
  assert_int_equal(totals->messages, 7);
  world.fails++;
  world.code = code;
  return world.answer;
}

void end_read_counters(struct session_end *end)
{
  (void)end;
}

void usage_take(struct usage *usage)
{
  (void)usage;
}

int __wrap_clock_gettime(clockid_t id, struct timespec *time);
int __wrap_clock_gettime(clockid_t id, struct timespec *time)
{
  (void)id;
  time->tv_sec = (time_t)(world.now_ns / PST_NS_PER_S);
  time->tv_nsec = (long)(world.now_ns % PST_NS_PER_S);
  return 0;
}

static int fake_path(struct pst_endpoint *endpoint, struct pst_path_info *path)
{
  (void)endpoint;
  path->path = world.path;
  return 0;
}

static void fake_totals(const struct session_end *end, struct control_totals *totals)
{
  (void)end;
  *totals = (struct control_totals){.messages = 7};
}

static void fake_hook(struct session_end *end)
{
  (void)end;
}

static uint32_t fake_worst_path(const struct config_stream *config, const char **key)
{
  (void)config;
  *key = world.worst == PST_PATH_DIRECT ? "path: direct" : "path: mapped";
  return world.worst;
}

static const struct end_ops ops = {.role = "receiver",
                                   .peer_role = "sender",
                                   .ends_early = true,
                                   .configure = fake_hook,
                                   .connected = fake_hook,
                                   .worst_path = fake_worst_path,
                                   .totals = fake_totals};
static const struct end_peer_ops penstock = {.control = END_CONTROL_LIVE};
static const struct end_peer_ops foreign = {.control = END_CONTROL_OVER};
static const struct end_ops sends = {.role = "sender", .peer_role = "receiver"};
static const struct pst_transport_ops transport = {.endpoint_path = fake_path};
static const struct loader_plugin plugin = {.name = "pigeon"};
static struct engine_device device = {.plugin = &plugin};
static struct session_lane lane = {.worker = {.device = &device, .ops = &transport}};
static struct config config;
static struct config_stream stream = {.name = "packets"};
static struct pst_session session = {.config = &config};
static struct session_end end;

static int open_end(void **state)
{
  (void)state;
  memset(&world, 0, sizeof(world));
  world.now_ns = 1000 * PST_NS_PER_S;
  world.path = PST_PATH_DIRECT;
  world.worst = PST_PATH_STAGED;
  session.control = (struct control *)(uintptr_t)8;
  end_init(&end, &ops, &penstock, &session, &stream);
  end.lane = &lane;
  end.device = &device;
  end.endpoint = (struct engine_endpoint){.worker = &lane.worker,
                                          .handle = (struct pst_endpoint *)(uintptr_t)8,
                                          .state = ENGINE_ENDPOINT_OPEN};
  end.path.path = PST_PATH_DIRECT;
  return 0;
}

static int close_end(void **state)
{
  (void)state;
  end_destroy(&end);
  return 0;
}

/* ---- Tests ------------------------------------------------------------------------- */

static void who_fails_tells_and_awaits_the_answer(void **state)
{
  (void)state;
  end_fail(&end, -EIO, "broken");
  assert_int_equal(end.state, PST_STATE_FAILED);
  assert_int_equal(end.control, END_CONTROL_AWAITS);
  assert_int_equal(world.code, -EIO);
  end_fail(&end, -EPROTO, "again");
  assert_int_equal(world.fails, 1);
  assert_int_equal(end_check(&end), -EIO);
  assert_string_equal(end.error_text, "broken");
}

static void who_cannot_tell_awaits_nothing(void **state)
{
  (void)state;
  world.answer = -ENOENT;
  end_fail(&end, 0, NULL); /* an abort without a code is an error all the same */
  assert_int_equal(end.error, -ECANCELED);
  assert_int_equal(end.control, END_CONTROL_OVER);
}

static void an_answer_that_is_owed_is_given_once(void **state)
{
  (void)state;
  end_peer_failed(&end, -ENOSPC, "the sender: no room");
  end.control = END_CONTROL_OWES;
  assert_int_equal(end.state, PST_STATE_WAITING);
  assert_int_equal(end_check(&end), -ENOSPC);
  assert_int_equal(world.fails, 1);
  assert_int_equal(end.control, END_CONTROL_OVER);
  assert_string_equal(end.error_text, "the sender: no room");
}

static void a_lost_peer_may_be_explained(void **state)
{
  (void)state;
  end_gone(&end, -ECONNRESET);
  assert_int_equal(end_check(&end), 0);
  end_peer_failed(&end, -ENOSPC, "the sender: no room");
  end_gone(&end, -ETIMEDOUT); /* says nothing new */
  assert_int_equal(end_check(&end), -ENOSPC);
}

static void a_lost_peer_fails_the_stream_in_the_end(void **state)
{
  (void)state;
  end_gone(&end, -ECONNRESET);
  world.now_ns += 2 * PST_NS_PER_S;
  end_gone(&end, -ETIMEDOUT); /* no new time */
  assert_int_equal(end_check(&end), 0);
  world.now_ns += 2 * PST_NS_PER_S;
  assert_int_equal(end_check(&end), -ECONNRESET);
  assert_non_null(strstr(end.error_text, "the connection to the sender (unknown) ended"));
}

static void a_device_that_fails_is_no_peers_fault(void **state)
{
  (void)state;
  end_gone(&end, -ECONNRESET);
  end_device_failed(&end, -EIO);
  assert_int_equal(end_check(&end), -EIO);
  assert_non_null(strstr(end.error_text, "the receiver's device of transport pigeon has failed"));
}

static void a_worse_path_fails_at_once(void **state)
{
  (void)state;
  world.worst = PST_PATH_DIRECT;
  world.path = PST_PATH_STAGED;
  end_connected(&end);
  assert_int_equal(end.state, PST_STATE_CONNECTED);
  end_peer_failed(&end, -ENOSPC, "the sender: no room"); /* explains less */
  assert_int_equal(end_check(&end), -EOPNOTSUPP);
  assert_non_null(strstr(end.error_text, "`path: direct` asked for"));
}

static void a_path_that_gets_worse_is_refused_later(void **state)
{
  (void)state;
  world.worst = PST_PATH_MAPPED;
  end_connected(&end);
  world.path = PST_PATH_MAPPED; /* allowed */
  end_watch_path(&end);
  assert_int_equal(end.path.path, PST_PATH_MAPPED);
  world.path = PST_PATH_DIRECT; /* what was worse stays so */
  end_watch_path(&end);
  assert_int_equal(end.path.path, PST_PATH_MAPPED);
  assert_int_equal(end_check(&end), 0);
  world.path = PST_PATH_STAGED;
  end_watch_path(&end);
  assert_int_equal(end_check(&end), -EOPNOTSUPP);
  assert_non_null(strstr(end.error_text, "`path: mapped` asked for, but with this peer it is"));
}

static void what_is_over_stays_so(void **state)
{
  (void)state;
  end_connected(&end);
  end_state(&end, PST_STATE_ENDED);
  end_gone(&end, -ECONNRESET);
  end_device_failed(&end, -EIO);
  end_fail(&end, -EIO, "too late");
  assert_int_equal(end.trouble.kind, END_SOUND);
  assert_int_equal(end_check(&end), 0);
  assert_int_equal(end.state, PST_STATE_ENDED);
}

#ifndef NDEBUG
/* In a child, which an assertion ends. */
static bool may_go_on(const struct end_ops *as, int from, int to)
{
  int status;
  pid_t child = fork();

  if (child == 0) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0});
    freopen("/dev/null", "w", stderr);
    end.ops = as;
    end.state = from;
    end_state(&end, to);
    _exit(0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
  return status == 0;
}

static void states_follow_each_other_as_drawn(void **state)
{
  static const char receivers[][6] = {
      /* to:  WAITING ... FAILED */
      [PST_STATE_WAITING] = "=y-yy", [PST_STATE_CONNECTED] = "-=yyy", [PST_STATE_ENDING] = "--=yy",
      [PST_STATE_ENDED] = "---=-",   [PST_STATE_FAILED] = "=====",
  };

  (void)state;
  for (int from = PST_STATE_WAITING; from <= PST_STATE_FAILED; from++)
    for (int to = PST_STATE_WAITING; to <= PST_STATE_FAILED; to++) {
      const bool may = receivers[from][to - 1] != '-';
      assert_int_equal(may_go_on(&ops, from, to), may);
      if (to == PST_STATE_ENDED && from < PST_STATE_ENDING)
        assert_false(may_go_on(&sends, from, to));
      else
        assert_int_equal(may_go_on(&sends, from, to), may);
    }
}
#endif

static void a_last_word_is_the_last(void **state)
{
  (void)state;
  end_note_peer(&end, &(struct control_totals){.messages = 1}, END_PEER_HEARD);
  end_note_peer(&end, &(struct control_totals){.messages = 2}, END_PEER_HEARD);
  assert_int_equal(end.peer.messages, 2);
  end_note_peer(&end, &(struct control_totals){.messages = 3}, END_PEER_FINAL);
  end_note_peer(&end, &(struct control_totals){.messages = 2}, END_PEER_HEARD);
  assert_int_equal(end.peer.messages, 3);
  assert_int_equal(end.peer_word, END_PEER_FINAL);
}

static void without_a_channel_nobody_is_told(void **state)
{
  (void)state;
  end_destroy(&end);
  end_init(&end, &ops, &foreign, &session, &stream);
  end_fail(&end, -EIO, "broken");
  assert_int_equal(world.fails, 0);
}

#define END_CASE(name) cmocka_unit_test_setup_teardown(name, open_end, close_end)

int main(void)
{
  const struct CMUnitTest tests[] = {
      END_CASE(who_fails_tells_and_awaits_the_answer),
      END_CASE(who_cannot_tell_awaits_nothing),
      END_CASE(an_answer_that_is_owed_is_given_once),
      END_CASE(a_lost_peer_may_be_explained),
      END_CASE(a_lost_peer_fails_the_stream_in_the_end),
      END_CASE(a_device_that_fails_is_no_peers_fault),
      END_CASE(a_worse_path_fails_at_once),
      END_CASE(a_path_that_gets_worse_is_refused_later),
      END_CASE(what_is_over_stays_so),
#ifndef NDEBUG
      END_CASE(states_follow_each_other_as_drawn),
#endif
      END_CASE(a_last_word_is_the_last),
      END_CASE(without_a_channel_nobody_is_told),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
