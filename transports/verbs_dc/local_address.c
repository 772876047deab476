/* SPDX-License-Identifier: Apache-2.0 */
/* An endpoint's own address, and why it is that one. */
#include <stdio.h>

#include "../verbs/srq.h"
#include "connection.h"

void dc_local_address(const struct dc_endpoint *dc, struct dc_blob *own)
{
  const struct pst_endpoint *endpoint = &dc->endpoint;
  const struct pst_device *device = endpoint->device;
  const struct vb_rx *rx = endpoint->rx;

  *own = (struct dc_blob){.is_ethernet = device->open.port->is_ethernet,
                          .is_sender = endpoint->tx != NULL,
                          .is_receiver = rx != NULL,
                          .is_rma = endpoint->roles & PST_ROLE_RMA,
                          .gid_type = dc->home.gid_type,
                          .mtu = dc->home.mtu,
                          .rd_atomic = dc_device_of(device)->rd_atomic,
                          .lid = dc->home.lid,
                          .number = dc->number,
                          .control = endpoint->shared->target->qp_num,
                          .key = dc_device_of(device)->key,
                          .initial = endpoint->tx ? endpoint->tx->initial : 0,
                          .payload_max = rx ? rx->ring->params.payload_max : 0,
                          .credits = rx ? rx->granted : 0,
                          .messages = rx ? rx->before : 0,
                          .heard = dc->heard_before};
  own->data = rx ? rx->ring->shared->target->qp_num : own->control;
  memcpy(own->gid, dc->home.gid, sizeof(own->gid));
}

const char *dc_gid_reason(const struct dc_endpoint *dc, char text[DC_REASON])
{
  struct pst_device *device = dc->endpoint.device;

  pthread_mutex_lock(&device->place_lock);
  snprintf(text, DC_REASON, "%s", device->place.reason);
  pthread_mutex_unlock(&device->place_lock);
  return text;
}
