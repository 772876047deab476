/* SPDX-License-Identifier: Apache-2.0 */
/* After the InfiniBand Architecture Specification 1.4, 11.6.2 (completion return status) and
 * 11.6.3 (asynchronous events), and mlx5_ifc.h's CQE syndromes. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "status.h"

static const struct vb_status statuses[] = {
    {NAMED(IBV_WC_SUCCESS), "it was done", "", "", 0},
    {NAMED(IBV_WC_LOC_LEN_ERR),
     "a message was longer than the buffer it arrived in, or than the port's largest",
     "the ends disagree about `message`", "compare `message` and `stride` of both ends", -EMSGSIZE},
    {NAMED(IBV_WC_LOC_QP_OP_ERR), "the queue pair refused its own work request",
     "a request that this device does not do (its max_sge, inline size or atomics)",
     "`ibv_devinfo -v` for the device's limits", -EIO},
    {NAMED(IBV_WC_LOC_EEC_OP_ERR), "an EE context failed",
     "none: reliable datagrams are not used here", "the device's firmware", -EIO},
    {NAMED(IBV_WC_LOC_PROT_ERR), "local memory is not registered for what the request does with it",
     "memory that was given back while a request named it", "that regions outlive their requests",
     -EFAULT},
    {NAMED(IBV_WC_WR_FLUSH_ERR),
     "the queue pair had failed, or was closed, before this request's turn",
     "an earlier request failed: its status is the one that says why", "the first error logged",
     -ECONNRESET},
    {NAMED(IBV_WC_MW_BIND_ERR), "a memory window was not bound",
     "none: memory windows are not used here", "the device's firmware", -EIO},
    {NAMED(IBV_WC_BAD_RESP_ERR), "the peer answered with what was not asked for",
     "packets of an earlier connection; a device or simulation that is at fault",
     "whether it comes again after a restart of both ends", -EPROTO},
    {NAMED(IBV_WC_LOC_ACCESS_ERR), "the peer wrote where this end has registered nothing for it",
     "the peer uses an address or key that is no longer valid",
     "that the ring or range outlives the connection", -EACCES},
    {NAMED(IBV_WC_REM_INV_REQ_ERR), "the peer's device found the request invalid",
     "a message longer than the peer's receive buffer; an atomic not aligned to 8 bytes, or on a "
     "queue pair or memory without that right; more READs at a time than it takes",
     "compare `message` of both ends; the peer's atomic_cap and max_qp_rd_atom (`ibv_devinfo -v`)",
     -EREMOTEIO},
    {NAMED(IBV_WC_REM_ACCESS_ERR), "the peer's memory was not open to the request",
     "a key that is wrong or no longer valid, an address out of the range, a right that was not "
     "given",
     "that the peer's range is still offered; offset and length; its rights", -EACCES},
    /* A kernel that clears up behind a killed process may take memory before queue pairs. */
    {NAMED(IBV_WC_REM_OP_ERR), "the peer's device could not carry the request out",
     "the peer's process was killed; or its queue pair or memory failed",
     "whether the peer runs; the peer's log and its kernel's (`dmesg`)", -ECONNRESET},
    {NAMED(IBV_WC_RETRY_EXC_ERR), "the peer did not answer, however often it was asked",
     "packets do not reach it or their answers do not come back: hop limit, GID (index, RoCE "
     "version, VLAN), MTU, routes, firewall (UDP port 4791), ARP; or the peer's process or host is "
     "gone",
     "`hop_limit` and the hop limit of the routes (`ip route get`, both ends); both ends' GIDs "
     "(`-v` tells them); the MTU of every link (`ping -M do -s`); whether the peer runs; the port's "
     "counters",
     -ECONNRESET},
    {NAMED(IBV_WC_RNR_RETRY_EXC_ERR), "the peer had no receive posted, however often it was asked",
     "the peer is too slow to post receives again, or hangs",
     "`rnr_retry` and the peer's `min_rnr_timer`; whether the peer is stopped", -ECONNRESET},
    {NAMED(IBV_WC_LOC_RDD_VIOL_ERR), "a reliable datagram domain was violated",
     "none: reliable datagrams are not used here", "the device's firmware", -EIO},
    {NAMED(IBV_WC_REM_INV_RD_REQ_ERR), "an invalid reliable datagram request",
     "none: reliable datagrams are not used here", "the device's firmware", -EIO},
    {NAMED(IBV_WC_REM_ABORT_ERR), "the peer gave the request up", "the peer's queue pair was reset",
     "the peer's log", -ECONNRESET},
    {NAMED(IBV_WC_INV_EECN_ERR), "an invalid EE context number",
     "none: reliable datagrams are not used here", "the device's firmware", -EIO},
    {NAMED(IBV_WC_INV_EEC_STATE_ERR), "an EE context in the wrong state",
     "none: reliable datagrams are not used here", "the device's firmware", -EIO},
    {NAMED(IBV_WC_FATAL_ERR), "the device failed", "the device was reset or removed",
     "the kernel's log (`dmesg`), the device's firmware", -EIO},
    {NAMED(IBV_WC_RESP_TIMEOUT_ERR), "no response in time", "the peer's device is stuck",
     "the peer's kernel log", -ETIMEDOUT},
    {NAMED(IBV_WC_GENERAL_ERR), "the device gave no better reason", "a fault of device or firmware",
     "the kernel's log (`dmesg`), the device's firmware", -EIO},
    {-1, "unknown status", "a status that is newer than this program", "", "the specification",
     -EIO},
};

