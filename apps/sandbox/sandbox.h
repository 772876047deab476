/* SPDX-License-Identifier: Apache-2.0 */
/* Confines the process to what its command needs, so that an attacker who takes it over gains
 * little:
 *
 *   app_sandbox_begin()  Landlock (files, TCP ports, signals) and capabilities. Call it in the main
 * thread, before another thread starts and before a byte is read from the network. Threads inherit
 * both.
 *   app_sandbox_seal()   seccomp (system calls), for all threads, once everything is set up.
 *
 * If the kernel lacks one of these, it is left out; --sandbox require ends the command instead.
 * docs/operations/sandbox.md has the rules. */
#ifndef APP_SANDBOX_H
#define APP_SANDBOX_H

#include <penstock/penstock.h>

#include "arguments.h"

struct sandbox;

/* Reads --sandbox, and allows the plugin folders, --metrics and --json of the arguments. NULL: out
 * of memory. */
struct sandbox *app_sandbox_new(const struct arguments *arguments);
void app_sandbox_free(struct sandbox *sandbox);

/* ---- Rights: before app_sandbox_begin() ---- */

/* Allows what the streams of these roles need: transports, control channel, paths in options, and
 * the folders of sinks. The files of sources and sinks are open already. */
void app_sandbox_allow_config(struct sandbox *sandbox, const struct pst_config *config,
                              uint32_t roles);
/* Allows the devices, sockets and capabilities that a transport needs. */
void app_sandbox_allow_transport(struct sandbox *sandbox, const char *plugin);
void app_sandbox_allow_folder(struct sandbox *sandbox, const char *folder, bool is_read_only);
/* Allows the folders of the TLS files, which are read again when they are replaced. */
void app_sandbox_allow_tls(struct sandbox *sandbox, const struct pst_tls_params *tls);
/* A Unix socket that is made and removed here, with the lock PATH.lock beside it. */
void app_sandbox_allow_socket(struct sandbox *sandbox, const char *path);
/* The folder of this file, to read. */
void app_sandbox_allow_beside(struct sandbox *sandbox, const char *path);
/* "HOST:PORT"; NULL: nothing. */
void app_sandbox_allow_listen(struct sandbox *sandbox, const char *address);

/* ---- Confining ---- */

/* 0, or -errno after logging: --sandbox require cannot be met. */
int app_sandbox_begin(struct sandbox *sandbox, struct pst_error *error);
int app_sandbox_seal(struct sandbox *sandbox, struct pst_error *error);

#endif
