/* SPDX-License-Identifier: Apache-2.0 */
/* Shared receive queues, over a device that keeps what is posted to them. */
#include "srq.h"
#include "support.h"

#define SIZE 1024u   /* of the first of a kind */
#define WANTED 10u   /* receives of an endpoint */
#define CQ_ROOM 100u /* completions */
#define SRQS 5u

struct fake_srq {
  struct ibv_srq srq;
  uint32_t asked; /* receives */
  uint32_t calls, posted_count;
  struct ibv_recv_wr posted[2 * SIZE];
  struct ibv_sge sges[2 * SIZE];
  bool is_open;
};

static struct {
  struct fake_srq srqs[SRQS];
  uint32_t created, pinned;
  uint32_t gives;     /* receives, at most; 0: what is asked for */
  uint32_t no_pieces; /* its receives have none */
  int error;          /* of ibv_create_srq() */
  uint32_t takes;     /* receives, until ibv_post_srq_recv() fails */
} fake;

static struct ibv_context context;
static struct ibv_pd own_pd, peer_pd;
static struct ibv_mr own_mr, slots_mr;
static struct ibv_cq cq;
static struct vb_domain domain;
static struct pst_endpoint second;
static struct vb_receive_queue second_rq;

/* ---- The device -------------------------------------------------------------------------- */

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
  if (fake.error) {
    errno = fake.error;
    return NULL;
  }
  assert_in_range(fake.created, 0, SRQS - 1);
  struct fake_srq *made = &fake.srqs[fake.created++];
  made->asked = attr->attr.max_wr;
  made->is_open = true;
  made->srq = (struct ibv_srq){.context = &context, .pd = pd, .srq_context = attr->srq_context};
  if (fake.gives)
    attr->attr.max_wr = fake.gives;
  if (fake.no_pieces)
    attr->attr.max_sge = 0;
  return &made->srq;
}

