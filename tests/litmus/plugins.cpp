/* SPDX-License-Identifier: Apache-2.0 */
/* State that threads of filters, of ethernet, verbs_rc, verbs_dc and ucx share without a lock. */
#include "litmus.h"

#include <cstdarg>

enum weakening weakened;

/* ---- The filter fault -------------------------------------------------------------------------
 */

struct pst_mr {
  int number;
};
struct fault_mr {
  atomic<struct pst_mr *> mr;
  plain<const uint8_t *> host;
  plain<uint64_t> length;
  plain<struct fault_mr *> next;
};
struct pst_region {
  const uint8_t *host;
  const char *backing;
};
struct pst_mr_params {
  struct pst_region *region;
  uint64_t offset, length;
  uint32_t access;
};
struct fault_ops {
  int (*mr_register)(void *, const struct pst_mr_params *, struct pst_mr **mr);
  void (*mr_deregister)(void *, struct pst_mr *mr);
};
struct pst_host;
typedef void deferred(void *arg);
struct pst_host {
  int (*defer)(const struct pst_host *host, void *what, deferred *work, void *arg);
};
struct pst_worker;
struct pst_endpoint;
/* An eventfd: what its calls order is not asked for. */
struct wake {
  int at;
};
struct vb_transport {
  void (*notice)(struct pst_endpoint *endpoint);
};
struct rc_cm {
  int (*settle)(struct pst_endpoint *endpoint);
};
struct pst_device {
  atomic<struct fault_mr *> mrs;
  struct {
    bool corrupt;
  } plan;
  struct {
    uint32_t parts;
    atomic<uint32_t> parts_used;
  } pool;
  const struct fault_ops *ops;
  void *inner;
  const struct pst_host *host;
  atomic_bool is_lost;
  const struct vb_transport *transport;
  const struct rc_cm *cm;
  int counter_folder, counter_host, port;
};
#define NOTICES_AT_A_TIME 256u
struct rc_lane {
  bool sets_up;
  bytes is_set_up;
};
enum rc_baseline_state { RC_BASELINE_READING, RC_BASELINE_READ, RC_BASELINE_UNUSED };
struct vb_counters {
  bytes read;
};
struct pst_worker {
  atomic<uint32_t> notices;
  uint32_t notices_seen, notice_at, notice_left, notice_room;
  struct wake wake_fd;
  int txq;
  bool tells_lost, has_told_lost;
  struct pst_device *device;
  struct rc_counter_baseline *since;
  struct {
    uint32_t room;
    struct {
      struct pst_endpoint *at;
    } all[1];
  } endpoints;
};
struct rc_counter_baseline {
  const struct pst_device *device;
  atomic<int> state;
  uint32_t users;
  struct vb_counters counters;
  bytes memory;
};
struct rc_endpoint {
  atomic<int> setup;
  plain<int> setup_rc;
  struct rc_lane lanes[1];
  struct rc_counter_baseline *since;
  bool cm;
};
struct pst_endpoint {
  struct pst_worker *worker;
  struct pst_device *device;
  struct rc_endpoint *rc;
  uint32_t lane_count;
  struct eth_tx *tx;
  struct {
    struct {
      int dones;
    } cpu;
  } dg;
};
#define PST_ACCESS_LOCAL_READ 1u
#define PST_ACCESS_RING 2u
#define PST_REFUSE(host, code, ...) (code)
static struct fault_mr *new_entry;
#define calloc(count, size) new_entry

#include "fault.inc"
#undef calloc

/* A thread that finds a registration also sees its address. */
struct registrations : rl::test_suite<registrations, 2> {
  struct pst_device device;
  struct fault_mr entry;
  struct pst_mr mr;
  struct pst_region region;

