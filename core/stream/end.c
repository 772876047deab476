/* SPDX-License-Identifier: Apache-2.0 */
/* States, blocked times and failures: what all ends have in common. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "session.h"
#include "util/limit_remedy.h"

/* A transport often notices first that the peer is gone; the control channel knows why. It gets
 * this long to say so: its process is alive, but may have to wait for a CPU. */
#define END_EXPLAIN_NS (3 * PST_NS_PER_S)
/* How long messages are on their way at most. */
#define UNHEARD_NS PST_NS_PER_S

int end_init(struct session_end *end, struct pst_session *session,
             const struct config_stream *config, bool is_sender)
{
  *end = (struct session_end){.session = session,
                              .config = config,
                              .name = config->name,
                              .is_sender = is_sender,
                              .is_one_sided = config->region > 0,
                              .is_foreign = session->config->control.none,
                              .control_over = session->config->control.none,
                              .state = PST_STATE_WAITING,
                              .stage = -1};
  end->path.struct_size = sizeof(end->path);
  return -pthread_mutex_init(&end->text_lock, NULL);
}

void end_stage(struct session_end *end, int stage)
{
  if (end->stage == stage || end->started_ns == 0)
    return;
  uint64_t now = clock_now_ns();
  stat_set(end->stage_turn, end->stage_turn + 1);
  if (end->stage >= 0)
    __atomic_store_n(&end->blocked_ns[end->stage],
                     end->blocked_ns[end->stage] + now - end->stage_since_ns, __ATOMIC_RELEASE);
  __atomic_store_n(&end->stage_since_ns, now, __ATOMIC_RELEASE);
  __atomic_store_n(&end->stage, stage, __ATOMIC_RELEASE);
  __atomic_store_n(&end->stage_turn, end->stage_turn + 1, __ATOMIC_RELEASE);
}

void end_stage_shorten(struct session_end *end, int stage, uint64_t ns)
{
  uint64_t now = clock_now_ns();

  if (end->stage != stage)
    return;
  if (ns > now - end->stage_since_ns)
    ns = now - end->stage_since_ns;
  stat_set(end->stage_turn, end->stage_turn + 1);
  __atomic_store_n(&end->stage_since_ns, end->stage_since_ns + ns, __ATOMIC_RELEASE);
  __atomic_store_n(&end->stage_turn, end->stage_turn + 1, __ATOMIC_RELEASE);
}

void end_stage_forget(struct session_end *end)
{
  stat_set(end->stage_turn, end->stage_turn + 1);
  __atomic_store_n(&end->stage, -1, __ATOMIC_RELEASE);
  __atomic_store_n(&end->stage_turn, end->stage_turn + 1, __ATOMIC_RELEASE);
}

void end_state(struct session_end *end, int state)
{
  if (end->state == PST_STATE_FAILED || end->state == state)
    return;
  if (state == PST_STATE_CONNECTED) {
    usage_take(&end->usage_first);
    if (end->is_sender || !end->is_foreign) /* else the first message begins the stream */
      stat_set(end->started_ns, clock_now_ns());
  } else if (state == PST_STATE_ENDED || state == PST_STATE_FAILED) {
    end_stage(end, -1);
    if (end->started_ns != 0)
      usage_take(&end->usage_last);
    stat_set(end->ended_ns, end->over_ns ? end->over_ns : clock_now_ns());
  }
  __atomic_store_n(&end->state, state, __ATOMIC_RELEASE);
}

void end_fail(struct session_end *end, int code, const char *text)
{
  if (end->state == PST_STATE_FAILED || end->state == PST_STATE_ENDED)
    return;
  if (code >= 0) /* an application's abort: without an error nobody would see it */
    code = -ECANCELED;
  if (!text)
    text = strerror(-code);
  pthread_mutex_lock(&end->text_lock);
  snprintf(end->error_text, sizeof(end->error_text), "%s", text);
  pthread_mutex_unlock(&end->text_lock);
  stat_set(end->error, code);
  count_read(end);
  end_state(end, PST_STATE_FAILED);
  if ((!end->control_over || end->owes_last) && end->session->control) {
    struct control_totals totals;
    end->control_over = true;
    end_totals(end, &totals);
    int rc = control_fail(end->session->control, end, code, text, &totals);
    end->awaits_last = rc == 0 && !end->owes_last;
  }
}

