/* SPDX-License-Identifier: Apache-2.0 */
/* State that threads of core share without a lock. */
#include "litmus.h"

#include <csignal>

enum weakening weakened;

/* ---- Stand-ins for what the sources use -------------------------------------------------------
 */

#define PST_STAGES 2
#define PST_LOG_WARN 1
#define PST_LOG_ERROR 0
#define PST_CLOSE_ABORT 1
#define TENSORS_RELEASES 256

/* An eventfd. Nothing is taken for granted of the order of its calls. */
struct eventfd {
  rl::atomic<uint64_t> count;
};
static int write(struct eventfd *fd, const uint64_t *one, size_t)
{
  return fd->count.fetch_add(*one, rl::mo_relaxed, $) < UINT64_MAX;
}
static int read(struct eventfd *fd, uint64_t *, size_t)
{
  return fd->count.exchange(0, rl::mo_relaxed, $) > 0;
}
struct mail {
  plain<struct mail *> next;
  int at; /* of a node: what it is */
};
struct mailbox {
  atomic_bool has_mail, is_woken;
  struct eventfd *wake_fd;
  pthread_mutex_t lock;
  plain<struct mail *> first, last;
};
typedef bool replaces_fn(const struct mail *older, const struct mail *newer);
static bool mailbox_replace(struct mailbox *, struct mail *, replaces_fn *)
{
  return false;
}
static void mail_free(struct mail *)
{
}
void mailbox_wake(struct mailbox *box);

struct pst_peer {
  struct pst_peer *next;
};
struct pst_node {
  struct {
    struct mailbox mailbox;
  } thread;
  atomic_bool has_lost_mail;
  struct pst_peer *peers;
  int left;
};
struct node_mail : mail {
};
static void mail_act_on(struct pst_node *, struct node_mail *)
{
}
static void peer_leave(struct pst_peer *, int, int, const char *)
{
}
static void pst_log(int, const char *, const char *)
{
}

struct session_end {
  shared<uint32_t> stage_turn;
  shared<uint64_t> blocked_ns[PST_STAGES], stage_since_ns;
  shared<int> stage, state;
  plain<uint64_t> started_ns, ended_ns, over_ns, usage_first, usage_last;
  struct {
    bool ends_early;
  } * ops;
};
#define stat_get(field) __atomic_load_n(&(field), __ATOMIC_RELAXED)
#define stat_set(field, value) stat_set_of(&(field), value)
template <typename T> void stat_set_of(shared<T> *field, T value)
{
  __atomic_store_n(field, value, __ATOMIC_RELAXED);
}
/* Sets a field that a thread reads only once it has seen the state. */
static void stat_set_of(plain<uint64_t> *field, uint64_t value)
{
  *field = value;
}
static uint64_t clock_now_ns()
{
  return 100;
}
static void usage_take(plain<uint64_t> *usage)
{
  *usage = 1;
}
enum pst_state {
  PST_STATE_WAITING,
  PST_STATE_CONNECTED,
  PST_STATE_ENDING,
  PST_STATE_ENDED,
  PST_STATE_FAILED
};
static const uint8_t end_successors[] = {255, 255, 255, 0, 0};
#define END_BIT(state) (1u << (state))
struct pst_receiver;

/* ---- DLPack */
struct tensors;
struct DLManagedTensorVersioned {
  void *manager_ctx;
};
struct tensor {
  struct DLManagedTensorVersioned managed;
  struct tensors *home;
  struct tensor *next; /* shown with `views` */
  bytes views, is_freed;
};
static void free(struct tensor *tensor)
{
  RL_ASSERT(tensor->views == 1 && tensor->is_freed == 0);
  tensor->is_freed = 1;
}
static void free(struct tensors *home);

struct pst_receiver {
  struct session_end end;
  struct tensors *client_data;
  int releases;
};
static int fifo_count(int *)
{
  return 0;
}
static int dlpack_take_back_some(struct pst_receiver *receiver, struct tensor **list);

/* ---- Configurations */
struct pst_config {
  atomic_uint holds;
  bytes memory;
  int options, arena;
};
static void free(struct pst_config *config)
{
  config->memory = -1;
}
static void options_free(int)
{
}
static void arena_free(int *)
{
}
#define PST_EXPORT

