/* SPDX-License-Identifier: Apache-2.0 */
/* transport-util.h: bounds, errnos, numbers that come back, runs of DONE. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <penstock/transport-util.h>

#include "fake_host.h"

static const struct pst_limits limits = {.capabilities = PST_CAP_SEND | PST_CAP_SHARED_RING,
                                         .message_max = 4096,
                                         .slot_alignment = 8,
                                         .headroom = 16,
                                         .slots_min = 2,
                                         .slots_max = 64,
                                         .requests_max = 32,
                                         .pieces_max = 3};

static int reset(void **state)
{
  (void)state;
  fake_log_clear();
  return 0;
}

/* Nothing of `from` but the cases of this file is registered: their length is all there is. */
static bool holds(const void *context, struct pst_mr *mr, uint64_t offset, uint64_t length,
                  uint32_t right)
{
  return mr && right == PST_ACCESS_LOCAL_READ &&
         pst_range_holds(*(const uint64_t *)context, offset, length);
}

#define MR ((struct pst_mr *)(uintptr_t)64)

static void range_ends_where_it_ends(void **state)
{
  (void)state;
  assert_true(pst_range_holds(10, 0, 10));
  assert_true(pst_range_holds(10, 10, 0));
  assert_false(pst_range_holds(10, 11, 0));
  assert_false(pst_range_holds(10, 1, 10));
  assert_false(pst_range_holds(10, 5, UINT64_MAX - 2));
  assert_false(pst_range_holds(10, UINT64_MAX, 2));
}

static void registration_lies_in_its_region(void **state)
{
  const struct pst_region region = {.length = 100};
  struct pst_mr_params params = {.offset = 40, .length = 60, .access = PST_ACCESS_RING * 2 - 1};

  (void)state;
  assert_int_equal(pst_mr_params_check(&fake_host, &params, &region, NULL), 0);
  assert_string_equal(fake_log(), "");
  assert_int_equal(pst_mr_params_check(&fake_host, &params, &region, "it is late"), -EINVAL);
  assert_non_null(strstr(fake_log(), "[40, +60) of 100 bytes refused: it is late"));
  params.length = 61;
  assert_int_equal(pst_mr_params_check(&fake_host, &params, &region, NULL), -EINVAL);
  assert_non_null(strstr(fake_log(), "outside its region"));
  params.length = 60;
  params.access = PST_ACCESS_RING * 2;
  assert_int_equal(pst_mr_params_check(&fake_host, &params, &region, NULL), -EINVAL);
  assert_non_null(strstr(fake_log(), "rights that are not known"));
}

static int check_ring(const struct pst_ring_params *params, uint64_t length)
{
  return pst_ring_params_check(&fake_host, params, PST_ACCESS_LOCAL_WRITE | PST_ACCESS_RING, length,
                               &limits, NULL);
}

static void ring_has_to_fit(void **state)
{
  const struct pst_ring_params fits = {.slots = 4,
                                       .base = 8,
                                       .stride = 128,
                                       .payload_max = 100,
                                       .headroom = 16,
                                       .tailroom = 12,
                                       .endpoints = 4};
  struct pst_ring_params params;

  (void)state;
  assert_int_equal(check_ring(&fits, 8 + 4 * 128), 0);
  assert_int_equal(check_ring(&fits, UINT64_MAX), 0);
  assert_int_equal(check_ring(&fits, 8 + 4 * 128 - 1), -EINVAL);
#define REFUSED(change)                                                                            \
  do {                                                                                             \
    params = fits;                                                                                 \
    change;                                                                                        \
    fake_log_clear();                                                                              \
    assert_int_equal(check_ring(&params, 8 + 4 * 128), -EINVAL);                                   \
    assert_non_null(strstr(fake_log(), "refused"));                                                \
  } while (0)
  REFUSED(params.slots = 5);
  REFUSED(params.slots = 1);
  REFUSED(params.slots = 0);
  REFUSED(params.endpoints = 0);
  REFUSED(params.payload_max = 101);
  REFUSED(params.payload_max = 4097);
  REFUSED(params.payload_max = UINT64_MAX);
  REFUSED(params.headroom = 15);
  REFUSED(params.tailroom = 13);
  REFUSED(params.stride = 120);
  REFUSED(params.stride = 132);
  REFUSED(params.stride = UINT64_MAX / 8 * 8);
  REFUSED(params.base = 12);
  REFUSED(params.base = UINT64_MAX / 8 * 8);
  assert_int_equal(
      pst_ring_params_check(&fake_host, &fits, PST_ACCESS_RING, UINT64_MAX, &limits, NULL),
      -EINVAL);
}

