/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's rings: what a client may write there, and that nothing else has an effect. */
#include "support.h"

#include <stdlib.h>
#include <string.h>

enum { LENGTH = 4096, REQUESTS = 4, PIECES = 4 };
/* Numbers of regions: one with all rights, one that may only be written, and none. */
enum { ALL = 1, WRITE_ONLY = 2, GONE = 3 };

static struct share_client client;
static struct share_worker worker;
static struct share_endpoint *endpoint, *other;
static struct share_remote remotes[2]; /* of `endpoint`, of `other` */
static struct share_ring ring;
static struct share_mr mrs[REGIONS];
static uint64_t ring_tokens[2];

static struct share_endpoint *open_endpoint(void)
{
  struct share_endpoint *made;
  uint32_t place = 0;

  assert_int_equal(share_endpoint_alloc(&worker, &made), 0);
  assert_int_equal(pst_places_take(&worker.endpoints, made, PST_SHARE_ENDPOINTS, &place), 0);
  made->number = place + 1;
  made->requests_max = REQUESTS;
  made->pieces_max = PIECES;
  made->inner = (struct pst_endpoint *)&worker; /* which the transport does not look at */
  assert_int_equal(share_endpoint_make_room(made), 0);
  return made;
}

static int begin(void **state)
{
  char why[SHARE_WHY_BYTES];
  static char memory[PST_SHARE_MEMORY] __attribute__((aligned(4096)));

  if (router_begin(state) < 0)
    return -1;
  memset(memory, 0, sizeof(memory));
  memset(mrs, 0, sizeof(mrs));
  client = (struct share_client){.share = &router, .fd = -1, .mrs = mrs, .class = router.classes};
  if (share_user_join(&router, 1, &client.user, why, sizeof(why)) < 0)
    return -1;
  worker = (struct share_worker){.client = &client,
                                 .ops = &fake_ops,
                                 .page = (void *)memory,
                                 .submit = (void *)(memory + PST_SHARE_SUBMIT_AT),
                                 .complete = (void *)(memory + PST_SHARE_COMPLETE_AT),
                                 .client_event = -1};
  worker.active = calloc(PST_SHARE_ENDPOINTS, sizeof(struct share_endpoint *));
  for (uint32_t i = 0; i < 2; i++) {
    mrs[i].number = i + 1;
    mrs[i].length = LENGTH;
    mrs[i].access = PST_ACCESS_LOCAL_WRITE | (i == 0 ? PST_ACCESS_LOCAL_READ : 0);
  }
  endpoint = open_endpoint();
  other = open_endpoint();
  for (uint32_t i = 0; i < 2; i++) {
    remotes[i] = (struct share_remote){.endpoint = i ? other : endpoint};
    pst_places_take(&worker.remotes, &remotes[i], PST_PLACE_MASK, &remotes[i].number);
  }
  ring = (struct share_ring){.tokens = ring_tokens};
  pst_places_take(&worker.rings, &ring, PST_PLACE_MASK, &ring.number);
  return pst_slots_open(&ring.slots, 2);
}

static int end(void **state)
{
  for (uint32_t i = 0; i < 2; i++)
    pst_places_give(&worker.remotes, remotes[i].number);
  while (worker.all) {
    for (uint32_t i = worker.all->head; i != worker.all->tail; i++)
      share_endpoint_forget(worker.all, i & worker.all->mask);
    share_endpoint_free(worker.all);
  }
  pst_slots_close(&ring.slots);
  free(worker.active);
  free(worker.endpoints.all);
  free(worker.remotes.all);
  free(worker.rings.all);
  for (uint32_t i = 0; i < REGIONS; i++)
    assert_int_equal(mrs[i].uses, 0);
  share_user_leave(client.user);
  return router_end(state);
}

static struct pst_share_entry a_send(void)
{
  return (struct pst_share_entry){
      .kind = PST_SHARE_REQUEST,
      .opcode = PST_OP_SEND,
      .u.request = {.endpoint = endpoint->number, .mr = ALL, .offset = 96, .arg = 100}};
}

static struct pst_share_entry a_write(void)
{
  struct pst_share_entry entry = a_send();

  entry.opcode = PST_OP_WRITE;
  entry.u.request.u.rma.remote = remotes[0].number + 1;
  return entry;
}

static void submit(const void *entry)
{
  memcpy(&worker.submit[worker.page->submit_tail++ % PST_SHARE_ENTRIES], entry, 64);
}

