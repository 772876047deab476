/* SPDX-License-Identifier: Apache-2.0 */
/* Objects that cannot be made, and objects that cannot be destroyed while another needs them. */
#include "statuses.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static void tell_made(const char *name, const void *object)
{
  tell_errno(name, object ? 0 : errno);
}

static void create_cq(const char *name, int depth, int vector)
{
  errno = 0;
  struct ibv_cq *cq = ibv_create_cq(device.context, depth, NULL, NULL, vector);
  tell_made(name, cq);
  if (cq)
    ibv_destroy_cq(cq);
}

static void create_cqs(void)
{
  create_cq("create.cq.depth-0", 0, 0);
  create_cq("create.cq.depth-negative", -1, 0);
  create_cq("create.cq.depth-max", device.attr.max_cqe, 0);
  create_cq("create.cq.depth-above-max", device.attr.max_cqe + 1, 0);
  create_cq("create.cq.vector-unknown", 8, device.context->num_comp_vectors);
  create_cq("create.cq.vector-negative", 8, -1);
}

static void create_qp(const char *name, void (*spoil)(struct setup *, struct end *))
{
  struct setup setup = setup_usual();
  setup.state[REQ] = setup.state[RSP] = IBV_QPS_RESET;
  struct pair pair;
  pair_open(&pair, &setup);
  struct end end = pair.end[REQ];
  spoil(&setup, &end);
  errno = 0;
  struct ibv_qp *qp = qp_create(&end, &setup);
  tell_made(name, qp);
  if (qp)
    ibv_destroy_qp(qp);
  pair_close(&pair);
}

static void send_wr_above_max(struct setup *setup, struct end *end)
{
  (void)end;
  setup->cap.max_send_wr = (uint32_t)device.attr.max_qp_wr + 1;
}

static void recv_wr_above_max(struct setup *setup, struct end *end)
{
  (void)end;
  setup->cap.max_recv_wr = (uint32_t)device.attr.max_qp_wr + 1;
}

static void send_sge_above_max(struct setup *setup, struct end *end)
{
  (void)end;
  setup->cap.max_send_sge = (uint32_t)device.attr.max_sge + 1;
}

static void recv_sge_above_max(struct setup *setup, struct end *end)
{
  (void)end;
  setup->cap.max_recv_sge = (uint32_t)device.attr.max_sge + 1;
}

static void inline_1_mib(struct setup *setup, struct end *end)
{
  (void)end;
  setup->cap.max_inline_data = 1 << 20;
}

static void all_zero(struct setup *setup, struct end *end)
{
  (void)end;
  memset(&setup->cap, 0, sizeof(setup->cap));
}

static void type_unknown(struct setup *setup, struct end *end)
{
  (void)end;
  setup->type = (enum ibv_qp_type)99;
}

static void create_qps(void)
{
  create_qp("create.qp.send-wr-above-max", send_wr_above_max);
  create_qp("create.qp.recv-wr-above-max", recv_wr_above_max);
  create_qp("create.qp.send-sge-above-max", send_sge_above_max);
  create_qp("create.qp.recv-sge-above-max", recv_sge_above_max);
  create_qp("create.qp.inline-1-mib", inline_1_mib);
  create_qp("create.qp.all-zero", all_zero);
  create_qp("create.qp.type-unknown", type_unknown);
}

static void create_mr(const char *name, struct ibv_pd *pd, void *address, size_t length, int access)
{
  errno = 0;
  struct ibv_mr *mr = ibv_reg_mr(pd, address, length, access);
  tell_made(name, mr);
  if (mr)
    ibv_dereg_mr(mr);
}

