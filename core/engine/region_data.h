/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a region: filled, verified, summed and copied where they lie. */
#ifndef PST_ENGINE_REGION_DATA_H
#define PST_ENGINE_REGION_DATA_H

#include "region.h"

struct region_data {
  struct region region;
  struct pst_queue *queue; /* NULL: the memory can do none of it */
  uint64_t begun;          /* the last ticket of a fill or verify */
  uint64_t seed;           /* of the pattern */
};

/* A region is there: the queue for fill, verify and copy, where the memory has any of them. */
int region_data_open(struct region_data *data, const char *what, struct pst_error *error);
/* With its region. */
void region_data_close(struct region_data *data);
void region_data_range(const struct region_data *data, struct pst_range *range);
/* As pst_area_fill_begin(), pst_area_verify_begin() and pst_area_poll(). */
int region_data_begin(struct region_data *data, bool verify, const struct pst_area_pattern *parts,
                      uint32_t n, uint64_t *ticket);
int region_data_poll(struct region_data *data, uint64_t *done, struct pst_verify_result *found);
/* Fills a range with the pattern, and waits. */
int region_data_fill(struct region_data *data, uint64_t offset, uint64_t length, uint64_t pattern);
/* Compares a range with the pattern, and waits. */
int region_data_verify(struct region_data *data, uint64_t offset, uint64_t length, uint64_t pattern,
                       struct pst_verify_result *result);
/* The CRC-32C of a range, computed where it is. -ERANGE, -EOPNOTSUPP, -EIO. */
int region_data_checksum(struct region_data *data, uint64_t offset, uint64_t length,
                         uint32_t *crc32c);
/* Copy between [offset, offset + length) and the CPU's memory. */
int region_data_copy(struct region_data *data, uint64_t offset, uint64_t length, void *host,
                     bool out);

#endif
