/* SPDX-License-Identifier: Apache-2.0 */
/* How a run ended: the last lines, the error and the exit status. */
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "json_put.h"
#include "log.h"
#include "result.h"
#include "runner.h"
#include "signals.h"
#include "size.h"
#include "watch.h"

#define RING_IN_CACHE_BYTES (UINT64_C(1) << 20) /* of the level 2 cache that most CPUs have */

struct judged {
  struct app_stream *stream;
  struct pst_stats sender_stats, receiver_stats;
  struct pst_counter_value sent[COUNTERS_MAX], received[COUNTERS_MAX];
  struct account account;
  struct expect_wanted wanted;
  struct expect_result expects[EXPECT_MAX];
  bool broke_off;           /* or brought nothing */
  struct result_stream out; /* all of it, for the result */
};

/* Where an error is, as the configuration names it: "streams.packets.receiver". */
static const char *report_place_of(const struct app_stream *stream, const char *at, char place[512])
{
  snprintf(place, 512, "streams.%s%s%s", stream->name, at[0] != '\0' ? "." : "", at);
  return place;
}

/* at: in the stream, "receiver"; "": all of it. `logged`: its line has been written where it was
 * found. */
static void report_set_failed(struct judged *judged, int exit_status, enum finding finding,
                              const char *at, const char *why, bool logged)
{
  struct app_stream *stream = judged->stream;
  char place[512];

  stream->exit_status = app_finding_worse(stream->exit_status, exit_status);
  app_finding_add(judged->out.errors, finding, report_place_of(stream, at, place), why);
  if (!logged)
    app_log(PST_LOG_ERROR, "stream '%s': %s", stream->name, why);
}

/* Returns the exit status of an error: if something is not possible here, this end has the same
 * status as the end that found it. */
static int report_status_of(int error)
{
  return error == -EOPNOTSUPP ? PST_EXIT_UNAVAILABLE : PST_EXIT_FAILED;
}

static bool report_is_peers(int error)
{
  return error == -ECONNRESET || error == -ETIMEDOUT || error == -ECANCELED || error == -EPIPE;
}

/* Records the failure of one end, unless the program itself caused it. */
static void report_judge_side(struct judged *judged, const struct pst_stats *stats,
                              const struct pst_error *error, const char *side)
{
  const struct app_stream *stream = judged->stream;
  char why[640];

  if (!stats)
    return;
  if (error->code != 0) {
    report_set_failed(judged, error->exit_status, app_finding_of(error->exit_status, error->code),
                      side, error->text, true);
    return;
  }
  /* The other side's sink or source failed the stream, or this end did by leaving. */
  if (stats->state == PST_STATE_FAILED &&
      (stream->sender.error.code != 0 || stream->receiver.error.code != 0 ||
       stream->receiver.cut)) {
    judged->stream->exit_status = app_finding_worse(stream->exit_status, PST_EXIT_FAILED);
    return;
  }
  if (stats->state == PST_STATE_FAILED) {
    snprintf(why, sizeof(why), "%s: %s", side,
             stats->error_text[0] != '\0' ? stats->error_text : strerror(-stats->error));
    const int status = report_status_of(stats->error);
    const bool is_others = stats->peer_failed != 0 || report_is_peers(stats->error);
    const enum finding found = app_finding_of(status, stats->error);
    report_set_failed(judged, status,
                      status != PST_EXIT_FAILED ? found
                      : is_others               ? FINDING_PEER
                      : found == FINDING_PEER   ? FINDING_FAILED /* no route to it, say */
                                                : found,
                      side, why, stats->error_text[0] != '\0');
    return;
  }
  if (stats->state == PST_STATE_WAITING) {
    snprintf(why, sizeof(why), "%s: stopped by %s before the peer had connected", side,
             app_signals_name());
    report_set_failed(judged, PST_EXIT_FAILED, FINDING_STOPPED, side, why,
                      stream->runner->said_waiting);
    stream->runner->said_waiting = true;
  } else if (stats->state != PST_STATE_ENDED && !stream->receiver.cut) {
    snprintf(
        why, sizeof(why),
        "%s: the peer did not confirm the end in time; messages on their way are not accounted for",
        side);
    report_set_failed(judged, PST_EXIT_FAILED, FINDING_PEER, side, why, false);
  }
}

