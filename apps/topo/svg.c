/* SPDX-License-Identifier: Apache-2.0 */
/* The machine as a picture: a column for each NUMA node, a frame for each host bridge and switch,
 * and the matrix of distances below. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "distance.h"
#include "plain_text.h"
#include "show.h"
#include "size.h"

#define BOX_WIDTH 190
#define BOX_HEIGHT 58
#define GAP 10
#define IN_ROW 3
#define COLUMN_WIDTH (IN_ROW * (BOX_WIDTH + GAP) + 5 * GAP)
#define COLUMNS 2
#define CELL_WIDTH 64
#define CELL_HEIGHT 24
#define LABEL_WIDTH 150
#define TITLE_HEIGHT 56
#define HEAD 20
#define LETTERS 27 /* of a line in a box */

/* Where the next thing is drawn. */
struct svg_pen {
  FILE *to;
  int x, y;
};

/* At most that many bytes of a text. */
static void svg_print_escaped(FILE *to, const char *text, size_t most)
{
  const size_t length = strlen(text);
  size_t end = length < most ? length : most;

  while (end > 0 && end < length && ((unsigned char)text[end] & 0xc0) == 0x80)
    end--; /* not within a character */
  app_xml_put(to, text, end);
  if (length > end)
    fputs("…", to);
}

static void svg_print_text(FILE *to, int x, int y, const char *class, const char *text, size_t most)
{
  fprintf(to, "<text x=\"%d\" y=\"%d\" class=\"%s\">", x, y, class);
  svg_print_escaped(to, text, most);
  fprintf(to, "</text>\n");
}

static void svg_print_frame(FILE *to, int x, int y, int width, int height, const char *class)
{
  fprintf(to, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" rx=\"4\" class=\"%s\"/>\n", x, y,
          width, height, class);
}

/* A device of the tree, of which one index is not SIZE_MAX. */
struct svg_device {
  const struct topo_place *place;
  const struct topo_adapter *adapter;
  const struct topo_gpu *gpu;
};

static int svg_order(const void *a, const void *b)
{
  const struct topo_place *of_a = ((const struct svg_device *)a)->place;
  const struct topo_place *of_b = ((const struct svg_device *)b)->place;

  for (uint32_t i = 0; i < 2 && i < of_a->depth && i < of_b->depth; i++) {
    const int order = strcmp(of_a->bridges[i], of_b->bridges[i]);
    if (order != 0)
      return order;
  }
  return strcmp(of_a->pci, of_b->pci);
}

/* Do both hang below one root port? */
static bool svg_is_one_port(const struct topo_place *a, const struct topo_place *b)
{
  if (a->depth == 0 || b->depth == 0 || strcmp(a->bridges[0], b->bridges[0]) != 0)
    return false;
  if (a->depth < 2 || b->depth < 2)
    return a->depth < 2 && b->depth < 2;
  return strcmp(a->bridges[1], b->bridges[1]) == 0;
}

static void svg_print_device(FILE *to, int x, int y, const struct svg_device *device)
{
  char name[TOPO_LINE_BYTES], port[TOPO_LINE_BYTES];

  svg_print_frame(to, x, y, BOX_WIDTH, BOX_HEIGHT, device->gpu ? "gpu" : "adapter");
  if (device->gpu) {
    svg_print_text(to, x + 8, y + 17, "name", device->gpu->name, LETTERS);
    svg_print_text(to, x + 8, y + 33, "small", device->gpu->model, LETTERS);
  } else {
    const struct topo_adapter *adapter = device->adapter;
    const bool both = adapter->netdev[0] && adapter->rdma[0];
    snprintf(name, sizeof(name), "%s%s%s", adapter->name, both ? " · " : "",
             both ? adapter->rdma : "");
    svg_print_text(to, x + 8, y + 17, "name", name, LETTERS);
    topo_port_text(adapter, port, sizeof(port));
    svg_print_text(to, x + 8, y + 33, "small", port[0] ? port : adapter->model, LETTERS);
  }
  svg_print_text(to, x + 8, y + 49, "small", device->place->pci, LETTERS);
}

