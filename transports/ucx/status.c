/* SPDX-License-Identifier: Apache-2.0 */
/* UCX's status as errno, and what to do about it. */
#include "status.h"

#include <errno.h>

static const struct {
  ucs_status_t status;
  int code;
  const char *remedy;
} known[] = {
    {UCS_ERR_NO_MEMORY, -ENOMEM, "raise `ulimit -l` and look at /dev/shm, or use fewer endpoints"},
    {UCS_ERR_NO_DEVICE, -ENODEV,
     "no transport of `tls` has a device of `net_devices`: see `ucx_info -d`"},
    {UCS_ERR_UNREACHABLE, -EHOSTUNREACH,
     "both ends need a transport in common: compare `tls` and `net_devices` of both with "
     "`ucx_info -d`"},
    {UCS_ERR_UNSUPPORTED, -EOPNOTSUPP,
     "the transports that `tls` leaves cannot do this: add others, or leave `tls` out"},
    {UCS_ERR_CONNECTION_RESET, -ECONNRESET, "the peer is gone: its log says why"},
    {UCS_ERR_ENDPOINT_TIMEOUT, -ETIMEDOUT,
     "the peer's process has ended, or its host answers no more: see its log, then its link, and "
     "firewalls between the two"},
    {UCS_ERR_TIMED_OUT, -ETIMEDOUT,
     "the peer's host answers no more: look at its link, and at firewalls between the two"},
    {UCS_ERR_SHMEM_SEGMENT, -ECONNRESET,
     "the peer has died meanwhile, or its /dev/shm and user are not ours: see its log, or leave "
     "shared memory out of `tls`"},
    {UCS_ERR_REJECTED, -ECONNREFUSED, "the peer takes no connection: its log says why"},
    {UCS_ERR_NOT_CONNECTED, -ENOTCONN, "the peer is gone: its log says why"},
    {UCS_ERR_CANCELED, -ECANCELED, "it was cancelled by a close"},
    {UCS_ERR_INVALID_ADDR, -EPROTO,
     "the peer's address is of another UCX: give both ends the same release"},
    {UCS_ERR_INVALID_PARAM, -EINVAL, "see the line of UCX before this one"},
    {UCS_ERR_IO_ERROR, -EIO, "see the lines of UCX before this one, and the kernel's log"},
    {UCS_ERR_MESSAGE_TRUNCATED, -EMSGSIZE, "both ends need the same `message`"},
    {UCS_ERR_EXCEEDS_LIMIT, -ENOSPC, "use fewer endpoints, or raise `ulimit -n`"},
};

int ucx_status_errno(ucs_status_t status)
{
  if (status == UCS_OK)
    return 0;
  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
    if (known[i].status == status)
      return known[i].code;
  /* The others between these bounds are errors of one endpoint. */
  return status <= UCS_ERR_FIRST_ENDPOINT_FAILURE && status >= UCS_ERR_LAST_ENDPOINT_FAILURE
             ? -ECONNRESET
             : -EIO;
}

const char *ucx_status_remedy(ucs_status_t status)
{
  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
    if (known[i].status == status)
      return known[i].remedy;
  return "see the lines of UCX before this one; UCX_LOG_LEVEL=debug says more";
}