  static int give(void *inner, const struct pst_mr_params *, struct pst_mr **mr)
  {
    *mr = (struct pst_mr *)inner;
    return 0;
  }
  void before()
  {
    atomic_store(&device.mrs, (struct fault_mr *)NULL);
    atomic_store(&entry.mr, (struct pst_mr *)NULL);
    new_entry = &entry;
  }
  void thread(unsigned i)
  {
    static const struct fault_ops ops = {give};

    if (i == 0) {
      struct pst_mr_params params = {&region, 3, 5, PST_ACCESS_LOCAL_READ};
      struct pst_mr *made;
      region.host = (const uint8_t *)this;
      device.ops = &ops;
      device.inner = &mr;
      device.plan.corrupt = true;
      fault_mr_register(&device, &params, &made);
    } else if (const struct fault_mr *found = fault_mr_find(&device, &mr)) {
      RL_ASSERT(found->length == 5);
      RL_ASSERT((const uint8_t *)found->host == (const uint8_t *)this + 3);
    }
  }
};

/* Each sender has copies of its own. */
struct parts : rl::test_suite<parts, 2> {
  struct pst_device device;
  uint32_t part[2];

  void before()
  {
    device.plan.corrupt = true;
    device.pool.parts = 2;
    atomic_store(&device.pool.parts_used, 0u);
  }
  void thread(unsigned i)
  {
    fault_part_take(&device, &part[i]);
  }
  void after()
  {
    RL_ASSERT(part[0] != part[1]);
  }
};

/* ---- ethernet ---------------------------------------------------------------------------------
 */

struct dg_source {
  bytes name;
  uint8_t address[16];
};
struct dg_flow_params {
  bool port_is_fixed, address_is_fixed, numbered, address_locks;
  int framing;
  struct dg_source source;
  bytes wanted;
};
struct eth_match {
  struct eth_match *next;
  shared<uint8_t> kind;
  shared<struct dg_source *> claim;
  shared<uint64_t> heard_ns;
  struct dg_flow_params wants;
  struct dg_source claims[2];
  const void *queue;
  uint8_t at[16];
};
enum { ETH_MATCH_UNMET, ETH_MATCH_FIRST, ETH_MATCH_KNOWN, ETH_MATCH_ANY };
#define DG_FRAMING_NONE 9
#define DG_SILENCE_MAX_NS 1000u
enum rank {
  RANK_QUEUE = 1,
  RANK_KIN = 2,
  RANK_ANY = 4,
  RANK_FREE = 6,
  RANK_KIND = 6,
  RANK_NAMED = 8
};
static bool eth_match_source_is_same(const struct dg_source *a, const struct dg_source *b)
{
  return (int)a->name == (int)b->name;
}
static bool dg_flow_is_source(const struct dg_flow_params *wants, const struct dg_source *)
{
  return wants->wanted == 1;
}
static uint32_t eth_match_hash_of(const struct dg_source *)
{
  return 0;
}

