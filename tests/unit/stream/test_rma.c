/* SPDX-License-Identifier: Apache-2.0 */
/* One-sided streams within this process and on this thread, over loopback and the fake
 * filter `narrow`, which moves less at once and later. */
#include "support.h"

#define REGION 1048576u
#define STREAM(filters, more)                                                                      \
  "penstock: 1\n"                                                                                  \
  "transport: {plugin: loopback, filters: [" filters "]}\n"                                        \
  "workers: {count: 1}\n"                                                                          \
  "streams:\n"                                                                                     \
  "  - {name: store, region: 1 MiB" more "}\n"

struct pair {
  struct run run;
  struct pst_initiator *initiator;
  struct pst_target *target;
  struct pst_range near, far;
};

static void meet(struct pair *pair, const char *text)
{
  open_text(&pair->run, text);
  pair->initiator = pst_session_initiator(pair->run.session, "store");
  pair->target = pst_session_target(pair->run.session, "store");
  assert_non_null(pair->initiator);
  assert_non_null(pair->target);
  pair->near.struct_size = pair->far.struct_size = sizeof(pair->near);
  assert_int_equal(pst_initiator_local(pair->initiator, &pair->near), 0);
  assert_int_equal(pst_target_range(pair->target, &pair->far), 0);
  start(&pair->run);
  while (pst_initiator_state(pair->initiator) != PST_STATE_CONNECTED ||
         pst_target_state(pair->target) != PST_STATE_CONNECTED) {
    assert_int_equal(pst_initiator_poll(pair->initiator, NULL, 0), 0);
    assert_int_equal(pst_target_poll(pair->target), 0);
    in_time(&pair->run);
  }
  assert_int_equal(pst_initiator_remote_length(pair->initiator), REGION);
}

static void part(struct pair *pair)
{
  int rc;

  assert_int_equal(pst_target_finish(pair->target), -EBUSY);
  assert_int_equal(pst_initiator_finish(pair->initiator), 0);
  while (pst_initiator_state(pair->initiator) != PST_STATE_ENDED ||
         pst_target_state(pair->target) != PST_STATE_ENDED) {
    assert_int_equal(pst_initiator_poll(pair->initiator, NULL, 0), 0);
    rc = pst_target_poll(pair->target);
    if (rc == -ENODATA)
      pst_target_finish(pair->target);
    else
      assert_int_equal(rc, 0);
    in_time(&pair->run);
  }
  close_run(&pair->run);
}

static struct pst_transfer transfer(uint8_t op, uint64_t near, uint64_t far, uint64_t length)
{
  static uint64_t cookie;
  return (struct pst_transfer){
      .op = op, .cookie = ++cookie, .local_offset = near, .remote_offset = far, .length = length};
}

static struct pst_transfer_done await(struct pair *pair)
{
  struct pst_transfer_done done;
  int rc;

  while ((rc = pst_initiator_poll(pair->initiator, &done, 1)) == 0)
    in_time(&pair->run);
  assert_int_equal(rc, 1);
  return done;
}

static int run_one(struct pair *pair, const struct pst_transfer *t)
{
  int rc = pst_initiator_post(pair->initiator, t, 1);

  if (rc < 0)
    return rc;
  assert_int_equal(rc, 1);
  struct pst_transfer_done done = await(pair);
  assert_int_equal(done.cookie, t->cookie);
  assert_int_equal(done.length, t->length);
  assert_int_equal(done.op, t->op);
  return done.status;
}

