/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the host itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

#define MIB ((uint64_t)1 << 20)
#define PINNED_LEAST (64 * MIB) /* of a program with a few rings and queues */
#define CAP_IPC_LOCK 14

static void host_check_kernel(struct doctor *doctor)
{
  const char *release = host_text(doctor->host, "proc/sys/kernel/osrelease");
  struct doctor_finding finding = {.where = "proc/sys/kernel/osrelease"};

  if (!release) {
    finding.verdict = DOCTOR_UNKNOWN;
    finding.why = "the file cannot be read";
  } else if (!host_kernel_is(doctor->host, 5, 4)) {
    finding.verdict = DOCTOR_WARNING;
    finding.remedy = "install a kernel of 5.12 or later, which has dma-buf for adapters";
  }
  doctor_add(doctor, &finding, "Linux %s", release ? release : "?");
}

/* ---- IOMMU and ACS ----------------------------------------------------------------------------
 */

/* "identity", "DMA", "DMA-FQ": how the kernel maps what this device reads and writes; NULL: there
 * is no IOMMU before it. */
static const char *host_check_iommu_of(struct doctor *doctor, const char *pci)
{
  return host_text(doctor->host, "sys/bus/pci/devices/%s/iommu_group/type", pci);
}

/* Peer-to-peer writes of an adapter into a GPU must not be translated, or must be allowed to. */
static void host_check_iommu(struct doctor *doctor)
{
  const bool is_pair = doctor->gpus.count > 0 && doctor->rdmas.count > 0;
  struct doctor_finding finding = {.where = "sys/bus/pci/devices/*/iommu_group/type"};
  size_t known = 0;

  for (size_t i = 0; i < doctor->pcis.count; i++) {
    const struct host_pci *pci = &doctor->pcis.all[i];
    const bool matters = pci->class >> 16 == 0x02 || pci->class >> 16 == 0x03;
    const char *type = matters ? host_check_iommu_of(doctor, pci->address) : NULL;
    known += type != NULL;
    if (!type || strcmp(type, "identity") == 0)
      continue;
    finding.verdict = is_pair ? DOCTOR_FAILS : DOCTOR_WARNING;
    finding.subject = pci->address;
    finding.remedy = "add iommu=pt to GRUB_CMDLINE_LINUX in /etc/default/grub, run update-grub, "
                     "reboot";
    doctor_add(doctor, &finding, "the IOMMU translates each access (%s)%s", type,
               is_pair ? ", and an adapter does not reach a GPU through it" : "");
    return;
  }
  doctor_add(doctor, &finding,
             known ? "the IOMMU passes devices through (identity)"
                   : "no IOMMU translates what devices access");
}

/* Looks at the bridges above a GPU or an adapter. The root port is none of them: what reaches it is
 * at the root complex already. True: something was found. */
static bool host_look_at_acs(struct doctor *doctor, const char *address, size_t *bridges)
{
  const struct host_pci *device = host_pci_find(&doctor->pcis, address), *above;
  struct doctor_finding finding = {.where = "sys/bus/pci/devices/*/config"};
  struct host_pci_control control;
  char remedy[128];

  for (const struct host_pci *at = device ? host_pci_above(&doctor->pcis, device) : NULL;
       at && (above = host_pci_above(&doctor->pcis, at)) != NULL; at = above) {
    host_pci_read_control(doctor->host, at, &control);
    ++*bridges;
    if (control.known != HOST_PCI_CONFIG_KNOWN) {
      finding.verdict = DOCTOR_UNKNOWN;
      finding.why = control.known == HOST_PCI_CONFIG_NOT_BUILT
                        ? "built without libpci"
                        : "only root may read configuration spaces";
      finding.remedy = "sudo penstock doctor --area host";
      doctor_add(doctor, &finding, "whether bridges redirect peer-to-peer requests");
      return true;
    }
    if (!control.acs_redirects)
      continue;
    snprintf(remedy, sizeof(remedy),
             "sudo setpci -s %s ECAP_ACS+6.w=0000; not where virtual machines have these devices",
             at->address);
    finding.verdict = DOCTOR_WARNING;
    finding.subject = at->address;
    finding.remedy = remedy;
    finding.is_lost = true;
    doctor_add(doctor, &finding,
               "the bridge above %s redirects peer-to-peer requests to the root complex",
               device->address);
    return true;
  }
  return false;
}

