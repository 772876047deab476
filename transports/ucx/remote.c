/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of memory for peers. */
#include "remote.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <ucp/api/ucp.h>

#include <penstock/transport-cpu.h>

#include "device.h"
#include "endpoint.h"
#include "link.h"
#include "mr.h"
#include "ops.h"
#include "status.h"
#include "wire.h"

int ucx_mr_pack(struct pst_device *device, struct pst_mr *mr, struct pst_blob *blob)
{
  const uint32_t remote =
      PST_ACCESS_REMOTE_READ | PST_ACCESS_REMOTE_WRITE | PST_ACCESS_REMOTE_ATOMIC;
  struct ucx_key key = {.magic = UCX_MAGIC,
                        .access = (mr->cpu.access & remote) | (mr->by_cpu ? UCX_KEY_BY_CPU : 0),
                        .address = (uint64_t)(uintptr_t)mr->cpu.base,
                        .length = mr->cpu.length};
  void *packed = NULL;
  size_t size = 0;
  ucs_status_t status = UCS_OK;

  if (!(key.access & remote))
    return -EACCES;
  if (mr->memh)
    status = ucp_rkey_pack(device->context, mr->memh, &packed, &size);
  if (status != UCS_OK)
    return PST_REFUSE(device->host, ucx_status_errno(status), "UCX cannot pack a key: %s; %s",
                      ucs_status_string(status), ucx_status_remedy(status));
  if (sizeof(key) + size > blob->capacity) {
    ucp_rkey_buffer_release(packed);
    return -ENOSPC;
  }
  memcpy(blob->bytes, &key, sizeof(key));
  if (size)
    memcpy((uint8_t *)blob->bytes + sizeof(key), packed, size);
  key.sum = ucx_blob_sum(blob->bytes, sizeof(key) + size, offsetof(struct ucx_key, sum));
  memcpy(blob->bytes, &key, sizeof(key));
  blob->length = (uint32_t)(sizeof(key) + size);
  blob->fd_count = 0;
  if (packed)
    ucp_rkey_buffer_release(packed);
  return 0;
}

/* Unpacks the key of memory that the peer offers. -EPROTO: the blob is none of this plugin's. */
int ucx_remote_open(struct pst_endpoint *endpoint, const struct pst_blob *blob,
                    struct pst_remote **remote)
{
  struct ucx_link *link = endpoint->link;
  struct ucx_key key;
  struct pst_remote *made;
  ucs_status_t status;

  if (!(endpoint->cpu.params.roles & PST_ROLE_RMA))
    return -EINVAL;
  if (endpoint->cpu.state != PST_CPU_UP || !link->ep || ucx_link_is_lost(link))
    return -ENOTCONN;
  if (blob->length < sizeof(key))
    return UCX_REFUSE(endpoint, -EPROTO, "the peer's memory cannot be used: its key is cut short");
  memcpy(&key, blob->bytes, sizeof(key));
  if (key.magic != UCX_MAGIC || (key.length && blob->length == sizeof(key)) ||
      key.sum != ucx_blob_sum(blob->bytes, blob->length, offsetof(struct ucx_key, sum)))
    return UCX_REFUSE(endpoint, -EPROTO,
                      "the peer's memory cannot be used: its key is not one of ucx's; both ends "
                      "need the same transport");
  made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  made->link = link;
  made->address = key.address;
  made->length = key.length;
  made->access = key.access & ~UCX_KEY_BY_CPU;
  made->by_cpu = key.access & UCX_KEY_BY_CPU;
  if (key.length) {
    status = ucp_ep_rkey_unpack(link->ep, (const uint8_t *)blob->bytes + sizeof(key), &made->rkey);
    if (status != UCS_OK) {
      free(made);
      return UCX_REFUSE(endpoint, status == UCS_ERR_UNREACHABLE ? -EXDEV : -EPROTO,
                        "the peer's memory cannot be used: %s; %s", ucs_status_string(status),
                        ucx_status_remedy(status));
    }
  }
  made->next = link->remotes;
  link->remotes = made;
  *remote = made;
  return 0;
}

void ucx_remote_close(struct pst_endpoint *endpoint, struct pst_remote *remote)
{
  struct pst_remote **at = &endpoint->link->remotes;

  if (!remote)
    return;
  while (*at && *at != remote)
    at = &(*at)->next;
  if (*at)
    *at = remote->next;
  if (remote->rkey)
    ucp_rkey_destroy(remote->rkey);
  free(remote);
}