static void every_operation(struct pair *pair)
{
  uint64_t *near = pair->near.host, *far = pair->far.host;
  struct pst_transfer t = transfer(PST_OP_WRITE, 4096, 100000, 300001);
  struct pst_verify_result result = {.struct_size = sizeof(result)};

  memset(far, 0, REGION);
  assert_int_equal(pst_initiator_fill(pair->initiator, 4096, 300001, 5), 0);
  assert_int_equal(run_one(pair, &t), 0);
  t = transfer(PST_OP_FLUSH, 0, 0, 0);
  assert_int_equal(run_one(pair, &t), 0);
  assert_int_equal(pst_target_verify(pair->target, 100000, 300001, 5, &result), 0);
  assert_int_equal(result.checked, 5);
  assert_int_equal(((uint8_t *)far)[99999], 0);
  assert_int_equal(((uint8_t *)far)[400001], 0);
  assert_int_equal(pst_target_verify(pair->target, 100000, 300001, 6, &result), -EBADMSG);

  assert_int_equal(pst_target_fill(pair->target, 500000, 200000, 9), 0);
  t = transfer(PST_OP_READ, 800000, 500000, 200000);
  assert_int_equal(run_one(pair, &t), 0);
  assert_int_equal(pst_initiator_verify(pair->initiator, 800000, 200000, 9, NULL), 0);
  ((uint8_t *)near)[900000] ^= 1;
  assert_int_equal(pst_initiator_verify(pair->initiator, 800000, 200000, 9, &result), -EBADMSG);
  assert_int_equal(result.offset, 100000 % PST_RANGE_BLOCK);
  assert_int_equal(result.sequence, (UINT64_C(9) << 24) + 100000 / PST_RANGE_BLOCK);

  far[3] = 40;
  t = transfer(PST_OP_FETCH_ADD, 8, 24, 8);
  t.operand = 2;
  assert_int_equal(run_one(pair, &t), 0);
  assert_int_equal(near[1], 40);
  assert_int_equal(far[3], 42);
  t = transfer(PST_OP_COMPARE_SWAP, 16, 24, 8);
  t.compare = 42;
  t.operand = 7;
  t.flags = PST_REQUEST_FENCE;
  assert_int_equal(run_one(pair, &t), 0);
  assert_int_equal(near[2], 42);
  assert_int_equal(far[3], 7);
}

static void every_operation_does_what_it_says(void **state)
{
  struct pair pair;
  (void)state;
  meet(&pair, STREAM("", ""));
  every_operation(&pair);
  struct pst_stats stats = {.struct_size = sizeof(stats)};
  pst_initiator_stats(pair.initiator, &stats);
  assert_int_equal(stats.transfers_posted, 5);
  assert_int_equal(stats.transfers_done, 5);
  assert_int_equal(stats.transfers_failed, 0);
  assert_int_equal(stats.transfer_bytes, 300001 + 200000 + 16);
  assert_int_equal(stats.path.path, PST_PATH_DIRECT);
  assert_string_equal(stats.path.via, "memcpy");
  assert_true(stats.capabilities & PST_CAP_ATOMIC);
  part(&pair);
}

static void the_target_learns_what_was_done(void **state)
{
  struct pair pair;
  struct pst_stats stats = {.struct_size = sizeof(stats)};
  struct pst_transfer t = transfer(PST_OP_WRITE, 0, 0, 1000);
  (void)state;
  meet(&pair, STREAM("", ""));
  assert_int_equal(run_one(&pair, &t), 0);
  assert_int_equal(pst_initiator_finish(pair.initiator), 0);
  assert_int_equal(pst_initiator_post(pair.initiator, &t, 1), -EPIPE);
  while (pst_target_poll(pair.target) != -ENODATA) {
    assert_int_equal(pst_initiator_poll(pair.initiator, NULL, 0), 0);
    in_time(&pair.run);
  }
  pst_target_stats(pair.target, &stats);
  assert_int_equal(stats.transfers_done, 1);
  assert_int_equal(stats.transfer_bytes, 1000);
  assert_int_equal(stats.messages_sent, 0);
  assert_int_equal(pst_target_finish(pair.target), 0);
  while (pst_target_state(pair.target) != PST_STATE_ENDED) {
    pst_initiator_poll(pair.initiator, NULL, 0);
    pst_target_poll(pair.target);
    in_time(&pair.run);
  }
  assert_int_equal(pst_initiator_state(pair.initiator), PST_STATE_ENDED);
  close_run(&pair.run);
}

static void long_ones_are_cut_and_filters_pass_through(void **state)
{
  static const char *const texts[] = {
      STREAM("{plugin: narrow, options: {rma_max: 4 KiB}}", ""),
      STREAM("{plugin: narrow, options: {rma_max: 4 KiB, requests: 7}}", ""),
      STREAM("{plugin: narrow, options: {rma_max: 1000 B, late: 3}}", ""),
      STREAM("{plugin: narrow, options: {rma_max: 1000 B, late: 5, requests: 3}}", ""),
      STREAM("{plugin: fault, options: {drop_ppm: 500000}}", ""),
  };
  (void)state;
  for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
    struct pair pair;
    meet(&pair, texts[i]);
    every_operation(&pair);
    part(&pair);
  }
}

