/* SPDX-License-Identifier: Apache-2.0 */
/* The files of TLS, as OpenSSL has them: of tls.c and tls_files.c alone. */
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

/* Which file of that name it was: another one has another, and so has one that was written to. */
struct tls_identity {
  uint64_t device, inode, size;
  int64_t changed_s, changed_ns, status_s, status_ns;
};

/* What the files said when they were read. */
struct tls_loaded {
  SSL_CTX *ssl;
  struct tls_psk *psks; /* in the order of the file */
};

struct tls_names {
  char **names;
  uint32_t count;
};

/* The file of each kind, of these params; NULL: none. */
const char *tls_file_path(const struct pst_tls_params *params, enum tls_file file);
extern const char *const tls_file_keys[TLS_FILES];

/* Reads all of them. 0; -errno of tls_context_open() with `why`, which names the key and file. */
int tls_files_load(const struct pst_tls_params *params, struct tls_loaded *loaded,
                   char why[TLS_WHY_MAX]);
void tls_files_free(struct tls_loaded *loaded);
/* As stat(2) has it now; all zero: it is not there. */
void tls_files_look(const struct pst_tls_params *params, struct tls_identity seen[TLS_FILES]);

#endif
