/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of RDMA adapters and their ports. */
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "doctor.h"

#define MELLANOX 0x15b3u
#define INTEL 0x8086u

typedef void adapter_device_look(struct doctor *doctor, const struct host_rdma *rdma);
typedef void adapter_port_look(struct doctor *doctor, const struct host_rdma *rdma,
                               const struct host_rdma_port *port, const char *subject);

static void adapter_each(struct doctor *doctor, adapter_device_look *look)
{
  for (size_t i = 0; i < doctor->rdmas.count; i++)
    if (doctor_wants_rdma(doctor, &doctor->rdmas.all[i]))
      look(doctor, &doctor->rdmas.all[i]);
}

/* Each port, named "mlx5_0", or "mlx5_0 port 2" where the device has several. */
static void adapter_each_port(struct doctor *doctor, bool only_active, adapter_port_look *look)
{
  char subject[96];

  for (size_t i = 0; i < doctor->rdmas.count; i++) {
    const struct host_rdma *rdma = &doctor->rdmas.all[i];
    if (!doctor_wants_rdma(doctor, rdma))
      continue;
    for (size_t k = 0; k < rdma->port_count; k++) {
      const struct host_rdma_port *port = &rdma->ports[k];
      if (only_active && strcmp(port->state, "ACTIVE") != 0)
        continue;
      snprintf(subject, sizeof(subject), rdma->port_count > 1 ? "%s port %u" : "%s", rdma->name,
               port->number);
      look(doctor, rdma, port, subject);
    }
  }
}

/* ---- The device -------------------------------------------------------------------------------
 */

/* An adapter that the bus shows and no RDMA device stands for. */
static void adapter_check_driver(struct doctor *doctor)
{
  for (size_t i = 0; i < doctor->pcis.count; i++) {
    const struct host_pci *pci = &doctor->pcis.all[i];
    struct doctor_finding finding = {.subject = pci->address,
                                     .where = "sys/bus/pci/devices/*/driver"};
    bool has = false;
    /* Programs have what vfio-pci has; virtual functions are for machines and containers. */
    if (pci->vendor != MELLANOX || pci->class >> 16 != 0x02 || pci->is_virtual_function ||
        strcmp(pci->driver, "vfio-pci") == 0)
      continue;
    for (size_t k = 0; k < doctor->rdmas.count; k++)
      has = has || strcmp(doctor->rdmas.all[k].pci, pci->address) == 0;
    if (has) {
      doctor_add(doctor, &finding, "driver %s", pci->driver);
      continue;
    }
    finding.verdict = doctor->rdmas.count > 0 ? DOCTOR_WARNING : DOCTOR_FAILS;
    finding.is_lost = true;
    finding.remedy = pci->driver[0] == '\0' ? "sudo modprobe mlx5_core" : "sudo modprobe mlx5_ib";
    doctor_add(doctor, &finding, "an adapter without an RDMA device: %s%s",
               pci->driver[0] == '\0' ? "no driver has it" : "only driver ",
               pci->driver[0] == '\0' ? "" : pci->driver);
  }
}

/* Programs open uverbs; a container that has the device may lack the node. */
static void adapter_check_nodes(struct doctor *doctor)
{
  const char *why;
  struct json_object *nodes = host_facts(doctor->host, "devices", &why), *may, *error;
  struct doctor_finding finding = {.where = "/dev/infiniband"};
  size_t open = 0, all = 0;
  const char *first = "";

  if (!nodes) {
    finding.verdict = DOCTOR_UNKNOWN;
    finding.why = why;
    doctor_add(doctor, &finding, "which nodes of /dev/infiniband this user may open");
    return;
  }
  json_object_object_foreach(nodes, name, node)
  {
    if (strncmp(name, "dev/infiniband/uverbs", 21) != 0)
      continue;
    all++;
    if (json_object_object_get_ex(node, "may_open", &may) && json_object_get_boolean(may))
      open++;
    else if (json_object_object_get_ex(node, "error", &error) && error && first[0] == '\0')
      first = json_object_get_string(error);
  }
  if (all == 0 || open < all) {
    finding.verdict = DOCTOR_FAILS;
    finding.remedy =
        all == 0 ? "sudo modprobe ib_uverbs; in a container add --device=/dev/infiniband, in a pod "
                   "a resource of the RDMA device plugin"
                 : "sudo chmod 666 /dev/infiniband/uverbs*; a udev rule does so at each boot";
    finding.is_lost = true;
  }
  doctor_add(doctor, &finding, "%zu of %zu nodes may be opened%s%s", open, all,
             first[0] != '\0' ? ": " : "", first);
}