/* What cannot be taken, and why. */
static void bounds_and_fields_are_checked(void **state)
{
  static const struct {
    uint8_t op;
    uint64_t near, far, length;
    int rc;
  } bad[] = {
      {PST_OP_WRITE, REGION, 0, 1, -ERANGE},
      {PST_OP_WRITE, 0, REGION, 1, -ERANGE},
      {PST_OP_WRITE, REGION - 7, 0, 8, -ERANGE},
      {PST_OP_READ, 0, REGION - 7, 8, -ERANGE},
      {PST_OP_WRITE, UINT64_MAX, 0, 1, -ERANGE},
      {PST_OP_WRITE, 0, UINT64_MAX - 3, 8, -ERANGE},
      {PST_OP_READ, 8, 0, UINT64_MAX, -ERANGE},
      {PST_OP_READ, 0, 0, UINT64_MAX - 7, -ERANGE},
      {PST_OP_READ, 0, 0, REGION + 1, -ERANGE},
      {PST_OP_READ, 0, 0, 0, -EINVAL},
      {PST_OP_FLUSH, 0, 0, 1, -EINVAL},
      {PST_OP_FLUSH, 0, 8, 0, -EINVAL},
      {PST_OP_FETCH_ADD, 0, 0, 4, -EINVAL},
      {PST_OP_FETCH_ADD, 0, 4, 8, -EINVAL},
      {PST_OP_FETCH_ADD, 4, 0, 8, -EINVAL},
      {PST_OP_COMPARE_SWAP, 0, REGION, 8, -ERANGE},
      {PST_OP_FETCH_ADD, UINT64_MAX - 7, 0, 8, -ERANGE},
      {PST_OP_SEND, 0, 0, 8, -EINVAL},
      {7, 0, 0, 8, -EINVAL},
      {0, 0, 0, 8, -EINVAL},
  };
  static const char *const texts[] = {STREAM("", ""),
                                      STREAM("{plugin: narrow, options: {rma_max: 4 KiB}}", "")};
  struct pair pair;
  (void)state;
  for (size_t k = 0; k < 2; k++) {
    meet(&pair, texts[k]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
      struct pst_transfer t[2] = {transfer(PST_OP_WRITE, 0, REGION - 8, 8),
                                  transfer(bad[i].op, bad[i].near, bad[i].far, bad[i].length)};
      assert_int_equal(run_one(&pair, &t[1]), bad[i].rc);
      /* Behind a good one it is told when it comes first. */
      assert_int_equal(pst_initiator_post(pair.initiator, t, 2), 1);
      assert_int_equal(await(&pair).cookie, t[0].cookie);
    }
    struct pst_transfer t = transfer(PST_OP_WRITE, 0, 0, 8);
    t.flags = PST_REQUEST_EXCLUSIVE;
    assert_int_equal(run_one(&pair, &t), -EINVAL);
    t.flags = 0;
    t.operand = 1;
    assert_int_equal(run_one(&pair, &t), -EINVAL);
    t.operand = 0;
    t.reserved2 = 1;
    assert_int_equal(run_one(&pair, &t), -EINVAL);
    t = transfer(PST_OP_WRITE, REGION, REGION, 0);
    assert_int_equal(run_one(&pair, &t), 0);
    assert_int_equal(pst_initiator_fill(pair.initiator, 1, REGION, 0), -ERANGE);
    assert_int_equal(pst_target_verify(pair.target, UINT64_MAX, 2, 0, NULL), -ERANGE);
    part(&pair);
  }
}

