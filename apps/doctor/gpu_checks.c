/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of GPUs, and of the way between an adapter and a GPU. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

#define MIB ((uint64_t)1 << 20)
#define OPEN_DRIVER 515 /* the first open kernel modules, which export dma-buf */
#define CUDA_LEAST 11070

static void gpu_subject(const struct host_gpu *gpu, char text[32])
{
  snprintf(text, 32, "GPU %s", gpu->pci[0] != '\0' ? gpu->pci : "integrated");
}

static void gpu_check_driver(struct doctor *doctor)
{
  for (size_t i = 0; i < doctor->gpus.count; i++) {
    const struct host_gpu *gpu = &doctor->gpus.all[i];
    const struct host_pci *pci = host_pci_find(&doctor->pcis, gpu->pci);
    struct doctor_finding finding = {.where = "sys/bus/pci/devices/*/driver"};
    char subject[32];
    if (gpu->is_integrated || !pci || strcmp(pci->driver, "vfio-pci") == 0)
      continue;
    gpu_subject(gpu, subject);
    finding.subject = subject;
    if (strcmp(pci->driver, "nvidia") != 0) {
      finding.verdict = DOCTOR_FAILS;
      finding.remedy = pci->driver[0] == '\0'
                           ? "sudo modprobe nvidia; where there is none, install nvidia-open"
                           : "blacklist the other driver, and install nvidia-open";
      doctor_add(doctor, &finding, "%s: driver %s", gpu->name,
                 pci->driver[0] != '\0' ? pci->driver : "none");
    } else {
      doctor_add(doctor, &finding, "%s: driver %s, %s", gpu->name, doctor->gpus.driver,
                 doctor->gpus.open_modules ? "open modules" : "closed modules");
    }
  }
}

/* Why dma-buf cannot carry it; NULL: it can. */
static const char *gpu_dmabuf_lacks(struct doctor *doctor)
{
  const struct host_gpus *gpus = &doctor->gpus;

  if (!host_kernel_is(doctor->host, 5, 12))
    return "the kernel is older than 5.12";
  if (!gpus->open_modules)
    return "the driver's modules are not the open ones";
  if (atoi(gpus->driver) < OPEN_DRIVER)
    return "the driver is older than 515";
  if (gpus->cuda != 0 && gpus->cuda < CUDA_LEAST)
    return "CUDA is older than 11.7";
  return NULL;
}

/* A NIC reaches a GPU's memory by dma-buf, or by the module nvidia-peermem. */
static void gpu_check_direct(struct doctor *doctor)
{
  const char *lacks = gpu_dmabuf_lacks(doctor);
  struct doctor_finding finding = {.where =
                                       "sys/module/nvidia_peermem, proc/driver/nvidia/version"};

  if (doctor->gpus.driver[0] == '\0')
    return; /* gpu-driver says so */
  if (!lacks) {
    doctor_add(doctor, &finding, "dma-buf: driver %s with open modules, kernel 5.12 or later",
               doctor->gpus.driver);
    return;
  }
  if (host_has_module(doctor->host, "nvidia_peermem")) {
    doctor_add(doctor, &finding, "nvidia-peermem is loaded (no dma-buf: %s)", lacks);
    return;
  }
  finding.verdict = DOCTOR_FAILS;
  finding.remedy = "sudo modprobe nvidia-peermem; write nvidia-peermem into "
                   "/etc/modules-load.d/gpu.conf";
  doctor_add(doctor, &finding, "nvidia-peermem is not loaded, and no dma-buf: %s", lacks);
}

/* Bytes of rings that the file has in this GPU. Without --for: none. */
static uint64_t gpu_rings(const struct doctor *doctor, const struct host_gpu *gpu)
{
  uint64_t bytes = 0;

  for (size_t i = 0; i < doctor->required.gpu_count; i++) {
    const char *device = doctor->required.gpus[i].device;
    const struct host_pci *pci = host_pci_find(&doctor->pcis, device);
    const bool by_index = strspn(device, "0123456789") == strlen(device);
    if (by_index ? gpu->index == atoi(device)
                 : (pci && strcmp(pci->address, gpu->pci) == 0) || strcmp(device, gpu->uuid) == 0)
      bytes += doctor->required.gpus[i].bytes;
  }
  return bytes;
}

