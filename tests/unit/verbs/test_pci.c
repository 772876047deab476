/* SPDX-License-Identifier: Apache-2.0 */
/* How far a GPU is from an adapter, by their paths and over folders like the kernel's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "pci.h"

#define ROOT "/sys/devices/pci0000:3a"
#define PORT ROOT "/0000:3a:00.0"
#define SWITCH PORT "/0000:3b:00.0"

static void paths_are_as_far_as_nvidia_smi_says(void **state)
{
  static const struct {
    const char *a, *b;
    enum vb_pci_distance distance;
  } table[] = {
      {SWITCH "/0000:3c:04.0/0000:3d:00.0", SWITCH "/0000:3c:08.0/0000:3e:00.0", VB_PCI_PIX},
      {PORT "/0000:3b:00.0", PORT "/0000:3b:00.1", VB_PCI_PIX}, /* functions of one device */
      {SWITCH "/0000:3c:04.0/0000:3d:00.0/0000:3e:00.0/0000:3f:00.0",
       SWITCH "/0000:3c:08.0/0000:4e:00.0", VB_PCI_PXB},
      {PORT "/0000:3b:00.0", ROOT "/0000:3a:01.0/0000:4b:00.0", VB_PCI_PHB},
      {ROOT "/0000:3a:00.0", ROOT "/0000:3a:00.1", VB_PCI_PHB},
      {PORT "/0000:3b:00.0", "/sys/devices/pci0000:3b/0000:3b:00.0/0000:4b:00.0", VB_PCI_SYS},
      {PORT "/0000:3b:00.0", "/sys/devices/pci0000:3a1/0000:3a:00.0/0000:3b:00.0", VB_PCI_SYS},
      {PORT "/0000:3b:00.0", "/sys/devices/virtual/infiniband/rxe0", VB_PCI_UNKNOWN}};

  (void)state;
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    assert_int_equal(vb_pci_between(table[i].a, table[i].b), table[i].distance);
    assert_int_equal(vb_pci_between(table[i].b, table[i].a), table[i].distance);
  }
  for (int i = VB_PCI_UNKNOWN; i <= VB_PCI_SYS; i++)
    assert_non_null(vb_pci_text((enum vb_pci_distance)i));
}

static char root[] = "/tmp/penstock-pci-XXXXXX", where[4][96];

static const char *in(int i, const char *name)
{
  snprintf(where[i], sizeof(where[i]), "%s/%s", root, name);
  return where[i];
}

static void make(const char *path, const char *text)
{
  char at[256];

  for (const char *end = path; (end = strchr(end + 1, '/')) != NULL;) {
    snprintf(at, sizeof(at), "%s/%.*s", root, (int)(end - path), path);
    mkdir(at, 0700);
  }
  FILE *file = fopen(in(3, path), "we");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static void gpus_are_found_by_their_uuid(void **state)
{
  (void)state;
  assert_non_null(mkdtemp(root));
  make("pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:04.0/0000:3d:00.0/x", "");
  make("pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:08.0/0000:3e:00.0/x", "");
  make("pci0000:9a/0000:9a:00.0/0000:9b:00.0/x", "");
  make("gpus/0000:3e:00.0/information", "Model: \t\t NVIDIA H200\nGPU UUID: \t GPU-near\n");
  make("gpus/0000:9b:00.0/information", "GPU UUID: \t GPU-far\n");
  make("gpus/0000:77:00.0/information", "GPU UUID: \t GPU-gone\n");
  make("devices/x", "");
  make("mlx5_0/x", "");
  assert_int_equal(symlink("../pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:04.0/0000:3d:00.0",
                           in(0, "mlx5_0/device")),
                   0);
  assert_int_equal(symlink("../pci0000:3a/0000:3a:00.0/0000:3b:00.0/0000:3c:08.0/0000:3e:00.0",
                           in(0, "devices/0000:3e:00.0")),
                   0);
  assert_int_equal(
      symlink("../pci0000:9a/0000:9a:00.0/0000:9b:00.0", in(0, "devices/0000:9b:00.0")), 0);
  in(0, "mlx5_0"), in(1, "gpus"), in(2, "devices");
#define DISTANCE(uuid) vb_pci_distance(where[0], uuid, where[1], where[2])
  assert_int_equal(DISTANCE("GPU-near"), VB_PCI_PIX);
  assert_int_equal(DISTANCE("GPU-far"), VB_PCI_SYS);
  assert_int_equal(DISTANCE("GPU-gone"), VB_PCI_UNKNOWN);
  assert_int_equal(DISTANCE("GPU-none"), VB_PCI_UNKNOWN);
  unlink(in(3, "mlx5_0/device"));
  assert_int_equal(DISTANCE("GPU-near"), VB_PCI_UNKNOWN);
  assert_int_equal(vb_pci_distance(where[0], "GPU-near", "/nowhere", where[2]), VB_PCI_UNKNOWN);
  snprintf(where[3], sizeof(where[3]), "rm -r %s", root);
  assert_int_equal(system(where[3]), 0); // NOLINT: a path of its own
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(paths_are_as_far_as_nvidia_smi_says),
                                     cmocka_unit_test(gpus_are_found_by_their_uuid)};

  return cmocka_run_group_tests(tests, NULL, NULL);
}