/* The client is disconnected by what it has submitted, and nothing of that is queued. */
static void assert_breaks(const char *what)
{
  const uint32_t queued = endpoint->tail;

  assert_int_equal(share_submit_take(&worker), 0);
  if (!client.is_broken)
    fail_msg("%s is taken", what);
  assert_int_equal(share_submit_take(&worker), 0); /* and no more of a broken client */
  assert_int_equal(endpoint->tail, queued);
  assert_int_equal(mrs[0].uses + mrs[1].uses + remotes[0].uses + remotes[1].uses, 0);
  client.is_broken = false;
  worker.submit_head = worker.page->submit_tail = worker.page->submit_head;
}

static void what_is_right_is_queued(void **state)
{
  struct pst_share_entry entry = a_send();
  const struct pst_share_one_piece pair[2] = {{.offset = 0, .length = 60, .mr = ALL},
                                              {.offset = LENGTH - 40, .length = 40, .mr = ALL}};

  (void)state;
  entry.u.request.offset = LENGTH - 100;
  submit(&entry);
  entry = a_write();
  submit(&entry);
  entry = a_send();
  entry.piece_count = 2;
  submit(&entry);
  submit(pair);
  entry = (struct pst_share_entry){.kind = PST_SHARE_REQUEST, .opcode = PST_OP_FLUSH};
  entry.u.request.endpoint = endpoint->number;
  submit(&entry);
  assert_int_equal(share_submit_take(&worker), 5);
  assert_false(client.is_broken);
  assert_int_equal(worker.page->submit_head, 5);
  assert_int_equal(endpoint->tail - endpoint->head, 4);
  assert_int_equal(mrs[0].uses, 4);
  assert_int_equal(remotes[0].uses, 1);
  assert_int_equal(share_submit_post(&worker), 4);
  assert_false(share_endpoint_done(endpoint, PST_OP_SEND, 5)); /* more than are under way */
  assert_int_equal(mrs[0].uses, 4);
  assert_true(share_endpoint_done(endpoint, PST_OP_SEND, 2));
  assert_int_equal(mrs[0].uses, 1); /* of the WRITE */
  assert_true(share_endpoint_done(endpoint, PST_OP_WRITE, 1));
  assert_int_equal(mrs[0].uses + remotes[0].uses, 0);
}

static void a_request_that_breaks_a_rule_ends_the_client(void **state)
{
#define WRONG(of, what)                                                                            \
  do {                                                                                             \
    struct pst_share_entry entry = of();                                                           \
    entry.what;                                                                                    \
    submit(&entry);                                                                                \
    assert_breaks(#what);                                                                          \
  } while (0)

  (void)state;
  WRONG(a_send, kind = 0);
  WRONG(a_send, kind = 3);
  WRONG(a_send, kind = 255);
  WRONG(a_send, opcode = 0);
  WRONG(a_send, opcode = PST_OP_FLUSH + 1);
  WRONG(a_send, opcode = 255);
  WRONG(a_send, flags = 0x80);
  WRONG(a_send, reserved = 1);
  WRONG(a_send, u.request.endpoint = 0);
  WRONG(a_send, u.request.endpoint = UINT32_MAX);
  WRONG(a_send, u.request.endpoint = endpoint->number + (1 << PST_PLACE_BITS));
  WRONG(a_send, u.request.mr = 0);
  WRONG(a_send, u.request.mr = WRITE_ONLY);
  WRONG(a_send, u.request.mr = GONE);
  WRONG(a_send, u.request.mr = ALL + (1 << PST_PLACE_BITS));
  WRONG(a_send, u.request.mr = UINT32_MAX);
  WRONG(a_send, u.request.offset = LENGTH - 99);
  WRONG(a_send, u.request.offset = UINT64_MAX - 50);
  WRONG(a_send, u.request.arg = LENGTH);
  WRONG(a_send, u.request.arg = UINT64_MAX);
  WRONG(a_write, u.request.u.rma.remote = 0);
  WRONG(a_write, u.request.u.rma.remote = UINT32_MAX);
  WRONG(a_write, u.request.u.rma.remote = remotes[1].number + 1);
  WRONG(a_write, u.request.u.rma.remote += 1 << PST_PLACE_BITS);
  WRONG(a_write, piece_count = PIECES + 1);
  WRONG(a_write, piece_count = UINT16_MAX);
  /* Its pieces are not there. */
  WRONG(a_write, piece_count = 1);
}

static void an_atomic_has_eight_bytes(void **state)
{
  struct pst_share_entry entry = a_write();

  (void)state;
  entry.opcode = PST_OP_FETCH_ADD;
  entry.u.request.arg = UINT64_MAX; /* what it adds, no length */
  entry.u.request.offset = LENGTH - 7;
  submit(&entry);
  assert_breaks("an atomic at the end of its region");
  entry.u.request.offset = LENGTH - 8;
  submit(&entry);
  assert_int_equal(share_submit_take(&worker), 1);
}

static void pieces_that_break_a_rule_end_the_client(void **state)
{
  static const struct {
    const char *what;
    struct pst_share_one_piece pair[2];
  } wrong[] = {
      {"a sum above the length", {{.length = 60, .mr = ALL}, {.length = 41, .mr = ALL}}},
      {"a sum below it", {{.length = 60, .mr = ALL}, {.length = 39, .mr = ALL}}},
      {"a sum that wraps", {{.length = 101, .mr = ALL}, {.length = UINT64_MAX, .mr = ALL}}},
      {"no region", {{.length = 60, .mr = ALL}, {.length = 40}}},
      {"another right", {{.length = 60, .mr = ALL}, {.length = 40, .mr = WRITE_ONLY}}},
      {"a region that is gone", {{.length = 60, .mr = GONE}, {.length = 40, .mr = ALL}}},
      {"beyond the region", {{.length = 60, .mr = ALL}, {.offset = 4057, .length = 40, .mr = ALL}}},
      {"an offset that wraps",
       {{.length = 60, .mr = ALL}, {.offset = UINT64_MAX - 20, .length = 40, .mr = ALL}}},
  };

  (void)state;
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    struct pst_share_entry entry = a_send();
    entry.piece_count = 2;
    submit(&entry);
    submit(wrong[i].pair);
    assert_breaks(wrong[i].what);
  }
}