static void adapter_look_at_firmware(struct doctor *doctor, const struct host_rdma *rdma)
{
  struct doctor_finding finding = {.subject = rdma->name, .where = "sys/class/infiniband/*/fw_ver"};
  char remedy[128];

  if (doctor_is_soft(rdma))
    return;
  if (rdma->firmware[0] == '\0') {
    finding.verdict = DOCTOR_UNKNOWN;
    finding.why = "the driver names no version";
  } else if (strcmp(rdma->firmware, "0.0.0") == 0) {
    finding.verdict = DOCTOR_WARNING;
    snprintf(remedy, sizeof(remedy), "sudo mlxfwmanager --online -u -d %s", rdma->pci);
    finding.remedy = remedy;
  }
  doctor_add(doctor, &finding, "firmware %s", rdma->firmware);
}

static void adapter_check_firmware(struct doctor *doctor)
{
  adapter_each(doctor, adapter_look_at_firmware);
}

static void adapter_look_at_pcie(struct doctor *doctor, const struct host_rdma *rdma)
{
  const struct host_pci *pci = host_pci_find(&doctor->pcis, rdma->pci);
  struct doctor_finding finding = {.subject = rdma->name,
                                   .where = "sys/bus/pci/devices/*/current_link_speed"};

  if (!pci || pci->link.lanes == 0 || pci->is_virtual_function)
    return;
  if (pci->link.gtps < pci->link_most.gtps || pci->link.lanes < pci->link_most.lanes) {
    finding.verdict = DOCTOR_WARNING;
    finding.remedy = "put the adapter into a slot of its speed and width, and check the BIOS' "
                     "setting of the slot; lspci -vv shows LnkSta (downgraded)";
  }
  doctor_add(doctor, &finding, "PCIe %.4g GT/s x%u of %.4g GT/s x%u", pci->link.gtps,
             pci->link.lanes, pci->link_most.gtps, pci->link_most.lanes);
}

static void adapter_check_pcie(struct doctor *doctor)
{
  adapter_each(doctor, adapter_look_at_pcie);
}

/* Adds that only root can tell. */
static void adapter_add_unknown(struct doctor *doctor, const struct host_rdma *rdma,
                                const struct host_pci_control *control, const char *what)
{
  const struct doctor_finding finding = {.subject = rdma->name,
                                         .where = "sys/bus/pci/devices/*/config",
                                         .verdict = DOCTOR_UNKNOWN,
                                         .why = control->known == HOST_PCI_CONFIG_NOT_BUILT
                                                    ? "built without libpci"
                                                    : "only root may read it",
                                         .remedy = "sudo penstock doctor --area adapter"};

  doctor_add(doctor, &finding, "%s", what);
}

/* False: a virtual function, which has none, or it cannot be told, which is said. */
static bool adapter_read_control(struct doctor *doctor, const struct host_rdma *rdma,
                                 const char *what, struct host_pci_control *control)
{
  const struct host_pci *pci = host_pci_find(&doctor->pcis, rdma->pci);

  if (!pci || pci->is_virtual_function)
    return false;
  host_pci_read_control(doctor->host, pci, control);
  if (control->known != HOST_PCI_CONFIG_KNOWN)
    adapter_add_unknown(doctor, rdma, control, what);
  return control->known == HOST_PCI_CONFIG_KNOWN;
}

/* Root ports below which the kernel keeps relaxed ordering off: those of the Xeon E5 v3 and v4
 * (quirk_relaxedordering_disable() in drivers/pci/quirks.c, by Intel's optimization manual). */
static const struct host_pci *adapter_root_without_ordering(const struct doctor *doctor,
                                                            const struct host_rdma *rdma)
{
  const struct host_pci *root = host_pci_find(&doctor->pcis, rdma->pci), *above;

  while (root && (above = host_pci_above(&doctor->pcis, root)))
    root = above;
  const bool is_one = root && root->vendor == INTEL &&
                      ((root->device >= 0x2f01 && root->device <= 0x2f0e) ||
                       (root->device >= 0x6f01 && root->device <= 0x6f0e));
  return is_one ? root : NULL;
}

static void adapter_look_at_ordering(struct doctor *doctor, const struct host_rdma *rdma)
{
  const struct host_pci *root = adapter_root_without_ordering(doctor, rdma);
  struct doctor_finding finding = {.subject = rdma->name, .where = "sys/bus/pci/devices/*/config"};
  struct host_pci_control control;
  char remedy[128];

  if (!adapter_read_control(doctor, rdma, "PCIe relaxed ordering", &control))
    return;
  if (control.relaxed_ordering == (root != NULL)) {
    snprintf(remedy, sizeof(remedy), "sudo setpci -s %s CAP_EXP+8.w=%s:0010", rdma->pci,
             root ? "0000" : "0010");
    finding.verdict = DOCTOR_WARNING;
    finding.remedy = remedy;
    finding.is_lost = true;
  }
  doctor_add(
      doctor, &finding, "PCIe relaxed ordering is %s%s%s", control.relaxed_ordering ? "on" : "off",
      root ? "; it is slow below this processor's root port " : "", root ? root->address : "");
}

