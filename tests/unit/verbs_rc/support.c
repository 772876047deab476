/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of verbs_rc. */
#include "support.h"

struct rc_connection connection;

void start_connection(uint32_t lanes)
{
  start_support(lanes);
  device.capabilities = RC_CAPABILITIES;
  transport.failed = rc_fail;
  transport.arrived = rc_lanes_arrived;
  transport.deliver = rc_lanes_deliver;
  connection = (struct rc_connection){.stage.name = RC_CONNECTED};
  for (uint32_t i = 0; i < lanes; i++)
    /* As if they were in ERR already: no queue pair is there to be modified. */
    connection.lanes[i] = (struct rc_lane){
        .qp = &qps[i], .rq.qp = &qps[i], .is_erred = true, .failed_from = VB_NEVER};
  endpoint.rc = &connection;
  endpoint.rq = &connection.lanes[0].rq;
}