static void ring_has_one_endpoint_unless_it_is_shared(void **state)
{
  const struct pst_limits alone = {
      .message_max = 4096, .slot_alignment = 1, .slots_min = 1, .slots_max = 64};
  struct pst_ring_params params = {.slots = 2, .stride = 10, .payload_max = 10, .endpoints = 2};
  const uint32_t access = PST_ACCESS_LOCAL_WRITE | PST_ACCESS_RING;

  (void)state;
  assert_int_equal(pst_ring_params_check(&fake_host, &params, access, 20, &alone, NULL), -EINVAL);
  assert_non_null(strstr(fake_log(), "shares no ring"));
  params.endpoints = 1;
  assert_int_equal(pst_ring_params_check(&fake_host, &params, access, 20, &alone, NULL), 0);
  fake_log_clear();
  assert_int_equal(pst_ring_params_check(&fake_host, &params, 0, 20, &alone, "it is mine"),
                   -EINVAL);
  assert_non_null(strstr(fake_log(), "it is mine"));
}

/* All slots but the last are a stride long. */
static void last_slot_is_as_long_as_it_has_to_be(void **state)
{
  const struct pst_ring_params params = {.slots = 3, .stride = 64, .payload_max = 10};

  (void)state;
  assert_true(pst_ring_fits(&params, 2 * 64 + 10));
  assert_false(pst_ring_fits(&params, 2 * 64 + 9));
}

static void endpoint_is_within_limits(void **state)
{
  static const struct pst_endpoint_params fits = {.roles = PST_ROLE_RECEIVER | PST_ROLE_SENDER,
                                                  .ring = (struct pst_ring *)(uintptr_t)64,
                                                  .cookie = 1,
                                                  .label = "camera",
                                                  .requests = 32,
                                                  .pieces = 3,
                                                  .message_max = 100};
  struct pst_endpoint_params params = fits;

  (void)state;
#define CHECK() pst_endpoint_params_check(&fake_host, &params, 100, &limits, NULL)
  assert_int_equal(CHECK(), 0);
  params.roles |= PST_ROLE_RMA;
  assert_int_equal(CHECK(), -EOPNOTSUPP);
  assert_string_equal(fake_log(), "");
#undef REFUSED
#define REFUSED(change)                                                                            \
  do {                                                                                             \
    params = fits;                                                                                 \
    change;                                                                                        \
    fake_log_clear();                                                                              \
    assert_int_equal(CHECK(), -EINVAL);                                                            \
    assert_non_null(strstr(fake_log(), "camera: endpoint refused: "));                             \
  } while (0)
  REFUSED(params.cookie = 0);
  REFUSED(params.roles = 0);
  REFUSED(params.roles |= PST_ROLE_RMA * 2);
  REFUSED(params.ring = NULL);
  REFUSED(params.roles = PST_ROLE_SENDER);
  REFUSED(params.requests = 33);
  REFUSED(params.requests = 0);
  REFUSED(params.pieces = 4);
  REFUSED(params.message_max = 101);
  params = (struct pst_endpoint_params){
      .roles = PST_ROLE_SENDER, .cookie = 1, .requests = 1, .message_max = 4096};
  assert_int_equal(CHECK(), 0); /* without a ring the slots bound nothing */
  params.message_max = 4097;
  assert_int_equal(CHECK(), -EINVAL);
}

/* ---- Requests ------------------------------------------------------------------------------- */

static int check_send(const struct pst_request *request)
{
  const uint64_t length = 1000;
  return pst_send_check(request, 2, 500, holds, &length);
}

