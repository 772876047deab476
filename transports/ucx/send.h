/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UCX_SEND_H
#define UCX_SEND_H

#include "ucx.h"

/* Start SENDs that have been judged by ucx_send_check(), as many of n as there is credit and room
 * for. Returns how many; *why (enum pst_wait) is what was short. */
uint32_t ucx_send_start(struct pst_endpoint *endpoint, const struct pst_request *requests,
                        uint32_t n, uint32_t *why);
/* May post() take this SEND? 0 or -errno. */
int ucx_send_check(const struct pst_endpoint *endpoint, const struct pst_request *request);
/* Go on with a message that is cut in parts. */
void ucx_send_step(struct pst_endpoint *endpoint);

#endif