/* Failed before a message was sent, it has no account: why it failed is all there is to say. */
static bool report_has_run(const struct judged *judged)
{
  const struct pst_stats *sides[] = {judged->out.sender, judged->out.receiver};
  bool has_started = false, has_failed = false;

  for (size_t i = 0; i < 2; i++) {
    has_started |= sides[i] && sides[i]->started_ns != 0;
    has_failed |= sides[i] && sides[i]->state == PST_STATE_FAILED;
  }
  return has_started && (!has_failed || judged->account.sent > 0 || judged->account.delivered > 0);
}

/* Takes out of the account what `expect` judges by a bound of its own, so that it does not hide
 * other problems. Returns whether there was any. */
static bool report_leave_to_expect(const struct judged *judged, enum finding finding,
                                   struct account *left)
{
  switch (finding) {
  case FINDING_LOSS:
    left->blameless = left->dropped;
    return judged->wanted.max_loss.text != NULL;
  case FINDING_DUPLICATES:
    left->duplicates = 0;
    return judged->wanted.max_duplicates.text != NULL;
  case FINDING_REORDERED:
    left->reordered = 0;
    return judged->wanted.max_reordered.text != NULL;
  case FINDING_CORRUPTED:
    left->corrupted = 0;
    return judged->wanted.max_corrupted.text != NULL;
  default:
    return false;
  }
}

/* The counter of that name of the receiver's transport; 0: there is none. */
static uint64_t report_received(const struct judged *judged, const char *name)
{
  const struct result_counters *counters = &judged->out.receiver_counters;
  const struct pst_counter_value *counter =
      app_statistics_counter(counters->values, counters->count, name);

  return counter ? counter->value : 0;
}

/* Nobody was to say how many a foreign sender sent. */
static void report_judge_foreign(struct judged *judged, bool failed)
{
  const struct pst_drop *cause = app_accounting_cause(&judged->account);
  const uint64_t strangers = report_received(judged, "not_ours");
  char why[256] = "nothing arrived; check `device`, `port` and `group`, firewalls, and the sender";

  if (!judged->out.receiver)
    return;
  judged->broke_off |= judged->account.delivered == 0;
  if (!judged->broke_off || failed)
    return;
  if (cause)
    snprintf(why, sizeof(why),
             "no message arrived; of what came %" PRIu64
             " were dropped as %s; compare `message` and "
             "the transport's options with the sender's",
             cause->messages, cause->cause);
  else if (strangers > 0)
    snprintf(why, sizeof(why),
             "no message arrived; %" PRIu64
             " that came are not this stream's (not_ours); compare the transport's options that "
             "choose a sender, `source`, `ssrc` and `payload_type`, with what it sends",
             strangers);
  report_set_failed(judged, PST_EXIT_FAILED, FINDING_NOTHING_ARRIVED, "", why, false);
}

/* Checks that sent equals delivered plus dropped, leaves to `expect` what `expect` judges, and
 * records the rest. */