static void adapter_check_ordering(struct doctor *doctor)
{
  adapter_each(doctor, adapter_look_at_ordering);
}

static void adapter_look_at_reads(struct doctor *doctor, const struct host_rdma *rdma)
{
  struct doctor_finding finding = {.subject = rdma->name, .where = "sys/bus/pci/devices/*/config"};
  struct host_pci_control control;
  char remedy[128];

  if (!adapter_read_control(doctor, rdma, "the size of PCIe reads", &control))
    return;
  if (control.read_bytes < 4096) {
    snprintf(remedy, sizeof(remedy), "sudo setpci -s %s CAP_EXP+8.w=5000:7000", rdma->pci);
    finding.verdict = DOCTOR_WARNING;
    finding.remedy = remedy;
    finding.is_lost = true;
  }
  doctor_add(doctor, &finding, "a PCIe read is at most %u bytes, a write %u", control.read_bytes,
             control.payload_bytes);
}

static void adapter_check_reads(struct doctor *doctor)
{
  adapter_each(doctor, adapter_look_at_reads);
}

/* ---- Ports ------------------------------------------------------------------------------------
 */

/* Is it a port of the transport `ethernet`, which needs frames? */
static bool adapter_carries_frames(const struct doctor *doctor, const struct host_rdma *rdma,
                                   const struct host_rdma_port *port)
{
  for (size_t i = 0; i < doctor->required.frame_device_count; i++)
    if (strcmp(doctor->required.frame_devices[i], rdma->pci) == 0 ||
        strcmp(doctor->required.frame_devices[i], port->netdev) == 0)
      return true;
  return false;
}

static void adapter_look_at_link_type(struct doctor *doctor, const struct host_rdma *rdma,
                                      const struct host_rdma_port *port, const char *subject)
{
  struct doctor_finding finding = {.subject = subject,
                                   .where = "sys/class/infiniband/*/ports/*/link_layer"};
  char remedy[128];

  const bool carries_frames = adapter_carries_frames(doctor, rdma, port);

  if (doctor_is_soft(rdma) ||
      (doctor->required.file && !carries_frames && !doctor_is_asked(doctor, NEED_RDMA)))
    return;
  if (!port->is_ethernet && carries_frames) {
    finding.verdict = DOCTOR_FAILS;
    snprintf(remedy, sizeof(remedy), "sudo mlxconfig -d %s set LINK_TYPE_P%u=2; reboot", rdma->pci,
             port->number);
    finding.remedy = remedy;
  }
  doctor_add(doctor, &finding, "%s", port->is_ethernet ? "Ethernet: RoCE" : "InfiniBand");
}

static void adapter_check_link_type(struct doctor *doctor)
{
  adapter_each_port(doctor, false, adapter_look_at_link_type);
}

/* Has one of the adapters a port that works? */
static bool adapter_any_is_active(const struct doctor *doctor)
{
  for (size_t i = 0; i < doctor->rdmas.count; i++)
    for (size_t k = 0; k < doctor->rdmas.all[i].port_count; k++)
      if (doctor_wants_rdma(doctor, &doctor->rdmas.all[i]) &&
          strcmp(doctor->rdmas.all[i].ports[k].state, "ACTIVE") == 0)
        return true;
  return false;
}

/* A port that is down is what many hosts have; that none is up, or the one that --for names is
 * not, is none. */
static void adapter_look_at_state(struct doctor *doctor, const struct host_rdma *rdma,
                                  const struct host_rdma_port *port, const char *subject)
{
  struct doctor_finding finding = {.subject = subject,
                                   .where = "sys/class/infiniband/*/ports/*/state"};
  char remedy[160];

  (void)rdma;
  if (strcmp(port->state, "ACTIVE") != 0) {
    finding.verdict = adapter_any_is_active(doctor) && doctor->required.device_count == 0
                          ? DOCTOR_WARNING
                          : DOCTOR_FAILS;
    if (!port->is_ethernet && strcmp(port->state, "INIT") == 0)
      snprintf(remedy, sizeof(remedy), "start a subnet manager: sudo systemctl start opensm");
    else if (port->is_ethernet && port->netdev[0] != '\0')
      snprintf(remedy, sizeof(remedy), "sudo ip link set %s up; check the cable", port->netdev);
    else
      snprintf(remedy, sizeof(remedy), "check the cable and the switch's port");
    finding.remedy = remedy;
    finding.is_lost = true;
  }
  if (port->gbps > 0 && !finding.remedy)
    doctor_add(doctor, &finding, "%s, %g Gb/s", port->state, port->gbps);
  else
    doctor_add(doctor, &finding, "%s (%s)", port->state, port->physical);
}