struct eth_clock {
  plain<uint64_t> rate, at;
};
struct rte_mbuf {
  uint64_t stamp, ol_flags;
};
typedef uint64_t rte_mbuf_timestamp_t;
#define RTE_MBUF_DYNFIELD(mbuf, offset, type) ((type)(uintptr_t) & (mbuf)->stamp)
enum { ETH_TIMES_US = 1, ETH_TIMES_TICKS };
struct eth_times {
  struct eth_clock clocks[2];
  shared<int> current;
  int unit;
  uint64_t flag;
  size_t offset;
};
struct eth_port {
  struct eth_times times;
  shared<int> stage;
  uint16_t id;
  int before, xstats_before;
  void *xstat_ids;
  bytes started;
};
static int rte_eth_read_clock(uint16_t, uint64_t *ticks)
{
  *ticks = 5;
  return 0;
}
static uint64_t eth_times_clock_ns(clockid_t)
{
  return 7;
}
static bool eth_clock_read(struct eth_clock *clock, uint64_t ticks, uint64_t, uint64_t)
{
  clock->rate = ticks;
  clock->at = ticks;
  return true;
}
static uint64_t eth_clock_ns(const struct eth_clock *clock, uint64_t)
{
  RL_ASSERT((uint64_t)clock->rate == (uint64_t)clock->at);
  return 1;
}
static struct eth_port *the_port;
static int rte_eth_dev_start(uint16_t)
{
  the_port->started = 1;
  return 0;
}
static void rte_eth_stats_get(uint16_t, int *)
{
}
static void eth_port_find_xstats(struct eth_port *)
{
}
static void eth_port_read_xstats(struct eth_port *, int)
{
}
static bool eth_times_start(struct eth_port *)
{
  return true;
}
#define ETH_PORT_LOG(...) ((void)0)
struct eth_flight {
  uint64_t cookie;
  shared<bool> is_over;
};
struct eth_tx {
  struct eth_flight *flights;
  uint32_t flight_mask, flight_head, flight_tail;
};
#define PST_OP_SEND 1
static void eth_txq_look(int, int)
{
}
static void pst_dones_push(int *, int, int, uint64_t, uint32_t)
{
}
struct job {
  void (*work)(void *arg);
  void *arg;
  shared<bool> is_over;
};
static void (*alarm_work)(void *);
static void *alarm_arg;
static atomic<bool> *alarm_is_set;
static int rte_eal_alarm_set(int, void (*work)(void *), void *arg)
{
  alarm_work = work;
  alarm_arg = arg;
  atomic_store(alarm_is_set, true);
  return 0;
}
#define usleep(us) rl::yield(1, $)

typedef shared<int> shared_int;
#define int shared_int /* the lock of a port's receivers */
#include "match.inc"
#undef int
#include "ethernet.inc"

/* A receiver that others meet accepts the rules that it was given. */
struct meeting : rl::test_suite<meeting, 2> {
  struct eth_match match;

  void before()
  {
    match.next = NULL;
    match.wants.framing = 0;
    match.wants.wanted = match.wants.source.name = 0;
    atomic_store(&match.kind, (uint8_t)ETH_MATCH_UNMET);
    atomic_store(&match.claim, (struct dg_source *)NULL);
  }
  void thread(unsigned i)
  {
    if (i == 0) {
      struct dg_flow_params wants = match.wants;
      wants.wanted = 1;
      eth_match_meet(&match, &wants);
    } else {
      struct dg_source from;
      from.name = 0;
      const struct question q = {match.at, &from, NULL, 0};
      eth_match_rank_of(&match, &q);
    }
  }
};

/* Two queues' threads with one new sender each: the first receiver follows one of them. */
struct following : rl::test_suite<following, 2> {
  struct eth_match match[2];
  shared<int> spin;
  struct eth_match *found[2];

  void before()
  {
    spin.store(0, rl::mo_relaxed, $);
    for (int i = 0; i < 2; i++) {
      match[i].next = i ? NULL : &match[1];
      match[i].wants.wanted = 1;
      match[i].wants.address_is_fixed = false;
      memset(match[i].at, 0, sizeof(match[i].at));
      atomic_store(&match[i].kind, (uint8_t)ETH_MATCH_FIRST);
      atomic_store(&match[i].claim, (struct dg_source *)NULL);
      atomic_store(&match[i].heard_ns, 0);
    }
  }
  void thread(unsigned i)
  {
    struct dg_source from;

    from.name = (int)i + 1;
    memset(from.address, (int)i + 1, sizeof(from.address));
    found[i] = eth_match_find(match, match[0].at, &from, NULL, 0, &spin);
  }
  void after()
  {
    RL_ASSERT(found[0] != found[1]);
  }
};

/* A frame's time is read by one clock while another is made. */
struct clocks : rl::test_suite<clocks, 2> {
  struct eth_port port;

  void before()
  {
    atomic_store(&port.times.current, 0);
    for (struct eth_clock *clock : {&port.times.clocks[0], &port.times.clocks[1]})
      clock->rate = clock->at = 1;
    port.times.flag = 1;
    port.times.unit = ETH_TIMES_TICKS;
  }
  void thread(unsigned i)
  {
    struct rte_mbuf mbuf = {1, 1};

    if (i == 0)
      eth_times_read_clocks(&port, UINT64_MAX);
    else
      eth_time_of(&port, &mbuf);
  }
};

