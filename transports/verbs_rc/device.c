/* SPDX-License-Identifier: Apache-2.0 */
/* Devices with the options of RC. */
#include <stdio.h>

#include "../verbs/open.h"
#include "cm.h"
#include "ops.h"

static void rc_device_read_options(struct pst_device *device, const struct pst_options *options)
{
  const struct pst_host *host = device->host;

  device->sends = strcmp(host->option_string(options, "operation"), "send") == 0;
  device->reconnect_ns = host->option_uint(options, "reconnect");
  device->keepalive_ns = host->option_uint(options, "keepalive");
  device->cm = host->option_uint(options, "connection") == 1 ? &rc_cm : NULL;
  device->cm_port = (uint16_t)host->option_uint(options, "cm_port");
  device->initial = host->option_uint(options, "first_sequence");
  device->qps = (uint32_t)host->option_uint(options, "qps");
  device->has_ece = host->option_uint(options, "ece") == VB_ECE_AUTO;
  device->shares = host->option_uint(options, "srq");
  device->runs = host->option_uint(options, "runs");
}

/* A silent end notices a failure by a keepalive, and may do so after the other has given up. By
 * rdma_cm the kernel says so at once. */
static void rc_device_tell_brief(const struct pst_device *device)
{
  const uint64_t notices_ns = device->keepalive_ns + vb_silence_ns(&device->path);

  if (device->cm || device->reconnect_ns == 0 || device->reconnect_ns >= notices_ns)
    return;
  VB_LOG(device, PST_LOG_WARN,
         "`reconnect` of %.2f s ends before a silent end notices that the connection failed: that "
         "takes keepalive + timeout * (retry_cnt + 1), %.2f s here. Raise `reconnect` to several "
         "times that, or lower `timeout` (%u) or `keepalive`",
         (double)device->reconnect_ns / 1e9, (double)notices_ns / 1e9, device->path.timeout);
}

static int rc_device_check_shared(const struct pst_device *device)
{
  if (device->shares && (device->attr.max_srq < 1 || device->attr.max_srq_sge < 1 ||
                         (uint32_t)device->attr.max_srq_wr <= VB_RECEIVES_BESIDE)) {
    VB_LOG(device, PST_LOG_ERROR,
           "%s has no shared receive queues for `srq: true` (max_srq %d, of %d receives of %d "
           "pieces; see `ibv_devinfo -v`): leave out `srq`, or choose another device",
           device->open.info->name, device->attr.max_srq, device->attr.max_srq_wr,
           device->attr.max_srq_sge);
    return -EOPNOTSUPP;
  }
  return 0;
}

int rc_open(const struct pst_host *host, const struct vb_transport *transport,
            const struct pst_open_params *params, struct pst_device **device)
{
  struct pst_open_params in;
  struct pst_device *made = calloc(1, sizeof(*made));

  if (!made)
    return -ENOMEM;
  pst_struct_read(&in, sizeof(in), params);
  made->host = host;
  rc_device_read_options(made, in.options);
  int rc = vb_device_open(made, host, transport, &in, RC_CAPABILITIES);
  if (rc == 0 && made->cm)
    rc = made->cm->check(made);
  if (rc == 0)
    rc = rc_device_check_shared(made);
  if (rc < 0) {
    rc_close(made);
    return rc;
  }
  rc_device_tell_brief(made);
  *device = made;
  return 0;
}

void rc_close(struct pst_device *device)
{
  if (!device)
    return;
  if (device->counter_folder[0])
    rc_tell_slow(device);
  vb_device_close(device);
  free(device);
}
