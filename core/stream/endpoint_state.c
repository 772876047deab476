/* SPDX-License-Identifier: Apache-2.0 */
/* The state of an end, its blocked times and its failures. */

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "session.h"

/* A transport often notices first that the peer is gone; the control channel knows why. It gets
 * this long to say so: its process is alive, but may have to wait for a CPU. */
#define END_EXPLAIN_NS (3 * PST_NS_PER_S)

void end_init(struct session_end *end, const struct end_ops *ops,
              const struct end_peer_ops *peer_ops, struct pst_session *session,
              const struct config_stream *config)
{
  *end = (struct session_end){.ops = ops,
                              .peer_ops = peer_ops,
                              .session = session,
                              .config = config,
                              .name = config->name,
                              .control = peer_ops->control,
                              .state = PST_STATE_WAITING,
                              .stage = -1};
  ops->configure(end);
  end->path.struct_size = sizeof(end->path);
  snprintf(end->label, sizeof(end->label), "stream %s", config->name);
  counts_init(&end->counts);
}

void end_destroy(struct session_end *end)
{
  pthread_mutex_destroy(&end->counts.lock);
}

/* All that stats.c reads of a turn changes together; `blocked_ns` is added to the stage before. */
static void end_turn_stage(struct session_end *end, int stage, uint64_t since_ns,
                           uint64_t blocked_ns)
{
  stat_set(end->stage_turn, end->stage_turn + 1);
  if (blocked_ns)
    __atomic_store_n(&end->blocked_ns[end->stage], end->blocked_ns[end->stage] + blocked_ns,
                     __ATOMIC_RELEASE);
  __atomic_store_n(&end->stage_since_ns, since_ns, __ATOMIC_RELEASE);
  __atomic_store_n(&end->stage, stage, __ATOMIC_RELEASE);
  __atomic_store_n(&end->stage_turn, end->stage_turn + 1, __ATOMIC_RELEASE);
}

void end_stage(struct session_end *end, int stage)
{
  if (end->stage == stage || end->started_ns == 0)
    return;
  uint64_t now = clock_now_ns();
  end_turn_stage(end, stage, now, end->stage >= 0 ? now - end->stage_since_ns : 0);
}

void end_stage_shorten(struct session_end *end, int stage, uint64_t ns)
{
  uint64_t now = clock_now_ns();

  if (end->stage != stage)
    return;
  if (ns > now - end->stage_since_ns)
    ns = now - end->stage_since_ns;
  end_turn_stage(end, stage, end->stage_since_ns + ns, 0);
}

void end_stage_forget(struct session_end *end)
{
  end_turn_stage(end, -1, end->stage_since_ns, 0);
}

/* A time that has just been added to its stage must not be counted as still
 * running too: all of it is of one turn. */
void end_blocked(const struct session_end *end, uint64_t ended_ns, uint64_t *blocked_ns)
{
  uint64_t since, now;
  uint32_t turn;
  int stage;

  do {
    turn = __atomic_load_n(&end->stage_turn, __ATOMIC_ACQUIRE);
    since = __atomic_load_n(&end->stage_since_ns, __ATOMIC_ACQUIRE);
    stage = __atomic_load_n(&end->stage, __ATOMIC_ACQUIRE);
    for (int i = 0; i < PST_STAGES; i++)
      blocked_ns[i] = __atomic_load_n(&end->blocked_ns[i], __ATOMIC_ACQUIRE);
  } while (turn % 2 || turn != stat_get(end->stage_turn));
  now = clock_now_ns();
  if (stage >= 0 && ended_ns == 0 && now > since)
    blocked_ns[stage] += now - since;
}

#define END_BIT(state) (1u << (state))
#define END_FAILS END_BIT(PST_STATE_FAILED)

/* The successors of each state. Only a receiver ends without ENDING: where its application or a
 * foreign sender's silence ends it, or where its sender, before it was CONNECTED, sent nothing.
 * An assertion alone reads it. */
static const uint8_t end_successors[] __attribute__((unused)) = {
    [PST_STATE_WAITING] = END_BIT(PST_STATE_CONNECTED) | END_BIT(PST_STATE_ENDED) | END_FAILS,
    [PST_STATE_CONNECTED] = END_BIT(PST_STATE_ENDING) | END_BIT(PST_STATE_ENDED) | END_FAILS,
    [PST_STATE_ENDING] = END_BIT(PST_STATE_ENDED) | END_FAILS,
    [PST_STATE_ENDED] = 0,
};

void end_state(struct session_end *end, int state)
{
  if (end->state == PST_STATE_FAILED || end->state == state)
    return;
  assert(end_successors[end->state] & END_BIT(state));
  assert(state != PST_STATE_ENDED || end->state == PST_STATE_ENDING || end->ops->ends_early);
  if (state == PST_STATE_CONNECTED) {
    usage_take(&end->usage_first);
  } else if (state == PST_STATE_ENDED || state == PST_STATE_FAILED) {
    end_stage(end, -1);
    if (end->started_ns != 0)
      usage_take(&end->usage_last);
    stat_set(end->ended_ns, end->over_ns ? end->over_ns : clock_now_ns());
  }
  __atomic_store_n(&end->state, state, __ATOMIC_RELEASE);
}