int ibv_destroy_srq(struct ibv_srq *srq)
{
  struct fake_srq *one = (struct fake_srq *)(void *)srq;

  assert_true(one->is_open);
  one->is_open = false;
  return 0;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
  struct fake_srq *one = (struct fake_srq *)(void *)srq;

  assert_true(one->is_open);
  one->calls++;
  for (; wr; wr = wr->next) {
    if (fake.takes == 0) {
      *bad = wr;
      return ENOMEM;
    }
    fake.takes--;
    if (wr->num_sge)
      one->sges[one->posted_count] = *wr->sg_list;
    one->posted[one->posted_count++] = *wr;
  }
  return 0;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
  assert_ptr_equal(pd, &own_pd);
  assert_int_equal(access, IBV_ACCESS_LOCAL_WRITE); /* and no peer's */
  own_mr = (struct ibv_mr){.pd = pd, .addr = address, .length = length, .lkey = 55};
  fake.pinned++;
  return &own_mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
                                unsigned int access)
{
  (void)iova;
  return ibv_reg_mr(pd, address, length, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
  assert_ptr_equal(mr, &own_mr);
  /* Its queue is closed first: the device would write to it. */
  uint32_t open_count = 0;
  for (uint32_t i = 0; i < SRQS; i++)
    open_count += fake.srqs[i].is_open && fake.srqs[i].posted[0].num_sge;
  assert_in_range(open_count, 0, fake.pinned - 1);
  fake.pinned--;
  return 0;
}

/* ---- The tests --------------------------------------------------------------------------- */

static void join(struct pst_endpoint *of, uint32_t wanted)
{
  of->rq->size = wanted;
  assert_int_equal(vb_srq_join(of), 0);
}

static uint64_t wr_id_of(const struct vb_srq *shared, uint32_t entry)
{
  return VB_RECEIVE | (uint64_t)shared->place << 32 | VB_SRQ_BIT | entry;
}

/* Completions name their entry. */
static void give_back(const struct vb_srq *shared, uint32_t entry)
{
  const struct ibv_wc wc = {.wr_id = wr_id_of(shared, entry)};

  vb_srq_give_back(&worker, &wc);
}

static int begin(void **state)
{
  (void)state;
  start_support(1);
  memset(&fake, 0, sizeof(fake));
  fake.takes = UINT32_MAX;
  context.ops.post_srq_recv = post_srq_recv;
  device.attr = (struct ibv_device_attr){.max_srq = 8, .max_srq_wr = 4096, .max_cqe = CQ_ROOM};
  vb_mrs_open(&device.own.mrs, &own_pd, 0, &device.registrations);
  device.own.pd = &own_pd;
  domain = (struct vb_domain){.device = &device, .number = 1, .pd = &peer_pd};
  memory.domain = &domain;
  slots_mr.lkey = 66;
  ring.verbs.mr = &slots_mr;
  ring.base = MEMORY;
  cq = (struct ibv_cq){.cqe = (int)CQ_ROOM};
  worker.cq = &cq;
  rq.size = WANTED;
  second_rq = (struct vb_receive_queue){.qp = &qps[1], .size = WANTED};
  second = endpoint;
  second.rq = &second_rq;
  qps[1].qp_num = qps[0].qp_num + VB_NUMBER_CHAINS; /* of one chain */
  struct pst_endpoint *both[] = {&endpoint, &second};
  for (int i = 0; i < 2; i++)
    assert_int_equal(pst_places_take(&worker.endpoints, both[i], VB_PLACES, &both[i]->place), 0);
  return 0;
}

static int end(void **state)
{
  vb_srq_close_all(&worker);
  worker.shared = (struct pst_places){0};
  for (uint32_t i = 0; i < SRQS; i++)
    assert_false(fake.srqs[i].is_open);
  assert_int_equal(fake.pinned, 0);
  assert_int_equal(device.registrations, 0);
  vb_mrs_close(&device.own.mrs);
  free(worker.endpoints.all);
  worker.endpoints = (struct pst_places){0};
  return stop_support(state);
}

static void what_is_reserved_is_posted_into_buffers(void **state)
{
  const struct fake_srq *one = &fake.srqs[0];

  (void)state;
  join(&endpoint, WANTED);
  const struct vb_srq *shared = endpoint.shared;
  assert_int_equal(one->asked, SIZE);
  assert_ptr_equal(one->srq.pd, &own_pd);
  assert_ptr_equal(one->srq.srq_context, shared); /* as its event names it */
  assert_int_equal(own_mr.length, SIZE * VB_SRQ_CREDIT_BYTES);
  assert_int_equal(one->posted_count, WANTED);
  for (uint32_t i = 0; i < WANTED; i++) {
    assert_int_equal(one->posted[i].wr_id, wr_id_of(shared, i));
    assert_int_equal(one->sges[i].addr, (uintptr_t)own_mr.addr + i * VB_SRQ_CREDIT_BYTES);
    assert_int_equal(one->sges[i].length, VB_SRQ_CREDIT_BYTES);
    assert_int_equal(one->sges[i].lkey, 55);
    assert_ptr_equal(vb_srq_of(&worker, one->posted[i].wr_id), shared);
    assert_int_equal(vb_srq_entry(one->posted[i].wr_id), i);
    assert_ptr_equal(vb_srq_buffer(shared, one->posted[i].wr_id), one->sges[i].addr);
  }
}

static void receivers_need_no_buffers(void **state)
{
  (void)state;
  endpoint.tx = NULL;
  join(&endpoint, WANTED);
  assert_int_equal(fake.pinned, 0);
  assert_int_equal(fake.srqs[0].posted_count, WANTED);
  assert_int_equal(fake.srqs[0].posted[WANTED - 1].num_sge, 0);
}

static void endpoints_of_a_kind_share_one(void **state)
{
  (void)state;
  join(&endpoint, WANTED);
  join(&second, SIZE - WANTED); /* it is full */
  assert_ptr_equal(second.shared, endpoint.shared);
  assert_int_equal(fake.created, 1);
  assert_int_equal(fake.srqs[0].posted_count, SIZE);
  assert_int_equal(fake.srqs[0].calls, 1 + (SIZE - WANTED + VB_POLL_BATCH - 1) / VB_POLL_BATCH);
  for (uint32_t i = 0; i < SIZE; i++)
    assert_int_equal(vb_srq_entry(fake.srqs[0].posted[i].wr_id), i);
  second.tx = NULL;
  join(&second, WANTED); /* of another kind */
  assert_ptr_not_equal(second.shared, endpoint.shared);
  assert_int_equal(fake.srqs[1].asked, SIZE);
  assert_int_equal(fake.srqs[1].posted_count, WANTED);
}

/* Few of them, whatever the number of endpoints. */
static void the_next_is_as_large_as_all_before(void **state)
{
  (void)state;
  join(&endpoint, SIZE);
  join(&endpoint, 1);
  assert_int_equal(fake.srqs[1].asked, 2 * SIZE);
  device.attr.max_srq_wr = 3 * SIZE; /* of 4 * SIZE */
  join(&endpoint, 2 * SIZE);
  assert_int_equal(fake.srqs[2].asked, 3 * SIZE);
  device.attr.max_srq_wr = WANTED - 1; /* the device is the one to refuse */
  endpoint.tx = NULL;
  join(&endpoint, WANTED);
  assert_int_equal(fake.srqs[3].asked, WANTED);
  join(&endpoint, 2 * SIZE); /* more than all before */
  assert_int_equal(fake.srqs[4].asked, 2 * SIZE);
}

static void a_device_says_how_many_there_may_be(void **state)
{
  (void)state;
  device.attr.max_srq = 2;
  assert_int_equal(vb_srq_most(&device, 100, UINT64_MAX), 10 + 20); /* of 1024 and 2048 */
  assert_int_equal(vb_srq_most(&device, 100, 10), 10);
  assert_int_equal(vb_srq_most(&device, 2000, UINT64_MAX), 1 + 1); /* of 2000 and 3024 */
  device.attr.max_srq_wr = 1500;
  assert_int_equal(vb_srq_most(&device, 100, UINT64_MAX), 10 + 15);
  device.attr.max_srq = 0;
  assert_int_equal(vb_srq_most(&device, 100, UINT64_MAX), 0);
}

static void a_smaller_queue_will_do_where_it_is_enough(void **state)
{
  (void)state;
  fake.gives = 2 * WANTED;
  join(&endpoint, WANTED);
  assert_int_equal(endpoint.shared->size, 2 * WANTED);
  join(&second, WANTED);
  assert_ptr_equal(second.shared, endpoint.shared);
  second.rq->size = 2 * WANTED + 1;
  assert_int_equal(vb_srq_join(&second), -ENOSPC);
  assert_non_null(strstr(fake_log(), "20 of 1044 receives"));
  assert_false(fake.srqs[1].is_open);
  fake.no_pieces = 1;
  second.tx = NULL;
  second.rq->size = WANTED;
  assert_int_equal(vb_srq_join(&second), -ENOSPC);
  assert_false(fake.srqs[2].is_open);
  assert_ptr_equal(vb_srq_of(&worker, wr_id_of(endpoint.shared, 0)), endpoint.shared);
}

static void a_refusal_names_the_limits(void **state)
{
  (void)state;
  fake.error = ENOMEM;
  assert_int_equal(vb_srq_join(&endpoint), -ENOMEM);
  assert_non_null(strstr(fake_log(), "ibv_create_srq of 1024 receives"));
  assert_non_null(strstr(fake_log(), "at most 8 shared receive queues of 4096"));
  assert_int_equal(worker.shared.room, 0);
}

/* ---- Refill ------------------------------------------------------------------------------ */

static void what_was_taken_is_posted_again(void **state)
{
  struct fake_srq *one = &fake.srqs[0];

  (void)state;
  join(&endpoint, WANTED);
  struct vb_srq *shared = endpoint.shared;
  give_back(shared, 3);
  give_back(shared, 7);
  assert_int_equal(shared->posted, WANTED - 2);
  assert_int_equal(one->posted_count, WANTED); /* with the end of the poll */
  assert_ptr_equal(worker.shared_due, shared);
  assert_null(shared->next_due); /* once */
  vb_srq_post_due(&worker);
  assert_null(worker.shared_due);
  assert_int_equal(one->posted_count, WANTED + 2);
  assert_int_equal(one->calls, 2);
  assert_int_equal(one->posted[WANTED].wr_id, wr_id_of(shared, 7));
  assert_int_equal(one->posted[WANTED + 1].wr_id, wr_id_of(shared, 3));
  assert_int_equal(one->sges[WANTED].addr, (uintptr_t)vb_srq_buffer(shared, 7));
  vb_srq_post_due(&worker);
  assert_int_equal(one->calls, 2);
  give_back(shared, 7); /* it is due again */
  vb_srq_post_due(&worker);
  assert_int_equal(one->posted_count, WANTED + 3);
}

static void several_are_due(void **state)
{
  (void)state;
  join(&endpoint, WANTED);
  second.tx = NULL;
  join(&second, WANTED);
  give_back(endpoint.shared, 1);
  give_back(second.shared, 2);
  vb_srq_post_due(&worker);
  for (int i = 0; i < 2; i++)
    assert_int_equal(fake.srqs[i].posted_count, WANTED + 1);
}

/* Those that the device refuses stay with the worker, and may go later. */
static void what_is_refused_is_not_lost(void **state)
{
  struct fake_srq *one = &fake.srqs[0];

  (void)state;
  fake.takes = 4;
  assert_int_equal(vb_srq_join(&endpoint), -ENOMEM);
  assert_non_null(strstr(fake_log(), "camera: ibv_post_srq_recv"));
  struct vb_srq *shared = endpoint.shared;
  assert_int_equal(shared->posted, 4);
  fake.takes = 0;
  assert_int_equal(vb_srq_post(shared), -ENOMEM);
  assert_int_equal(shared->posted, 4);
  fake.takes = UINT32_MAX;
  assert_int_equal(vb_srq_post(shared), 0);
  assert_int_equal(one->posted_count, WANTED);
  for (uint32_t i = 0; i < WANTED; i++)
    assert_int_equal(one->posted[i].wr_id, wr_id_of(shared, i));
}

static void endpoints_fail_where_theirs_takes_no_more(void **state)
{
  (void)state;
  join(&endpoint, WANTED);
  second.tx = NULL;
  join(&second, WANTED);
  give_back(second.shared, 0);
  fake.takes = 0;
  vb_srq_post_due(&worker);
  assert_int_equal(failed_status, -ENOMEM);
  assert_string_equal(failed_why, "ibv_post_srq_recv");
  assert_true(endpoint.is_connected);
  assert_false(second.is_connected);
}

static void an_event_fails_the_endpoints_that_share(void **state)
{
  (void)state;
  join(&endpoint, WANTED);
  second.tx = NULL;
  join(&second, WANTED);
  vb_srq_notices(&worker);
  assert_int_equal(failed_status, 0);
  second.shared->event = IBV_EVENT_SRQ_ERR + 1;
  vb_srq_notices(&worker);
  assert_int_equal(failed_status, -EIO);
  assert_memory_equal(failed_why, "IBV_EVENT_SRQ_ERR: ", 19);
  assert_true(endpoint.is_connected);
  assert_false(second.is_connected);
  failed_status = 0;
  vb_srq_notices(&worker); /* once */
  assert_int_equal(failed_status, 0);
}

/* ---- Endpoints that leave ---------------------------------------------------------------- */

/* Receives that were posted for the endpoint stay posted; so many fewer are posted again. */
static void an_endpoint_that_leaves_frees_its_room(void **state)
{
  struct fake_srq *one = &fake.srqs[0];

  (void)state;
  join(&endpoint, WANTED);
  join(&second, WANTED);
  struct vb_srq *shared = endpoint.shared;
  vb_srq_leave(&endpoint);
  for (uint32_t i = 0; i < WANTED + 3; i++)
    give_back(shared, i);
  assert_int_equal(shared->posted, WANTED - 3);
  vb_srq_post_due(&worker);
  assert_int_equal(shared->posted, WANTED);
  assert_int_equal(one->posted_count, 2 * WANTED + 3);
  join(&endpoint, SIZE - WANTED); /* there is room for so many */
  assert_ptr_equal(endpoint.shared, shared);
  assert_int_equal(shared->posted, SIZE);
  assert_int_equal(shared->back_count, 0);
}

static void completions_are_told_apart_by_number(void **state)
{
  const uint32_t first_number = qps[0].qp_num, second_number = qps[1].qp_num;

  (void)state;
  join(&endpoint, WANTED);
  join(&second, WANTED);
  assert_null(vb_srq_find(&worker, first_number)); /* not yet named */
  vb_srq_name(&endpoint);
  vb_srq_name(&second);
  assert_ptr_equal(vb_srq_find(&worker, first_number), &endpoint);
  assert_ptr_equal(vb_srq_find(&worker, second_number), &second);
  assert_ptr_equal(vb_srq_find(&worker, first_number), &endpoint);
  assert_null(vb_srq_find(&worker, first_number + 1));
  assert_ptr_equal(vb_srq_find(&worker, first_number), &endpoint);
  vb_srq_leave(&endpoint); /* the last that was found, and the last of its chain */
  assert_null(vb_srq_find(&worker, first_number));
  assert_ptr_equal(vb_srq_find(&worker, second_number), &second);
  vb_srq_name(&endpoint); /* and the first of it */
  vb_srq_leave(&endpoint);
  assert_null(vb_srq_find(&worker, first_number));
  assert_ptr_equal(vb_srq_find(&worker, second_number), &second);
  vb_srq_leave(&second);
  assert_null(vb_srq_find(&worker, second_number));
}

/* Its queue pair could not be made. */
static void who_leaves_may_be_without_a_number(void **state)
{
  (void)state;
  join(&endpoint, WANTED);
  vb_srq_leave(&endpoint);
  assert_int_equal(endpoint.shared->reserved, 0);
}

/* ---- Slots ------------------------------------------------------------------------------- */

static void slots_are_all_posted(void **state)
{
  const struct fake_srq *one = &fake.srqs[0];

  (void)state;
  worker.cq_used = CQ_ROOM - SLOTS;
  assert_int_equal(vb_srq_open_slots(&ring), 0);
  assert_int_equal(worker.cq_used, CQ_ROOM);
  assert_ptr_equal(one->srq.pd, &peer_pd); /* where its peer's keys are */
  assert_int_equal(fake.pinned, 0);
  assert_int_equal(one->asked, SLOTS);
  assert_int_equal(one->posted_count, SLOTS);
  for (uint32_t i = 0; i < SLOTS; i++) {
    assert_int_equal(one->posted[i].wr_id, wr_id_of(ring.shared, i));
    assert_int_equal(one->sges[i].addr, MEMORY + 512 * i);
    assert_int_equal(one->sges[i].length, 256);
    assert_int_equal(one->sges[i].lkey, 66);
  }
  rx.sends = true;
  assert_int_equal(vb_srq_join(&endpoint), 0); /* it has those of its ring */
  assert_ptr_equal(endpoint.shared, ring.shared);
  assert_int_equal(fake.created, 1);
  vb_srq_leave(&endpoint);
  assert_int_equal(ring.shared->reserved, SLOTS);
  give_back(ring.shared, 5);
  vb_srq_close(ring.shared); /* it is due */
  assert_int_equal(worker.cq_used, CQ_ROOM - SLOTS);
  assert_null(worker.shared_due);
}

static void slots_need_room_for_their_completions(void **state)
{
  (void)state;
  worker.cq_used = CQ_ROOM - SLOTS + 1;
  assert_int_equal(vb_srq_open_slots(&ring), -ENOSPC);
  assert_non_null(strstr(fake_log(), "a ring: no room for 101 completions"));
  assert_int_equal(worker.cq_used, CQ_ROOM - SLOTS + 1);
  assert_int_equal(fake.created, 0);
  worker.cq_used = 0;
  fake.gives = SLOTS - 1; /* a slot without a receive would never be filled */
  assert_int_equal(vb_srq_open_slots(&ring), -ENOSPC);
  assert_int_equal(worker.cq_used, 0);
  assert_null(ring.shared);
  fake.gives = 0;
  fake.takes = SLOTS - 1;
  assert_int_equal(vb_srq_open_slots(&ring), -ENOMEM);
  assert_non_null(strstr(fake_log(), "ibv_post_srq_recv of a ring's 8 slots"));
}

/* ---- Close ------------------------------------------------------------------------------- */

static void completions_of_one_that_is_closed_are_of_nothing(void **state)
{
  (void)state;
  vb_srq_close(NULL);
  join(&endpoint, WANTED);
  second.tx = NULL;
  join(&second, WANTED);
  const struct vb_srq was = *second.shared;
  give_back(endpoint.shared, 1);
  give_back(second.shared, 1);
  give_back(endpoint.shared, 2);
  vb_srq_close(second.shared);
  assert_false(fake.srqs[1].is_open);
  assert_null(vb_srq_of(&worker, was.wr_id));
  give_back(&was, 2);
  worker.shared.next = was.place;
  join(&second, WANTED); /* in its place, and not taken for it */
  assert_int_equal(second.shared->place & PST_PLACE_MASK, was.place);
  assert_null(vb_srq_of(&worker, was.wr_id));
  assert_ptr_equal(worker.shared_due, endpoint.shared);
  assert_null(endpoint.shared->next_due);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
  const struct CMUnitTest tests[] = {
      CASE(what_is_reserved_is_posted_into_buffers),
      CASE(receivers_need_no_buffers),
      CASE(endpoints_of_a_kind_share_one),
      CASE(the_next_is_as_large_as_all_before),
      CASE(a_device_says_how_many_there_may_be),
      CASE(a_smaller_queue_will_do_where_it_is_enough),
      CASE(a_refusal_names_the_limits),
      CASE(what_was_taken_is_posted_again),
      CASE(several_are_due),
      CASE(what_is_refused_is_not_lost),
      CASE(endpoints_fail_where_theirs_takes_no_more),
      CASE(an_event_fails_the_endpoints_that_share),
      CASE(an_endpoint_that_leaves_frees_its_room),
      CASE(completions_are_told_apart_by_number),
      CASE(who_leaves_may_be_without_a_number),
      CASE(slots_are_all_posted),
      CASE(slots_need_room_for_their_completions),
      CASE(completions_of_one_that_is_closed_are_of_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
