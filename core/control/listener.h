/* SPDX-License-Identifier: Apache-2.0 */
/* Where connections come from: listening, and connecting. */
#ifndef PST_CONTROL_LISTENER_H
#define PST_CONTROL_LISTENER_H

#include "control.h"
#include "epoll.h"
#include "socket.h"

struct connect_words;
struct peer;

extern const struct connect_words address_stream_words;

/* The addresses behind "host:port", if they may be used; any thread. */
int address_resolve(const struct control *control, const char *address, bool listener,
                    bool insecure, struct socket_addresses *addresses, struct pst_error *error);

int listener_open(struct control *control, const char *address, bool insecure,
                  struct pst_error *error);
void listener_accept(struct control *control, struct watch *listener);
/* There was a spare descriptor, and its place is free. */
bool listener_use_spare(struct control *control);
/* Acts on what is due, returns when to come again. */
uint64_t listener_tick(struct control *control);

/* The address of the senders' connection. */
int dialer_resolve(struct control *control, const char *address, bool insecure,
                   struct pst_error *error);
/* A peer that connects there; NULL: -errno in *code. */
struct peer *dialer_connect(struct control *control, const struct socket_address *target,
                            bool insecure, int *code);
/* The senders' connection has come to nothing before a stream was live. */
void dialer_again(struct control *control, const char *why);

#endif
