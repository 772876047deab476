/* SPDX-License-Identifier: Apache-2.0 */
/* Reading and writing without waiting, by io_uring and where it is forbidden; sums, extents
 * and blocks of memory. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "serve/buddy.h"
#include "serve/io.h"
#include "serve/partial_file.h"
#include "support.h"

#define BLOCKS 64
#define BLOCK 10000

static struct io *io;

static struct io_request *wait_one(void)
{
  struct io_request *request;
  struct pollfd readable = {.fd = serve_io_event_fd(io), .events = POLLIN};

  while (!(request = serve_io_poll(io)))
    assert_int_equal(poll(&readable, 1, 20000), 1);
  return request;
}

static int64_t one(enum io_op op, int fd, void *bytes, uint64_t length, uint64_t offset)
{
  struct io_request request = {
      .op = op, .fd = fd, .bytes = bytes, .length = length, .offset = offset};

  serve_io_submit(io, &request);
  assert_ptr_equal(wait_one(), &request);
  return request.result;
}

static int setup(void **state)
{
  (void)state;
  return serve_io_open(&io);
}

static int teardown(void **state)
{
  (void)state;
  serve_io_close(io);
  return 0;
}

/* Many at once, in any order. */
static void move_all(enum io_op op, int fd, uint8_t *bytes)
{
  struct io_request requests[BLOCKS];
  bool seen[BLOCKS] = {false};

  for (int i = 0; i < BLOCKS; i++) {
    requests[i] = (struct io_request){.op = op,
                                      .fd = fd,
                                      .bytes = bytes + i * BLOCK,
                                      .length = BLOCK,
                                      .offset = (uint64_t)i * BLOCK};
    serve_io_submit(io, &requests[i]);
  }
  for (int i = 0; i < BLOCKS; i++) {
    struct io_request *request = wait_one();
    assert_int_equal(request->result, BLOCK);
    assert_false(seen[request - requests]);
    seen[request - requests] = true;
  }
}

static int64_t sum_one(int fd, struct digest_sha256 *sum, bool to_grow, uint64_t length,
                       uint64_t offset)
{
  struct io_request request = {
      .op = IO_SUM, .fd = fd, .sum = sum, .to_grow = to_grow, .length = length, .offset = offset};

  serve_io_submit(io, &request);
  assert_ptr_equal(wait_one(), &request);
  return request.result;
}

static void assert_sum(const struct digest_sha256 *sum, const void *bytes, size_t length)
{
  uint8_t wanted[SERVE_SHA256_BYTES], digest[SERVE_SHA256_BYTES];

  serve_digest_sha256_of(bytes, length, wanted);
  assert_int_equal(serve_digest_sha256_so_far(sum, digest), 0);
  assert_memory_equal(digest, wanted, sizeof(wanted));
}

/* In steps, the last of which reaches beyond the end. */
static void sum_and_compare(int fd, const uint8_t *bytes)
{
  enum { ALL = BLOCKS * BLOCK, STEP = 300000 };
  struct digest_sha256 *sum = serve_digest_sha256_open();
  uint8_t *longer = calloc(1, ALL + STEP);

  assert_int_equal(sum_one(fd, sum, false, STEP, 0), STEP);
  assert_sum(sum, bytes, STEP);
  assert_int_equal(sum_one(fd, sum, false, ALL, STEP), ALL - STEP);
  assert_sum(sum, bytes, ALL);
  assert_int_equal(sum_one(fd, sum, true, STEP, ALL), STEP);
  memcpy(longer, bytes, ALL);
  assert_sum(sum, longer, ALL + STEP);
  assert_int_equal(sum_one(-1, sum, false, 1, 0), -EBADF);
  serve_digest_sha256_close(sum);
  free(longer);
}

/* More sums at once than there are threads, of which each has its turn. */
static void test_sums_at_once(void **state)
{
  enum { SUMS = 16, LENGTH = 1 << 20 };
  struct io_request requests[SUMS];
  uint8_t *bytes = malloc(LENGTH);
  int fd = open("summed", O_RDWR | O_CREAT | O_TRUNC, 0600);

  (void)state;
  for (int i = 0; i < LENGTH; i++)
    bytes[i] = (uint8_t)(i * 7 + i / 1000);
  assert_int_equal(write(fd, bytes, LENGTH), LENGTH);
  for (int i = 0; i < SUMS; i++) {
    requests[i] = (struct io_request){.op = IO_SUM,
                                      .fd = fd,
                                      .sum = serve_digest_sha256_open(),
                                      .length = LENGTH - (uint64_t)i * 1000,
                                      .offset = (uint64_t)i * 1000};
    serve_io_submit(io, &requests[i]);
  }
  for (int i = 0; i < SUMS; i++) {
    const struct io_request *request = wait_one();
    assert_int_equal(request->result, request->length);
    assert_sum(request->sum, bytes + request->offset, request->length);
    serve_digest_sha256_close(request->sum);
  }
  close(fd);
  free(bytes);
}

