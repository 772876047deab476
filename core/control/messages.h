/* SPDX-License-Identifier: Apache-2.0 */
/* What the messages of streams and of nodes have alike: how they are made, sent and handed on. */
#ifndef PST_CONTROL_MESSAGES_H
#define PST_CONTROL_MESSAGES_H

#include "control.h"
#include "side.h"
#include "wire.h"

struct peer;
struct stream;
struct terms;

/* A message that has come. */
struct message_in {
  struct peer *peer;
  struct stream *stream; /* which it names; NULL: none, or of nodes */
  const struct wire_message *message;
  const struct side_fds *fds; /* all of its descriptors, or none */
};

/* Cleared. The control thread makes one message at a time. */
struct wire_message *message_new(struct control *control, enum wire_type type);
/* With -errno and why. */
struct wire_message *message_new_text(struct control *control, enum wire_type type, int code,
                                      const char *text);
void message_put_terms(struct wire_message *message, const struct terms *terms);
void message_put_params(struct wire_message *message, const struct terms *params);
/* Send it with an address, or a packed region, and the blob's descriptors. */
void message_send_blob(struct peer *peer, struct wire_message *message,
                       const struct pst_blob *blob);

/* The address or region in a message; its descriptors are closed after the handler. */
struct pst_blob message_blob(const struct message_in *in);
/* Give a message of a connection that is up to its handler in the protocol's table. */
void message_got(struct peer *peer, const struct wire_message *message, const struct side_fds *fds);

#endif
