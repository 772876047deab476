/* SPDX-License-Identifier: Apache-2.0 */
/* Which files of TLS go together. In a header, for what checks configurations and what uses them.
 */
#ifndef PST_UTIL_TLS_PARAMS_H
#define PST_UTIL_TLS_PARAMS_H

#include <arpa/inet.h>
#include <stddef.h>

#include <penstock/config.h>

#define PST_TLS_PEERS_MAX 256
#define PST_TLS_NOT_BUILT                                                                          \
  "this build has no libssl; build with libssl-dev installed and without -Dtls=disabled"

/* NULL; or why they do not, a sentence's end behind "tls: ". */
static inline const char *pst_tls_params_wrong(const struct pst_tls_params *params)
{
  if (params->psk && (params->certificate || params->key || params->ca))
    return "takes either `psk` or `certificate`, `key` and `ca`, not both";
  if (params->psk && (params->crl || params->peer_count))
    return "`crl` and `peers` are about certificates: with `psk` the lines of that file say who "
           "may take part";
  if (!params->psk && !(params->certificate && params->key && params->ca))
    return "needs `certificate`, `key` and `ca`, or `psk`; `penstock keys` makes them for a test";
  if (params->peer_count > PST_TLS_PEERS_MAX)
    return "has more than 256 `peers`";
  for (uint32_t i = 0; i < params->peer_count; i++) {
    struct in6_addr address;
    const char *name = params->peers[i];
    if (!name || name[0] == '\0')
      return "has an empty name among its `peers`";
    if (inet_pton(AF_INET, name, &address) == 1 || inet_pton(AF_INET6, name, &address) == 1)
      return "has an IP address among its `peers`; write a DNS name or a URI of the certificate";
  }
  return NULL;
}

#endif
