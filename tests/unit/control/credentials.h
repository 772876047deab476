/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates, revocations and pre-shared keys for tests, in a folder of their own. */
#ifndef TESTS_CONTROL_CREDENTIALS_H
#define TESTS_CONTROL_CREDENTIALS_H

#include <stdbool.h>

#include <penstock/config.h>

struct ca;

/* A folder below the current one, which credentials_end() removes with all that is in it. */
void credentials_begin(void);
void credentials_end(void);
/* The path of a file there; valid until the end. */
const char *credential(const char *name);
void credential_write(const char *name, const char *text, unsigned mode);

/* Writes NAME.pem. */
struct ca *ca_new(const char *name);
void ca_free(struct ca *ca);

struct leaf {
  const char *name; /* writes NAME.pem and NAME-key.pem */
  const char *san;  /* "DNS:a,IP:127.0.0.1", or "DER:" and hexadecimal; NULL: none */
  int from_days, to_days;
  const char *usage; /* extended; NULL: both */
};
/* How the certificate's serial number is. */
long ca_sign(struct ca *ca, const struct leaf *leaf);
/* Writes NAME.crl, which revokes the certificate of that serial number; 0: none. */
void ca_revoke(struct ca *ca, const char *name, long serial, int to_days);

/* The files of that leaf and CA. */
struct pst_tls_params credentials_of(const char *leaf, const char *ca);
/* The file NAME of pre-shared keys. */
struct pst_tls_params credentials_of_psk(const char *name);

/* Keys of 16 bytes, for such files. */
#define KEY_A "00112233445566778899aabbccddeeff"
#define KEY_B "ffeeddccbbaa99887766554433221100"

#endif