static void move_and_compare(void)
{
  uint8_t *out = malloc(BLOCKS * BLOCK), *in = calloc(BLOCKS, BLOCK), byte = 0;
  int fd = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);

  for (int i = 0; i < BLOCKS * BLOCK; i++)
    out[i] = (uint8_t)(i * 31 + i / 257);
  move_all(IO_WRITE, fd, out);
  move_all(IO_READ, fd, in);
  assert_memory_equal(in, out, BLOCKS * BLOCK);
  assert_int_equal(one(IO_SYNC, fd, NULL, 0, 0), 0);
  /* At the end, and behind it. */
  assert_int_equal(one(IO_READ, fd, in, BLOCK, BLOCKS * BLOCK - 10), 10);
  assert_int_equal(one(IO_READ, fd, in, BLOCK, BLOCKS * BLOCK), 0);
  assert_int_equal(one(IO_READ, fd, in, 0, 0), 0);
  assert_int_equal(one(IO_READ, -1, &byte, 1, 0), -EBADF);
  sum_and_compare(fd, out);
  close(fd);
  fd = open("file", O_RDONLY);
  assert_int_equal(one(IO_WRITE, fd, &byte, 1, 0), -EBADF);
  close(fd);
  free(out);
  free(in);
}

static void test_moves(void **state)
{
  (void)state;
  move_and_compare();
}