static void no_more_than_the_queue_holds_is_taken(void **state)
{
  const struct pst_share_entry entry = a_send();

  (void)state;
  for (uint32_t i = 0; i < REQUESTS; i++)
    submit(&entry);
  assert_int_equal(share_submit_take(&worker), REQUESTS);
  submit(&entry);
  assert_int_equal(share_submit_take(&worker), 0);
  assert_true(client.is_broken);
  assert_int_equal(endpoint->tail - endpoint->head, REQUESTS);
}

static void nothing_follows_a_close(void **state)
{
  const struct pst_share_entry entry = a_send();

  (void)state;
  endpoint->close_mode = PST_CLOSE_DRAIN;
  submit(&entry);
  assert_breaks("a request behind the close");
}

static void only_what_is_out_is_released(void **state)
{
  struct pst_share_entry entry = {.kind = PST_SHARE_RELEASE, .tokens = 1};

  (void)state;
  entry.u.tokens[0] = pst_token(ring.number, 0);
  submit(&entry);
  assert_breaks("a slot that is not out");
  entry.u.tokens[0] = pst_token(ring.number, 2);
  submit(&entry);
  assert_breaks("a slot beyond the ring");
  entry.u.tokens[0] = pst_token(ring.number + 1, 0);
  submit(&entry);
  assert_breaks("another ring");
  entry.tokens = 0;
  submit(&entry);
  assert_breaks("no token");
  entry.tokens = 8;
  submit(&entry);
  assert_breaks("more tokens than an entry has");
  const uint32_t slot = pst_slots_take(&ring.slots);
  ring.slots.out[slot] = 1;
  entry.tokens = 1;
  entry.u.tokens[0] = pst_token(ring.number, slot);
  submit(&entry);
  assert_int_equal(share_submit_take(&worker), 1);
  submit(&entry);
  assert_breaks("the same once more");
}

static void impossible_positions_end_the_client(void **state)
{
  (void)state;
  worker.page->submit_tail = PST_SHARE_ENTRIES + 1;
  assert_breaks("more than the submission ring holds");
  worker.page->submit_tail = UINT32_MAX;
  assert_breaks("a tail before the head");
  worker.page->complete_head = 1; /* nothing was completed */
  worker.complete_tail = PST_SHARE_ENTRIES;
  assert_true(share_complete_has_room(&worker, 1));
  worker.complete_head = worker.complete_tail = 0;
  worker.page->complete_head = 1;
  worker.complete_tail = 0;
  assert_false(share_complete_has_room(&worker, PST_SHARE_ENTRIES + 1));
  assert_true(client.is_broken);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
  const struct CMUnitTest cases[] = {
      CASE(what_is_right_is_queued),
      CASE(a_request_that_breaks_a_rule_ends_the_client),
      CASE(an_atomic_has_eight_bytes),
      CASE(pieces_that_break_a_rule_end_the_client),
      CASE(no_more_than_the_queue_holds_is_taken),
      CASE(nothing_follows_a_close),
      CASE(only_what_is_out_is_released),
      CASE(impossible_positions_end_the_client),
  };
  return cmocka_run_group_tests(cases, NULL, NULL);
}
