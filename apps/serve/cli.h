/* SPDX-License-Identifier: Apache-2.0 */
/* The command lines of serve, request, get and put, read. */
#ifndef APP_SERVE_PLAN_H
#define APP_SERVE_PLAN_H

#include "arguments.h"
#include "copy.h"
#include "server.h"

#define SERVE_ADDRESS "127.0.0.1:18530"
#define SERVE_CHUNK_MAX (1u << 30)

/* Reads the options that serve and its clients have in common: transport, memory, --timeout,
 * --insecure, TLS. 0, or -EINVAL or -ENOMEM, which is logged. Call serve_cli_side_free() in either
 * case. */
int serve_cli_side_read(const struct command *command, const struct arguments *arguments,
                        struct pst_node_params *node, struct pst_area_params *area);
void serve_cli_side_free(const struct pst_node_params *node, const struct pst_area_params *area);

/* An option with a value. */
struct cli_value {
  const char *option; /* without "--" */
  const char *word;   /* NULL: it was not written, and *to keeps its default */
  int (*read)(const char *word, uint64_t *value); /* app_arguments_size, _count, _duration */
  uint64_t least, most;
  uint64_t *to;
};
/* 0, or -EINVAL, which has been said. */
int serve_cli_values(const struct command *command, const struct cli_value *values, size_t count);

/* Signals, log level, plugin folders: before a node is opened. The descriptor that signals
 * write to, or -errno, which has been said. */
int serve_cli_start(const struct command *command, const struct arguments *arguments);

/* Returns the members that all of them write with --json; NULL without it, or out of memory. */
struct json_object *serve_cli_result(const struct command *command,
                                     const struct arguments *arguments,
                                     const struct pst_node *node);
/* As a stream's `stopped`: what *error was, or `whole` where there is none. */
const char *serve_cli_stopped_by(const struct pst_error *error, const char *whole);
/* Writes and frees it; the exit status, made worse where it could not be written. */
int serve_cli_finish(const struct arguments *arguments, struct json_object *result, int status,
                     const struct pst_error *error);

#endif