static void send_of_one_piece(void **state)
{
  const struct pst_request fits = {
      .opcode = PST_OP_SEND, .local.mr = MR, .offset = 500, .arg.length = 500};
  struct pst_request request = fits;

  (void)state;
  request.flags = PST_REQUEST_FENCE | PST_REQUEST_EXCLUSIVE;
  assert_int_equal(check_send(&request), 0);
#define GIVES(code, change)                                                                        \
  do {                                                                                             \
    request = fits;                                                                                \
    change;                                                                                        \
    assert_int_equal(check_send(&request), code);                                                  \
  } while (0)
  GIVES(-EINVAL, request.offset = 501);
  GIVES(-EINVAL, request.flags = 4);
  GIVES(-EINVAL, request.reserved0 = 1);
  GIVES(-EINVAL, request.u.send.departure_ns = 1);
  GIVES(-EINVAL, request.local.mr = NULL);
  GIVES(-EMSGSIZE, (request.offset = 0, request.arg.length = 501));
  GIVES(-EINVAL, (request.offset = 0, request.arg.length = 1001)); /* out of the mr comes first */
}

static void send_of_several_pieces(void **state)
{
  struct pst_piece pieces[3] = {{MR, 0, 10, 0}, {MR, 900, 100, 0}, {MR, 0, 0, 0}};
  const struct pst_request fits = {
      .opcode = PST_OP_SEND, .piece_count = 2, .local.pieces = pieces, .arg.length = 110};
  struct pst_request request = fits;

  (void)state;
  assert_int_equal(check_send(&request), 0);
  GIVES(-E2BIG, request.piece_count = 3);
  GIVES(-EINVAL, request.offset = 1);
  GIVES(-EINVAL, request.local.pieces = NULL);
  GIVES(-EINVAL, request.arg.length = 109);
  GIVES(-EINVAL, request.arg.length = 111);
  pieces[1].reserved = 1;
  GIVES(-EINVAL, (void)0);
  pieces[1] = (struct pst_piece){MR, 901, 100, 0};
  GIVES(-EINVAL, (void)0);
  /* Lengths that add up to the right one only modulo 2^64. */
  pieces[0] = (struct pst_piece){MR, 0, 200, 0};
  pieces[1] = (struct pst_piece){MR, 0, UINT64_C(0) - 90, 0};
  GIVES(-EINVAL, (void)0);
}

static void pieces_are_seen_as_an_array(void **state)
{
  const struct pst_piece two[2] = {{MR, 1, 2, 0}, {MR, 3, 4, 0}};
  struct pst_request request = {.local.mr = MR, .offset = 7, .arg.length = 9};
  struct pst_piece own;
  uint32_t count;

  (void)state;
  const struct pst_piece *pieces = pst_request_pieces(&request, &own, &count);
  assert_int_equal(count, 1);
  assert_ptr_equal(pieces, &own);
  assert_memory_equal(pieces, &((struct pst_piece){MR, 7, 9, 0}), sizeof(own));
  request = (struct pst_request){.local.pieces = two, .piece_count = 2};
  assert_ptr_equal(pst_request_pieces(&request, &own, &count), two);
  assert_int_equal(count, 2);
}

static void flush_names_nothing(void **state)
{
  struct pst_request request = {.opcode = PST_OP_FLUSH, .flags = PST_REQUEST_FENCE};

  (void)state;
  assert_int_equal(pst_flush_check(&request, false), 0);
  request.u.rma.remote = (struct pst_remote *)(uintptr_t)64;
  assert_int_equal(pst_flush_check(&request, false), -EINVAL);
  assert_int_equal(pst_flush_check(&request, true), 0);
  request.u.rma.reserved = 1;
  assert_int_equal(pst_flush_check(&request, true), -EINVAL);
  request = (struct pst_request){.flags = PST_REQUEST_EXCLUSIVE};
  assert_int_equal(pst_flush_check(&request, false), -EINVAL);
  request = (struct pst_request){.piece_count = 1};
  assert_int_equal(pst_flush_check(&request, false), -EINVAL);
  request = (struct pst_request){.reserved0 = 1};
  assert_int_equal(pst_flush_check(&request, false), -EINVAL);
}

