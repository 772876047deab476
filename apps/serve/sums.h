/* SPDX-License-Identifier: Apache-2.0 */
/* CRC32C of a chunk, SHA-256 of a range or a file. */
#ifndef APP_SERVE_SUMS_H
#define APP_SERVE_SUMS_H

#include <stddef.h>
#include <stdint.h>

#include "wire.h"

/* CRC-32C (Castagnoli), as iSCSI has it: RFC 3720, appendix B.4. */
uint32_t sums_crc32c(const void *bytes, size_t length);

struct sums_sha256;                         /* one that is being made */
struct sums_sha256 *sums_sha256_open(void); /* NULL: out of memory */
void sums_sha256_add(struct sums_sha256 *sum, const void *bytes, size_t length);
/* Of what was added until now; more may follow. 0, or -ENOMEM. */
int sums_sha256_so_far(const struct sums_sha256 *sum, uint8_t digest[SERVE_SHA256_BYTES]);
/* Writes the sum, where `digest` is not NULL, and frees. Of NULL it is legal. */
void sums_sha256_close(struct sums_sha256 *sum, uint8_t digest[SERVE_SHA256_BYTES]);
void sums_sha256_of(const void *bytes, size_t length, uint8_t digest[SERVE_SHA256_BYTES]);

#endif
