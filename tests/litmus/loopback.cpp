/* SPDX-License-Identifier: Apache-2.0 */
/* State that the two ends of loopback share, each end on a thread of its own. */
#include "litmus.h"

enum weakening weakened;

/* ---- Stand-ins for what the sources use -------------------------------------------------------
 */

#define LB_SEATS 1u
#define LB_REMOTE_ACCESS 1u
#define LB_CLAIM_ABORT (UINT64_C(1) << 63)
#define LB_ALWAYS_INLINE inline
#define LB_CACHE_LINE 64
#define LB_PENDING 1
#define PST_LOG_WARN 1
#define LB_LOG(...) ((void)0)
#define AHEAD 8u
#define MEMBARRIER_CMD_GLOBAL_EXPEDITED 0
#define MEMBARRIER_CMD_PRIVATE_EXPEDITED 0
#define syscall(...) 0

enum { LB_SLOT_PEER, LB_SLOT_HELD };
enum lb_state { LB_STATE_ATTACHED = 1, LB_STATE_CLOSED = 2 };
enum { LB_ARMED_ARRIVAL = 1, LB_ARMED_CREDIT = 2 };
enum { LB_NEW, LB_CONNECTING, LB_CONNECTED, LB_SHUT };
#define PST_ROLE_RMA 4u

struct lb_desc {
  plain<uint32_t> slot, length;
  plain<uint64_t> sequence, meta, offset;
};
struct lb_port {
  atomic<uint32_t> state, armed;
  atomic<uint64_t> desc_head, free_head, claimed, claimant;
};
struct lb_guard;
/* Memory that is mapped; guard: notified when the memory is lost. */
struct lb_map {
  struct lb_guard *guard;
  uint64_t bytes;
};
struct lb_link {
  bool in_process;
  struct lb_port *port;
  struct lb_desc *desc;
  plain<uint32_t> *free_slots;
  uint64_t mask;
  uint32_t slots;
  uint64_t stride, payload_max;
  atomic<uint32_t> posting;
  bool is_woken;
  struct {
    uint64_t id;
  } entry;
  struct lb_map port_map, ring_map;
};
struct pst_completion {
  uint32_t slot;
  uint64_t sequence;
};
struct lb_rx {
  struct lb_link *own, *peer;
  uint64_t tail, claimed, free_head, messages, bytes, payload_offset;
  uint32_t index;
  uint8_t *states;
  void *buffer_of;
  bool fenced;
};
struct lb_tx {
  uint32_t *stack;
  uint32_t credits;
  uint64_t free_tail, head, tail;
  int *results;
  void *post_of;
};
struct lb_stage {
  int name;
  struct {
    uint64_t deadline_ns;
  } connecting;
};
/* Memory of another's, imported. */
struct far {
  plain<int> *memory;
};
struct pst_host {
  uint64_t (*clock_ns)(const struct pst_host *host);
  void (*region_release)(const struct pst_host *host, struct far *far);
};
struct pst_device {
  const struct pst_host *host;
  bool shared;
};
struct pst_worker {
  struct pst_device *device;
  struct pst_endpoint **endpoints;
  uint32_t endpoint_count;
  bool armed, unlending;
  uint32_t guard_hits;
};
struct pst_endpoint {
  struct pst_worker *worker;
  struct lb_link *own, *peer;
  struct lb_rx *rx;
  struct lb_tx tx;
  struct {
    uint64_t mask;
  } dones;
  struct lb_stage stage;
  struct {
    int mode;
  } closing;
  uint64_t cookie;
  bool fenced, is_sender;
  uint64_t timeout_ns, mapped;
  struct {
    struct {
      struct lb_guard *guard;
    } * mr;
  } * ring;
  struct pst_remote *remotes;
  uint32_t roles;
  bool may_fail, has_failed;
};