static void adapter_check_state(struct doctor *doctor)
{
  adapter_each_port(doctor, false, adapter_look_at_state);
}

static void adapter_look_at_gids(struct doctor *doctor, const struct host_rdma *rdma,
                                 const struct host_rdma_port *port, const char *subject)
{
  struct doctor_finding finding = {.subject = subject,
                                   .where = "sys/class/infiniband/*/ports/*/gids"};
  char remedy[160];

  (void)rdma;
  if (!port->is_ethernet) {
    doctor_add(doctor, &finding, "%zu GIDs", port->gid_count);
    return;
  }
  for (size_t i = 0; i < port->gid_count; i++)
    if (port->gids[i].reach != HOST_GID_LINK_LOCAL) {
      doctor_add(doctor, &finding, "GID %u is %s, %s", port->gids[i].index, port->gids[i].address,
                 port->gids[i].type);
      return;
    }
  snprintf(remedy, sizeof(remedy), "sudo ip address add ADDRESS/24 dev %s",
           port->netdev[0] != '\0' ? port->netdev : "NETDEV");
  finding.verdict = DOCTOR_FAILS;
  finding.remedy = remedy;
  finding.is_lost = true;
  doctor_add(doctor, &finding,
             "no GID belongs to an IP address: peers reach the port only on its own link");
}

static void adapter_check_gids(struct doctor *doctor)
{
  adapter_each_port(doctor, true, adapter_look_at_gids);
}

/* Version 2 is UDP, and passes routers; version 1 does not. */
static void adapter_look_at_roce(struct doctor *doctor, const struct host_rdma *rdma,
                                 const struct host_rdma_port *port, const char *subject)
{
  struct doctor_finding finding = {.subject = subject,
                                   .where = "sys/class/infiniband/*/ports/*/gid_attrs/types"};
  bool has = false, has_type = false;
  char remedy[128];

  (void)rdma;
  for (size_t i = 0; i < port->gid_count; i++) {
    has = has || strcmp(port->gids[i].type, "RoCE v2") == 0;
    has_type = has_type || port->gids[i].type[0] != '\0';
  }
  if (!port->is_ethernet || !has_type)
    return;
  if (!has) {
    snprintf(remedy, sizeof(remedy), "sudo cma_roce_mode -d %s -p %u -m 2", rdma->name,
             port->number);
    finding.verdict = DOCTOR_FAILS;
    finding.remedy = remedy;
    finding.is_lost = true;
  }
  doctor_add(doctor, &finding, "%s", has ? "RoCE v2" : "only RoCE v1, which no router forwards");
}

static void adapter_check_roce(struct doctor *doctor)
{
  adapter_each_port(doctor, true, adapter_look_at_roce);
}

#define ADAPTER "adapter"
const struct doctor_check doctor_adapter_checks[] = {
    {"adapter-driver", ADAPTER, "Does each adapter have an RDMA device?", 0, adapter_check_driver},
    {"adapter-nodes", ADAPTER, "May this user open the RDMA devices?", NEED_RDMA,
     adapter_check_nodes},
    {"firmware", ADAPTER, "Which firmware does the adapter run?", NEED_RDMA,
     adapter_check_firmware},
    {"link-type", ADAPTER, "Is the port Ethernet or InfiniBand, as streams need it?", NEED_RDMA,
     adapter_check_link_type},
    {"port-state", ADAPTER, "Is the port active?", NEED_RDMA, adapter_check_state},
    {"pcie-link", ADAPTER, "Is the PCIe link as fast and as wide as it could be?", NEED_RDMA,
     adapter_check_pcie},
    {"gid", ADAPTER, "Does the port have a GID that peers reach?", NEED_RDMA, adapter_check_gids},
    {"roce-mode", ADAPTER, "Is the GID of RoCE v2?", NEED_RDMA, adapter_check_roce},
    {"relaxed-ordering", ADAPTER, "May the adapter's writes overtake each other on PCIe?",
     NEED_RDMA, adapter_check_ordering},
    {"pcie-reads", ADAPTER, "Are PCIe reads of the adapter large?", NEED_RDMA, adapter_check_reads},
};
const size_t doctor_adapter_check_count =
    sizeof(doctor_adapter_checks) / sizeof(doctor_adapter_checks[0]);
