/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory that another process has: this program again, since a fork has no CUDA. */
#ifndef TEST_SHARE_SUPPORT_H
#define TEST_SHARE_SUPPORT_H

#include "fixture.h"

#include <stdbool.h>
#include <sys/types.h>

#define LENGTH (UINT64_C(3) << 20)
#define OFFSET UINT64_C(70000) /* of what is exported, in the region */
#define PART UINT64_C(500000)

extern struct pst_host share_host;

struct pst_memory *open_cuda(const char *device, bool vmm);
bool alloc(struct pst_memory *memory, uint32_t purpose, struct pst_region *region);
/* Fill or verify; -EBADMSG: other bytes. Never waits for ever. */
int work(struct pst_memory *memory, bool verify, uint64_t address, uint64_t length, uint64_t seed);

/* Offers a part of a region, filled by seed 5 on the device; does as it is asked until the
 * other side leaves. */
int be_the_other(int socket, const char *device, uint32_t kind);

struct other {
  pid_t pid;
  int socket;
};
/* script: FAKE_CUDA's of that process; NULL: as here. */
struct other spawn(const char *device, uint32_t kind, const char *script);
struct pst_export take_offer(const struct other *other);
/* 'f'ill or 'v'erify by seed 6, or free ('x'): what came of it. */
int ask(const struct other *other, char what);
void leave(struct other *other, struct pst_export *out);
void end_by_force(struct other *other);

#endif
