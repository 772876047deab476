/* SPDX-License-Identifier: Apache-2.0 */
/* The services that a plugin gets. */
#include "support.h"

#include <dlfcn.h>
#include <errno.h>

#include "config/options.h"
#include "util/clock.h"
#include "util/log.h"

static const struct loader_plugin *plugin;

static int setup(void **state)
{
  (void)state;
  log_capture();
  return loader_load(PST_KIND_TRANSPORT, "good", &plugin, NULL);
}

static void test_log_names_the_plugin(void **state)
{
  (void)state;
  log_capture();
  errno = ENOSPC;
  plugin->host->log(plugin->host, PST_LOG_ERROR, "%s is %d deep\nand gone", "it", 7);
  assert_int_equal(errno, ENOSPC);
  assert_string_equal(log_text(), "transport good: it is 7 deep and gone\n");
  assert_string_equal(pst_log_last_error(), "transport good: it is 7 deep and gone");
}

static void test_clock(void **state)
{
  uint64_t before = clock_now_ns(), now = plugin->host->clock_ns(plugin->host);

  (void)state;
  assert_true(now >= before && now <= clock_now_ns());
}

static void test_table_is_whole(void **state)
{
  (void)state;
  assert_int_equal(plugin->host->struct_size, sizeof(struct pst_host));
  assert_ptr_equal(plugin->host->option_uint, options_get_uint);
  assert_ptr_equal(plugin->host->option_string, options_get_string);
  assert_ptr_equal(plugin->host->option_item, options_get_item);
  assert_ptr_equal(plugin->host->option_is_set, options_is_set);
}

/* ---- Vendor libraries -------------------------------------------------------- */

static void test_library_open(void **state)
{
  const char *const *before = loader_libraries(plugin);
  void *handle = NULL, *again_handle;

  (void)state;
  assert_null(before[0]);
  assert_int_equal(
      plugin->host->library_open(plugin->host, PST_FIXTURES "/libfixture_lender.so", &handle), 0);
  assert_non_null(dlsym(handle, PST_PLUGIN_SYMBOL));
  assert_string_equal(loader_libraries(plugin)[0], PST_FIXTURES "/libfixture_lender.so");
  assert_null(loader_libraries(plugin)[1]);
  /* A list that was returned before does not change. */
  assert_null(before[0]);
  assert_int_equal(plugin->host->library_open(
                       plugin->host, PST_FIXTURES "/../abi/libfixture_lender.so", &again_handle),
                   0);
  assert_ptr_equal(handle, again_handle);
  assert_null(loader_libraries(plugin)[1]);
}

/* Those it was linked with, without the C library's. */
static void test_libraries_linked(void **state)
{
  const struct loader_plugin *linked;

  (void)state;
  assert_int_equal(loader_load(PST_KIND_TRANSPORT, "linked", &linked, NULL), 0);
  assert_string_equal(loader_libraries(linked)[0], PST_FIXTURES "/libfixture_vendor.so");
  assert_null(loader_libraries(linked)[1]);
}

static void test_library_absent(void **state)
{
  void *handle = (void *)&plugin;

  (void)state;
  pst_log_set(NULL, NULL, PST_LOG_INFO);
  log_capture();
  errno = ENOSPC;
  assert_int_equal(plugin->host->library_open(plugin->host, "libfixture_nowhere.so.9", &handle),
                   -ENOENT);
  assert_int_equal(errno, ENOSPC);
  assert_ptr_equal(handle, &plugin);
  assert_null(strstr(log_text(), "error"));
  assert_int_equal(plugin->host->library_open(plugin->host, "", &handle), -ENOENT);
  assert_int_equal(plugin->host->library_open(plugin->host, NULL, &handle), -ENOENT);
}

/* ---- Exports -------------------------------------------------------------------- */

static int exported;