static bool finish_known(const struct session_end *end)
{
  if (end->is_sender)
    return false;
  return end->is_one_sided ? ((const struct pst_target *)end)->finish_known
                           : ((const struct pst_receiver *)end)->finish_known;
}

bool end_awaits(const struct session_end *end)
{
  bool finished = end->is_one_sided ? ((const struct pst_target *)end)->finished
                                    : ((const struct pst_receiver *)end)->finished;
  return !end->is_sender && finished && end->state != PST_STATE_ENDED;
}

void end_totals(const struct session_end *end, struct control_totals *totals)
{
  if (end->is_one_sided && end->is_sender)
    initiator_totals((const struct pst_initiator *)end, totals);
  else if (end->is_one_sided)
    target_totals((const struct pst_target *)end, totals);
  else if (end->is_sender)
    sender_totals((const struct pst_sender *)end, totals);
  else
    receiver_totals((const struct pst_receiver *)end, totals);
}

void end_connected(struct session_end *end)
{
  if (end->state != PST_STATE_WAITING)
    return;
  if (end->is_one_sided && end->is_sender && initiator_connected((struct pst_initiator *)end) < 0)
    return;
  struct pst_path_info path = {.struct_size = sizeof(path)};
  if (end->lane->ops->endpoint_path(end->endpoint, &path) == 0) {
    pthread_mutex_lock(&end->text_lock);
    if (path.path < end->path.path) /* what core stages stays staged */
      path.path = end->path.path;
    if (path.via[0] == 0 || (!end->is_sender && end->path.path == PST_PATH_STAGED))
      memcpy(path.via, end->path.via, sizeof(path.via));
    if (end->path.reason[0])
      memcpy(path.reason, end->path.reason, sizeof(path.reason));
    end->path = path;
    pthread_mutex_unlock(&end->text_lock);
  }
  end_state(end, PST_STATE_CONNECTED);
  if (finish_known(end))
    end_state(end, PST_STATE_ENDING); /* the sender's word was here before the transport's */
}

void end_close_endpoint(struct session_end *end, uint32_t mode, uint64_t deadline_ns)
{
  if (!end->endpoint || end->endpoint_closing)
    return;
  end->endpoint_closing = true;
  if (end->is_one_sided && end->is_sender)
    initiator_leave((struct pst_initiator *)end);
  if (end->lane->ops->endpoint_close(end->endpoint, mode, deadline_ns) < 0)
    end->endpoint_closed = true;
}

/* The transport's own line, where it has one, is the cause. */
static void connect_to(struct session_end *end, const struct pst_blob *address)
{
  char text[sizeof(end->error_text)];

  pst_log_clear_error();
  int rc = end->lane->ops->endpoint_connect(end->endpoint, address);
  if (rc >= 0)
    return;
  if (pst_log_last_error()[0]) {
    snprintf(text, sizeof(text), "%s", pst_log_last_error());
  } else {
    snprintf(text, sizeof(text),
             "stream %s: transport %s cannot reach %s: %s; give both ends the same transport, or "
             "take one that reaches that host",
             end->name, end->device->plugin->name, end->peer_text[0] ? end->peer_text : "its peer",
             strerror(-rc));
    pst_log(PST_LOG_ERROR, "%s", text);
  }
  end_fail(end, rc, text);
}

static int take_peer(struct session_end *end, struct session_mail *mail)
{
  pthread_mutex_lock(&end->text_lock);
  snprintf(end->peer_text, sizeof(end->peer_text), "%.127s", mail->text);
  pthread_mutex_unlock(&end->text_lock);
  if (end->is_one_sided)
    return end->is_sender ? initiator_offered((struct pst_initiator *)end, mail) : 0;
  if (end->is_sender)
    return 0;
  struct pst_receiver *receiver = (struct pst_receiver *)end;
  memcpy(receiver->params, mail->params, sizeof(receiver->params));
  receiver->param_count = mail->param_count;
  const char *seed = pst_receiver_param(receiver, "pattern.seed");
  if (seed)
    sscanf(seed, "%lu", &receiver->seed);
  return 0;
}

