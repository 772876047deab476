/* SPDX-License-Identifier: Apache-2.0 */
/* A machine as text, as JSON and as a picture. */
#ifndef APP_TOPO_SHOW_H
#define APP_TOPO_SHOW_H

#include <stdio.h>

#include "cores.h"

struct json_object;

#define TOPO_LINE_BYTES 512

void topo_show_text(const struct topo_machine *machine, FILE *to);
/* An object of the result, the caller's. */
struct json_object *topo_show_json(const struct topo_machine *machine);
/* A whole SVG document, which needs no other file. */
void topo_show_svg(const struct topo_machine *machine, FILE *to);

/* "100 Gbps", "2.5 Gbps"; "": unknown. Returns `text`. */
const char *topo_speed_text(uint64_t mbps, char *text, size_t size);
/* "up, 100 Gbps, MTU 9000". Returns `text`. */
const char *topo_port_text(const struct topo_adapter *adapter, char *text, size_t size);
/* The CPUs of the node in words: "CPUs 0-15 (isolated: 4-7)". Returns `text`. */
const char *topo_node_cpus_text(const struct topo_machine *machine, const struct topo_node *node,
                                char *text, size_t size);
/* CPUs in words: "CPUs 4,5,6,7 (isolated)". Returns `text`. */
const char *topo_cores_text(const struct topo_core *cores, size_t count, char *text, size_t size);

#endif
