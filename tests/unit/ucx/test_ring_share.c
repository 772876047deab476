/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints of one ring: what each has of its slots, and what is kept for those that have none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "ring_share.h"

#include <cmocka.h>

#define SLOTS_MAX 32u

static struct ucx_shares shares;
static struct ucx_share one[4];
static uint8_t out[SLOTS_MAX];

static void open_shares(uint32_t slots, uint32_t endpoints, uint32_t endpoint_slots)
{
  for (uint32_t slot = 0; slot < SLOTS_MAX; slot++)
    out[slot] = 0;
  assert_int_equal(ucx_shares_open(&shares, slots, endpoints, endpoint_slots), 0);
}

/* Tell the peer all that is due, of whose grants none is unused. Returns how many it was. */
static uint64_t grant_all(struct ucx_share *share)
{
  const uint64_t more = ucx_share_more(&shares, share, 0);

  ucx_share_grant(&shares, share, more);
  return more;
}

static void give_out(struct ucx_share *share, uint32_t slot)
{
  out[slot] = 1;
  ucx_share_take(&shares, share, slot);
}

static void take_back(uint32_t slot)
{
  out[slot] = 0;
  ucx_share_release(&shares, slot);
}

static void shares_are_equal_without_an_option(void **state)
{
  (void)state;
  open_shares(31, 3, 0);
  for (int i = 0; i < 3; i++)
    ucx_share_begin(&shares, &one[i]);
  assert_int_equal(one[0].granted, 11);
  assert_int_equal(one[1].granted, 10);
  assert_int_equal(one[2].granted, 10);
  assert_int_equal(grant_all(&one[0]), 0);
  ucx_share_end(&shares, &one[0], out, 0);
  assert_int_equal(grant_all(&one[1]), 0); /* what has gone is not theirs */
  ucx_share_begin(&shares, &one[0]);
  assert_int_equal(one[0].granted, 11);
  ucx_shares_close(&shares);
}

static void credit_goes_a_few_at_a_time(void **state)
{
  (void)state;
  open_shares(16, 1, 0);
  ucx_share_begin(&shares, &one[0]);
  for (uint32_t slot = 0; slot < 4; slot++)
    give_out(&one[0], slot);
  take_back(0);
  assert_int_equal(ucx_share_more(&shares, &one[0], 12), 0); /* the peer has enough */
  assert_int_equal(ucx_share_more(&shares, &one[0], 8), 1);
  for (uint32_t slot = 1; slot < 4; slot++)
    take_back(slot);
  assert_int_equal(ucx_share_more(&shares, &one[0], 12), 4); /* a quarter */
  ucx_shares_close(&shares);
}

static void who_uses_all_gets_as_much_again(void **state)
{
  (void)state;
  open_shares(4 + 7, 4, 6);
  ucx_share_begin(&shares, &one[0]);
  assert_int_equal(one[0].granted, 1);
  assert_int_equal(ucx_share_more(&shares, &one[0], 1), 0); /* not used yet */
  assert_int_equal(grant_all(&one[0]), 1);
  assert_int_equal(grant_all(&one[0]), 2);
  assert_int_equal(ucx_share_more(&shares, &one[0], 3), 0);
  assert_int_equal(ucx_share_more(&shares, &one[0], 2), 2); /* no more than 6 */
  assert_int_equal(grant_all(&one[0]), 2);
  assert_int_equal(grant_all(&one[0]), 0);
  ucx_shares_close(&shares);
}

static void one_is_kept_for_each_of_the_others(void **state)
{
  (void)state;
  open_shares(4 + 3, 4, 6);
  ucx_share_begin(&shares, &one[0]);
  ucx_share_begin(&shares, &one[1]);
  while (grant_all(&one[0]))
    ;
  assert_int_equal(one[0].granted, 4); /* three are the others' */
  assert_int_equal(grant_all(&one[1]), 0);
  give_out(&one[1], 0);
  take_back(0);
  assert_int_equal(grant_all(&one[0]), 0); /* the other has none now, and it is kept */
  assert_int_equal(grant_all(&one[1]), 1);
  for (int i = 2; i < 4; i++) {
    ucx_share_begin(&shares, &one[i]);
    assert_int_equal(one[i].granted, 1);
  }
  /* Slots that one endpoint gives back can be granted to another. */
  give_out(&one[0], 1);
  take_back(1);
  assert_int_equal(grant_all(&one[2]), 1);
  assert_int_equal(grant_all(&one[0]), 0);
  ucx_shares_close(&shares);
}

static void all_have_the_most_where_there_is_room(void **state)
{
  (void)state;
  open_shares(12, 3, 4);
  for (int i = 0; i < 3; i++) {
    ucx_share_begin(&shares, &one[i]);
    assert_int_equal(one[i].granted, 4);
  }
  ucx_shares_close(&shares);
}

static void what_is_out_at_the_end_is_the_next_ones_later(void **state)
{
  (void)state;
  open_shares(8, 1, 0);
  ucx_share_begin(&shares, &one[0]);
  give_out(&one[0], 0);
  take_back(0); /* its owner stands there still */
  give_out(&one[0], 1);
  give_out(&one[0], 2);
  ucx_share_end(&shares, &one[0], out, 1);
  ucx_share_begin(&shares, &one[1]);
  assert_int_equal(one[1].granted, 5); /* two are out, one is written to */
  take_back(1);
  assert_int_equal(grant_all(&one[1]), 1);
  ucx_shares_give(&shares);
  take_back(2);
  assert_int_equal(grant_all(&one[1]), 2);
  ucx_share_end(&shares, &one[1], out, 0);
  assert_int_equal(shares.granted, shares.released);
  assert_int_equal(shares.idle, 1);
  ucx_shares_close(&shares);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shares_are_equal_without_an_option),
      cmocka_unit_test(credit_goes_a_few_at_a_time),
      cmocka_unit_test(who_uses_all_gets_as_much_again),
      cmocka_unit_test(one_is_kept_for_each_of_the_others),
      cmocka_unit_test(all_have_the_most_where_there_is_room),
      cmocka_unit_test(what_is_out_at_the_end_is_the_next_ones_later),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
