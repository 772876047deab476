/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, registrations, rings. */
#include <stdio.h>

#include "udp.h"

int udp_open(const struct pst_host *host, const struct pst_open_params *params,
             struct pst_device **device)
{
  static const enum dg_framing framings[] = {DG_FRAMING_SEQUENCE, DG_FRAMING_RTP, DG_FRAMING_NONE};
  static const int families[] = {AF_UNSPEC, AF_INET, AF_INET6};
  struct udp_device_name name;
  struct pst_open_params in;
  struct pst_device *made = calloc(1, sizeof(*made));

  if (!made)
    return -ENOMEM;
  UDP_TAKE(in, params);
  made->host = host;
  if (in.plan)
    UDP_TAKE(made->plan, in.plan);
  made->framing = framings[host->option_uint(in.options, "framing")];
  made->family = (enum udp_family)host->option_uint(in.options, "family");
  made->timestamps = (enum udp_timestamps)host->option_uint(in.options, "timestamps");
  made->clock_rate = (uint32_t)host->option_uint(in.options, "clock_rate");
  snprintf(made->name, sizeof(made->name), "%s", host->option_string(in.options, "device"));
  made->listens.any.sa_family = AF_UNSPEC;
  if (made->plan.flags & PST_PLAN_IN_PROCESS)
    udp_address_set_loopback(&made->listens, AF_INET);
  else if (in.local_address)
    udp_address_parse(in.local_address, &made->listens);
  int rc = udp_device_find(made, made->name, families[made->family], &name);
  if (rc < 0) {
    free(made);
    return rc;
  }
  *device = made;
  return 0;
}

void udp_close(struct pst_device *device)
{
  free(device);
}

int udp_limits(struct pst_device *device, struct pst_limits *limits)
{
  uint64_t capabilities = UDP_CAPABILITIES;

  if (device->framing == DG_FRAMING_NONE)
    capabilities &= ~(uint64_t)PST_CAP_SEQUENCE;
  if (device->timestamps == UDP_TIME_OFF)
    capabilities &= ~(uint64_t)PST_CAP_TIME;
  struct pst_limits out = {
      .sequence_bits = dg_sequence_bits(device->framing),
      .capabilities = capabilities,
      .message_max = UDP_DATAGRAM_MAX - dg_header_bytes(device->framing, true),
      .slot_alignment = 1,
      .tailroom = dg_tailroom(device->framing),
      .slots_min = 1,
      .slots_max = UDP_SLOTS_MAX,
      .workers_max = UDP_WORKERS_MAX,
      .endpoints_max = UDP_ENDPOINTS_MAX,
      .requests_max = UDP_REQUESTS_MAX,
      .pieces_max = UDP_PIECES_MAX,
      .ring_needs = PST_NEED_CPU_ACCESS,
      .send_needs = PST_NEED_CPU_ACCESS,
      .page_size = 1,
      .address_max = UDP_BLOB_BYTES,
  };
  UDP_GIVE(limits, out);
  return 0;
}

void udp_path_fill(struct pst_path_info *path)
{
  struct pst_path_info info = {.path = PST_PATH_DIRECT};

  snprintf(info.via, sizeof(info.via), "socket");
  snprintf(info.carrier, sizeof(info.carrier), "udp");
  UDP_GIVE(path, info);
}

/* ---- Registrations ------------------------------------------------------------------ */

static int refuse_memory(struct pst_path_info *path)
{
  struct pst_path_info info = {0};

  snprintf(info.reason, sizeof(info.reason),
           "the kernel's sockets need memory that the CPU can touch");
  if (path)
    UDP_GIVE(path, info);
  return -EOPNOTSUPP;
}

int udp_mr_register(struct pst_device *device, const struct pst_mr_params *params,
                    struct pst_mr **mr)
{
  struct pst_mr_params in;
  struct pst_region region;

  UDP_TAKE(in, params);
  UDP_TAKE(region, in.region);
  if (in.offset > region.length || in.length > region.length - in.offset) {
    UDP_LOG(device, PST_LOG_ERROR,
            "a registration of %lu bytes from %lu on is outside its region of %lu bytes", in.length,
            in.offset, region.length);
    return -EINVAL;
  }
  if (in.access & ~(uint32_t)(PST_ACCESS_RING * 2 - 1)) {
    UDP_LOG(device, PST_LOG_ERROR, "a registration asks for the rights 0x%x, which are not known",
            in.access & ~(uint32_t)(PST_ACCESS_RING * 2 - 1));
    return -EINVAL;
  }
  if (!region.host)
    return refuse_memory(in.path);
  struct udp_mr *made = calloc(1, sizeof(*made));
  if (!made)
    return -ENOMEM;
  made->base = (uint8_t *)region.host + in.offset;
  made->length = in.length;
  made->access = in.access;
  if (in.path)
    udp_path_fill(in.path);
  *mr = (struct pst_mr *)made;
  return 0;
}