static void lb_endpoint_fail(struct pst_endpoint *endpoint, int, const char *)
{
  RL_ASSERT(endpoint->may_fail);
  endpoint->has_failed = true;
}
static void lb_poll_give_message(uint32_t, uint64_t, const struct lb_desc *desc, uint64_t, uint32_t,
                                 struct pst_completion *out)
{
  *out = {desc->slot, desc->sequence};
}
static void lb_link_wake(struct lb_link *link)
{
  link->is_woken = true;
}
/* Fences on both sides. membarrier(2), which spares one side its fence, is not modelled. */
static bool lb_barrier_expedited()
{
  return false;
}
static void lb_credits_end_lent(struct pst_endpoint *, uint32_t *, uint32_t)
{
}
static void lb_credits_warm(const struct pst_endpoint *)
{
}
static void lb_credits_advance(struct pst_endpoint *)
{
}
static uint32_t lb_rx_credits(const struct lb_rx *)
{
  return 1;
}
static void lb_rx_return(struct lb_rx *)
{
}
static void lb_worker_watch(struct pst_worker *)
{
}
static bool lb_worker_is_hit(struct pst_worker *)
{
  return false;
}
void lb_worker_lost(struct pst_worker *worker);
static bool lb_registry_lost(struct pst_device *)
{
  return false;
}
static struct lb_link *lb_link_ref(struct lb_link *link)
{
  return link;
}
static void lb_map_close(struct lb_map *)
{
}
static bool lb_map_replace(uintptr_t, uintptr_t, uintptr_t)
{
  return true;
}
static bool lb_worker_may_unlend(struct pst_worker *)
{
  return false;
}
static void lb_worker_set_timer(struct pst_worker *)
{
}
static uint32_t lb_worker_wanted(const struct pst_endpoint *endpoint)
{
  return LB_ARMED_ARRIVAL | (endpoint->is_sender ? LB_ARMED_CREDIT : 0);
}
static bool lb_endpoint_pending(struct pst_endpoint *endpoint);
static void lb_enter(struct pst_endpoint *endpoint, struct lb_stage stage)
{
  endpoint->stage = stage;
}
static int lb_post_why_closed(const struct pst_endpoint *)
{
  return -ENOTCONN;
}
static uint64_t lb_wait_budget_left(struct pst_device *)
{
  return UINT64_MAX;
}
static void lb_wait_budget_spend(struct pst_device *, uint64_t)
{
}
static bool lb_gate_is_known(const struct lb_gate_page *)
{
  return false;
}
#define nanosleep(time, left) rl::yield(1, $)

struct lb_seat {
  atomic<uint32_t> inside, taken;
};
struct lb_mr {
  struct pst_device *device;
  uint32_t access;
  struct lb_gate *shared;
  struct lb_gate_page *shared_gate;
  struct pst_remote *seated;
  struct lb_gate &gate;
};
struct pst_remote {
  struct lb_mr *mr;
  struct lb_gate *gate;
  struct lb_seat *seat;
  struct lb_seat own_seat;
  struct pst_remote *seated, *next;
  struct lb_map gate_map, region_map;
  struct far far;
  bool counted;
};
static void lb_mr_unref(struct lb_mr *)
{
}
static struct litmus_mutex *the_lock;
#define lock (*the_lock)
/* Guards are found here, and not on the heap. */
static atomic<struct lb_guard *> *the_guards;
#define guards (*the_guards)
static atomic<uint32_t> *the_hits;
#define lb_guard_hits (*the_hits)
#define free(at) ((void)(at))
static struct lb_guard *new_guard;
#define calloc(count, size) new_guard

#include "loopback.inc"

#undef lock
#undef guards
#undef lb_guard_hits
#undef calloc
#undef free

static bool lb_endpoint_pending(struct pst_endpoint *endpoint)
{
  return endpoint->is_sender ? atomic_load_explicit(&endpoint->peer->port->free_head,
                                                    memory_order_acquire) != endpoint->tx.free_tail
                             : !lb_rx_drained(endpoint->rx);
}

/* ---- Rings ------------------------------------------------------------------------------------
 */

#define SLOTS 2

/* A sender and a receiver of two slots. */
struct ends {
  struct lb_port port, sender_port;
  struct lb_desc desc[SLOTS];
  plain<uint32_t> free_slots[SLOTS];
  bytes slot[SLOTS];
  uint8_t states[SLOTS];
  uint32_t stack[SLOTS];
  int results[SLOTS];
  struct lb_link link, sender_link;
  struct lb_rx rx;
  struct pst_device device;
  struct pst_worker worker;
  struct pst_endpoint sender, receiver, *asleep;

