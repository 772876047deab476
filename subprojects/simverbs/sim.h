/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated device as the exported symbols see it: front/ and mlx5/ translate libibverbs' and
 * libmlx5's calls into these, objects/ and engine/ do the work. Every object of the API is embedded
 * in one of ours, so that a pointer a program holds leads here with sim_X_of().
 *
 * Errors: functions that give a pointer return NULL and set errno; the others return 0 or a
 * positive errno, as verbs do, and leave outputs alone. All of them may be called from any thread.
 */
#ifndef SIM_H
#define SIM_H

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define sim_container_of(pointer, type, member) ((type *)((char *)(pointer)-offsetof(type, member)))

/* Ports of a device; bits for events, more than enum ibv_event_type has. */
enum { SIM_PORTS = 2, SIM_EVENTS = 32, SIM_EVENT_UNKNOWN = SIM_EVENTS - 1 };

struct sim_list {
  struct sim_list *next, *prev;
};

/* Events wait in a list of the process; the descriptor that a program polls is a counting eventfd
 * of as many as the list is long. */
struct sim_events {
  pthread_mutex_t lock;
  struct sim_list list;
  int fd;
};

/* One of the host's devices, there from the first ibv_get_device_list to the end of the process. */
struct sim_device {
  struct ibv_device dev;
  uint32_t number; /* in the fabric */
  __be64 guid;
};

struct sim_context {
  struct sim_device *device;
  struct sim_events async;
  struct sim_list link;             /* of the process' open contexts */
  struct sim_list regions, windows; /* its MRs and MWs */
  unsigned pds, mrs, mws, cqs, qps, srqs, ahs, channels,
      others;         /* alive, under sim_process' lock */
  uint64_t port_seen; /* what the async events have told of the ports */
  uint32_t told_seen[SIM_PORTS][SIM_EVENTS];
  bool removed;               /* IBV_EVENT_DEVICE_FATAL was given */
  void *front;                /* front/'s own, freed by it */
  struct verbs_context verbs; /* last: a program holds &verbs.context */
};

struct sim_pd {
  struct ibv_pd pd;
  struct sim_pd *parent; /* of a parent domain; else NULL */
  uint32_t id;           /* in the fabric; a parent domain has its PD's */
  unsigned users;        /* objects on it: EBUSY while there are any */
  void *front;
};

struct sim_mr {
  struct ibv_mr mr;
  struct sim_list link;
  uint32_t index; /* in the fabric's table */
  void *mapped;   /* a dma-buf's, as this process has it mapped; else NULL */
  size_t mapped_len;
};

struct sim_mw {
  struct ibv_mw mw;
  struct sim_list link;
  uint32_t index;
};

struct sim_ah {
  struct ibv_ah ah;
  struct ibv_ah_attr attr;
};

struct sim_channel {
  struct ibv_comp_channel channel;
  struct sim_events events;
};

/* A completion, as ibv_poll_cq and the extended CQ both read it. */
struct sim_cqe {
  uint64_t wr_id;
  uint64_t timestamp_ns; /* the fabric's clock */
  uint32_t status;       /* enum ibv_wc_status */
  uint32_t opcode;       /* enum ibv_wc_opcode */
  uint32_t vendor_err;
  uint32_t byte_len;
  uint32_t imm_or_rkey; /* immediate data (network order), or the key invalidated */
  uint32_t qp_num;
  uint32_t src_qp;
  uint32_t wc_flags;
  uint16_t pkey_index;
  uint16_t slid;
  uint8_t sl;
  uint8_t dlid_path_bits;
  uint8_t solicited; /* to the engine: does it wake a CQ armed for solicited events */
  uint8_t is_send;   /* to the engine: it frees room in the send queue, up to sq_count */
  uint32_t sq_count;
  uint32_t sq_at;     /* to strict mode: where in the send queue the request stands */
  uint32_t srq;       /* to the engine: index + 1 of the shared queue that it frees room in */
  uint32_t scattered; /* to the engine: entries of sim_scatter.to */
};

/* Where the CPU puts a SEND's bytes that come in the completion, as it is polled. */
enum { SIM_SCATTER = 64, SIM_SCATTER_PARTS = 2 };
struct sim_scatter {
  struct {
    uint64_t address; /* as the receive names it */
    uint32_t length;
  } to[SIM_SCATTER_PARTS];
  uint8_t bytes[SIM_SCATTER];
};