static void report_judge_account(struct judged *judged)
{
  struct account left = judged->account;
  struct app_stream *stream = judged->stream;
  bool failed = stream->exit_status != PST_EXIT_OK;
  enum finding found;
  char why[512], place[512];

  judged->broke_off = failed;
  do
    found = app_accounting_check(&left, why, sizeof(why));
  while (report_leave_to_expect(judged, found, &left));
  switch (found) {
  case FINDING_NONE:
    break;
  case FINDING_UNKNOWN_COUNTS:
    if (stream->foreign)
      report_judge_foreign(judged, failed);
    else if (!failed) /* who fails by a peer that has gone cannot know it */
      app_log_warn(found, report_place_of(stream, "", place), "stream '%s': %s", stream->name, why);
    break;
  case FINDING_NOTHING_ARRIVED: /* no bound of loss allows that; what broke off has said why */
    report_set_failed(judged, failed ? stream->exit_status : PST_EXIT_FAILED, found, "", why,
                      failed);
    judged->broke_off = true;
    break;
  default: /* who says by `expect` how much of it is right gets 4 for more; a failed stream need not
              balance */
    report_set_failed(judged, PST_EXIT_FAILED, found, "", why,
                      failed && found == FINDING_UNBALANCED);
  }
}

/* Judges the expectations; a stream that never connected has neither met nor missed one. */
static void report_judge_expects(struct judged *judged)
{
  judged->out.expect_count = app_expect_judge(&judged->wanted, &judged->account, judged->expects);
  if (judged->stream->foreign || report_has_run(judged))
    return;
  for (size_t i = 0; i < judged->out.expect_count; i++) {
    judged->expects[i].checked = false;
    judged->expects[i].found.kind = EXPECT_UNKNOWN;
    snprintf(judged->expects[i].got, sizeof(judged->expects[i].got), "never connected");
  }
}

/* Reports each expectation that was not met. If the stream broke off, leaves out those of amounts,
 * and all if nothing was delivered. */
static void report_say_expects(struct judged *judged)
{
  char why[EXPECT_SENTENCE_BYTES + ACCOUNTING_FIRST_WRONG_BYTES], at[64];
  char first[ACCOUNTING_FIRST_WRONG_BYTES];

  for (size_t i = 0; i < judged->out.expect_count; i++) {
    const struct expect_result *expect = &judged->expects[i];
    if (!expect->checked || expect->met ||
        (judged->broke_off && (expect->of_amount || judged->account.delivered == 0)))
      continue;
    snprintf(at, sizeof(at), "expect.%s", expect->key);
    app_expect_sentence(expect, why);
    if (strcmp(expect->key, "max_corrupted") == 0)
      strcat(why, app_accounting_first_wrong(&judged->account, first));
    report_set_failed(judged, PST_EXIT_EXPECT, FINDING_EXPECT, at, why, false);
  }
}

/* Prints the stream's line: its account, its rate and its path. */
static void report_say_numbers(const struct judged *judged)
{
  const struct account *account = &judged->account;
  const char *name = judged->stream->name;
  char sent[40] = "unknown", delivered[32] = "unknown", checked[96] = "";
  char rate[STATISTICS_RATE_BYTES], path[STATISTICS_PATH_BYTES];
  char percent[STATISTICS_PERCENT_BYTES];
  double loss = app_accounting_loss(account);
  bool balanced = account->sent_known && account->delivered_known &&
                  account->sent == account->delivered + account->dropped;

  if (account->sent_known)
    snprintf(sent, sizeof(sent), "%" PRIu64, account->sent);
  else if (account->sent > 0)
    snprintf(sent, sizeof(sent), "at least %" PRIu64, account->sent);
  if (account->delivered_known)
    snprintf(delivered, sizeof(delivered), "%" PRIu64, account->delivered);
  if (account->receiver_known && account->verified > 0)
    snprintf(checked, sizeof(checked), " | %" PRIu64 " verified, %" PRIu64 " corrupted",
             account->verified, account->corrupted);
  app_log(PST_LOG_INFO,
          "%s: %s sent %s %s delivered + %" PRIu64 " dropped%s | %s over %.2f sec | %s", name, sent,
          balanced ? "=" : "/", delivered, account->dropped, checked,
          app_statistics_rate(account->bytes, account->ns, rate), (double)account->ns / 1e9,
          app_statistics_path_by(account->path.path, account->staged_by, path));
  for (uint32_t i = 0; i < account->drop_count; i++) {
    if (account->drops[i].messages > 0)
      app_log(PST_LOG_INFO, "%s: dropped: %s%" PRIu64 " %.32s", name,
              account->dropped_at_least ? "at least " : "", account->drops[i].messages,
              account->drops[i].cause);
  }
  if (judged->out.receiver && judged->out.receiver->frame_packets > 0)
    app_log(PST_LOG_INFO,
            "%s: frames: %" PRIu64 " complete, %" PRIu64 " incomplete, %" PRIu64
            " dropped, %" PRIu64 " lost",
            name, judged->out.receiver->frames_complete, judged->out.receiver->frames_incomplete,
            judged->out.receiver->frames_dropped, judged->out.receiver->frames_lost);
  if (account->duplicates > 0 || account->reordered > 0)
    app_log(PST_LOG_INFO, "%s: %" PRIu64 " duplicate%s, %" PRIu64 " reordered", name,
            account->duplicates, app_plural(account->duplicates), account->reordered);
  if (judged->out.receiver && judged->out.receiver->intervals.count > 0)
    app_log(PST_LOG_INFO, "%s: between arrivals: p50 %.3f ms, p99 %.3f ms, max %.3f ms", name,
            (double)judged->out.receiver->intervals.p50_ns / 1e6,
            (double)judged->out.receiver->intervals.p99_ns / 1e6,
            (double)judged->out.receiver->intervals.max_ns / 1e6);
  if (loss > 0 && balanced)
    app_log(PST_LOG_INFO, "%s: LOSS %s", name, app_statistics_percent(loss, percent));
  else if (loss < 0 && judged->stream->foreign)
    app_log(PST_LOG_INFO, "%s: loss ?", name);
}

