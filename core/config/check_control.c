/* SPDX-License-Identifier: Apache-2.0 */
/* Checks `control`. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "check.h"
#include "util/host_port.h"
#include "util/tls_params.h"

#define HOST_MAX 254
#define COUNTERS_EVERY_NS UINT64_C(500000000) /* where no heartbeat sets the pace */

/* "host:port" or "[v6]:port" into its parts. NULL, or what is wrong. */
static const char *check_split_address(const char *text, char host[HOST_MAX + 1], bool listens)
{
  struct pst_host_port parts;
  unsigned long port = 0;
  if (!pst_host_port_split(text, &parts))
    return "does not close its bracket; write [address]:port, as in [::1]:18515";
  if (parts.is_ambiguous)
    return "is an IPv6 address without brackets; write [address]:port, as in [::1]:18515";
  if (!parts.port)
    return "has no port; write host:port, as in 127.0.0.1:18515";
  if (parts.host_length == 0 || parts.host_length > HOST_MAX)
    return "has no host; write host:port, as in 127.0.0.1:18515";
  size_t digits = strspn(parts.port, "0123456789");
  if (digits == 0 || digits > 5 || parts.port[digits] != '\0')
    return "has no port number behind its colon; write host:port, as in 127.0.0.1:18515";
  for (const char *c = parts.port; *c; c++)
    port = port * 10 + (unsigned long)(*c - '0');
  if (port > 65535 || (port == 0 && !listens))
    return "has a port out of range; it takes 1 to 65535";
  memcpy(host, parts.host, parts.host_length);
  host[parts.host_length] = '\0';
  return NULL;
}

static bool check_is_loopback(const char *host)
{
  struct in_addr v4;
  struct in6_addr v6;
  if (strcmp(host, "localhost") == 0)
    return true;
  if (inet_pton(AF_INET, host, &v4) == 1)
    return ntohl(v4.s_addr) >> 24 == 127;
  return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static void check_address(struct check *check, const char *key, const char *address,
                          const struct place *place)
{
  char host[HOST_MAX + 1];
  const char *wrong = check_split_address(address, host, strcmp(key, "listen") == 0);
  if (wrong)
    findings_add(check->findings, place, "%s: \"%.120s\" %s", key, address, wrong);
  else if (!check_is_loopback(host) && check->owner->config.control.insecure)
    check->owner->config.control.is_clear = true;
  else if (!check_is_loopback(host) && !check->owner->config.control.tls)
    findings_add(check->findings, place,
                 "%s: \"%.120s\" is beyond loopback, where peers need credentials; write \"tls\" "
                 "under \"control\", or \"insecure: true\" where whoever reaches it may take part",
                 key, address);
}

/* `listen` and `connect` are `address` where they are not written; *before is what a key that is
 * made so stands behind, in the order of the schema. */
static const char *check_fill_address(struct check *check, struct node *map, struct node **before,
                                      const char *key, const char *written)
{
  struct node *node = node_find(map, key);
  const struct node *address = node_find(map, "address");
  if (written && node) {
    check_address(check, key, written, &node->place);
    *before = node;
    return written;
  }
  if (!address)
    return written;
  check_address(check, "address", address->text, &address->place);
  node = node_add(check->arena, NULL, NODE_SCALAR, key, address->text, &address->place);
  if (!node)
    return NULL;
  node_insert(map, *before, node);
  *before = node;
  return node->text;
}

static void check_tls_peers(struct check *check, const struct node *map, struct node *effective,
                            struct pst_tls_params *tls)
{
  static const struct schema_key peer = {
      .rule = {.name = "peers", .type = PST_OPTION_STRING, .min = 1, .max = 255},
      .is_stored = true};
  const struct node *node = node_value(map, "peers");
  struct node *list =
      node_add(check->arena, effective, NODE_LIST, "peers", NULL, node_place(node, &place_default));

  if (!node || !list)
    return;
  const char **peers = arena_alloc(check->arena, (node->count + 1) * sizeof(*peers));
  if (node->type != NODE_LIST)
    findings_add(check->findings, &node->place,
                 "peers: expected a list of names, as in [node1, node2]");
  for (const struct node *item = node->first; peers && item && node->type == NODE_LIST;
       item = item->next) {
    if (item->type != NODE_SCALAR)
      findings_add(check->findings, &item->place, "peers: expected a name, as in [node1, node2]");
    else
      check_value(check, &peer, item->text, &item->place, &peers[tls->peer_count++], list);
  }
  tls->peers = peers;
}

static void check_tls(struct check *check, struct node *node, struct node *effective)
{
  struct config *config = &check->owner->config;
  struct node *map = check_map(check, &schema_tls, node);
  struct pst_tls_params *tls = map ? arena_alloc(check->arena, sizeof(*tls)) : NULL;
  struct node *out =
      tls ? node_add(check->arena, effective, NODE_MAP, "tls", NULL, &node->place) : NULL;

  if (!out)
    return;
  *tls = (struct pst_tls_params){.struct_size = sizeof(*tls)};
  check_keys(check, &schema_tls, map, &node->place, tls, out, 0, NULL);
  check_tls_peers(check, map, out, tls);
  const char *wrong = pst_tls_params_wrong(tls);
  if (wrong)
    findings_add(check->findings, &node->place, "tls: %s", wrong);
#ifndef HAVE_TLS
  findings_add(check->findings, &node->place, "tls: " PST_TLS_NOT_BUILT);
#endif
  if (config->control.insecure)
    findings_add(check->findings, &node->place,
                 "tls: \"insecure: true\" accepts peers without credentials, and \"tls\" does "
                 "not; remove one");
  config->control.tls = tls;
}

void check_control(struct check *check, struct node *node, struct node *effective)
{
  struct config *config = &check->owner->config;
  if (node && node->type == NODE_SCALAR && strcmp(node->text, "none") == 0) {
    config->control.none = true;
    config->control.heartbeat_ns = COUNTERS_EVERY_NS;
    node_add(check->arena, effective, NODE_SCALAR, "control", "none", &node->place);
    return;
  }
  struct node *map = check_map(check, &schema_control, node);
  struct node *out = node_add(check->arena, effective, NODE_MAP, "control", NULL, &place_default);
  if (!out)
    return;
  check_keys(check, &schema_control, map, node_place(node, &place_default), config, out, 0, NULL);
  check_tls(check, node_find(map, "tls"), out);
  struct node *before = node_find(out, "address");
  config->control.listen =
      check_fill_address(check, out, &before, "listen", config->control.listen);
  config->control.connect =
      check_fill_address(check, out, &before, "connect", config->control.connect);
}