/* A thread that polls a port sees it started. */
struct running : rl::test_suite<running, 2> {
  struct eth_port port;

  void before()
  {
    atomic_store(&port.stage, ETH_PORT_CONFIGURED);
    port.started = 0;
    the_port = &port;
  }
  void thread(unsigned i)
  {
    if (i == 0)
      eth_port_run(&port);
    else if (eth_port_is_running(&port))
      RL_ASSERT(port.started == 1);
  }
};

/* Memory that DPDK has let go of is its sender's again. */
struct flights : rl::test_suite<flights, 2> {
  struct eth_flight flight;
  struct eth_tx tx;
  struct pst_device device;
  struct pst_worker worker;
  struct pst_endpoint endpoint;
  bytes memory;

  void before()
  {
    tx = {&flight, 0, 1, 0};
    worker.device = &device;
    endpoint.worker = &worker;
    endpoint.tx = &tx;
    atomic_store(&flight.is_over, false);
    memory = 0;
  }
  void thread(unsigned i)
  {
    if (i == 0) {
      RL_ASSERT(memory == 0);
      eth_send_flight_over(NULL, &flight);
      return;
    }
    eth_tx_reap(&endpoint);
    if (endpoint.tx->flight_tail == 1)
      memory = 1;
  }
};

/* The work of DPDK's control thread is complete when it is seen. */
struct control_thread : rl::test_suite<control_thread, 2> {
  atomic<bool> is_set;
  bytes done;

  static void work(void *arg)
  {
    ((struct control_thread *)arg)->done = 1;
  }

  void before()
  {
    done = 0;
    atomic_store(&is_set, false);
    alarm_is_set = &is_set;
  }
  void thread(unsigned i)
  {
    if (i == 0) {
      eal_thread_run(work, this);
      RL_ASSERT(done == 1);
    } else {
      while (!is_set.load(rl::mo_acquire, $))
        rl::yield(1, $);
      alarm_work(alarm_arg);
    }
  }
};

/* ---- verbs_rc ---------------------------------------------------------------------------------
 */

static int rc_qp_set_up_lane(struct pst_endpoint *endpoint, uint32_t i)
{
  endpoint->rc->lanes[i].is_set_up = 1;
  return 0;
}
static void rc_timers_check_event(struct pst_endpoint *)
{
}
static void rc_last_wqe_notice(struct pst_endpoint *)
{
}
static void rc_greet(struct pst_endpoint *endpoint)
{
  RL_ASSERT(endpoint->rc->setup_rc == 0);
  RL_ASSERT(endpoint->rc->lanes[0].is_set_up == 1);
}
static void vb_pend(struct pst_endpoint *)
{
}
static void vb_srq_notices(struct pst_worker *)
{
}
static void vb_worker_drain(struct wake)
{
}
static int write(struct wake, const void *, size_t)
{
  return 0;
}
static void vb_counters_read(int, int, struct vb_counters *counters)
{
  counters->read = 1;
}
static void free(struct rc_counter_baseline *since)
{
  since->memory = -1;
}

#include "verbs.inc"

static struct rc_counter_baseline *the_since;

/* A notice shows what a thread that takes asynchronous events has left. */
struct notices : rl::test_suite<notices, 2> {
  struct pst_device device;
  struct pst_worker worker;

  void before()
  {
    atomic_store(&device.is_lost, false);
    atomic_store(&worker.notices, 0u);
    worker.notices_seen = worker.notice_at = worker.notice_left = worker.notice_room = 0;
    worker.tells_lost = worker.has_told_lost = false;
    worker.device = &device;
    worker.endpoints.room = 0;
  }
  void thread(unsigned i)
  {
    if (i == 0) {
      atomic_store(&device.is_lost, true);
      vb_notify(&worker);
    } else {
      vb_take_notices(&worker);
      RL_ASSERT(worker.notices_seen == 0 || worker.tells_lost);
    }
  }
};