/* enum pst_stop with PST_STOP_SHORT: what failed here or there comes before what was asked for. */
static uint32_t report_stopped_by(const struct judged *judged)
{
  const struct app_stream *stream = judged->stream;
  const struct pst_stats *own = judged->out.sender ? judged->out.sender : judged->out.receiver;

  if (stream->sender.error.code != 0 || stream->receiver.error.code != 0)
    return PST_STOP_FAILURE;
  if (stream->receiver.cut)
    return stream->receiver.stopped;
  if (own->state == PST_STATE_FAILED) {
    bool is_there = !judged->out.sender || !judged->out.receiver;
    return is_there && own->started_ns != 0 &&
                   (own->peer_failed != 0 || report_is_peers(own->error))
               ? PST_STOP_PEER
               : PST_STOP_FAILURE;
  }
  if (own->stopped != PST_STOP_UNKNOWN)
    return (uint32_t)own->stopped;
  return stream->receiver.stopped; /* a foreign sender that falls silent has not said why */
}

static const char *report_stop_name(uint32_t stopped)
{
  static const char *const names[PST_STOPS] = {NULL,     "source_end", "count",  "duration",
                                               "signal", "peer",       "failure"};
  uint32_t why = stopped & ~PST_STOP_SHORT;

  return why < PST_STOPS ? names[why] : NULL;
}

/* Judges a stream that was cut short as failed; if it has failed already, no further line is
 * logged. */
static void report_judge_stop(struct judged *judged, uint32_t stopped)
{
  struct app_stream *stream = judged->stream;
  char why[128];

  if ((stopped & PST_STOP_SHORT) == 0 ||
      (judged->out.sender && judged->out.sender->state == PST_STATE_WAITING))
    return;
  if (!judged->out.sender && !stream->foreign)
    snprintf(why, sizeof(why), "the sender was stopped before its source had ended");
  else
    snprintf(why, sizeof(why), "stopped by %s before all that was asked for had arrived",
             app_signals_name());
  report_set_failed(judged, PST_EXIT_FAILED, FINDING_STOPPED, "", why,
                    stream->exit_status != PST_EXIT_OK);
}