  void open()
  {
    for (atomic<uint64_t> *word : {&port.desc_head, &port.free_head, &port.claimed})
      atomic_store(word, 0);
    for (struct lb_port *one : {&port, &sender_port}) {
      atomic_store(&one->state, 0);
      atomic_store(&one->armed, 0);
    }
    atomic_store(&link.posting, 0);
    link.in_process = true;
    link.port = &port;
    link.desc = desc;
    link.free_slots = free_slots;
    link.mask = SLOTS - 1;
    link.slots = SLOTS;
    link.payload_max = 100;
    link.is_woken = sender_link.is_woken = false;
    sender_link.port = &sender_port;
    rx = {&link, &sender_link};
    rx.states = states;
    rx.fenced = true;
    device = {NULL, false};
    worker = {&device, &asleep, 1};
    sender = {&worker, &sender_link, &link};
    sender.tx.stack = stack;
    sender.tx.results = results;
    sender.dones.mask = SLOTS - 1;
    receiver = {&worker, &link, &sender_link, &rx};
    sender.stage.name = receiver.stage.name = LB_CONNECTED;
    sender.fenced = receiver.fenced = sender.is_sender = true;
    memset(states, LB_SLOT_PEER, sizeof(states));
    sender.tx.credits = 0;
  }
  void write(uint32_t i)
  {
    slot[i] = 100 + (int)i;
    desc[i].slot = i;
    desc[i].length = 1;
    desc[i].sequence = 7 + i;
    desc[i].meta = 0;
  }
};

struct messages : rl::test_suite<messages, 2>, ends {
  void before()
  {
    open();
  }
  void thread(unsigned i)
  {
    struct pst_completion out[SLOTS];

    if (i == 0) {
      write(0);
      lb_tx_publish(&sender, 1);
      write(1);
      lb_tx_publish(&sender, 2);
      return;
    }
    for (int look = 0; look < 2; look++) {
      const uint32_t n = lb_poll_take_copies(&receiver, out, SLOTS);
      for (uint32_t k = 0; k < n; k++) {
        RL_ASSERT(out[k].sequence == 7 + out[k].slot);
        RL_ASSERT(slot[out[k].slot] == 100 + (int)out[k].slot);
      }
    }
  }
};

/* A slot that came back is written again. */
struct credits : rl::test_suite<credits, 2>, ends {
  void before()
  {
    open();
    slot[0] = 100;
    rx.tail = 1;
  }
  void thread(unsigned i)
  {
    if (i == 0) {
      RL_ASSERT(slot[0] == 100);
      free_slots[rx.free_head++ & link.mask] = 0;
      lb_ring_publish(&rx);
      return;
    }
    lb_tx_reap(&sender);
    if (sender.tx.credits) {
      RL_ASSERT(stack[0] == 0);
      slot[stack[0]] = 200;
    }
  }
};

/* A receiver that has armed and saw nothing is woken. */
struct sleeping_receiver : rl::test_suite<sleeping_receiver, 2>, ends {
  bool is_asleep;

  void before()
  {
    open();
    asleep = &receiver;
    is_asleep = false;
  }
  void thread(unsigned i)
  {
    if (i == 0) {
      write(0);
      lb_tx_publish(&sender, 1);
    } else {
      is_asleep = lb_arm(&worker) == 0;
    }
  }
  void after()
  {
    RL_ASSERT(!is_asleep || link.is_woken);
  }
};

struct sleeping_sender : rl::test_suite<sleeping_sender, 2>, ends {
  bool is_asleep;

  void before()
  {
    open();
    asleep = &sender;
    is_asleep = false;
  }
  void thread(unsigned i)
  {
    if (i == 0) {
      free_slots[rx.free_head++ & link.mask] = 0;
      lb_ring_publish(&rx);
    } else {
      is_asleep = lb_arm(&worker) == 0;
    }
  }
  void after()
  {
    RL_ASSERT(!is_asleep || sender_link.is_woken);
  }
};