/* An entry of a completion queue. */
struct sim_entry {
  struct sim_cqe cqe;
  struct sim_scatter scatter;
};

struct sim_cq {
  union {
    struct ibv_cq cq;
    struct ibv_cq_ex ex;
  };
  uint32_t index; /* in the fabric's table */
  struct sim_list link;
  uint32_t events_given; /* by sim_channel_next: destroying waits until as many are acknowledged */
  uint32_t async_given;  /* by sim_async_next, as of the other objects */
  uint64_t wc_flags;     /* what ibv_create_cq_ex asked for */
  uint32_t create_flags;
  _Atomic bool in_use;    /* of MLX5_SINGLE_THREADED=1: by a thread */
  struct sim_cqe current; /* front/'s, between ibv_start_poll and ibv_end_poll */
  void *front;
};

struct sim_srq {
  struct ibv_srq srq;
  uint32_t index; /* in the fabric's table */
  uint32_t number;
  uint32_t async_given;
  struct sim_cq *cq; /* ibv_create_srq_ex's */
  enum ibv_srq_type type;
  struct sim_list link;
  uint32_t max_wr, max_sge;
  void *front;
};

enum sim_qp_kind { SIM_RC = 1, SIM_UC, SIM_UD, SIM_DCI, SIM_DCT };

/* Attributes that mlx5dv_create_qp adds. */
struct sim_qp_dv {
  enum sim_qp_kind kind; /* SIM_DCI or SIM_DCT; 0: as qp_type says */
  bool no_scatter;       /* MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE */
  uint64_t dct_access_key;
  uint8_t log_num_concurrent; /* DCI streams: both 0 without them */
  uint8_t log_num_errored;
};

/* One work request on its way into the send queue. Memory that the request points to is read before
 * the call returns. ibv_post_send, ibv_wr_* and the DC setters all make these. */
struct sim_wqe {
  uint64_t wr_id;
  uint32_t opcode; /* enum ibv_wr_opcode */
  uint32_t flags;  /* enum ibv_send_flags */
  uint32_t imm_or_rkey;
  uint32_t rkey;
  uint64_t remote_addr;
  uint64_t compare_add, swap;
  struct ibv_ah *ah; /* UD and DC */
  uint32_t remote_qpn;
  uint32_t remote_qkey;
  uint64_t dc_key;
  uint16_t stream;
  uint32_t num_sge;
  const struct ibv_sge *sges;
  uint32_t num_buf; /* with IBV_SEND_INLINE: these instead, if there are any, of sges */
  const struct ibv_data_buf *bufs;
  struct ibv_mw *mw; /* IBV_WR_BIND_MW: imm_or_rkey is the new key */
  struct ibv_mw_bind_info bind;
};

struct sim_sq; /* engine/sq.h */

struct sim_qp {
  union {
    struct ibv_qp qp;
    struct ibv_qp_ex ex;
  };
  struct mlx5dv_qp_ex dv; /* filled by mlx5/ */
  enum sim_qp_kind kind;
  uint32_t index;  /* in the fabric's table */
  uint32_t number; /* on the wire: a DCT's is there before ibv_qp.qp_num may show it */
  uint32_t async_given;
  struct sim_list link;
  struct sim_sq *sq;
  struct ibv_qp_attr attr; /* as set so far, what ibv_query_qp gives */
  struct ibv_qp_init_attr init;
  struct sim_qp_dv dc;
  uint32_t ece_given,
      ece_set;          /* options: what ibv_query_ece says; what is to be used from RTR on */
  uint64_t send_ops;    /* IBV_QP_EX_WITH_*, when created with SEND_OPS_FLAGS; else 0 */
  struct sim_wqe build; /* front/'s, between a builder and the next one or ibv_wr_complete */
  int build_error;      /* the first errno of the batch */
  void *front;          /* front/'s own (copies of sge lists of the WR being built), freed by it */
};

#define sim_context_of(p) sim_container_of(p, struct sim_context, verbs.context)
#define sim_device_of(device) sim_container_of(device, struct sim_device, dev)
#define sim_pd_of(p) sim_container_of(p, struct sim_pd, pd)
#define sim_mr_of(p) sim_container_of(p, struct sim_mr, mr)
#define sim_mw_of(p) sim_container_of(p, struct sim_mw, mw)
#define sim_ah_of(p) sim_container_of(p, struct sim_ah, ah)
#define sim_channel_of(p) sim_container_of(p, struct sim_channel, channel)
#define sim_cq_of(p) sim_container_of(p, struct sim_cq, cq)
#define sim_srq_of(p) sim_container_of(p, struct sim_srq, srq)
#define sim_qp_of(p) sim_container_of(p, struct sim_qp, qp)

