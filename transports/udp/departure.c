/* SPDX-License-Identifier: Apache-2.0 */
/* fq takes CLOCK_MONOTONIC and sends what comes late; etf takes CLOCK_TAI, as its NICs do, and
 * drops what comes late. */
#include <time.h> /* before errqueue.h, which lacks it */

#include <linux/net_tstamp.h>

#include "departure.h"
#include "endpoint.h"
#include "qdisc.h"
#include "send.h"
#include "socket.h"

/* From post() to etf's queue: at least, and at most where messages have been too late for it. */
#define MARGIN_NS 100000u
#define MARGIN_MAX_NS 50000000u
/* The kernel keeps some 90 errors for a socket, and no send() fails for those of times. */
#define LOOK_NS 1000000u

static const char *udp_departure_kind_of(const struct pst_endpoint *endpoint)
{
  return endpoint->worker->device->departure == UDP_DEPARTURE_ETF ? "etf" : "fq";
}

int udp_departures_open(struct pst_endpoint *endpoint)
{
  const enum udp_departure kept_by = endpoint->worker->device->departure;
  struct sock_txtime how = {.clockid = kept_by == UDP_DEPARTURE_ETF ? CLOCK_TAI : CLOCK_MONOTONIC,
                            .flags = SOF_TXTIME_REPORT_ERRORS};

  if (kept_by == UDP_DEPARTURE_OFF ||
      setsockopt(endpoint->fd, SOL_SOCKET, SO_TXTIME, &how, sizeof(how)) == 0)
    return 0;
  int rc = -errno;
  return UDP_REFUSE(endpoint, rc, "departure: %s: the kernel accepts no times of departure: %s; %s",
                    udp_departure_kind_of(endpoint), strerror(-rc),
                    rc == -EPERM ? "etf's clock needs CAP_NET_ADMIN (setcap cap_net_admin=ep "
                                   "PROGRAM), `departure: fq` needs none"
                                 : "it needs Linux 4.19; else set departure: off");
}

/* Times would not be kept, or be misread. */
static void udp_departure_not_kept(const struct pst_endpoint *endpoint,
                                   const struct udp_qdisc *qdisc)
{
  const bool is_etf = endpoint->worker->device->departure == UDP_DEPARTURE_ETF;

  if (is_etf && qdisc->is_there)
    UDP_TELL(endpoint, PST_LOG_WARN,
             "departure: etf on %s runs by clock %d, not by CLOCK_TAI, so that times of departure "
             "are not kept; `tc qdisc replace` it with `clockid CLOCK_TAI`",
             qdisc->netdev, qdisc->clock);
  else
    UDP_TELL(endpoint, PST_LOG_WARN,
             "departure: times of departure are not kept: the queueing discipline of %s is %s, and "
             "not %s; `tc qdisc replace dev %s %s` as root makes it so. Messages leave as soon as "
             "they are handed over, at the stream's rate on average",
             qdisc->netdev, qdisc->root, udp_departure_kind_of(endpoint), qdisc->netdev,
             is_etf ? "parent QUEUE etf clockid CLOCK_TAI delta 300000" : "root fq");
}

void udp_departures_connect(struct pst_endpoint *endpoint)
{
  struct udp_departures *departures = &endpoint->tx->departures;
  const bool is_etf = endpoint->worker->device->departure == UDP_DEPARTURE_ETF;
  const bool by_group = dg_address_is_multicast(&endpoint->dg.peer);
  struct udp_qdisc qdisc;

  departures->are_kept = false;
  if (endpoint->worker->device->departure == UDP_DEPARTURE_OFF)
    return;
  int rc = udp_qdisc_find(by_group ? endpoint->dg.netdev : 0, &endpoint->dg.peer,
                          udp_departure_kind_of(endpoint), &qdisc);
  if (rc < 0) {
    UDP_TELL(endpoint, PST_LOG_WARN,
             "departure: times of departure are not kept: the queueing discipline on the way "
             "cannot be found: %s; see `ip route get`, `tc qdisc show`",
             strerror(-rc));
    return;
  }
  departures->delta_ns = qdisc.delta_ns;
  departures->margin_ns = MARGIN_NS;
  departures->earliest_ns = 0;
  departures->are_kept = qdisc.is_there && (!is_etf || qdisc.clock == CLOCK_TAI);
  departures->is_tai = departures->are_kept && is_etf;
  if (!departures->are_kept)
    udp_departure_not_kept(endpoint, &qdisc);
}

static uint64_t udp_departure_clock_of(clockid_t clock)
{
  struct timespec now;

  clock_gettime(clock, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A machine that takes longer would have each message refused, and all that come again. */
static void udp_departure_learn_margin(struct udp_departures *departures)
{
  const uint32_t less = departures->margin_ns - departures->margin_ns / 16;
  const uint32_t more = 2 * departures->margin_ns;

  if (departures->refused > departures->refused_before)
    departures->margin_ns = more < MARGIN_MAX_NS ? more : MARGIN_MAX_NS;
  else
    departures->margin_ns = less > MARGIN_NS ? less : MARGIN_NS;
  departures->refused_before = departures->refused;
}

void udp_departures_begin(struct pst_endpoint *endpoint)
{
  struct udp_departures *departures = &endpoint->tx->departures;
  const uint64_t now_ns = udp_departure_clock_of(CLOCK_MONOTONIC);
  departures->offset_ns = udp_departure_clock_of(CLOCK_TAI) - now_ns;
  const uint64_t earliest_ns = now_ns + departures->delta_ns + departures->margin_ns;
  if (earliest_ns > departures->earliest_ns) /* or this post() would overtake the one before */
    departures->earliest_ns = earliest_ns;
  if (now_ns < departures->look_ns)
    return;
  departures->look_ns = now_ns + LOOK_NS;
  udp_socket_errors(endpoint);
  udp_departure_learn_margin(departures);
}

bool udp_departures_told(struct pst_endpoint *endpoint, const struct sock_extended_err *error)
{
  struct udp_departures *departures = &endpoint->tx->departures;
  const bool is_missed = error->ee_code == SO_EE_CODE_TXTIME_MISSED;
  bool *told = is_missed ? &departures->told_missed : &departures->told_refused;

  if (error->ee_origin != SO_EE_ORIGIN_TXTIME)
    return false;
  (*(is_missed ? &departures->missed : &departures->refused))++;
  if (!*told && is_missed)
    UDP_TELL(endpoint, PST_LOG_WARN,
             "etf drops messages whose time of departure has passed when their turn comes; give "
             "it a larger `delta`, this thread a core of its own (`threads.cpus`), or a lower "
             "`rate`");
  else if (!*told)
    UDP_TELL(
        endpoint, PST_LOG_WARN,
        "etf refuses messages whose time of departure has passed when they reach it; they are "
        "sent again, later. If it refuses all, its `clockid` is not CLOCK_TAI any more: see `tc "
        "qdisc show`");
  *told = true;
  return true;
}
