/* SPDX-License-Identifier: Apache-2.0 */
/* pst_plugins_list(): all there is, usable or not. */
#include "support.h"

#include <errno.h>
#include <stdio.h>

#include "util/log.h"

struct entry {
  char name[32], path[512], reason[1600], remedy[256], version[8], shadowed_by[512];
  uint32_t kind;
  int status;
  bool is_described, has_libraries;
};

static struct entry entries[200];
static size_t count;
static char devices[4096];

static void on_plugin(void *context, const struct pst_plugin_info *info)
{
  struct entry *e = &entries[count++];

  assert_ptr_equal(context, &count);
  assert_true(count < 200);
  assert_int_equal(info->struct_size, sizeof(*info));
  snprintf(e->name, sizeof(e->name), "%s", info->name);
  snprintf(e->version, sizeof(e->version), "%s", info->version);
  snprintf(e->path, sizeof(e->path), "%s", info->path);
  snprintf(e->reason, sizeof(e->reason), "%s", info->reason);
  snprintf(e->remedy, sizeof(e->remedy), "%s", info->remedy);
  snprintf(e->shadowed_by, sizeof(e->shadowed_by), "%s", info->shadowed_by);
  e->kind = info->kind;
  e->status = info->status;
  e->is_described = info->described;
  e->has_libraries = info->libraries[0] != NULL;
}

/* Devices follow their plugin. */
static void on_device(void *context, const char *name, const char *detail)
{
  size_t used = strlen(devices);

  assert_ptr_equal(context, &count);
  snprintf(devices + used, sizeof(devices) - used, "%s/%s/%s\n", entries[count - 1].name, name,
           detail);
}

static const struct entry *find(uint32_t kind, const char *name)
{
  const struct entry *found = NULL;

  for (size_t i = 0; i < count; i++) {
    if (entries[i].kind == kind && strcmp(entries[i].name, name) == 0) {
      assert_null(found);
      found = &entries[i];
    }
  }
  assert_non_null(found);
  return found;
}

static int list_all(void **state)
{
  (void)state;
  log_capture_to(PST_LOG_INFO);
  count = 0;
  devices[0] = '\0';
  return pst_plugins_list(on_plugin, on_device, &count);
}

static void test_usable(void **state)
{
  const struct entry *e = find(PST_KIND_TRANSPORT, "good");

  (void)state;
  assert_int_equal(e->status, 0);
  assert_string_equal(e->path, PST_FIXTURES "/transport-good.so");
  assert_string_equal(e->reason, "");
  assert_string_equal(e->remedy, "");
  assert_string_equal(e->shadowed_by, "");
  assert_string_equal(e->version, "1");
  assert_false(e->is_described);
  assert_false(e->has_libraries);
  assert_non_null(strstr(devices, "good/fixture0/a device of good\n"));
}

static void test_unusable_here(void **state)
{
  const struct entry *e = find(PST_KIND_TRANSPORT, "unusable");

  (void)state;
  assert_int_equal(e->status, -ENODEV);
  assert_string_equal(e->path, PST_FIXTURES "/transport-unusable.so");
  assert_string_equal(e->reason, "no such hardware");
  assert_string_equal(e->remedy, "buy some");
  assert_null(strstr(devices, "unusable/"));
}

static void test_described_only(void **state)
{
  const struct entry *e = find(PST_KIND_TRANSPORT, "described");

  (void)state;
  assert_int_equal(e->status, -ENOENT);
  assert_true(e->is_described);
  assert_string_equal(e->path, PST_FIXTURES "/transport-described.desc.so");
  assert_string_equal(e->reason, "known but not built here");
  assert_string_equal(e->remedy, "it needs libfixture and a device of that kind");
}

static void test_rejected(void **state)
{
  const struct entry *e = find(PST_KIND_TRANSPORT, "no_post");

  (void)state;
  assert_int_equal(e->status, -EPROTO);
  assert_false(e->is_described);
  assert_string_equal(e->path, "");
  assert_string_equal(e->reason,
                      PST_FIXTURES "/transport-no_post.so: the mandatory op post is NULL");
}

static void test_all_kinds(void **state)
{
  (void)state;
  assert_int_equal(find(PST_KIND_FILTER, "good")->status, 0);
  assert_int_equal(find(PST_KIND_MEMORY, "heap")->status, 0);
  assert_string_equal(log_text(), "");
}

static void test_shadowed(void **state)
{
  static const char used[] = PST_FIXTURES "/transport-twin.so";
  char *folder = scratch_new(), *path;
  int twins = 0;

  path = strdup(scratch_copy(folder, "transport-twin.so", "transport-twin.so", 0, -1, 0));
  assert_int_equal(pst_plugin_path_add(folder), 0);
  assert_int_equal(list_all(state), 0);
  /* The other one was loaded before that folder was named. */
  for (size_t i = 0; i < count; i++) {
    if (strcmp(entries[i].name, "twin") != 0)
      continue;
    twins++;
    if (entries[i].status == 0) {
      assert_string_equal(entries[i].path, used);
      assert_string_equal(entries[i].shadowed_by, "");
      continue;
    }
    assert_int_equal(entries[i].status, -EEXIST);
    assert_false(entries[i].is_described);
    assert_string_equal(entries[i].path, path);
    assert_string_equal(entries[i].shadowed_by, used);
    assert_string_equal(entries[i].reason, "shadowed by " PST_FIXTURES "/transport-twin.so");
  }
  assert_int_equal(twins, 2);
  free(path);
  scratch_free(folder);
}

static void test_no_callbacks(void **state)
{
  (void)state;
  assert_int_equal(pst_plugins_list(NULL, NULL, NULL), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_usable),         cmocka_unit_test(test_unusable_here),
      cmocka_unit_test(test_described_only), cmocka_unit_test(test_rejected),
      cmocka_unit_test(test_all_kinds),      cmocka_unit_test(test_shadowed),
      cmocka_unit_test(test_no_callbacks),
  };

  unsetenv("PENSTOCK_PLUGIN_PATH");
  return cmocka_run_group_tests(tests, list_all, NULL) ? 1 : 0;
}