/* Checks the size of BAR1, into which GPU memory is mapped for adapters. */
static void gpu_check_bar1(struct doctor *doctor)
{
  const bool by_adapter = doctor_is_asked(doctor, NEED_RDMA) || doctor_is_asked(doctor, NEED_DPDK);

  for (size_t i = 0; i < doctor->gpus.count; i++) {
    const struct host_gpu *gpu = &doctor->gpus.all[i];
    struct doctor_finding finding = {.where = "NVML, sys/bus/pci/devices/*/resource"};
    char subject[32];
    if (gpu->is_integrated || gpu->bar1_bytes == 0)
      continue;
    gpu_subject(gpu, subject);
    finding.subject = subject;
    if (gpu->bar1_bytes <= 256 * MIB) {
      finding.verdict = DOCTOR_WARNING;
      finding.remedy = "switch on Above 4G Decoding and Resizable BAR in the BIOS; a workstation's "
                       "GPU: displaymodeselector --gpumode compute";
    }
    if (by_adapter && gpu_rings(doctor, gpu) > gpu->bar1_bytes - gpu->bar1_used) {
      finding.verdict = DOCTOR_FAILS;
      finding.remedy =
          "smaller `ring` or `message` in the file, or end the programs that nvidia-smi "
          "lists on this GPU";
    }
    doctor_add(
        doctor, &finding, "BAR1 is %llu MiB, of which %llu MiB are mapped%s",
        (unsigned long long)(gpu->bar1_bytes / MIB), (unsigned long long)(gpu->bar1_used / MIB),
        finding.verdict == DOCTOR_FAILS ? "; the file's rings are larger than the rest" : "");
  }
}

/* Calls look() for each GPU, with a finding about it by NVML; adds that NVML cannot be asked about
 * `what`. */
static void gpu_each_by_nvml(struct doctor *doctor, const char *what,
                             void (*look)(struct doctor *, const struct host_gpu *,
                                          struct doctor_finding *))
{
  const struct doctor_finding unknown = {
      .verdict = DOCTOR_UNKNOWN, .where = "NVML", .why = doctor->gpus.nvml_why};

  if (doctor->gpus.driver[0] == '\0')
    return;
  if (!doctor->gpus.nvml_known)
    doctor_add(doctor, &unknown, "%s", what);
  for (size_t i = 0; i < doctor->gpus.count && doctor->gpus.nvml_known; i++) {
    char subject[32];
    gpu_subject(&doctor->gpus.all[i], subject);
    look(doctor, &doctor->gpus.all[i],
         &(struct doctor_finding){.where = "NVML", .subject = subject});
  }
}

static void gpu_look_at_persistence(struct doctor *doctor, const struct host_gpu *gpu,
                                    struct doctor_finding *finding)
{
  if (gpu->persistence == HOST_UNKNOWN)
    return;
  if (gpu->persistence == HOST_NO) {
    finding->verdict = DOCTOR_WARNING;
    finding->remedy = "sudo systemctl enable --now nvidia-persistenced";
  }
  doctor_add(doctor, finding, "persistence mode is %s",
             gpu->persistence == HOST_YES ? "on" : "off: each first program waits for the driver");
}

static void gpu_check_persistence(struct doctor *doctor)
{
  gpu_each_by_nvml(doctor, "persistence mode", gpu_look_at_persistence);
}

/* Errors come first: ECC that is off counts none. */
static void gpu_look_at_ecc(struct doctor *doctor, const struct host_gpu *gpu,
                            struct doctor_finding *finding)
{
  char remedy[160], which[64] = "";

  if (gpu->ecc == HOST_UNKNOWN)
    return;
  if (gpu->index >= 0)
    snprintf(which, sizeof(which), " -i %d", gpu->index);
  else if (gpu->pci[0] != '\0')
    snprintf(which, sizeof(which), " -i %s", gpu->pci);
  if (gpu->ecc_errors > 0) {
    finding->verdict = DOCTOR_FAILS;
    finding->remedy = remedy;
    snprintf(remedy, sizeof(remedy),
             "sudo nvidia-smi -r%s; replace it if nvidia-smi -q -d ROW_REMAPPER reports a failure",
             which);
  } else if (gpu->ecc == HOST_NO) {
    finding->verdict = DOCTOR_WARNING;
    finding->remedy = remedy;
    snprintf(remedy, sizeof(remedy), "sudo nvidia-smi -e 1%s; reboot", which);
  }
  doctor_add(doctor, finding, "ECC is %s%s; uncorrected errors: %lld",
             gpu->ecc == HOST_YES ? "on" : "off",
             gpu->ecc_pending != gpu->ecc && gpu->ecc_pending != HOST_UNKNOWN
                 ? ", and changes at the next reset"
                 : "",
             (long long)(gpu->ecc_errors < 0 ? 0 : gpu->ecc_errors));
}

static void gpu_check_ecc(struct doctor *doctor)
{
  gpu_each_by_nvml(doctor, "ECC", gpu_look_at_ecc);
}

