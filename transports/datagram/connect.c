/* SPDX-License-Identifier: Apache-2.0 */
/* How ends meet: another Penstock by its address, a foreign peer by the options. */
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "endpoint.h"

void dg_host_identity(uint8_t identity[24])
{
  struct stat info = {0};
  char text[40] = "";
  int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  uint8_t *at = identity;

  memset(identity, 0, 24);
  if (fd >= 0) {
    ssize_t n = read(fd, text, sizeof(text) - 1);
    text[n < 0 ? 0 : n] = '\0';
    close(fd);
  }
  for (const char *c = text; at < identity + 16 && sscanf(c, "%2hhx", at) == 1; at++)
    c += 2 + (c[2] == '-');
  if (stat("/proc/self/ns/net", &info) == 0)
    for (int i = 0; i < 8; i++)
      identity[16 + i] = (uint8_t)(info.st_ino >> (8 * i));
}

/* Writes the endpoint's address: what peers check, and the host's addresses `own` where the socket
 * is bound to all. */
int dg_endpoint_address(const struct dg_endpoint *endpoint, const union dg_address *own,
                        uint32_t count, struct pst_blob *address)
{
  struct dg_blob blob = {.framing = (uint8_t)endpoint->device->framing,
                         .family = endpoint->family == AF_INET ? 4 : 6,
                         .is_receiver = endpoint->receiver != NULL,
                         .port = dg_address_port(&endpoint->local)};
  struct dg_source source;
  uint8_t bytes[DG_BLOB_BYTES + DG_TAG_KEY_BYTES];
  uint32_t length = DG_BLOB_BYTES;

  if (endpoint->sender) {
    const struct dg_header *header = &endpoint->sender->header;
    blob.initial = header->sequence;
    blob.ssrc = header->ssrc;
    blob.nonce = header->nonce;
    blob.payload_type = header->payload_type;
  }
  dg_host_identity(blob.identity);
  if (!dg_address_is_any(&endpoint->local)) {
    own = &endpoint->local;
    count = 1;
    blob.is_bound = true;
  }
  for (; blob.count < count && blob.count < DG_ADDRESSES_MAX; blob.count++) {
    dg_address_source(&own[blob.count], &source);
    memcpy(blob.addresses[blob.count], source.address, sizeof(source.address));
  }
  dg_blob_write(&blob, bytes);
  if (endpoint->sender && endpoint->sender->tag) {
    memcpy(bytes + length, endpoint->sender->key, DG_TAG_KEY_BYTES);
    length += DG_TAG_KEY_BYTES;
  }
  int rc = pst_blob_write(address, bytes, length);
  OPENSSL_cleanse(bytes, sizeof(bytes));
  return rc;
}

static int dg_connect_refuse(const struct dg_endpoint *endpoint, const char *why)
{
  return DG_REFUSE(endpoint, -EPROTO, "the peer's address cannot be used: %s", why);
}

/* *key: a sender's, behind its address; NULL: it has none. */
static int dg_connect_blob_check(const struct dg_endpoint *endpoint, const struct pst_blob *address,
                                 struct dg_blob *blob, const uint8_t **key)
{
  const bool has_key = address->length == DG_BLOB_BYTES + DG_TAG_KEY_BYTES;

  *key = has_key ? (const uint8_t *)address->bytes + DG_BLOB_BYTES : NULL;
  if (!dg_blob_read(address->bytes, address->length - (has_key ? DG_TAG_KEY_BYTES : 0), blob))
    return dg_connect_refuse(endpoint, "it is not one of \"" DG_WIRE
                                       "\"; both ends need transports of this wire form");
  if (blob->is_receiver == (endpoint->receiver != NULL))
    return dg_connect_refuse(endpoint, endpoint->receiver
                                           ? "this end receives, and the peer does not send"
                                           : "this end sends, and the peer does not receive");
  if (blob->framing != endpoint->device->framing)
    return dg_connect_refuse(endpoint, "both ends have another `framing`; give them the same");
  if (has_key != (endpoint->receiver && endpoint->device->authenticates))
    return dg_connect_refuse(endpoint, "one end authenticates its datagrams, and the other does "
                                       "not; write the same `authenticate` at both");
  /* The sender judges this, and tells the receiver: one fault, one error. */
  if (endpoint->sender && (blob->family == 4) != (endpoint->family == AF_INET))
    return dg_connect_refuse(endpoint,
                             "one end is on IPv4, the other on IPv6; set `family`, or a `device` "
                             "of the same kind, on both");
  return 0;
}