static const char *report_why_left(const struct judged *judged)
{
  if (judged->out.receiver->started_ns == 0)
    return "stopped before the sender had connected";
  return judged->stream->receiver.stopped == PST_STOP_DURATION
             ? "the receiver's --duration was over before the stream had ended; give it to "
               "`penstock send`, too"
             : "the receiver left before the stream had ended";
}

static void report_judge_cut(struct judged *judged)
{
  struct runner *runner = judged->stream->runner;
  const bool waited = judged->out.receiver->started_ns == 0;

  report_set_failed(judged, PST_EXIT_FAILED, FINDING_STOPPED, "receiver", report_why_left(judged),
                    waited && runner->said_waiting);
  runner->said_waiting |= waited;
}

static void report_say_source(const struct judged *judged, uint32_t stopped)
{
  const struct app_stream *stream = judged->stream;
  struct source_extent extent = {0};
  char done[SIZE_TEXT_BYTES], total[SIZE_TEXT_BYTES];

  if ((stopped & PST_STOP_SHORT) == 0 || !judged->out.sender || stream->sender.shares)
    return;
  if (stream->sender.source.ops->extent)
    stream->sender.source.ops->extent(stream->sender.source.state, &extent);
  if (extent.known)
    app_log(PST_LOG_INFO, "%s: source: %s of %s (stopped by %s)", stream->name,
            app_size_about(extent.done_bytes, done), app_size_about(extent.total_bytes, total),
            app_signals_name());
  else
    app_log(PST_LOG_INFO, "%s: source: %" PRIu64 " message%s (stopped by %s)", stream->name,
            judged->out.sender->messages_sent, app_plural(judged->out.sender->messages_sent),
            app_signals_name());
}

/* Only what stays in a cache gains by more slots, and only where both ends had their CPUs. */
static bool report_larger_ring_helps(const struct judged *judged)
{
  return judged->out.sender && judged->out.receiver &&
         app_statistics_cpu_least(judged->out.sender, judged->out.receiver) >=
             STATISTICS_CPU_FULL &&
         judged->stream->message * judged->stream->ring < RING_IN_CACHE_BYTES;
}

static void report_say_verdict(struct judged *judged)
{
  const struct result_stream *out = &judged->out;
  const char *name = judged->stream->name;
  int stage = pst_verdict(out->sender, out->receiver, &judged->out.share);
  double percent = out->share * 100;

  judged->out.limited_by = stage;
  if (stage == PST_STAGE_STAGING)
    app_log(PST_LOG_INFO, "%s: limited by: staging at the %s (%.0f%%)", name,
            app_accounting_stager(out->sender, out->receiver), percent);
  else if (stage == PST_LIMIT_STARVATION)
    app_log(PST_LOG_INFO,
            "%s: limited by: other programs on this CPU (had %.0f%% of a core); pin "
            "(threads.cpus) or free cores",
            name, 100 * app_statistics_cpu_least(out->sender, out->receiver));
  else if (stage == PST_STAGE_EMPTY)
    app_log(PST_LOG_INFO, "%s: limited by: sender (receiver idle %.0f%% of the time)", name,
            percent);
  else if (stage >= 0)
    app_log(PST_LOG_INFO, "%s: limited by: %s (%.0f%%)%s", name, pst_stage_name(stage), percent,
            stage == PST_STAGE_CREDIT && report_larger_ring_helps(judged)
                ? "; a larger `ring` may help"
                : "");
  else
    app_log(PST_LOG_INFO, "%s: limited by: CPU (never blocked)", name);
}

/* A side that was given up has not ended by itself: it ran until now. */
static void report_stop_clock(struct pst_stats *stats)
{
  if (stats->started_ns != 0 && stats->ended_ns == 0)
    stats->ended_ns = app_now_ns();
}

/* Returns the result of a stream, filled from its configuration. */
static struct result_stream report_result_of(const struct app_stream *stream,
                                             const struct account *account)
{
  return (struct result_stream){
      .name = stream->name,
      .account = account,
      .source = stream->sender.source_type,
      .sink = stream->receiver.sink_type,
      .sender_memory = stream->sender.memory,
      .receiver_memory = stream->receiver.memory,
      .size_bytes = stream->message,
      .ring_slots = stream->ring,
      .limited_by = RESULT_NEVER_RAN,
  };
}