/* A queue pair that a deferred work has set up is set up. */
struct set_ups : rl::test_suite<set_ups, 2> {
  struct pst_device device;
  struct pst_worker worker;
  struct rc_endpoint rc;
  struct pst_endpoint endpoint;

  void before()
  {
    atomic_store(&worker.notices, 0u);
    atomic_store(&rc.setup, 1);
    rc.setup_rc = 1;
    rc.lanes[0].sets_up = true;
    rc.lanes[0].is_set_up = 0;
    rc.cm = false;
    endpoint.worker = &worker;
    endpoint.rc = &rc;
    endpoint.lane_count = 1;
  }
  void thread(unsigned i)
  {
    if (i == 0)
      rc_qp_set_up(&endpoint);
    else
      rc_notice(&endpoint);
  }
};

/* Counters that a deferred work reads are whole for who finds them read; who comes second frees. */
struct counters : rl::test_suite<counters, 2> {
  struct pst_device device;
  struct pst_worker worker;
  struct rc_endpoint rc;
  struct pst_endpoint endpoint;
  struct rc_counter_baseline since;

  void before()
  {
    atomic_store(&since.state, RC_BASELINE_READING);
    since.device = &device;
    since.users = 1;
    since.counters.read = since.memory = 0;
    worker.since = &since;
    rc.since = &since;
    endpoint.worker = &worker;
    endpoint.rc = &rc;
  }
  void thread(unsigned i)
  {
    if (i == 0) {
      rc_fail_read_since(&since);
      return;
    }
    if (atomic_load(&since.state) == RC_BASELINE_READ)
      RL_ASSERT(since.counters.read == 1);
    rc_counter_baseline_end(&endpoint);
  }
  void after()
  {
    RL_ASSERT(since.memory == -1);
  }
};

/* ---- verbs_dc ---------------------------------------------------------------------------------
 */

namespace dc
{
struct ibv_ah {
};
struct wake {
};
struct pst_endpoint;
struct pst_worker;
struct transport {
  void (*notice)(struct pst_endpoint *endpoint);
};
struct pst_device {
  pthread_mutex_t events, handles_lock;
  struct pst_worker *workers;
  atomic_bool is_lost;
  const struct transport *transport;
  struct {
    struct {
      const char *name;
    } * info;
  } open;
};
struct vb_queue {
  struct pst_worker *worker;
  atomic<int> event;
};
struct pst_worker {
  struct pst_worker *next;
  atomic<uint32_t> notices;
  uint32_t notices_seen, notice_at, notice_left, notice_room;
  struct wake wake_fd;
  bool tells_lost, has_told_lost;
  struct pst_device *device;
  struct {
    uint32_t room;
    struct {
      struct pst_endpoint *at;
    } all[1];
  } endpoints;
  struct vb_queue queue; /* its initiators' */
  atomic_bool has_lost_target;
};
enum dc_handle_state { DC_HANDLE_MAKING, DC_HANDLE_READY, DC_HANDLE_FAILED };
struct dc_handle {
  struct pst_device *device;
  plain<struct ibv_ah *> ah;
  atomic<int> state;
  int error;
  uint32_t users;
};
enum { DC_RESOLVING, DC_GREETING, DC_FAILED };
struct pst_endpoint {
  struct pst_worker *worker;
  struct pst_device *device;
  struct {
    int mode;
  } closing;
};
struct dc_endpoint {
  struct pst_endpoint endpoint;
  int stage;
  struct dc_handle *handle;
};
enum { IBV_EVENT_QP_FATAL = 1 };
struct ibv_qp {
  struct vb_queue *qp_context;
  int qp_num;
};
struct ibv_async_event {
  int event_type;
  struct {
    struct ibv_qp *qp;
  } element;
};
static struct dc_endpoint *dc_of(struct pst_endpoint *endpoint)
{
  return (struct dc_endpoint *)endpoint;
}
#define dc_worker dc::pst_worker
static struct dc_worker *dc_worker_of(struct pst_worker *worker)
{
  return worker;
}
static struct pst_device *dc_device_of(struct pst_device *device)
{
  return device;
}
static bool dc_is_over(const struct dc_endpoint *dc)
{
  return dc->stage == DC_FAILED;
}
static void dc_fail(struct pst_endpoint *endpoint, int, const char *)
{
  dc_of(endpoint)->stage = DC_FAILED;
}
static void dc_enter(struct dc_endpoint *dc, int stage)
{
  RL_ASSERT((struct ibv_ah *)dc->handle->ah != NULL);
  dc->stage = stage;
}
static void dc_connect_cannot_be_reached(struct dc_endpoint *)
{
  RL_ASSERT(!"the handle was made");
}
static void dc_handle_unlink_and_free(struct dc_handle *)
{
}
static void vb_event_text(int, char *, size_t)
{
}
#define VB_LOG(...) ((void)0)
static void vb_pend(struct pst_endpoint *)
{
}
static void vb_srq_notices(struct pst_worker *)
{
}
static void vb_worker_drain(struct wake)
{
}
static int write(struct wake, const void *, size_t)
{
  return 0;
}

#include "dc.inc"

/* A worker of a device, with an endpoint whose peer's address is being resolved. */
struct ends {
  struct pst_device device;
  struct pst_worker worker;
  struct dc_handle handle;
  struct dc_endpoint endpoint;

