/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP server of --metrics: GET /metrics, by a thread of its own. */
#ifndef APP_METRICS_SERVER_H
#define APP_METRICS_SERVER_H

#include <stdint.h>

#include "arguments.h"
#include "page.h"

struct metrics_server;

/* Listens where --metrics says. Without --metrics *server is NULL, and the other calls do nothing.
 * 0, or -errno with *error, which is said: the address is wrong, lies beyond loopback without
 * --metrics-insecure, cannot be had, or this build has no libmicrohttpd. Starts a thread. */
int metrics_server_open(const struct arguments *arguments, struct metrics_server **server,
                        struct pst_error *error);
/* Publishes a page, which is served from now on. Takes over the page, NULL included. Any thread. */
void metrics_server_publish(struct metrics_server *server, struct metrics_page *page);
/* Closes the server, after the last page was fetched once more or the time of --metrics-wait has
 * passed. Says that it waits. NULL is legal. */
void metrics_server_close(struct metrics_server *server);

#endif