void udp_mr_deregister(struct pst_device *device, struct pst_mr *mr)
{
  (void)device;
  free(udp_mr_of(mr));
}

/* ---- Rings --------------------------------------------------------------------------- */

/* Do all slots lie in the registration, none over another? */
static bool ring_fits(const struct pst_ring_params *in, const struct udp_mr *mr, uint64_t *slot)
{
  uint64_t end;

  if (__builtin_add_overflow(in->payload_max, (uint64_t)in->headroom + in->tailroom, slot) ||
      *slot > in->stride || *slot > UINT32_MAX ||
      __builtin_mul_overflow((uint64_t)in->slots - 1, in->stride, &end) ||
      __builtin_add_overflow(end, *slot, &end) || __builtin_add_overflow(end, in->base, &end))
    return false;
  return end <= mr->length;
}

static int place_find(struct pst_worker *worker)
{
  uint32_t place = 0;

  while (place < worker->ring_count && worker->rings[place])
    place++;
  if (place == UDP_PLACES)
    return -ENOSPC;
  if (place < worker->ring_count)
    return (int)place;
  struct pst_ring **rings = realloc(worker->rings, (place + 1) * sizeof(struct pst_ring *));
  if (!rings)
    return -ENOMEM;
  worker->rings = rings;
  worker->rings[worker->ring_count++] = NULL;
  return (int)place;
}

int udp_ring_open(struct pst_worker *worker, const struct pst_ring_params *params,
                  struct pst_path_info *path, struct pst_ring **ring)
{
  struct pst_device *device = worker->device;
  struct pst_ring_params in;
  uint64_t slot = 0;
  const char *what = NULL;

  UDP_TAKE(in, params);
  struct udp_mr *mr = in.mr ? udp_mr_of(in.mr) : NULL;
  if (!mr || !(mr->access & PST_ACCESS_LOCAL_WRITE))
    what = "its memory is not registered for writing";
  else if (in.slots == 0 || in.slots > UDP_SLOTS_MAX)
    what = "its number of slots is out of range";
  else if (in.tailroom < dg_tailroom(device->framing))
    what = "its slots lack the tailroom that limits asks for";
  else if (!ring_fits(&in, mr, &slot))
    what = "its slots overlap, or reach beyond the registration";
  else if (in.endpoints > 1)
    what = "a ring of udp has one endpoint, since each has a socket of its own";
  if (what) {
    UDP_LOG(device, PST_LOG_ERROR, "ring refused: %s", what);
    return -EINVAL;
  }
  int place = place_find(worker);
  if (place < 0)
    return place;
  struct pst_ring *made = calloc(1, sizeof(*made));
  if (made) {
    made->states = calloc(in.slots, sizeof(*made->states));
    made->free = malloc(in.slots * sizeof(*made->free));
  }
  if (!made || !made->states || !made->free) {
    if (made) {
      free(made->states);
      free(made->free);
    }
    free(made);
    return -ENOMEM;
  }
  made->worker = worker;
  made->params = in;
  made->mr = mr;
  made->capacity = (uint32_t)(slot - in.headroom);
  made->index = worker->rings_opened++ << UDP_PLACE_BITS | (uint32_t)place;
  for (uint32_t i = 0; i < in.slots; i++)
    made->free[i] = in.slots - 1 - i; /* the first slot first, later the one last back */
  made->free_count = in.slots;
  worker->rings[place] = made;
  if (path)
    udp_path_fill(path);
  *ring = made;
  return 0;
}

void udp_ring_close(struct pst_worker *worker, struct pst_ring *ring)
{
  if (!ring)
    return;
  worker->rings[ring->index % UDP_PLACES] = NULL;
  free(ring->states);
  free(ring->free);
  free(ring);
}

int udp_release(struct pst_worker *worker, const uint64_t *tokens, uint32_t n)
{
  for (uint32_t i = 0; i < n; i++) {
    uint32_t index = (uint32_t)(tokens[i] >> 32), slot = (uint32_t)tokens[i];
    uint32_t place = index % UDP_PLACES;
    struct pst_ring *ring = place < worker->ring_count ? worker->rings[place] : NULL;
    if (!ring || ring->index != index || slot >= ring->params.slots ||
        ring->states[slot] != UDP_SLOT_OUT) {
      UDP_LOG(worker->device, PST_LOG_ERROR,
              "a token was released that is not out: %#lx; a bug of the host", tokens[i]);
      return -EINVAL;
    }
    ring->states[slot] = UDP_SLOT_OURS;
    ring->free[ring->free_count++] = slot;
  }
  return 0;
}
