/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of other minors, and calls that a plugin does not have. */
#include "support.h"

#include <errno.h>

#include "loader/internal.h"

static const struct loader_plugin *load(uint32_t kind, const char *name)
{
  const struct loader_plugin *plugin = NULL;
  struct pst_error error = PST_ERROR_INIT;

  log_capture();
  if (loader_load(kind, name, &plugin, &error) < 0)
    fail_msg("%s", error.text);
  return plugin;
}

/* Its table ends before fence_record: what lies behind it is never read. */
static void test_older_minor(void **state)
{
  const struct pst_memory_ops *ops = load(PST_KIND_MEMORY, "older")->memory;
  struct pst_fence *fence = NULL;

  (void)state;
  assert_int_equal(ops->struct_size, sizeof *ops);
  assert_int_equal(ops->alloc(NULL, NULL, NULL), -ENOMEM);
  assert_int_equal(ops->fence_record(NULL, NULL, NULL, &fence), -EOPNOTSUPP);
  /* The fixture has a flush that answers 0, past its struct_size. */
  assert_int_equal(ops->flush(NULL, NULL), -EOPNOTSUPP);
  assert_null(fence);
}

static void test_newer_minor(void **state)
{
  const struct loader_plugin *plugin = load(PST_KIND_TRANSPORT, "newer");
  const struct pst_transport_ops *theirs = plugin->plugin->ops;

  (void)state;
  assert_true(theirs->struct_size > sizeof *theirs);
  assert_int_equal(plugin->transport->struct_size, sizeof *theirs);
  assert_int_equal(plugin->transport->post(NULL, NULL, 5, NULL), 5);
}

static void test_gaps_refuse(void **state)
{
  const struct pst_transport_ops *ops = load(PST_KIND_TRANSPORT, "good")->transport;
  uint64_t token = 1;
  char text[8] = "as was";

  (void)state;
  assert_int_equal(ops->post(NULL, NULL, 3, NULL), 3);
  assert_int_equal(ops->release(NULL, &token, 1), -EOPNOTSUPP);
  assert_int_equal(ops->ring_open(NULL, NULL, NULL, NULL), -EOPNOTSUPP);
  assert_int_equal(ops->start(NULL), -EOPNOTSUPP);
  assert_int_equal(ops->arm(NULL), -EOPNOTSUPP);
  assert_int_equal(ops->event_fd(NULL), -EOPNOTSUPP);
  assert_int_equal(ops->counters(NULL, NULL, NULL, NULL, 0), -EOPNOTSUPP);
  assert_int_equal(ops->describe(NULL, text, sizeof text), -EOPNOTSUPP);
  assert_string_equal(text, "as was");
  ops->ring_close(NULL, NULL);
  ops->remote_close(NULL, NULL);
}

/* Every pointer of both tables is set, however little a plugin has. */
static void expect_full(const void *ops, size_t size)
{
  void (*const *at)(void) = (void (*const *)(void))((const char *)ops + sizeof(struct ops_head));

  for (size_t i = 0; i < (size - sizeof(struct ops_head)) / sizeof *at; i++)
    assert_true(at[i] != NULL);
}

static void test_no_pointer_is_null(void **state)
{
  const struct pst_transport_ops no_transport = {.struct_size = sizeof(struct ops_head)};
  const struct pst_memory_ops no_memory = {.struct_size = sizeof(struct ops_head)};
  struct pst_transport_ops transport;
  struct pst_memory_ops memory;

  (void)state;
  overlay_transport(&no_transport, &transport);
  overlay_memory(&no_memory, &memory);
  expect_full(&transport, sizeof transport);
  expect_full(&memory, sizeof memory);
  assert_int_equal(transport.poll(NULL, NULL, 0), -EOPNOTSUPP);
  assert_int_equal(memory.open(NULL, NULL, NULL), -EOPNOTSUPP);
}

/* However early a plugin's table ends, the calls before its end are the plugin's and
 * those behind it are the refusals, whatever lies there. */
static void expect_cut(const char *theirs, const char *refusals, const char *ours, size_t size,
                       size_t end)
{
  for (size_t at = sizeof(struct ops_head); at < size; at += sizeof(void *))
    assert_memory_equal(ours + at, (at + sizeof(void *) <= end ? theirs : refusals) + at,
                        sizeof(void *));
}

static void test_every_end(void **state)
{
  struct pst_transport_ops transport, no_transport = {.struct_size = sizeof(struct ops_head)};
  struct pst_memory_ops memory, no_memory = {.struct_size = sizeof(struct ops_head)};
  struct pst_transport_ops transport_out, transport_refusals;
  struct pst_memory_ops memory_out, memory_refusals;

  (void)state;
  overlay_transport(&no_transport, &transport_refusals);
  overlay_memory(&no_memory, &memory_refusals);
  memset(&transport, 0x55, sizeof transport);
  memset(&memory, 0x55, sizeof memory);
  for (uint32_t end = sizeof(struct ops_head); end <= sizeof transport; end++) {
    transport.struct_size = end;
    overlay_transport(&transport, &transport_out);
    expect_cut((char *)&transport, (char *)&transport_refusals, (char *)&transport_out,
               sizeof transport, end);
  }
  for (uint32_t end = sizeof(struct ops_head); end <= sizeof memory; end++) {
    memory.struct_size = end;
    overlay_memory(&memory, &memory_out);
    expect_cut((char *)&memory, (char *)&memory_refusals, (char *)&memory_out, sizeof memory, end);
  }
}

/* A struct_size that ends inside a pointer does not give half of one. */
static void test_size_within_a_pointer(void **state)
{
  struct pst_memory_ops theirs, ours;

  (void)state;
  memset(&theirs, 0x55, sizeof theirs);
  theirs.struct_size = offsetof(struct pst_memory_ops, open) + 4;
  theirs.capabilities = 3;
  overlay_memory(&theirs, &ours);
  assert_int_equal(ours.open(NULL, NULL, NULL), -EOPNOTSUPP);
  assert_int_equal(ours.capabilities, 3);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_older_minor),           cmocka_unit_test(test_newer_minor),
      cmocka_unit_test(test_gaps_refuse),           cmocka_unit_test(test_no_pointer_is_null),
      cmocka_unit_test(test_size_within_a_pointer), cmocka_unit_test(test_every_end),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