/* Within a process: a receiver's memory is freed when lb_endpoint_shut() has returned. */
struct closing : rl::test_suite<closing, 2>, ends {
  void before()
  {
    open();
    slot[0] = 0;
  }
  void thread(unsigned i)
  {
    if (i == 0) {
      if (lb_post_enter(&sender) == 0) {
        slot[0] = 100;
        lb_post_leave(&sender);
      }
    } else {
      RL_ASSERT(lb_endpoint_shut(&receiver, true));
      slot[0] = -1;
    }
  }
};

/* By reference: a message is taken over or cancelled, never both, and what was taken over is there.
 */
struct cancelling : rl::test_suite<cancelling, 2>, ends {
  void before()
  {
    open();
    rx.buffer_of = this;
    rx.claimed = 0;
    sender.tx.head = 1;
    results[0] = LB_PENDING;
    write(0);
    atomic_store(&port.desc_head, 1);
  }
  void thread(unsigned i)
  {
    if (i == 0)
      lb_tx_settle(&sender, -ECANCELED, LB_PENDING);
    else
      lb_poll_claim(&rx, 1);
  }
  void after()
  {
    RL_ASSERT((rx.claimed == 1) == (results[0] == LB_PENDING));
  }
};

/* ---- Registrations ----------------------------------------------------------------------------
 */

enum way { SEATED, COUNTED, FOREIGN };

/* A WRITE of a peer's, and its memory, which is the owner's again when lb_gates_shut() has
 * returned. */
template <enum way Way> struct deregistering : rl::test_suite<deregistering<Way>, 2> {
  struct lb_gate gate;
  struct lb_gate_page page;
  struct litmus_mutex the_mutex;
  struct pst_remote remote;
  struct pst_device device;
  bytes memory;

  static uint64_t now(const struct pst_host *)
  {
    return 0;
  }

  void before()
  {
    for (struct lb_gate *one : {&gate, &page.gate}) {
      atomic_store(&one->open, 1);
      atomic_store(&one->inside, 0);
      atomic_store(&one->imports, 0);
    }
    for (struct lb_seat *seat : {&page.seats[0].seat, &remote.own_seat}) {
      atomic_store(&seat->inside, 0);
      atomic_store(&seat->taken, 0);
    }
    remote.gate = Way == FOREIGN ? &page.gate : &gate;
    remote.seat = Way == SEATED ? &remote.own_seat : Way == FOREIGN ? &page.seats[0].seat : NULL;
    remote.seated = NULL;
    memory = 0;
  }
  void thread(unsigned i)
  {
    static const struct pst_host host = {now};

    if (i == 0) {
      if (lb_seat_in(&remote, true)) {
        memory = 1;
        lb_seat_out(&remote);
      }
      return;
    }
    device = {&host, Way == FOREIGN};
    struct lb_mr mr = {&device,
                       LB_REMOTE_ACCESS,
                       NULL,
                       Way == FOREIGN ? &page : NULL,
                       Way == SEATED ? &remote : NULL,
                       gate};
    the_lock = &the_mutex;
    lb_gates_shut(&mr);
    memory = 2;
  }
};

/* A seat is one peer's, and the next one's after it. */
struct seats : rl::test_suite<seats, 2> {
  struct lb_gate_page page;
  struct pst_remote remote[2];
  bytes seat_is_mine;

  void before()
  {
    atomic_store(&page.seats[0].seat.taken, 0);
    remote[0].seat = remote[1].seat = NULL;
  }
  void thread(unsigned i)
  {
    lb_seat_take(&remote[i], &page);
    if (!remote[i].seat)
      return;
    seat_is_mine = (int)i;
    lb_seat_leave(&remote[i]);
  }
};

/* The last of two references frees. */
struct references : rl::test_suite<references, 2> {
  struct lb_entry entry;
  bytes memory;

  void before()
  {
    atomic_store(&entry.refs, 1);
    lb_entry_ref(&entry);
    memory = 1;
  }
  void thread(unsigned)
  {
    RL_ASSERT(memory == 1);
    if (lb_entry_unref(&entry))
      memory = -1;
  }
};