static void dg_connect_address_of(const struct dg_endpoint *endpoint, const struct dg_blob *blob,
                                  uint32_t at, union dg_address *address)
{
  struct dg_source source = {.port = blob->port};

  memcpy(source.address, blob->addresses[at], sizeof(source.address));
  dg_address_of_source(&source, endpoint->family, address);
  if (endpoint->family == AF_INET6 &&
      (IN6_IS_ADDR_LINKLOCAL(&address->v6.sin6_addr) || dg_address_is_multicast(address)))
    address->v6.sin6_scope_id = endpoint->netdev;
}

/* The option `to`, where the receiver is bound to `bound` alone. */
static int dg_connect_refuse_elsewhere(const struct dg_endpoint *endpoint,
                                       const union dg_address *bound)
{
  char text[DG_ADDRESS_TEXT], to[DG_ADDRESS_TEXT];

  dg_address_print(bound, text, sizeof(text));
  dg_address_print(&endpoint->to, to, sizeof(to));
  return DG_REFUSE(endpoint, -EHOSTUNREACH,
                   "to: the receiver listens only on %s, and gets nothing that is sent to %s; "
                   "leave `to` out, or set the receiver's option `device: any`",
                   text, to);
}

static int dg_connect_refuse_loopback(const struct dg_endpoint *endpoint,
                                      const union dg_address *bound)
{
  char text[DG_ADDRESS_TEXT];

  dg_address_print(bound, text, sizeof(text));
  return DG_REFUSE(endpoint, -EHOSTUNREACH,
                   "the receiver listens on %s, which only its own host reaches; set its option "
                   "`device` to the address or interface that faces this host, or to `any`",
                   text);
}

/* Which of the receiver's addresses: what the option says; on one host, lo's; the first
 * in a network of ours; the first. */
static int dg_connect_choose(const struct dg_endpoint *endpoint, const struct dg_reach *reach,
                             const struct dg_blob *blob, union dg_address *address)
{
  uint8_t identity[24];

  dg_host_identity(identity);
  bool has_lo = reach->has_loopback && memcmp(identity, blob->identity, sizeof(identity)) == 0;
  if (blob->is_bound)
    dg_connect_address_of(endpoint, blob, 0, address);
  if (endpoint->to.any.sa_family != AF_UNSPEC) {
    if (blob->is_bound && !dg_address_is_same_host(&endpoint->to, address))
      return dg_connect_refuse_elsewhere(endpoint, address);
    *address = endpoint->to;
    if (!dg_address_port(address))
      dg_address_port_set(address, blob->port);
    return 0;
  }
  if (blob->is_bound)
    return !has_lo && dg_address_is_loopback(address)
               ? dg_connect_refuse_loopback(endpoint, address)
               : 0;
  if (has_lo && !endpoint->local_is_fixed) {
    dg_address_set_loopback(address, endpoint->family);
    dg_address_port_set(address, blob->port);
    return 0;
  }
  for (uint32_t i = 0; i < blob->count; i++) {
    dg_connect_address_of(endpoint, blob, i, address);
    if (reach->is_near(endpoint, address))
      return 0;
  }
  if (blob->count == 0)
    return dg_connect_refuse(
        endpoint, "the receiver has no address; set its option `device`, or the sender's `to`");
  dg_connect_address_of(endpoint, blob, 0, address);
  return 0;
}

static int dg_connect_sender(struct dg_endpoint *endpoint, const struct dg_reach *reach,
                             const struct dg_blob *blob)
{
  union dg_address address = endpoint->to;
  int rc = 0;

  if (blob)
    rc = dg_connect_choose(endpoint, reach, blob, &address);
  else if (address.any.sa_family == AF_UNSPEC || !dg_address_port(&address))
    rc = DG_REFUSE(endpoint, -EINVAL,
                   "to a receiver without Penstock, the option `to` says where: 192.0.2.7:5004");
  return rc < 0 ? rc : reach->connect(endpoint, &address);
}

/* Where datagrams carry no nonce: from which addresses the sender's can come. A list that is empty
 * lacks them, and one that is full may lack some. */
