/* SPDX-License-Identifier: Apache-2.0 */
/* Finds an endpoint's adapter and GPU among those of this machine. */
#include "end_devices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "topo/machine.h"

/* The last of that name counts, as for the plugin; "" if there is none. */
static const char *bench_end_devices_option(const struct pst_setting *options, uint32_t count,
                                            const char *name)
{
  const char *value = "";

  for (uint32_t i = 0; i < count; i++)
    if (strcmp(options[i].name, name) == 0)
      value = options[i].value;
  return value;
}

static void bench_end_devices_copy(char to[END_DEVICE_MAX], const char *from)
{
  snprintf(to, END_DEVICE_MAX, "%.*s", END_DEVICE_MAX - 1, from);
}

/* "[fd00::1]" as "fd00::1" */
static void bench_end_devices_strip(char to[END_DEVICE_MAX], const char *host)
{
  bench_end_devices_copy(to, host + (host[0] == '['));
  to[strcspn(to, "]")] = '\0';
}

static void bench_end_devices_append(char list[END_DEVICE_MAX], const char *one)
{
  const size_t used = strlen(list);

  snprintf(list + used, END_DEVICE_MAX - used, "%s%s", used > 0 ? "," : "", one);
}

/* Adds an adapter by its name or address; loopback interfaces are no adapter. False: this machine
 * has none of that name. */
static bool bench_end_devices_add(const struct topo_machine *machine, const char *name,
                                  struct end_device *device)
{
  const struct topo_adapter *adapter = machine ? topo_adapter_find(machine, name) : NULL;

  if (!adapter)
    return false;
  if (adapter->is_loopback)
    return true;
  const bool by_rdma = adapter->rdma[0] && strcmp(adapter->rdma, name) == 0;
  bench_end_devices_append(device->name, by_rdma ? adapter->rdma : adapter->name);
  bench_end_devices_append(device->id, adapter->place.pci[0] ? adapter->place.pci : adapter->name);
  return true;
}

/* Adds the adapters of a list. UCX names a port of a device as "mlx5_0:1". */
static bool bench_end_devices_add_list(const struct topo_machine *machine, const char *list,
                                       struct end_device *device)
{
  bool is_found = false;
  char name[END_DEVICE_MAX];

  while (list[0] != '\0') {
    const size_t length = strcspn(list, ",");
    snprintf(name, sizeof(name), "%.*s", (int)length, list);
    if (bench_end_devices_add(machine, name, device)) {
      is_found = true;
    } else {
      name[strcspn(name, ":")] = '\0';
      is_found |= bench_end_devices_add(machine, name, device);
    }
    list += length + (list[length] == ',');
  }
  return is_found;
}

/* Finds the adapters that the transport's option names, else the one that has the address. */
static void bench_end_devices_find_adapter(const struct topo_machine *machine,
                                           const struct bench_side *side, const char *host,
                                           struct end_device *device)
{
  const char *written =
      bench_end_devices_option(side->transport_options, side->transport_option_count, "device");
  char address[END_DEVICE_MAX];

  if (strcmp(side->transport, "loopback") == 0)
    return;
  if (written[0] == '\0')
    written = bench_end_devices_option(side->transport_options, side->transport_option_count,
                                       "net_devices");
  bench_end_devices_strip(address, host);
  if (bench_end_devices_add_list(machine, written, device) ||
      bench_end_devices_add(machine, address, device))
    return;
  bench_end_devices_copy(device->name, written);
  bench_end_devices_copy(device->id, written);
}

/* An index counts those GPUs that CUDA_VISIBLE_DEVICES shows. */
static void bench_end_devices_unhide(const char *written, char name[END_DEVICE_MAX])
{
  const char *shown = getenv("CUDA_VISIBLE_DEVICES");
  char *end = NULL;
  unsigned long index = strtoul(written, &end, 10);

  bench_end_devices_copy(name, written);
  if (*end != '\0') /* a UUID or a PCI address */
    return;
  for (; shown && index > 0; index--) {
    shown = strchr(shown, ',');
    shown = shown ? shown + 1 : NULL;
  }
  if (shown && shown[0] != '\0')
    snprintf(name, END_DEVICE_MAX, "%.*s",
             (int)(strcspn(shown, ",") < END_DEVICE_MAX ? strcspn(shown, ",") : END_DEVICE_MAX - 1),
             shown);
  index = strtoul(name, &end, 10);
  if (*end == '\0')
    snprintf(name, END_DEVICE_MAX, "gpu%lu", index);
}

const struct topo_gpu *bench_end_devices_visible_gpu(const struct topo_machine *machine,
                                                     uint32_t index)
{
  const char *shown = getenv("CUDA_VISIBLE_DEVICES");
  char written[16], name[END_DEVICE_MAX];
  uint32_t count = shown && shown[0] != '\0';

  for (const char *comma = shown ? strchr(shown, ',') : NULL; comma; comma = strchr(comma + 1, ','))
    count++;
  if (shown && index >= count)
    return NULL;
  snprintf(written, sizeof(written), "%u", index);
  bench_end_devices_unhide(written, name);
  const struct topo_gpu *gpu = topo_gpu_find(machine, name);
  return gpu && gpu->is_nvidia ? gpu : NULL;
}

static void bench_end_devices_find_gpu(const struct topo_machine *machine,
                                       const struct bench_side *side, struct end_device *device)
{
  const struct topo_gpu *gpu = NULL;
  char name[END_DEVICE_MAX];

  if (strcmp(side->memory, "cuda") != 0 && strcmp(side->memory, "igpu") != 0)
    return;
  const char *written =
      bench_end_devices_option(side->memory_options, side->memory_option_count, "device");
  if (written[0] == '\0' && strcmp(side->memory, "igpu") == 0)
    bench_end_devices_copy(name, "igpu"); /* the integrated one, whatever its index is */
  else
    bench_end_devices_unhide(written, name);
  if (machine)
    gpu = topo_gpu_find(machine, name);
  bench_end_devices_copy(device->name, gpu ? gpu->name : name);
  bench_end_devices_copy(device->id, gpu && gpu->place.pci[0] ? gpu->place.pci : device->name);
}

void bench_end_devices_find(const struct topo_machine *machine, const struct bench_side *side,
                            const char *host, struct end_devices *devices)
{
  *devices = (struct end_devices){.adapter = {.name = ""}};
  bench_end_devices_find_adapter(machine, side, host, &devices->adapter);
  bench_end_devices_find_gpu(machine, side, &devices->gpu);
}
