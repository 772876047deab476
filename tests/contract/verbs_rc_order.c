/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which memory verbs_rc registers with relaxed ordering: what completions alone tell of, and not
 * what a peer may write to and poll.
 *
 *     penstock-simverbs verbs-rc-order PLUGIN LAUNCHER
 *
 * The program defines a call of libibverbs, which the plugin finds here.
 */
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <stdio.h>

#include "verbs_rc_stream.h"

#define OFFERED                                                                                    \
  (PST_ACCESS_LOCAL_READ | PST_ACCESS_LOCAL_WRITE | PST_ACCESS_REMOTE_READ |                       \
   PST_ACCESS_REMOTE_WRITE)
#define LOCAL (PST_ACCESS_LOCAL_READ | PST_ACCESS_LOCAL_WRITE)

static uint32_t relaxed, strict; /* registrations since they were set to 0 */
static bool refuses_relaxed;     /* as a driver does that knows it, and not its flag */
static struct contract_variant variant = {.name = "order"};

__attribute__((visibility("default"))) struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd,
                                                                       void *address, size_t length,
                                                                       uint64_t iova,
                                                                       unsigned int access)
{
  struct ibv_mr *(*next)(struct ibv_pd *, void *, size_t, uint64_t, unsigned int);
  const bool is_relaxed = access & IBV_ACCESS_RELAXED_ORDERING;

  void *library = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);
  assert_non_null(library);
  *(void **)&next = dlsym(library, "ibv_reg_mr_iova2");
  dlclose(library);
  assert_non_null(next);
  if (is_relaxed && refuses_relaxed) {
    errno = EINVAL;
    return NULL;
  }
  relaxed += is_relaxed;
  strict += !is_relaxed;
  return next(pd, address, length, iova, access);
}

/* A range beside a stream's: registered relaxed, or not. */
static void registered(struct contract_side *side, uint32_t access, bool is_relaxed)
{
  struct contract_region region;

  relaxed = strict = 0;
  struct pst_mr *mr = stream_memory(side, access, &region);
  assert_int_equal(relaxed, is_relaxed);
  assert_int_equal(strict, !is_relaxed);
  side->image.ops->mr_deregister(side->device, mr);
  contract_region_free(&region);
}

static void with(const char *options, bool local, bool offered)
{
  struct contract_side side = {0};

  variant.options = options;
  /* The side's own memory is a ring's and offered, too: the ring has its own registration. */
  relaxed = strict = 0;
  contract_side_open(&variant, &stream_params, false, true, &side);
  assert_int_equal(relaxed > 0, local);
  assert_int_equal(strict > 0, !offered);
  registered(&side, LOCAL, local);
  registered(&side, LOCAL | PST_ACCESS_RING, local);
  registered(&side, LOCAL | PST_ACCESS_REMOTE_READ, local);
  registered(&side, OFFERED, offered);
  contract_side_close(&side);
}

static void auto_is_where_completions_tell(void **state)
{
  (void)state;
  with("device=mlx5_0", true, false);
}

static void one_may_have_it_everywhere_or_nowhere(void **state)
{
  (void)state;
  with("device=mlx5_0,relaxed_ordering=true", true, true);
  with("device=mlx5_0,relaxed_ordering=false", false, false);
}

static void it_is_a_hint(void **state)
{
  (void)state;
  refuses_relaxed = true;
  with("device=mlx5_0", false, false);
  refuses_relaxed = false;
}

int main(int argc, char **argv)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(auto_is_where_completions_tell),
      CONTRACT_CASE(one_may_have_it_everywhere_or_nowhere),
      CONTRACT_CASE(it_is_a_hint),
  };

  if (!stream_arguments(argc, argv))
    return 2;
  variant.plugin = argv[1];
  return CONTRACT_MAIN("relaxed ordering", cases, &variant);
}