/* The simulated libmlx5 calls some of these: seen outside, under a version of their own. */
#pragma GCC visibility push(default)

/* ---- devices ---- */

/* The devices of this process' host, the first call attaching to the fabric that
 * PENSTOCK_SIMVERBS_FABRIC names. Without one: ENODEV, and the log says so. */
int sim_devices(struct sim_device *const **devices, unsigned *count);

/* The context has verbs.sz, context.device, cmd_fd, async_fd, num_comp_vectors and abi_compat set;
 * its operations are for front/ to fill. */
struct sim_context *sim_context_open(struct sim_device *device);
/* A command of the firmware's takes its time: its caller sleeps meanwhile, as in the kernel. */
void sim_command(struct ibv_context *context);
/* Closes a context. Objects that are still alive are destroyed with it, as by the kernel, and the
 * log says so: the handles are the program's mistake, but peers see nothing of objects that are
 * gone. */
int sim_context_close(struct sim_context *context);

int sim_query_device(struct sim_context *context, struct ibv_device_attr_ex *attr);
/* libmlx5 runs it: the others have providers of their own. */
bool sim_device_is_mlx5(const struct sim_device *device);
int sim_query_mlx5(struct sim_context *context, struct mlx5dv_context *attr);
int sim_query_port(struct sim_context *context, unsigned port, struct ibv_port_attr *attr);
/* EINVAL out of the table, ENODATA for an entry that is empty. */
int sim_query_gid(struct sim_context *context, unsigned port, unsigned index,
                  struct ibv_gid_entry *entry);
int sim_query_pkey(struct sim_context *context, unsigned port, unsigned index, __be16 *pkey);
uint64_t sim_clock_ns(struct sim_context *context);
/* Advances a manual clock as `ctl . advance` does, and returns once all that came due is done, so
 * that the next poll sees it. For programs written for the simulation, which find it by dlsym().
 * EINVAL: the clock is not a manual one, or no device was opened. */
int sim_clock_advance(uint64_t ns);

/* Waits (unless async_fd is non-blocking: EAGAIN) for the next event. */
int sim_async_next(struct sim_context *context, struct ibv_async_event *event);
/* Counts it as acknowledged; destroying what it was about waits for that. */
void sim_async_ack(const struct ibv_async_event *event);

/* ---- protection domains, memory ---- */

struct sim_pd *sim_pd_alloc(struct sim_context *context);
int sim_pd_free(struct sim_pd *pd);
/* A parent domain over `parent`. */
struct sim_pd *sim_pd_alloc_child(struct sim_pd *parent);

struct sim_mr_init {
  uint64_t addr;   /* ignored for a dma-buf */
  uint64_t length; /* bytes */
  uint64_t iova;   /* what keys' users address */
  uint32_t access; /* enum ibv_access_flags */
  bool dmabuf;
  int fd;             /* of the dma-buf */
  uint64_t fd_offset; /* bytes */
};
struct sim_mr *sim_mr_reg(struct sim_pd *pd, const struct sim_mr_init *init);
/* flags: enum ibv_rereg_mr_flags; pd and init are read as these say. */
int sim_mr_rereg(struct sim_mr *mr, int flags, struct sim_pd *pd, const struct sim_mr_init *init);
int sim_mr_dereg(struct sim_mr *mr);
struct sim_mw *sim_mw_alloc(struct sim_pd *pd, enum ibv_mw_type type);
int sim_mw_free(struct sim_mw *mw);

/* EINVAL for a bad port, GID index or a missing GRH where the link layer needs one. */
struct sim_ah *sim_ah_create(struct sim_pd *pd, const struct ibv_ah_attr *attr);
int sim_ah_destroy(struct sim_ah *ah);

/* ---- completion ---- */

struct sim_channel *sim_channel_create(struct sim_context *context);
int sim_channel_destroy(struct sim_channel *channel);
/* Waits as sim_async_next does. The CQ's comp_events_completed is the caller's to count up. */
int sim_channel_next(struct sim_channel *channel, struct sim_cq **cq);

