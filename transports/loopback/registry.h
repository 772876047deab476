/* SPDX-License-Identifier: Apache-2.0 */
/* Links and registrations that others in this process may find by number. */
#ifndef LOOPBACK_REGISTRY_H
#define LOOPBACK_REGISTRY_H

#include <stdbool.h>
#include <stdint.h>

struct lb_link;
struct lb_mr;
struct pst_device;

int lb_process_open(int *fd);
uint64_t lb_id_new(void);
void lb_process_nonce(uint64_t nonce[2]);
void lb_registry_add_link(struct lb_link *link);
void lb_registry_remove_link(struct lb_link *link);
struct lb_link *lb_registry_find_link(uint64_t id); /* a new reference, or NULL */
void lb_registry_add_mr(struct lb_mr *mr);
void lb_registry_remove_mr(struct lb_mr *mr);
struct lb_mr *lb_registry_find_mr(uint64_t id); /* a new reference, or NULL */
/* Has a range of the device's that others have been offered been taken away? */
bool lb_registry_lost(const struct pst_device *device);

#endif