/* With redirection, what one device writes into another goes up to the root complex first. */
static void host_check_acs(struct doctor *doctor)
{
  const struct doctor_finding finding = {.where = "sys/bus/pci/devices/*/config"};
  size_t bridges = 0;

  for (size_t i = 0; i < doctor->gpus.count; i++)
    if (host_look_at_acs(doctor, doctor->gpus.all[i].pci, &bridges))
      return;
  for (size_t i = 0; i < doctor->rdmas.count; i++)
    if (doctor_wants_rdma(doctor, &doctor->rdmas.all[i]) &&
        host_look_at_acs(doctor, doctor->rdmas.all[i].pci, &bridges))
      return;
  doctor_add(doctor, &finding, "%s",
             bridges > 0 ? "no bridge above a GPU or an adapter redirects peer-to-peer requests"
                         : "no GPU and no adapter is behind a switch");
}

/* ---- Memory -----------------------------------------------------------------------------------
 */

static uint64_t host_check_field(struct doctor *doctor, const char *path, const char *key)
{
  char value[64];

  return host_field(doctor->host, path, key, value, sizeof(value)) ? strtoull(value, NULL, 10) : 0;
}

static void host_check_huge_pages(struct doctor *doctor)
{
  const uint64_t free_pages = host_check_field(doctor, "proc/meminfo", "HugePages_Free"),
                 total = host_check_field(doctor, "proc/meminfo", "HugePages_Total"),
                 size = 1024 * host_check_field(doctor, "proc/meminfo", "Hugepagesize"),
                 wanted = doctor->required.huge_bytes;
  struct doctor_finding finding = {.where = "proc/meminfo", .is_lost = true};
  char remedy[160];

  if (size == 0 && wanted > 0) {
    finding.remedy = "start a kernel with CONFIG_HUGETLBFS";
    finding.is_lost = false;
    finding.verdict = doctor_is_asked(doctor, NEED_DPDK) ? DOCTOR_FAILS : DOCTOR_WARNING;
  } else if (wanted > free_pages * size) {
    snprintf(remedy, sizeof(remedy), "sudo sysctl vm.nr_hugepages=%llu",
             (unsigned long long)(total + (wanted - free_pages * size + size - 1) / size));
    finding.remedy = remedy;
    finding.verdict = doctor_is_asked(doctor, NEED_DPDK) ? DOCTOR_FAILS : DOCTOR_WARNING;
  }
  doctor_add(doctor, &finding, "%llu of %llu huge pages of %llu KiB are free%s",
             (unsigned long long)free_pages, (unsigned long long)total,
             (unsigned long long)size / 1024,
             finding.remedy ? ", and DPDK needs more"
             : total == 0   ? "; only DPDK needs some"
                            : "");
}

/* CAP_IPC_LOCK lifts the limit. */
static bool host_check_may_lock_all(struct doctor *doctor)
{
  char value[64];

  return host_field(doctor->host, "proc/self/status", "CapEff", value, sizeof(value)) &&
         (strtoull(value, NULL, 16) >> CAP_IPC_LOCK & 1) != 0;
}

static void host_check_memlock(struct doctor *doctor)
{
  const uint64_t wanted =
      doctor->required.pinned_bytes > PINNED_LEAST ? doctor->required.pinned_bytes : PINNED_LEAST;
  struct doctor_finding finding = {.where = "proc/self/limits"};
  char value[128], soft[32] = "";

  if (host_check_may_lock_all(doctor)) {
    finding.where = "proc/self/status";
    doctor_add(doctor, &finding, "CAP_IPC_LOCK: locked memory has no limit");
    return;
  }
  if (host_field(doctor->host, "proc/self/limits", "Max locked memory", value, sizeof(value)))
    sscanf(value, "%31s", soft);
  if (soft[0] == '\0') {
    finding.verdict = DOCTOR_UNKNOWN;
    finding.why = "the limit cannot be read";
  } else if (strcmp(soft, "unlimited") != 0 && strtoull(soft, NULL, 10) < wanted) {
    finding.verdict = DOCTOR_FAILS;
    finding.remedy =
        "write `* - memlock unlimited` into /etc/security/limits.d/rdma.conf, and log in again; "
        "for a service LimitMEMLOCK=infinity; in a pod the capability IPC_LOCK";
  }
  doctor_add(doctor, &finding, "this process may lock %s%s%s", soft,
             strcmp(soft, "unlimited") == 0 ? "" : " bytes",
             finding.remedy ? ", too little for an adapter's rings" : "");
}

