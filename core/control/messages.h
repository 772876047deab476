/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that are made and taken alike for streams and for nodes. */
#ifndef PST_CONTROL_MESSAGES_H
#define PST_CONTROL_MESSAGES_H

#include "loop.h"

#define REPORT_MAX 1024 /* a line for people, before it is cut for the wire */

struct message_in;

/* Pairs of a key and a value: what both ends must have the same, or what one tells the other. */
struct terms {
  struct control_pair *pairs; /* ours */
  uint32_t count;
};

/* Cleared. The control thread makes one message at a time. */
struct wire_message *message_new(struct control *control, enum wire_type type);
/* With -errno and why. */
struct wire_message *message_new_text(struct control *control, enum wire_type type, int code,
                                      const char *text);
/* Either may be NULL: it has none. */
void message_put_terms(struct wire_message *message, const struct terms *terms,
                       const struct terms *params);
/* Send it with an address, or a packed region, and the blob's descriptors. */
void message_send_blob(struct connection *peer, struct wire_message *message,
                       const struct pst_blob *blob);
/* The address or region in a message; its descriptors are closed after the handler. */
struct pst_blob message_blob(const struct message_in *in);
/* Give a message of a connection that is up to its handler in the protocol's table. */
void message_got(struct connection *peer, const struct wire_message *message,
                 const struct unix_fds *fds);
int blob_copy(const struct pst_blob *from, uint32_t length_max, struct pst_blob *to);
/* Writes the difference between both ends' terms, in words; the connector's terms are the
 * `sender`'s. "": nothing. */
bool terms_compare(const struct terms *terms, const struct wire_message *offer,
                   const char *const ends[2], char *text, size_t size);
int terms_copy(const struct control_pair *from, uint32_t count, struct terms *to);
void terms_free(struct terms *terms);
void seconds_text(uint64_t ns, char text[24]);

#endif
