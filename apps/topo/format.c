/* SPDX-License-Identifier: Apache-2.0 */
/* Words that text and picture have in common. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "show.h"
#include "size.h"

const char *topo_speed_text(uint64_t mbps, char *text, size_t size)
{
  if (mbps == 0)
    text[0] = '\0';
  else if (mbps < 1000)
    snprintf(text, size, "%" PRIu64 " Mbps", mbps);
  else
    snprintf(text, size, "%.4g Gbps", (double)mbps / 1000);
  return text;
}

const char *topo_port_text(const struct topo_adapter *adapter, char *text, size_t size)
{
  char speed[32], mtu[32] = "";
  const char *const parts[] = {adapter->state,
                               topo_speed_text(adapter->speed_mbps, speed, sizeof(speed)), mtu};
  size_t used = 0;

  if (adapter->mtu > 0)
    snprintf(mtu, sizeof(mtu), "MTU %u", adapter->mtu);
  text[0] = '\0';
  for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && used < size; i++)
    if (parts[i][0])
      used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", parts[i]);
  return text;
}

const char *topo_node_cpus_text(const struct topo_machine *machine, const struct topo_node *node,
                                char *text, size_t size)
{
  char all[256], isolated[256];
  cpu_set_t set;

  CPU_ZERO(&set);
  for (size_t i = 0; i < machine->cpu_count; i++)
    if (machine->cpus[i].is_isolated && machine->cpus[i].node == node->number)
      CPU_SET((size_t)machine->cpus[i].number, &set);
  topo_cpus_text(&node->cpus, all, sizeof(all));
  if (CPU_COUNT(&set) > 0)
    snprintf(text, size, "CPUs %s (isolated: %s)", all,
             topo_cpus_text(&set, isolated, sizeof(isolated)));
  else
    snprintf(text, size, "CPUs %s", all);
  return text;
}

const char *topo_cores_text(const struct topo_core *cores, size_t count, char *text, size_t size)
{
  size_t used;

  if (count == 0)
    return snprintf(text, size, "no CPU"), text;
  used = (size_t)snprintf(text, size, "CPU%s %d", app_plural(count), cores[0].cpu);
  for (size_t i = 1; i < count && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, ",%d", cores[i].cpu);
  if (used < size)
    snprintf(text + used, size - used, "%s%s", cores[0].is_isolated ? " (isolated)" : "",
             cores[0].is_near ? "" : " (of another node)");
  return text;
}
