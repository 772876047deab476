/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes see a third one dead at the same time: the second of them finds a new process in
 * its slot, and takes nothing away. */
#include "fabric/fabric.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* cmocka.h wants these first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct child {
  pid_t pid;
  uint32_t slot, qp; /* an index */
};

static int describe(struct fabric *f, void *argument)
{
  (void)argument;
  fab_describe_default(f);
  return 0;
}

static uint32_t make_qp(void)
{
  fab_lock(&fab->lock);
  const int64_t i = fab_entry(FAB_KIND_QP);
  struct fab_qp *qp = &fab->qp[i];
  qp->owner = (uint16_t)fab_slot;
  atomic_store(&qp->state, IBV_QPS_RTS);
  atomic_store(&qp->number, (uint32_t)i + FAB_QPS);
  fab_unlock(&fab->lock);
  fab_count(&fab->device[0], FAB_KIND_QP, UINT32_MAX);
  return (uint32_t)i;
}

/* Starts a child that has a queue pair, and lives until it is killed. */
static struct child start(const char *path)
{
  struct child child;
  uint32_t told[2];
  int fds[2];
  assert_int_equal(pipe(fds), 0);
  child.pid = fork();
  if (child.pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* where the test fails */
    fab_forget();
    if (fab_attach(path, NULL))
      _exit(1);
    told[0] = fab_slot;
    told[1] = make_qp();
    if (write(fds[1], told, sizeof(told)) == sizeof(told))
      pause();
    _exit(1);
  }
  assert_int_equal(read(fds[0], told, sizeof(told)), sizeof(told));
  close(fds[0]);
  close(fds[1]);
  child.slot = told[0];
  child.qp = told[1];
  return child;
}

static void end(const struct child *child)
{
  kill(child->pid, SIGKILL);
  assert_int_equal(waitpid(child->pid, NULL, 0), child->pid);
}

static void slot_of_a_new_process_is_not_reaped(void **state)
{
  char folder[] = "/dev/shm/penstock-simverbs-reap-XXXXXX", path[64];
  (void)state;
  assert_non_null(mkdtemp(folder));
  snprintf(path, sizeof(path), "%s/fabric", folder);
  assert_int_equal(fab_create(path, describe, NULL), 0);
  fab_detach();
  assert_int_equal(fab_attach(path, NULL), 0);
  const struct child dead = start(path);
  end(&dead);
  const struct child living = start(path); /* which saw the other dead first */
  assert_int_equal(living.slot, dead.slot);
  const struct fab_qp *qp = &fab->qp[living.qp];
  fab_reap(dead.slot);
  assert_int_equal(qp->state, IBV_QPS_RTS);
  assert_int_not_equal(qp->number, 0);
  assert_int_equal(fab->process[living.slot].state, FAB_SLOT_USED);
  end(&living);
  fab_reap(living.slot);
  assert_int_equal(qp->number, 0);
  assert_int_equal(fab->process[living.slot].state, FAB_SLOT_FREE);
  fab_detach();
  unlink(path);
  rmdir(folder);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(slot_of_a_new_process_is_not_reaped)};
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
