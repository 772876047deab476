/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: a ucp_context, and what is measured of it. */
#include "device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ucp/api/ucp.h>

#include <penstock/page.h>
#include <penstock/transport-util.h>

#include "am.h"
#include "cuda.h"
#include "lanes.h"
#include "linger.h"
#include "ops.h"
#include "settings.h"
#include "status.h"
#include "watch.h"
#include "wire.h"

#define DEVICE_KEY_SLACK                                                                           \
  64u /* keys of other kinds of memory may be longer than what is measured                         \
       */

int ucx_probe(const struct pst_host *host, struct pst_probe *probe)
{
  ucp_lib_attr_t attributes = {.field_mask = UCP_LIB_ATTR_FIELD_MAX_THREAD_LEVEL};
  const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_AM};
  ucp_context_h context;
  char warning[200], names[256];
  ucs_status_t status = ucp_lib_query(&attributes);

  ucx_log_take(host);
  ucx_log_keep(warning, sizeof(warning));
  if (status == UCS_OK)
    status = ucp_init(&params, NULL, &context);
  ucx_log_keep(NULL, 0);
  if (status != UCS_OK) {
    snprintf(probe->reason, sizeof(probe->reason), "UCX %s cannot start: %s%s%.150s",
             ucp_get_version_string(), ucs_status_string(status), warning[0] ? "; " : "", warning);
    snprintf(probe->remedy, sizeof(probe->remedy), "%s", ucx_status_remedy(status));
    return ucx_status_errno(status);
  }
  ucx_transports_read(context, names, sizeof(names));
  ucp_cleanup(context);
  char detail[300];
  snprintf(detail, sizeof(detail), "UCX %s: %s", ucp_get_version_string(), names);
  probe->device(probe->context, "any", detail);
  return 0;
}

/* Opens the UCP context with the plugin's settings. 0, or -errno after a log. */
static int ucx_device_init(struct pst_device *device, const struct pst_options *options)
{
  ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED,
                         .features = UCP_FEATURE_AM,
                         .mt_workers_shared = 1};
  const struct pst_host *host = device->host;
  ucp_config_t *config;
  ucs_status_t status;
  char said[400];
  int rc = ucx_settings_read(host, options, &config);

  if (rc < 0)
    return rc;
  /* With RMA a peer's put writes where it says: only a device that has one-sided access takes it.
   */
  if (device->has_rma)
    params.features |= UCP_FEATURE_RMA | UCP_FEATURE_AMO64;
  if (device->sleeps)
    params.features |= UCP_FEATURE_WAKEUP;
  ucx_log_keep(said, sizeof(said));
  status = ucp_init(&params, config, &device->context);
  ucx_log_keep(NULL, 0);
  ucp_config_release(config);
  if (status != UCS_OK) {
    device->context = NULL;
    return PST_REFUSE(host, ucx_status_errno(status), "UCX %s cannot start: %s%s%s; %s",
                      ucp_get_version_string(), ucs_status_string(status), said[0] ? ": " : "",
                      said, ucx_status_remedy(status));
  }
  /* UCX itself would do without. */
  if (strstr(said, "network device") && ucx_settings_have(host, options, "NET_DEVICES"))
    return PST_REFUSE(host, -ENODEV, "net_devices: %s", said);
  if (said[0])
    host->log(host, PST_LOG_INFO, "UCX: %s", said);
  status = ucx_am_datatype(&device->gather);
  return status == UCS_OK ? 0 : -ENOMEM;
}

/* A worker as endpoints have them: how long its address is, and whether UCX has taken all options.
 */
static int ucx_device_measure_address(struct pst_device *device)
{
  const ucp_worker_params_t params = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                      .thread_mode = UCS_THREAD_MODE_SERIALIZED};
  char warning[256];
  ucp_worker_h worker;
  ucp_address_t *address;
  size_t length = 0;
  ucs_status_t status;

  ucx_log_keep(warning, sizeof(warning));
  status = ucp_worker_create(device->context, &params, &worker);
  ucx_log_keep(NULL, 0);
  if (status != UCS_OK)
    return PST_REFUSE(device->host, ucx_status_errno(status),
                      "UCX cannot create a worker: %s%s%s; %s", ucs_status_string(status),
                      warning[0] ? ": " : "", warning, ucx_status_remedy(status));
  status = ucp_worker_get_address(worker, &address, &length);
  if (status == UCS_OK)
    ucp_worker_release_address(worker, address);
  ucp_worker_destroy(worker);
  if (strstr(warning, "invalid configuration"))
    return PST_REFUSE(device->host, -EOPNOTSUPP,
                      "UCX %s takes this setting of the option `ucx` only from the environment "
                      "(%s): set UCX_NAME=VALUE there",
                      ucp_get_version_string(), warning);
  device->address_max = (uint32_t)(sizeof(struct ucx_address) + length);
  return status == UCS_OK ? 0 : -EIO;
}