/* Sender: the receiver's counts end the stream, once ours are on their way.
 * Receiver: the sender's answer does. */
static void take_counts(struct session_end *end, const struct session_mail *mail)
{
  count_read(end);
  pthread_mutex_lock(&end->text_lock);
  end->peer = mail->totals;
  stat_set(end->peer_final, true);
  pthread_mutex_unlock(&end->text_lock);
  stat_set(end->peer_known, true);
  if (end->is_sender) {
    struct control_totals totals;
    end_stage(end, -1);
    end_totals(end, &totals);
    control_counts(end->session->control, end, &totals);
  }
  end->control_over = true;
  end_state(end, PST_STATE_ENDED);
}

static void take_finish(struct session_end *end, const struct session_mail *mail)
{
  if (end->is_sender)
    return;
  pthread_mutex_lock(&end->text_lock);
  end->peer = mail->totals;
  pthread_mutex_unlock(&end->text_lock);
  stat_set(end->peer_known, true);
  if (end->is_one_sided) {
    ((struct pst_target *)end)->finish_known = true;
  } else {
    struct pst_receiver *receiver = (struct pst_receiver *)end;
    receiver->sent = mail->totals;
    stat_set(receiver->finish_known, true);
  }
  if (end->state == PST_STATE_CONNECTED)
    end_state(end, PST_STATE_ENDING);
}

/* The other side's word as it failed, or after this one had. */
static void take_last(struct session_end *end, const struct session_mail *mail)
{
  pthread_mutex_lock(&end->text_lock);
  if (mail->has_totals && mail->totals.messages != UINT64_MAX) {
    end->peer = mail->totals;
    stat_set(end->peer_final, true);
    stat_set(end->peer_known, true);
  }
  pthread_mutex_unlock(&end->text_lock);
}

/* Of what has come this far, some may still wait for its consumer. */
static bool has_arrived(struct session_end *end)
{
  struct control_totals own;
  bool has = false;

  end_totals(end, &own);
  for (uint32_t i = 0; i < end->counter_count; i++)
    has |= strcmp(end->counters[i].name, "messages_received") == 0 && end->counters[i].value != 0;
  return has || own.messages != 0;
}

/* A receiver of which a lossy transport never gets anything says so while it runs, and not at its
 * end alone. */
static void tell_unheard(struct session_end *end)
{
  char words[128] = "";

  if (end->is_sender || end->told_unheard || end->peer.messages == 0 ||
      end->peer.messages == UINT64_MAX || (end->device->limits.capabilities & PST_CAP_RELIABLE))
    return;
  uint64_t now = clock_now_ns();
  if (end->unheard_ns == 0)
    end->unheard_ns = now;
  if (now - end->unheard_ns < UNHEARD_NS)
    return;
  end->told_unheard = true;
  count_read(end);
  if (has_arrived(end))
    return;
  if (end->endpoint)
    end->lane->ops->describe(end->endpoint, words, sizeof(words));
  pst_log(PST_LOG_WARN,
          "stream %s: nothing has arrived yet of the %lu messages that were sent; this end is %s. "
          "Check `device` at both ends, the route, and firewalls, which may let `control` pass "
          "alone",
          end->name, end->peer.messages, words);
}

static void lack_descriptors(struct session_end *end, int code)
{
  char text[sizeof(end->error_text)];

  snprintf(text, sizeof(text), "stream %s: this process cannot keep its peer's descriptors: %s%s",
           end->name, strerror(-code), limit_remedy(code));
  pst_log(PST_LOG_ERROR, "%s", text);
  end_fail(end, code, text);
}