static const struct vb_status events[] = {
    {NAMED(IBV_EVENT_CQ_ERR), "a completion queue overran", "more completions than it was made for",
     "a fault of this transport: report it", -EIO},
    {NAMED(IBV_EVENT_QP_FATAL), "a queue pair failed", "the device could not go on with it",
     "the kernel's log (`dmesg`)", -EIO},
    {NAMED(IBV_EVENT_QP_REQ_ERR), "the peer sent an invalid request",
     "a peer of another version, or hostile", "what runs at the peer", -EPROTO},
    {NAMED(IBV_EVENT_QP_ACCESS_ERR), "the peer asked for memory that is not open to it",
     "a key, address or right that is wrong or no longer valid", "the peer's log", -EACCES},
    {NAMED(IBV_EVENT_COMM_EST), "the first packet came", "", "", 0},
    {NAMED(IBV_EVENT_SQ_DRAINED), "the send queue is drained", "", "", 0},
    {NAMED(IBV_EVENT_PATH_MIG), "the connection has moved to its alternate path", "", "", 0},
    {NAMED(IBV_EVENT_PATH_MIG_ERR), "the connection could not be moved to its alternate path",
     "no alternate path", "the subnet manager", 0},
    {NAMED(IBV_EVENT_DEVICE_FATAL), "the device failed", "it was reset or removed",
     "the kernel's log (`dmesg`), the device's firmware", -EIO},
    {NAMED(IBV_EVENT_PORT_ACTIVE), "the port is up", "", "", 0},
    {NAMED(IBV_EVENT_PORT_ERR), "the port is down",
     "the link was lost: cable, switch, the netdev set down", "`rdma link`, `ip link`", 0},
    {NAMED(IBV_EVENT_LID_CHANGE), "the port's LID changed", "the subnet manager started anew",
     "the subnet manager", 0},
    {NAMED(IBV_EVENT_PKEY_CHANGE), "the port's P_Keys changed",
     "the subnet manager changed partitions", "`pkey_index`", 0},
    {NAMED(IBV_EVENT_SM_CHANGE), "the port has another subnet manager", "", "", 0},
    {NAMED(IBV_EVENT_SRQ_ERR), "a shared receive queue failed", "", "the kernel's log (`dmesg`)",
     -EIO},
    {NAMED(IBV_EVENT_SRQ_LIMIT_REACHED), "a shared receive queue runs short", "", "", 0},
    {NAMED(IBV_EVENT_QP_LAST_WQE_REACHED),
     "a failed queue pair takes no more of its shared receive queue", "", "", 0},
    {NAMED(IBV_EVENT_CLIENT_REREGISTER),
     "the subnet manager asks its clients to register again; Penstock is not one of them", "", "",
     0},
    {NAMED(IBV_EVENT_GID_CHANGE), "the port's GIDs changed",
     "an address was added or taken from its netdev", "`ip addr`; connect again", 0},
    {NAMED(IBV_EVENT_WQ_FATAL), "a work queue failed", "", "the kernel's log (`dmesg`)", -EIO},
    {-1, "unknown event", "an event that is newer than this program", "",
     "the same number in a newer rdma-core's <infiniband/verbs.h>, `dmesg`", 0},
};

