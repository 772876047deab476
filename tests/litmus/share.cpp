/* SPDX-License-Identifier: Apache-2.0 */
/* State that a router and its clients share without a lock: `penstock share`. */
#include "litmus.h"

enum weakening weakened;

/* ---- Stand-ins for what the sources use -------------------------------------------------------
 */

#define PST_INLINE static inline
#define PST_SHARE_ENTRIES 1u /* of each ring: the second one waits for room */
#define PST_SHARE_PIECES 1u
#define PST_PLACE_MASK 0xffffu
#define NAP_MS 1
enum { PST_SHARE_REQUEST = 1, PST_SHARE_RELEASE };

/* A timerfd or an eventfd. Nothing is taken for granted of the order of its calls. */
struct event {
  rl::atomic<int> is_readable;
};
static void pst_share_wake(struct event *event)
{
  event->is_readable.store(1, rl::mo_relaxed, $);
}
static int read(struct event *, uint64_t *, size_t)
{
  return 0;
}
struct epoll_event {
};
/* A condition may end a wait at any time. */
#undef pthread_cond_wait
#undef pthread_cond_signal
#define pthread_cond_signal(condition) (void)(condition)
#define pthread_cond_wait(condition, mutex)                                                        \
  (pthread_mutex_unlock(mutex), rl::yield(1, $), pthread_mutex_lock(mutex))
/* Returns when it is woken, and never without. */
static void epoll_wait(struct event *event, struct epoll_event *, int, int)
{
  while (event->is_readable.load(rl::mo_relaxed, $) == 0)
    rl::yield(1, $);
}

struct pst_share_page {
  shared<uint32_t> submit_tail, submit_head, complete_tail, complete_head, router_sleeps,
      client_sleeps;
};
struct pst_share_entry {
  uint8_t kind, tokens;
  uint16_t piece_count;
  bytes number;
};
static void memcpy(struct pst_share_entry *to, const struct pst_share_entry *from, size_t)
{
  to->kind = from->kind;
  to->piece_count = from->piece_count;
  to->number = from->number;
}
struct pst_completion {
  bytes number;
};

/* The client's. */
enum { SHARE_UP, SHARE_AWAY, SHARE_TRYING, SHARE_ENDED };
enum { PST_LOG_ERROR, PST_LOG_INFO };
enum { SHUT_RDWR };
#define TRY_NS 1u
struct pst_device;
struct pst_host {
  uint64_t (*clock_ns)(const struct pst_host *);
  void (*log)(const struct pst_host *, int, const char *, ...);
  int (*defer)(const struct pst_host *, struct pst_device *, void (*)(void *), void *);
};
struct pst_device {
  const struct pst_host *host;
  const char *socket;
  int fd, attempts;
  uint64_t reconnect_ns;
  atomic_bool is_wrong;
  atomic_int state;
  atomic_uint link, last_link;
  atomic<uint64_t> away_ns, try_ns;
  atomic<uint32_t> mr_number;
  bytes connection; /* behind the descriptor */
  char refusal[1];
  pthread_mutex_t objects_lock;
};
struct pst_worker {
  struct pst_device *device;
  struct pst_share_page *page;
  struct pst_share_entry *submit;
  struct pst_completion *complete;
  struct event *router_event, *client_event;
  uint32_t submit_head, submit_tail, complete_head, released_count;
  bool is_armed, wants_room, is_unsettled, is_lost;
  int polled;
};
/* The router serves as long as the program runs. */
static bool share_is_up(const struct pst_worker *)
{
  return true;
}
static int share_arm_timer(struct pst_worker *)
{
  return 0;
}
static uint32_t share_renew_settle(struct pst_worker *, struct pst_completion *, uint32_t)
{
  return 0;
}
static void share_release_flush(struct pst_worker *)
{
}
static void share_distrust(struct pst_device *)
{
  RL_ASSERT(!"a position that the router never wrote");
}
static int share_poll_one(struct pst_worker *worker, struct pst_completion *completion)
{
  RL_ASSERT(completion->number == ++worker->polled);
  return 1;
}
static uint32_t share_poll_look(struct pst_worker *, struct pst_completion *, uint32_t)
{
  return 0;
}
static int shutdown(int, int)
{
  return 0;
}
static int share_connect_again(struct pst_device *device)
{
  device->connection = 1;
  return 0;
}
/* The first router ends again at once; the second one gives the memory another number. */
static int share_reconnect_ask_all(struct pst_device *device)
{
  if (++device->attempts == 1)
    return -ENOENT;
  atomic_store_explicit(&device->mr_number, 2u, memory_order_relaxed);
  return 0;
}
static void share_reconnect_lose_worker(struct pst_worker *worker)
{
  worker->is_lost = true;
}
static bool share_worker_has_messages(const struct pst_worker *)
{
  return false;
}
static void share_reconnect_restore_worker(struct pst_worker *worker)
{
  RL_ASSERT(atomic_load_explicit(&worker->device->mr_number, memory_order_relaxed) == 2);
  worker->is_lost = false;
}