/* ---- The log */
struct log_state {
  atomic_int level;
  atomic_bool is_wrong;
  bytes wrong_word[1];
};
static struct log_state *the_state;
static const char *const level_names[] = {"error"};
static void pst_log(int, const char *, bytes *word)
{
  RL_ASSERT(*word == '?');
}
#define state (*the_state)
#define secure_getenv(name) "?"
#define snprintf(text, size, format, word) (*(text) = *(word))
#include "log.inc"
#undef state
#undef snprintf

#include "core.inc"

static void free(struct tensors *home)
{
  home->waiting = NULL;
}
static int dlpack_take_back_some(struct pst_receiver *, struct tensor **list)
{
  struct tensor *tensor = *list;

  RL_ASSERT(tensor->views == 1);
  *list = tensor->next;
  free(tensor);
  return 0;
}

/* ---- Mail -------------------------------------------------------------------------------------
 */

/* An entry that is put in is taken, or its owner is woken for it; and an owner that is woken once
 * is not woken for ever. */
struct mail_box : rl::test_suite<mail_box, 2> {
  struct mailbox box;
  struct eventfd fd;
  struct mail mail;
  bool is_taken;

  void before()
  {
    fd.count.store(0, rl::mo_relaxed, $);
    box.wake_fd = &fd;
    box.first = box.last = NULL;
    atomic_store(&box.has_mail, false);
    atomic_store(&box.is_woken, false);
    is_taken = false;
  }
  void thread(unsigned i)
  {
    if (i == 0) {
      mailbox_put(&box, &mail, NULL);
      return;
    }
    mailbox_drain(&box);
    if (mailbox_has_mail(&box))
      is_taken = mailbox_take(&box) == &mail;
  }
  void after()
  {
    const bool is_readable = fd.count.load(rl::mo_relaxed, $) != 0;

    RL_ASSERT(is_taken || is_readable);
    RL_ASSERT(!is_readable || atomic_load(&box.is_woken));
  }
};

/* A thread that finds mail also sees that mail was lost. */
struct lost_mail : rl::test_suite<lost_mail, 2> {
  struct pst_node node;
  struct eventfd fd;

  void before()
  {
    fd.count.store(0, rl::mo_relaxed, $);
    node.thread.mailbox.wake_fd = &fd;
    atomic_store(&node.thread.mailbox.has_mail, false);
    atomic_store(&node.thread.mailbox.is_woken, false);
    atomic_store(&node.has_lost_mail, false);
  }
  void thread(unsigned i)
  {
    if (i == 0)
      mail_lose(&node);
    else if (mailbox_has_mail(&node.thread.mailbox))
      RL_ASSERT(atomic_load(&node.has_lost_mail));
  }
};

/* ---- Streams ----------------------------------------------------------------------------------
 */

/* 90 ns were spent in stage 0, whether it has ended or not. */
struct stages : rl::test_suite<stages, 2> {
  struct session_end end;

  void before()
  {
    for (int i = 0; i < PST_STAGES; i++)
      atomic_store(&end.blocked_ns[i], 0);
    atomic_store(&end.stage_turn, 0u);
    atomic_store(&end.stage_since_ns, 10);
    atomic_store(&end.stage, 0);
    end.started_ns = 1;
  }
  void thread(unsigned i)
  {
    uint64_t blocked_ns[PST_STAGES];

    if (i == 0) {
      end_stage(&end, -1);
    } else {
      end_blocked(&end, 0, blocked_ns);
      RL_ASSERT(blocked_ns[0] == 90);
    }
  }
};

/* A thread that sees that a stream is over also sees when, and what it had used. */
struct states : rl::test_suite<states, 2> {
  struct pst_receiver receiver;