/* The devices from `first` on that hang below one root port, in a frame. How many. */
static size_t svg_print_group(struct svg_pen *pen, const struct svg_device *devices, size_t count)
{
  const struct topo_place *place = devices[0].place;
  char title[64];
  size_t in = 1;

  while (in < count && svg_is_one_port(place, devices[in].place))
    in++;
  const int rows = (int)((in + IN_ROW - 1) / IN_ROW);
  const int height = 24 + rows * (BOX_HEIGHT + GAP);
  svg_print_frame(pen->to, pen->x + GAP, pen->y, COLUMN_WIDTH - 2 * GAP, height, "group");
  snprintf(title, sizeof(title), "host bridge %s%s%s", place->depth > 0 ? place->bridges[0] : "?",
           place->depth > 1 ? " · port " : "", place->depth > 1 ? place->bridges[1] : "");
  svg_print_text(pen->to, pen->x + 2 * GAP, pen->y + 16, "small", title, sizeof(title));
  for (size_t i = 0; i < in; i++)
    svg_print_device(pen->to, pen->x + 2 * GAP + (int)(i % IN_ROW) * (BOX_WIDTH + GAP),
                     pen->y + 24 + (int)(i / IN_ROW) * (BOX_HEIGHT + GAP), &devices[i]);
  pen->y += height + GAP;
  return in;
}

/* All devices of a node, sorted; number -1: those of none. */
static size_t svg_devices_of(const struct topo_machine *machine, int number,
                             struct svg_device *devices)
{
  size_t count = 0;

  for (size_t i = 0; i < machine->gpu_count; i++)
    if (machine->gpus[i].place.node == number && !machine->gpus[i].is_integrated)
      devices[count++] =
          (struct svg_device){.place = &machine->gpus[i].place, .gpu = &machine->gpus[i]};
  for (size_t i = 0; i < machine->adapter_count; i++)
    if (machine->adapters[i].place.pci[0] && !machine->adapters[i].over[0] &&
        machine->adapters[i].place.node == number)
      devices[count++] = (struct svg_device){.place = &machine->adapters[i].place,
                                             .adapter = &machine->adapters[i]};
  qsort(devices, count, sizeof(*devices), svg_order);
  return count;
}

static int svg_height_of(const struct svg_device *devices, size_t count)
{
  int height = TITLE_HEIGHT;

  for (size_t i = 0; i < count;) {
    size_t in = 1;
    while (i + in < count && svg_is_one_port(devices[i].place, devices[i + in].place))
      in++;
    height += 24 + (int)((in + IN_ROW - 1) / IN_ROW) * (BOX_HEIGHT + GAP) + GAP;
    i += in;
  }
  return height;
}

/* One column, from pen->y on; its height. node NULL: devices of no known node. */
static int svg_print_node(struct svg_pen *pen, const struct topo_machine *machine,
                          const struct topo_node *node, struct svg_device *devices)
{
  const size_t count = svg_devices_of(machine, node ? node->number : -1, devices);
  const int height = svg_height_of(devices, count), top = pen->y;
  char title[128], cpus[TOPO_LINE_BYTES], size[SIZE_TEXT_BYTES];
  const char *integrated = "";

  if (!node && count == 0)
    return 0;
  for (size_t i = 0; node && i < machine->gpu_count; i++)
    if (machine->gpus[i].is_integrated && machine->gpus[i].place.node == node->number)
      integrated = machine->gpus[i].name;
  svg_print_frame(pen->to, pen->x, top, COLUMN_WIDTH, height, "node");
  snprintf(title, sizeof(title), "NUMA node %d · %s%s%s", node ? node->number : -1,
           node ? app_size_about(node->memory_bytes, size) : "", integrated[0] ? " · with " : "",
           integrated);
  svg_print_text(pen->to, pen->x + GAP, top + 22, "title", node ? title : "no known NUMA node",
                 sizeof(title));
  if (node)
    svg_print_text(pen->to, pen->x + GAP, top + 42, "text",
                   topo_node_cpus_text(machine, node, cpus, sizeof(cpus)), 84);
  pen->y = top + TITLE_HEIGHT;
  for (size_t i = 0; i < count;)
    i += svg_print_group(pen, devices + i, count - i);
  pen->y = top;
  return height;
}

static void svg_print_row(FILE *to, const struct topo_machine *machine,
                          const struct topo_adapter *adapter, int y)
{
  svg_print_text(to, GAP, y + 16, "text", adapter->name, 20);
  for (size_t k = 0; k < machine->gpu_count; k++) {
    const enum topo_distance distance = topo_distance_pair(adapter, &machine->gpus[k]);
    const int x = LABEL_WIDTH + (int)k * CELL_WIDTH;
    fprintf(to,
            "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" class=\"d%d\"/>\n"
            "<text x=\"%d\" y=\"%d\" class=\"cell\">%s</text>\n",
            x, y, CELL_WIDTH - 2, CELL_HEIGHT - 2, (int)distance, x + CELL_WIDTH / 2 - 1, y + 16,
            topo_distance_words[distance]);
  }
}