/* Memory that the CPU cannot touch, at either end or both: copied by its plugin, later. */
static void memory_that_copies_itself(void **state)
{
  static const char *const texts[] = {
      STREAM("", ", sender: {memory: late}, receiver: {memory: late}"),
      STREAM("", ", sender: {memory: late}"),
      STREAM("", ", receiver: {memory: late}"),
      STREAM("{plugin: narrow, options: {rma_max: 64 KiB}}", ", receiver: {memory: late}"),
  };
  struct pair pair;
  (void)state;
  for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
    meet(&pair, texts[i]);
    struct pst_transfer t = transfer(PST_OP_WRITE, 4096, 100000, 300001);
    assert_int_equal(pst_initiator_fill(pair.initiator, 4096, 300001, 5), 0);
    assert_int_equal(run_one(&pair, &t), 0);
    t = transfer(PST_OP_FLUSH, 0, 0, 0);
    assert_int_equal(run_one(&pair, &t), 0);
    assert_int_equal(pst_target_verify(pair.target, 100000, 300001, 5, NULL), 0);
    assert_int_equal(pst_target_verify(pair.target, 100000, 300001, 6, NULL), -EBADMSG);
    assert_int_equal(pst_target_fill(pair.target, 500000, 200000, 9), 0);
    t = transfer(PST_OP_READ, 800000, 500000, 200000);
    assert_int_equal(run_one(&pair, &t), 0);
    assert_int_equal(pst_initiator_verify(pair.initiator, 800000, 200000, 9, NULL), 0);
    t = transfer(PST_OP_FETCH_ADD, 8, 24, 8);
    assert_int_equal(run_one(&pair, &t), -EOPNOTSUPP);
    part(&pair);
  }
}

#define NO_DEVICE "{plugin: narrow, options: {device: false}}"

static void what_a_transport_lacks_is_said(void **state)
{
  struct pst_session_params params = {.struct_size = sizeof(params),
                                      .roles = PST_SESSION_SENDER | PST_SESSION_RECEIVER};
  struct pst_error error = PST_ERROR_INIT;
  struct pst_session *session = NULL;
  struct pst_config *config = NULL;
  struct pair pair;
  (void)state;
  meet(&pair, STREAM("{plugin: narrow, options: {read: false, atomic: false}}", ""));
  struct pst_transfer t = transfer(PST_OP_READ, 0, 0, 8);
  assert_int_equal(run_one(&pair, &t), -EOPNOTSUPP);
  t = transfer(PST_OP_FETCH_ADD, 0, 0, 8);
  assert_int_equal(run_one(&pair, &t), -EOPNOTSUPP);
  t = transfer(PST_OP_WRITE, 0, 0, 8);
  assert_int_equal(run_one(&pair, &t), 0);
  part(&pair);

  static const struct {
    const char *text, *words;
  } bad[] = {
      {STREAM("{plugin: narrow, options: {read: false, write: false}}", ""),
       "lacks both WRITE and READ"},
      {STREAM(NO_DEVICE, ", receiver: {memory: late}"), "choose another receiver.memory"},
      {STREAM(NO_DEVICE, ", sender: {memory: late}"), "choose another sender.memory"},
      {STREAM("{plugin: failing, options: {}}", ""), "lacks both WRITE and READ"},
  };
  for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
    const char *text = bad[i].text;
    assert_int_equal(pst_config_open_text(text, strlen(text), "t", NULL, 0, &config, &error), 0);
    assert_true(pst_session_open(config, &params, &session, &error) < 0);
    assert_int_equal(error.exit_status, PST_EXIT_UNAVAILABLE);
    if (!strstr(error.text, bad[i].words))
      fail_msg("%zu: %s", i, error.text);
    pst_config_close(config);
  }
}

/* All of them many times over, out of order and cut: each ends once. */
static void each_ends_once(void **state)
{
  static const char *const texts[] = {
      STREAM("", ""), STREAM("{plugin: narrow, options: {rma_max: 300 B, late: 2}}", ""),
      STREAM("{plugin: narrow, options: {rma_max: 700 B, late: 4, requests: 33}}", "")};
  (void)state;
  for (size_t k = 0; k < sizeof(texts) / sizeof(*texts); k++) {
    static uint8_t seen[20000];
    struct pair pair;
    uint64_t posted = 0, ended = 0, random = 1;
    meet(&pair, texts[k]);
    memset(seen, 0, sizeof(seen));
    while (ended < sizeof(seen)) {
      struct pst_transfer batch[50];
      struct pst_transfer_done done[20];
      uint32_t n = 0;
      for (; n < 50 && posted + n < sizeof(seen); n++) {
        static const uint8_t ops[] = {PST_OP_WRITE, PST_OP_WRITE, PST_OP_READ, PST_OP_FLUSH,
                                      PST_OP_FETCH_ADD};
        uint8_t op = ops[(posted + n) * 7 / 3 % 5];
        random = random * UINT64_C(6364136223846793005) + 1;
        batch[n] = transfer(op, 0, 8, op == PST_OP_FLUSH ? 0 : 8);
        if (op == PST_OP_FLUSH)
          batch[n].remote_offset = 0;
        if (op == PST_OP_WRITE || op == PST_OP_READ)
          batch[n].length = 1 + (random >> 33) % 2000;
        batch[n].cookie = posted + n;
      }
      int rc = pst_initiator_post(pair.initiator, batch, n);
      assert_true(rc >= 0);
      posted += (uint64_t)rc;
      rc = pst_initiator_poll(pair.initiator, done, 20);
      assert_true(rc >= 0);
      for (int i = 0; i < rc; i++) {
        assert_int_equal(done[i].status, 0);
        assert_true(done[i].cookie < posted);
        assert_int_equal(seen[done[i].cookie]++, 0);
      }
      ended += (uint64_t)rc;
      in_time(&pair.run);
    }
    part(&pair);
  }
}

