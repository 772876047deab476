/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a message takes to a receiver that sleeps. Two processes: the sender
 * writes the time into each message's metadata and sends one every PERIOD_NS, the
 * receiver, which has slept since the last, reads the clock when poll has given it.
 *
 * usage: wake MESSAGES PORT SENDER_CPU RECEIVER_CPU; one line a message: nanoseconds, and
 * whether the receiver slept (1) or was polling still (0)
 */
#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <penstock/penstock.h>

#define PERIOD_NS UINT64_C(5000000)
#define DEADLINE_NS UINT64_C(60000000000)

static const char text[] = "penstock: 1\n"
                           "transport: loopback\n"
                           "control: {address: \"127.0.0.1:%s\"}\n"
                           "threads: {sleep_after: 1 ms}\n"
                           "streams: [{name: packets, message: 1462 B}]\n";

static uint64_t now_ns(void)
{
  struct timespec now;

  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void fail(const char *what, int code)
{
  fprintf(stderr, "wake: %s: %s\n", what, strerror(-code));
  _exit(1);
}

static struct pst_session *open_end(uint32_t role, const char *port, const char *cpu)
{
  struct pst_error error = PST_ERROR_INIT;
  struct pst_session_params params = {.struct_size = sizeof(params), .roles = role};
  struct pst_session *session = NULL;
  struct pst_config *config = NULL;
  char yaml[sizeof(text) + 16];
  cpu_set_t set;

  CPU_ZERO(&set);
  CPU_SET(strtoul(cpu, NULL, 10), &set);
  if (sched_setaffinity(0, sizeof(set), &set) < 0)
    fail(cpu, -errno);
  snprintf(yaml, sizeof(yaml), text, port);
  if (pst_config_open_text(yaml, strlen(yaml), "wake", NULL, 0, &config, &error) < 0 ||
      pst_session_open(config, &params, &session, &error) < 0 ||
      pst_session_start(session, &error) < 0)
    fail(error.text, error.code);
  pst_config_close(config);
  return session;
}

static void receive(const char *port, const char *cpu)
{
  struct pst_session *session = open_end(PST_SESSION_RECEIVER, port, cpu);
  struct pst_receiver *receiver = pst_session_receiver(session, "packets");
  struct pst_view view;
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = 1, .views = &view};
  uint64_t give_up_ns = now_ns() + DEADLINE_NS;
  bool slept = false;

  while (pst_receiver_state(receiver) < PST_STATE_ENDED && now_ns() < give_up_ns) {
    int n = pst_receiver_poll(receiver, &batch);
    uint64_t now = now_ns();
    if (n == -ENODATA) {
      pst_receiver_finish(receiver);
    } else if (n < 0) {
      fail("receiving", n);
    } else if (n == 1) {
      printf("%lu %d\n", (unsigned long)(now - view.meta), slept);
      pst_receiver_release(receiver, &view, 1);
      slept = false;
      continue;
    }
    /* A wait that did not sleep does not tell that the one before did not. */
    slept |= pst_session_wait(session, 0, NULL) == 1;
  }
  fflush(stdout);
  bool ended = pst_receiver_state(receiver) == PST_STATE_ENDED;
  pst_session_close(session);
  _exit(ended ? 0 : 1);
}

static int send_all(unsigned long messages, const char *port, const char *cpu)
{
  struct pst_session *session = open_end(PST_SESSION_SENDER, port, cpu);
  struct pst_sender *sender = pst_session_sender(session, "packets");
  uint64_t give_up_ns = now_ns() + DEADLINE_NS, next_ns = 0;
  int rc = 0;

  while (rc >= 0 && pst_sender_state(sender) < PST_STATE_ENDED && now_ns() < give_up_ns) {
    struct pst_slot slot;
    if (messages == 0 || now_ns() < next_ns || pst_sender_acquire(sender, &slot, 1) != 1) {
      rc = pst_sender_poll(sender);
      continue;
    }
    slot.length = slot.capacity;
    memset(slot.host, (int)messages, slot.length);
    slot.meta = now_ns();
    rc = pst_sender_submit(sender, &slot, 1);
    next_ns = slot.meta + PERIOD_NS;
    if (--messages == 0 && rc == 0)
      rc = pst_sender_finish(sender);
  }
  bool ended = pst_sender_state(sender) == PST_STATE_ENDED;
  pst_session_close(session);
  return ended ? 0 : 1;
}

int main(int argc, char **argv)
{
  int status = 1;

  if (argc != 5) {
    fprintf(stderr, "usage: wake MESSAGES PORT SENDER_CPU RECEIVER_CPU\n");
    return 2;
  }
  pid_t child = fork();
  if (child < 0)
    fail("fork", -errno);
  if (child == 0)
    receive(argv[2], argv[4]);
  int rc = send_all(strtoul(argv[1], NULL, 10), argv[2], argv[3]);
  if (waitpid(child, &status, 0) < 0 || !WIFEXITED(status) || WEXITSTATUS(status))
    rc = 1;
  return rc;
}
