/* SPDX-License-Identifier: Apache-2.0 */
/* Platforms by attributes of the driver, and by a device tree and modules under a root of the
 * test's. */
#include "fixture.h"

#include <platform.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* A machine: the driver's attributes, the device tree's names, and loaded modules. */
struct machine {
  const char *name;
  struct {
    int which, value;
  } attributes[6];
  int capability;
  const char *compatible; /* separated by '|' */
  const char *modules[2];
  enum igpu_platform platform;
  const char *words[3];
};

#define ORIN_TREE "nvidia,p3740-0002+p3701-0008|nvidia,p3701-0008|nvidia,tegra234"

static const struct machine machines[] = {
    {"Xavier",
     {{CUDA_ATTRIBUTE_INTEGRATED, 1}},
     72,
     "nvidia,p2822-0000|nvidia,tegra194",
     {"nvidia_p2p"},
     IGPU_XAVIER,
     {"Xavier (tegra194), integrated", "cuMemAlloc's memory not at all in this release"}},
    {"Xavier whose release has nv-p2p, without the module",
     {{CUDA_ATTRIBUTE_INTEGRATED, 1}, {CUDA_ATTRIBUTE_RDMA, 1}},
     72,
     "nvidia,p2822-0000|nvidia,tegra194",
     {NULL},
     IGPU_XAVIER,
     {"Xavier (tegra194), integrated", "by nv-p2p alone, whose module (nvidia-p2p) is not loaded"}},
    {"Orin",
     {{CUDA_ATTRIBUTE_INTEGRATED, 1}, {CUDA_ATTRIBUTE_RDMA, 1}},
     87,
     ORIN_TREE,
     {"nvidia_p2p"},
     IGPU_ORIN,
     {"Orin (tegra234), integrated", "by nv-p2p alone, which CUDA 13.0 deprecates"}},
    {"Orin without the module",
     {{CUDA_ATTRIBUTE_INTEGRATED, 1}, {CUDA_ATTRIBUTE_RDMA, 1}},
     87,
     ORIN_TREE,
     {NULL},
     IGPU_ORIN,
     {"by nv-p2p alone, whose module (nvidia-p2p) is not loaded", "CUDA 13.0 deprecates"}},
    {"Orin whose release has no nv-p2p",
     {{CUDA_ATTRIBUTE_INTEGRATED, 1}},
     87,
     ORIN_TREE,
     {"nvidia_p2p"},
     IGPU_ORIN,
     {"Orin (tegra234), integrated", "cuMemAlloc's memory not at all in this release"}},
    {"Thor",
     {{CUDA_ATTRIBUTE_INTEGRATED, 1}, {CUDA_ATTRIBUTE_HOST_ALLOC_DMABUF, 1}},
     110,
     "nvidia,p3971-0089+p3834-0008|nvidia,p3834-0008|nvidia,tegra264",
     {"nvidia_peermem", "nvidia_p2p"},
     IGPU_THOR,
     {"Thor (tegra264), integrated", "any host memory, or by dma-buf, and ",
      "Thor does not support nv-p2p"}},
    {"Thor before CUDA 13, without modules",
     {{CUDA_ATTRIBUTE_INTEGRATED, 1}},
     110,
     "nvidia,p3971-0089+p3834-0008|nvidia,p3834-0008|nvidia,tegra264",
     {NULL},
     IGPU_THOR,
     {"Thor (tegra264), integrated", "any host memory, and cuMemAlloc's memory not at all",
      "Thor does not support nv-p2p"}},
    {"GB10",
     {{CUDA_ATTRIBUTE_INTEGRATED, 1}, {CUDA_ATTRIBUTE_HOST_PAGE_TABLES, 1}},
     121,
     NULL,
     {"nvidia_peermem"},
     IGPU_GB10,
     {"GB10, integrated", "any host memory, and ",
      "neither nvidia-peermem nor dma-buf works on GB10"}},
    {"GB10 with CUDA 13, without modules",
     {{CUDA_ATTRIBUTE_INTEGRATED, 1}, {CUDA_ATTRIBUTE_HOST_ALLOC_DMABUF, 1}},
     121,
     NULL,
     {NULL},
     IGPU_GB10,
     {"GB10, integrated", "any host memory, or by dma-buf, and ",
      "neither nvidia-peermem nor dma-buf works on GB10"}},
    {"Grace",
     {{CUDA_ATTRIBUTE_HOST_PAGE_TABLES, 1}, {CUDA_ATTRIBUTE_DMABUF, 1}},
     90,
     NULL,
     {NULL},
     IGPU_GRACE,
     {"discrete, coherent with the host (Grace)", "by dma-buf, which memory cuda exports"}},
    {"Grace without dma-buf",
     {{CUDA_ATTRIBUTE_HOST_PAGE_TABLES, 1}},
     100,
     NULL,
     {"nvidia_peermem"},
     IGPU_GRACE,
     {"discrete, coherent with the host (Grace)", "by nvidia-peermem, with memory cuda"}},
    {"Grace without a way",
     {{CUDA_ATTRIBUTE_HOST_PAGE_TABLES, 1}},
     100,
     NULL,
     {NULL},
     IGPU_GRACE,
     {"discrete, coherent with the host (Grace)",
      "the driver exports no dma-buf, and nvidia-peermem is not loaded"}},
    {"a board in an IGX",
     {{CUDA_ATTRIBUTE_DMABUF, 0}},
     89,
     ORIN_TREE,
     {"nvidia_peermem"},
     IGPU_DISCRETE,
     {"discrete; ", "by nvidia-peermem, with memory cuda"}},
    {"a board without a way",
     {{CUDA_ATTRIBUTE_DMABUF, 0}},
     89,
     NULL,
     {NULL},
     IGPU_DISCRETE,
     {"the driver exports no dma-buf, and nvidia-peermem is not loaded"}},
    {"one of the future",
     {{CUDA_ATTRIBUTE_INTEGRATED, 1}, {CUDA_ATTRIBUTE_DMABUF, 1}},
     130,
     "nvidia,tegra999",
     {NULL},
     IGPU_OTHER,
     {"integrated, of no platform that is known here", "cuMemAlloc's memory by dma-buf"}},
    {"one of the future with peermem",
     {{CUDA_ATTRIBUTE_INTEGRATED, 1}},
     130,
     NULL,
     {"nvidia_peermem"},
     IGPU_OTHER,
     {"cuMemAlloc's memory by nvidia-peermem"}},
    {"one of the future with nothing",
     {{CUDA_ATTRIBUTE_INTEGRATED, 1}},
     130,
     NULL,
     {NULL},
     IGPU_OTHER,
     {"cuMemAlloc's memory not at all: the driver exports no dma-buf"}},
};