static void head_is_what_a_plain_request_has(void **state)
{
  struct pst_request request = {.opcode = PST_OP_WRITE, .flags = PST_REQUEST_FENCE, .offset = 9};

  (void)state;
  assert_true(pst_request_head(&request) == pst_request_head_of(PST_OP_WRITE, PST_REQUEST_FENCE));
  assert_false(pst_request_head(&request) == pst_request_head_of(PST_OP_WRITE, 0));
  request.piece_count = 1;
  assert_false(pst_request_head(&request) == pst_request_head_of(PST_OP_WRITE, PST_REQUEST_FENCE));
  request.piece_count = 0;
  request.reserved0 = 1;
  assert_false(pst_request_head(&request) == pst_request_head_of(PST_OP_WRITE, PST_REQUEST_FENCE));
}

static void post_says_why_it_stopped(void **state)
{
  uint32_t wait = 77;

  (void)state;
  assert_int_equal(pst_post_result(0, 3, -EMSGSIZE, PST_WAIT_NONE, &wait), -EMSGSIZE);
  assert_int_equal(wait, 77);
  assert_int_equal(pst_post_result(2, 3, -EMSGSIZE, PST_WAIT_NONE, &wait), 2);
  assert_int_equal(wait, PST_WAIT_NONE);
  assert_int_equal(pst_post_result(0, 3, -EAGAIN, PST_WAIT_CREDIT, &wait), -EAGAIN);
  assert_int_equal(wait, PST_WAIT_CREDIT);
  assert_int_equal(pst_post_result(1, 3, 0, PST_WAIT_QUEUE, &wait), 1);
  assert_int_equal(wait, PST_WAIT_QUEUE);
  assert_int_equal(pst_post_result(0, 0, 0, PST_WAIT_NONE, &wait), 0);
}

/* ---- DONEs ---------------------------------------------------------------------------------- */

static void expect_done(const struct pst_completion *done, uint8_t opcode, int32_t status,
                        uint64_t cookie, uint64_t count)
{
  assert_int_equal(done->kind, PST_COMPLETION_DONE);
  assert_int_equal(done->endpoint, 5);
  assert_int_equal(done->code, opcode);
  assert_int_equal(done->status, status);
  assert_int_equal(done->u.done.cookie, cookie);
  assert_int_equal(done->u.done.count, count);
}

static void dones_run_as_far_as_they_are_alike(void **state)
{
  struct pst_completion out[8];
  struct pst_dones dones;

  (void)state;
  assert_int_equal(pst_dones_open(&dones, 12), 0);
  assert_true(pst_dones_is_empty(&dones));
  pst_dones_push(&dones, PST_OP_SEND, 0, 1, 1);
  pst_dones_push(&dones, PST_OP_SEND, 0, 4, 3);
  pst_dones_push(&dones, PST_OP_SEND, -ECANCELED, 5, 1);
  pst_dones_push(&dones, PST_OP_WRITE, 0, 6, 1);
  pst_dones_push(&dones, PST_OP_WRITE, 0, 7, 1);
  pst_dones_push(&dones, PST_OP_READ, 0, 8, 1);
  pst_dones_push(&dones, PST_OP_READ, 0, 9, 1);
  dones.outstanding = 9;
  assert_int_equal(pst_dones_take(&dones, 5, out, 3), 3);
  expect_done(&out[0], PST_OP_SEND, 0, 4, 4);
  expect_done(&out[1], PST_OP_SEND, -ECANCELED, 5, 1);
  expect_done(&out[2], PST_OP_WRITE, 0, 7, 2);
  assert_int_equal(dones.outstanding, 2);
  assert_int_equal(pst_dones_take(&dones, 5, out, 8), 2);
  expect_done(&out[0], PST_OP_READ, 0, 8, 1);
  expect_done(&out[1], PST_OP_READ, 0, 9, 1);
  assert_true(pst_dones_is_empty(&dones));
  assert_int_equal(dones.outstanding, 0);
  pst_dones_close(&dones);
}

