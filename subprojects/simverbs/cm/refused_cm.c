/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that the real librdmacm exports and this one refuses: multicast, ECE, and sockets over
 * RDMA. */
#include "front/refused.h"

#include <stddef.h>

/* clang-format off: tables */

SIM_REFUSED_MINUS_ONE(rdma_join_multicast)
SIM_REFUSED_MINUS_ONE(rdma_join_multicast_ex)
SIM_REFUSED_MINUS_ONE(rdma_leave_multicast)
SIM_REFUSED_MINUS_ONE(rdma_set_local_ece)
SIM_REFUSED_MINUS_ONE(rdma_get_remote_ece)
SIM_REFUSED_MINUS_ONE(raccept)
SIM_REFUSED_MINUS_ONE(rbind)
SIM_REFUSED_MINUS_ONE(rclose)
SIM_REFUSED_MINUS_ONE(rconnect)
SIM_REFUSED_MINUS_ONE(rfcntl)
SIM_REFUSED_MINUS_ONE(rgetpeername)
SIM_REFUSED_MINUS_ONE(rgetsockname)
SIM_REFUSED_MINUS_ONE(rgetsockopt)
SIM_REFUSED_MINUS_ONE(riomap)
SIM_REFUSED_MINUS_ONE(riounmap)
SIM_REFUSED_MINUS_ONE(riowrite)
SIM_REFUSED_MINUS_ONE(rlisten)
SIM_REFUSED_MINUS_ONE(rpoll)
SIM_REFUSED_MINUS_ONE(rread)
SIM_REFUSED_MINUS_ONE(rreadv)
SIM_REFUSED_MINUS_ONE(rrecv)
SIM_REFUSED_MINUS_ONE(rrecvfrom)
SIM_REFUSED_MINUS_ONE(rrecvmsg)
SIM_REFUSED_MINUS_ONE(rselect)
SIM_REFUSED_MINUS_ONE(rsend)
SIM_REFUSED_MINUS_ONE(rsendmsg)
SIM_REFUSED_MINUS_ONE(rsendto)
SIM_REFUSED_MINUS_ONE(rsetsockopt)
SIM_REFUSED_MINUS_ONE(rshutdown)
SIM_REFUSED_MINUS_ONE(rsocket)
SIM_REFUSED_MINUS_ONE(rwrite)
SIM_REFUSED_MINUS_ONE(rwritev)
