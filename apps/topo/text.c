/* SPDX-License-Identifier: Apache-2.0 */
/* The machine as a tree, a matrix and advice. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "distance.h"
#include "show.h"
#include "size.h"
#include "util/printable.h"

#define CORES_SHOWN 4

/* An adapter or a GPU of PCI, in a list that the tree is printed from. */
struct text_leaf {
  const struct topo_place *place;
  const struct topo_adapter *adapter; /* NULL: a GPU */
  const struct topo_gpu *gpu;
};

static int text_order_leaves(const void *a, const void *b)
{
  const struct topo_place *of_a = ((const struct text_leaf *)a)->place;
  const struct topo_place *of_b = ((const struct text_leaf *)b)->place;

  if (of_a->node != of_b->node)
    return of_a->node < of_b->node ? -1 : 1;
  for (uint32_t i = 0; i < of_a->depth && i < of_b->depth; i++) {
    const int order = strcmp(of_a->bridges[i], of_b->bridges[i]);
    if (order != 0)
      return order;
  }
  return strcmp(of_a->pci, of_b->pci);
}

/* A card with two ports is one place with two adapters. */
static struct text_leaf *text_leaves(const struct topo_machine *machine, size_t *count)
{
  struct text_leaf *leaves =
      calloc(machine->adapter_count + machine->gpu_count + 1, sizeof(*leaves));

  *count = 0;
  for (size_t i = 0; leaves && i < machine->adapter_count; i++) {
    const struct topo_adapter *adapter = &machine->adapters[i];
    if (adapter->place.pci[0] && !adapter->over[0])
      leaves[(*count)++] = (struct text_leaf){.place = &adapter->place, .adapter = adapter};
  }
  for (size_t i = 0; leaves && i < machine->gpu_count; i++) {
    const struct topo_gpu *gpu = &machine->gpus[i];
    if (gpu->place.pci[0])
      leaves[(*count)++] = (struct text_leaf){.place = &gpu->place, .gpu = gpu};
  }
  if (leaves)
    qsort(leaves, *count, sizeof(*leaves), text_order_leaves);
  return leaves;
}

static void text_print_leaf(const struct text_leaf *leaf, int indent, FILE *to)
{
  char port[TOPO_LINE_BYTES];

  if (leaf->gpu) {
    fprintf(to, "%*s%s  %s  %s%s%s\n", indent, "", leaf->gpu->name, leaf->place->pci,
            leaf->gpu->model, leaf->gpu->uuid[0] ? "  " : "", leaf->gpu->uuid);
    return;
  }
  const struct topo_adapter *adapter = leaf->adapter;
  topo_port_text(adapter, port, sizeof(port));
  fprintf(to, "%*s%s%s%s  %s  %s%s%s\n", indent, "", adapter->name,
          adapter->netdev[0] && adapter->rdma[0] ? " " : "",
          adapter->netdev[0] && adapter->rdma[0] ? adapter->rdma : "", leaf->place->pci,
          adapter->model, port[0] ? "  " : "", port);
}

/* The bridges that this leaf does not have in common with the one before it. */
static void text_print_bridges(const struct topo_place *place, const struct topo_place *before,
                               FILE *to)
{
  uint32_t common = 0;

  while (before && common < place->depth && common < before->depth &&
         strcmp(place->bridges[common], before->bridges[common]) == 0)
    common++;
  for (uint32_t i = common; i < place->depth; i++)
    fprintf(to, "%*s%s %s\n", 2 + 2 * (int)i, "", i == 0 ? "host bridge" : "bridge",
            place->bridges[i]);
}

static void text_print_devices(const struct text_leaf *leaves, size_t count, int node, FILE *to)
{
  const struct topo_place *before = NULL;

  for (size_t i = 0; i < count; i++) {
    if (leaves[i].place->node != node)
      continue;
    text_print_bridges(leaves[i].place, before, to);
    text_print_leaf(&leaves[i], 2 + 2 * (int)leaves[i].place->depth, to);
    before = leaves[i].place;
  }
}

static void text_print_tree(const struct topo_machine *machine, FILE *to)
{
  char cpus[TOPO_LINE_BYTES], size[SIZE_TEXT_BYTES];
  size_t count, placeless = 0;
  struct text_leaf *leaves = text_leaves(machine, &count);

  for (size_t i = 0; leaves && i < machine->node_count; i++) {
    const struct topo_node *node = &machine->nodes[i];
    fprintf(to, "NUMA node %d: %s, %s\n", node->number, app_size_about(node->memory_bytes, size),
            topo_node_cpus_text(machine, node, cpus, sizeof(cpus)));
    for (size_t k = 0; k < machine->gpu_count; k++)
      if (machine->gpus[k].is_integrated && machine->gpus[k].place.node == node->number)
        fprintf(to, "  %s  %s\n", machine->gpus[k].name, machine->gpus[k].model);
    text_print_devices(leaves, count, node->number, to);
  }
  for (size_t i = 0; leaves && i < count; i++)
    placeless += leaves[i].place->node < 0;
  if (placeless > 0) {
    fprintf(to, "of no known NUMA node:\n");
    text_print_devices(leaves, count, -1, to);
  }
  free(leaves);
}

static bool text_is_in_matrix(const struct topo_adapter *adapter)
{
  return adapter->place.pci[0] && !adapter->over[0];
}