static void dones_bound_what_is_outstanding(void **state)
{
  const struct pst_request flush = {.opcode = PST_OP_FLUSH, .cookie = 3};
  struct pst_completion out[4];
  struct pst_dones dones;

  (void)state;
  assert_int_equal(pst_dones_open(&dones, 3), 0);
  for (uint32_t round = 0; round < 5; round++) { /* the ring is longer than 3, and goes round */
    for (uint32_t i = 0; i < 3; i++) {
      assert_int_equal(pst_dones_room(&dones, 8), 3 - i);
      assert_int_equal(pst_dones_room(&dones, 1), 1);
      pst_dones_add(&dones, &flush);
    }
    assert_int_equal(pst_dones_room(&dones, 8), 0);
    assert_int_equal(pst_dones_take(&dones, 5, out, 4), 3);
    for (uint32_t i = 0; i < 3; i++)
      expect_done(&out[i], PST_OP_FLUSH, 0, 3, 1);
  }
  pst_dones_close(&dones);
}

static void endpoint_that_posts_nothing_has_no_room(void **state)
{
  struct pst_dones dones;

  (void)state;
  assert_int_equal(pst_dones_open(&dones, 0), 0);
  assert_int_equal(pst_dones_room(&dones, 1), 0);
  pst_dones_close(&dones);
}

/* ---- Closing -------------------------------------------------------------------------------- */

static void closing_has_a_deadline(void **state)
{
  struct pst_closing drain = {0}, abort_ = {0};

  (void)state;
  assert_int_equal(pst_closing_look(&drain, UINT64_MAX), PST_CLOSING_OPEN);
  assert_int_equal(pst_closing_begin(&drain, 3, 0), -EINVAL);
  assert_int_equal(pst_closing_begin(&drain, 0, 0), -EINVAL);
  assert_int_equal(pst_closing_begin(&drain, PST_CLOSE_DRAIN, 100), 0);
  assert_int_equal(pst_closing_begin(&drain, PST_CLOSE_ABORT, 100), -EALREADY);
  assert_int_equal(pst_closing_look(&drain, 99), PST_CLOSING_DRAIN);
  assert_int_equal(pst_closing_look(&drain, 100), PST_CLOSING_OVER);
  assert_int_equal(pst_closing_begin(&abort_, PST_CLOSE_ABORT, 100), 0);
  assert_int_equal(pst_closing_look(&abort_, 99), PST_CLOSING_ABORT);
  assert_int_equal(pst_closing_look(&abort_, 100), PST_CLOSING_OVER);
}

/* ---- Places, slots, tokens ------------------------------------------------------------------ */

static void place_has_another_number_each_time(void **state)
{
  struct pst_places places = {0};
  uint32_t first = 0, next = 0;
  int one, two;

  (void)state;
  assert_null(pst_places_find(&places, 0));
  assert_int_equal(pst_places_take(&places, &one, 100, &first), 0);
  assert_ptr_equal(pst_places_find(&places, first), &one);
  assert_null(pst_places_find(&places, first + (1u << PST_PLACE_BITS)));
  assert_null(pst_places_find(&places, places.room));
  assert_null(pst_places_find(&places, PST_PLACE_NONE));
  pst_places_give(&places, first);
  assert_null(pst_places_find(&places, first));
  for (uint32_t i = 0; i < 15; i++) { /* the other places come first */
    assert_int_equal(pst_places_take(&places, &two, 100, &next), 0);
    assert_int_not_equal(next & PST_PLACE_MASK, first & PST_PLACE_MASK);
  }
  assert_int_equal(pst_places_take(&places, &two, 100, &next), 0);
  assert_int_equal(next, first + (1u << PST_PLACE_BITS));
  assert_null(pst_places_find(&places, first));
  assert_ptr_equal(pst_places_find(&places, next), &two);
  places.all[next & PST_PLACE_MASK].number |= UINT32_C(0x7fff0000); /* the last generation */
  pst_places_give(&places, next);
  assert_int_equal(places.all[next & PST_PLACE_MASK].number, next & PST_PLACE_MASK);
  free(places.all);
}

