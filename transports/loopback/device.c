/* SPDX-License-Identifier: Apache-2.0 */
/* The device: limits, and what peers of other processes need. */
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "address.h"
#include "device.h"
#include "registry.h"

int lb_process_open(void)
{
  int fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
  return fd < 0 ? -errno : fd;
}

static int lb_device_check_process_fd(struct pst_device *device)
{
  int fd = lb_process_open();
  if (fd >= 0)
    return close(fd);
  return PST_REFUSE(device->host, fd == -EPERM ? -EACCES : -ENODEV,
                    "pidfd_open: %s; between processes loopback needs Linux 5.3 or newer and a "
                    "sandbox that allows the call, or run both ends in one process",
                    strerror(-fd));
}

int lb_open(const struct pst_host *host, const struct pst_open_params *params,
            struct pst_device **device)
{
  struct pst_open_params in;
  LB_TAKE(in, params);
  struct pst_device *made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  made->host = host;
  made->send_plain = lb_send_plain();
  if (in.plan)
    LB_TAKE(made->plan, in.plan);
  made->mode = (enum lb_mode)host->option_uint(in.options, "mode");
  made->shared = !(made->plan.flags & PST_PLAN_IN_PROCESS);

  int rc = 0;
  if (made->shared && made->mode == LB_MODE_REFERENCE)
    rc = PST_REFUSE(host, -EXDEV,
                    "mode: reference works within one process only; use mode: copy, or `penstock "
                    "run`");
  if (rc == 0 && made->shared)
    rc = lb_device_check_process_fd(made);
  if (rc != 0) {
    free(made);
    return rc;
  }
  *device = made;
  return 0;
}

void lb_close(struct pst_device *device)
{
  free(device);
}

int lb_limits(struct pst_device *device, struct pst_limits *limits)
{
  bool copy = device->mode == LB_MODE_COPY;
  uint32_t needs = copy ? PST_NEED_CPU_ACCESS : 0;
  uint64_t lacks = (copy ? PST_CAP_LEND | PST_CAP_BARE_RING : 0) |
                   (device->shared ? 0 : (uint64_t)PST_CAP_DESCRIPTORS);
  struct pst_limits out = {
      .sequence_bits = 64,
      .capabilities = LB_CAPABILITIES & ~lacks,
      .message_max = LB_BYTES_MAX,
      .rma_max = LB_BYTES_MAX,
      .slot_alignment = 1,
      .slots_min = 1,
      .slots_max = LB_SLOTS_MAX,
      .workers_max = LB_WORKERS_MAX,
      .endpoints_max = LB_ENDPOINTS_MAX,
      .requests_max = LB_REQUESTS_MAX,
      .pieces_max = LB_PIECES_MAX,
      .ring_needs = needs | (device->shared ? PST_NEED_EXPORT_FD : 0),
      .send_needs = needs,
      .page_size = 1,
      .address_max = sizeof(struct lb_address),
      .remote_max = sizeof(struct lb_remote_blob),
  };
  LB_GIVE(limits, out);
  return 0;
}

int lb_start(struct pst_device *device)
{
  device->sealed = true;
  return 0;
}
