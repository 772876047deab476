/* SPDX-License-Identifier: Apache-2.0 */
/* Regions of a peer's on offer to us. */
#ifndef PST_NODE_IMPORTS_H
#define PST_NODE_IMPORTS_H

#include "mail.h"
#include "peer.h"

struct node_remote {
  struct node_remote *next;
  uint32_t id;
  uint32_t access;
  uint32_t plain; /* bits of PST_OP_WRITE and PST_OP_READ, where they may be posted; 0: withdrawn */
  uint64_t length;
  bool is_withdrawn;
  uint32_t uses;             /* is_withdrawn: operations under way */
  struct pst_remote *remote; /* NULL: not opened yet */
  struct pst_blob blob;      /* until then; bytes and descriptors are ours */
};

void remote_offered(struct pst_peer *peer, struct node_mail *mail);
void remote_open_all(struct pst_peer *peer); /* those that came before the transport was there */
void remote_withdrawn(struct pst_peer *peer, uint32_t id);
/* One operation less is under way in one that was withdrawn. */
void remote_unuse(struct pst_peer *peer, struct node_remote *remote);
void remote_drop(struct pst_peer *peer, struct node_remote *remote);
void remote_drop_all(struct pst_peer *peer);
struct node_remote *remote_find(const struct pst_peer *peer, uint32_t id);

#endif