struct sim_cq *sim_cq_create(struct sim_context *context, const struct ibv_cq_init_attr_ex *attr);
int sim_cq_resize(struct sim_cq *cq, unsigned cqe);
int sim_cq_modify(struct sim_cq *cq, const struct ibv_modify_cq_attr *attr);
int sim_cq_arm(struct sim_cq *cq, bool solicited_only);
/* EBUSY while QPs or SRQs use it. Waits until the events given are acknowledged. */
int sim_cq_destroy(struct sim_cq *cq);
/* Takes up to n completions, oldest first: how many, or a negative errno. */
int sim_cq_poll(struct sim_cq *cq, struct sim_cqe *cqes, int n);

/* ---- shared receive queues ---- */

/* attr->attr is set to what was given. */
struct sim_srq *sim_srq_create(struct sim_context *context, struct ibv_srq_init_attr_ex *attr);
int sim_srq_modify(struct sim_srq *srq, const struct ibv_srq_attr *attr, int mask);
int sim_srq_query(struct sim_srq *srq, struct ibv_srq_attr *attr);
int sim_srq_destroy(struct sim_srq *srq);
int sim_srq_post(struct sim_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* ---- queue pairs ---- */

/* attr->cap is set to what was given. dv NULL: attr->qp_type says which. The function pointers of
 * ex and of dv are for front/ and mlx5/ to fill. Tries and refusals are those of mlx5. */
struct sim_qp *sim_qp_create(struct sim_context *context, struct ibv_qp_init_attr_ex *attr,
                             const struct sim_qp_dv *dv);
int sim_qp_modify(struct sim_qp *qp, const struct ibv_qp_attr *attr, int mask);
int sim_qp_query(struct sim_qp *qp, struct ibv_qp_attr *attr, struct ibv_qp_init_attr *init);
int sim_qp_destroy(struct sim_qp *qp);
int sim_qp_post_recv(struct sim_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int sim_qp_attach_mcast(struct sim_qp *qp, const union ibv_gid *gid, uint16_t lid, bool attach);
/* ibv_query_ece, ibv_set_ece: EOPNOTSUPP of a device without. */
int sim_ece_query(struct sim_qp *qp, struct ibv_ece *ece);
int sim_ece_set(struct sim_qp *qp, const struct ibv_ece *ece);
int sim_dci_stream_reset(struct sim_qp *qp, uint16_t stream);

/* Posting: sim_post_begin holds the send queue's lock until sim_post_end, which rings the doorbell,
 * or sim_post_abort, which forgets the batch. Several sim_post_add between them; one that fails
 * (ENOMEM: full; EINVAL: the state, too many sges, too much inline data, an opcode that the
 * transport has not) adds nothing, and those before it stay in the batch. */
void sim_post_begin(struct sim_qp *qp);
int sim_post_add(struct sim_qp *qp, const struct sim_wqe *wqe);
void sim_post_end(struct sim_qp *qp);
void sim_post_abort(struct sim_qp *qp);

/* ---- for the simulated librdmacm ---- */

/* From a port of this host's to an address. */
struct sim_cm_path {
  struct sim_device *device; /* NULL: not known yet */
  unsigned port, gid_index;  /* of this end */
  union ibv_gid own, peer;
  unsigned host; /* of the peer */
  uint8_t mtu;   /* enum ibv_mtu, of the port */
};

/* This end: the RoCE port that has the address. EADDRNOTAVAIL: none has. */
int sim_cm_own(const union ibv_gid *own, struct sim_cm_path *path);
/* The other end, from this one or, with none yet, from whichever leads there. ENETUNREACH: no port
 * of this host does. ETIMEDOUT: nobody answers there. */
int sim_cm_to(const union ibv_gid *peer, struct sim_cm_path *path);
/* From the first port that is up to itself. ENODEV */
int sim_cm_loopback(struct sim_cm_path *path);
/* Does a message come through now? */
bool sim_cm_passes(const struct sim_cm_path *path);
void sim_cm_ah(const struct sim_cm_path *path, struct ibv_ah_attr *ah);
int sim_cm_host(unsigned *host);
/* The addresses of this host's ports, one by one; ENOENT: no more. */
int sim_cm_address(unsigned i, union ibv_gid *gid);
uint64_t sim_cm_clock_ns(void);
/* The real time at which the fabric's clock shows `until_ns`; UINT64_MAX on a manual clock. */
uint64_t sim_cm_real_ns(uint64_t until_ns);

#pragma GCC visibility pop

#endif