static void dg_connect_take_hosts(const struct dg_endpoint *endpoint, const struct dg_reach *reach,
                                  const struct dg_blob *blob, struct dg_flow_params *params)
{
  union dg_address loopback;
  struct dg_source source;
  uint8_t identity[24];

  PST_STATIC_ASSERT(DG_FLOW_HOSTS_MAX == DG_ADDRESSES_MAX + 1, "and the loopback one");
  params->address_locks = true;
  if (blob->count == 0 || blob->count == DG_ADDRESSES_MAX) {
    if (!params->address_is_fixed)
      DG_TELL(endpoint, PST_LOG_INFO,
              "the sender's host has named %s of its addresses: datagrams are taken from any; "
              "give the sender a `device`, which names one",
              blob->count == 0 ? "none" : "only some");
    return;
  }
  params->host_count = blob->count;
  memcpy(params->hosts, blob->addresses, sizeof(blob->addresses));
  dg_host_identity(identity);
  if (!reach->has_loopback || memcmp(identity, blob->identity, sizeof(identity)) != 0)
    return;
  dg_address_set_loopback(&loopback, endpoint->family);
  dg_address_source(&loopback, &source);
  memcpy(params->hosts[params->host_count++], source.address, sizeof(source.address));
}

static int dg_connect_begin_flow(const struct dg_endpoint *endpoint, const struct dg_reach *reach,
                                 const struct dg_blob *blob, const uint8_t *key)
{
  struct dg_flow_params params = endpoint->flow;

  if (blob) {
    params.numbered = params.framing != DG_FRAMING_NONE;
    params.initial = blob->initial;
    params.nonce = blob->nonce;
    params.port_is_fixed = true;
    params.source.port = blob->port;
    params.ssrc_is_fixed = true;
    params.ssrc = blob->ssrc;
    params.payload_type = blob->payload_type;
    if (params.framing == DG_FRAMING_NONE)
      dg_connect_take_hosts(endpoint, reach, blob, &params);
    if (!params.address_is_fixed && blob->is_bound) {
      params.address_is_fixed = true;
      memcpy(params.source.address, blob->addresses[0], sizeof(params.source.address));
    }
  }
  int rc = key ? dg_tag_open(key, true, &params.tag) : 0;
  if (rc < 0)
    return DG_REFUSE(endpoint, rc, "authenticate: %s", dg_tag_reason(rc));
  dg_flow_begin(&endpoint->receiver->flow, &params);
  return 0;
}

/* Addresses do not change, so that all there can be is the same one again. */
static int dg_connect_reconnect(struct dg_endpoint *endpoint, const struct dg_blob *blob)
{
  if (endpoint->cpu.owes_connected)
    return -EALREADY;
  if (endpoint->sender && blob && dg_address_port(&endpoint->peer) != blob->port &&
      endpoint->to.any.sa_family == AF_UNSPEC)
    return dg_connect_refuse(endpoint, "this endpoint has another peer already");
  pst_cpu_endpoint_up(&endpoint->cpu);
  return 0;
}

int dg_endpoint_connect(struct dg_endpoint *endpoint, const struct pst_blob *address,
                        const struct dg_reach *reach)
{
  struct dg_blob blob, *peer = NULL;
  const uint8_t *key = NULL;
  int rc = 0;

  if (endpoint->cpu.closing.mode)
    return -ENOTCONN;
  if (address) {
    if (!address->bytes)
      return -EINVAL;
    rc = dg_connect_blob_check(endpoint, address, &blob, &key);
    peer = &blob;
  } else if (endpoint->device->authenticates) {
    rc = DG_REFUSE(endpoint, -EINVAL,
                   "authenticate: a peer without Penstock has no key; leave it out");
  }
  if (rc < 0)
    return rc;
  if (dg_is_connected(endpoint))
    return dg_connect_reconnect(endpoint, peer);
  if (endpoint->cpu.state != PST_CPU_NEW)
    return -EALREADY;
  enum dg_framing framing = endpoint->device->framing;
  bool has_nonce = peer && framing != DG_FRAMING_NONE;
  const bool has_tag = endpoint->device->authenticates;
  endpoint->header_bytes = dg_header_bytes(framing, has_nonce) + (has_tag ? DG_TAG_BYTES : 0);
  if (endpoint->sender) {
    endpoint->sender->header.has_nonce = has_nonce;
    endpoint->sender->header.has_tag = has_tag;
    rc = dg_connect_sender(endpoint, reach, peer);
  } else {
    rc = dg_connect_begin_flow(endpoint, reach, peer, key);
  }
  if (rc > 0)
    pst_cpu_enter(&endpoint->cpu, PST_CPU_MEETING);
  else if (rc == 0)
    pst_cpu_endpoint_up(&endpoint->cpu);
  return rc < 0 ? rc : 0;
}