static void the_depth_bounds_what_is_taken(void **state)
{
  struct pair pair;
  struct pst_transfer_done done;
  struct pst_transfer t = transfer(PST_OP_WRITE, 0, 0, 8);
  uint32_t depth, taken = 0;
  (void)state;
  meet(&pair, STREAM("", ""));
  depth = pst_initiator_depth(pair.initiator);
  assert_true(depth > 1);
  while (pst_initiator_post(pair.initiator, &t, 1) == 1)
    taken++;
  assert_int_equal(taken, depth);
  assert_int_equal(pst_initiator_post(pair.initiator, &t, 1), 0);
  assert_int_equal(pst_initiator_poll(pair.initiator, &done, 1), 1);
  assert_int_equal(pst_initiator_post(pair.initiator, &t, 1), 1);
  assert_int_equal(pst_initiator_post(pair.initiator, &t, 1), 0);
  while (--taken > 0)
    await(&pair);
  await(&pair);
  assert_int_equal(pst_initiator_poll(pair.initiator, &done, 1), 0);
  part(&pair);
}

/* Under way, cut, and not yet handed out: an abort brings all of them back. */
static void an_abort_brings_all_back(void **state)
{
  struct pair pair;
  struct pst_transfer t[4] = {transfer(PST_OP_WRITE, 0, 0, 100), transfer(PST_OP_READ, 0, 0, 200),
                              transfer(PST_OP_FETCH_ADD, 0, 0, 8),
                              transfer(PST_OP_WRITE, 0, 0, 900000)};
  struct pst_transfer_done done[8];
  struct pst_stats stats = {.struct_size = sizeof(stats)};
  int n = 0, rc;
  (void)state;
  meet(&pair,
       STREAM("{plugin: narrow, options: {rma_max: 1000 B, late: 1000000, requests: 50}}", ""));
  assert_int_equal(pst_initiator_post(pair.initiator, t, 4), 4);
  assert_int_equal(pst_initiator_post(pair.initiator, t, 1), 0);
  assert_int_equal(pst_initiator_poll(pair.initiator, done, 8), 0);
  assert_int_equal(pst_initiator_abort(pair.initiator, -EDQUOT, "enough"), 0);
  assert_int_equal(pst_initiator_post(pair.initiator, t, 1), -EDQUOT);
  while ((rc = pst_initiator_poll(pair.initiator, done + n, (uint32_t)(8 - n))) >= 0) {
    n += rc;
    assert_true(n <= 4);
    in_time(&pair.run);
  }
  assert_int_equal(rc, -EDQUOT);
  assert_int_equal(n, 4);
  for (int i = 0; i < 4; i++)
    assert_int_equal(done[i].status, -EDQUOT);
  pst_initiator_stats(pair.initiator, &stats);
  assert_int_equal(stats.transfers_failed, 4);
  while ((rc = pst_target_poll(pair.target)) == 0)
    in_time(&pair.run);
  assert_int_equal(rc, -EDQUOT);
  close_run(&pair.run);
}