static void places_end(void **state)
{
  struct pst_places places = {0};
  uint32_t number[40], more = 7;
  int objects[41];

  (void)state;
  for (uint32_t i = 0; i < 40; i++) {
    assert_int_equal(pst_places_take(&places, &objects[i], 40, &number[i]), 0);
    for (uint32_t k = 0; k <= i; k++)
      assert_ptr_equal(pst_places_find(&places, number[k]), &objects[k]);
  }
  assert_int_equal(pst_places_take(&places, &objects[40], 40, &more), -ENOSPC);
  assert_int_equal(more, 7);
  pst_places_give(&places, number[23]);
  assert_int_equal(pst_places_take(&places, &objects[40], 40, &more), 0);
  assert_int_equal(more & PST_PLACE_MASK, number[23] & PST_PLACE_MASK);
  free(places.all);
}

static void places_are_no_more_than_a_number_has_room_for(void **state)
{
  struct pst_places places = {0};
  uint32_t number = 0;
  int object;

  (void)state;
  for (uint32_t i = 0; i <= PST_PLACE_MASK; i++) {
    assert_int_equal(pst_places_take(&places, &object, PST_PLACE_MASK + 1, &number), 0);
    assert_int_equal(number, i);
  }
  assert_int_equal(pst_places_take(&places, &object, PST_PLACE_MASK + 1, &number), -ENOSPC);
  free(places.all);
}

static void slots_come_back_last_first(void **state)
{
  struct pst_slots slots;

  (void)state;
  assert_int_equal(pst_slots_open(&slots, 3), 0);
  for (uint32_t i = 0; i < 3; i++)
    assert_int_equal(pst_slots_take(&slots), i);
  assert_int_equal(slots.free_count, 0);
  assert_false(pst_slots_release(&slots, 1));
  assert_false(pst_slots_release(&slots, 3));
  slots.out[1] = slots.out[2] = 1;
  assert_true(pst_slots_release(&slots, 1));
  assert_false(pst_slots_release(&slots, 1));
  assert_true(pst_slots_release(&slots, 2));
  assert_int_equal(pst_slots_take(&slots), 2);
  assert_int_equal(pst_slots_take(&slots), 1);
  pst_slots_close(&slots);
}

static void shares_are_equal_and_all(void **state)
{
  (void)state;
  for (uint32_t slots = 1; slots < 50; slots++)
    for (uint32_t endpoints = 1; endpoints <= slots; endpoints++) {
      uint32_t left = slots;
      for (uint32_t come = endpoints; come > 0; come--) {
        const uint32_t share = pst_slots_share(left, come);
        assert_in_range(share, slots / endpoints, (slots + endpoints - 1) / endpoints);
        left -= share;
      }
      assert_int_equal(left, 0);
    }
}

static void token_names_ring_and_slot(void **state)
{
  const uint64_t token = pst_token(0x7fff0003, 0xfffffffe);
  const struct pst_ring_params params = {.base = 100, .stride = UINT64_C(1) << 33, .headroom = 7};

  (void)state;
  assert_int_equal(pst_token_number(token), 0x7fff0003);
  assert_int_equal(pst_token_slot(token), 0xfffffffe);
  assert_int_equal(pst_slot_offset(&params, 5), 107 + (UINT64_C(5) << 33));
}

/* ---- The rest ------------------------------------------------------------------------------- */

static void sequence_is_the_nearest(void **state)
{
  const uint64_t turn = UINT64_C(1) << 32;

  (void)state;
  assert_int_equal(pst_sequence_nearest(turn - 2, 1, 32), turn + 1);
  assert_int_equal(pst_sequence_nearest(turn + 1, turn - 2, 32), turn - 2);
  assert_int_equal(pst_sequence_nearest(7 * turn, 5, 32), 7 * turn + 5);
  assert_int_equal(pst_sequence_nearest(0x12ffff, 0x0003, 16), 0x130003);
  assert_int_equal(pst_sequence_nearest(3, 12345678901234, 64), 12345678901234);
}

static void counters_are_cut_and_counted(void **state)
{
  struct pst_counter room[2] = {{NULL}};
  struct pst_counter_list list = {room, 1, 0}, none = {NULL, 0, 0};

  (void)state;
  pst_counter_add(&list, "lost", "no_buffer", 3, PST_COUNTER_DROP);
  pst_counter_add(&list, "more", NULL, 4, 0);
  assert_int_equal(list.count, 2);
  assert_string_equal(room[0].name, "lost");
  assert_string_equal(room[0].cause, "no_buffer");
  assert_int_equal(room[0].value, 3);
  assert_int_equal(room[0].flags, PST_COUNTER_DROP);
  assert_null(room[1].name);
  pst_counter_add(&none, "lost", NULL, 3, 0);
  assert_int_equal(none.count, 1);
}

