/* SPDX-License-Identifier: Apache-2.0 */
/* A transport plugin of stubs: the header compiles and links alone. */
#ifndef FIXTURE_KIND
#define FIXTURE_KIND PST_KIND_TRANSPORT
#endif
#include "fixture.h"

static int stub_open(const struct pst_host *host, const struct pst_open_params *params,
                     struct pst_device **device)
{
  (void)host, (void)params, (void)device;
  return -ENODEV;
}

static void stub_close(struct pst_device *device)
{
  (void)device;
}

static int stub_limits(struct pst_device *device, struct pst_limits *limits)
{
  (void)device, (void)limits;
  return -ENODEV;
}

static int stub_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                            struct pst_mr **mr)
{
  (void)device, (void)params, (void)mr;
  return -ENODEV;
}

static void stub_mr_deregister(struct pst_device *device, struct pst_mr *mr)
{
  (void)device, (void)mr;
}

static int stub_worker_open(struct pst_device *device, uint32_t index, struct pst_worker **worker)
{
  (void)device, (void)index, (void)worker;
  return -ENODEV;
}

static void stub_worker_close(struct pst_worker *worker)
{
  (void)worker;
}

static int stub_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                              struct pst_endpoint **endpoint)
{
  (void)worker, (void)params, (void)endpoint;
  return -ENODEV;
}

static int stub_endpoint_address(struct pst_endpoint *endpoint, struct pst_blob *address)
{
  (void)endpoint, (void)address;
  return -ENODEV;
}

static int stub_endpoint_connect(struct pst_endpoint *endpoint, const struct pst_blob *address)
{
  (void)endpoint, (void)address;
  return -ENODEV;
}

static int stub_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path)
{
  (void)endpoint, (void)path;
  return -ENODEV;
}

static int stub_endpoint_close(struct pst_endpoint *endpoint, uint32_t mode, uint64_t deadline_ns)
{
  (void)endpoint, (void)mode, (void)deadline_ns;
  return -ENODEV;
}

int stub_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
              uint32_t *wait);
int stub_post(struct pst_endpoint *endpoint, const struct pst_request *requests, uint32_t n,
              uint32_t *wait)
{
  (void)endpoint, (void)requests, (void)wait;
  return (int)n;
}

static int stub_poll(struct pst_worker *worker, struct pst_completion *completions, uint32_t max)
{
  (void)worker, (void)completions, (void)max;
  return 0;
}

#ifndef FIXTURE_POST
#define FIXTURE_POST stub_post
#endif

extern const struct pst_transport_ops fixture_ops;
const struct pst_transport_ops fixture_ops = {
    .struct_size = FIXTURE_OPS_SIZE,
    .capabilities = FIXTURE_CAPABILITIES,
    .open = stub_open,
    .close = stub_close,
    .limits = stub_limits,
    .mr_register = stub_mr_register,
    .mr_deregister = stub_mr_deregister,
    .worker_open = stub_worker_open,
    .worker_close = stub_worker_close,
    .endpoint_open = stub_endpoint_open,
    .endpoint_address = stub_endpoint_address,
    .endpoint_connect = stub_endpoint_connect,
    .endpoint_path = stub_endpoint_path,
    .endpoint_close = stub_endpoint_close,
    .post = FIXTURE_POST,
    .poll = stub_poll,
};

FIXTURE_PLUGIN();
