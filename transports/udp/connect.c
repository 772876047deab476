/* SPDX-License-Identifier: Apache-2.0 */
/* How ends meet: another Penstock by its address, a foreign peer by the options. */
#include <stdio.h>

#include "address.h"
#include "blob.h"
#include "receive.h"
#include "send.h"
#include "udp.h"

int udp_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address)
{
  struct udp_blob blob = {.framing = (uint8_t)endpoint->worker->device->framing,
                          .family = endpoint->family == AF_INET ? 4 : 6,
                          .is_receiver = endpoint->rx != NULL,
                          .port = udp_address_port(&endpoint->local)};
  union udp_address own[UDP_ADDRESSES_MAX];
  struct dg_source source;
  uint8_t bytes[UDP_BLOB_BYTES];

  if (endpoint->tx) {
    blob.initial = endpoint->tx->header.sequence;
    blob.ssrc = endpoint->tx->header.ssrc;
    blob.nonce = endpoint->tx->header.nonce;
    blob.payload_type = endpoint->tx->header.payload_type;
  }
  udp_host_identity(blob.identity);
  if (!udp_address_is_any(&endpoint->local)) {
    own[0] = endpoint->local;
    blob.count = 1;
    blob.is_bound = true;
  } else if (endpoint->rx) {
    blob.count = (uint8_t)udp_addresses_own(endpoint->family, own, UDP_ADDRESSES_MAX);
  }
  for (uint32_t i = 0; i < blob.count; i++) {
    udp_address_source(&own[i], &source);
    memcpy(blob.addresses[i], source.address, sizeof(source.address));
  }
  udp_blob_write(&blob, bytes);
  return pst_blob_write(address, bytes, sizeof(bytes));
}

static int refuse(const struct pst_endpoint *endpoint, const char *why)
{
  return UDP_REFUSE(endpoint, -EPROTO, "the peer's address cannot be used: %s", why);
}

static int blob_check(const struct pst_endpoint *endpoint, const struct pst_blob *address,
                      struct udp_blob *blob)
{
  if (!udp_blob_read(address->bytes, address->length, blob))
    return refuse(endpoint, "it is not one of udp's; both ends need the same transport");
  if (blob->is_receiver == (endpoint->rx != NULL))
    return refuse(endpoint, endpoint->rx ? "we receive, and it does not send"
                                         : "we send, and it does not receive");
  if (blob->framing != endpoint->worker->device->framing)
    return refuse(endpoint, "its `framing` is not ours; give both ends the same");
  /* The sender's to judge, who tells the receiver: one fault, one error. */
  if (endpoint->tx && (blob->family == 4) != (endpoint->family == AF_INET))
    return refuse(endpoint, "one end is on IPv4, the other on IPv6; set `family`, or a `device` "
                            "of the same kind, on both");
  return 0;
}

static void address_of(const struct pst_endpoint *endpoint, const uint8_t bytes[16], uint16_t port,
                       union udp_address *address)
{
  *address = (union udp_address){.any.sa_family = (sa_family_t)endpoint->family};
  if (endpoint->family == AF_INET)
    memcpy(&address->v4.sin_addr, bytes + 12, 4);
  else
    memcpy(&address->v6.sin6_addr, bytes, 16);
  if (endpoint->family == AF_INET6 &&
      (IN6_IS_ADDR_LINKLOCAL(&address->v6.sin6_addr) || udp_address_is_multicast(address)))
    address->v6.sin6_scope_id = endpoint->netdev;
  udp_address_port_set(address, port);
}

/* The option `to`, where the receiver is bound to `bound` alone. */
static int refuse_elsewhere(const struct pst_endpoint *endpoint, const union udp_address *bound)
{
  char text[80], to[80];

  udp_address_print(bound, text, sizeof(text));
  udp_address_print(&endpoint->to, to, sizeof(to));
  return UDP_REFUSE(endpoint, -EHOSTUNREACH,
                    "to: the receiver listens on %s alone, and hears nothing that is sent to %s; "
                    "leave `to` out, or set the receiver's option `device: any`",
                    text, to);
}

static int refuse_loopback(const struct pst_endpoint *endpoint, const union udp_address *bound)
{
  char text[80];

  udp_address_print(bound, text, sizeof(text));
  return UDP_REFUSE(endpoint, -EHOSTUNREACH,
                    "the receiver listens on %s, which only its own host reaches; set its option "
                    "`device` to the address or interface that faces this host, or to `any`",
                    text);
}

/* Which of the receiver's addresses: what the option says; on one host, lo's; the first
 * in a network of ours; the first. */
