/* SPDX-License-Identifier: Apache-2.0 */
/* Protection domains, over a device that counts them. */
#include "domain.h"
#include "support.h"

#define PDS 6u

static struct {
  struct verbs_context verbs;
  struct ibv_pd pds[PDS];
  bool is_open[PDS];
  uint32_t opened, closed, tds;
  int pd_error, parent_error, mr_error; /* 0: it works */
  struct ibv_mr mr;
  int access;
} fake;

static struct ibv_td td;

/* ---- The device -------------------------------------------------------------------------- */

static struct ibv_pd *open_pd(void)
{
  assert_in_range(fake.opened, 0, PDS - 1);
  fake.is_open[fake.opened] = true;
  return &fake.pds[fake.opened++];
}

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
  assert_ptr_equal(context, &fake.verbs.context);
  errno = fake.pd_error;
  return fake.pd_error ? NULL : open_pd();
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
  assert_true(fake.is_open[pd - fake.pds]);
  fake.is_open[pd - fake.pds] = false;
  fake.closed++;
  return 0;
}

static struct ibv_pd *alloc_parent_domain(struct ibv_context *context,
                                          struct ibv_parent_domain_init_attr *attr)
{
  assert_ptr_equal(context, &fake.verbs.context);
  assert_ptr_equal(attr->td, &td);
  assert_true(fake.is_open[attr->pd - fake.pds]);
  errno = fake.parent_error;
  return fake.parent_error ? NULL : open_pd();
}

static int dealloc_td(struct ibv_td *of)
{
  assert_ptr_equal(of, &td);
  fake.tds--;
  return 0;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
  errno = fake.mr_error;
  if (fake.mr_error)
    return NULL;
  fake.access = access;
  fake.mr = (struct ibv_mr){.pd = pd, .addr = address, .length = length};
  return &fake.mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
                                unsigned int access)
{
  (void)iova;
  return ibv_reg_mr(pd, address, length, (int)access);
}

/* ---- The tests --------------------------------------------------------------------------- */

static int begin(void **state)
{
  (void)state;
  start_support(1);
  memset(&fake, 0, sizeof(fake));
  fake.verbs = (struct verbs_context){.sz = sizeof(fake.verbs),
                                      .alloc_parent_domain = alloc_parent_domain,
                                      .dealloc_td = dealloc_td,
                                      .context = {.abi_compat = __VERBS_ABI_IS_EXTENDED}};
  td.context = &fake.verbs.context;
  device.open.context = &fake.verbs.context;
  device.attr.max_pd = 9;
  pthread_mutex_init(&device.domains_lock, NULL);
  assert_int_equal(vb_domain_open(&device.own, &device, 0), 0);
  return 0;
}

static int end(void **state)
{
  vb_domain_close(&device.own);
  assert_null(device.domains);
  assert_int_equal(fake.opened, fake.closed);
  pthread_mutex_destroy(&device.domains_lock);
  return stop_support(state);
}

static struct vb_domain *take(uint64_t number)
{
  struct vb_domain *domain = NULL;

  assert_int_equal(vb_domain_take(&device, number, &domain), 0);
  return domain;
}

static bool is_open(const struct ibv_pd *pd)
{
  return fake.is_open[pd - fake.pds];
}

static void each_peer_has_one(void **state)
{
  (void)state;
  struct vb_domain *first = take(1), *second = take(2);
  assert_ptr_not_equal(first->pd, second->pd);
  assert_ptr_not_equal(first->pd, device.own.pd);
  assert_ptr_equal(first->device, &device);
  assert_int_equal(second->number, 2);
  assert_ptr_equal(first->mrs.pd, first->pd);
  assert_ptr_equal(first->mrs.held, &device.registrations); /* of all domains */
  vb_domain_give(first);
  vb_domain_give(second);
}