  void before()
  {
    struct session_end *end = &receiver.end;

    atomic_store(&end->state, PST_STATE_ENDING);
    atomic_store(&end->stage, -1);
    end->started_ns = 1;
    end->ended_ns = end->over_ns = end->usage_last = 0;
  }
  void thread(unsigned i)
  {
    if (i == 0) {
      end_state(&receiver.end, PST_STATE_ENDED);
    } else if (pst_receiver_state(&receiver) == PST_STATE_ENDED) {
      RL_ASSERT(receiver.end.ended_ns == 100);
      RL_ASSERT(receiver.end.usage_last == 1);
    }
  }
};

/* Two tensors are deleted on a thread of their own, one of them before the receiver's last poll and
 * the other beside its end; each is freed once, and the home when nobody has it any more. */
struct dlpack : rl::test_suite<dlpack, 2> {
  struct tensors home;
  struct tensor tensor[2];
  struct pst_receiver receiver;

  void before()
  {
    atomic_store(&home.users, 3u);
    atomic_store(&home.closed, false);
    atomic_store(&home.deleted, (struct tensor *)NULL);
    home.waiting = NULL;
    receiver.client_data = &home;
    for (struct tensor *one = tensor; one < tensor + 2; one++) {
      one->managed.manager_ctx = one;
      one->home = &home;
      one->next = NULL;
      one->views = one->is_freed = 0;
    }
  }
  void thread(unsigned i)
  {
    if (i == 0) {
      for (struct tensor *one = tensor; one < tensor + 2; one++) {
        one->views = 1;
        dlpack_delete(&one->managed);
      }
    } else {
      dlpack_take_back(&receiver);
      dlpack_close(&receiver);
    }
  }
  void after()
  {
    RL_ASSERT(tensor[0].is_freed == 1 && tensor[1].is_freed == 1);
    RL_ASSERT(atomic_load(&home.users) == 0);
  }
};

/* ---- The log ----------------------------------------------------------------------------------
 */

struct log_word : rl::test_suite<log_word, 2> {
  struct log_state log;

  void before()
  {
    atomic_store(&log.is_wrong, false);
    atomic_store(&log.level, 0);
    log.wrong_word[0] = 0;
    the_state = &log;
  }
  void thread(unsigned i)
  {
    if (i == 0)
      log_read_environment();
    else
      log_warn_of_environment();
  }
};

/* The last of two holders frees a configuration. */
struct configs : rl::test_suite<configs, 2> {
  struct pst_config config;

  void before()
  {
    atomic_store(&config.holds, 1u);
    config_hold(&config);
    config.memory = 1;
  }
  void thread(unsigned)
  {
    RL_ASSERT(config.memory == 1);
    pst_config_close(&config);
  }
};

/* ---- Signals ----------------------------------------------------------------------------------
 */

struct pst_session;
static void pst_session_wake(struct pst_session *)
{
}
#define SIGNALS_EXIT 1
static struct signal_words {
  atomic<int> received, number, event, last, last_process;
  atomic<struct pst_session *> woken;
} * the_words;
/* Relacy's is nothing to write to. */
#undef errno
static int errno;
#define received the_words->received
#define number the_words->number
#define event the_words->event
#define last the_words->last
#define last_process the_words->last_process
#define woken the_words->woken
#include "signals.inc"
#undef received
#undef number
#undef event
#undef last
#undef last_process
#undef woken

/* A thread that sees a signal sees which one. */
struct signals : rl::test_suite<signals, 2> {
  struct signal_words words;

  void before()
  {
    for (atomic<int> *word : {&words.received, &words.number, &words.last_process})
      atomic_store(word, 0);
    for (atomic<int> *fd : {&words.event, &words.last})
      atomic_store(fd, -1);
    atomic_store(&words.woken, (struct pst_session *)NULL);
    the_words = &words;
  }
  void thread(unsigned i)
  {
    if (i == 0)
      signals_handle(SIGTERM);
    else if (app_signals_stop())
      RL_ASSERT(strcmp(app_signals_name(), "SIGTERM") == 0);
  }
};

int main()
{
  return litmus<mail_box>("mail", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<lost_mail>("lost mail", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<stages>("stages", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<states>("states of a stream", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<dlpack>("deleted tensors", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<log_word>("a wrong PENSTOCK_LOG", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<configs>("holders of a configuration", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<signals>("signals", {WEAK_RELEASE, WEAK_ACQUIRE});
}
