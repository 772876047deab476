/* SPDX-License-Identifier: Apache-2.0 */
/* Reads certificates, private keys, revocation lists and pre-shared keys. */
#include "tls_files.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util/printable.h"

#define FILE_BYTES_MAX (16u << 20)
#define CERTIFICATES_BYTES_MAX 16384 /* a peer's chain of certificates */

const char *const tls_file_keys[TLS_FILES] = {[TLS_CERTIFICATE] = "certificate",
                                              [TLS_KEY] = "key",
                                              [TLS_CA] = "ca",
                                              [TLS_CRL] = "crl",
                                              [TLS_PSK] = "psk"};

const char *tls_file_path(const struct pst_tls_params *params, enum tls_file file)
{
  const char *const paths[TLS_FILES] = {params->certificate, params->key, params->ca, params->crl,
                                        params->psk};
  return paths[file];
}

/* A file's bytes while it is read. */
struct tls_text {
  const char *key, *path;
  char *bytes;
  size_t length;
  char *why;
};

static int tls_text_wrong(const struct tls_text *text, int code, const char *what)
{
  snprintf(text->why, TLS_WHY_MAX, "%s: %.200s: %s", text->key, text->path, what);
  return code;
}

/* The rule of PostgreSQL: a secret file belongs to this user alone, or to root, who may let a group
 * read it. */
static int tls_text_check_secret(const struct tls_text *text, const struct stat *stat)
{
  const bool is_roots = stat->st_uid == 0 && geteuid() != 0;

  if (stat->st_uid != geteuid() && !is_roots)
    return tls_text_wrong(text, -EACCES, "belongs to another user; make it this user's: chown");
  if (stat->st_mode & (is_roots ? S_IRWXO | S_IWGRP | S_IXGRP : S_IRWXO | S_IRWXG))
    return tls_text_wrong(text, -EACCES, "is a secret that others may read; chmod 600");
  return 0;
}

static void tls_text_free(struct tls_text *text)
{
  if (text->bytes)
    OPENSSL_cleanse(text->bytes, text->length);
  free(text->bytes);
  text->bytes = NULL;
}

/* Does not use realloc(), which would leave a copy of a secret behind. */
static int tls_text_grow(struct tls_text *text, size_t capacity)
{
  char *larger = capacity > FILE_BYTES_MAX ? NULL : malloc(capacity);

  if (!larger)
    return capacity > FILE_BYTES_MAX ? tls_text_wrong(text, -EFBIG, "has more than 16 MiB")
                                     : tls_text_wrong(text, -ENOMEM, "out of memory");
  if (text->bytes)
    memcpy(larger, text->bytes, text->length);
  tls_text_free(text);
  text->bytes = larger;
  return 0;
}

static int tls_text_read(struct tls_text *text, int fd)
{
  size_t capacity = 0;
  int rc;

  for (;;) {
    if (text->length == capacity) {
      capacity = capacity ? 2 * capacity : 8192;
      if ((rc = tls_text_grow(text, capacity)) < 0)
        return rc;
    }
    ssize_t n = read(fd, text->bytes + text->length, capacity - text->length);
    if (n < 0 && errno != EINTR)
      return tls_text_wrong(text, -errno, strerror(errno));
    if (n == 0)
      return 0;
    text->length += n > 0 ? (size_t)n : 0;
  }
}

/* Call tls_text_free() afterwards, on failure too. */
static int tls_text_open(const struct pst_tls_params *params, enum tls_file file, char *why,
                         struct tls_text *text)
{
  struct stat stat;

  *text = (struct tls_text){tls_file_keys[file], tls_file_path(params, file), NULL, 0, why};
  /* A FIFO must not stop the control thread. */
  int fd = open(text->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0)
    return tls_text_wrong(text, -errno, strerror(errno));
  int rc = fstat(fd, &stat) < 0 ? tls_text_wrong(text, -errno, strerror(errno)) : 0;
  if (rc == 0 && !S_ISREG(stat.st_mode))
    rc = tls_text_wrong(text, -EINVAL, "is no regular file");
  if (rc == 0 && (file == TLS_KEY || file == TLS_PSK))
    rc = tls_text_check_secret(text, &stat);
  if (rc == 0)
    rc = tls_text_read(text, fd);
  close(fd);
  return rc;
}

/* ---- Certificates --------------------------------------------------------------------- */

/* Nobody is asked for a passphrase. */
static int tls_no_passphrase(char *to, int size, int is_writing, void *unused)
{
  (void)to, (void)size, (void)is_writing, (void)unused;
  return 0;
}

/* Checks that reading ended at the file's end, where OpenSSL reports NO_START_LINE, and not at a
 * broken block. */
static int tls_check_end(const struct tls_text *text, int count, const char *nothing)
{
  const unsigned long error = ERR_peek_last_error();

  if (ERR_GET_LIB(error) != ERR_LIB_PEM || ERR_GET_REASON(error) != PEM_R_NO_START_LINE)
    return tls_text_wrong(text, -EBADMSG, "has a block of PEM that is broken");
  return count > 0 ? 0 : tls_text_wrong(text, -EBADMSG, nothing);
}

