/* SPDX-License-Identifier: Apache-2.0 */
/* Protection domains, and memory of the transport that is registered in them. */
#ifndef VERBS_DOMAIN_H
#define VERBS_DOMAIN_H

#include "transport.h"

/* domain.c: whether all numbers have the device's own domain. */
bool vb_domain_is_one(const struct pst_device *device); /* all numbers have the device's own */
int vb_domain_open(struct vb_domain *domain, struct pst_device *device, uint64_t number);
void vb_domain_close(struct vb_domain *domain);
/* The domain of that number; 0: the device's own. 0, or -errno after a log. Any thread. */
int vb_domain_take(struct pst_device *device, uint64_t number, struct vb_domain **domain);
void vb_domain_give(struct vb_domain *domain);
/* Allocates and registers zeroed memory for the local side of requests, unless *pages is there. 0,
 * or -errno after a log in which `label` (or NULL) needs it for `what`. */
int vb_domain_pages_open(struct vb_domain *domain, const char *label, const char *what,
                         size_t bytes, uint8_t **pages, struct ibv_mr **mr);
/* Registers `bytes` at `at` for the local side of requests. 0, or -errno after a log. */
int vb_domain_pin(struct vb_domain *domain, const char *label, const char *what, void *at,
                  size_t bytes, struct ibv_mr **mr);

#endif
