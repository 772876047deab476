/* SPDX-License-Identifier: Apache-2.0 */
/* Messages for people who debug on the simulator, which the program never sees. */
#include "fabric.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

int fab_log_level = 1;

const char *const fab_counter_names[FAB_COUNTERS] = {
    [FAB_TX_MESSAGES] = "tx_messages",
    [FAB_RX_MESSAGES] = "rx_messages",
    [FAB_TX_BYTES] = "tx_bytes",
    [FAB_RX_BYTES] = "rx_bytes",
    [FAB_LOST_PORT_DOWN] = "lost_port_down",
    [FAB_LOST_NO_PATH] = "lost_no_path",
    [FAB_LOST_HOP_LIMIT] = "lost_hop_limit",
    [FAB_LOST_GID_TYPE] = "lost_gid_type",
    [FAB_LOST_VLAN] = "lost_vlan",
    [FAB_LOST_MTU] = "lost_mtu",
    [FAB_LOST_NO_QP] = "lost_no_qp",
    [FAB_LOST_QP_STATE] = "lost_qp_state",
    [FAB_LOST_PEER] = "lost_peer_mismatch",
    [FAB_LOST_PSN] = "lost_psn",
    [FAB_LOST_PKEY] = "lost_pkey",
    [FAB_LOST_ECE] = "lost_ece",
    [FAB_LOST_KEY] = "lost_key",
    [FAB_LOST_FAULT] = "lost_fault",
    [FAB_LOST_DEAD] = "lost_dead_process",
    [FAB_LOST_NO_RECEIVE] = "lost_no_receive",
    [FAB_RNR_NAKS] = "rnr_naks",
    [FAB_RETRIES] = "retries",
    [FAB_ACCESS_ERRORS] = "access_errors",
    [FAB_CQ_OVERRUNS] = "cq_overruns",
    [FAB_STRICT_REPORTS] = "strict_reports",
};

void fab_log(int level, const char *format, ...)
{
  if (level > fab_log_level)
    return;
  char line[512];
  int n = snprintf(line, sizeof(line), "simverbs[%d]: ", getpid());
  va_list args;
  va_start(args, format);
  n += vsnprintf(line + n, sizeof(line) - n - 1, format, args);
  va_end(args);
  if (n > (int)sizeof(line) - 2)
    n = sizeof(line) - 2;
  line[n++] = '\n';
  if (write(STDERR_FILENO, line, n) < 0)
    return;
}
