/* SPDX-License-Identifier: Apache-2.0 */
/* hwloc's tree of a machine. */
#include "topology.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "redact.h"

#define XML "penstock/topology.xml"

/* hwloc takes the root of a recorded sysfs from the environment alone. */
static void topology_set_root(const char *root)
{
  if (root) {
    setenv("HWLOC_FSROOT", root, 1);
    setenv("HWLOC_THISSYSTEM", "0", 1);
    setenv("HWLOC_COMPONENTS", "linux,stop", 1);
  } else {
    unsetenv("HWLOC_FSROOT");
    unsetenv("HWLOC_THISSYSTEM");
    unsetenv("HWLOC_COMPONENTS");
  }
}

static int topology_load(struct host *host, hwloc_topology_t topology)
{
  char path[HOST_PATH_BYTES];

  hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  hwloc_topology_set_type_filter(topology, HWLOC_OBJ_BRIDGE, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (host_is_live(host))
    return hwloc_topology_load(topology);
  snprintf(path, sizeof(path), "%.480s/" XML, host_root(host));
  if (access(path, R_OK) == 0)
    return hwloc_topology_set_xml(topology, path) < 0 ? -1 : hwloc_topology_load(topology);
  topology_set_root(host_root(host));
  const int rc = hwloc_topology_load(topology);
  topology_set_root(NULL);
  return rc;
}

hwloc_topology_t host_topology(struct host *host, char why[HOST_WHY_BYTES])
{
  hwloc_topology_t topology = NULL;

  if (hwloc_topology_init(&topology) < 0 || topology_load(host, topology) < 0) {
    snprintf(why, HOST_WHY_BYTES, "hwloc cannot read this machine: %s", strerror(errno));
    if (topology)
      hwloc_topology_destroy(topology);
    return NULL;
  }
  return topology;
}

static int topology_write(const char *folder, const char *text)
{
  char path[HOST_PATH_BYTES];
  struct redact *redact = app_redact_open();
  char *hidden = app_redact_text(redact, text);
  int rc = hidden ? 0 : -ENOMEM;

  snprintf(path, sizeof(path), "%.480s/" XML, folder);
  FILE *file = rc < 0 ? NULL : fopen(path, "we");
  if (file && fputs(hidden, file) < 0)
    rc = -EIO;
  if (rc == 0 && (!file || fclose(file) != 0))
    rc = -errno;
  free(hidden);
  app_redact_close(redact);
  return rc;
}

int host_topology_record(struct host *host, const char *folder)
{
  char why[HOST_WHY_BYTES], *text;
  hwloc_topology_t topology = host_topology(host, why);
  int length, rc = -EIO;

  if (!topology)
    return -ENOTSUP;
  if (hwloc_topology_export_xmlbuffer(topology, &text, &length, 0) == 0) {
    rc = topology_write(folder, text);
    hwloc_free_xmlbuffer(topology, text);
  }
  hwloc_topology_destroy(topology);
  return rc;
}