  void open()
  {
    static const struct transport transport = {dc_notice};

    atomic_store(&device.is_lost, false);
    device.workers = &worker;
    device.transport = &transport;
    atomic_store(&worker.notices, 0u);
    atomic_store(&worker.queue.event, 0);
    worker.queue.worker = &worker;
    atomic_store(&worker.has_lost_target, false);
    worker.next = NULL;
    worker.notices_seen = worker.notice_at = worker.notice_left = worker.notice_room = 0;
    worker.tells_lost = worker.has_told_lost = false;
    worker.device = &device;
    worker.endpoints.room = 1;
    worker.endpoints.all[0].at = &endpoint.endpoint;
    atomic_store(&handle.state, DC_HANDLE_MAKING);
    handle.device = &device;
    handle.ah = NULL;
    handle.users = 1;
    endpoint = {{&worker, &device, {0}}, DC_RESOLVING, &handle};
  }
};

/* An address handle that a deferred work has made is there. */
struct handles : rl::test_suite<handles, 2>, ends {
  void before()
  {
    open();
  }
  void thread(unsigned i)
  {
    static struct ibv_ah made;

    if (i == 0)
      dc_handle_end_making(&handle, &made, 0);
    else
      vb_take_notices(&worker);
  }
};

/* A notice shows the events of a queue pair. */
struct events : rl::test_suite<events, 2>, ends {
  void before()
  {
    open();
  }
  void thread(unsigned i)
  {
    if (i == 0) {
      struct ibv_qp qp = {&worker.queue, 0};
      const struct ibv_async_event event = {IBV_EVENT_QP_FATAL, {&qp}};
      dc_plugin_queue_event(&device, &event);
    } else {
      vb_take_notices(&worker);
      RL_ASSERT(worker.notices_seen == 0 || endpoint.stage == DC_FAILED);
    }
  }
};
#undef dc_worker
} // namespace dc

/* ---- UCX --------------------------------------------------------------------------------------
 */

