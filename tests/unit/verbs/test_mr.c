/* SPDX-License-Identifier: Apache-2.0 */
/* Registrations, with a library whose answers are set here. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../fake_page.h"
#include "mr.h"

#define PAGE 65536u

static struct {
  int dmabuf_error, plain_error, export_error; /* 0: it works */
  int plain_from;                              /* which call of ibv_reg_mr works again */
  int plain_calls, dmabuf_calls, made, closed;
  bool is_old;  /* the library lacks ibv_reg_dmabuf_mr() */
  int unwanted; /* access that a dma-buf is refused for */
  uint64_t export_offset, offset, iova, address;
  size_t length;
  int access, fd;
  int level;
  char logged[512];
  struct vb_memlock memlock;
} fake;

static struct ibv_mr made;
static char memory[4 * PAGE];

struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova,
                                 int fd, int access)
{
  (void)pd;
  fake.dmabuf_calls++;
  fake.offset = offset;
  fake.length = length;
  fake.iova = iova;
  fake.fd = fd;
  fake.access = access;
  errno = fake.dmabuf_error;
  if (fake.dmabuf_error && (!fake.unwanted || (access & fake.unwanted)))
    return NULL;
  fake.made++;
  return &made;
}

/* By --wrap. */
void *__wrap_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name)
{
  void *found = NULL;
  assert_ptr_equal(handle, RTLD_DEFAULT);
  assert_string_equal(name, "ibv_reg_dmabuf_mr");
  if (!fake.is_old)
    *(__typeof__(&ibv_reg_dmabuf_mr) *)&found = ibv_reg_dmabuf_mr;
  return found;
}

void __wrap_vb_memlock_read(struct vb_memlock *now);
void __wrap_vb_memlock_read(struct vb_memlock *now)
{
  *now = fake.memlock;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access)
{
  (void)pd;
  fake.address = (uint64_t)(uintptr_t)address;
  fake.length = length;
  fake.access = access;
  errno = fake.plain_error;
  if (fake.plain_error && ++fake.plain_calls != fake.plain_from)
    return NULL;
  fake.made++;
  return &made;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *address, size_t length, uint64_t iova,
                                unsigned int access)
{
  (void)iova;
  return ibv_reg_mr(pd, address, length, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
  assert_ptr_equal(mr, &made);
  fake.closed++;
  return 0;
}

const char *ibv_get_device_name(struct ibv_device *device)
{
  return device->name;
}

static void take_log(const struct pst_host *host, int level, const char *format, ...)
{
  va_list list;
  (void)host;
  fake.level = level;
  va_start(list, format);
  vsnprintf(fake.logged, sizeof(fake.logged), format, list);
  va_end(list);
}

static int export_range(const struct pst_host *host, const struct pst_region *region, uint32_t kind,
                        uint64_t offset, uint64_t length, struct pst_export *out)
{
  (void)host, (void)region;
  assert_int_equal(kind, PST_EXPORT_DMABUF);
  if (fake.export_error)
    return fake.export_error;
  fake.export_offset = offset;
  out->fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
  out->offset = offset % PAGE; /* the memory exports whole pages */
  out->length = length;
  return 0;
}

static const struct pst_host host = {
    .struct_size = sizeof(host), .log = take_log, .region_export = export_range};
static struct ibv_device device = {.name = "fake0"};
static struct ibv_context context = {.device = &device};
static struct ibv_pd pd = {.context = &context};
static struct vb_mrs mrs;
static atomic_uint registrations;

static struct pst_region gpu(void)
{
  return (struct pst_region){.struct_size = sizeof(struct pst_region),
                             .kind = PST_MEMORY_CUDA,
                             .address = UINT64_C(0x7f0000000000),
                             .length = sizeof(memory),
                             .page_size = PAGE,
                             .exports = PST_EXPORT_DMABUF};
}

static struct vb_mr mr;
static char reason[160];

static int registers(const struct pst_region *region, uint64_t offset, uint64_t length)
{
  return vb_mr_register(&host, &mrs, region, offset, length, IBV_ACCESS_LOCAL_WRITE, false, &mr,
                        reason);
}

static int reset(void **state)
{
  (void)state;
  fake_page = 4096;
  memset(&fake, 0, sizeof(fake));
  memset(&mr, 0, sizeof(mr));
  fake.memlock.limit = UINT64_MAX;
  atomic_store(&registrations, 0);
  vb_mrs_open(&mrs, &pd, 3, &registrations);
  return 0;
}

static int all_are_closed(void **state)
{
  (void)state;
  assert_null(mrs.shared);
  vb_mrs_close(&mrs);
  return 0;
}

/* The device's address and the dma-buf's offset have the same place in a page, whatever part of
 * a region is registered. */
static void dmabuf_offsets_share_the_page_offset(void **state)
{
  (void)state;
  struct pst_region region = gpu();
  static const uint64_t offsets[] = {0, 1, 4096, PAGE - 1, PAGE, PAGE + 512, 3 * PAGE + 17};
  for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
    assert_int_equal(registers(&region, offsets[i], 100), 0);
    assert_int_equal(fake.export_offset, offsets[i]);
    assert_int_equal(fake.length, 100);
    assert_int_equal(fake.iova, region.address + offsets[i]);
    assert_int_equal(fake.iova % PAGE, fake.offset % PAGE);
    assert_int_equal(mr.address, fake.iova);
    assert_int_equal(fcntl(fake.fd, F_GETFD), -1); /* closed again */
  }
  assert_string_equal(mr.via, "dma-buf");
  assert_int_equal(mr.path, PST_PATH_DIRECT);
  assert_int_equal(fake.plain_calls, 0);
}