/* ---- Control groups ---------------------------------------------------------------------------
 */

/* The folder of this process's control group of version 2, "sys/fs/cgroup/a/b". */
static void host_check_group(struct doctor *doctor, char folder[HOST_PATH_BYTES])
{
  const char *group = host_text(doctor->host, "proc/self/cgroup");
  const char *own = group ? strstr(group, "0::/") : NULL;
  /* "/..": a group outside this namespace, which nothing shows here. */
  const bool is_seen = own && strncmp(own + 3, "/..", 3) != 0;

  snprintf(folder, HOST_PATH_BYTES, "sys/fs/cgroup%.*s", is_seen ? (int)strcspn(own + 3, "\n") : 0,
           is_seen ? own + 3 : "");
  const size_t end = strlen(folder);
  if (folder[end - 1] == '/')
    folder[end - 1] = '\0';
}

/* Takes the last part off the folder of a group. False: it is that of all groups. */
static bool host_check_group_above(char *folder)
{
  if (strcmp(folder, "sys/fs/cgroup") == 0)
    return false;
  *strrchr(folder, '/') = '\0';
  return true;
}

/* A file of the nearest group that has it; NULL: none. */
static const char *host_check_group_text(struct doctor *doctor, const char *file)
{
  char folder[HOST_PATH_BYTES];
  const char *text;

  host_check_group(doctor, folder);
  do
    if ((text = host_text(doctor->host, "%s/%s", folder, file)))
      return text;
  while (host_check_group_above(folder));
  return NULL;
}

/* The smallest limit of this process's group and of those above it; 0: none has one. */
static uint64_t host_check_group_most(struct doctor *doctor, const char *file,
                                      uint64_t (*limit_of)(const char *text))
{
  char folder[HOST_PATH_BYTES];
  uint64_t least = 0;

  host_check_group(doctor, folder);
  do {
    const char *text = host_text(doctor->host, "%s/%s", folder, file);
    const uint64_t limit = text && strncmp(text, "max", 3) != 0 ? limit_of(text) : 0;
    if (limit != 0 && (least == 0 || limit < least))
      least = limit;
  } while (host_check_group_above(folder));
  return least;
}

static uint64_t host_check_limit_bytes(const char *text)
{
  return strtoull(text, NULL, 10);
}

/* "50000 100000" of cpu.max: quota and period, as thousandths of a CPU. */
static uint64_t host_check_limit_cpus(const char *text)
{
  unsigned long long quota, period;

  return sscanf(text, "%llu %llu", &quota, &period) == 2 && period > 0 ? 1000 * quota / period : 0;
}

/* Is a controller one of version 1, whose limits are not read? Adds that if so. */
static bool host_check_is_version_1(struct doctor *doctor, const char *controller, const char *what)
{
  const struct doctor_finding finding = {.verdict = DOCTOR_UNKNOWN,
                                         .where = "proc/self/cgroup",
                                         .why = "control groups of version 1 are not read",
                                         .is_beyond = true};
  const char *group = host_text(doctor->host, "proc/self/cgroup");
  const size_t length = strlen(controller);

  for (const char *at = group; at && (at = strstr(at, controller)); at += length)
    if (at > group && strchr(":,", at[-1]) && strchr(":,", at[length]) && at[length] != '\0') {
      doctor_add(doctor, &finding, "whether a control group limits %s", what);
      return true;
    }
  return false;
}

/* ---- CPUs -------------------------------------------------------------------------------------
 */

