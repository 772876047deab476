/* SPDX-License-Identifier: Apache-2.0 */
/* This process on the fabric: attaching, its devices, leaving. */
#include "engine/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct sim_self sim_self = {.lock = PTHREAD_MUTEX_INITIALIZER};
_Atomic(struct sim_qp *) sim_qp_at[FAB_QPS];

void *sim_fail(int error)
{
  errno = error;
  return NULL;
}

void sim_alive(unsigned *count, int by)
{
  pthread_mutex_lock(&sim_self.lock);
  *count += (unsigned)by;
  pthread_mutex_unlock(&sim_self.lock);
}

static struct sim_device *sim_self_make_device(uint32_t number)
{
  const struct fab_device *from = &fab->device[number];
  struct sim_device *device = calloc(1, sizeof(*device));
  if (!device)
    return NULL;
  device->number = number;
  device->guid = from->guid;
  device->dev.transport_type = from->transport;
  device->dev.node_type = from->transport == IBV_TRANSPORT_IB      ? IBV_NODE_CA
                          : from->transport == IBV_TRANSPORT_IWARP ? IBV_NODE_RNIC
                                                                   : IBV_NODE_UNSPECIFIED;
  snprintf(device->dev.name, sizeof(device->dev.name), "%s", from->name);
  snprintf(device->dev.dev_name, sizeof(device->dev.dev_name), "uverbs%u", from->number);
  snprintf(device->dev.dev_path, sizeof(device->dev.dev_path), "/sys/class/infiniband_verbs/%s",
           device->dev.dev_name);
  snprintf(device->dev.ibdev_path, sizeof(device->dev.ibdev_path), "/sys/class/infiniband/%s",
           from->name);
  return device;
}

static int sim_self_make_devices(void)
{
  sim_self.devices = calloc(fab->devices + 1, sizeof(*sim_self.devices));
  if (!sim_self.devices)
    return ENOMEM;
  for (uint32_t i = 0; i < fab->devices; i++) {
    if (!fab->device[i].used || fab->device[i].host != fab_host)
      continue;
    struct sim_device *device = sim_self_make_device(i);
    if (!device)
      return ENOMEM;
    sim_self.devices[sim_self.device_count++] = device;
  }
  return 0;
}

/* A forked child has none of its parent's hardware, and may attach anew. */
static void sim_self_in_child(void)
{
  fab_forget();
  pthread_mutex_init(&sim_self.lock, NULL);
  sim_list_init(&sim_self.contexts);
  sim_list_init(&sim_self.qps);
  sim_list_init(&sim_self.cqs);
  sim_list_init(&sim_self.srqs);
  sim_self.tried = false;
  sim_self.nic_runs = false;
  sim_self.devices = NULL;
  sim_self.device_count = 0;
}

static int sim_self_attach(void)
{
  const char *level = getenv("PENSTOCK_SIMVERBS_LOG");
  if (level)
    fab_log_level = atoi(level);
  const char *path = getenv("PENSTOCK_SIMVERBS_FABRIC");
  if (!path || !*path) {
    fab_log(1, "there is no fabric: run the program under penstock-simverbs");
    return ENODEV;
  }
  int error = fab_attach(path, getenv("PENSTOCK_SIMVERBS_HOST"));
  if (error) {
    fab_log(1, "cannot attach to the fabric %s: %s", path, strerror(error));
    return error;
  }
  static bool once;
  if (!once)
    pthread_atfork(NULL, NULL, sim_self_in_child);
  once = true;
  return sim_self_make_devices();
}

int sim_attach(void)
{
  pthread_mutex_lock(&sim_self.lock);
  if (!sim_self.tried) {
    sim_list_init(&sim_self.contexts);
    sim_list_init(&sim_self.qps);
    sim_list_init(&sim_self.cqs);
    sim_list_init(&sim_self.srqs);
    sim_self.attach_error = sim_self_attach();
    sim_self.tried = true;
  }
  int error = sim_self.attach_error;
  pthread_mutex_unlock(&sim_self.lock);
  return error;
}

int sim_devices(struct sim_device *const **devices, unsigned *count)
{
  int error = sim_attach();
  if (error)
    return error;
  *devices = sim_self.devices;
  *count = sim_self.device_count;
  return 0;
}

static __attribute__((destructor)) void sim_self_leave(void)
{
  if (!sim_self.tried || sim_self.attach_error)
    return;
  sim_nic_stop();
  if (fab->strict)
    sim_strict_left();
  fab_detach();
}
