/* SPDX-License-Identifier: Apache-2.0 */
/* GMAC of datagrams, and the numbers that have come. */
#include "tag.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>

#define VECTOR_BYTES 12u
#define WORDS (DG_TAG_WINDOW / 64)

struct dg_tag {
  EVP_CIPHER_CTX *gcm; /* of GCM, without a text to encipher: GMAC */
  uint64_t next;       /* sender: number of the next datagram; receiver: one past the highest */
  uint64_t *seen;      /* receiver's: bits of the last numbers, a ring */
};

int dg_tag_open(const uint8_t key[DG_TAG_KEY_BYTES], bool receives, struct dg_tag **tag)
{
  struct dg_tag *made = calloc(1, sizeof(*made));

  if (made)
    made->gcm = EVP_CIPHER_CTX_new();
  if (made && receives)
    made->seen = calloc(WORDS, sizeof(*made->seen));
  if (!made || !made->gcm || (receives && !made->seen)) {
    dg_tag_close(made);
    return -ENOMEM;
  }
  /* GCM's authentication enciphers at both ends; a receiver compares the tag itself. */
  if (!EVP_EncryptInit_ex(made->gcm, EVP_aes_128_gcm(), NULL, key, NULL)) {
    dg_tag_close(made);
    return -EOPNOTSUPP;
  }
  *tag = made;
  return 0;
}

const char *dg_tag_reason(int code)
{
  return code == -ENOMEM ? "out of memory"
                         : "libcrypto has no AES-128-GCM here; see openssl.cnf, `openssl list "
                           "-cipher-algorithms`";
}

void dg_tag_close(struct dg_tag *tag)
{
  if (!tag)
    return;
  EVP_CIPHER_CTX_free(tag->gcm); /* wipes the key */
  free(tag->seen);
  free(tag);
}

uint64_t dg_tag_number(struct dg_tag *tag)
{
  assert(!tag->seen && tag->next < UINT64_MAX);
  return tag->next++;
}

static bool dg_tag_begin(struct dg_tag *tag, const uint8_t *header, uint32_t bytes)
{
  uint8_t vector[VECTOR_BYTES] = {0};
  int length;

  assert(bytes >= DG_TAG_NUMBER_BYTES);
  memcpy(vector + VECTOR_BYTES - DG_TAG_NUMBER_BYTES, header + bytes - DG_TAG_NUMBER_BYTES,
         DG_TAG_NUMBER_BYTES);
  return EVP_EncryptInit_ex(tag->gcm, NULL, NULL, NULL, vector) &&
         EVP_EncryptUpdate(tag->gcm, NULL, &length, header, (int)bytes);
}

static bool dg_tag_end(struct dg_tag *tag, uint8_t value[DG_TAG_BYTES])
{
  uint8_t none[DG_TAG_BYTES];
  int length;

  return EVP_EncryptFinal_ex(tag->gcm, none, &length) &&
         EVP_CIPHER_CTX_ctrl(tag->gcm, EVP_CTRL_AEAD_GET_TAG, DG_TAG_BYTES, value) == 1;
}

static bool dg_tag_add(struct dg_tag *tag, const void *bytes, size_t length)
{
  int done;

  return length == 0 || EVP_EncryptUpdate(tag->gcm, NULL, &done, bytes, (int)length);
}

void dg_tag_sign(struct dg_tag *tag, uint8_t *header, uint32_t bytes, const struct iovec *payload,
                 uint32_t count)
{
  bool is_right = dg_tag_begin(tag, header, bytes);

  for (uint32_t i = 0; i < count && is_right; i++)
    is_right = dg_tag_add(tag, payload[i].iov_base, payload[i].iov_len);
  if (!is_right || !dg_tag_end(tag, header + bytes))
    memset(header + bytes, 0, DG_TAG_BYTES);
}

static uint64_t dg_tag_number_of(const uint8_t *header, uint32_t bytes)
{
  const uint8_t *at = header + bytes - DG_TAG_NUMBER_BYTES;
  uint64_t number = 0;

  for (uint32_t i = 0; i < DG_TAG_NUMBER_BYTES; i++)
    number = number << 8 | at[i];
  return number;
}

/* The words between the highest number so far and this one hold nothing any more. */
static void dg_tag_advance(struct dg_tag *tag, uint64_t number)
{
  uint64_t from = tag->next ? (tag->next - 1) / 64 + 1 : 0, to = number / 64;

  if (to >= WORDS && from <= to - WORDS)
    from = to - WORDS + 1;
  for (uint64_t word = from; word <= to; word++)
    tag->seen[word % WORDS] = 0;
  tag->next = number + 1;
}

/* Has this number come, or is it too old to tell? */
static bool dg_tag_has_come(const struct dg_tag *tag, uint64_t number)
{
  if (number >= tag->next)
    return false;
  return (tag->next - 1) / 64 - number / 64 >= WORDS ||
         (tag->seen[number / 64 % WORDS] >> number % 64 & 1);
}

static void dg_tag_mark(struct dg_tag *tag, uint64_t number)
{
  if (number >= tag->next)
    dg_tag_advance(tag, number);
  tag->seen[number / 64 % WORDS] |= UINT64_C(1) << number % 64;
}

enum dg_tag_verdict dg_tag_check(struct dg_tag *tag, const uint8_t *header, uint32_t bytes,
                                 const uint8_t *payload, uint32_t length)
{
  uint8_t value[DG_TAG_BYTES];
  const uint64_t number = dg_tag_number_of(header, bytes);

  assert(tag->seen);
  if (dg_tag_has_come(tag, number))
    return DG_TAG_SEEN;
  if (!dg_tag_begin(tag, header, bytes) || !dg_tag_add(tag, payload, length) ||
      !dg_tag_end(tag, value) || CRYPTO_memcmp(value, header + bytes, DG_TAG_BYTES) != 0 ||
      number == UINT64_MAX)
    return DG_TAG_WRONG;
  dg_tag_mark(tag, number);
  return DG_TAG_NEW;
}