static void host_check_governor(struct doctor *doctor)
{
  const char *governor =
      host_text(doctor->host, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  struct doctor_finding finding = {.where = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"};

  if (!governor) {
    doctor_add(doctor, &finding, "the kernel does not change the CPUs' frequency");
    return;
  }
  if (strcmp(governor, "performance") != 0) {
    finding.verdict = DOCTOR_WARNING;
    finding.remedy = "sudo cpupower frequency-set -g performance";
    finding.is_lost = true;
  }
  doctor_add(doctor, &finding, "CPU frequency governor %s", governor);
}

/* Is a CPU in a list of the kernel, "0-3,8"? */
static bool host_check_has_cpu(const char *list, unsigned cpu)
{
  char *end;

  for (const char *at = list; *at != '\0'; at = end + (*end == ',')) {
    const unsigned long first = strtoul(at, &end, 10);
    const unsigned long last = *end == '-' ? strtoul(end + 1, &end, 10) : first;
    if (cpu >= first && cpu <= last)
      return true;
    if (*end != ',')
      return false;
  }
  return false;
}

/* A CPU of `threads.cpus` that a thread cannot run on, or that others use, too. The affinity of
 * this process says neither: a thread may leave it, and isolated CPUs are outside. */
static bool host_look_at_cpu(struct doctor *doctor, unsigned cpu, const char *isolated)
{
  const char *online = host_text(doctor->host, "sys/devices/system/cpu/online"),
             *own = host_check_group_text(doctor, "cpuset.cpus.effective");
  struct doctor_finding finding = {.where = "sys/devices/system/cpu/isolated"};
  char remedy[256];

  finding.remedy = remedy;
  if (online && !host_check_has_cpu(online, cpu)) {
    finding.verdict = DOCTOR_FAILS;
    finding.where = "sys/devices/system/cpu/online";
    snprintf(remedy, sizeof(remedy), "write CPUs of %s at %s", online, doctor->required.cpus_at);
    doctor_add(doctor, &finding, "CPU %u of threads.cpus is not online", cpu);
  } else if (own && !host_check_has_cpu(own, cpu)) {
    finding.verdict = DOCTOR_FAILS;
    finding.where = "sys/fs/cgroup/cpuset.cpus.effective";
    snprintf(remedy, sizeof(remedy),
             "write CPUs of %s at %s, or start the container with that CPU (--cpuset-cpus)", own,
             doctor->required.cpus_at);
    doctor_add(doctor, &finding, "CPU %u of threads.cpus is not one of this control group", cpu);
  } else if (isolated && isolated[0] != '\0' && !host_check_has_cpu(isolated, cpu)) {
    finding.verdict = DOCTOR_WARNING;
    snprintf(remedy, sizeof(remedy), "write isolated CPUs, which are %s, at %s", isolated,
             doctor->required.cpus_at);
    doctor_add(doctor, &finding, "CPU %u of threads.cpus is not isolated", cpu);
  } else {
    return false;
  }
  return true;
}

static void host_check_isolation(struct doctor *doctor)
{
  const char *isolated = host_text(doctor->host, "sys/devices/system/cpu/isolated");
  char allowed[256] = "all";
  struct doctor_finding finding = {.where = "sys/devices/system/cpu/isolated"};

  for (size_t i = 0; i < doctor->required.cpu_count; i++)
    if (host_look_at_cpu(doctor, doctor->required.cpus[i], isolated))
      return;
  host_field(doctor->host, "proc/self/status", "Cpus_allowed_list", allowed, sizeof(allowed));
  doctor_add(doctor, &finding, "isolated CPUs: %s; this process may run on %s",
             isolated && isolated[0] != '\0' ? isolated : "none", allowed);
}

static void host_check_numa(struct doctor *doctor)
{
  const char *nodes = host_text(doctor->host, "sys/devices/system/node/online");
  const bool has_several = nodes && strpbrk(nodes, ",-");
  int64_t balancing = 0;
  struct doctor_finding finding = {.where = "proc/sys/kernel/numa_balancing"};

  host_number(doctor->host, &balancing, "proc/sys/kernel/numa_balancing");
  if (has_several && balancing != 0) {
    finding.verdict = DOCTOR_WARNING;
    finding.remedy = "sudo sysctl kernel.numa_balancing=0";
    finding.is_lost = true;
  }
  doctor_add(doctor, &finding, "NUMA nodes %s%s", nodes ? nodes : "0",
             finding.remedy ? "; the kernel moves pages between them while an adapter writes" : "");
}

/* ---- Containers -------------------------------------------------------------------------------
 */

static bool host_check_is_contained(struct doctor *doctor, const char **how)
{
  *how = host_has(doctor->host, "run/secrets/kubernetes.io") ||
                 host_has(doctor->host, "var/run/secrets/kubernetes.io")
             ? "a pod"
         : host_has(doctor->host, ".dockerenv") || host_has(doctor->host, "run/.containerenv")
             ? "a container"
             : NULL;
  return *how != NULL;
}

/* The limits of this process's control groups, version 2. */
static void host_check_container(struct doctor *doctor)
{
  const char *how;
  struct doctor_finding finding = {.where = "sys/fs/cgroup"};
  const bool is_contained = host_check_is_contained(doctor, &how);

  if (host_check_is_version_1(doctor, "memory", "its memory"))
    return;
  const uint64_t limit = host_check_group_most(doctor, "memory.max", host_check_limit_bytes);
  if (limit != 0 && limit < 2 * doctor->required.pinned_bytes + PINNED_LEAST) {
    finding.verdict = DOCTOR_FAILS;
    finding.where = "sys/fs/cgroup/memory.max";
    finding.remedy = "raise resources.limits.memory of the pod, or --memory of the container";
  }
  if (limit != 0)
    doctor_add(doctor, &finding, "%s; its control group limits memory to %llu MiB",
               is_contained ? how : "no container", (unsigned long long)(limit / MIB));
  else
    doctor_add(doctor, &finding, "%s; no control group limits its memory",
               is_contained ? how : "no container");
}

/* The kernel stops a group that has used its quota until the next period, 100 ms mostly. A thread
 * that polls uses a whole CPU, so it is stopped in each. */
static void host_check_quota(struct doctor *doctor)
{
  const unsigned threads = doctor->required.stream_count > 0 ? doctor->required.stream_count : 1;
  struct doctor_finding finding = {.where = "sys/fs/cgroup/cpu.max"};

  if (host_check_is_version_1(doctor, "cpu", "its CPU time"))
    return;
  const uint64_t limit = host_check_group_most(doctor, "cpu.max", host_check_limit_cpus);
  if (limit == 0) {
    doctor_add(doctor, &finding, "no control group limits CPU time");
    return;
  }
  if (limit < 1000 * (uint64_t)threads) {
    finding.verdict = DOCTOR_WARNING;
    finding.remedy = "raise resources.limits.cpu of the pod, --cpus of the container, or CPUQuota= "
                     "of the service";
  }
  doctor_add(doctor, &finding, "a control group limits CPU time to %.4g CPUs%s",
             (double)limit / 1000,
             finding.remedy ? ", less than one for each thread that polls" : "");
}

/* ---- Modules ----------------------------------------------------------------------------------
 */

/* Lockdown refuses modules that nobody signed: those of DKMS, nvidia's for instance. */
static void host_check_lockdown(struct doctor *doctor)
{
  const char *text = host_text(doctor->host, "sys/kernel/security/lockdown");
  const bool locks = text && !strstr(text, "[none]");
  struct doctor_finding finding = {.where = "sys/kernel/security/lockdown"};
  bool misses = false;

  for (size_t i = 0; i < doctor->gpus.count; i++)
    misses = misses || (!doctor->gpus.all[i].is_integrated && doctor->gpus.driver[0] == '\0');
  if (locks && misses) {
    finding.verdict = DOCTOR_WARNING;
    finding.remedy = "sudo mokutil --import /var/lib/dkms/mok.pub; reboot; enrol the key";
  }
  doctor_add(doctor, &finding, "%s%s",
             locks ? "Secure Boot: the kernel loads signed modules only"
                   : "the kernel loads any module",
             finding.remedy ? ", and a GPU has no driver" : "");
}

const struct doctor_check doctor_host_checks[] = {
    {"kernel", "host", "Is the kernel new enough?", 0, host_check_kernel},
    {"iommu", "host", "Does the IOMMU let devices reach memory and each other directly?", 0,
     host_check_iommu},
    {"acs", "host", "Do PCIe bridges let an adapter reach a GPU directly?", NEED_GPU | NEED_RDMA,
     host_check_acs},
    {"huge-pages", "host", "Are there huge pages for DPDK?", 0, host_check_huge_pages},
    {"memlock", "host", "May this user lock as much memory as an adapter needs?", NEED_PINNED,
     host_check_memlock},
    {"cpu-governor", "host", "Do the CPUs run at full frequency?", NEED_RDMA, host_check_governor},
    {"isolation", "host", "Which CPUs are kept free for streams?", 0, host_check_isolation},
    {"numa", "host", "Does the kernel leave memory where it is?", NEED_RDMA, host_check_numa},
    {"container", "host", "Do a container's limits leave enough?", 0, host_check_container},
    {"cpu-quota", "host", "Does a control group leave whole CPUs to threads that poll?", 0,
     host_check_quota},
    {"lockdown", "host", "May the kernel load the modules that are needed?", NEED_GPU,
     host_check_lockdown},
};
const size_t doctor_host_check_count = sizeof(doctor_host_checks) / sizeof(doctor_host_checks[0]);
