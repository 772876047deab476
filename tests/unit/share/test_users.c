/* SPDX-License-Identifier: Apache-2.0 */
/* How much clients of one user, and of all users, may hold of descriptors and mappings. */
#include "support.h"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { FDS = 200 };

static char why[SHARE_WHY_BYTES];

static int begin(void **state)
{
  const int rc = router_begin(state);

  router.room[SHARE_FDS] = FDS;
  return rc;
}

static struct share_user *join(uid_t uid)
{
  struct share_user *user = NULL;

  assert_int_equal(share_user_join(&router, uid, &user, why, sizeof(why)), 0);
  return user;
}

/* Takes regions until they are refused; returns how many. */
static uint32_t take_all(struct share_user *user)
{
  uint32_t taken = 0;
  int rc;

  while ((rc = share_user_take(user, SHARE_REGION)) == 0)
    taken++;
  assert_int_equal(rc, -ENOSPC);
  return taken;
}

static void give(struct share_user *user, uint32_t regions)
{
  while (regions-- > 0)
    share_user_give(user, SHARE_REGION);
}

static void one_user_may_hold_all(void **state)
{
  struct share_user *user = join(1), *second = join(1);

  (void)state;
  assert_ptr_equal(user, second);
  const uint32_t taken = take_all(user);
  assert_int_equal(router.held[SHARE_FDS], FDS);
  assert_int_equal(share_user_join(&router, 1, &second, why, sizeof(why)), -ENOSPC);
  assert_non_null(strstr(why, "no descriptors left for user 1"));
  assert_non_null(strstr(why, "raise `ulimit -n`"));
  assert_null(strstr(why, "each user"));
  give(user, taken);
  share_user_leave(user);
  share_user_leave(user);
}

/* However many users come one after another, the next one still has something. */
static void several_users_leave_some_to_the_next(void **state)
{
  struct share_user *users[4];
  uint32_t taken[4];

  (void)state;
  router.params.uid_count = 4;
  for (uint32_t i = 0; i < 4; i++) {
    users[i] = join(i + 1);
    taken[i] = take_all(users[i]);
    assert_in_range(taken[i], 1, i ? taken[i - 1] / 2 + 2 : FDS / 2);
  }
  for (uint32_t i = 0; i < 4; i++) {
    give(users[i], taken[i]);
    share_user_leave(users[i]);
  }
}

static void mappings_are_bounded_too(void **state)
{
  struct share_user *user = join(1);

  (void)state;
  router.room[SHARE_MAPS] = router.held[SHARE_MAPS];
  assert_int_equal(take_all(user), 0);
  assert_int_equal(share_user_join(&router, 2, &(struct share_user *){NULL}, why, sizeof(why)),
                   -ENOSPC);
  assert_non_null(strstr(why, "no mappings left for user 2"));
  assert_non_null(strstr(why, "raise the sysctl vm.max_map_count"));
  share_user_leave(user);
}

static void half_of_the_clients_are_of_others(void **state)
{
  struct share_user *user = NULL;

  (void)state;
  router.params.uid_count = 2;
  router.params.clients = 2;
  user = join(1);
  assert_int_equal(share_user_join(&router, 1, &(struct share_user *){NULL}, why, sizeof(why)),
                   -ENOSPC);
  assert_non_null(strstr(why, "half of all; raise --clients"));
  share_user_leave(join(2));
  share_user_leave(user);
}

static void room_is_what_the_kernel_leaves(void **state)
{
  struct rlimit before;

  (void)state;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  struct rlimit small = {.rlim_cur = 100, .rlim_max = before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
  share_users_begin(&router);
  assert_in_range(router.room[SHARE_FDS], 50, 96);
  assert_in_range(router.room[SHARE_MAPS], 1000, UINT64_MAX);
  small.rlim_cur = 3;
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
  share_users_begin(&router);
  assert_int_equal(router.room[SHARE_FDS], 0);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, router_end)
  const struct CMUnitTest cases[] = {
      CASE(one_user_may_hold_all),          CASE(several_users_leave_some_to_the_next),
      CASE(mappings_are_bounded_too),       CASE(half_of_the_clients_are_of_others),
      CASE(room_is_what_the_kernel_leaves),
  };
  return cmocka_run_group_tests(cases, NULL, NULL);
}