static int ucx_device_measure_key(struct pst_device *device)
{
  const size_t length = pst_page_size();
  void *page = aligned_alloc(length, length), *packed;
  const ucp_mem_map_params_t params = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS |
                                                     UCP_MEM_MAP_PARAM_FIELD_LENGTH,
                                       .address = page,
                                       .length = length};
  ucp_mem_h memh;
  size_t size;
  ucs_status_t status;

  device->remote_max = sizeof(struct ucx_key) + DEVICE_KEY_SLACK;
  if (!page)
    return -ENOMEM;
  status = ucp_mem_map(device->context, &params, &memh);
  if (status == UCS_OK) {
    if (ucp_rkey_pack(device->context, memh, &packed, &size) == UCS_OK) {
      device->remote_max += (uint32_t)size;
      ucp_rkey_buffer_release(packed);
    }
    ucp_mem_unmap(device->context, memh);
  }
  free(page);
  return 0;
}

static int ucx_device_measure(struct pst_device *device)
{
  ucp_context_attr_t attributes = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};
  int rc;

  if (ucp_context_query(device->context, &attributes) == UCS_OK)
    device->memory_types = attributes.memory_types;
  ucx_transports_read(device->context, device->transports, sizeof(device->transports));
  device->shares = ucx_lanes_has(device->transports, "posix") ||
                   ucx_lanes_has(device->transports, "sysv") ||
                   ucx_lanes_has(device->transports, "xpmem");
  rc = ucx_device_measure_address(device);
  return rc < 0 ? rc : ucx_device_measure_key(device);
}

static void ucx_device_read_options(struct pst_device *device, const struct pst_options *options)
{
  const struct pst_host *host = device->host;

  device->peer_failure = (enum ucx_peer_failure)host->option_uint(options, "peer_failure");
  device->batch_bytes = host->option_uint(options, "part");
  device->rendezvous_from = host->option_uint(options, "rendezvous_from");
  device->direct_from = host->option_uint(options, "direct_from");
  device->linger_ns = host->option_uint(options, "linger");
}

/* Reads options and plan, and opens UCX. On failure nothing is left. */
int ucx_open(const struct pst_host *host, const struct pst_open_params *params,
             struct pst_device **device)
{
  struct pst_device *made = calloc(1, sizeof(*made));
  struct pst_open_params in;
  struct pst_plan plan = {0};
  int rc;

  if (!made)
    return -ENOMEM;
  pst_struct_read(&in, sizeof(in), params);
  if (in.plan)
    pst_struct_read(&plan, sizeof(plan), in.plan);
  made->host = host;
  pthread_mutex_init(&made->keeper_lock, NULL);
  pthread_rwlock_init(&made->mr_lock, NULL);
  made->sleeps = plan.flags & PST_PLAN_SLEEP;
  made->has_rma = plan.rma > 0;
  ucx_device_read_options(made, in.options);
  ucx_log_take(host);
  ucx_settings_environment(made->environment, sizeof(made->environment));
  if (!ucx_identity_read(&made->identity))
    memset(&made->identity, 0, sizeof(made->identity));
  rc = ucx_device_init(made, in.options);
  if (rc == 0)
    rc = ucx_device_measure(made);
  if (rc < 0) {
    ucx_close(made);
    return rc;
  }
  UCX_LOG(made, PST_LOG_DEBUG, "UCX %s: %s%s%s", ucp_get_version_string(), made->transports,
          made->environment[0] ? "; from the environment: " : "", made->environment);
  *device = made;
  return 0;
}

void ucx_close(struct pst_device *device)
{
  if (!device)
    return;
  ucx_linger_close(device);
  pthread_mutex_destroy(&device->keeper_lock);
  pthread_rwlock_destroy(&device->mr_lock);
  if (device->gather)
    ucp_dt_destroy(device->gather);
  if (device->context)
    ucp_cleanup(device->context);
  ucx_cuda_close(device->cuda);
  free(device);
}