/* From `y` on; where it ends. */
static int svg_print_matrix(FILE *to, const struct topo_machine *machine, int y)
{
  if (machine->gpu_count == 0)
    return y;
  y += 16;
  for (size_t k = 0; k < machine->gpu_count; k++)
    fprintf(to, "<text x=\"%d\" y=\"%d\" class=\"cell\">%s</text>\n",
            LABEL_WIDTH + (int)k * CELL_WIDTH + CELL_WIDTH / 2 - 1, y, machine->gpus[k].name);
  y += 8;
  for (size_t i = 0; i < machine->adapter_count; i++) {
    if (!machine->adapters[i].place.pci[0] || machine->adapters[i].over[0])
      continue;
    svg_print_row(to, machine, &machine->adapters[i], y);
    y += CELL_HEIGHT;
  }
  y += GAP;
  for (int i = 0; i < TOPO_DISTANCES; i++) {
    fprintf(to, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"18\" class=\"d%d\"/>\n", GAP, y,
            CELL_WIDTH - 16, i);
    fprintf(to, "<text x=\"%d\" y=\"%d\" class=\"cell\">%s</text>\n", GAP + (CELL_WIDTH - 16) / 2,
            y + 13, topo_distance_words[i]);
    svg_print_text(to, GAP + CELL_WIDTH, y + 13, "text", topo_distance_meanings[i], 80);
    y += 22;
  }
  return y;
}

static const char svg_style[] =
    "<style>text{font-family:sans-serif;font-size:12px;fill:#1b1f24}"
    ".title{font-size:15px;font-weight:bold}.name{font-weight:bold}.small{font-size:11px;fill:#444}"
    ".cell{text-anchor:middle}.node{fill:#f6f8fa;stroke:#8c959f}.group{fill:#fff;stroke:#c4ccd4}"
    ".adapter{fill:#ddf0ff;stroke:#54a3d8}.gpu{fill:#e3f6dd;stroke:#5ba944}"
    ".d0{fill:#8fd694}.d1{fill:#c5e8b7}.d2{fill:#fbe7a1}.d3{fill:#f7c58b}.d4{fill:#f1a08f}"
    "</style>\n";

/* The drawing's body goes to memory first: its height stands in the first line. */
void topo_show_svg(const struct topo_machine *machine, FILE *to)
{
  struct svg_device *devices =
      calloc(machine->adapter_count + machine->gpu_count + 1, sizeof(*devices));
  char *body = NULL;
  size_t length = 0;
  FILE *memory = open_memstream(&body, &length);
  struct svg_pen pen = {.to = memory, .x = GAP, .y = HEAD};
  int row_height = 0, width = GAP + COLUMNS * (COLUMN_WIDTH + GAP);

  if (devices && memory) {
    for (size_t i = 0; i <= machine->node_count; i++) {
      const struct topo_node *node = i < machine->node_count ? &machine->nodes[i] : NULL;
      const int height = svg_print_node(&pen, machine, node, devices);
      row_height = height > row_height ? height : row_height;
      pen.x += height > 0 ? COLUMN_WIDTH + GAP : 0;
      if (pen.x > GAP && (pen.x >= width || i == machine->node_count)) {
        pen.x = GAP;
        pen.y += row_height + GAP;
        row_height = 0;
      }
    }
    pen.y = svg_print_matrix(memory, machine, pen.y) + GAP;
    if (machine->node_count < 2)
      width = 2 * GAP + COLUMN_WIDTH;
    if (width < LABEL_WIDTH + (int)machine->gpu_count * CELL_WIDTH + GAP)
      width = LABEL_WIDTH + (int)machine->gpu_count * CELL_WIDTH + GAP;
  }
  if (memory)
    fclose(memory);
  fprintf(to,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
          "viewBox=\"0 0 %d %d\">\n%s<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
          width, pen.y, width, pen.y, svg_style);
  if (body)
    fwrite(body, 1, length, to);
  fprintf(to, "</svg>\n");
  free(body);
  free(devices);
}
