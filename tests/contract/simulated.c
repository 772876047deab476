/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of tests to the simulated RDMA device, by `ctl`. */
#include <stdio.h>

#include "simulated.h"

const char *simulated_launcher;

void simulated_ctl(const char *action)
{
  char line[512];
  snprintf(line, sizeof(line), "'%s' ctl . %s", simulated_launcher, action);
  assert_int_equal(system(line), 0);
}

static uint64_t sum_of(const char *action, uint64_t (*of)(const char *line, const char *before),
                       const char *before)
{
  char line[512];
  uint64_t sum = 0;
  snprintf(line, sizeof(line), "'%s' ctl . %s", simulated_launcher, action);
  FILE *lines = popen(line, "r");
  assert_non_null(lines);
  while (fgets(line, sizeof(line), lines))
    sum += of(line, before);
  assert_int_equal(pclose(lines), 0);
  return sum;
}

static uint64_t behind(const char *line, const char *before)
{
  const char *at = strstr(line, before);
  return at ? strtoull(at + strlen(before), NULL, 10) : 0;
}

uint64_t simulated_said(const char *action, const char *before)
{
  return sum_of(action, behind, before);
}

/* "    SRQ 3: 38 of 1024 receives are posted" */
static uint64_t posted(const char *line, const char *before)
{
  unsigned int which, count;
  (void)before;
  return sscanf(line, " SRQ %u: %u of", &which, &count) == 2 ? count : 0;
}

uint64_t simulated_receives_posted(void)
{
  return sum_of("show", posted, NULL);
}

static uint64_t counter_of(const struct contract_side *side, struct pst_worker *worker,
                           struct pst_endpoint *endpoint, const char *name)
{
  struct pst_counter counters[64];
  int n = side->image.ops->counters(side->device, worker, endpoint, counters, 64);
  for (int i = 0; i < n && i < 64; i++)
    if (strcmp(counters[i].name, name) == 0)
      return counters[i].value;
  return UINT64_MAX;
}

uint64_t simulated_counter(const struct contract_side *side, struct pst_endpoint *endpoint,
                           const char *name)
{
  return counter_of(side, side->worker, endpoint, name);
}

uint64_t simulated_device_counter(const struct contract_side *side, const char *name)
{
  return counter_of(side, NULL, NULL, name);
}

void simulated_meet(struct contract_side *a, struct contract_side *b, uint32_t k)
{
  struct pst_blob blob;

  contract_address(b, k, &blob);
  assert_int_equal(contract_connect(a, k, &blob), 0);
  contract_address(a, k, &blob);
  assert_int_equal(contract_connect(b, k, &blob), 0);
  contract_await(a, b, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
  contract_await(b, a, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
}
