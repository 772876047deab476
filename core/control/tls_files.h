/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the files of TLS into OpenSSL's objects; for tls.c alone. */
#ifndef PST_CONTROL_TLS_FILES_H
#define PST_CONTROL_TLS_FILES_H

#include <openssl/ssl.h>

#include "tls.h"

#define TLS_KEY_BYTES_LEAST 16
#define TLS_KEY_BYTES_MOST 64

struct tls_psk {
  struct tls_psk *next;
  char name[TLS_NAME_MAX];
  uint8_t key[TLS_KEY_BYTES_MOST];
  size_t length;
};

enum tls_file { TLS_CERTIFICATE, TLS_KEY, TLS_CA, TLS_CRL, TLS_PSK, TLS_FILES };

/* Identifies a file and its contents: it differs once the file is replaced or written to. */
struct tls_identity {
  uint64_t device, inode, size;
  int64_t changed_s, changed_ns, status_s, status_ns;
};

/* The contents of the files. */
struct tls_loaded {
  SSL_CTX *ssl;
  struct tls_psk *psks; /* in the order of the file */
};

struct tls_names {
  char **names;
  uint32_t count;
};

/* The path of a file in these params; NULL: none. */
const char *tls_file_path(const struct pst_tls_params *params, enum tls_file file);
extern const char *const tls_file_keys[TLS_FILES];

/* Read all files. 0, or -errno as tls_context_open(); `why` then names the key and the file. */
int tls_files_load(const struct pst_tls_params *params, struct tls_loaded *loaded,
                   char why[TLS_WHY_MAX]);
void tls_files_free(struct tls_loaded *loaded);
/* Identify the files as they are now; all zero: there is none. */
void tls_files_look(const struct pst_tls_params *params, struct tls_identity seen[TLS_FILES]);

#endif