static void text_print_matrix(const struct topo_machine *machine, FILE *to)
{
  bool seen[TOPO_DISTANCES] = {false};
  int width = 8;

  for (size_t i = 0; i < machine->adapter_count; i++)
    if (text_is_in_matrix(&machine->adapters[i]) && (int)strlen(machine->adapters[i].name) > width)
      width = (int)strlen(machine->adapters[i].name);
  fprintf(to, "\n%-*s", width, "");
  for (size_t k = 0; k < machine->gpu_count; k++)
    fprintf(to, "  %-5s", machine->gpus[k].name);
  fprintf(to, "\n");
  for (size_t i = 0; i < machine->adapter_count; i++) {
    if (!text_is_in_matrix(&machine->adapters[i]))
      continue;
    fprintf(to, "%-*s", width, machine->adapters[i].name);
    for (size_t k = 0; k < machine->gpu_count; k++) {
      const enum topo_distance distance =
          topo_distance_pair(&machine->adapters[i], &machine->gpus[k]);
      fprintf(to, "  %-5s", topo_distance_words[distance]);
      seen[distance] = true;
    }
    fprintf(to, "\n");
  }
  for (int i = 0; i < TOPO_DISTANCES; i++)
    if (seen[i])
      fprintf(to, "  %-4s  %s\n", topo_distance_words[i], topo_distance_meanings[i]);
}

/* Which adapter and CPUs for each GPU, and which CPUs for each adapter. */
static void text_print_advice(const struct topo_machine *machine, FILE *to)
{
  struct topo_core cores[CORES_SHOWN];
  char cpus[TOPO_LINE_BYTES];

  fprintf(to, "\nuse:\n");
  for (size_t k = 0; k < machine->gpu_count; k++) {
    const struct topo_gpu *gpu = &machine->gpus[k];
    const struct topo_adapter *best = topo_distance_best_adapter(machine, gpu);
    const struct topo_place *place = best ? &best->place : &gpu->place;
    const size_t count = topo_cores_for_gpu(machine, k, place, cores, CORES_SHOWN);
    topo_cores_text(cores, count, cpus, sizeof(cpus));
    if (best)
      fprintf(to, "  %s: adapter %s (%s), %s\n", gpu->name, best->name,
              topo_distance_words[topo_distance_pair(best, gpu)], cpus);
    else
      fprintf(to, "  %s: no adapter, %s\n", gpu->name, cpus);
  }
  for (size_t i = 0; machine->gpu_count == 0 && i < machine->adapter_count; i++) {
    const struct topo_adapter *adapter = &machine->adapters[i];
    const size_t count = topo_cores_choose(machine, &adapter->place, cores, CORES_SHOWN);
    if (text_is_in_matrix(adapter))
      fprintf(to, "  %s: %s\n", adapter->name,
              topo_cores_text(cores, topo_cores_alike(cores, count), cpus, sizeof(cpus)));
  }
}

static void text_print_ports(const struct topo_machine *machine, FILE *to)
{
  char port[TOPO_LINE_BYTES];

  fprintf(to, "\nports:\n");
  for (size_t i = 0; i < machine->adapter_count; i++) {
    const struct topo_adapter *adapter = &machine->adapters[i];
    fprintf(to, "  %s: %s%s%s", adapter->name, topo_port_text(adapter, port, sizeof(port)),
            adapter->over[0] ? ", over " : "", adapter->over);
    for (size_t k = 0; k < adapter->address_count; k++)
      fprintf(to, "%s%s", k > 0 || port[0] ? ", " : "", adapter->addresses[k].text);
    fprintf(to, "\n");
    for (size_t k = 0; k < adapter->neighbour_count; k++)
      fprintf(to, "    neighbour %s  %s  %s\n", adapter->neighbours[k].address,
              adapter->neighbours[k].mac, adapter->neighbours[k].state);
  }
}

static void text_print_all(const struct topo_machine *machine, FILE *to)
{
  size_t cards = 0;

  for (size_t i = 0; i < machine->adapter_count; i++)
    cards += text_is_in_matrix(&machine->adapters[i]);
  text_print_tree(machine, to);
  if (cards > 0 && machine->gpu_count > 0)
    text_print_matrix(machine, to);
  if (machine->gpu_count == 0)
    fprintf(to, "\nno GPU: PCI has none of NVIDIA, AMD or Intel\n");
  if (cards == 0)
    fprintf(to, "\nno adapter: PCI has no network card\n");
  if (cards + machine->gpu_count > 0)
    text_print_advice(machine, to);
  if (machine->adapter_count > 0)
    text_print_ports(machine, to);
}

/* Shows the machine as text; control characters from a driver or a recording are removed, since
 * they could steer a terminal. */
void topo_show_text(const struct topo_machine *machine, FILE *to)
{
  char *text = NULL;
  size_t length = 0;
  FILE *memory = open_memstream(&text, &length);

  if (!memory)
    return;
  text_print_all(machine, memory);
  if (fclose(memory) == 0) {
    for (char *line = text; *line != '\0';) {
      const size_t bytes = strcspn(line, "\n");
      pst_make_printable(line, bytes, '?');
      line += bytes + (line[bytes] == '\n');
    }
    fputs(text, to);
  }
  free(text);
}
