/* SPDX-License-Identifier: Apache-2.0 */
/* A program on a fabric whose file system fills up: objects are refused until room is made. */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ENOUGH = 60000 };

/* A file beside the fabric's, with all the room that there is. */
static void fill(const char *path)
{
  static char block[4096];
  int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  assert_true(file >= 0);
  while (write(file, block, sizeof(block)) > 0)
    ;
  assert_int_equal(errno, ENOSPC);
  close(file);
}

/* Until one is refused; how many there are. */
static unsigned domains(struct ibv_context *context, struct ibv_pd **pds)
{
  unsigned count = 0;
  while (count < ENOUGH && (pds[count] = ibv_alloc_pd(context)))
    count++;
  return count;
}

static unsigned regions(struct ibv_pd *pd, void *bytes, struct ibv_mr **mrs)
{
  unsigned count = 0;
  while (count < ENOUGH && (mrs[count] = ibv_reg_mr(pd, bytes, RIG_BYTES, 0)))
    count++;
  return count;
}

int main(int argc, char **argv)
{
  static struct ibv_pd *pds[ENOUGH];
  static struct ibv_mr *mrs[ENOUGH];
  static char bytes[RIG_BYTES];
  assert_int_equal(argc, 2);
  struct ibv_context *context = rig_device("mlx5_0");
  struct ibv_pd *pd = ibv_alloc_pd(context);
  assert_non_null(pd);
  struct ibv_mr *mr = ibv_reg_mr(pd, bytes, RIG_BYTES, 0); /* its page has room for more */
  assert_non_null(mr);
  fill(argv[1]);

  errno = 0;
  unsigned some_mrs = regions(pd, bytes, mrs);
  assert_true(some_mrs < ENOUGH);
  assert_int_equal(errno, ENOMEM);
  errno = 0;
  unsigned some_pds = domains(context, pds);
  assert_true(some_pds < ENOUGH);
  assert_int_equal(errno, ENOMEM);
  errno = 0;
  assert_null(ibv_create_cq(context, 1000, NULL, NULL, 0));
  assert_int_equal(errno, ENOMEM);

  /* A place that was given back is given again; once there is room, so are more. */
  assert_true(some_mrs > 0);
  assert_int_equal(ibv_dereg_mr(mrs[some_mrs - 1]), 0);
  assert_int_equal(regions(pd, bytes, mrs + some_mrs - 1), 1);
  assert_int_equal(unlink(argv[1]), 0);
  struct ibv_mr *more = ibv_reg_mr(pd, bytes, RIG_BYTES, 0);
  assert_non_null(more);

  assert_int_equal(ibv_dereg_mr(more), 0);
  assert_int_equal(ibv_dereg_mr(mr), 0);
  for (unsigned i = 0; i < some_mrs; i++)
    assert_int_equal(ibv_dereg_mr(mrs[i]), 0);
  for (unsigned i = 0; i < some_pds; i++)
    assert_int_equal(ibv_dealloc_pd(pds[i]), 0);
  assert_int_equal(ibv_dealloc_pd(pd), 0);
  assert_int_equal(ibv_close_device(context), 0);
  return 0;
}
