/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that a plugin does not have. */
#include "support.h"

#include <errno.h>

#include "loader/loader.h"
#include "loader/ops.h"

static const struct loader_plugin *load(uint32_t kind, const char *name)
{
  const struct loader_plugin *plugin = NULL;
  struct pst_error error = PST_ERROR_INIT;

  log_capture();
  if (loader_load(kind, name, &plugin, &error) < 0)
    fail_msg("%s", error.text);
  return plugin;
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
  assert_int_equal(ops->describe(NULL, text, sizeof(text)), -EOPNOTSUPP);
  assert_string_equal(text, "as was");
  ops->ring_close(NULL, NULL);
  ops->remote_close(NULL, NULL);
}

/* Every pointer of both tables is set, however little a plugin has. */
static void expect_full(const void *ops, size_t size)
{
  void (*const *at)(void) = (void (*const *)(void))((const char *)ops + sizeof(struct ops_head));

  for (size_t i = 0; i < (size - sizeof(struct ops_head)) / sizeof(*at); i++)
    assert_true(at[i] != NULL);
}

static void test_no_pointer_is_null(void **state)
{
  const struct pst_transport_ops no_transport = {.struct_size = sizeof(no_transport)};
  const struct pst_memory_ops no_memory = {.struct_size = sizeof(no_memory)};
  struct pst_transport_ops transport;
  struct pst_memory_ops memory;

  (void)state;
  ops_overlay_transport(&no_transport, &transport);
  ops_overlay_memory(&no_memory, &memory);
  expect_full(&transport, sizeof(transport));
  expect_full(&memory, sizeof(memory));
  assert_int_equal(transport.poll(NULL, NULL, 0), -EOPNOTSUPP);
  assert_int_equal(memory.open(NULL, NULL, NULL), -EOPNOTSUPP);
}

/* A plugin's own calls are not replaced, and its announced capabilities have their calls. */
static void test_no_call_is_replaced(void **state)
{
  struct pst_transport_ops transport, transport_out;
  struct pst_memory_ops memory, memory_out;

  (void)state;
  memset(&transport, 0x55, sizeof(transport));
  memset(&memory, 0x55, sizeof(memory));
  transport.struct_size = sizeof(transport);
  memory.struct_size = sizeof(memory);
  ops_overlay_transport(&transport, &transport_out);
  ops_overlay_memory(&memory, &memory_out);
  assert_int_equal(transport_out.capabilities, transport.capabilities);
  assert_int_equal(memory_out.capabilities, memory.capabilities);
  assert_memory_equal(&transport_out.open, &transport.open,
                      sizeof(transport) - offsetof(struct pst_transport_ops, open));
  assert_memory_equal(&memory_out.open, &memory.open,
                      sizeof(memory) - offsetof(struct pst_memory_ops, open));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gaps_refuse),
      cmocka_unit_test(test_no_pointer_is_null),
      cmocka_unit_test(test_no_call_is_replaced),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
