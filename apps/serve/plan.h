/* SPDX-License-Identifier: Apache-2.0 */
/* The command lines of serve, request, get and put, read. */
#ifndef APP_SERVE_PLAN_H
#define APP_SERVE_PLAN_H

#include "arguments.h"
#include "copy.h"
#include "server.h"

#define PLAN_ADDRESS "127.0.0.1:18530"
#define PLAN_CHUNK_MAX (1u << 30)

struct plan_side {
  const char *transport, *memory;
  struct pst_setting *transport_options, *memory_options;
  uint32_t transport_option_count, memory_option_count;
  uint64_t timeout_ns;
  bool insecure;
};

/* Each is 0, or -EINVAL, which has been said. plan_side_free() in any case. */
int plan_side_read(const struct command *command, const struct arguments *arguments,
                   struct plan_side *side);
void plan_side_free(struct plan_side *side);
void plan_remote(const struct plan_side *side, const char *address, struct remote_params *params);

/* Of a size, number or time: `value` keeps its default when the option was not written. */
int plan_size(const struct command *command, const char *option, const char *word, uint64_t least,
              uint64_t most, uint64_t *value);
int plan_number(const struct command *command, const char *option, const char *word, uint32_t most,
                uint32_t *value);
int plan_time(const struct command *command, const char *option, const char *word, uint64_t *ns);

/* Signals, log level, plugin folders: before a node is opened. The descriptor that signals
 * write to, or -errno, which has been said. */
int plan_start(const struct command *command, const struct arguments *arguments);

/* What all of them write with --json; NULL without it, or out of memory. */
struct json_object *plan_result(const struct command *command, const struct arguments *arguments,
                                const struct pst_node *node);
/* As a stream's `stopped`: what *error was, or `whole` where there is none. */
const char *plan_stopped_by(const struct pst_error *error, const char *whole);
/* Writes and frees it; the exit status, made worse where it could not be written. */
int plan_finish(const struct arguments *arguments, struct json_object *result, int status,
                const struct pst_error *error);

#endif
