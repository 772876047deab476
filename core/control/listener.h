/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses, and who comes to them. */
#ifndef PST_CONTROL_LISTENER_H
#define PST_CONTROL_LISTENER_H

#include "loop.h"

/* How an address is named to whoever wrote it. */
struct connect_words {
  const char *listen, *connect;
  const char *tls;      /* what gives credentials */
  const char *insecure; /* what allows one beyond loopback */
  const char *is_set;   /* and what to call that */
  const char *check, *in_use, *not_ours;
};

extern const struct connect_words address_stream_words;
/* The addresses behind "host:port", if they may be used; any thread. */
int address_resolve(const struct control *control, const char *address, bool listener,
                    bool insecure, struct socket_addresses *addresses, struct pst_error *error);
int listener_open(struct control *control, const char *address, bool insecure,
                  struct pst_error *error);
void listener_accept(struct control *control, struct watch *listener);
/* There is no room for this peer, by `code`: it hears so, after the handshake where it has TLS. */
void listener_refuse(struct connection *peer, int code);
/* There was a spare descriptor, and its place is free. */
bool listener_use_spare(struct control *control);
/* Nobody can be let in there, by `code`: not watched for a while. */
void listener_pause(struct control *control, struct watch *watches, uint32_t count, int code);
/* The same without a line in the log. */
void listener_rest(struct control *control, struct watch *watches, uint32_t count);
void listener_tick(struct control *control);

#endif