/* The first certificate is `ssl`'s own, those behind it lead to the CA. */
static int tls_take_chain(SSL_CTX *ssl, BIO *bio, const struct tls_text *text)
{
  int count = 0;
  int ok = 1;

  for (X509 *x; ok && (x = PEM_read_bio_X509(bio, NULL, tls_no_passphrase, NULL)); count++) {
    ok = count == 0 ? SSL_CTX_use_certificate(ssl, x) : SSL_CTX_add1_chain_cert(ssl, x);
    X509_free(x);
  }
  if (!ok)
    return tls_text_wrong(text, -EBADMSG, ERR_reason_error_string(ERR_peek_last_error()));
  return tls_check_end(text, count, "has no certificate in PEM");
}

static int tls_take_key(SSL_CTX *ssl, BIO *bio, const struct tls_text *text)
{
  EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, tls_no_passphrase, NULL);

  if (!key)
    return tls_text_wrong(text, -EBADMSG, "has no private key in PEM without a passphrase");
  int ok = SSL_CTX_use_PrivateKey(ssl, key);
  EVP_PKEY_free(key);
  if (!ok || !SSL_CTX_check_private_key(ssl))
    return tls_text_wrong(text, -EBADMSG, "is not the key of `certificate`");
  return 0;
}

static int tls_take_ca(SSL_CTX *ssl, BIO *bio, const struct tls_text *text)
{
  X509_STORE *store = SSL_CTX_get_cert_store(ssl);
  int count = 0;

  for (X509 *x; (x = PEM_read_bio_X509(bio, NULL, tls_no_passphrase, NULL)); count++) {
    X509_STORE_add_cert(store, x);
    X509_free(x);
  }
  return tls_check_end(text, count, "has no certificate in PEM");
}

static int tls_take_crl(SSL_CTX *ssl, BIO *bio, const struct tls_text *text)
{
  X509_STORE *store = SSL_CTX_get_cert_store(ssl);
  int count = 0;

  for (X509_CRL *x; (x = PEM_read_bio_X509_CRL(bio, NULL, tls_no_passphrase, NULL)); count++) {
    X509_STORE_add_crl(store, x);
    X509_CRL_free(x);
  }
  /* Each CA of a chain needs a list in the file. */
  X509_STORE_set_flags(store, X509_V_FLAG_CRL_CHECK | X509_V_FLAG_CRL_CHECK_ALL);
  return tls_check_end(text, count, "has no revocation list in PEM");
}

static int tls_load_pem(const struct pst_tls_params *params, enum tls_file file, SSL_CTX *ssl,
                        char *why)
{
  static int (*const takes[])(SSL_CTX *, BIO *,
                              const struct tls_text *) = {[TLS_CERTIFICATE] = tls_take_chain,
                                                          [TLS_KEY] = tls_take_key,
                                                          [TLS_CA] = tls_take_ca,
                                                          [TLS_CRL] = tls_take_crl};
  struct tls_text text;

  if (!tls_file_path(params, file))
    return 0;
  int rc = tls_text_open(params, file, why, &text);
  if (rc == 0) {
    BIO *bio = BIO_new_mem_buf(text.bytes, (int)text.length);
    rc = bio ? takes[file](ssl, bio, &text) : tls_text_wrong(&text, -ENOMEM, "out of memory");
    BIO_free(bio);
  }
  tls_text_free(&text);
  return rc;
}

/* ---- Pre-shared keys ------------------------------------------------------------------- */

/* Parses a line NAME:HEX, as GnuTLS' psktool writes it. Returns NULL, or what is wrong. */
static const char *tls_psk_parse(const char *line, size_t length, struct tls_psk *psk)
{
  const char *colon = memchr(line, ':', length);
  size_t bytes;

  if (!colon || colon == line)
    return "is not NAME:HEX";
  if (colon - line >= TLS_NAME_MAX)
    return "has a name of more than 63 bytes";
  memcpy(psk->name, line, (size_t)(colon - line));
  if (pst_unprintable(psk->name, (size_t)(colon - line), &bytes))
    return "has a name that cannot be printed";
  const char *hex = colon + 1, *end = line + length;
  if ((end - hex) % 2 != 0 || (size_t)(end - hex) / 2 < TLS_KEY_BYTES_LEAST ||
      (size_t)(end - hex) / 2 > TLS_KEY_BYTES_MOST)
    return "has no key of 16 to 64 bytes, in two hexadecimal digits each";
  for (; hex < end; hex += 2) {
    const int high = OPENSSL_hexchar2int((unsigned char)hex[0]);
    const int low = OPENSSL_hexchar2int((unsigned char)hex[1]);
    if (high < 0 || low < 0)
      return "has no key of 16 to 64 bytes, in two hexadecimal digits each";
    psk->key[psk->length++] = (uint8_t)(high << 4 | low);
  }
  return NULL;
}

