/* SPDX-License-Identifier: Apache-2.0 */
/* Takes from the process what its command does not need, so that a peer who finds a fault in it
 * gains little:
 *
 *   app_sandbox_begin()  Landlock (files, TCP ports, signals) and capabilities: in the main thread,
 * before any other one and before a byte of the network is read. Threads inherit both.
 *   app_sandbox_seal()   seccomp (system calls): in all threads, once everything is set up.
 *
 * What a kernel lacks is left out, unless --sandbox require is given. docs/operations/sandbox.md
 * has the rules. */
#ifndef APP_SANDBOX_H
#define APP_SANDBOX_H

#include <penstock/penstock.h>

#include "arguments.h"

struct sandbox;

/* By --sandbox; its plugin folders, --metrics and --json are allowed for. NULL: out of memory. */
struct sandbox *app_sandbox_new(const struct arguments *arguments);
void app_sandbox_free(struct sandbox *sandbox);

/* ---- What is allowed: before app_sandbox_begin() ---- */

/* Transports, control channel, options' paths and sinks of the streams. Their files are open
 * already. */
void app_sandbox_allow_config(struct sandbox *sandbox, const struct pst_config *config,
                              uint32_t roles);
/* What a transport needs of files, sockets and capabilities. */
void app_sandbox_allow_transport(struct sandbox *sandbox, const char *plugin);
void app_sandbox_allow_folder(struct sandbox *sandbox, const char *folder, bool is_read_only);
/* Its files, and the folders that they are in: they are read again where they were replaced. */
void app_sandbox_allow_tls(struct sandbox *sandbox, const struct pst_tls_params *tls);
/* A Unix socket that is made and removed here, with the lock PATH.lock beside it. */
void app_sandbox_allow_socket(struct sandbox *sandbox, const char *path);
/* The folder of this file, to read. */
void app_sandbox_allow_beside(struct sandbox *sandbox, const char *path);
/* "HOST:PORT"; NULL: nothing. */
void app_sandbox_allow_listen(struct sandbox *sandbox, const char *address);

/* ---- What is taken ---- */

/* 0, or -errno, which has been said: --sandbox require cannot be met. */
int app_sandbox_begin(struct sandbox *sandbox, struct pst_error *error);
int app_sandbox_seal(struct sandbox *sandbox, struct pst_error *error);

#endif
