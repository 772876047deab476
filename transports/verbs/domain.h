/* SPDX-License-Identifier: Apache-2.0 */
/* Protection domains, and memory of the transport that is registered in them. */
#ifndef VERBS_DOMAIN_H
#define VERBS_DOMAIN_H

#include "transport.h"

/* domain.c: the device's own; then the one of that number, or the device's own for 0. 0, or
 * -errno after logging. Any thread. */
bool vb_domain_is_one(const struct pst_device *device); /* all numbers have the device's own */
int vb_domain_open(struct vb_domain *domain, struct pst_device *device, uint64_t number);
void vb_domain_close(struct vb_domain *domain);
int vb_domain_take(struct pst_device *device, uint64_t number, struct vb_domain **domain);
void vb_domain_give(struct vb_domain *domain);
/* Memory of the transport's own for the local side of requests, zeroed, unless *pages has it; and
 * registered. 0 or -errno, which is logged: `label` has it, or NULL, for `what`. */
int vb_domain_pages_open(struct vb_domain *domain, const char *label, const char *what,
                         size_t bytes, uint8_t **pages, struct ibv_mr **mr);
int vb_domain_pin(struct vb_domain *domain, const char *label, const char *what, void *at,
                  size_t bytes, struct ibv_mr **mr);

#endif
