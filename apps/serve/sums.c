/* SPDX-License-Identifier: Apache-2.0 */
#include "sums.h"

#include <errno.h>
#include <limits.h>

#include <isa-l/crc.h>
#include <openssl/evp.h>
#include <openssl/sha.h>

#define CRC_STEP (1u << 30) /* ISA-L counts bytes by int */

uint32_t sums_crc32c(const void *bytes, size_t length)
{
  unsigned char *at = (unsigned char *)(uintptr_t)bytes; /* only read */
  uint32_t crc = UINT32_MAX;

  while (length > 0) {
    size_t step = length < CRC_STEP ? length : CRC_STEP;
    crc = crc32_iscsi(at, (int)step, crc);
    at += step;
    length -= step;
  }
  return ~crc;
}

/* An EVP_MD_CTX by another name, so that no header of OpenSSL's is needed outside. */
struct sums_sha256 *sums_sha256_open(void)
{
  EVP_MD_CTX *context = EVP_MD_CTX_new();

  if (context != NULL && EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1) {
    EVP_MD_CTX_free(context);
    context = NULL;
  }
  return (struct sums_sha256 *)context;
}

void sums_sha256_add(struct sums_sha256 *sum, const void *bytes, size_t length)
{
  EVP_DigestUpdate((EVP_MD_CTX *)sum, bytes, length);
}

int sums_sha256_so_far(const struct sums_sha256 *sum, uint8_t digest[SERVE_SHA256_BYTES])
{
  EVP_MD_CTX *copy = EVP_MD_CTX_new();
  bool made = copy != NULL && EVP_MD_CTX_copy_ex(copy, (const EVP_MD_CTX *)sum) == 1 &&
              EVP_DigestFinal_ex(copy, digest, NULL) == 1;

  EVP_MD_CTX_free(copy);
  return made ? 0 : -ENOMEM;
}

void sums_sha256_close(struct sums_sha256 *sum, uint8_t digest[SERVE_SHA256_BYTES])
{
  if (sum != NULL && digest != NULL)
    EVP_DigestFinal_ex((EVP_MD_CTX *)sum, digest, NULL);
  EVP_MD_CTX_free((EVP_MD_CTX *)sum);
}

void sums_sha256_of(const void *bytes, size_t length, uint8_t digest[SERVE_SHA256_BYTES])
{
  SHA256(bytes, length, digest);
}
