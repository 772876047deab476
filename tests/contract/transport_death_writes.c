/* SPDX-License-Identifier: Apache-2.0 */
/* A process that is written to is killed, while post() completes WRITEs. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness.h"

#define DEATHS 10
#define WRITE_BYTES 64u

static const struct contract_params with_rma = {.endpoints = 1,
                                                .slots = 32,
                                                .message = 8192,
                                                .requests = 64,
                                                .pieces = 1,
                                                .roles_more = PST_ROLE_RMA};

/* Offers its memory, and polls until it is killed. */
static pid_t spawn_target(const struct contract_variant *variant, int *socket)
{
  int pair[2];
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  fflush(NULL);
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    uint8_t bytes[4096];
    struct pst_blob key = {.struct_size = sizeof(key), .capacity = sizeof(bytes), .bytes = bytes};
    struct contract_side far = {0};
    close(pair[0]);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    contract_side_open(variant, &with_rma, false, true, &far);
    if (!contract_meet(&far, pair[1]) || far.image.ops->mr_pack(far.device, far.mr, &key) != 0 ||
        !contract_swap_out(pair[1], &key))
      _exit(3);
    for (;;)
      contract_poll(&far);
  }
  close(pair[1]);
  *socket = pair[0];
  return pid;
}

static struct pst_remote *open_target(struct contract_side *side, int socket)
{
  uint8_t bytes[4096];
  struct pst_remote *remote;
  struct pst_blob key;
  assert_true(contract_meet(side, socket));
  assert_true(contract_swap_in(socket, &key, bytes, sizeof(bytes)));
  assert_int_equal(side->image.ops->remote_open(side->endpoints[0], &key, &remote), 0);
  for (uint32_t i = 0; i < key.fd_count; i++)
    close(key.fds[i]);
  return remote;
}

static int write_one(struct contract_side *side, struct pst_remote *remote, uint64_t number)
{
  const uint64_t offset = number % 32 * WRITE_BYTES;
  const struct pst_request request = {.opcode = PST_OP_WRITE,
                                      .cookie = number,
                                      .local.mr = side->mr,
                                      .offset = offset,
                                      .arg.length = WRITE_BYTES,
                                      .u.rma = {.remote = remote, .offset = offset}};
  uint32_t wait;
  return contract_post(side, 0, &request, 1, &wait);
}

/* WRITEs, of which about every other may be completed by its post(), until the peer is gone. */
static void write_until_gone(struct contract_side *side, struct pst_remote *remote,
                             struct contract_account *account)
{
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  struct pst_completion done, gone;
  bool refused = false;
  while (!account->gone || account->done < account->posted) {
    if (!refused && !account->gone && account->posted - account->done < 32) {
      int rc = write_one(side, remote, account->posted);
      if (rc == 1)
        account->posted++;
      else if (rc != -EAGAIN)
        refused = true;
    }
    contract_poll(side);
    while (contract_take(side, PST_COMPLETION_DONE, PST_OP_WRITE, &done))
      contract_account_done(account, &done);
    if (contract_take(side, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED, &gone)) {
      account->gone = true;
      account->status = gone.status;
    }
    contract_in_time(deadline,
                     "the end of a killed peer and of %" PRIu64 " WRITEs: %" PRIu64 " have ended",
                     account->posted, account->done);
  }
}

static void one_death_beside_writes(const struct contract_variant *variant)
{
  struct contract_side side = {0};
  struct contract_account account = {0};
  int socket, status, death;
  uint64_t died;
  pid_t pid = spawn_target(variant, &socket);
  contract_side_open(variant, &with_rma, false, false, &side);
  struct pst_remote *remote = open_target(&side, socket);
  pid_t killer = contract_kill_soon(pid, socket, &death);
  contract_rule(
      "Exactly one DONE covers each request that post() took, also when the peer dies (-ECONNRESET, -ETIMEDOUT) or the endpoint closes (-ECANCELED).");
  write_until_gone(&side, remote, &account);
  assert_int_equal(account.status, -ECONNRESET);
  /* 0, then -ECONNRESET or -ETIMEDOUT. */
  assert_int_equal(account.unlike, 0);
  assert_int_equal(read(death, &died, sizeof(died)), sizeof(died));
  close(death);
  contract_rule("All requests taken have ended with status 0");
  int rc = write_one(&side, remote, account.posted);
  if (rc == 1)
    contract_await_done(&side, NULL, PST_OP_WRITE, 1, -ECONNRESET);
  else
    assert_int_equal(rc, -ECONNRESET);
  contract_side_close(&side);
  assert_int_equal(waitpid(killer, &status, 0), killer);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  assert_true(WIFSIGNALED(status));
  close(socket);
}

void contract_death_beside_writes(void **state)
{
  const struct contract_variant *variant = *state;
  contract_rule("Exactly one DONE covers each request that post() took");
  if (!variant->apart)
    skip();
  contract_need(state, PST_CAP_WRITE);
  contract_deaths(variant, DEATHS, one_death_beside_writes);
}
