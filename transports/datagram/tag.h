/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Authentication of the datagrams of one Penstock sender: AES-128-GMAC (NIST SP 800-38D).
 *
 *     header, whose last 8 bytes are the datagram's number │ tag, 16 bytes │ payload
 *     └──────────────────── covered ─────────────────────┘                 └ covered ┘
 *
 * The number stands where the nonce of a stream without tags stands. It is the initialization
 * vector, behind 4 bytes of zero. A sender draws a key for each endpoint that it opens, counts the
 * datagrams that it builds from 0, and never gives a number to two of them: a message that is sent
 * again has another one. So no vector comes twice under one key, whoever restarts, and 64 bits do
 * not wrap.
 *
 * The receiver takes each number once. It remembers which of the last DG_TAG_WINDOW numbers have
 * come; one from before them counts as a replay. As in RFC 4303 (section 3.4.3), the number is
 * looked up before the tag is computed, and marked once the tag is right.
 *
 * A context belongs to one thread at a time.
 */
#ifndef DATAGRAM_TAG_H
#define DATAGRAM_TAG_H

#include <stdbool.h>
#include <stdint.h>

#include <sys/uio.h>

#define DG_TAG_BYTES 16u
#define DG_TAG_KEY_BYTES 16u
#define DG_TAG_NUMBER_BYTES 8u
/* More than the messages that one may come late by (option `reorder`), and than the numbers that a
 * sender passes over at one attempt of which the kernel takes none. Attempts are not limited: after
 * many of them in a row, what is late is too old to tell. */
#define DG_TAG_WINDOW 131072u

struct dg_tag;

enum dg_tag_verdict {
  DG_TAG_NEW = 0,
  DG_TAG_WRONG = 1, /* of another key, or header, tag or payload was changed */
  DG_TAG_SEEN = 2,  /* its number has come, or is too old to tell; the tag was not looked at */
};

/* `receives`: it remembers numbers. 0; -ENOMEM; -EOPNOTSUPP: libcrypto has no AES-128-GCM, as its
 * configuration may say. */
int dg_tag_open(const uint8_t key[DG_TAG_KEY_BYTES], bool receives, struct dg_tag **tag);
/* Returns the meaning of such an error, for a line of the log. */
const char *dg_tag_reason(int code);
/* NULL is legal. */
void dg_tag_close(struct dg_tag *tag);

/* A sender's: the number of the next datagram; no two calls give the same. */
uint64_t dg_tag_number(struct dg_tag *tag);
/* Writes the tag behind the `bytes` of a header, which end with its number. `payload`: `count`
 * pieces. Should libcrypto fail, the tag is one that no receiver takes. */
void dg_tag_sign(struct dg_tag *tag, uint8_t *header, uint32_t bytes, const struct iovec *payload,
                 uint32_t count);
/* A receiver's: the tag stands behind the `bytes` of the header, and `payload` follows it. */
enum dg_tag_verdict dg_tag_check(struct dg_tag *tag, const uint8_t *header, uint32_t bytes,
                                 const uint8_t *payload, uint32_t length);

#endif