namespace ucx
{
struct pst_host {
  void (*log)(const struct pst_host *host, int level, const char *format, const char *text);
  mutable bytes opened;
};
enum ucs_log_level_t { UCS_LOG_LEVEL_WARN, UCS_LOG_LEVEL_DEBUG };
enum ucs_log_func_rc_t { UCS_LOG_FUNC_RC_STOP, UCS_LOG_FUNC_RC_CONTINUE };
struct ucs_log_component_config_t {
};
static char *log_text;
static size_t log_size;
static int ucx_log_level_of(ucs_log_level_t, const char *)
{
  return 0;
}
static shared<const struct pst_host *> *the_log_host;
#define log_host (*the_log_host)
/* UCX has the handler from before. */
#define pthread_once(once, push) ((void)0)

struct ucx_cuda {
  bytes opened;
};
static struct ucx_cuda *the_cuda;
struct pst_mr {
  struct pst_mr *next;
  bool by_cpu;
  struct {
    uint8_t *base;
  } cpu;
};
struct pst_device {
  pthread_mutex_t mr_lock;
  struct pst_mr *mrs;
  shared<struct ucx_cuda *> cuda;
};
#define pthread_rwlock_wrlock pthread_mutex_lock
#define pthread_rwlock_unlock pthread_mutex_unlock
static struct ucx_cuda *ucx_cuda_open(uint64_t)
{
  the_cuda->opened = 1;
  return the_cuda;
}
static void ucx_cuda_push(const struct ucx_cuda *cuda)
{
  RL_ASSERT(cuda->opened == 1);
}

#include "ucx.inc"
#undef log_host
#undef pthread_once
#undef pthread_rwlock_wrlock
#undef pthread_rwlock_unlock

/* A thread that logs for UCX sees the host table complete. */
struct log_hosts : rl::test_suite<log_hosts, 2> {
  shared<const struct pst_host *> host;
  struct pst_host hosts[2];

  static void log(const struct pst_host *host, int, const char *, const char *)
  {
    RL_ASSERT(host->opened == 1);
  }
  static void say(const char *message, ...)
  {
    static const struct ucs_log_component_config_t component = {};
    va_list none;

    va_start(none, message);
    ucx_log_line("", 0, "", UCS_LOG_LEVEL_WARN, &component, message, none);
    va_end(none);
  }
  void before()
  {
    for (struct pst_host *one : {&hosts[0], &hosts[1]})
      one->log = log;
    hosts[0].opened = 1;
    hosts[1].opened = 0;
    the_log_host = &host;
    host.store(&hosts[0], rl::mo_relaxed, $);
  }
  void thread(unsigned i)
  {
    if (i == 0) {
      hosts[1].opened = 1;
      ucx_log_take(&hosts[1]);
    } else {
      say("a warning");
    }
  }
};

/* The context that a registration opens is whole for the thread that polls. */
struct contexts : rl::test_suite<contexts, 2> {
  struct pst_device device;
  struct pst_mr mr;
  struct ucx_cuda cuda;

  void before()
  {
    mr.by_cpu = false;
    mr.cpu.base = NULL;
    device.mrs = NULL;
    device.cuda.store(NULL, rl::mo_relaxed, $);
    cuda.opened = 0;
    the_cuda = &cuda;
  }
  void thread(unsigned i)
  {
    if (i == 0)
      ucx_mr_add_to_device(&device, &mr);
    else
      ucx_cuda_enter(&device);
  }
};
} // namespace ucx

int main()
{
  return litmus<registrations>("registrations of fault", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<parts>("copies of fault", {WEAK_RMW}) |
         litmus<meeting>("a receiver of ethernet", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<following>("who follows whom", {WEAK_RELEASE, WEAK_ACQUIRE, WEAK_RMW}) |
         litmus<clocks>("a card's clock", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<running>("a port that runs", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<flights>("memory under way", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<control_thread>("DPDK's control thread", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<notices>("a worker's notices", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<set_ups>("a queue pair set up", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<counters>("counters read", {WEAK_RELEASE, WEAK_ACQUIRE, WEAK_RMW}) |
         litmus<dc::handles>("an address handle made", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<dc::events>("an event of verbs_dc", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<ucx::log_hosts>("where UCX logs", {WEAK_RELEASE, WEAK_ACQUIRE}) |
         litmus<ucx::contexts>("a GPU's context of ucx", {WEAK_RELEASE, WEAK_ACQUIRE});
}
