/* SPDX-License-Identifier: Apache-2.0 */
/* Handles of peers' memory: what is refused, and what a handle of another process maps. */
#include "support.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define RIGHTS (PST_ACCESS_REMOTE_READ | PST_ACCESS_REMOTE_WRITE)
#define FILE_BYTES 65536u

static uint8_t far_bytes[MEMORY];
static struct pst_mr *far_mr;
static struct lb_remote_blob bytes; /* one that is accepted */
static int32_t fds[2];

static int open_far(void **state)
{
  const struct pst_region region = {
      .struct_size = sizeof(region), .host = far_bytes, .length = MEMORY};
  reset(state);
  setup_rma(&fake_host);
  far_mr = register_region(&region, RIGHTS);
  pack(far_mr, &bytes);
  return 0;
}

static int close_far(void **state)
{
  lb_mr_deregister(rig.device, far_mr);
  return teardown(state);
}

static void refused(int code, const char *words)
{
  struct pst_remote *remote = NULL;
  fake_log_clear();
  assert_int_equal(open_remote(&bytes, &remote), code);
  assert_null(remote);
  assert_null(rig.sender->remotes);
  if (!strstr(fake_log(), words))
    fail_msg("\"%s\" is not in: %s", words, fake_log());
}

static void handle_gives_what_was_registered(void **state)
{
  struct pst_remote *remote = NULL;

  (void)state;
  assert_int_equal(open_remote(&bytes, &remote), 0);
  assert_ptr_equal(remote->base, far_bytes);
  assert_int_equal(remote->length, MEMORY);
  assert_int_equal(remote->access, RIGHTS);
  assert_int_equal(rig.sender->mapped, 0); /* nothing is mapped within a process */
  lb_remote_close(rig.sender, remote);
  assert_null(rig.sender->remotes);
  lb_remote_close(rig.sender, NULL);
}

static void what_is_no_handle_is_refused(void **state)
{
  const struct lb_remote_blob good = bytes;
  const struct pst_blob shorter = {
      .struct_size = sizeof(shorter), .length = sizeof(bytes) - 1, .bytes = &bytes};
  struct pst_remote *remote = NULL;

  (void)state;
  bytes.magic++;
  refused(-EPROTO, "not a memory handle of loopback");
  bytes = good;
  bytes.version++;
  refused(-EPROTO, "not a memory handle of loopback");
  bytes = good;
  bytes.access |= PST_ACCESS_LOCAL_WRITE;
  refused(-EPROTO, "not a memory handle of loopback");
  bytes = good;
  assert_int_equal(lb_remote_open(rig.sender, &shorter, &remote), -EPROTO);
}

static void rights_are_no_more_than_were_registered(void **state)
{
  (void)state;
  bytes.access |= PST_ACCESS_REMOTE_ATOMIC;
  refused(-EACCES, "not the peer's to offer");
}

static void withdrawn_memory_is_refused(void **state)
{
  (void)state;
  lb_mr_deregister(rig.device, far_mr);
  far_mr = NULL;
  refused(-EXDEV, "its registration has been withdrawn");
}

static void registration_without_remote_access_is_not_packed(void **state)
{
  struct pst_blob blob = {.struct_size = sizeof(blob), .capacity = sizeof(bytes), .bytes = &bytes};

  (void)state;
  assert_int_equal(lb_mr_pack(rig.device, rig.from, &blob), -EACCES);
}

static void handle_needs_a_peer(void **state)
{
  struct pst_endpoint *lone;
  struct pst_remote *remote = NULL;
  const struct pst_blob blob = {
      .struct_size = sizeof(blob), .length = sizeof(bytes), .bytes = &bytes};

  (void)state;
  assert_int_equal(open_endpoint(PST_ROLE_RMA, NULL, &lone), 0);
  assert_int_equal(lb_remote_open(lone, &blob, &remote), -ENOTCONN);
  assert_int_equal(lb_endpoint_close(rig.sender, PST_CLOSE_DRAIN, fake_clock_ns + 100), 0);
  assert_int_equal(open_remote(&bytes, &remote), -ENOTCONN);
}

/* ---- Another process's ------------------------------------------------------------------ */

static int file_of(uint64_t length)
{
  int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  assert_true(fd >= 0);
  assert_int_equal(ftruncate(fd, (off_t)length), 0);
  assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
  return fd;
}

