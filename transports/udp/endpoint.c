/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: opened, and freed. */
#include <stdio.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "address.h"
#include "receive.h"
#include "send.h"
#include "udp.h"

static int open_common(struct pst_endpoint *endpoint, const struct pst_endpoint_params *params)
{
  const struct pst_worker *worker = endpoint->worker;
  const char *wrong = NULL;
  struct pst_limits limits = {.struct_size = sizeof(limits)};

  udp_limits(worker->device, &limits);
  if (params->roles != PST_ROLE_SENDER && params->roles != PST_ROLE_RECEIVER)
    wrong = "it has to be a sender or a receiver";
  else if (params->ring &&
           pst_places_find(&worker->rings, params->ring->cpu.number) != params->ring)
    wrong = "its ring is another worker's";
  return pst_cpu_endpoint_open(&endpoint->cpu, worker->device->host, params, &limits, wrong);
}

/* An option that is an address: 0; -EINVAL; -ENODEV: its zone is no interface here. Logged. */
static int read_address(struct pst_endpoint *endpoint, const struct pst_options *options,
                        const char *name, union udp_address *address)
{
  struct pst_device *device = endpoint->worker->device;
  const char *text = device->host->option_string(options, name);
  char zone[UDP_ZONE_MAX];

  address->any.sa_family = AF_UNSPEC;
  if (!text[0] || udp_address_parse(text, address))
    return 0;
  if (udp_address_read(text, address, zone))
    return UDP_REFUSE(endpoint, -ENODEV, "%s: %s: this host has no interface %s; see `ip link`",
                      name, text, zone);
  return UDP_REFUSE(endpoint, -EINVAL,
                    "%s: %s is not an address; write numbers (192.0.2.7, 192.0.2.7:5004, "
                    "2001:db8::7, [2001:db8::7]:5004), names are not looked up",
                    name, text);
}

static int read_addresses(struct pst_endpoint *endpoint, const struct pst_options *options)
{
  int rc;

  endpoint->to.any.sa_family = endpoint->group.any.sa_family = AF_UNSPEC;
  endpoint->source.any.sa_family = AF_UNSPEC;
  if (endpoint->cpu.params.roles & PST_ROLE_SENDER)
    return read_address(endpoint, options, "to", &endpoint->to);
  rc = read_address(endpoint, options, "group", &endpoint->group);
  if (rc == 0)
    rc = read_address(endpoint, options, "source", &endpoint->source);
  if (rc < 0 || endpoint->group.any.sa_family == AF_UNSPEC ||
      udp_address_is_multicast(&endpoint->group))
    return rc;
  return UDP_REFUSE(endpoint, -EINVAL,
                    "group: not a multicast address: those are 224.0.0.0/4 and ff00::/8; an "
                    "address of this host goes to `device`");
}

static int family_of(const union udp_address *address, int other)
{
  return other == AF_UNSPEC ? address->any.sa_family : other;
}

/* A receiver without a device is bound where its peers find the control channel: nobody else's
 * datagrams then fill its buffer. With `control` on a loopback address of the other family it is
 * bound to that of its own. */
static void find_listener(struct pst_endpoint *endpoint)
{
  const struct pst_device *device = endpoint->worker->device;
  const union udp_address *listens = &device->listens;

  if (!(endpoint->cpu.params.roles & PST_ROLE_RECEIVER) || device->name[0] ||
      listens->any.sa_family == AF_UNSPEC)
    return;
  if (listens->any.sa_family == endpoint->family)
    endpoint->local = *listens;
  else if (udp_address_is_loopback(listens))
    udp_address_set_loopback(&endpoint->local, endpoint->family);
}

/* Where it is bound, and which family all its addresses are of. */
static int find_local(struct pst_endpoint *endpoint)
{
  struct pst_device *device = endpoint->worker->device;
  const union udp_address *given[] = {&endpoint->to, &endpoint->group, &endpoint->source};
  struct udp_device_name name;
  int family = device->family;

  for (int i = 0; i < 3; i++)
    family = family_of(given[i], family);
  int rc = udp_device_find(device, device->name, family, &name);
  if (rc < 0)
    return rc;
  family = family_of(&name.address, family);
  endpoint->family = family == AF_UNSPEC ? AF_INET : family;
  endpoint->netdev = name.index;
  endpoint->local_is_fixed = name.is_set;
  endpoint->local = name.address;
  if (!name.is_set)
    endpoint->local = (union udp_address){.any.sa_family = (sa_family_t)endpoint->family};
  find_listener(endpoint);
  for (int i = 0; i < 3; i++)
    rc |= given[i]->any.sa_family != AF_UNSPEC && given[i]->any.sa_family != endpoint->family;
  if (rc == 0 && endpoint->local.any.sa_family == endpoint->family)
    return 0;
  return UDP_REFUSE(endpoint, -EINVAL,
                    "device, to, group, source and family are not all of IPv4, or all of IPv6");
}

