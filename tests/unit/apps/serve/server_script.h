/* SPDX-License-Identifier: Apache-2.0 */
/* A server whose clients follow a test's world_turn(), over the fuzz target's node and files. */
#ifndef TESTS_UNIT_APPS_SERVER_SCRIPT_H
#define TESTS_UNIT_APPS_SERVER_SCRIPT_H

#include "serve/server.h"
#include "server_world.h"

/* Sends a client's message. Every message but HELLO is to be answered. */
void script_say(struct pst_peer *peer, const struct serve_message *message);
void script_say_hello(struct pst_peer *peer);
/* Ends script_run() after this round. */
void script_end(void);
/* Opens the server, and runs it until script_end(). `params` has no `listen`, `memory` or
 * `clients`. The caller closes the server. */
void script_run(struct server *server, struct server_params params);

#endif