/* The router's. */
struct share_command {
  bytes asked, answer;
};
struct share_mr {
  atomic<uint32_t> number, uses;
  bytes memory;
};
struct share_class {
  uint32_t regions;
};
struct share_client {
  atomic_bool is_broken;
  bool has_wakeup;
  struct share_class *class_;
  struct share_mr *mrs;
};
#define class class_
struct share_worker {
  struct share_client *client;
  struct pst_share_page *page;
  struct pst_share_entry *submit;
  struct pst_completion *complete;
  struct event *client_event, *epoll_fd, *own_event;
  uint32_t submit_head, complete_tail, complete_head;
  atomic<struct share_command *> command;
  atomic_bool is_stopping;
  pthread_mutex_t lock;
  plain<bool> is_answered;
  int answered; /* a condition */
  struct {
    int (*arm)(int);
  } * ops;
  int inner, taken;
};
static bool share_submit_request(struct share_worker *worker, const struct pst_share_entry *entry,
                                 uint32_t *)
{
  RL_ASSERT(entry->number == ++worker->taken);
  return true;
}
static bool share_submit_release(struct share_worker *, const struct pst_share_entry *)
{
  return false;
}
static void share_client_expel(struct share_client *client, const char *)
{
  atomic_store(&client->is_broken, true);
}
static void share_mr_close(struct share_client *, struct share_mr *mr)
{
  mr->memory = 0;
}
static void share_call_run(struct share_worker *, struct share_command *command)
{
  RL_ASSERT(command->asked == 1);
  command->answer = 2;
}
static void share_worker_wake(struct share_worker *worker)
{
  pst_share_wake(worker->own_event);
}
static int share_worker_timeout(const struct share_worker *)
{
  return -1;
}

#include "share.inc"
#undef class

/* ---- Both ends of a worker's memory ------------------------------------------------------------
 */

struct ends {
  struct pst_share_page page;
  struct pst_share_entry submit[PST_SHARE_ENTRIES];
  struct pst_completion complete[PST_SHARE_ENTRIES];
  struct event router_event, client_event;
  struct pst_device device;
  struct pst_worker client;
  struct share_client share_client;
  struct share_worker router;

  void open()
  {
    for (shared<uint32_t> *word : {&page.submit_tail, &page.submit_head, &page.complete_tail,
                                   &page.complete_head, &page.router_sleeps, &page.client_sleeps})
      atomic_store(word, 0u);
    for (struct event *event : {&router_event, &client_event})
      event->is_readable.store(0, rl::mo_relaxed, $);
    atomic_store(&device.is_wrong, false);
    atomic_store(&device.state, (int)SHARE_UP);
    atomic_store(&share_client.is_broken, false);
    share_client.has_wakeup = false;
    client.device = &device;
    client.page = router.page = &page;
    client.submit = router.submit = submit;
    client.complete = router.complete = complete;
    client.router_event = router.epoll_fd = router.own_event = &router_event;
    client.client_event = router.client_event = &client_event;
    client.submit_head = client.submit_tail = client.complete_head = client.released_count = 0;
    client.is_armed = client.wants_room = false;
    client.polled = router.taken = 0;
    router.client = &share_client;
    router.submit_head = router.complete_tail = router.complete_head = 0;
    atomic_store(&router.command, (struct share_command *)NULL);
    atomic_store(&router.is_stopping, false);
  }
  void ask(int number)
  {
    while (share_submit_room(&client) == 0)
      rl::yield(1, $);
    struct pst_share_entry *entry = &submit[client.submit_tail++ % PST_SHARE_ENTRIES];
    entry->kind = PST_SHARE_REQUEST;
    entry->piece_count = 0;
    entry->number = number;
    share_submit_publish(&client);
  }
  void answer(int number)
  {
    struct pst_completion completion;

    completion.number = number;
    while (!share_complete_has_room(&router, 1))
      rl::yield(1, $);
    share_complete_push(&router, &completion);
    share_complete_publish(&router);
  }
};

/* The router takes what was written, and the client writes where the router has taken. */
struct requests : rl::test_suite<requests, 2>, ends {
  void before()
  {
    open();
  }
  void thread(unsigned i)
  {
    if (i == 0) {
      ask(1);
      ask(2);
      return;
    }
    while (router.taken < 2)
      if (share_submit_take(&router) == 0)
        rl::yield(1, $);
  }
};

