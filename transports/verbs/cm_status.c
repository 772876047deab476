/* SPDX-License-Identifier: Apache-2.0 */
/* After rdma_get_cm_event(3), and the InfiniBand Architecture Specification 1.4, 12.6.7.2 (the
 * reasons of REJ). */
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>

#include "status.h"

#define WAY                                                                                        \
  "`hop_limit` and the hop limit of the routes (`ip route get`, both ends); `ping` from the one "  \
  "address to the other; firewall (UDP port 4791); whether the peer runs; the port's counters"

static const struct vb_status events[] = {
    {NAMED(RDMA_CM_EVENT_ADDR_RESOLVED), "the address was resolved", "", "", 0},
    {NAMED(RDMA_CM_EVENT_ADDR_ERROR),
     "the peer's address could not be resolved to a device and a neighbour",
     "no route to it from this port's address; it answers no ARP or neighbour discovery: another "
     "subnet or VLAN, link down, or not up yet",
     "`ip route get PEER from OWN`, `ip neigh`, `rdma link`; the addresses in this line",
     -EHOSTUNREACH},
    {NAMED(RDMA_CM_EVENT_ROUTE_RESOLVED), "the route was resolved", "", "", 0},
    {NAMED(RDMA_CM_EVENT_ROUTE_ERROR), "no path to the peer was found",
     "the port went down; on InfiniBand, the subnet manager knows no path",
     "`rdma link`; the subnet manager", -EHOSTUNREACH},
    {NAMED(RDMA_CM_EVENT_CONNECT_REQUEST), "a peer asks", "", "", 0},
    {NAMED(RDMA_CM_EVENT_CONNECT_RESPONSE), "the peer agrees", "", "", 0},
    {NAMED(RDMA_CM_EVENT_CONNECT_ERROR),
     "the connection could not be set up at this end, or the peer fell silent midway",
     "a queue pair that was not ready; the peer ended", "the peer's log; the kernel's (`dmesg`)",
     -ECONNRESET},
    {NAMED(RDMA_CM_EVENT_UNREACHABLE), "the peer does not answer requests to connect",
     "they do not reach it or its answers do not come back: hop limit, routes, firewall (UDP port "
     "4791); or the peer's process or host is gone",
     WAY, -ETIMEDOUT},
    {NAMED(RDMA_CM_EVENT_REJECTED), "the peer refuses the connection", "", "the peer's log",
     -ECONNRESET},
    {NAMED(RDMA_CM_EVENT_ESTABLISHED), "the connection is up", "", "", 0},
    {NAMED(RDMA_CM_EVENT_DISCONNECTED),
     "the peer's end of the connection is gone, without a farewell",
     "its process was killed or ended in a hurry; with `reconnect`, its queue pair failed",
     "whether the peer runs; its log", -ECONNRESET},
    {NAMED(RDMA_CM_EVENT_DEVICE_REMOVAL), "the device is gone",
     "it was removed, or its driver was unloaded or reset",
     "`rdma link`, the kernel's log (`dmesg`)", -EIO},
    {NAMED(RDMA_CM_EVENT_MULTICAST_JOIN), "a multicast group was joined",
     "none: multicast is not used here", "", 0},
    {NAMED(RDMA_CM_EVENT_MULTICAST_ERROR), "a multicast group was lost",
     "none: multicast is not used here", "", 0},
    {NAMED(RDMA_CM_EVENT_ADDR_CHANGE), "the hardware address of the connection's netdev changed",
     "a bond failed over, or the netdev was given another address", "`ip link`; connect again", 0},
    {NAMED(RDMA_CM_EVENT_TIMEWAIT_EXIT), "an ended connection's number may be used again", "", "",
     0},
    {-1, "unknown rdma_cm event", "an event that is newer than this program", "", "", -EIO},
};

/* The numbered reasons of the specification that a connection of ours can meet. */
#define STALE_CONNECTION 10
static const struct vb_status rejections[] = {
    {1, "no queue pair", "the peer has none to give", "it is out of queue pairs",
     "`rdma resource` at the peer", -ECONNRESET},
    {3, "no resources", "the peer's device is out of something", "too many connections",
     "`rdma resource` at the peer", -ECONNRESET},
    {4, "timeout", "the peer gave the connection up", "it waited too long for this end, or ended",
     "the peer's log", -ECONNRESET},
    {6, "invalid communication ID", "the peer does not know the connection", "it ended meanwhile",
     "the peer's log", -ECONNRESET},
    {8, "invalid service ID", "nobody listens at that port of the peer's",
     "the peer ended, or stopped listening, after it had sent its address",
     "`rdma resource show cm_id` at the peer; its log", -ECONNRESET},
    {STALE_CONNECTION, "stale connection",
     "the peer's kernel still holds an earlier connection of a queue pair with this number",
     "a connection that ended a moment ago", "whether it passes: a second or two", -ECONNRESET},
    {12, "invalid GID", "the peer's device has no such address",
     "the peer's address changed after the peer announced it", "`ip addr` at the peer",
     -ECONNRESET},
    {28, "by the program", "the program at the peer refuses",
     "it has no endpoint of that token, or has one that is connected already or closing",
     "the peer's log", -ECONNRESET},
    {-1, "another reason", "a reason that a connection of ours should not meet", "",
     "the reasons of REJ in the specification, 12.6.7.2", -ECONNRESET},
};

const struct vb_status *vb_cm_event(int event)
{
  return vb_status_find(events, event);
}

const struct vb_status *vb_cm_rejection(int status)
{
  return vb_status_find(rejections, status);
}

int vb_cm_is_passing(int event, int status)
{
  switch (event) {
  case RDMA_CM_EVENT_ADDR_ERROR:
  case RDMA_CM_EVENT_ROUTE_ERROR:
    return status == -ETIMEDOUT || status == -EHOSTUNREACH || status == -ENETUNREACH ||
           status == -EHOSTDOWN || status == -ENETDOWN;
  case RDMA_CM_EVENT_REJECTED:
    return status == STALE_CONNECTION;
  default:
    return 0;
  }
}

void vb_cm_text(int event, int status, char *text, size_t size)
{
  const struct vb_status *one = vb_cm_event(event);

  snprintf(text, size, "%s", one->name);
  if (event == RDMA_CM_EVENT_REJECTED) {
    one = vb_cm_rejection(status);
    vb_text_add(text, size, " (%d, %s)", status, one->name);
  } else if (status < 0)
    vb_text_add(text, size, " (%s)", strerror(-status));
  vb_text_add(text, size, ": ");
  vb_status_text_add(one, text, size);
}
