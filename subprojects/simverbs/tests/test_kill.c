/* SPDX-License-Identifier: Apache-2.0 */
/* One of two processes that talk both ways is killed, anywhere. Its peer sees what hardware would
 * show, its objects are freed, and the fabric goes on. */
#include "crowd.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 60, BYTES = 20000, RECEIVES = 8, MOST_MESSAGES = 400 };
enum { RECEIVED = 1, SENT = 2 };

static const struct rig_how how = {
    .timeout = 10, .retry_cnt = 2, .rnr_retry = 7, .min_rnr_timer = 1};

/* Until a send fails: its status. */
static enum ibv_wc_status talk(struct crowd *crowd, struct rig_end *end)
{
  for (unsigned i = 0; i < RECEIVES; i++)
    rig_post_recv(end, RECEIVED, BYTES);
  rig_post_send(end, SENT, BYTES);
  for (;;) {
    struct ibv_wc wc = rig_wait(end);
    if (wc.wr_id == SENT && wc.status != IBV_WC_SUCCESS)
      return wc.status;
    /* A receive that the dead peer was about to complete. */
    if (wc.status != IBV_WC_SUCCESS)
      continue;
    if (wc.wr_id == SENT) {
      atomic_fetch_add(&crowd->messages, 1);
      rig_post_send(end, SENT, BYTES);
    } else {
      rig_post_recv(end, RECEIVED, BYTES);
    }
  }
}

static int live(struct crowd *crowd, unsigned number)
{
  struct rig_end end;
  crowd_connect(crowd, number, &end, &how);
  enum ibv_wc_status status = talk(crowd, &end);
  /* The process that lives sees its retries run out, and no other status. */
  assert_int_equal(status, IBV_WC_RETRY_EXC_ERR);
  rig_end_close(&end);
  return 0;
}

static int wait_for(pid_t child)
{
  int status;
  return waitpid(child, &status, 0) == child ? status : -1;
}

static bool one_round(struct crowd *crowd, unsigned messages)
{
  memset(crowd, 0, sizeof(*crowd));
  pid_t victim = crowd_fork(crowd, 0, live), survivor = crowd_fork(crowd, 1, live);
  while (atomic_load(&crowd->messages) < messages && !waitpid(survivor, NULL, WNOHANG))
    usleep(50);
  kill(victim, SIGKILL);
  int died = wait_for(victim), survived = wait_for(survivor);
  if (WIFSIGNALED(died) && WTERMSIG(died) == SIGKILL && survived == 0)
    return true;
  fprintf(stderr, "killed after %u messages: %x, the other: %x\n", messages, (unsigned)died,
          (unsigned)survived);
  return false;
}

int main(void)
{
  struct crowd *crowd = crowd_make();
  unsigned failed = 0;
  srandom(1);
  for (unsigned round = 0; round < ROUNDS; round++) {
    failed += !one_round(crowd, 1 + (unsigned)random() % MOST_MESSAGES);
    crowd_assert_empty();
  }
  printf("%u of %d rounds failed\n", failed, ROUNDS);
  return failed ? 1 : 0;
}