static void peermem_is_next(void **state)
{
  (void)state;
  struct pst_region region = gpu();
  fake.dmabuf_error = EOPNOTSUPP;
  assert_int_equal(registers(&region, 4096, 100), 0);
  assert_string_equal(mr.via, "peermem");
  assert_int_equal(fake.address, region.address + 4096);
  assert_non_null(strstr(reason, "dma-buf: this device's driver takes none"));
  assert_int_equal(fcntl(fake.fd, F_GETFD), -1);
}

static void an_older_library_has_peermem_alone(void **state)
{
  (void)state;
  struct pst_region region = gpu();
  fake.is_old = true;
  assert_int_equal(registers(&region, 4096, 100), 0);
  assert_string_equal(mr.via, "peermem");
  assert_string_equal(reason, "dma-buf: this rdma-core has none, 34 has");
  assert_int_equal(fake.dmabuf_calls, 0);
}

static void host_mapping_is_last(void **state)
{
  (void)state;
  struct pst_region region = gpu();
  fake.dmabuf_error = ENOMEM;
  fake.plain_error = EFAULT;
  fake.plain_from = 2;
  region.host = memory;
  assert_int_equal(registers(&region, 8, 16), 0);
  assert_string_equal(mr.via, "host mapping");
  assert_int_equal(mr.path, PST_PATH_DIRECT);
  assert_int_equal(mr.address, (uintptr_t)memory + 8);
  assert_non_null(strstr(reason, "BAR1"));
  assert_non_null(strstr(reason, "modprobe nvidia-peermem"));
}

static void no_way_says_what_was_tried(void **state)
{
  (void)state;
  struct pst_region region = gpu();
  struct vb_mr before = mr;
  region.exports = 0;
  fake.plain_error = EFAULT;
  assert_int_equal(registers(&region, 0, 16), -EOPNOTSUPP);
  assert_memory_equal(&mr, &before, sizeof(mr));
  assert_string_equal(reason, "dma-buf: its memory exports none; peermem: not loaded (`modprobe "
                              "nvidia-peermem`)");
  assert_int_equal(fake.level, PST_LOG_INFO); /* the host may stage: no error */
  assert_non_null(strstr(fake.logged, "fake0 cannot reach 16 bytes of device memory"));
  assert_non_null(strstr(fake.logged, reason));
  region.exports = PST_EXPORT_DMABUF;
  fake.export_error = -ENOTSUP;
  assert_int_equal(registers(&region, 0, 16), -EOPNOTSUPP);
  assert_int_equal(fake.dmabuf_calls, 0);
}

