/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes where descriptors are short: both ends hear at once what to raise, whichever step it is
 * that finds none. */
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support.h"

#define LIMIT 320
#define STEPS 64
#define AREA 4096u

static int taken[LIMIT];
static int taken_count;

/* But for so many. */
static void take_all(int but)
{
  int fd;

  taken_count = 0;
  while ((fd = fcntl(0, F_DUPFD_CLOEXEC, 0)) >= 0)
    taken[taken_count++] = fd;
  assert_int_equal(errno, EMFILE);
  assert_true(taken_count > but);
  while (but-- > 0)
    close(taken[--taken_count]);
}

static void give_back(void)
{
  while (taken_count > 0)
    close(taken[--taken_count]);
}

static void expect_remedy(int status, const char *text)
{
  if (status == -ETIMEDOUT || !strstr(text, "ulimit -n"))
    fail_msg("%s: %s", strerror(-status), text);
}

/* Waits for the client's next event; true: it is `wanted`. */
static bool await_either(struct pair *pair, uint8_t wanted)
{
  uint64_t deadline = now_ns() + DEADLINE_NS;
  struct pst_node_event event;
  char text[256];

  for (;;) {
    if (side_take(&pair->client, wanted, &event, text)) {
      if (event.status < 0)
        expect_remedy(event.status, text);
      return event.status == 0;
    }
    if (side_take(&pair->client, PST_NODE_LEFT, &event, text)) {
      expect_remedy(event.status, text);
      return false;
    }
    side_poll(&pair->client);
    side_poll(&pair->server);
    assert_true(now_ns() < deadline);
  }
}

/* True: it joined, and its region is taken. */
static bool try_with(int free_fds)
{
  static struct pair pair;
  struct pst_node_params params = some_params();
  struct pst_error error = PST_ERROR_INIT;
  char address[64];
  uint32_t id;

  side_open(&pair.client, &params);
  params.listen = "127.0.0.1:0";
  side_open(&pair.server, &params);
  struct pst_area *area = area_of(&pair.client, AREA);
  snprintf(address, sizeof(address), "127.0.0.1:%u", pst_node_port(pair.server.node));
  take_all(free_fds);
  int rc = pst_node_connect(pair.client.node, address, &pair.client.peer, &error);
  if (rc < 0)
    expect_remedy(rc, error.text);
  bool ok = rc == 0 && await_either(&pair, PST_NODE_JOINED);
  if (ok)
    rc = pst_peer_offer(pair.client.peer, area, 0, AREA, ALL_ACCESS, &id);
  if (ok && rc < 0)
    assert_int_equal(rc, -EMFILE);
  ok = ok && rc == 0 && await_either(&pair, PST_NODE_TAKEN);
  give_back();
  pair_close(&pair);
  return ok;
}

static void each_step_says_what_to_raise(void **state)
{
  int free_fds = 0;

  (void)state;
  while (free_fds < STEPS && !try_with(free_fds))
    free_fds++;
  assert_in_range(free_fds, 8, STEPS - 1);
}

static void drop_line(void *context, int level, const char *line)
{
  (void)context;
  (void)level;
  (void)line;
}

static int lower(void **state)
{
  struct rlimit limit;

  (void)state;
  pst_log_set(drop_line, NULL, PST_LOG_ERROR);
  if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
    return -1;
  limit.rlim_cur = LIMIT;
  return setrlimit(RLIMIT_NOFILE, &limit);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_step_says_what_to_raise)};

  return cmocka_run_group_tests(tests, lower, NULL);
}