static void it_is_opened_once_and_closed_with_its_last_user(void **state)
{
  (void)state;
  struct vb_domain *one = take(7);
  struct ibv_pd *pd = one->pd;
  assert_ptr_equal(take(7), one);
  assert_ptr_equal(take(7), one);
  assert_int_equal(fake.opened, 2);
  vb_domain_give(one);
  vb_domain_give(one);
  assert_true(is_open(pd));
  assert_ptr_equal(take(7), one);
  vb_domain_give(one);
  vb_domain_give(one);
  assert_false(is_open(pd));
  assert_int_equal(fake.closed, 1);
  struct vb_domain *again = take(7); /* anew: keys of the old one are of nothing */
  assert_true(is_open(again->pd));
  assert_int_equal(fake.opened, 3);
  vb_domain_give(again);
}

static void others_stay_whichever_is_closed(void **state)
{
  struct vb_domain *all[3];

  (void)state;
  for (uint32_t left = 0; left < 3; left++) { /* first, middle and last of the list */
    fake.opened = fake.closed = 1;
    for (uint32_t i = 0; i < 3; i++)
      all[i] = take(i + 1);
    vb_domain_give(all[left]);
    for (uint32_t i = 0; i < 3; i++) {
      if (i == left)
        continue;
      assert_true(is_open(all[i]->pd));
      assert_ptr_equal(take(i + 1), all[i]);
      vb_domain_give(all[i]);
      vb_domain_give(all[i]);
    }
    assert_null(device.domains);
    assert_int_equal(fake.closed, 4);
  }
  fake.opened = 1;
  fake.closed = 0;
}

static void what_no_peer_reaches_is_in_the_device_s_own(void **state)
{
  (void)state;
  assert_ptr_equal(take(0), &device.own);
  vb_domain_give(take(0));
  vb_domain_give(NULL);
  assert_true(is_open(device.own.pd));
  assert_int_equal(fake.opened, 1);
}

/* Where shared receives would be refused in any other. */
static void soft_roce_that_shares_has_one(void **state)
{
  (void)state;
  device.shares = device.is_soft = true;
  assert_ptr_equal(take(5), &device.own);
  device.is_soft = false;
  assert_false(vb_domain_is_one(&device));
  device.is_soft = true;
  device.shares = false;
  assert_false(vb_domain_is_one(&device));
}

static void a_refusal_leaves_nothing(void **state)
{
  struct vb_domain *domain = &device.own;

  (void)state;
  fake.pd_error = ENOMEM;
  assert_int_equal(vb_domain_take(&device, 3, &domain), -ENOMEM);
  assert_ptr_equal(domain, &device.own); /* untouched */
  assert_non_null(strstr(fake_log(), "fake0: ibv_alloc_pd: Cannot allocate memory"));
  assert_non_null(strstr(fake_log(), "at most 9 protection domains"));
  assert_null(device.domains);
  struct vb_domain unopened = {.device = &device};
  assert_int_equal(vb_domain_open(&unopened, &device, 4), -ENOMEM);
  vb_domain_close(&unopened);
  fake.pd_error = 0;
  vb_domain_give(take(3));
}

/* ---- Thread domains ---------------------------------------------------------------------- */

static void without_threads_queue_pairs_have_the_domain_s(void **state)
{
  (void)state;
  assert_ptr_equal(vb_thread_domain_take(&worker, &device.own), device.own.pd);
  vb_thread_domain_give(&worker, device.own.pd);
  assert_true(is_open(device.own.pd));
  vb_thread_domains_close(&worker);
}

static void queue_pairs_of_a_worker_share_one_in_each_domain(void **state)
{
  (void)state;
  struct vb_domain *peer = take(1);
  worker.td = &td;
  struct ibv_pd *own = vb_thread_domain_take(&worker, &device.own);
  struct ibv_pd *peers = vb_thread_domain_take(&worker, peer);
  assert_ptr_not_equal(own, device.own.pd);
  assert_ptr_not_equal(peers, own);
  assert_ptr_equal(vb_thread_domain_take(&worker, peer), peers);
  assert_ptr_equal(vb_thread_domain_take(&worker, &device.own), own);
  vb_thread_domain_give(&worker, own);
  vb_thread_domain_give(&worker, peers);
  assert_true(is_open(own) && is_open(peers));
  vb_thread_domain_give(&worker, own);
  assert_false(is_open(own));
  assert_true(is_open(peers));
  vb_thread_domain_give(&worker, peers); /* and then the domain may go */
  assert_false(is_open(peers));
  assert_null(worker.domains);
  vb_domain_give(peer);
}