static void memlock_is_named_with_its_value(void **state)
{
  (void)state;
  struct pst_region region = {.kind = PST_MEMORY_HOST, .host = memory, .length = sizeof(memory)};
  fake.memlock.limit = 65536;
  fake.plain_error = ENOMEM;
  assert_int_equal(registers(&region, 0, sizeof(memory)), -ENOMEM);
  assert_non_null(strstr(fake.logged, "64 KiB is less than the 256 KiB wanted"));
  assert_non_null(strstr(fake.logged, "ulimit -l"));
  assert_non_null(strstr(fake.logged, "fake0"));
  fake.memlock.pinned = 65536 - 4096;
  assert_int_equal(registers(&region, 0, 4097), -ENOMEM);
  assert_non_null(strstr(fake.logged,
                         "limit of 64 KiB is used up, 60 KiB are pinned and 8 KiB more "
                         "are wanted: raise it (`ulimit -l"));
  fake.plain_error = EFAULT;
  assert_int_equal(registers(&region, 0, 4096), -EFAULT);
  assert_null(strstr(fake.logged, "limit"));
}

/* A limit that the kernel would have let pass is not blamed. */
static void memlock_is_not_blamed_for_others(void **state)
{
  (void)state;
  struct pst_region region = {.kind = PST_MEMORY_HOST, .host = memory, .length = sizeof(memory)};
  static const struct {
    struct vb_memlock memlock;
    const char *words;
  } rows[] = {
      {{.limit = UINT64_MAX, .pinned = 1 << 20},
       "the locked-memory limit is not the cause: there is none"},
      {{.limit = 65536, .is_privileged = true}, "this process has CAP_IPC_LOCK, which lifts it"},
      {{.limit = 1 << 20, .pinned = 65536}, "is not the cause: 64 of 1024 KiB are pinned"},
  };
  fake.plain_error = ENOMEM;
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    fake.memlock = rows[i].memlock;
    assert_int_equal(registers(&region, 0, sizeof(memory)), -ENOMEM);
    assert_non_null(strstr(fake.logged, rows[i].words));
    assert_non_null(strstr(fake.logged, "of at most 3 (max_mr), this one's are 0"));
    assert_null(strstr(fake.logged, "ulimit -l"));
  }
}

static void a_full_table_is_named(void **state)
{
  (void)state;
  struct pst_region region = {.kind = PST_MEMORY_HOST, .host = memory, .length = sizeof(memory)};
  struct vb_mr held[2];
  struct ibv_mr *own = vb_pin(&mrs, memory, 4096, 0);
  assert_non_null(own);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(registers(&region, 0, 4096), 0);
    held[i] = mr;
  }
  fake.plain_error = ENOMEM;
  assert_int_equal(registers(&region, 0, 4096), -ENOMEM);
  assert_non_null(strstr(fake.logged, "the device has room for 3 registrations (`ibv_devinfo -v`: "
                                      "max_mr), and this process holds 3"));
  vb_mr_close(&held[0]);
  assert_int_equal(registers(&region, 0, 4096), -ENOMEM);
  assert_non_null(strstr(fake.logged, "of at most 3 (max_mr), this one's are 2"));
  vb_mr_close(&held[1]);
  vb_unpin(&mrs, own);
  assert_int_equal(fake.closed, 3);
}