static void path_and_blob_stay_within_what_is_there(void **state)
{
  char bytes[5] = "....", all[100];
  struct pst_blob blob = {.capacity = 4, .bytes = bytes};
  struct pst_path_info path;

  (void)state;
  assert_int_equal(pst_blob_write(&blob, "12345", 5), -ENOSPC);
  assert_string_equal(bytes, "....");
  assert_int_equal(pst_blob_write(&blob, "1234", 4), 0);
  assert_string_equal(bytes, "1234");
  assert_false(pst_blob_read(&blob, all, 3));
  assert_false(pst_blob_read(&blob, all, 5));
  assert_true(pst_blob_read(&blob, all, 4));
  assert_memory_equal(all, "1234", 4);

  memset(all, 'x', sizeof(all));
  all[99] = 0;
  memset(&path, 0x5a, sizeof(path));
  path.struct_size = offsetof(struct pst_path_info, reason);
  pst_path_write(&path, PST_PATH_DIRECT, all, "tcp", "why");
  assert_int_equal(path.path, PST_PATH_DIRECT);
  assert_int_equal(strlen(path.via), sizeof(path.via) - 1);
  assert_string_equal(path.carrier, "tcp");
  assert_int_equal(path.reason[0], 0x5a); /* its owner has no room for it */
  pst_path_write(NULL, PST_PATH_DIRECT, "", "", "");
}

#ifndef NDEBUG
/* In a child, which an assertion ends. */
static bool gives_done(uint32_t outstanding, uint64_t count)
{
  struct pst_completion out;
  struct pst_dones dones;
  int status;
  pid_t child = fork();

  if (child == 0) {
    setrlimit(RLIMIT_CORE, &(struct rlimit){0});
    freopen("/dev/null", "w", stderr);
    if (pst_dones_open(&dones, 4) < 0)
      _exit(1);
    dones.outstanding = outstanding;
    pst_dones_push(&dones, PST_OP_SEND, 0, 1, count);
    _exit(pst_dones_take(&dones, 1, &out, 1) == 1 && pst_dones_room(&dones, 4) == 4 ? 0 : 1);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT));
  return status == 0;
}

static void done_covers_what_is_outstanding(void **state)
{
  (void)state;
  assert_true(gives_done(3, 3));
  assert_false(gives_done(3, 4));
}
#endif

int main(void)
{
#define CASE(name) cmocka_unit_test_setup(name, reset)
  const struct CMUnitTest tests[] = {
#ifndef NDEBUG
      CASE(done_covers_what_is_outstanding),
#endif
      CASE(range_ends_where_it_ends),
      CASE(registration_lies_in_its_region),
      CASE(ring_has_to_fit),
      CASE(ring_has_one_endpoint_unless_it_is_shared),
      CASE(last_slot_is_as_long_as_it_has_to_be),
      CASE(endpoint_is_within_limits),
      CASE(send_of_one_piece),
      CASE(send_of_several_pieces),
      CASE(pieces_are_seen_as_an_array),
      CASE(flush_names_nothing),
      CASE(head_is_what_a_plain_request_has),
      CASE(post_says_why_it_stopped),
      CASE(dones_run_as_far_as_they_are_alike),
      CASE(dones_bound_what_is_outstanding),
      CASE(endpoint_that_posts_nothing_has_no_room),
      CASE(closing_has_a_deadline),
      CASE(place_has_another_number_each_time),
      CASE(places_end),
      CASE(places_are_no_more_than_a_number_has_room_for),
      CASE(slots_come_back_last_first),
      CASE(shares_are_equal_and_all),
      CASE(token_names_ring_and_slot),
      CASE(sequence_is_the_nearest),
      CASE(counters_are_cut_and_counted),
      CASE(path_and_blob_stay_within_what_is_there),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