static void where_a_thread_domain_is_refused_the_domain_will_do(void **state)
{
  (void)state;
  worker.td = &td;
  fake.parent_error = EOPNOTSUPP;
  assert_ptr_equal(vb_thread_domain_take(&worker, &device.own), device.own.pd);
  assert_null(worker.domains);
  vb_thread_domain_give(&worker, device.own.pd);
  assert_true(is_open(device.own.pd));
}

static void a_worker_closes_all_it_has(void **state)
{
  (void)state;
  struct vb_domain *peer = take(1);
  worker.td = &td;
  fake.tds = 1;
  vb_thread_domain_take(&worker, &device.own);
  vb_thread_domain_take(&worker, peer);
  vb_thread_domains_close(&worker);
  assert_int_equal(fake.closed, 2);
  assert_int_equal(fake.tds, 0);
  assert_null(worker.domains);
  vb_domain_give(peer);
}

/* ---- Memory ------------------------------------------------------------------------------ */

static void pages_are_written_by_the_device_alone(void **state)
{
  struct ibv_mr *mr = NULL;
  uint8_t *pages = NULL;

  (void)state;
  device.relaxed = IBV_ACCESS_RELAXED_ORDERING;
  assert_int_equal(vb_domain_pages_open(&device.own, "camera", "credit", 100, &pages, &mr), 0);
  assert_ptr_equal(mr, &fake.mr);
  assert_ptr_equal(mr->pd, device.own.pd);
  assert_ptr_equal(mr->addr, pages);
  assert_int_equal(mr->length, 100);
  assert_int_equal(fake.access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
  for (int i = 0; i < 100; i++)
    assert_int_equal(pages[i], 0);
  pages[5] = 17;
  uint8_t *const before = pages; /* those that are there are registered as they are */
  assert_int_equal(vb_domain_pages_open(&device.own, NULL, "credit", 100, &pages, &mr), 0);
  assert_ptr_equal(pages, before);
  assert_int_equal(pages[5], 17);
  free(pages);
}

static void a_refused_registration_says_for_what(void **state)
{
  static char bytes[64];
  struct ibv_mr *mr;

  (void)state;
  fake.mr_error = EINVAL;
  assert_int_equal(vb_domain_pin(&device.own, "camera", "credit", bytes, sizeof(bytes), &mr), -EIO);
  assert_non_null(strstr(fake_log(), "0 camera: ibv_reg_mr of 64 bytes for credit: Invalid"));
  fake_log_clear();
  fake.mr_error = EPERM;
  assert_int_equal(vb_domain_pin(&device.own, NULL, "slots", bytes, sizeof(bytes), &mr), -EPERM);
  assert_memory_equal(fake_log(), "0 ibv_reg_mr of 64 bytes for slots: ", 36);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
  const struct CMUnitTest tests[] = {
      CASE(each_peer_has_one),
      CASE(it_is_opened_once_and_closed_with_its_last_user),
      CASE(others_stay_whichever_is_closed),
      CASE(what_no_peer_reaches_is_in_the_device_s_own),
      CASE(soft_roce_that_shares_has_one),
      CASE(a_refusal_leaves_nothing),
      CASE(without_threads_queue_pairs_have_the_domain_s),
      CASE(queue_pairs_of_a_worker_share_one_in_each_domain),
      CASE(where_a_thread_domain_is_refused_the_domain_will_do),
      CASE(a_worker_closes_all_it_has),
      CASE(pages_are_written_by_the_device_alone),
      CASE(a_refused_registration_says_for_what),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