void end_mail(struct session_end *end, struct session_mail *mail)
{
  if (end->awaits_last && (mail->type == MAIL_LAST || mail->type == MAIL_FAIL)) {
    end->awaits_last = false;
    take_last(end, mail);
  }
  if (end->state == PST_STATE_FAILED || end->state == PST_STATE_ENDED)
    return;
  if ((mail->type == MAIL_PEER || mail->type == MAIL_ADDRESS) && mail->code < 0) {
    lack_descriptors(end, mail->code);
    return;
  }
  switch (mail->type) {
  case MAIL_PEER:
    if (take_peer(end, mail) == 0)
      connect_to(end, &mail->address);
    break;
  case MAIL_ADDRESS:
    connect_to(end, &mail->address);
    break;
  case MAIL_BEAT:
    pthread_mutex_lock(&end->text_lock);
    if (!end->peer_final)
      end->peer = mail->totals;
    pthread_mutex_unlock(&end->text_lock);
    stat_set(end->peer_known, true);
    tell_unheard(end);
    break;
  case MAIL_FINISH:
    take_finish(end, mail);
    break;
  case MAIL_COUNTS:
    take_counts(end, mail);
    break;
  case MAIL_FAIL:
    end->control_over = true;
    stat_set(end->failing, true);
    stat_set(end->error, mail->code);
    pthread_mutex_lock(&end->text_lock);
    memcpy(end->error_text, mail->text, sizeof(end->error_text));
    pthread_mutex_unlock(&end->text_lock);
    take_last(end, mail);
    end->owes_last = mail->has_totals;
    break;
  case MAIL_LAST:
    break;
  }
}

static const char *end_role(bool is_sender, bool is_one_sided)
{
  if (is_one_sided)
    return is_sender ? "initiator" : "target";
  return is_sender ? "sender" : "receiver";
}

/* "transport verbs_rc: packets: the device is lost": the transport's own line about this stream
 * is the cause, which may well be at this end. */
static bool names_stream(const char *line, const char *name)
{
  const size_t length = strlen(name);

  for (const char *at = strstr(line, name); at; at = strstr(at + 1, name))
    if (at[length] == ':' && (at == line || at[-1] == ' '))
      return true;
  return false;
}

/* Senders fail as soon as a failure is known. Receivers ask here only when
 * nothing more has arrived, so that what did arrive is handed over. */
int end_check(struct session_end *end)
{
  if (end->state == PST_STATE_FAILED)
    return end->error;
  if (end->failing) {
    char text[sizeof(end->error_text)];
    memcpy(text, end->error_text, sizeof(text));
    end_fail(end, end->error, text);
    return end->error;
  }
  if (end->gone_deadline_ns && end->state != PST_STATE_ENDED &&
      clock_now_ns() >= end->gone_deadline_ns) {
    char text[sizeof(end->error_text)];
    if (end->has_lost_device) { /* the peer reads it, too */
      snprintf(text, sizeof(text),
               "stream %s: the %s's device of transport %s has failed: %s; see the %s's log, and "
               "its kernel's (`dmesg`)",
               end->name, end_role(end->is_sender, end->is_one_sided), end->device->plugin->name,
               strerror(-end->gone_status), end_role(end->is_sender, end->is_one_sided));
      pst_log(PST_LOG_ERROR, "%s", text);
    } else if (names_stream(pst_log_last_error(), end->name)) {
      snprintf(text, sizeof(text), "%s", pst_log_last_error());
    } else {
      snprintf(text, sizeof(text),
               "stream %s: the connection to the %s (%s) ended: %s; check its log, and whether its "
               "process runs",
               end->name, end_role(!end->is_sender, end->is_one_sided),
               end->peer_text[0] ? end->peer_text : "unknown", strerror(-end->gone_status));
      pst_log(PST_LOG_ERROR, "%s", text);
    }
    end_fail(end, end->gone_status, text);
    return end->error;
  }
  return 0;
}

void end_gone(struct session_end *end, int status)
{
  if (end->gone_deadline_ns || end->state == PST_STATE_ENDED)
    return;
  end->gone_status = status ? status : -ECONNRESET;
  end->gone_deadline_ns = clock_now_ns() + END_EXPLAIN_NS;
}

/* Nobody else knows more of it. */
void end_device_failed(struct session_end *end, int status)
{
  if (end->has_lost_device || end->state == PST_STATE_ENDED)
    return;
  end->has_lost_device = true;
  end->gone_status = status ? status : -EIO;
  end->gone_deadline_ns = clock_now_ns();
}