static void host_memory_is_registered_once(void **state)
{
  (void)state;
  struct pst_region region = {.kind = PST_MEMORY_HOST, .host = memory, .length = sizeof(memory)};
  assert_int_equal(registers(&region, 100, 200), 0);
  assert_int_equal(fake.address, (uintptr_t)memory + 100);
  assert_int_equal(fake.length, 200);
  assert_int_equal(fake.access, IBV_ACCESS_LOCAL_WRITE);
  assert_int_equal(mr.path, PST_PATH_DIRECT);
  vb_mr_close(&mr);
  vb_mr_close(&mr);
  assert_int_equal(fake.closed, 1);
  region.kind = PST_MEMORY_MAPPED;
  assert_int_equal(registers(&region, 0, 200), 0);
  assert_int_equal(mr.path, PST_PATH_DIRECT);
}

/* ---- Those that share ------------------------------------------------------------------------ */

static int shares(const struct pst_region *region, uint64_t offset, uint64_t length, int access,
                  struct vb_mr *to)
{
  return vb_mr_register(&host, &mrs, region, offset, length, access, true, to, reason);
}

static void equal_ones_are_registered_once(void **state)
{
  (void)state;
  struct pst_region region = gpu(), copy = region;
  struct vb_mr a = {0}, b = {0};
  fake.dmabuf_error = EOPNOTSUPP;
  assert_int_equal(shares(&region, 512, 100, IBV_ACCESS_LOCAL_WRITE, &a), 0);
  memset(reason, 0, sizeof(reason));
  assert_int_equal(shares(&copy, 512, 100, IBV_ACCESS_LOCAL_WRITE, &b), 0);
  assert_int_equal(fake.made, 1);
  assert_int_equal(a.address, b.address);
  assert_string_equal(b.via, "peermem");
  assert_non_null(strstr(reason, "takes none")); /* why it is not by dma-buf is still known */
  vb_mr_close(&a);
  vb_mr_close(&a);
  assert_int_equal(fake.closed, 0);
  vb_mr_close(&b);
  assert_int_equal(fake.closed, 1);
}

static void others_are_registered_by_themselves(void **state)
{
  (void)state;
  struct pst_region region = gpu(), elsewhere = gpu(), anothers = gpu();
  struct vb_mr all[7] = {0};
  elsewhere.address += PAGE;
  anothers.memory = (struct pst_memory *)&device; /* any other */
  assert_int_equal(shares(&region, 512, 100, IBV_ACCESS_LOCAL_WRITE, &all[0]), 0);
  assert_int_equal(shares(&region, 513, 100, IBV_ACCESS_LOCAL_WRITE, &all[1]), 0);
  assert_int_equal(shares(&region, 512, 101, IBV_ACCESS_LOCAL_WRITE, &all[2]), 0);
  assert_int_equal(shares(&region, 512, 100, 0, &all[3]), 0);
  assert_int_equal(shares(&elsewhere, 512, 100, IBV_ACCESS_LOCAL_WRITE, &all[4]), 0);
  assert_int_equal(shares(&anothers, 512, 100, IBV_ACCESS_LOCAL_WRITE, &all[5]), 0);
  assert_int_equal(registers(&region, 512, 100), 0); /* who shares with none */
  all[6] = mr;
  assert_int_equal(fake.made, 7);
  for (int i = 0; i < 7; i++) {
    vb_mr_close(&all[i]);
    assert_int_equal(fake.closed, i + 1);
  }
}

/* The same address, of memory that was given back and got again. */
static void nothing_outlives_its_owner(void **state)
{
  (void)state;
  struct pst_region region = gpu();
  struct vb_mr a = {0};
  for (int i = 1; i <= 3; i++) {
    assert_int_equal(shares(&region, 0, 100, IBV_ACCESS_LOCAL_WRITE, &a), 0);
    assert_int_equal(fake.made, i);
    vb_mr_close(&a);
    assert_int_equal(fake.closed, i);
  }
}

static void a_refusal_is_not_kept(void **state)
{
  (void)state;
  struct pst_region region = gpu();
  struct vb_mr a = {0}, before = a;
  fake.dmabuf_error = ENOMEM;
  fake.plain_error = EFAULT;
  assert_int_equal(shares(&region, 0, 100, IBV_ACCESS_LOCAL_WRITE, &a), -EOPNOTSUPP);
  assert_non_null(strstr(reason, "BAR1"));
  assert_memory_equal(&a, &before, sizeof(a));
  fake.dmabuf_error = 0;
  assert_int_equal(shares(&region, 0, 100, IBV_ACCESS_LOCAL_WRITE, &a), 0);
  assert_string_equal(a.via, "dma-buf");
  assert_string_equal(reason, "");
  vb_mr_close(&a);
}

