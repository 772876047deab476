/* SPDX-License-Identifier: Apache-2.0 */
/* On a machine of larger pages, what core allocates begins at one. */
#include "support.h"

#include <dlfcn.h>
#include <unistd.h>

/* A ring is small beside a page: by chance it begins at one once in hundreds of times. */
enum { PAGE = 16 << 20, RING_BYTES = 16 * 2048 };

/* Stands before that of the C library. Plugins see the machine's: they map memory. */
__attribute__((visibility("default"))) long sysconf(int name)
{
  long (*real)(int);
  Dl_info caller;

  if (name == _SC_PAGESIZE && dladdr(__builtin_return_address(0), &caller) &&
      strstr(caller.dli_fname, "/libpenstock.so"))
    return PAGE;
  *(void **)&real = dlsym(RTLD_NEXT, "sysconf");
  return real(name);
}

static void expect_slots(const char *text)
{
  struct run run;
  struct pst_slot slot;
  struct pst_view views[BATCH];
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = BATCH, .views = views};

  open_text(&run, text);
  start(&run);
  struct pst_sender *sender = pst_session_sender(run.session, "packets");
  struct pst_receiver *receiver = pst_session_receiver(run.session, "packets");
  while (pst_sender_acquire(sender, &slot, 1) != 1) {
    pst_sender_poll(sender);
    pst_receiver_poll(receiver, &batch);
    in_time(&run);
  }
  assert_true(slot.address % PAGE < RING_BYTES);
  slot.length = 100;
  assert_int_equal(pst_sender_submit(sender, &slot, 1), 0);
  int n;

  while ((n = pst_receiver_poll(receiver, &batch)) == 0) {
    pst_sender_poll(sender);
    in_time(&run);
  }
  assert_int_equal(n, 1);
  assert_true(views[0].address % PAGE < RING_BYTES);
  assert_int_equal(pst_receiver_release(receiver, views, 1), 0);
  close_run(&run);
}

#define STREAM(receiver)                                                                           \
  "penstock: 1\n"                                                                                  \
  "transport: {plugin: loopback, options: {mode: copy}}\n"                                         \
  "threads: {count: 1}\n"                                                                          \
  "streams:\n"                                                                                     \
  "  - name: packets\n"                                                                            \
  "    message: 1462 B\n"                                                                          \
  "    ring: 16\n"                                                                                 \
  "    receiver: " receiver "\n"

static void slots_begin_at_a_page(void **state)
{
  (void)state;
  expect_slots(STREAM("{memory: host}"));
}

static void staged_slots_begin_at_a_page(void **state)
{
  (void)state;
  expect_slots(STREAM("{memory: host, path: staged}"));
}

static void an_area_of_a_node_begins_at_a_page(void **state)
{
  const struct pst_node_params params = {.struct_size = sizeof(params), .transport = "loopback"};
  const struct pst_area_params wanted = {.struct_size = sizeof(wanted), .length = 100000};
  struct pst_error error = PST_ERROR_INIT;
  struct pst_range range = {.struct_size = sizeof(range)};
  struct pst_node *node;
  struct pst_area *area;

  (void)state;
  assert_int_equal(pst_node_open(&params, &node, &error), 0);
  assert_int_equal(pst_node_alloc(node, &wanted, &area, &error), 0);
  assert_int_equal(pst_area_range(area, &range), 0);
  assert_int_equal(range.address % PAGE, 0);
  assert_int_equal(pst_area_free(area), 0);
  pst_node_close(node);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slots_begin_at_a_page),
      cmocka_unit_test(staged_slots_begin_at_a_page),
      cmocka_unit_test(an_area_of_a_node_begins_at_a_page),
  };

  return cmocka_run_group_tests(tests, use_fakes, NULL);
}