struct completions : rl::test_suite<completions, 2>, ends {
  void before()
  {
    open();
  }
  void thread(unsigned i)
  {
    struct pst_completion completion;

    if (i == 0) {
      answer(1);
      answer(2);
      return;
    }
    while (client.polled < 2)
      if (share_poll(&client, &completion, 1) == 0)
        rl::yield(1, $);
  }
};

/* The router sees the request, or is woken. */
struct sleeping_router : rl::test_suite<sleeping_router, 2>, ends {
  void before()
  {
    open();
  }
  void thread(unsigned i)
  {
    if (i == 0)
      ask(1);
    else
      share_worker_sleep(&router);
  }
};

/* A side that has armed and saw nothing is woken. */
struct sleeping_client : rl::test_suite<sleeping_client, 2>, ends {
  bool is_asleep;

  void before()
  {
    open();
    is_asleep = false;
  }
  void thread(unsigned i)
  {
    if (i == 0)
      answer(1);
    else
      is_asleep = share_arm(&client) == 0;
  }
  void after()
  {
    RL_ASSERT(!is_asleep || client_event.is_readable.load(rl::mo_relaxed, $) != 0);
  }
};

/* The worker's thread carries a command out, after the requests that were there before; who asked
 * has the answer. */
struct commands : rl::test_suite<commands, 2>, ends {
  struct share_command command;

  void before()
  {
    open();
    command.asked = command.answer = 0;
    router.is_answered = false;
  }
  void thread(unsigned i)
  {
    if (i == 0) {
      ask(1);
      command.asked = 1;
      share_worker_ask(&router, &command);
      RL_ASSERT(command.answer == 2);
      return;
    }
    while (router.taken == 0 || atomic_load(&router.command) ||
           router_event.is_readable.load(rl::mo_relaxed, $) == 0) {
      share_worker_answer(&router);
      rl::yield(1, $);
    }
    share_worker_answer(&router);
  }
};

/* A registration that a worker uses is not removed. */
struct registrations : rl::test_suite<registrations, 2>, ends {
  struct share_mr mr;
  struct share_class limits;

  void before()
  {
    open();
    limits.regions = 1;
    share_client.class_ = &limits;
    share_client.mrs = &mr;
    atomic_store(&mr.number, 1u);
    atomic_store(&mr.uses, 0u);
    mr.memory = 7;
  }
  void thread(unsigned i)
  {
    if (i == 0) {
      share_mr_deregister(&share_client, 1);
    } else if (share_mr_use(&share_client, 1)) {
      RL_ASSERT(mr.memory == 7);
      share_mr_unuse(&mr);
    }
  }
};

/* One worker's thread at a time looks for a router, and each takes what another found. */
struct returns : rl::test_suite<returns, 2>, ends {
  struct pst_host host;
  struct pst_worker workers[2];
  uint64_t now_ns;

  static uint64_t clock_ns(const struct pst_host *host)
  {
    returns *its = (returns *)((char *)host - offsetof(returns, host));
    return its->now_ns += TRY_NS;
  }
  static void log(const struct pst_host *, int, const char *, ...)
  {
  }
  static int defer(const struct pst_host *, struct pst_device *, void (*work)(void *), void *context)
  {
    work(context);
    return 0;
  }
  void before()
  {
    open();
    host = {clock_ns, log, defer};
    now_ns = 0;
    device.host = &host;
    device.attempts = 0;
    device.reconnect_ns = UINT64_MAX;
    device.connection = 0;
    atomic_store(&device.state, (int)SHARE_AWAY);
    atomic_store(&device.link, 0u);
    atomic_store(&device.last_link, 1u);
    atomic_store(&device.away_ns, (uint64_t)0);
    atomic_store(&device.try_ns, (uint64_t)0);
    atomic_store(&device.mr_number, 1u);
    workers[0] = workers[1] = client;
    workers[0].is_lost = workers[1].is_lost = true;
  }
  void thread(unsigned i)
  {
    while (workers[i].is_lost) {
      share_worker_away(&workers[i]);
      rl::yield(1, $);
    }
  }
};

int main()
{
  return litmus<requests>("requests of a client", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<completions>("completions for a client", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<sleeping_router>("a router's sleep", {WEAK_FENCE, WEAK_TOTAL}) |
         litmus<sleeping_client>("a client's sleep", {WEAK_FENCE, WEAK_TOTAL}) |
         litmus<commands>("commands of a client", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<registrations>("registrations of a client", {WEAK_RELEASE, WEAK_ACQUIRE, WEAK_RMW}) |
         litmus<returns>("a router that returns", {WEAK_RELEASE, WEAK_ACQUIRE, WEAK_RMW});
}