void end_enter_control(struct session_end *end, enum end_control control)
{
  /* Once either end has failed, one last word is left at most. */
  assert(end->control == END_CONTROL_LIVE || control == END_CONTROL_OVER);
  end->control = control;
}

static void end_set_error(struct session_end *end, int code, const char *text)
{
  end_lock(end);
  snprintf(end->error_text, sizeof(end->error_text), "%s", text);
  end_unlock(end);
  stat_set(end->error, code);
}

void end_fail(struct session_end *end, int code, const char *text)
{
  if (end_is_over(end))
    return;
  if (code >= 0) /* an application's abort: without an error nobody would see it */
    code = -ECANCELED;
  if (!text)
    text = strerror(-code);
  end_set_error(end, code, text);
  end_read_counters(end);
  end_state(end, PST_STATE_FAILED);
  if ((end->control == END_CONTROL_LIVE || end->control == END_CONTROL_OWES) &&
      end->session->control) {
    const bool is_last_word = end->control == END_CONTROL_OWES;
    struct control_totals totals;
    end->ops->totals(end, &totals);
    int rc = control_fail(end->session->control, end, code, text, &totals);
    end_enter_control(end, rc == 0 && !is_last_word ? END_CONTROL_AWAITS : END_CONTROL_OVER);
  }
}

int end_fail_logged(struct session_end *end, int code, const char *format, ...)
{
  char text[sizeof(end->error_text)];
  int at = snprintf(text, sizeof(text), "%s: ", end->label);
  va_list args;

  va_start(args, format);
  vsnprintf(text + at, sizeof(text) - (size_t)at, format, args);
  va_end(args);
  pst_log(PST_LOG_ERROR, "%s", text);
  end_fail(end, code, text);
  return code;
}

static void end_raise(struct session_end *end, enum end_trouble kind, int status,
                      uint64_t deadline_ns)
{
  if (end->trouble.kind >= kind || end->state == PST_STATE_ENDED)
    return;
  end->trouble.status = status;
  end->trouble.deadline_ns = deadline_ns;
  stat_set(end->trouble.kind, kind);
}

/* Takes over the transport's path. A stream that core stages stays staged, and the worse of both
 * paths gives the reason. */
static void end_merge_path(struct session_end *end, const struct pst_path_info *its)
{
  struct pst_path_info path = *its;

  end_lock(end);
  /* Out of a staging ring, core's copy is the last way. */
  if (path.via[0] == 0 || (end->ops->ring && end->path.path == PST_PATH_STAGED))
    memcpy(path.via, end->path.via, sizeof(path.via));
  if (end->path.reason[0] && path.path <= end->path.path)
    memcpy(path.reason, end->path.reason, sizeof(path.reason));
  if (path.path < end->path.path)
    path.path = end->path.path;
  end->path = path;
  end_unlock(end);
}

/* Some transports know how bytes travel when they know their peer, and some only as they do. One
 * that is no worse than `known` is passed over. */
static void end_settle_path(struct session_end *end, uint32_t known)
{
  struct pst_path_info path = {.struct_size = sizeof(path)};
  const char *key;

  if (end->lane->worker.ops->endpoint_path(end->endpoint.handle, &path) != 0 || path.path <= known)
    return;
  end_merge_path(end, &path);
  if (end->path.path > end->ops->worst_path(end->config, &key))
    end_raise(end, END_PATH_REFUSED, -EOPNOTSUPP, clock_now_ns());
}

void end_watch_path(struct session_end *end)
{
  if (end->endpoint.state == ENGINE_ENDPOINT_OPEN && end->trouble.kind == END_SOUND)
    end_settle_path(end, end->path.path);
}

void end_peer_failed(struct session_end *end, int code, const char *text)
{
  assert(!end_is_over(end));
  if (end->trouble.kind > END_PEER_FAILED)
    return;
  end_set_error(end, code, text);
  stat_set(end->trouble.kind, END_PEER_FAILED);
}

void end_note_peer(struct session_end *end, const struct control_totals *totals,
                   enum end_peer_word word)
{
  assert(word != END_PEER_SILENT);
  end_lock(end);
  if (end->peer_word <= word) {
    end->peer = *totals;
    stat_set(end->peer_word, word);
  }
  end_unlock(end);
}

void end_connected(struct session_end *end)
{
  if (end_is_over(end))
    return;
  end_settle_path(end, 0);
  if (end->state != PST_STATE_WAITING) { /* again: what was lost in between is counted */
    end_read_counters(end);
    return;
  }
  end_state(end, PST_STATE_CONNECTED);
  end->ops->connected(end);
}

