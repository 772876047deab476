/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C and SHA-256 of files and chunks. */
#include "io.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>

#include <isa-l/crc.h>
#include <openssl/evp.h>
#include <openssl/sha.h>

uint32_t serve_digest_crc32c(const void *bytes, size_t length)
{
  assert(length <= INT_MAX); /* ISA-L counts by int; a chunk has at most 1 GiB */
  return ~crc32_iscsi((unsigned char *)(uintptr_t)bytes, (int)length, UINT32_MAX);
}

/* An EVP_MD_CTX by another name, so that no header of OpenSSL's is needed outside. */
struct digest_sha256 *serve_digest_sha256_open(void)
{
  EVP_MD_CTX *context = EVP_MD_CTX_new();

  if (context && EVP_DigestInit_ex(context, EVP_sha256(), NULL) != 1) {
    EVP_MD_CTX_free(context);
    context = NULL;
  }
  return (struct digest_sha256 *)context;
}

void serve_digest_sha256_add(struct digest_sha256 *sum, const void *bytes, size_t length)
{
  EVP_DigestUpdate((EVP_MD_CTX *)sum, bytes, length);
}

int serve_digest_sha256_so_far(const struct digest_sha256 *sum, uint8_t digest[SERVE_SHA256_BYTES])
{
  EVP_MD_CTX *copy = EVP_MD_CTX_new();
  bool made = copy && EVP_MD_CTX_copy_ex(copy, (const EVP_MD_CTX *)sum) == 1 &&
              EVP_DigestFinal_ex(copy, digest, NULL) == 1;

  EVP_MD_CTX_free(copy);
  return made ? 0 : -ENOMEM;
}

void serve_digest_sha256_close(struct digest_sha256 *sum)
{
  EVP_MD_CTX_free((EVP_MD_CTX *)sum);
}

void serve_digest_sha256_of(const void *bytes, size_t length, uint8_t digest[SERVE_SHA256_BYTES])
{
  SHA256(bytes, length, digest);
}
