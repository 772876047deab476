/* SPDX-License-Identifier: Apache-2.0 */
/* How a socket reaches its peer. */
#include "address.h"
#include "endpoint.h"
#include "ops.h"
#include "send.h"
#include "socket.h"

int udp_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address)
{
  union dg_address own[DG_ADDRESSES_MAX];
  uint32_t count = 0;

  if (dg_address_is_any(&endpoint->dg.local))
    count = udp_addresses_own(endpoint->dg.family, !endpoint->dg.receiver, own, DG_ADDRESSES_MAX);
  return dg_endpoint_address(&endpoint->dg, own, count, address);
}

/* Logs if messages exceed the MTU: with the nonce packets are longer than their payload
 * suggests. */
static void udp_connect_note_mtu(const struct pst_endpoint *endpoint)
{
  const struct udp_tx *tx = endpoint->tx;
  uint32_t header = endpoint->dg.header_bytes;

  if (tx->mtu <= header || endpoint->dg.message_max <= tx->mtu - header)
    return;
  UDP_TELL(endpoint, PST_LOG_INFO,
           "IP will fragment messages of more than %u bytes, since the path's MTU has no room for "
           "more behind the headers; one lost fragment loses its message, and `message: %u` "
           "avoids that",
           tx->mtu - header, tx->mtu - header);
}

static int udp_connect_to(struct dg_endpoint *end, const union dg_address *address)
{
  struct pst_endpoint *endpoint = (struct pst_endpoint *)end;
  char text[DG_ADDRESS_TEXT];

  dg_address_print(address, text, sizeof(text));
  if (connect(endpoint->fd, &address->any, dg_address_length(address)) != 0) {
    int rc = errno == EINVAL ? -ENETUNREACH : -errno; /* options are right */
    return UDP_REFUSE(endpoint, rc,
                      "no route to %s: %s; see `ip route get`, and the options `device` and `to`",
                      text, strerror(-rc));
  }
  endpoint->dg.peer = *address;
  endpoint->tx->mtu = udp_socket_mtu(endpoint);
  udp_connect_note_mtu(endpoint);
  udp_departures_connect(endpoint);
  return 0;
}

static bool udp_connect_is_near(const struct dg_endpoint *endpoint, const union dg_address *address)
{
  (void)endpoint;
  return udp_address_is_near(address);
}

int udp_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address)
{
  static const struct dg_reach reach = {
      .has_loopback = true, .is_near = udp_connect_is_near, .connect = udp_connect_to};

  return dg_endpoint_connect(&endpoint->dg, address, &reach);
}