#ifdef IBV_ACCESS_OPTIONAL_RANGE
static void relaxed_ordering_is_a_hint(void **state)
{
  (void)state;
  struct pst_region region = gpu();
  const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING;
  struct vb_mr a = {0};
  assert_int_equal(shares(&region, 0, 100, access, &a), 0);
  assert_int_equal(fake.access, access);
  vb_mr_close(&a);
  fake.dmabuf_error = EINVAL;
  fake.unwanted = IBV_ACCESS_RELAXED_ORDERING;
  assert_int_equal(shares(&region, 0, 100, access, &a), 0);
  assert_string_equal(a.via, "dma-buf");
  assert_int_equal(fake.access, IBV_ACCESS_LOCAL_WRITE);
  vb_mr_close(&a);
}
#endif

/* All that can go wrong at once, in the words of one line. */
static void three_refusals_fit(void **state)
{
  (void)state;
  struct pst_region region = gpu();
  fake.memlock = (struct vb_memlock){.limit = 65536, .pinned = 65536};
  fake.dmabuf_error = ENOMEM;
  fake.plain_error = ENOMEM;
  region.host = memory;
  assert_int_equal(registers(&region, 0, 16), -EOPNOTSUPP);
  assert_string_equal(reason, "dma-buf: BAR1 or device table full (`nvidia-smi -q`); "
                              "peermem: memlock 64 KiB (`ulimit -l`); host mapping: memlock 64 KiB "
                              "(`ulimit -l`)");
  fake.memlock.is_privileged = true;
  assert_int_equal(registers(&region, 0, 16), -EOPNOTSUPP);
  assert_string_equal(reason, "dma-buf: BAR1 or device table full (`nvidia-smi -q`); "
                              "peermem: device table full; host mapping: device table full");
}

static void pages_are_the_machines(void **state)
{
  (void)state;
  fake_page = FAKE_PAGE;
  for (unsigned i = 0; i < 4; i++) {
    void *pages = vb_pages_alloc(100);
    assert_non_null(pages);
    assert_int_equal((uintptr_t)pages % FAKE_PAGE, 0);
    memset(pages, 1, FAKE_PAGE);
    free(pages);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pages_are_the_machines),
      cmocka_unit_test_setup(dmabuf_offsets_share_the_page_offset, reset),
      cmocka_unit_test_setup(peermem_is_next, reset),
      cmocka_unit_test_setup(an_older_library_has_peermem_alone, reset),
      cmocka_unit_test_setup(host_mapping_is_last, reset),
      cmocka_unit_test_setup(no_way_says_what_was_tried, reset),
      cmocka_unit_test_setup(memlock_is_named_with_its_value, reset),
      cmocka_unit_test_setup(memlock_is_not_blamed_for_others, reset),
      cmocka_unit_test_setup(a_full_table_is_named, reset),
      cmocka_unit_test_setup(host_memory_is_registered_once, reset),
      cmocka_unit_test_setup_teardown(equal_ones_are_registered_once, reset, all_are_closed),
      cmocka_unit_test_setup_teardown(others_are_registered_by_themselves, reset, all_are_closed),
      cmocka_unit_test_setup_teardown(nothing_outlives_its_owner, reset, all_are_closed),
      cmocka_unit_test_setup_teardown(a_refusal_is_not_kept, reset, all_are_closed),
#ifdef IBV_ACCESS_OPTIONAL_RANGE
      cmocka_unit_test_setup_teardown(relaxed_ordering_is_a_hint, reset, all_are_closed),
#endif
      cmocka_unit_test_setup_teardown(three_refusals_fit, reset, all_are_closed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