/* A range that the handler of SIGBUS reads is one that was set. */
struct ranges : rl::test_suite<ranges, 2> {
  struct lb_guard guard;

  void before()
  {
    atomic_store(&guard.turn, 0);
    lb_map_set_range(&guard, 10, 20);
  }
  void thread(unsigned i)
  {
    uintptr_t begin, end;

    if (i == 0)
      lb_map_set_range(&guard, 30, 40);
    else if (lb_map_get_range(&guard, &begin, &end))
      RL_ASSERT((begin == 10 && end == 20) || (begin == 30 && end == 40));
  }
};

/* A guard that the handler finds is whole. */
struct guard_list : rl::test_suite<guard_list, 2> {
  atomic<struct lb_guard *> first;
  struct lb_guard guard;
  bytes made;

  void before()
  {
    atomic_store(&first, (struct lb_guard *)NULL);
    the_guards = &first;
    new_guard = &guard;
    made = 0;
  }
  void thread(unsigned i)
  {
    if (i == 0) {
      made = 1;
      lb_map_guard_find();
    } else if (struct lb_guard *found = atomic_load(&first)) {
      RL_ASSERT(made == 1);
      RL_ASSERT((struct lb_guard *)!found->next);
    }
  }
};

/* Memory that the handler of SIGBUS has replaced fails the endpoints that use it. */
struct hits : rl::test_suite<hits, 2> {
  atomic<struct lb_guard *> first;
  atomic<uint32_t> count;
  struct lb_guard guard;
  struct lb_link link;
  struct pst_endpoint endpoint, *endpoints;
  struct pst_worker worker;

  void before()
  {
    the_guards = &first;
    the_hits = &count;
    atomic_store(&count, 0u);
    atomic_store(&guard.turn, 0);
    atomic_store(&guard.hit, 0);
    guard.next = NULL;
    lb_map_set_range(&guard, 10, 20);
    atomic_store(&first, &guard);
    link.port_map.guard = &guard;
    endpoint.own = &link;
    endpoint.peer = NULL;
    endpoint.ring = NULL;
    endpoint.remotes = NULL;
    endpoint.may_fail = true;
    endpoint.has_failed = false;
    endpoints = &endpoint;
    worker.endpoints = &endpoints;
    worker.endpoint_count = 1;
  }
  void thread(unsigned i)
  {
    if (i == 0) {
      lb_map_replace_all(15);
      return;
    }
    for (int look = 0; look < 2; look++) {
      lb_worker_lost(&worker);
      RL_ASSERT(worker.guard_hits == 0 || endpoint.has_failed);
    }
  }
};

/* Memory that a peer has imported is its owner's alone again. */
struct imports : rl::test_suite<imports, 2> {
  struct lb_gate gate;
  struct pst_device device;
  struct pst_worker worker;
  struct pst_endpoint endpoint;
  struct pst_remote remote;
  bytes memory;

  static uint64_t now(const struct pst_host *)
  {
    return 0;
  }
  static void release(const struct pst_host *, struct far *far)
  {
    *far->memory = 1;
  }
  void before()
  {
    static const struct pst_host host = {now, release};

    atomic_store(&gate.imports, 1);
    device.host = &host;
    worker.device = &device;
    endpoint.worker = &worker;
    endpoint.remotes = &remote;
    endpoint.mapped = 0;
    remote.next = NULL;
    remote.far.memory = &memory;
    remote.counted = true;
    remote.gate = &gate;
    remote.seat = NULL;
    remote.region_map.bytes = 0;
    memory = 0;
  }
  void thread(unsigned i)
  {
    if (i == 0) {
      lb_remote_close(&endpoint, &remote);
    } else {
      lb_mr_await_imports(&device, &gate);
      memory = 2;
    }
  }
};

/* A ring has one sender, though two would connect to it. */
struct claimants : rl::test_suite<claimants, 2> {
  struct lb_port port[3];
  struct lb_link link[3];
  struct pst_device device;
  struct pst_worker worker;
  struct pst_endpoint endpoint[2];

