/* SPDX-License-Identifier: Apache-2.0 */
/* The machine as an object of the result. */
#include <json-c/json.h>

#include "cores.h"
#include "distance.h"
#include "json_put.h"
#include "show.h"

#define JSON_CORES 8

static void json_put_set(struct json_object *object, const char *key, const cpu_set_t *cpus)
{
  struct json_object *list = json_object_new_array();

  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, cpus))
      json_object_array_add(list, json_object_new_int(cpu));
  json_object_object_add(object, key, list);
}

static void json_put_cores(struct json_object *object, const struct topo_core *cores, size_t count)
{
  struct json_object *list = json_object_new_array();

  for (size_t i = 0; i < count; i++)
    json_object_array_add(list, json_object_new_int(cores[i].cpu));
  json_object_object_add(object, "use_cpus", list);
}

static void json_put_place(struct json_object *object, const struct topo_place *place)
{
  struct json_object *bridges = json_object_new_array();

  app_json_put_text(object, "pci", place->pci);
  app_json_put_known(object, "node", place->node >= 0, (uint64_t)place->node);
  for (uint32_t i = 0; i < place->depth; i++)
    json_object_array_add(bridges, json_object_new_string(place->bridges[i]));
  json_object_object_add(object, "bridges", bridges);
}

static struct json_object *json_of_node(const struct topo_machine *machine,
                                        const struct topo_node *node)
{
  struct json_object *object = json_object_new_object();
  cpu_set_t isolated;

  CPU_ZERO(&isolated);
  for (size_t i = 0; i < machine->cpu_count; i++)
    if (machine->cpus[i].is_isolated && machine->cpus[i].node == node->number)
      CPU_SET((size_t)machine->cpus[i].number, &isolated);
  app_json_put_uint(object, "number", (uint64_t)node->number);
  app_json_put_uint(object, "memory_bytes", node->memory_bytes);
  json_put_set(object, "cpus", &node->cpus);
  json_put_set(object, "isolated_cpus", &isolated);
  return object;
}

static void json_put_ends(struct json_object *object, const struct topo_adapter *adapter)
{
  struct json_object *addresses = json_object_new_array(), *neighbours = json_object_new_array();

  for (size_t i = 0; i < adapter->address_count; i++)
    json_object_array_add(addresses, json_object_new_string(adapter->addresses[i].text));
  for (size_t i = 0; i < adapter->neighbour_count; i++) {
    struct json_object *neighbour = json_object_new_object();
    app_json_put_text(neighbour, "address", adapter->neighbours[i].address);
    app_json_put_text(neighbour, "mac", adapter->neighbours[i].mac);
    app_json_put_text(neighbour, "state", adapter->neighbours[i].state);
    json_object_array_add(neighbours, neighbour);
  }
  json_object_object_add(object, "addresses", addresses);
  json_object_object_add(object, "neighbours", neighbours);
}

static struct json_object *json_of_adapter(const struct topo_machine *machine,
                                           const struct topo_adapter *adapter)
{
  struct json_object *object = json_object_new_object();
  const struct topo_gpu *gpu = topo_distance_best_gpu(machine, adapter);
  struct topo_core cores[JSON_CORES];

  app_json_put_text(object, "name", adapter->name);
  app_json_put_text(object, "netdev", adapter->netdev);
  app_json_put_text(object, "rdma", adapter->rdma);
  app_json_put_text(object, "model", adapter->model);
  app_json_put_text(object, "over", adapter->over);
  json_put_place(object, &adapter->place);
  app_json_put_text(object, "state", adapter->state);
  app_json_put_text(object, "link",
                    adapter->is_infiniband ? "infiniband"
                    : adapter->is_loopback ? "loopback"
                                           : "ethernet");
  app_json_put_known(object, "mtu", adapter->mtu > 0, adapter->mtu);
  app_json_put_known(object, "speed_mbps", adapter->speed_mbps > 0, adapter->speed_mbps);
  json_put_ends(object, adapter);
  app_json_put_text(object, "use_gpu", gpu ? gpu->name : NULL);
  json_put_cores(object, cores, topo_cores_choose(machine, &adapter->place, cores, JSON_CORES));
  return object;
}

static struct json_object *json_of_gpu(const struct topo_machine *machine,
                                       const struct topo_gpu *gpu)
{
  struct json_object *object = json_object_new_object(), *distances = json_object_new_object();
  const struct topo_adapter *best = topo_distance_best_adapter(machine, gpu);
  const struct topo_place *place = best ? &best->place : &gpu->place;
  struct topo_core cores[JSON_CORES];

  app_json_put_text(object, "name", gpu->name);
  app_json_put_text(object, "model", gpu->model);
  app_json_put_text(object, "uuid", gpu->uuid);
  app_json_put_bool(object, "nvidia", gpu->is_nvidia);
  app_json_put_bool(object, "integrated", gpu->is_integrated);
  json_put_place(object, &gpu->place);
  for (size_t i = 0; i < machine->adapter_count; i++)
    if (machine->adapters[i].place.pci[0])
      app_json_put_text(distances, machine->adapters[i].name,
                        topo_distance_words[topo_distance_pair(&machine->adapters[i], gpu)]);
  json_object_object_add(object, "distances", distances);
  app_json_put_text(object, "use_adapter", best ? best->name : NULL);
  json_put_cores(
      object, cores,
      topo_cores_for_gpu(machine, (size_t)(gpu - machine->gpus), place, cores, JSON_CORES));
  return object;
}

struct json_object *topo_show_json(const struct topo_machine *machine)
{
  struct json_object *object = json_object_new_object(), *nodes = json_object_new_array();
  struct json_object *adapters = json_object_new_array(), *gpus = json_object_new_array();

  for (size_t i = 0; i < machine->node_count; i++)
    json_object_array_add(nodes, json_of_node(machine, &machine->nodes[i]));
  for (size_t i = 0; i < machine->adapter_count; i++)
    json_object_array_add(adapters, json_of_adapter(machine, &machine->adapters[i]));
  for (size_t i = 0; i < machine->gpu_count; i++)
    json_object_array_add(gpus, json_of_gpu(machine, &machine->gpus[i]));
  json_object_object_add(object, "nodes", nodes);
  json_object_object_add(object, "adapters", adapters);
  json_object_object_add(object, "gpus", gpus);
  return object;
}