/* Power and heat; a limit that the administrator set, and a GPU that is idle, are none. */
static void gpu_look_at_clocks(struct doctor *doctor, const struct host_gpu *gpu,
                               struct doctor_finding *finding)
{
  if (gpu->throttled < 0)
    return;
  const bool by_heat = gpu->throttled & (HOST_THROTTLE_HEAT | HOST_THROTTLE_HARDWARE_HEAT),
             by_power = gpu->throttled & (HOST_THROTTLE_POWER_BRAKE | HOST_THROTTLE_HARDWARE);
  if (by_heat || by_power) {
    finding->verdict = DOCTOR_WARNING;
    finding->remedy = by_heat ? "check fans and airflow: nvidia-smi -q -d TEMPERATURE,PERFORMANCE"
                              : "check power supplies and cables: nvidia-smi -q -d "
                                "POWER,PERFORMANCE";
  }
  doctor_add(doctor, finding, "%s",
             by_heat    ? "heat holds the clocks down"
             : by_power ? "the hardware holds the clocks down, for power"
                        : "neither heat nor power holds the clocks down");
}

static void gpu_check_clocks(struct doctor *doctor)
{
  gpu_each_by_nvml(doctor, "clocks", gpu_look_at_clocks);
}

/* ---- The pair ---------------------------------------------------------------------------------
 */

static void gpu_check_pair(struct doctor *doctor)
{
  for (size_t i = 0; i < doctor->gpus.count; i++) {
    const struct host_gpu *gpu = &doctor->gpus.all[i];
    const struct host_pci *pci = host_pci_find(&doctor->pcis, gpu->pci);
    struct doctor_finding finding = {.where = "sys/bus/pci/devices"};
    enum topo_distance distance = TOPO_SYS;
    const struct host_rdma *nearest = pci ? doctor_nearest(doctor, pci, &distance) : NULL;
    char subject[32];
    if (!nearest)
      continue;
    gpu_subject(gpu, subject);
    finding.subject = subject;
    if (distance >= TOPO_NODE) {
      finding.verdict = DOCTOR_WARNING;
      finding.remedy = "move the adapter into a slot below the GPU's PCIe switch or root port; "
                       "`penstock topo` shows the distances";
    }
    doctor_add(doctor, &finding, "the nearest adapter is %s: %s", nearest->name,
               topo_distance_words[distance]);
  }
}

/* ---- Integrated GPUs --------------------------------------------------------------------------
 */

/* On Tegra an adapter reaches pinned host memory, which the GPU shares: memory `igpu`. */
static void gpu_check_igpu(struct doctor *doctor)
{
  char chip[96];
  struct doctor_finding finding = {.where = "proc/device-tree/compatible"};

  host_tegra_chip(doctor->host, chip, sizeof(chip));
  if (chip[0] == '\0') {
    if (!doctor_is_asked(doctor, NEED_IGPU))
      return;
    finding.verdict = DOCTOR_ABSENT;
    doctor_add(doctor, &finding, "no integrated GPU that Penstock knows (Tegra)");
    return;
  }
  if (!host_has_module(doctor->host, "nvgpu") && !host_has_module(doctor->host, "nvidia")) {
    finding.verdict = DOCTOR_FAILS;
    finding.remedy = "sudo modprobe nvgpu";
    finding.where = "sys/module/nvgpu";
  }
  doctor_add(doctor, &finding, "%s: streams use memory igpu, which adapters reach as host memory%s",
             chip, finding.remedy ? "; the GPU's driver is not loaded" : "");
}

const struct doctor_check doctor_gpu_checks[] = {
    {"gpu-driver", "gpu", "Does each GPU have NVIDIA's driver?", NEED_GPU, gpu_check_driver},
    {"gpudirect", "gpu", "Can an adapter reach GPU memory, by dma-buf or nvidia-peermem?",
     NEED_GPU | NEED_RDMA, gpu_check_direct},
    {"bar1", "gpu", "Is all of the GPU's memory mapped on PCIe?", NEED_GPU, gpu_check_bar1},
    {"persistence", "gpu", "Does the driver stay loaded between programs?", NEED_GPU,
     gpu_check_persistence},
    {"ecc", "gpu", "Is the GPU's memory checked, and without errors?", NEED_GPU, gpu_check_ecc},
    {"gpu-clocks", "gpu", "Does the GPU run at full clocks?", NEED_GPU, gpu_check_clocks},
    {"pair", "pair", "Is an adapter near each GPU?", NEED_GPU | NEED_RDMA, gpu_check_pair},
    {"igpu", "igpu", "Which memory do adapters reach on this platform?", 0, gpu_check_igpu},
};
const size_t doctor_gpu_check_count = sizeof(doctor_gpu_checks) / sizeof(doctor_gpu_checks[0]);
