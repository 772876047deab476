/* SPDX-License-Identifier: Apache-2.0 */
/* An endpoint's parameters and options. */
#include "endpoint.h"

#include <stdio.h>

/* An option that is an address: 0; -EINVAL; -ENODEV: its zone is no interface here. Logged. */
static int dg_endpoint_read_address(struct dg_endpoint *endpoint, const struct pst_options *options,
                                    const char *name, union dg_address *address)
{
  const char *text = endpoint->device->host->option_string(options, name);
  char zone[DG_ZONE_MAX];

  if (!text[0] || dg_address_parse(text, address))
    return 0;
  if (dg_address_read(text, address, zone))
    return DG_REFUSE(endpoint, -ENODEV, "%s: %s: this host has no interface %s; see `ip link`",
                     name, text, zone);
  return DG_REFUSE(endpoint, -EINVAL,
                   "%s: %s is not an address; write numbers (192.0.2.7, 192.0.2.7:5004, "
                   "2001:db8::7, [2001:db8::7]:5004), names are not looked up",
                   name, text);
}

static int dg_endpoint_read_addresses(struct dg_endpoint *endpoint,
                                      const struct pst_options *options)
{
  int rc;

  endpoint->to.any.sa_family = endpoint->group.any.sa_family = AF_UNSPEC;
  endpoint->source.any.sa_family = AF_UNSPEC;
  if (endpoint->cpu.params.roles & PST_ROLE_SENDER)
    return dg_endpoint_read_address(endpoint, options, "to", &endpoint->to);
  rc = dg_endpoint_read_address(endpoint, options, "group", &endpoint->group);
  if (rc == 0)
    rc = dg_endpoint_read_address(endpoint, options, "source", &endpoint->source);
  if (rc < 0 || endpoint->group.any.sa_family == AF_UNSPEC ||
      dg_address_is_multicast(&endpoint->group))
    return rc;
  return DG_REFUSE(endpoint, -EINVAL,
                   "group: not a multicast address: those are 224.0.0.0/4 and ff00::/8; an "
                   "address of this host goes to `device`");
}

static void dg_endpoint_read_flow(struct dg_endpoint *endpoint, const struct pst_options *options)
{
  const struct dg_device *device = endpoint->device;
  const struct pst_host *host = device->host;
  uint64_t type = host->option_uint(options, "payload_type");
  uint64_t ssrc = host->option_uint(options, "ssrc");

  endpoint->flow = (struct dg_flow_params){
      .framing = device->framing,
      .address_is_fixed = endpoint->source.any.sa_family != AF_UNSPEC,
      .ssrc_is_fixed = ssrc != 0,
      .ssrc = (uint32_t)ssrc,
      .payload_type = type > 127 ? -1 : (int)type,
      .checks = host->option_uint(options, "checksum") && !device->authenticates,
      .message_max = (uint32_t)endpoint->message_max,
      .clock_rate = device->clock_rate,
      .reorder = (uint32_t)host->option_uint(options, "reorder")};
  if (endpoint->flow.address_is_fixed) {
    dg_address_source(&endpoint->source, &endpoint->flow.source);
    endpoint->flow.port_is_fixed = endpoint->flow.source.port != 0;
  }
}

int dg_endpoint_open(struct dg_endpoint *endpoint, const struct dg_device *device,
                     const struct pst_places *rings, const struct pst_limits *limits,
                     const struct pst_endpoint_params *params)
{
  const struct pst_cpu_ring *ring = (const struct pst_cpu_ring *)params->ring;
  const char *wrong = NULL;

  endpoint->device = device;
  snprintf(endpoint->label, sizeof(endpoint->label), "%s",
           params->label ? params->label : "endpoint");
  if (params->roles != PST_ROLE_SENDER && params->roles != PST_ROLE_RECEIVER)
    wrong = "it has to be a sender or a receiver";
  else if (ring && pst_places_find(rings, ring->number) != ring)
    wrong = "its ring is another worker's";
  int rc = pst_cpu_endpoint_open(&endpoint->cpu, device->host, params, limits, wrong);
  if (rc < 0)
    return rc;
  endpoint->message_max = params->message_max ? params->message_max
                          : ring              ? ring->params.payload_max
                                              : limits->message_max;
  rc = dg_endpoint_read_addresses(endpoint, params->options);
  if (rc == 0 && ring)
    dg_endpoint_read_flow(endpoint, params->options);
  return rc;
}

static int dg_endpoint_family_of(const union dg_address *address, int other)
{
  return other == AF_UNSPEC ? address->any.sa_family : other;
}

int dg_endpoint_family(const struct dg_endpoint *endpoint)
{
  int family = dg_endpoint_family_of(&endpoint->to, endpoint->device->family);

  return dg_endpoint_family_of(&endpoint->source, dg_endpoint_family_of(&endpoint->group, family));
}

void dg_endpoint_place(struct dg_endpoint *endpoint, const union dg_address *own, uint32_t netdev)
{
  int family = dg_endpoint_family(endpoint);

  if (own)
    family = dg_endpoint_family_of(own, family);
  endpoint->family = family == AF_UNSPEC ? AF_INET : family;
  endpoint->netdev = netdev;
  endpoint->local_is_fixed = own != NULL;
  endpoint->local = own ? *own : (union dg_address){.any.sa_family = (sa_family_t)endpoint->family};
}

int dg_endpoint_check(const struct dg_endpoint *endpoint)
{
  const union dg_address *given[] = {&endpoint->to, &endpoint->group, &endpoint->source};
  bool is_mixed = endpoint->local.any.sa_family != endpoint->family;

  for (int i = 0; i < 3; i++)
    is_mixed |= given[i]->any.sa_family != AF_UNSPEC && given[i]->any.sa_family != endpoint->family;
  return is_mixed
             ? DG_REFUSE(endpoint, -EINVAL,
                         "device, to, group, source and family must be all of IPv4, or all of IPv6")
             : 0;
}
