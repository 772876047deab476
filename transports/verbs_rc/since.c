/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of port and host as they were when connections began, for the words of those that fail.
 * They are some tens of small files: connections of a worker that begin at one time share them. */
#include <stdio.h>

#include "rc.h"

#define SHARED_FOR_NS UINT64_C(100000000)

struct rc_since {
  uint32_t users; /* endpoints */
  uint64_t at_ns;
  struct vb_counters counters;
};

void rc_since_end(struct pst_endpoint *endpoint)
{
  struct pst_worker *worker = endpoint->worker;
  struct rc_since *since = endpoint->since;

  endpoint->since = NULL;
  if (!since || --since->users > 0)
    return;
  if (worker->since == since)
    worker->since = NULL;
  free(since);
}

static struct rc_since *read_now(struct pst_worker *worker, uint64_t now_ns)
{
  struct pst_device *device = worker->device;
  struct rc_since *made = malloc(sizeof(*made));

  if (!made)
    return NULL;
  made->users = 0;
  made->at_ns = now_ns;
  vb_counters_read(device->counter_folder, device->counter_host, &made->counters);
  return worker->since = made;
}

int rc_since_begin(struct pst_endpoint *endpoint, uint64_t now_ns)
{
  struct pst_worker *worker = endpoint->worker;
  struct rc_since *since = worker->since;

  if (!since || now_ns - since->at_ns >= SHARED_FOR_NS)
    since = read_now(worker, now_ns);
  if (!since)
    return -ENOMEM;
  since->users++;
  endpoint->since = since;
  return 0;
}

void rc_since_text(const struct pst_endpoint *endpoint, char *text, size_t size)
{
  const struct pst_device *device = endpoint->device;
  struct vb_counters now;

  if (!endpoint->since) {
    snprintf(text, size, "it had not begun");
    return;
  }
  vb_counters_read(device->counter_folder, device->counter_host, &now);
  vb_counters_text(&endpoint->since->counters, &now, text, size);
}
