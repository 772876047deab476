/* SPDX-License-Identifier: Apache-2.0 */
/* In place of cm.c in a build without librdmacm: the option is refused, and nothing else is called.
 */
#include "cm.h"

int rc_cm_check(const struct pst_device *device)
{
  RC_LOG(device, PST_LOG_ERROR,
         "connection: rdma_cm is not in this build: librdmacm was missing (Debian: librdmacm-dev); "
         "`connection: exchange` needs none");
  return -EOPNOTSUPP;
}

int rc_cm_worker_open(struct pst_worker *worker, uint32_t index)
{
  (void)worker, (void)index;
  return -EOPNOTSUPP;
}

void rc_cm_worker_close(struct pst_worker *worker)
{
  (void)worker;
}

int rc_cm_open(struct pst_endpoint *endpoint)
{
  (void)endpoint;
  return -EOPNOTSUPP;
}

void rc_cm_close(struct pst_endpoint *endpoint)
{
  (void)endpoint;
}

bool rc_cm_connects(const struct pst_endpoint *endpoint)
{
  (void)endpoint;
  return false;
}

void rc_cm_connect(struct pst_endpoint *endpoint)
{
  (void)endpoint;
}

int rc_cm_attributes(struct pst_endpoint *endpoint, struct ibv_qp_attr *attr)
{
  (void)endpoint, (void)attr;
  return EOPNOTSUPP;
}

int rc_cm_settle(struct pst_endpoint *endpoint)
{
  (void)endpoint;
  return EOPNOTSUPP;
}

void rc_cm_drop(struct pst_endpoint *endpoint)
{
  (void)endpoint;
}

void rc_cm_reconnect(struct pst_endpoint *endpoint)
{
  (void)endpoint;
}

void rc_cm_missed(const struct pst_endpoint *endpoint, char *text, size_t size)
{
  (void)endpoint, (void)text, (void)size;
}

bool rc_cm_waits(const struct pst_endpoint *endpoint, char *text, size_t size)
{
  (void)endpoint, (void)text, (void)size;
  return false;
}

void rc_cm_events(struct pst_worker *worker)
{
  (void)worker;
}

void rc_cm_look(struct pst_endpoint *endpoint, uint64_t now_ns)
{
  (void)endpoint, (void)now_ns;
}

void rc_cm_leave(struct pst_worker *worker)
{
  (void)worker;
}

void rc_cm_describe(const struct pst_endpoint *endpoint, char *text, size_t size)
{
  (void)endpoint, (void)text, (void)size;
}