static int open_other(void **state)
{
  open_far(state);
  bytes.nonce[0]++; /* another process's */
  bytes.kind = PST_EXPORT_FD;
  bytes.offset = 5000;
  bytes.length = FILE_BYTES - 5000;
  fds[LB_FD_VALID] = file_of(sizeof(struct lb_gate_page));
  fds[LB_FD_REGION] = file_of(FILE_BYTES);
  return 0;
}

static int close_other(void **state)
{
  close(fds[LB_FD_VALID]);
  close(fds[LB_FD_REGION]);
  return close_far(state);
}

static int open_with(uint32_t fd_count, struct pst_remote **remote)
{
  const struct pst_blob blob = {.struct_size = sizeof(blob),
                                .length = sizeof(bytes),
                                .bytes = &bytes,
                                .fds = {fds[0], fds[1]},
                                .fd_count = fd_count};
  fake_log_clear();
  return lb_remote_open(rig.sender, &blob, remote);
}

static void other_refused(int code, uint32_t fd_count, const char *words)
{
  struct pst_remote *remote = NULL;
  assert_int_equal(open_with(fd_count, &remote), code);
  assert_null(remote);
  assert_null(rig.sender->remotes);
  assert_int_equal(rig.sender->mapped, 0);
  if (!strstr(fake_log(), words))
    fail_msg("\"%s\" is not in: %s", words, fake_log());
}

static void file_of_another_process_is_mapped(void **state)
{
  struct pst_remote *remote = NULL;
  uint8_t byte = 0;

  (void)state;
  assert_int_equal(open_with(2, &remote), 0);
  remote->base[remote->length - 1] = 7;
  assert_int_equal(pread(fds[LB_FD_REGION], &byte, 1, FILE_BYTES - 1), 1);
  assert_int_equal(byte, 7);
  assert_int_equal(rig.sender->mapped, remote->region_map.bytes);
  assert_non_null(remote->seat);
  assert_false(lb_seat_in(remote, true)); /* its owner has not opened the gate */
  remote->gate->open = 1;
  assert_true(lb_seat_in(remote, true));
  lb_seat_out(remote);
  lb_remote_close(rig.sender, remote);
  assert_int_equal(rig.sender->mapped, 0);
}

static void handle_of_another_process_comes_with_its_descriptors(void **state)
{
  (void)state;
  other_refused(-EXDEV, 0, "without its descriptors");
  other_refused(-EXDEV, 1, "without its descriptors");
  bytes.kind = 0;
  other_refused(-EPROTO, 2, "not for other processes");
  bytes.kind = PST_EXPORT_FD | PST_EXPORT_IPC;
  other_refused(-EPROTO, 2, "not for other processes");
}

static void range_lies_in_its_file(void **state)
{
  (void)state;
  bytes.length++;
  other_refused(-EPROTO, 2, "shorter than its address says");
  bytes.offset = UINT64_MAX - 10;
  other_refused(-EPROTO, 2, "its range makes no sense");
}

static void more_than_this_machine_has_is_refused(void **state)
{
  (void)state;
  assert_int_equal(ftruncate(fds[LB_FD_REGION], (off_t)1 << 42), 0);
  bytes.length = UINT64_C(1) << 41;
  other_refused(-ENOMEM, 2, "more than this machine's memory");
}

static void gate_is_a_page(void **state)
{
  (void)state;
  close(fds[LB_FD_VALID]);
  fds[LB_FD_VALID] = file_of(sizeof(struct lb_gate_page) - 1);
  other_refused(-EPROTO, 2, "shorter than its address says");
}

static void memory_of_a_vendor_needs_memory_like_it(void **state)
{
  (void)state;
  bytes.kind = PST_EXPORT_IPC;
  other_refused(-EXDEV, 1, "so only the same kind of memory can reach it");
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, open_far, close_far)
#define OTHER(name) cmocka_unit_test_setup_teardown(name, open_other, close_other)
  const struct CMUnitTest tests[] = {
      CASE(handle_gives_what_was_registered),
      CASE(what_is_no_handle_is_refused),
      CASE(rights_are_no_more_than_were_registered),
      CASE(withdrawn_memory_is_refused),
      CASE(registration_without_remote_access_is_not_packed),
      CASE(handle_needs_a_peer),
      OTHER(file_of_another_process_is_mapped),
      OTHER(handle_of_another_process_comes_with_its_descriptors),
      OTHER(range_lies_in_its_file),
      OTHER(more_than_this_machine_has_is_refused),
      OTHER(gate_is_a_page),
      OTHER(memory_of_a_vendor_needs_memory_like_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