static void the_targets_abort_reaches_the_initiator(void **state)
{
  struct pair pair;
  struct pst_transfer t = transfer(PST_OP_READ, 0, 0, 200);
  struct pst_transfer_done done = {0};
  int rc;
  (void)state;
  meet(&pair, STREAM("{plugin: narrow, options: {late: 100000000}}", ""));
  assert_int_equal(pst_initiator_post(pair.initiator, &t, 1), 1);
  assert_int_equal(pst_target_abort(pair.target, -ENOSPC, "full"), 0);
  while ((rc = pst_initiator_poll(pair.initiator, &done, 1)) == 0)
    in_time(&pair.run);
  assert_int_equal(rc, 1);
  assert_int_equal(done.cookie, t.cookie);
  assert_int_equal(done.status, -ENOSPC);
  assert_int_equal(pst_initiator_poll(pair.initiator, &done, 1), -ENOSPC);
  close_run(&pair.run);
}

/* Closed as it is: nothing is leaked or touched afterwards (the sanitizers look). */
static void a_session_may_close_at_any_time(void **state)
{
  struct pst_transfer t[2] = {transfer(PST_OP_READ, 0, 0, 200),
                              transfer(PST_OP_WRITE, 0, 0, 90000)};
  static const char *const texts[] = {
      STREAM("", ""), STREAM("{plugin: narrow, options: {late: 100000, rma_max: 100 B}}", "")};
  (void)state;
  for (size_t i = 0; i < 2; i++) {
    struct pair pair;
    meet(&pair, texts[i]);
    assert_int_equal(pst_initiator_post(pair.initiator, t, 2), 2);
    close_run(&pair.run);
    open_text(&pair.run, texts[i]);
    close_run(&pair.run);
    open_text(&pair.run, texts[i]);
    start(&pair.run);
    close_run(&pair.run);
  }
}

/* Streams of both kinds side by side; each is found by what it is. */
static void messages_flow_beside_it(void **state)
{
  struct pair pair;
  (void)state;
  open_text(&pair.run, STREAM("", "") "  - {name: packets, message: 1462 B, ring: 256}\n");
  assert_null(pst_session_sender(pair.run.session, "store"));
  assert_null(pst_session_receiver(pair.run.session, "store"));
  assert_null(pst_session_initiator(pair.run.session, "packets"));
  assert_null(pst_session_target(pair.run.session, "none"));
  stream_all(&pair.run, "packets", 5000);
  assert_int_equal(pst_initiator_state(pst_session_initiator(pair.run.session, "store")),
                   PST_STATE_CONNECTED);
  close_run(&pair.run);
}

/* The target's thread may sleep: what is written needs it not. */
static void a_session_of_one_sided_streams_sleeps(void **state)
{
  struct pair pair;
  (void)state;
  meet(&pair, "penstock: 1\ntransport: loopback\nworkers: {count: 1, sleep_after: 1 us}\n"
              "streams: [{name: store, region: 1 MiB}]\n");
  while (pst_session_wait(pair.run.session, 0, NULL) == 0) {
    assert_int_equal(pst_initiator_poll(pair.initiator, NULL, 0), 0);
    assert_int_equal(pst_target_poll(pair.target), 0);
    in_time(&pair.run);
  }
  /* With news to hand out it does not. */
  struct pst_transfer t = transfer(PST_OP_WRITE, 0, 0, 8);
  assert_int_equal(pst_initiator_post(pair.initiator, &t, 1), 1);
  assert_int_equal(pst_initiator_poll(pair.initiator, NULL, 0), 0);
  for (int i = 0; i < 1000; i++)
    assert_int_equal(pst_session_wait(pair.run.session, 0, NULL), 0);
  await(&pair);
  part(&pair);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_operation_does_what_it_says),
      cmocka_unit_test(the_target_learns_what_was_done),
      cmocka_unit_test(long_ones_are_cut_and_filters_pass_through),
      cmocka_unit_test(bounds_and_fields_are_checked),
      cmocka_unit_test(memory_that_copies_itself),
      cmocka_unit_test(what_a_transport_lacks_is_said),
      cmocka_unit_test(each_ends_once),
      cmocka_unit_test(the_depth_bounds_what_is_taken),
      cmocka_unit_test(an_abort_brings_all_back),
      cmocka_unit_test(the_targets_abort_reaches_the_initiator),
      cmocka_unit_test(a_session_may_close_at_any_time),
      cmocka_unit_test(messages_flow_beside_it),
      cmocka_unit_test(a_session_of_one_sided_streams_sleeps),
  };
  return cmocka_run_group_tests_name("one-sided", tests, use_fakes, NULL);
}