static void forbid_io_uring(void)
{
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};

  if (syscall(SYS_io_uring_setup, 0, NULL) < 0 && errno == ENOSYS)
    return; /* this kernel has none */
  assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  assert_int_equal(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

static void test_where_io_uring_is_forbidden(void **state)
{
  int status = 0;
  pid_t pid = fork();

  (void)state;
  if (pid == 0) {
    forbid_io_uring();
    assert_int_equal(serve_io_open(&io), 0);
    assert_non_null(strstr(serve_io_name(io), "threads, since io_uring is not available"));
    move_and_compare();
    serve_io_close(io);
    _exit(0);
  }
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void test_a_full_disk(void **state)
{
  uint8_t *bytes = calloc(1, 4 << 20);

  (void)state;
  assert_int_equal(mkdir("small", 0700), 0);
  if (mount("none", "small", "tmpfs", 0, "size=1m") < 0) {
    free(bytes);
    skip();
    return;
  }
  int fd = open("small/file", O_RDWR | O_CREAT, 0600);
  /* The bytes that fit are written; the rest fails with -ENOSPC. */
  assert_int_equal(one(IO_WRITE, fd, bytes, 4 << 20, 0), -ENOSPC);
  close(fd);
  assert_int_equal(umount("small"), 0);
  free(bytes);
}

/* ---- Sums ------------------------------------------------------------------------------- */

static void test_sums(void **state)
{
  static const uint8_t empty[] = {0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc, 0x1c, 0x14};
  uint8_t bytes[48], digest[SERVE_SHA256_BYTES], parts[SERVE_SHA256_BYTES];

  (void)state;
  /* RFC 3720, appendix B.4, and the usual check value. */
  assert_int_equal(serve_digest_crc32c("123456789", 9), 0xe3069283u);
  memset(bytes, 0, 32);
  assert_int_equal(serve_digest_crc32c(bytes, 32), 0x8a9136aau);
  memset(bytes, 0xff, 32);
  assert_int_equal(serve_digest_crc32c(bytes, 32), 0x62a8ab43u);
  for (int i = 0; i < 32; i++)
    bytes[i] = (uint8_t)i;
  assert_int_equal(serve_digest_crc32c(bytes, 32), 0x46dd794eu);
  assert_int_equal(serve_digest_crc32c(bytes, 0), 0);
  serve_digest_sha256_of("", 0, digest);
  assert_memory_equal(digest, empty, sizeof(empty));
  struct digest_sha256 *sum = serve_digest_sha256_open();
  serve_digest_sha256_add(sum, bytes, 20);
  serve_digest_sha256_add(sum, bytes + 20, 12);
  assert_int_equal(serve_digest_sha256_so_far(sum, parts), 0);
  serve_digest_sha256_close(sum);
  serve_digest_sha256_of(bytes, 32, digest);
  assert_memory_equal(digest, parts, sizeof(parts));
}

/* ---- Extents, against a map of bytes --------------------------------------------------- */

static void test_extents(void **state)
{
  struct extents e = {0};
  bool there[500] = {false};

  (void)state;
  srand(2);
  for (int round = 0; round < 3000; round++) {
    uint64_t begin = (uint64_t)(rand() % 500), end = begin + (uint64_t)(rand() % 20), covered = 0;
    uint32_t runs = 0;
    end = end < 500 ? end : 500;
    assert_int_equal(serve_extents_add(&e, begin, end), 0);
    for (uint64_t i = begin; i < end; i++)
      there[i] = true;
    for (int i = 0; i < 500; i++) {
      covered += there[i];
      runs += there[i] && (i == 0 || !there[i - 1]);
    }
    assert_int_equal(e.covered, covered);
    assert_int_equal(e.count, runs);
    uint64_t front = 0;
    while (front < 500 && there[front])
      front++;
    assert_int_equal(serve_extents_front(&e), front);
    if (covered == 500) {
      serve_extents_free(&e);
      memset(there, 0, sizeof(there));
    }
  }
  serve_extents_free(&e);
  for (uint64_t i = 0; i < EXTENTS_MAX; i++)
    assert_int_equal(serve_extents_add(&e, 2 * i, 2 * i + 1), 0);
  assert_int_equal(serve_extents_add(&e, UINT64_MAX - 1, UINT64_MAX), -ENOSPC);
  assert_int_equal(serve_extents_add(&e, 0, 3), 0);
  assert_int_equal(serve_extents_add(&e, UINT64_MAX - 1, UINT64_MAX), 0);
  serve_extents_free(&e);
}

/* ---- Blocks, against a map of who has what ----------------------------------------------- */

static void test_pool(void **state)
{
  enum { TOTAL = 300, HELD = 100 };
  struct buddy *pool = serve_buddy_open(TOTAL * BUDDY_LEAST + 17);
  uint8_t owner[TOTAL] = {0};
  uint64_t offsets[HELD];
  uint32_t sizes[HELD] = {0};
  bool refused = false;

  (void)state;
  assert_int_equal(serve_buddy_largest(pool), 256 * BUDDY_LEAST);
  srand(3);
  for (int round = 0; round < 20000; round++) {
    int who = rand() % HELD;
    if (sizes[who] > 0) {
      uint64_t first = offsets[who] / BUDDY_LEAST;
      for (uint32_t i = 0; i < sizes[who]; i++) {
        assert_int_equal(owner[first + i], who + 1);
        owner[first + i] = 0;
      }
      serve_buddy_give(pool, offsets[who]);
      sizes[who] = 0;
      continue;
    }
    uint32_t blocks = 1u << rand() % 6;
    offsets[who] = serve_buddy_take(pool, blocks * BUDDY_LEAST - (uint64_t)(rand() % 2048));
    if (offsets[who] == BUDDY_NONE) {
      refused = true;
      continue;
    }
    sizes[who] = blocks;
    for (uint32_t i = 0; i < blocks; i++) {
      uint64_t at = offsets[who] / BUDDY_LEAST + i;
      assert_true(at < TOTAL);
      assert_int_equal(owner[at], 0);
      owner[at] = (uint8_t)(who + 1);
    }
  }
  assert_true(refused);
  for (int who = 0; who < HELD; who++) {
    if (sizes[who] > 0)
      serve_buddy_give(pool, offsets[who]);
  }
  /* All of it has grown together again. */
  assert_int_not_equal(serve_buddy_take(pool, 256 * BUDDY_LEAST), BUDDY_NONE);
  assert_int_equal(serve_buddy_take(pool, 64 * BUDDY_LEAST), BUDDY_NONE);
  for (uint32_t blocks = 32; blocks >= 4; blocks = blocks == 32 ? 8 : blocks / 2)
    assert_int_not_equal(serve_buddy_take(pool, blocks * BUDDY_LEAST), BUDDY_NONE);
  assert_int_equal(serve_buddy_take(pool, 1), BUDDY_NONE);
  serve_buddy_close(pool);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_moves, setup, teardown),
      cmocka_unit_test_setup_teardown(test_sums_at_once, setup, teardown),
      cmocka_unit_test(test_where_io_uring_is_forbidden),
      cmocka_unit_test_setup_teardown(test_a_full_disk, setup, teardown),
      cmocka_unit_test(test_sums),
      cmocka_unit_test(test_extents),
      cmocka_unit_test(test_pool),
  };
  return cmocka_run_group_tests(tests, folder_setup, folder_teardown);
}