void app_report_interrupted(void *context, struct json_object *result)
{
  const struct runner *runner = context;
  const struct account account = {.path.struct_size = sizeof(account.path)};

  for (uint32_t i = 0; i < runner->stream_count; i++) {
    struct result_stream entry = report_result_of(&runner->streams[i], &account);
    entry.stopped = report_stop_name(PST_STOP_SIGNAL);
    app_json_put_uncounted(app_result_add_stream(result, &entry));
  }
}

/* Reads the statistics of both ends into *judged. With `has_result` its JSON arrays are new and
 * become the result's. */
static void report_gather(struct app_stream *stream, bool has_result, struct judged *judged)
{
  struct result_stream *out = &judged->out;

  memset(judged, 0, sizeof(*judged));
  judged->stream = stream;
  judged->sender_stats.struct_size = judged->receiver_stats.struct_size = sizeof(struct pst_stats);
  *out = report_result_of(stream, &judged->account);
  out->expects = judged->expects;
  out->errors = has_result ? json_object_new_array() : NULL;
  if (stream->sender.handle &&
      pst_sender_stats(stream->sender.handle, &judged->sender_stats) == 0) {
    out->sender = &judged->sender_stats;
    out->sender_counters = app_result_counters(
        judged->sent, pst_sender_counters(stream->sender.handle, judged->sent, COUNTERS_MAX));
  }
  if (stream->receiver.handle &&
      pst_receiver_stats(stream->receiver.handle, &judged->receiver_stats) == 0) {
    out->receiver = &judged->receiver_stats;
    out->receiver_counters = app_result_counters(
        judged->received,
        pst_receiver_counters(stream->receiver.handle, judged->received, COUNTERS_MAX));
  }
  report_stop_clock(&judged->sender_stats);
  report_stop_clock(&judged->receiver_stats);
  if (!out->sender && !out->receiver)
    return;
  app_accounting_gather(out->sender, out->receiver, &judged->account);
  app_accounting_least(&judged->account, out->receiver_counters.values,
                       out->receiver_counters.count);
  judged->account.foreign = stream->foreign;
  judged->account.wrong.struct_size = sizeof(judged->account.wrong);
  if (out->receiver && out->receiver->corrupted > 0)
    pst_receiver_verified(stream->receiver.handle, &judged->account.wrong);
}

void app_report_stream(struct app_stream *stream, struct json_object *result)
{
  struct judged judged;

  report_gather(stream, result != NULL, &judged);
  if (!judged.out.sender && !judged.out.receiver) {
    json_object_put(judged.out.errors);
    return;
  }
  app_expect_read(stream->runner->config, stream->name, &judged.wanted);
  uint32_t stopped = report_stopped_by(&judged);
  if (stream->receiver.cut)
    report_judge_cut(&judged);
  report_judge_side(&judged, judged.out.receiver, &stream->receiver.error, "receiver");
  report_judge_side(&judged, judged.out.sender, &stream->sender.error, "sender");
  report_judge_stop(&judged, stopped);
  report_judge_expects(&judged);
  if (stream->foreign ||
      report_has_run(&judged)) { /* else the reason why it never began is all there is */
    report_judge_account(&judged);
    report_say_expects(&judged);
    report_say_numbers(&judged);
    report_say_source(&judged, stopped);
    if (report_has_run(&judged) && (judged.account.delivered > 0 || judged.account.sent > 0))
      report_say_verdict(&judged);
  }
  judged.out.stopped = report_stop_name(stopped);
  judged.out.series = result ? app_watch_series(stream) : NULL;
  judged.out.ok = stream->exit_status == PST_EXIT_OK;
  app_result_add_stream(result, &judged.out);
}
