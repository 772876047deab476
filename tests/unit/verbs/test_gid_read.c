/* SPDX-License-Identifier: Apache-2.0 */
/* The GID table as it is read, of an rdma-core that has ibv_query_gid_table() and of one that lacks
 * it, whose entries' types and netdevs are the kernel's files. */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "gid.h"

#define LENGTH 6

static struct {
  bool has_table;
  int table_error; /* of the call, where it is there */
  int port_error;
  int asked; /* calls of ibv_query_gid() */
  struct vb_gid at[LENGTH];
} fake;

static struct ibv_device device;
static struct ibv_context context = {.device = &device};
static struct vb_gid table[VB_GIDS_MAX];

/* ---- The library ------------------------------------------------------------------------- */

static ssize_t query_table(struct ibv_context *of, struct ibv_gid_entry *entries, size_t max,
                           uint32_t flags, size_t size)
{
  size_t count = 0;
  assert_ptr_equal(of, &context);
  assert_int_equal(size, sizeof(*entries));
  assert_int_equal(flags, 0);
  if (fake.table_error)
    return fake.table_error;
  for (uint32_t port = 1; port <= 2; port++)
    for (size_t i = 0; i < LENGTH && count < max; i++) {
      entries[count] = (struct ibv_gid_entry){.gid_index = fake.at[i].index,
                                              .port_num = port,
                                              .gid_type = fake.at[i].type,
                                              .ndev_ifindex = fake.at[i].netdev};
      memcpy(entries[count].gid.raw, fake.at[i].raw, 16);
      count += port == 2 || i < 2; /* the first port has two */
    }
  return (ssize_t)count;
}

/* By --wrap. */
void *__wrap_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name)
{
  void *found = NULL;
  assert_ptr_equal(handle, RTLD_DEFAULT);
  assert_string_equal(name, "_ibv_query_gid_table");
  if (fake.has_table)
    *(__typeof__(&query_table) *)&found = query_table;
  return found;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *of, uint8_t port, struct _compat_ibv_port_attr *attr)
{
  assert_ptr_equal(of, &context);
  assert_int_equal(port, 2);
  ((struct ibv_port_attr *)attr)->gid_tbl_len = LENGTH;
  return fake.port_error;
}

int ibv_query_gid(struct ibv_context *of, uint8_t port, int index, union ibv_gid *gid)
{
  assert_ptr_equal(of, &context);
  assert_int_equal(port, 2);
  assert_in_range(index, 0, LENGTH - 1);
  fake.asked++;
  memset(gid, 0, sizeof(*gid));
  for (size_t i = 0; i < LENGTH; i++)
    if (fake.at[i].index == (uint32_t)index)
      memcpy(gid->raw, fake.at[i].raw, 16);
  return index == 4 ? -1 : 0; /* the kernel gives none */
}

/* ---- The kernel's files ------------------------------------------------------------------ */

