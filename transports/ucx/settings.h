/* SPDX-License-Identifier: Apache-2.0 */
/* The options of this plugin as UCX's own configuration. */
#ifndef UCX_SETTINGS_H
#define UCX_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

#include <ucp/api/ucp.h>

#include <penstock/transport.h>

/* 0; -EINVAL, -EOPNOTSUPP, logged. The caller releases *config. */
int ucx_settings_read(const struct pst_host *host, const struct pst_options *options,
                      ucp_config_t **config);
/* Does an option, and not the environment alone, set UCX's variable of this name (NET_DEVICES)? */
bool ucx_settings_have(const struct pst_host *host, const struct pst_options *options,
                       const char *name);
/* Names of UCX's variables in the environment: "UCX_TLS UCX_NET_DEVICES". */
void ucx_settings_environment(char *text, size_t size);

#endif