static const struct machine *machine;

static cuda_status get_attribute(int *value, int which, cuda_device device)
{
  (void)device;
  *value = 0;
  for (size_t i = 0; i < sizeof(machine->attributes) / sizeof(machine->attributes[0]); i++)
    if (machine->attributes[i].which == which)
      *value = machine->attributes[i].value;
  /* A driver before CUDA 13 does not know this one. */
  return which == CUDA_ATTRIBUTE_HOST_ALLOC_DMABUF && !*value ? CUDA_INVALID_VALUE : CUDA_SUCCESS;
}

static void make_folder(const char *root, const char *folder)
{
  char path[256];
  snprintf(path, sizeof(path), "%s/%s", root, folder);
  assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
}

static void make_root(const char *root)
{
  static const char *const folders[] = {"proc", "proc/device-tree", "sys", "sys/module"};
  char path[256], names[256];
  for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++)
    make_folder(root, folders[i]);
  for (size_t i = 0; i < 2 && machine->modules[i]; i++) {
    snprintf(path, sizeof(path), "sys/module/%s", machine->modules[i]);
    make_folder(root, path);
  }
  if (!machine->compatible)
    return;
  snprintf(path, sizeof(path), "%s/proc/device-tree/compatible", root);
  snprintf(names, sizeof(names), "%s", machine->compatible);
  for (char *at = names; *at; at++)
    *at = *at == '|' ? '\0' : *at;
  FILE *file = fopen(path, "we");
  assert_non_null(file);
  assert_int_equal(fwrite(names, strlen(machine->compatible) + 1, 1, file), 1);
  assert_int_equal(fclose(file), 0);
}

static void remove_root(const char *root)
{
  static const char *const paths[] = {
      "proc/device-tree/compatible", "proc/device-tree", "proc", "sys/module/nvidia_p2p",
      "sys/module/nvidia_peermem",   "sys/module",       "sys",  ""};
  char path[256];
  for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
    snprintf(path, sizeof(path), "%s/%s", root, paths[i]);
    (void)remove(path);
  }
}

static void each_platform_has_its_words(void **state)
{
  static const struct cuda_driver driver = {.DeviceGetAttribute = get_attribute};
  (void)state;
  for (machine = machines; machine < machines + sizeof(machines) / sizeof(machines[0]); machine++) {
    const struct cuda_place place = {.capability = machine->capability};
    char root[] = "/tmp/penstock-platform-XXXXXX", text[320];
    struct igpu_facts facts;
    assert_non_null(mkdtemp(root));
    make_root(root);
    igpu_facts_read(&driver, 0, &place, root, &facts);
    remove_root(root);
    igpu_platform_text(&facts, text, sizeof(text));
    if (igpu_platform_of(&facts) != machine->platform)
      fail_msg("%s: platform %d: %s", machine->name, igpu_platform_of(&facts), text);
    for (size_t i = 0; i < 3 && machine->words[i]; i++)
      if (!strstr(text, machine->words[i]))
        fail_msg("%s: \"%s\" is not in: %s", machine->name, machine->words[i], text);
    assert_true(strlen(text) < sizeof(text) - 1); /* not cut */
    assert_int_equal(access(root, F_OK), -1);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(each_platform_has_its_words)};
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
