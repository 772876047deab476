/* SPDX-License-Identifier: Apache-2.0 */
/* Makes credentials with libcrypto. */
#include "credentials.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <ftw.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PATHS 64
#define DAY_S (24 * 3600)

struct ca {
  EVP_PKEY *key;
  X509 *certificate;
  char name[32];
};

static char folder[] = "tls-XXXXXX";
static char paths[PATHS][96];
static unsigned path_count;
static long last_serial;

void credentials_begin(void)
{
  strcpy(folder, "tls-XXXXXX");
  assert_non_null(mkdtemp(folder));
}

static int remove_one(const char *path, const struct stat *stat, int flag, struct FTW *walk)
{
  (void)stat, (void)flag, (void)walk;
  return remove(path);
}

void credentials_end(void)
{
  assert_int_equal(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

const char *credential(const char *name)
{
  char *path = paths[path_count++ % PATHS];

  snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
  return path;
}

static FILE *create(const char *name, const char *suffix, unsigned mode)
{
  char whole[64];

  snprintf(whole, sizeof(whole), "%s%s", name, suffix);
  int fd = open(credential(whole), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
  assert_true(fd >= 0);
  assert_int_equal(fchmod(fd, mode), 0);
  return fdopen(fd, "w");
}

void credential_write(const char *name, const char *text, unsigned mode)
{
  FILE *to = create(name, "", mode);

  assert_true(fputs(text, to) >= 0);
  assert_int_equal(fclose(to), 0);
}

static void write_certificate(const char *name, X509 *certificate)
{
  FILE *to = create(name, ".pem", 0644);

  assert_true(PEM_write_X509(to, certificate));
  assert_int_equal(fclose(to), 0);
}

static void add_extension(X509 *to, X509 *issuer, int id, const char *value)
{
  X509V3_CTX context;

  X509V3_set_ctx(&context, issuer, to, NULL, NULL, 0);
  X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, &context, id, value);
  assert_non_null(extension);
  assert_true(X509_add_ext(to, extension, -1));
  X509_EXTENSION_free(extension);
}

static X509 *certificate_new(const char *name, EVP_PKEY *key, int from_days, int to_days)
{
  X509 *made = X509_new();

  X509_set_version(made, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(made), ++last_serial);
  X509_time_adj_ex(X509_getm_notBefore(made), from_days, 0, NULL);
  X509_time_adj_ex(X509_getm_notAfter(made), to_days, 0, NULL);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_UTF8,
                             (const unsigned char *)name, -1, -1, 0);
  X509_set_pubkey(made, key);
  return made;
}

struct ca *ca_new(const char *name)
{
  struct ca *ca = calloc(1, sizeof(*ca));

  assert_non_null(ca);
  snprintf(ca->name, sizeof(ca->name), "%s", name);
  ca->key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
  ca->certificate = certificate_new(name, ca->key, -1, 2);
  X509_set_issuer_name(ca->certificate, X509_get_subject_name(ca->certificate));
  add_extension(ca->certificate, ca->certificate, NID_basic_constraints, "critical,CA:TRUE");
  add_extension(ca->certificate, ca->certificate, NID_key_usage, "critical,keyCertSign,cRLSign");
  assert_true(X509_sign(ca->certificate, ca->key, NULL));
  write_certificate(name, ca->certificate);
  return ca;
}

void ca_free(struct ca *ca)
{
  EVP_PKEY_free(ca->key);
  X509_free(ca->certificate);
  free(ca);
}

long ca_sign(struct ca *ca, const struct leaf *leaf)
{
  EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
  X509 *made = certificate_new(leaf->name, key, leaf->from_days ? leaf->from_days : -1,
                               leaf->to_days ? leaf->to_days : 1);

  X509_set_issuer_name(made, X509_get_subject_name(ca->certificate));
  if (leaf->san)
    add_extension(made, ca->certificate, NID_subject_alt_name, leaf->san);
  add_extension(made, ca->certificate, NID_ext_key_usage,
                leaf->usage ? leaf->usage : "serverAuth,clientAuth");
  assert_true(X509_sign(made, ca->key, NULL));
  write_certificate(leaf->name, made);
  FILE *to = create(leaf->name, "-key.pem", 0600);
  assert_true(PEM_write_PrivateKey(to, key, NULL, NULL, 0, NULL, NULL));
  assert_int_equal(fclose(to), 0);
  X509_free(made);
  EVP_PKEY_free(key);
  return last_serial;
}

void ca_revoke(struct ca *ca, const char *name, long serial, int to_days)
{
  X509_CRL *list = X509_CRL_new();
  ASN1_TIME *time = ASN1_TIME_new();

  X509_CRL_set_version(list, 1);
  X509_CRL_set_issuer_name(list, X509_get_subject_name(ca->certificate));
  X509_CRL_set1_lastUpdate(list, X509_time_adj_ex(time, -2, 0, NULL));
  X509_CRL_set1_nextUpdate(list, X509_time_adj_ex(time, to_days, 0, NULL));
  if (serial > 0) {
    X509_REVOKED *one = X509_REVOKED_new();
    ASN1_INTEGER *number = ASN1_INTEGER_new();
    ASN1_INTEGER_set(number, serial);
    X509_REVOKED_set_serialNumber(one, number);
    X509_REVOKED_set_revocationDate(one, X509_time_adj_ex(time, -1, 0, NULL));
    assert_true(X509_CRL_add0_revoked(list, one));
    ASN1_INTEGER_free(number);
  }
  assert_true(X509_CRL_sign(list, ca->key, NULL));
  FILE *to = create(name, ".crl", 0644);
  assert_true(PEM_write_X509_CRL(to, list));
  assert_int_equal(fclose(to), 0);
  X509_CRL_free(list);
  ASN1_TIME_free(time);
}

struct pst_tls_params credentials_of(const char *leaf, const char *ca)
{
  char name[64];
  struct pst_tls_params params = {.struct_size = sizeof(params)};

  snprintf(name, sizeof(name), "%s.pem", leaf);
  params.certificate = credential(name);
  snprintf(name, sizeof(name), "%s-key.pem", leaf);
  params.key = credential(name);
  snprintf(name, sizeof(name), "%s.pem", ca);
  params.ca = credential(name);
  return params;
}

struct pst_tls_params credentials_of_psk(const char *name)
{
  return (struct pst_tls_params){.struct_size = sizeof(struct pst_tls_params),
                                 .psk = credential(name)};
}