int end_out_of_memory(const struct session_end *end, struct pst_error *error)
{
  return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "stream %s: out of memory", end->name);
}

int end_open_queue(const struct session_end *end, const struct engine_memory *memory,
                   uint32_t batches, uint32_t pieces, struct pst_queue **queue,
                   struct pst_error *error)
{
  int rc = engine_memory_open_queue(memory, batches, pieces, queue);

  if (rc < 0)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, rc, "stream %s: memory %s cannot open a queue: %s",
                    end->name, memory->plugin->name, strerror(-rc));
  return 0;
}

int end_open_endpoint(struct session_end *end, struct pst_endpoint_params *params,
                      struct pst_error *error)
{
  params->roles = end->ops->endpoint_role;
  params->options = end->transport->plugin.options;
  params->label = end->name;
  params->message_max = end->config->message;
  params->timeout_ns = end->config->timeout_ns;
  params->is_foreign = end->peer_ops->is_foreign;
  int rc = engine_endpoint_open(&end->endpoint, &end->lane->worker, params);
  if (rc == 0 || pst_fail_said(error, engine_exit_status(rc), rc) == rc)
    return rc;
  return pst_fail(error, engine_exit_status(rc), rc,
                  "stream %s: transport %s cannot open an endpoint: %s", end->name,
                  end->device->plugin->name, strerror(-rc));
}

void end_connect(struct session_end *end, const struct pst_blob *address)
{
  struct engine_why why;
  int rc = engine_endpoint_connect(
      &end->endpoint, address, end->peer_text[0] ? end->peer_text : "its peer",
      "give both ends the same transport, or take one that reaches that host", &why);

  if (rc < 0 && why.is_logged)
    end_fail(end, rc, why.text);
  else if (rc < 0)
    end_fail_logged(end, rc, "%s", why.text);
}

/* "transport verbs_rc: packets: the device is lost": the transport's own line about this stream
 * is the cause, which may well be at this end. */
static bool end_is_named(const char *line, const char *name)
{
  const size_t length = strlen(name);

  for (const char *at = strstr(line, name); at; at = strstr(at + 1, name))
    if (at[length] == ':' && (at == line || at[-1] == ' '))
      return true;
  return false;
}

/* Says why: the path, the device, the transport's own line about this stream, or no more than that
 * the connection ended. */
static void end_fail_explained(struct session_end *end)
{
  const int status = end->trouble.status;
  const char *key;

  if (end->trouble.kind == END_PATH_REFUSED) {
    end->ops->worst_path(end->config, &key);
    end_fail_logged(
        end, status,
        "`%s` asked for, but with this peer it is %s%s%s; `path: auto` takes what is possible", key,
        end->path.path == PST_PATH_MAPPED ? "mapped" : "staged", end->path.reason[0] ? ": " : "",
        end->path.reason);
  } else if (end->trouble.kind == END_DEVICE_LOST) { /* the peer reads it, too */
    end_fail_logged(end, status,
                    "the %s's device of transport %s has failed: %s; see the %s's log, and its "
                    "kernel's (`dmesg`)",
                    end->ops->role, end->device->plugin->name, strerror(-status), end->ops->role);
  } else if (end_is_named(pst_log_last_error(), end->name)) {
    end_fail(end, status, pst_log_last_error());
  } else {
    end_fail_logged(end, status,
                    "the connection to the %s (%s) ended: %s; check its log, and whether its "
                    "process runs",
                    end->ops->peer_role, end->peer_text[0] ? end->peer_text : "unknown",
                    strerror(-status));
  }
}

/* Something is wrong: 0 while it may still be explained. */
static __attribute__((noinline)) int end_check_trouble(struct session_end *end)
{
  char text[sizeof(end->error_text)];

  if (end->trouble.kind == END_PEER_FAILED) {
    memcpy(text, end->error_text, sizeof(text));
    end_fail(end, end->error, text);
    return end->error;
  }
  if (end->state == PST_STATE_ENDED || clock_now_ns() < end->trouble.deadline_ns)
    return 0;
  end_fail_explained(end);
  return end->error;
}

/* Senders fail as soon as a failure is known. Receivers ask here only when
 * nothing more has arrived, so that what did arrive is handed over. */
int end_check(struct session_end *end)
{
  if (end->state == PST_STATE_FAILED)
    return end->error;
  return end->trouble.kind == END_SOUND ? 0 : end_check_trouble(end);
}

void end_gone(struct session_end *end, int status)
{
  end_raise(end, END_GONE, status ? status : -ECONNRESET, clock_now_ns() + END_EXPLAIN_NS);
}

/* Nobody else knows more of it. */
void end_device_failed(struct session_end *end, int status)
{
  end_raise(end, END_DEVICE_LOST, status ? status : -EIO, clock_now_ns());
}
