/* SPDX-License-Identifier: Apache-2.0 */
/* Two hundred processes on one fabric, in pairs that send each other messages. */
#include "crowd.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { MESSAGES = 50, BYTES = 4096, WINDOW = 8 };
static unsigned members = 200; /* 200 / PENSTOCK_FEWER, and even, where that is set */

static const struct rig_how how = {
    .timeout = 18, .retry_cnt = 7, .rnr_retry = 7, .min_rnr_timer = 1};

static void fill(unsigned char *bytes, unsigned number, unsigned message)
{
  for (unsigned i = 0; i < BYTES; i++)
    bytes[i] = (unsigned char)(number * 31 + message * 7 + i);
}

static void send_all(struct rig_end *end, unsigned number)
{
  for (unsigned m = 0; m < MESSAGES; m++) {
    fill(end->bytes, number, m);
    rig_post_send(end, m, BYTES);
    assert_int_equal(rig_wait(end).status, IBV_WC_SUCCESS);
  }
}

/* Receives all messages, in order; the sender waits for receives that are not posted yet: RNR. */
static void receive_all(struct rig_end *end, unsigned number)
{
  static unsigned char expected[BYTES];
  for (unsigned m = 0; m < MESSAGES; m++) {
    rig_post_recv(end, m, BYTES);
    struct ibv_wc wc = rig_wait(end);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.wr_id, m);
    assert_int_equal(wc.byte_len, BYTES);
    fill(expected, number ^ 1, m);
    assert_memory_equal(end->bytes, expected, BYTES);
  }
}

static int live(struct crowd *crowd, unsigned number)
{
  struct rig_end end;
  crowd_connect(crowd, number, &end, &how);
  if (number & 1)
    receive_all(&end, number);
  else
    send_all(&end, number);
  /* All are there at once. */
  crowd_add(&crowd->arrived, 1);
  crowd_await(&crowd->released, 1);
  rig_end_close(&end);
  return 0;
}

static void assert_all_there(void)
{
  char *shown = rig_ctl_read("show"), objects[64];
  unsigned processes = 0;
  for (const char *at = shown; (at = strstr(at, "\n  process ")); at++)
    processes++;
  snprintf(objects, sizeof(objects), "%u QPs, %u CQs, %u MRs, %u PDs", members, members, members,
           members);
  if (processes != members || !strstr(shown, objects)) {
    fprintf(stderr, "%u processes:\n%s", processes, shown);
    exit(1);
  }
  free(shown);
}

int main(void)
{
  const char *fewer = getenv("PENSTOCK_FEWER");
  if (fewer && atoi(fewer) > 1)
    members = members / (unsigned)atoi(fewer) & ~1u;
  struct crowd *crowd = crowd_make();
  for (unsigned i = 0; i < members; i++)
    crowd_fork(crowd, i, live);
  crowd_await(&crowd->arrived, members);
  assert_all_there();
  crowd_add(&crowd->released, 1);
  int failed = 0;
  for (unsigned i = 0; i < members; i++) {
    int status;
    failed += wait(&status) < 0 || status != 0;
  }
  crowd_assert_empty();
  printf("%d of %u processes failed\n", failed, members);
  return failed ? 1 : 0;
}