static void read_flow(struct pst_endpoint *endpoint, const struct pst_options *options)
{
  struct pst_device *device = endpoint->worker->device;
  const struct pst_host *host = device->host;
  uint64_t type = host->option_uint(options, "payload_type");
  uint64_t ssrc = host->option_uint(options, "ssrc");

  endpoint->flow =
      (struct dg_flow_params){.framing = device->framing,
                              .address_is_fixed = endpoint->source.any.sa_family != AF_UNSPEC,
                              .ssrc_is_fixed = ssrc != 0,
                              .ssrc = (uint32_t)ssrc,
                              .payload_type = type > 127 ? -1 : (int)type,
                              .checks = host->option_uint(options, "checksum"),
                              .message_max = (uint32_t)endpoint->message_max,
                              .clock_rate = device->clock_rate,
                              .reorder = (uint32_t)host->option_uint(options, "reorder")};
  if (endpoint->flow.address_is_fixed) {
    udp_address_source(&endpoint->source, &endpoint->flow.source);
    endpoint->flow.port_is_fixed = endpoint->flow.source.port != 0;
  }
}

static int open_parts(struct pst_endpoint *endpoint, const struct pst_endpoint_params *in)
{
  int rc = read_addresses(endpoint, in->options);

  if (rc == 0)
    rc = find_local(endpoint);
  if (rc < 0)
    return rc;
  if (in->ring)
    read_flow(endpoint, in->options);
  rc = in->ring ? udp_rx_open(endpoint, in->ring) : udp_tx_open(endpoint, in->options);
  if (rc == 0)
    rc = udp_socket_open(endpoint, in->options);
  if (rc == 0 && in->ring)
    rc = udp_rx_spill(endpoint);
  return rc;
}

static int join_worker(struct pst_worker *worker, struct pst_endpoint *endpoint)
{
  struct epoll_event event = {.data.ptr = endpoint};

  struct pst_endpoint **grown =
      realloc(worker->endpoints, (worker->endpoint_count + 1) * sizeof(struct pst_endpoint *));

  if (!grown)
    return -ENOMEM;
  worker->endpoints = grown;
  if (epoll_ctl(worker->epoll_fd, EPOLL_CTL_ADD, endpoint->fd, &event) != 0)
    return -errno;
  worker->endpoints[worker->endpoint_count++] = endpoint;
  return 0;
}

int udp_endpoint_open(struct pst_worker *worker, const struct pst_endpoint_params *params,
                      struct pst_endpoint **endpoint)
{
  struct pst_device *device = worker->device;
  struct pst_endpoint *made = calloc(1, sizeof(*made));
  struct pst_endpoint_params in;

  if (!made)
    return -ENOMEM;
  pst_struct_read(&in, sizeof(in), params);
  made->worker = worker;
  made->fd = -1;
  made->message_max = in.message_max;
  snprintf(made->label, sizeof(made->label), "%s", in.label ? in.label : "endpoint");
  int rc = open_common(made, &in);
  if (rc == 0 && !made->message_max)
    made->message_max = in.ring ? in.ring->cpu.params.payload_max
                                : UDP_DATAGRAM_MAX - dg_header_bytes(device->framing, true);
  if (rc == 0)
    rc = open_parts(made, &in);
  if (rc == 0 && (rc = join_worker(worker, made)) != 0)
    UDP_TELL(made, PST_LOG_ERROR, "the socket cannot be watched: %s", strerror(-rc));
  if (rc < 0) {
    udp_endpoint_free(made);
    return rc;
  }
  *endpoint = made;
  return 0;
}

void udp_endpoint_free(struct pst_endpoint *endpoint)
{
  udp_rx_close(endpoint);
  free(endpoint->tx);
  if (endpoint->fd >= 0)
    close(endpoint->fd);
  pst_cpu_endpoint_end(&endpoint->cpu);
  free(endpoint);
}

int udp_endpoint_path(struct pst_endpoint *endpoint, struct pst_path_info *path)
{
  (void)endpoint;
  udp_path_fill(path);
  return 0;
}