static const char *tls_psk_add(const char *line, size_t length, struct tls_psk **psks)
{
  struct tls_psk *psk = calloc(1, sizeof(*psk));
  const char *wrong = psk ? tls_psk_parse(line, length, psk) : "finds no memory";

  for (; !wrong && *psks; psks = &(*psks)->next)
    if (strcmp((*psks)->name, psk->name) == 0)
      wrong = "has a name that an earlier line has";
  if (!wrong) {
    *psks = psk;
  } else if (psk) {
    OPENSSL_cleanse(psk, sizeof(*psk));
    free(psk);
  }
  return wrong;
}

static int tls_load_psk(const struct pst_tls_params *params, struct tls_psk **psks, char *why)
{
  struct tls_text text;
  char what[128];
  unsigned number = 0;

  if (!params->psk)
    return 0;
  int rc = tls_text_open(params, TLS_PSK, why, &text);
  const char *end = text.bytes ? text.bytes + text.length : NULL;
  for (const char *line = text.bytes; rc == 0 && line && line < end;) {
    const char *newline = memchr(line, '\n', (size_t)(end - line));
    const size_t whole = (size_t)((newline ? newline : end) - line);
    const size_t length = whole > 0 && line[whole - 1] == '\r' ? whole - 1 : whole;
    const char *wrong = length == 0 || line[0] == '#' ? NULL : tls_psk_add(line, length, psks);
    number++;
    if (wrong) {
      snprintf(what, sizeof(what), "line %u %s", number, wrong);
      rc = tls_text_wrong(&text, -EBADMSG, what);
    }
    line += whole + 1;
  }
  if (rc == 0 && !*psks)
    rc = tls_text_wrong(&text, -EBADMSG, "has no line NAME:HEX");
  tls_text_free(&text);
  return rc;
}

/* ---- All of them ----------------------------------------------------------------------- */

/* Makes a context for TLS 1.3 only, in which no session outlives its connection. */
static SSL_CTX *tls_new_ssl(bool has_psk)
{
  SSL_CTX *ssl = SSL_CTX_new(TLS_method());

  if (!ssl)
    return NULL;
  SSL_CTX_set_options(ssl, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
  SSL_CTX_set_mode(ssl, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_session_cache_mode(ssl, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_security_level(ssl, 2); /* 112 bits: no RSA below 2048 */
  SSL_CTX_set_max_cert_list(ssl, CERTIFICATES_BYTES_MAX);
  SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
  /* A pre-shared key is used with SHA-256, so only suites with SHA-256 are offered. */
  if (SSL_CTX_set_min_proto_version(ssl, TLS1_3_VERSION) &&
      SSL_CTX_set_max_proto_version(ssl, TLS1_3_VERSION) && SSL_CTX_set_num_tickets(ssl, 0) &&
      SSL_CTX_set_max_early_data(ssl, 0) && SSL_CTX_set_recv_max_early_data(ssl, 0) &&
      SSL_CTX_set_ciphersuites(ssl, has_psk ? "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256"
                                            : "TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256:"
                                              "TLS_AES_128_GCM_SHA256"))
    return ssl;
  SSL_CTX_free(ssl);
  return NULL;
}

int tls_files_load(const struct pst_tls_params *params, struct tls_loaded *loaded,
                   char why[TLS_WHY_MAX])
{
  struct tls_loaded made = {.ssl = tls_new_ssl(params->psk)};
  int rc = 0;

  if (!made.ssl) {
    snprintf(why, TLS_WHY_MAX, "libssl offers no TLS 1.3: %s",
             ERR_reason_error_string(ERR_peek_last_error()));
    rc = -EOPNOTSUPP;
  }
  for (enum tls_file file = TLS_CERTIFICATE; rc == 0 && file < TLS_PSK; file++)
    rc = tls_load_pem(params, file, made.ssl, why);
  if (rc == 0)
    rc = tls_load_psk(params, &made.psks, why);
  ERR_clear_error();
  if (rc < 0)
    tls_files_free(&made);
  else
    *loaded = made;
  return rc;
}

void tls_files_free(struct tls_loaded *loaded)
{
  struct tls_psk *next;

  for (struct tls_psk *psk = loaded->psks; psk; psk = next) {
    next = psk->next;
    OPENSSL_cleanse(psk, sizeof(*psk));
    free(psk);
  }
  SSL_CTX_free(loaded->ssl);
  *loaded = (struct tls_loaded){.ssl = NULL};
}

void tls_files_look(const struct pst_tls_params *params, struct tls_identity seen[TLS_FILES])
{
  struct stat stat_of;

  for (enum tls_file file = TLS_CERTIFICATE; file < TLS_FILES; file++) {
    const char *path = tls_file_path(params, file);
    seen[file] = (struct tls_identity){0};
    if (path && stat(path, &stat_of) == 0)
      seen[file] = (struct tls_identity){.device = stat_of.st_dev,
                                         .inode = stat_of.st_ino,
                                         .size = (uint64_t)stat_of.st_size,
                                         .changed_s = stat_of.st_mtim.tv_sec,
                                         .changed_ns = stat_of.st_mtim.tv_nsec,
                                         .status_s = stat_of.st_ctim.tv_sec,
                                         .status_ns = stat_of.st_ctim.tv_nsec};
  }
}
