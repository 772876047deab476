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

/* Components of hwloc that connect to X servers, or start drivers, which may write files of theirs.
 * The kernel's folders name the same devices. */
static void topology_keep_from_drivers(hwloc_topology_t topology)
{
  static const char *const components[] = {"cuda", "gl", "levelzero", "nvml", "opencl", "rsmi"};

  for (size_t i = 0; i < sizeof(components) / sizeof(components[0]); i++)
    hwloc_topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST,
                                  components[i]);
}

/* hwloc could read a recording's sysfs by HWLOC_FSROOT, but would follow links that leave it. */
static int topology_load(struct host *host, hwloc_topology_t topology)
{
  size_t length;

  topology_keep_from_drivers(topology);
  hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
  hwloc_topology_set_type_filter(topology, HWLOC_OBJ_BRIDGE, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (host_is_live(host))
    return hwloc_topology_load(topology);
  const char *text = host_bytes(host, &length, XML);
  if (!text)
    return -1;
  if (hwloc_topology_set_xmlbuffer(topology, text, (int)length + 1) < 0) {
    errno = EINVAL;
    return -1;
  }
  return hwloc_topology_load(topology);
}

hwloc_topology_t host_topology(struct host *host, char why[HOST_WHY_BYTES])
{
  hwloc_topology_t topology = NULL;

  if (hwloc_topology_init(&topology) < 0 || topology_load(host, topology) < 0) {
    snprintf(why, HOST_WHY_BYTES, "hwloc cannot read %s: %s",
             host_is_live(host) ? "this machine" : "the recording's " XML, strerror(errno));
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

/* Empties what names one machine or device, whatever its form. */
static void topology_hide_infos(hwloc_obj_t object)
{
  static const char *const parts[] = {"Serial", "AssetTag", "UUID"};

  for (unsigned i = 0; i < object->infos_count; i++)
    for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++)
      if (strstr(object->infos[i].name, parts[k]))
        object->infos[i].value[0] = '\0';
}

static void topology_hide(hwloc_topology_t topology)
{
  static const int special[] = {HWLOC_TYPE_DEPTH_NUMANODE,   HWLOC_TYPE_DEPTH_BRIDGE,
                                HWLOC_TYPE_DEPTH_PCI_DEVICE, HWLOC_TYPE_DEPTH_OS_DEVICE,
                                HWLOC_TYPE_DEPTH_MISC,       HWLOC_TYPE_DEPTH_MEMCACHE};
  const int normal = hwloc_topology_get_depth(topology);
  const int all = normal + (int)(sizeof(special) / sizeof(special[0]));

  for (int i = 0; i < all; i++)
    for (hwloc_obj_t at = NULL;
         (at = hwloc_get_next_obj_by_depth(topology, i < normal ? i : special[i - normal], at));)
      topology_hide_infos(at);
}

int host_topology_record(struct host *host, const char *folder)
{
  char why[HOST_WHY_BYTES], *text;
  hwloc_topology_t topology = host_topology(host, why);
  int length, rc = -EIO;

  if (!topology)
    return -ENOTSUP;
  topology_hide(topology);
  if (hwloc_topology_export_xmlbuffer(topology, &text, &length, 0) == 0) {
    rc = topology_write(folder, text);
    hwloc_free_xmlbuffer(topology, text);
  }
  hwloc_topology_destroy(topology);
  return rc;
}
