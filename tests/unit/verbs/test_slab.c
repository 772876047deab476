/* SPDX-License-Identifier: Apache-2.0 */
/* Slabs: one registration for many endpoints of a worker, and none that nobody uses. */
#include <penstock/page.h>

#include "domain.h"
#include "slab.h"
#include "support.h"

#define MRS 64u

static struct {
  struct ibv_mr mrs[MRS];
  struct ibv_pd pds[2];
  uint32_t made, open;
  int error; /* 0: it works */
} fake;

static struct vb_domain domains[2];
static atomic_uint held;

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
  assert_true(access & IBV_ACCESS_LOCAL_WRITE);
  assert_int_equal(access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ), 0);
  assert_in_range(fake.made, 0, MRS - 1);
  errno = fake.error;
  if (fake.error)
    return NULL;
  fake.open++;
  fake.mrs[fake.made] = (struct ibv_mr){.pd = pd, .addr = address, .length = length};
  return &fake.mrs[fake.made++];
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
                                unsigned int access)
{
  (void)iova;
  return ibv_reg_mr(pd, address, length, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
  assert_non_null(mr->addr);
  mr->addr = NULL;
  fake.open--;
  return 0;
}

static int begin(void **state)
{
  (void)state;
  start_support(1);
  memset(&fake, 0, sizeof(fake));
  for (uint32_t i = 0; i < 2; i++) {
    domains[i] = (struct vb_domain){.device = &device, .number = i};
    vb_mrs_open(&domains[i].mrs, &fake.pds[i], MRS, &held);
  }
  return 0;
}

static int end(void **state)
{
  assert_null(worker.slabs);
  assert_int_equal(fake.open, 0);
  for (uint32_t i = 0; i < 2; i++)
    vb_mrs_close(&domains[i].mrs);
  return stop_support(state);
}

struct piece {
  uint8_t *at;
  uint32_t bytes;
  struct ibv_mr *mr;
};

static struct piece take(uint32_t domain, uint32_t bytes)
{
  struct piece piece = {.bytes = bytes};

  assert_int_equal(vb_slab_take(&worker, &domains[domain], "camera", bytes, &piece.at, &piece.mr),
                   0);
  assert_ptr_equal(piece.mr->pd, &fake.pds[domain]);
  assert_true(piece.at >= (uint8_t *)piece.mr->addr);
  assert_true(piece.at + bytes <= (uint8_t *)piece.mr->addr + piece.mr->length);
  memset(piece.at, 0x5a, bytes); /* which the sanitizer judges */
  return piece;
}

static void give(struct piece piece)
{
  vb_slab_give(&worker, piece.at, piece.bytes);
}

static void many_endpoints_share_few_registrations(void **state)
{
  struct piece pieces[200];

  (void)state;
  for (uint32_t i = 0; i < 200; i++) {
    pieces[i] = take(0, 18000);
    for (uint32_t k = 0; k < i; k++)
      assert_true(pieces[k].at + 18000 <= pieces[i].at || pieces[i].at + 18000 <= pieces[k].at);
  }
  assert_in_range(fake.made, 2, 24);
  for (uint32_t i = 0; i < 200; i += 2)
    give(pieces[i]);
  const uint32_t made = fake.made;
  for (uint32_t i = 0; i < 200; i += 2)
    pieces[i] = take(0, 18000);
  assert_int_equal(fake.made, made); /* what was given is taken again */
  for (uint32_t i = 0; i < 200; i++)
    give(pieces[i]);
}

/* A key is of one domain: others' queue pairs may not name it. */
static void domains_have_slabs_of_their_own(void **state)
{
  (void)state;
  const struct piece a = take(0, 512), b = take(1, 512), c = take(0, 512);

  assert_int_equal(fake.made, 2);
  give(b);
  assert_int_equal(fake.open, 1); /* its domain may close */
  give(a);
  give(c);
}

static void a_piece_takes_the_room_that_another_left(void **state)
{
  const uint32_t page = (uint32_t)pst_page_size();

  (void)state;
  const struct piece a = take(0, page / 4), b = take(0, page / 2), c = take(0, page / 4);
  assert_int_equal(fake.made, 1);
  give(a);
  give(c);
  const struct piece d = take(0, page / 2); /* twice a quarter is not in a row */
  assert_int_equal(fake.made, 2);
  const struct piece e = take(0, page / 4);
  assert_int_equal(fake.made, 2);
  give(b);
  give(d);
  give(e);
}

static void what_cannot_be_registered_is_told(void **state)
{
  struct piece piece = {0};

  (void)state;
  fake.error = ENOMEM;
  assert_int_equal(vb_slab_take(&worker, &domains[0], "camera", 100, &piece.at, &piece.mr),
                   -ENOMEM);
  assert_null(piece.at);
  assert_non_null(strstr(fake_log(), "camera: ibv_reg_mr of"));
  vb_slab_give(&worker, NULL, 100);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
  const struct CMUnitTest tests[] = {
      CASE(many_endpoints_share_few_registrations),
      CASE(domains_have_slabs_of_their_own),
      CASE(a_piece_takes_the_room_that_another_left),
      CASE(what_cannot_be_registered_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