static int fake_export(struct pst_memory *memory, const struct pst_region *region, uint32_t kind,
                       uint64_t offset, uint64_t length, struct pst_export *out)
{
  assert_ptr_equal(memory, region->memory);
  exported++;
  out->kind = kind;
  out->offset = offset;
  out->length = length;
  return 0;
}

static void test_region_export(void **state)
{
  static const struct pst_memory_ops ops = {.struct_size = sizeof(ops),
                                            .export_region = fake_export};
  struct pst_memory *memory = (struct pst_memory *)&exported;
  struct pst_region region = {
      .struct_size = sizeof(region), .exports = PST_EXPORT_FD, .memory = memory};
  struct pst_export out = {.struct_size = sizeof(out)};
  const struct pst_host *host = plugin->host;

  (void)state;
  assert_int_equal(host->region_export(host, &region, PST_EXPORT_FD, 1, 2, &out), -EOPNOTSUPP);
  assert_int_equal(loader_memory_add(memory, &ops), 0);
  assert_int_equal(host->region_export(host, &region, PST_EXPORT_FD, 1, 2, &out), 0);
  assert_int_equal(out.offset, 1);
  assert_int_equal(out.length, 2);
  assert_int_equal(host->region_export(host, &region, PST_EXPORT_DMABUF, 1, 2, &out), -EOPNOTSUPP);
  assert_int_equal(host->region_export(host, &region, 0, 1, 2, &out), -EINVAL);
  assert_int_equal(host->region_export(host, &region, PST_EXPORT_FD | PST_EXPORT_IPC, 1, 2, &out),
                   -EINVAL);
  loader_memory_remove(memory);
  assert_int_equal(host->region_export(host, &region, PST_EXPORT_FD, 1, 2, &out), -EOPNOTSUPP);
  loader_memory_remove(memory);
  assert_int_equal(exported, 1);
}

static int imported, freed;

static int fake_import(struct pst_memory *memory, const struct pst_export *from,
                       struct pst_region *region)
{
  imported++;
  region->memory = memory;
  region->length = from->length;
  return 0;
}

static void fake_free(struct pst_memory *memory, struct pst_region *region)
{
  assert_ptr_equal(memory, region->memory);
  freed++;
}

static void test_region_import(void **state)
{
  static const struct pst_memory_ops ops = {
      .struct_size = sizeof(ops), .import_region = fake_import, .free_region = fake_free};
  struct pst_memory *memory = (struct pst_memory *)&imported;
  struct pst_region near = {.struct_size = sizeof(near), .memory = memory};
  struct pst_region own = {.struct_size = sizeof(own)};
  struct pst_region far = {.struct_size = sizeof(far)};
  struct pst_export from = {.struct_size = sizeof(from), .length = 77};
  const struct pst_host *host = plugin->host;

  (void)state;
  assert_null(host->region_memory(host, &near));
  assert_int_equal(host->region_import(host, &near, &from, &far), -EOPNOTSUPP);
  assert_int_equal(loader_memory_add(memory, &ops), 0);
  assert_ptr_equal(host->region_memory(host, &near), &ops);
  assert_null(host->region_memory(host, &own));
  assert_int_equal(host->region_import(host, &own, &from, &far), -EOPNOTSUPP);
  assert_int_equal(imported, 0);
  assert_int_equal(host->region_import(host, &near, &from, &far), 0);
  assert_int_equal(far.length, 77);
  host->region_release(host, &far);
  assert_int_equal(freed, 1);
  host->region_release(host, &own);
  loader_memory_remove(memory);
  host->region_release(host, &far);
  assert_int_equal(freed, 1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_log_names_the_plugin), cmocka_unit_test(test_clock),
      cmocka_unit_test(test_table_is_whole),       cmocka_unit_test(test_library_open),
      cmocka_unit_test(test_libraries_linked),     cmocka_unit_test(test_library_absent),
      cmocka_unit_test(test_region_export),        cmocka_unit_test(test_region_import),
  };

  return cmocka_run_group_tests(tests, setup, NULL) ? 1 : 0;
}
