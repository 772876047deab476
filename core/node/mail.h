/* SPDX-License-Identifier: Apache-2.0 */
/* What the control channel hears, on its way to the node's thread. */
#ifndef PST_NODE_MAIL_H
#define PST_NODE_MAIL_H

#include "engine/mailbox.h"
#include "node.h"
#include "peer_state.h"

/* As heard: struct control_node_message. */
struct node_mail {
  struct mail mail;
  enum wire_type type;
  uint64_t peer;
  uint32_t region;
  uint32_t access;
  uint32_t count;
  uint64_t length;
  uint64_t message_max;
  int code;
  char local[NODE_PLACE_MAX], remote[NODE_PLACE_MAX]; /* JOIN, WELCOME */
  char text[NODE_TEXT_MAX];
};

/* Open the control channel. */
int mail_open(struct pst_node *node, const struct pst_node_params *params, struct pst_error *error);
void mail_close(struct pst_node *node);
/* Act on all that was heard. */
void mail_read(struct pst_node *node);

#endif
