/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for the transport of a node that has none: its messages go over the control
 * connection. */
#ifndef PST_NODE_CONTROL_TRANSPORT_H
#define PST_NODE_CONTROL_TRANSPORT_H

#include "node.h"

#define NODE_TRANSPORT_NONE "none" /* as a transport's name */

extern const struct pst_transport_ops control_transport_ops;
int control_transport_open(struct pst_node *node, struct pst_worker **worker);
void control_transport_limits(struct pst_limits *limits);
/* From the control connection. arrived: 0; -EPROTO: more than there is room for. */
int control_transport_arrived(struct pst_endpoint *endpoint, const void *bytes, uint32_t length);
void control_transport_room(struct pst_endpoint *endpoint, uint32_t count);
/* Nothing follows. */
void control_transport_over(struct pst_endpoint *endpoint);

#endif