const struct vb_status *vb_status_find(const struct vb_status *table, int code)
{
  while (table->code != code && table->code >= 0)
    table++;
  return table;
}

const struct vb_status *vb_wc_status(int status)
{
  return vb_status_find(statuses, status);
}

const struct vb_status *vb_event(int event)
{
  return vb_status_find(events, event);
}

void vb_text_add(char *text, size_t size, const char *format, ...)
{
  const size_t used = strnlen(text, size);
  va_list args;

  va_start(args, format);
  vsnprintf(text + used, size - used, format, args);
  va_end(args);
}

void vb_status_text_add(const struct vb_status *one, char *text, size_t size)
{
  vb_text_add(text, size, "%s. Usual reasons: %s. Check: %s", one->cause,
              one->reasons[0] ? one->reasons : "none known", one->checks);
}

/* mlx5's syndrome in words, or "" for what is not known. */
static const char *vb_vendor_error(uint32_t vendor_err)
{
  static const struct {
    uint32_t code;
    const char *text;
  } known[] = {
      {0x32, "local length"},
      {0x52, "local protection: no such local key"},
      {0x51, "local protection"},
      {0x68, "local work request invalid"},
      {0x75, "receive flushed"},
      {0x81, "no answer: transport retries exceeded"},
      {0x85, "no receive at the peer: RNR retries exceeded"},
      {0x87, "no receive at the peer"},
      {0x88, "remote access refused"},
      {0x89, "remote operation failed"},
      {0x8a, "remote invalid request"},
      {0x97, "answer timed out"},
      {0xf5, "send flushed"},
      {0xf9, "flushed"},
  };
  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
    if (known[i].code == vendor_err)
      return known[i].text;
  return "";
}

/* Ethernet's reasons are none of InfiniBand's: it has no ARP, no VLANs and no hop limit within its
 * subnet (IBTA 1.7, volume 1: 10.9.2 of P_Keys, 8.3 of LIDs, 13.5 of the subnet manager). */
static const struct vb_status silence_on_infiniband = {
    NAMED(IBV_WC_RETRY_EXC_ERR), "the peer did not answer, however often it was asked",
    "packets do not reach it or their answers do not come back: P_Keys (two limited members do not "
    "hear each other), service level, a LID or path that the subnet manager has changed, subnet "
    "prefixes with no router between, MTU; or the peer's process or host is gone",
    "`pkey_index` and both ports' pkeys in /sys/class/infiniband (0x7fff and the like, below "
    "0x8000, are limited: one end has to be full); `service_level`; `sminfo`, and `ibtracert` "
    "between both LIDs; both ends' GIDs (`-v` tells them); whether the peer runs; the port's "
    "counters (`perfquery`)",
    -ECONNRESET};

void vb_wc_text(int status, uint32_t vendor_err, bool is_ethernet, char *text, size_t size)
{
  const struct vb_status *one =
      is_ethernet || status != IBV_WC_RETRY_EXC_ERR ? vb_wc_status(status) : &silence_on_infiniband;
  const char *vendor = vb_vendor_error(vendor_err);

  snprintf(text, size, "%s (%d; vendor code 0x%x%s%s): ", one->name, status, vendor_err,
           vendor[0] ? ", " : "", vendor);
  vb_status_text_add(one, text, size);
}
