/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of this plugin that do not depend on the machine. */
#ifndef UDP_DESCRIBED_H
#define UDP_DESCRIBED_H

#include <penstock/transport-cpu.h>

#define UDP_DATAGRAM_MAX 65507u /* bytes of payload in one IPv4 packet */
#define UDP_DEVICE_ANY "any"    /* what the option `device` calls all addresses */
#define UDP_CAPABILITIES                                                                           \
  (PST_CAP_SEND | PST_CAP_SEQUENCE | PST_CAP_TIME | PST_CAP_WAKEUP | PST_CAP_DYNAMIC |             \
   PST_CAP_FOREIGN)

enum udp_departure { UDP_DEPARTURE_OFF = 0, UDP_DEPARTURE_FQ = 1, UDP_DEPARTURE_ETF = 2 };
enum udp_timestamps { UDP_TIME_OFF = 0, UDP_TIME_SOFTWARE = 1, UDP_TIME_HARDWARE = 2 };

#endif
