/* SPDX-License-Identifier: Apache-2.0 */
/* Findings, and what checks share. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

static char *findings_copy(const char *text)
{
  return text ? strdup(text) : NULL;
}

void doctor_add(struct doctor *doctor, const struct doctor_finding *finding, const char *format,
                ...)
{
  struct doctor_finding *longer =
      reallocarray(doctor->findings, doctor->count + 1, sizeof(*longer));
  va_list args;

  if (!longer)
    return;
  doctor->findings = longer;
  struct doctor_finding *added = &longer[doctor->count++];
  *added = *finding;
  added->check = doctor->check->id;
  added->area = doctor->check->area;
  added->subject = findings_copy(finding->subject);
  added->where = findings_copy(finding->where);
  added->why = findings_copy(finding->why);
  added->remedy = findings_copy(finding->remedy);
  added->is_lost = finding->remedy && finding->is_lost;
  va_start(args, format);
  if (vasprintf(&added->read, format, args) < 0)
    added->read = NULL;
  va_end(args);
}

bool doctor_is_soft(const struct host_rdma *rdma)
{
  return rdma->pci[0] == '\0';
}

bool doctor_is_asked(const struct doctor *doctor, uint32_t need)
{
  return (doctor->required.needs & need) != 0;
}

/* Does a stream's option `device` name it: the device, a network device of a port, or an address?
 */
static bool findings_is_named(const struct doctor *doctor, const struct host_rdma *rdma,
                              const char *name)
{
  if (strcmp(rdma->name, name) == 0 || strcmp(rdma->pci, name) == 0)
    return true;
  for (size_t i = 0; i < rdma->port_count; i++) {
    const struct host_link *link = host_link_find(&doctor->network, rdma->ports[i].netdev);
    if (strcmp(rdma->ports[i].netdev, name) == 0 ||
        (link && host_link_with(&doctor->network, name) == link))
      return true;
  }
  return false;
}

bool doctor_wants_rdma(const struct doctor *doctor, const struct host_rdma *rdma)
{
  for (size_t i = 0; i < doctor->required.device_count; i++)
    if (findings_is_named(doctor, rdma, doctor->required.devices[i]))
      return true;
  return doctor->required.device_count == 0;
}

bool doctor_has_rdma(const struct doctor *doctor, const char *name)
{
  for (size_t i = 0; i < doctor->rdmas.count; i++)
    if (findings_is_named(doctor, &doctor->rdmas.all[i], name))
      return true;
  return false;
}

/* Where sysfs has the device: "pci0000:10/0000:10:01.0/0000:11:00.0". False: on no PCI bus. */
static bool findings_place(const struct host_pci *pci, struct topo_place *place)
{
  *place = (struct topo_place){.node = pci->numa_node};
  if (strncmp(pci->path, "pci", 3) != 0)
    return false;
  const char *part = pci->path + 3;
  for (size_t bytes; place->depth < TOPO_DEPTH && part[bytes = strcspn(part, "/")] == '/';
       part += bytes + 1)
    snprintf(place->bridges[place->depth++], TOPO_PCI_BYTES, "%.*s", (int)bytes, part);
  return true;
}

const struct host_rdma *doctor_nearest(const struct doctor *doctor, const struct host_pci *gpu,
                                       enum topo_distance *distance)
{
  const struct host_rdma *nearest = NULL;
  struct topo_place place, own;

  if (!findings_place(gpu, &own))
    return NULL;
  for (size_t i = 0; i < doctor->rdmas.count; i++) {
    const struct host_pci *pci = host_pci_find(&doctor->pcis, doctor->rdmas.all[i].pci);
    if (!pci || !findings_place(pci, &place) || !doctor_wants_rdma(doctor, &doctor->rdmas.all[i]))
      continue;
    const enum topo_distance here = topo_distance(&place, &own);
    if (!nearest || here < *distance) {
      nearest = &doctor->rdmas.all[i];
      *distance = here;
    }
  }
  return nearest;
}