  void before()
  {
    static const struct pst_host host = {};

    device.host = &host;
    worker.device = &device;
    for (unsigned i = 0; i < 3; i++) {
      link[i].port = &port[i];
      link[i].entry.id = i + 1;
      atomic_store(&port[i].claimant, 0u);
      atomic_store(&port[i].state, 0u);
    }
    for (unsigned i = 0; i < 2; i++) {
      endpoint[i].worker = &worker;
      endpoint[i].own = &link[i];
      endpoint[i].peer = &link[2];
      endpoint[i].rx = NULL;
      endpoint[i].timeout_ns = 0;
      endpoint[i].stage.name = LB_NEW;
      endpoint[i].may_fail = true;
      endpoint[i].has_failed = false;
    }
  }
  void thread(unsigned i)
  {
    lb_connect_attach(&endpoint[i], false);
  }
  void after()
  {
    RL_ASSERT(endpoint[0].has_failed != endpoint[1].has_failed);
  }
};

/* ---- Atomics of peers -------------------------------------------------------------------------
 */

namespace rma
{
enum { PST_OP_FETCH_ADD, PST_OP_COMPARE_SWAP };
enum { PST_ACCESS_LOCAL_WRITE = 1, PST_ACCESS_REMOTE_ATOMIC };
struct pst_mr {
  uint8_t *base;
};
#define lb_mr pst_mr
struct pst_remote {
  uint8_t *base;
};
struct lb_peer_access {
};
struct pst_request {
  int opcode;
  uint32_t piece_count;
  uint64_t offset;
  struct {
    struct pst_mr *mr;
  } local;
  struct {
    uint64_t compare;
  } arg;
  struct {
    struct {
      struct pst_remote *remote;
      uint64_t offset, operand;
    } atomic;
  } u;
};
static struct pst_mr *lb_mr_of(struct pst_mr *mr)
{
  return mr;
}
static bool lb_rma_holds_local(void *, struct pst_mr *, uint64_t, uint64_t, int)
{
  return true;
}
static int lb_rma_remote_check(struct pst_endpoint *, struct pst_remote *, uint64_t, uint64_t, int)
{
  return 0;
}
static int lb_rma_remote_enter(struct lb_peer_access *, struct pst_remote *, uint64_t)
{
  return 0;
}

#include "rma.inc"
#undef lb_mr

/* A word counts what both have added. */
struct adding : rl::test_suite<adding, 2> {
  ::atomic<uint64_t> word;

  void before()
  {
    atomic_store(&word, 0u);
  }
  void thread(unsigned)
  {
    uint64_t found;
    struct pst_mr mr = {(uint8_t *)&found};
    struct pst_remote remote = {(uint8_t *)&word};
    const struct pst_request request = {PST_OP_FETCH_ADD, 0, 0, {&mr}, {0}, {{&remote, 0, 1}}};
    struct lb_peer_access passage;

    RL_ASSERT(rma::lb_rma_atomic(NULL, &request, &passage) == 0);
  }
  void after()
  {
    RL_ASSERT(atomic_load(&word) == 2);
  }
};
} // namespace rma

int main()
{
  return litmus<messages>("descriptors and slots", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<credits>("credits", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<sleeping_receiver>("a receiver's sleep", {WEAK_FENCE, WEAK_TOTAL}) |
         litmus<sleeping_sender>("a sender's sleep", {WEAK_FENCE, WEAK_TOTAL}) |
         litmus<closing>("closing beside a post",
                         {WEAK_FENCE, WEAK_TOTAL, WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<cancelling>("taking over or cancelling", {WEAK_RMW}) |
         litmus<deregistering<SEATED>>("deregistering beside a WRITE",
                                       {WEAK_FENCE, WEAK_TOTAL, WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<deregistering<COUNTED>>("deregistering beside a copy that is counted",
                                        {WEAK_TOTAL, WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<deregistering<FOREIGN>>("deregistering beside another process's WRITE",
                                        {WEAK_FENCE, WEAK_TOTAL, WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<seats>("seats", {WEAK_RMW, WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<references>("references", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<ranges>("guarded ranges", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<guard_list>("the list of guards", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<hits>("a guard that was hit", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<imports>("imports", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<claimants>("two that connect", {WEAK_RMW}) |
         litmus<rma::adding>("atomics", {WEAK_RMW});
}
