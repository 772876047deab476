/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that a transport reaches: allocated, checked and registered, with the reason in words
 * where one of these fails. The caller puts a name before that reason and a remedy behind it.
 */
#ifndef PST_ENGINE_REGION_H
#define PST_ENGINE_REGION_H

#include <stdbool.h>

#include "device.h"

#define REGION_WHY_MAX 320

struct region {
  struct engine_memory *memory;
  struct pst_region mem;        /* what the memory plugin says of it */
  bool is_open;                 /* mem is allocated, or adopted */
  uint64_t length;              /* as asked for */
  struct engine_device *device; /* of mr; NULL: not registered */
  struct pst_mr *mr;
  struct pst_path_info path; /* of the newest registration */
};

struct region_params {
  struct engine_memory *memory;
  struct engine_device *device; /* the transport that reaches it */
  uint64_t length;
  uint64_t alignment; /* 0: a page */
  enum pst_alloc_purpose purpose;
  uint32_t needs;            /* enum pst_memory_need */
  const char *label, *lower; /* as in struct pst_alloc_params */
  const char *use;           /* behind the size: " for the ring" */
  const char *does;    /* what the transport does with what it needs: "sends from memory with" */
  bool is_staged_else; /* out of the NIC's reach, it is given up with -EOPNOTSUPP */
  uint32_t access;     /* enum pst_access; 0: not registered */
  uint64_t offset;     /* register [offset, offset + length) of it */
  uint64_t domain;
  uint64_t send_max; /* as in struct pst_mr_params */
};

/* Why something failed. */
struct region_why {
  bool is_alloc; /* the memory plugin may have logged it in better words */
  char text[REGION_WHY_MAX];
};

/* 0, or -errno with `why`. -EOPNOTSUPP: memory is there, but not in the NIC's reach. */
int region_alloc(struct region *region, const struct region_params *params, struct region_why *why);
/* Does it have all of `needs`? */
bool region_meets(const struct region *region, const struct region_params *params,
                  struct region_why *why);
/* False: it has all of `needs`. *lacks names what it has not. */
bool region_lacks(const struct pst_region *mem, uint32_t needs, const char **lacks);
/* Register with params->device for params->access. *mr and *path may be the region's own.
 * 0, or -errno with `why`. */
int region_register(const struct region *region, const struct region_params *params,
                    struct pst_mr **mr, struct pst_path_info *path, struct region_why *why);
/* All three, whatever it has by then is the caller's to close. -EOPNOTSUPP: other memory may
 * do. */
int region_open(struct region *region, const struct region_params *params, struct region_why *why);
/* Free and deregister what there is. */
void region_close(struct region *region);

/* Fail with "NAME: why REMEDY". */
int region_fail(struct pst_error *error, int code, const char *name, const struct region_why *why,
                const char *remedy);

/* Make visible to the memory's device what a transport wrote. 0, or -errno of the memory. */
int region_flush(const struct region *region);

/* Turns a direct path into a mapped one, if the memory is host memory that a device sees. */
static inline void region_settle_path(const struct region *region, struct pst_path_info *path)
{
  if (path->path == PST_PATH_DIRECT && region->mem.kind == PST_MEMORY_MAPPED)
    path->path = PST_PATH_MAPPED;
}

static inline bool region_has(uint64_t region_length, uint64_t offset, uint64_t length)
{
  return offset <= region_length && length <= region_length - offset;
}

static inline uint64_t region_round_up(uint64_t value, uint64_t step)
{
  return (value + step - 1) / step * step;
}

#endif