static int choose(const struct pst_endpoint *endpoint, const struct udp_blob *blob,
                  union udp_address *address)
{
  static const uint8_t lo4[16] = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}, lo6[16] = {[15] = 1};
  uint8_t identity[24];

  udp_host_identity(identity);
  bool is_here = memcmp(identity, blob->identity, sizeof(identity)) == 0;
  if (blob->is_bound)
    address_of(endpoint, blob->addresses[0], blob->port, address);
  if (endpoint->to.any.sa_family != AF_UNSPEC) {
    if (blob->is_bound && !udp_address_is_same_host(&endpoint->to, address))
      return refuse_elsewhere(endpoint, address);
    *address = endpoint->to;
    if (!udp_address_port(address))
      udp_address_port_set(address, blob->port);
    return 0;
  }
  if (blob->is_bound)
    return !is_here && udp_address_is_loopback(address) ? refuse_loopback(endpoint, address) : 0;
  if (is_here && !endpoint->local_is_fixed) {
    address_of(endpoint, endpoint->family == AF_INET ? lo4 : lo6, blob->port, address);
    return 0;
  }
  for (uint32_t i = 0; i < blob->count; i++) {
    address_of(endpoint, blob->addresses[i], blob->port, address);
    if (udp_address_is_near(address))
      return 0;
  }
  if (blob->count == 0)
    return refuse(endpoint, "the receiver has no address; give it a `device`, or us `to`");
  address_of(endpoint, blob->addresses[0], blob->port, address);
  return 0;
}

/* The nonce makes packets longer than their payload lets one expect. */
static void note_mtu(const struct pst_endpoint *endpoint)
{
  const struct udp_tx *tx = endpoint->tx;
  uint32_t header = endpoint->header_bytes;

  if (tx->mtu <= header || endpoint->message_max <= tx->mtu - header)
    return;
  UDP_TELL(endpoint, PST_LOG_INFO,
           "IP will fragment messages of more than %u bytes, since the path's MTU has no room for "
           "more behind the headers; one lost fragment loses its message, and `message: %u` "
           "avoids that",
           tx->mtu - header, tx->mtu - header);
}

static int connect_to(struct pst_endpoint *endpoint, const union udp_address *address)
{
  char text[80];

  udp_address_print(address, text, sizeof(text));
  if (connect(endpoint->fd, &address->any, udp_address_length(address)) != 0) {
    int rc = errno == EINVAL ? -ENETUNREACH : -errno; /* values have been judged: it is the host */
    return UDP_REFUSE(endpoint, rc,
                      "no way to %s: %s; see `ip route get`, and the options `device` and `to`",
                      text, strerror(-rc));
  }
  endpoint->peer = *address;
  endpoint->tx->mtu = udp_socket_mtu(endpoint);
  note_mtu(endpoint);
  return 0;
}

static int connect_sender(struct pst_endpoint *endpoint, const struct udp_blob *blob)
{
  union udp_address address = endpoint->to;
  int rc = 0;

  if (blob) {
    rc = choose(endpoint, blob, &address);
  } else if (address.any.sa_family == AF_UNSPEC || !udp_address_port(&address)) {
    UDP_TELL(endpoint, PST_LOG_ERROR,
             "to a receiver without Penstock, the option `to` says where: 192.0.2.7:5004");
    rc = -EINVAL;
  }
  return rc < 0 ? rc : connect_to(endpoint, &address);
}

static int connect_receiver(struct pst_endpoint *endpoint, const struct udp_blob *blob)
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
    params.address_locks = params.framing == DG_FRAMING_NONE;
    if (!params.address_is_fixed && blob->is_bound) {
      params.address_is_fixed = true;
      memcpy(params.source.address, blob->addresses[0], sizeof(params.source.address));
    }
  }
  dg_flow_begin(&endpoint->rx->flow, &params);
  return 0;
}

/* Addresses do not change, so that all there can be is the same one again. */
static int reconnect(struct pst_endpoint *endpoint, const struct udp_blob *blob)
{
  if (endpoint->cpu.owes_connected)
    return -EALREADY;
  if (endpoint->tx && blob && udp_address_port(&endpoint->peer) != blob->port &&
      endpoint->to.any.sa_family == AF_UNSPEC)
    return refuse(endpoint, "this endpoint has another peer already");
  pst_cpu_endpoint_up(&endpoint->cpu);
  return 0;
}

int udp_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address)
{
  struct udp_blob blob, *peer = NULL;
  int rc = 0;

  if (endpoint->cpu.closing.mode)
    return -ENOTCONN;
  if (address) {
    if (!address->bytes)
      return -EINVAL;
    rc = blob_check(endpoint, address, &blob);
    peer = &blob;
  }
  if (rc < 0)
    return rc;
  if (udp_is_connected(endpoint))
    return reconnect(endpoint, peer);
  enum dg_framing framing = endpoint->worker->device->framing;
  bool has_nonce = peer && framing != DG_FRAMING_NONE;
  endpoint->header_bytes = dg_header_bytes(framing, has_nonce);
  if (endpoint->tx)
    endpoint->tx->header.has_nonce = has_nonce;
  rc = endpoint->tx ? connect_sender(endpoint, peer) : connect_receiver(endpoint, peer);
  if (rc < 0)
    return rc;
  pst_cpu_endpoint_up(&endpoint->cpu);
  return 0;
}