static void make_file(const char *what, uint32_t index, const char *text)
{
  char path[600];
  snprintf(path, sizeof(path), "%s/ports/2/gid_attrs/%s/%u", device.ibdev_path, what, index);
  FILE *file = fopen(path, "we");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

static int make_folders(void **state)
{
  static const char *const folders[] = {"",
                                        "/ports",
                                        "/ports/2",
                                        "/ports/2/gid_attrs",
                                        "/ports/2/gid_attrs/types",
                                        "/ports/2/gid_attrs/ndevs"};
  char path[600];
  (void)state;
  snprintf(device.ibdev_path, sizeof(device.ibdev_path), "/tmp/test_gid_read-XXXXXX");
  if (!mkdtemp(device.ibdev_path))
    return -1;
  for (size_t i = 1; i < sizeof(folders) / sizeof(folders[0]); i++) {
    snprintf(path, sizeof(path), "%s%s", device.ibdev_path, folders[i]);
    if (mkdir(path, 0700) != 0)
      return -1;
  }
  return 0;
}

static int remove_folders(void **state)
{
  char command[320];
  (void)state;
  snprintf(command, sizeof(command), "rm -r %s", device.ibdev_path);
  return system(command); // NOLINT: a folder of our own
}

static void set(uint32_t at, uint32_t type, const char *netdev, const char *address)
{
  static const char *const types[] = {"IB/RoCE v1\n", "IB/RoCE v1\n", "RoCE v2\n"};
  char line[64];
  fake.at[at] = (struct vb_gid){.index = at, .type = type, .netdev = if_nametoindex(netdev)};
  assert_true(vb_gid_parse(address, fake.at[at].raw));
  make_file("types", at, types[type]);
  snprintf(line, sizeof(line), "%s\n", netdev);
  make_file("ndevs", at, line);
}

/* Two addresses, each for both RoCE versions, and an empty entry; `lo` is a netdev that is there.
 */
static int reset(void **state)
{
  (void)state;
  memset(&fake, 0, sizeof(fake));
  memset(table, 0x5a, sizeof(table));
  set(0, VB_GID_ROCE_V1, "lo", "192.0.2.1");
  set(1, VB_GID_ROCE_V2, "lo", "192.0.2.1");
  set(2, VB_GID_ROCE_V1, "nosuch0", "2001:db8::1");
  set(3, VB_GID_ROCE_V2, "nosuch0", "2001:db8::1");
  set(4, VB_GID_ROCE_V2, "lo", "198.51.100.1");
  memset(fake.at[5].raw, 0, 16);
  fake.at[5].index = 5;
  return 0;
}

/* ---- Tests ----------------------------------------------------------------------------------- */

static void assert_entries(int count, int expected)
{
  assert_int_equal(count, expected);
  for (int i = 0; i < expected; i++) {
    assert_int_equal(table[i].index, fake.at[i].index);
    assert_int_equal(table[i].type, fake.at[i].type);
    assert_int_equal(table[i].netdev, fake.at[i].netdev);
    assert_memory_equal(table[i].raw, fake.at[i].raw, 16);
  }
}

static void by_the_table(void **state)
{
  (void)state;
  fake.has_table = true;
  /* The GIDs of this port alone, without the empty one. */
  assert_entries(vb_gid_read(&context, 2, true, table), 5);
  assert_int_equal(fake.asked, 0);
  fake.table_error = -EIO;
  assert_int_equal(vb_gid_read(&context, 2, true, table), -EIO);
}

static void one_by_one_where_the_library_has_no_table(void **state)
{
  (void)state;
  /* The one that the kernel does not give is missing. */
  assert_entries(vb_gid_read(&context, 2, true, table), 4);
  assert_int_equal(fake.asked, LENGTH);
  assert_int_not_equal(table[0].netdev, 0);
  assert_int_equal(table[2].netdev, 0); /* of a netdev that is gone */
}

static void one_by_one_where_the_kernel_has_no_table(void **state)
{
  (void)state;
  fake.has_table = true;
  fake.table_error = -EOPNOTSUPP;
  assert_entries(vb_gid_read(&context, 2, true, table), 4);
}

/* The table is of all ports together, and given as a whole or not at all. */
static void one_by_one_where_all_ports_have_too_many(void **state)
{
  (void)state;
  fake.has_table = true;
  fake.table_error = -EINVAL;
  assert_entries(vb_gid_read(&context, 2, true, table), 4);
}

/* Both ways of reading the table lead to the same choice. */
static void the_choice_is_the_same(void **state)
{
  (void)state;
  struct vb_gid_request requested = {.is_ethernet = true, .index = -1};
  char reason[256];
  for (int has_table = 0; has_table < 2; has_table++) {
    uint32_t at = 99;
    fake.has_table = has_table;
    int count = vb_gid_read(&context, 2, true, table);
    assert_int_equal(vb_gid_choose(table, (uint32_t)count, &requested, &at, reason, sizeof(reason)),
                     0);
    assert_int_equal(table[at].index, 1);
  }
}

static void without_files_it_is_the_older_version(void **state)
{
  char path[600];
  (void)state;
  snprintf(path, sizeof(path), "%s/ports/2/gid_attrs/types/1", device.ibdev_path);
  assert_int_equal(unlink(path), 0);
  fake.at[1].type = VB_GID_ROCE_V1;
  assert_entries(vb_gid_read(&context, 2, true, table), 4);
}

static void infiniband_has_no_versions(void **state)
{
  (void)state;
  for (size_t i = 0; i < LENGTH; i++)
    fake.at[i].type = VB_GID_IB;
  assert_entries(vb_gid_read(&context, 2, false, table), 4);
}

static void a_port_that_does_not_answer(void **state)
{
  (void)state;
  fake.port_error = ENODEV;
  assert_int_equal(vb_gid_read(&context, 2, true, table), -EIO);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(by_the_table, reset),
      cmocka_unit_test_setup(one_by_one_where_the_library_has_no_table, reset),
      cmocka_unit_test_setup(one_by_one_where_the_kernel_has_no_table, reset),
      cmocka_unit_test_setup(one_by_one_where_all_ports_have_too_many, reset),
      cmocka_unit_test_setup(the_choice_is_the_same, reset),
      cmocka_unit_test_setup(without_files_it_is_the_older_version, reset),
      cmocka_unit_test_setup(infiniband_has_no_versions, reset),
      cmocka_unit_test_setup(a_port_that_does_not_answer, reset),
  };
  return cmocka_run_group_tests(tests, make_folders, remove_folders) ? 1 : 0;
}