static void create_mrs(struct ibv_pd *pd)
{
  size_t page = 4096;
  char *memory = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  require("mmap", memory != MAP_FAILED);
  create_mr("create.mr.length-0", pd, memory, 0, IBV_ACCESS_LOCAL_WRITE);
  create_mr("create.mr.odd-bounds", pd, memory + 1, 1, IBV_ACCESS_LOCAL_WRITE);
  create_mr("create.mr.no-access", pd, memory, page, 0);
  create_mr("create.mr.remote-write-without-local", pd, memory, page, IBV_ACCESS_REMOTE_WRITE);
  create_mr("create.mr.remote-atomic-without-local", pd, memory, page, IBV_ACCESS_REMOTE_ATOMIC);
  create_mr("create.mr.relaxed-ordering", pd, memory, page,
            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
  create_mr("create.mr.on-demand", pd, memory, page, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
  create_mr("create.mr.access-unknown", pd, memory, page, 1 << 18);
  create_mr("create.mr.overflow", pd, memory, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE);
  require("mprotect", mprotect(memory, page, PROT_READ) == 0);
  create_mr("create.mr.read-only-memory.remote-read", pd, memory, page, IBV_ACCESS_REMOTE_READ);
  create_mr("create.mr.read-only-memory.local-write", pd, memory, page, IBV_ACCESS_LOCAL_WRITE);
  require("munmap", munmap(memory + page, page) == 0);
  create_mr("create.mr.not-mapped", pd, memory + page, page, IBV_ACCESS_LOCAL_WRITE);
  create_mr("create.mr.hole", pd, memory, 3 * page, IBV_ACCESS_REMOTE_READ);
  create_mr("create.mr.null", pd, NULL, page, IBV_ACCESS_LOCAL_WRITE);
  munmap(memory, 4 * page);
}

static void create_dmabuf(struct ibv_pd *pd)
{
  int fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
  require("/dev/zero", fd >= 0);
  errno = 0;
  struct ibv_mr *mr = ibv_reg_dmabuf_mr(pd, 0, 4096, 0, fd, IBV_ACCESS_LOCAL_WRITE);
  tell_made("create.dmabuf-mr.of-no-dma-buf", mr);
  if (mr)
    ibv_dereg_mr(mr);
  close(fd);
}

static void create_srq(const char *name, struct ibv_pd *pd, uint32_t wr, uint32_t sge)
{
  struct ibv_srq_init_attr init = {.attr = {.max_wr = wr, .max_sge = sge}};
  errno = 0;
  struct ibv_srq *srq = ibv_create_srq(pd, &init);
  tell_made(name, srq);
  if (srq)
    ibv_destroy_srq(srq);
}

static void create_ah(const char *name, struct ibv_pd *pd, int index, int port)
{
  struct ibv_ah_attr attr = {
      .is_global = 1,
      .port_num = (uint8_t)port,
      .dlid = device.port.lid,
      .grh = {.dgid = device.gid, .sgid_index = (uint8_t)index, .hop_limit = 64}};
  errno = 0;
  struct ibv_ah *ah = ibv_create_ah(pd, &attr);
  tell_made(name, ah);
  if (ah)
    ibv_destroy_ah(ah);
}

void family_create(void)
{
  struct ibv_pd *pd = ibv_alloc_pd(device.context);
  require("ibv_alloc_pd", pd != NULL);
  create_cqs();
  create_qps();
  create_mrs(pd);
  create_dmabuf(pd);
  create_srq("create.srq.wr-above-max", pd, (uint32_t)device.attr.max_srq_wr + 1, 1);
  create_srq("create.srq.sge-above-max", pd, 16, (uint32_t)device.attr.max_srq_sge + 1);
  create_srq("create.srq.wr-0", pd, 0, 1);
  create_ah("create.ah", pd, device.gid_index, 1);
  create_ah("create.ah.gid-index-255", pd, 255, 1);
  create_ah("create.ah.port-2", pd, device.gid_index, 2);
  require("ibv_dealloc_pd", ibv_dealloc_pd(pd) == 0);
}

/* Each is tried while what stands on it is there, and once more when it is not. */
void family_destroy(void)
{
  struct setup setup = setup_usual();
  setup.srq = true;
  struct pair pair;
  pair_open(&pair, &setup);
  struct end *end = &pair.end[RSP];
  require("ibv_post_srq_recv", receive_post(end, 64) == 0);
  tell_errno("destroy.pd.with-all", ibv_dealloc_pd(end->pd));
  tell_errno("destroy.cq.with-qp", ibv_destroy_cq(end->cq));
  tell_errno("destroy.srq.with-qp", ibv_destroy_srq(end->srq));
  tell_errno("destroy.channel.with-cq", ibv_destroy_comp_channel(end->channel));
  tell_errno("destroy.qp.in-RTS", ibv_destroy_qp(end->qp));
  end->qp = NULL;
  tell_errno("destroy.mr.with-receive-in-srq", ibv_dereg_mr(end->mr));
  end->mr = NULL;
  tell_errno("destroy.pd.with-srq", ibv_dealloc_pd(end->pd));
  tell_errno("destroy.srq.with-receive", ibv_destroy_srq(end->srq));
  end->srq = NULL;
  tell_errno("destroy.cq", ibv_destroy_cq(end->cq));
  end->cq = NULL;
  pair_close(&pair);
}
