/* SPDX-License-Identifier: Apache-2.0 */
/* TLS 1.3 for control connections, by OpenSSL with memory BIOs. */
#include "tls.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "tls_files.h"
#include "util/log.h"
#include "util/printable.h"
#include "util/text.h"
#include "util/tls_params.h"

#define NAMES_TEXT_MAX 144

struct tls_context {
  struct pst_tls_params params; /* its texts are copies */
  struct tls_loaded loaded;
  struct tls_identity seen[TLS_FILES]; /* when the files were last read, or tried */
  bool is_outdated; /* the files have changed and could not be read, which may pass */
};

struct tls_session {
  const struct tls_context *context;
  SSL *ssl;
  BIO *in, *out; /* ssl's */
  char *host;    /* NULL: an acceptor */
  bool is_done;
  bool has_failed;
  uint32_t fed;          /* bytes, until it is done */
  uint32_t late;         /* the peer's handshake messages since: KeyUpdates and the like */
  char why[TLS_WHY_MAX]; /* which check of ours has failed; "": none */
  char peer[TLS_NAME_MAX + sizeof "certificate of "];
};

/* ---- Names ------------------------------------------------------------------------------- */

/* Is this name of the certificate the wanted one? DNS names are compared without case, URIs byte
 * for byte. A wildcard matches nothing. */
static bool tls_name_is(const GENERAL_NAME *name, const char *wanted)
{
  const bool is_uri = strchr(wanted, ':') != NULL;
  const size_t length = strlen(wanted);

  if (name->type != (is_uri ? GEN_URI : GEN_DNS) ||
      (size_t)ASN1_STRING_length(name->d.ia5) != length)
    return false;
  const char *bytes = (const char *)ASN1_STRING_get0_data(name->d.ia5);
  return is_uri ? memcmp(bytes, wanted, length) == 0 : strncasecmp(bytes, wanted, length) == 0;
}

static bool tls_has_name(const struct pst_tls_params *params, X509 *certificate)
{
  GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
  bool has = false;

  for (int i = 0; i < sk_GENERAL_NAME_num(names); i++)
    for (uint32_t k = 0; k < params->peer_count; k++)
      has |= tls_name_is(sk_GENERAL_NAME_value(names, i), params->peers[k]);
  GENERAL_NAMES_free(names);
  return has;
}

static bool tls_is_address(const char *host)
{
  struct in6_addr address;

  return inet_pton(AF_INET, host, &address) == 1 || inet_pton(AF_INET6, host, &address) == 1;
}

static bool tls_has_host(const char *host, X509 *certificate)
{
  if (tls_is_address(host))
    return X509_check_ip_asc(certificate, host, 0) == 1;
  return X509_check_host(certificate, host, 0,
                         X509_CHECK_FLAG_NEVER_CHECK_SUBJECT | X509_CHECK_FLAG_NO_WILDCARDS,
                         NULL) == 1;
}

/* False: the address has not the length of IPv4 or IPv6, which X.509 allows. */
static bool tls_address_text(const ASN1_OCTET_STRING *bytes, char text[INET6_ADDRSTRLEN])
{
  const int length = ASN1_STRING_length(bytes);

  if (length != sizeof(struct in_addr) && length != sizeof(struct in6_addr))
    return false;
  return inet_ntop(length == sizeof(struct in_addr) ? AF_INET : AF_INET6,
                   ASN1_STRING_get0_data(bytes), text, INET6_ADDRSTRLEN);
}

/* Writes the names of a certificate for a message: "a.example, spiffe://b". */
static void tls_names_text(X509 *certificate, char text[NAMES_TEXT_MAX])
{
  GENERAL_NAMES *names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
  char address[INET6_ADDRSTRLEN];

  text[0] = '\0';
  for (int i = 0; i < sk_GENERAL_NAME_num(names); i++) {
    const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
    const char *between = text[0] ? ", " : "";
    if (name->type == GEN_DNS || name->type == GEN_URI)
      text_add(text, NAMES_TEXT_MAX, "%s%.*s", between, ASN1_STRING_length(name->d.ia5),
               (const char *)ASN1_STRING_get0_data(name->d.ia5));
    else if (name->type == GEN_IPADD && tls_address_text(name->d.ip, address))
      text_add(text, NAMES_TEXT_MAX, "%s%s", between, address);
  }
  GENERAL_NAMES_free(names);
  if (!text[0])
    snprintf(text, NAMES_TEXT_MAX, "no name");
  pst_make_printable(text, strlen(text), '?');
}

/* ---- Checks ------------------------------------------------------------------------------- */

/* Writes to session->why why OpenSSL, or the check of names, refuses a certificate. */
static void tls_say_unverified(struct tls_session *session, int error, X509 *certificate)
{
  const struct pst_tls_params *params = &session->context->params;
  char names[NAMES_TEXT_MAX] = "an unknown name";
  const char *what = NULL;

  if (certificate)
    tls_names_text(certificate, names);
  switch (error) {
  case X509_V_ERR_CERT_HAS_EXPIRED:
    what = "has expired; renew it, or check the clock of this host";
    break;
  case X509_V_ERR_CERT_NOT_YET_VALID:
    what = "is not valid yet; check the clocks of both hosts";
    break;
  case X509_V_ERR_CERT_REVOKED:
    what = "is revoked, `crl` says";
    break;
  case X509_V_ERR_UNABLE_TO_GET_CRL:
    what = "is of a CA for which `crl` has no list; add the list there";
    break;
  case X509_V_ERR_CRL_HAS_EXPIRED:
    what = "cannot be checked: the list in `crl` has expired; renew the list";
    break;
  case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
  case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
  case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
  case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
  case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
  case X509_V_ERR_CERT_SIGNATURE_FAILURE:
    what = params->psk ? "was not asked for: this end has `psk`" : "is not signed by a CA of `ca`";
    break;
  case X509_V_ERR_HOSTNAME_MISMATCH:
    if (params->peer_count > 0)
      what = "has none of the names in `peers`";
    break;
  case X509_V_ERR_INVALID_PURPOSE:
    what = "has an extended key usage without clientAuth or serverAuth";
    break;
  default:
    what = X509_verify_cert_error_string(error);
    break;
  }
  if (what)
    snprintf(session->why, TLS_WHY_MAX, "shows a certificate (%s) that %s", names, what);
  else
    snprintf(session->why, TLS_WHY_MAX,
             "shows a certificate (%s) that does not name '%.100s', to which this end connects; "
             "connect by a name that it has, or write one as `peers`",
             names, session->host);
}

static int tls_verify(X509_STORE_CTX *store, void *unused)
{
  const SSL *ssl = X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
  struct tls_session *session = SSL_get_app_data(ssl);
  X509 *certificate = X509_STORE_CTX_get0_cert(store);
  bool is_right = X509_verify_cert(store) == 1;

  (void)unused;
  if (is_right && session->context->params.peer_count > 0)
    is_right = tls_has_name(&session->context->params, certificate);
  else if (is_right && session->host)
    is_right = tls_has_host(session->host, certificate);
  if (is_right)
    return 1;
  if (X509_STORE_CTX_get_error(store) == X509_V_OK)
    X509_STORE_CTX_set_error(store, X509_V_ERR_HOSTNAME_MISMATCH);
  tls_say_unverified(session, X509_STORE_CTX_get_error(store), certificate);
  /* The alert is then the one for credentials of another kind, and blames no CA. */
  if (session->context->params.psk)
    X509_STORE_CTX_set_error(store, X509_V_ERR_APPLICATION_VERIFICATION);
  return 0;
}

/* ---- Contexts -------------------------------------------------------------------------- */

static int tls_context_copy(const struct pst_tls_params *from, struct pst_tls_params *to)
{
  const char **const texts[] = {&to->certificate, &to->key, &to->ca, &to->crl, &to->psk};
  char **peers = calloc(from->peer_count + 1, sizeof(*peers));
  bool is_whole = peers;

  *to = *from;
  to->peers = (const char *const *)peers;
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
    const char *text = *texts[i];
    *texts[i] = text ? strdup(text) : NULL;
    is_whole = is_whole && !text == !*texts[i];
  }
  for (uint32_t i = 0; peers && i < from->peer_count; i++) {
    peers[i] = strdup(from->peers[i]);
    is_whole = is_whole && peers[i];
  }
  return is_whole ? 0 : -ENOMEM;
}

static int tls_context_load(const struct tls_context *context, struct tls_loaded *loaded,
                            char why[TLS_WHY_MAX])
{
  int rc = tls_files_load(&context->params, loaded, why);

  if (rc == 0)
    SSL_CTX_set_cert_verify_callback(loaded->ssl, tls_verify, NULL);
  return rc;
}

int tls_context_open(const struct pst_tls_params *params, struct tls_context **context,
                     struct pst_error *error)
{
  const char *wrong = pst_tls_params_wrong(params);
  char why[TLS_WHY_MAX];

  if (wrong)
    return pst_fail(error, PST_EXIT_USAGE, -EINVAL, "tls: %s", wrong);
  struct tls_context *made = calloc(1, sizeof(*made));
  if (!made || tls_context_copy(params, &made->params) < 0) {
    tls_context_close(made);
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "tls: out of memory");
  }
  tls_files_look(&made->params, made->seen);
  int rc = tls_context_load(made, &made->loaded, why);
  if (rc < 0) {
    tls_context_close(made);
    return pst_fail(error, rc == -ENOMEM ? PST_EXIT_FAILED : PST_EXIT_USAGE, rc, "tls: %s", why);
  }
  *context = made;
  return 0;
}

void tls_context_close(struct tls_context *context)
{
  if (!context)
    return;
  for (enum tls_file file = TLS_CERTIFICATE; file < TLS_FILES; file++)
    free((char *)(uintptr_t)tls_file_path(&context->params, file));
  for (uint32_t i = 0; context->params.peers && i < context->params.peer_count; i++)
    free((char *)(uintptr_t)context->params.peers[i]);
  free((void *)(uintptr_t)context->params.peers);
  tls_files_free(&context->loaded);
  free(context);
}

/* Can this failure pass without a change of the files? -EOPNOTSUPP means that SSL_CTX_new() failed,
 * which has worked before: memory is short. */
static bool tls_may_pass(int rc)
{
  return rc == -EMFILE || rc == -ENFILE || rc == -ENOMEM || rc == -EIO || rc == -ESTALE ||
         rc == -EOPNOTSUPP;
}

/* Reads the files again if one has changed. They may be replaced one after the other: the old
 * contents stay in use until the new files go together. */
static void tls_context_refresh(struct tls_context *context)
{
  struct tls_identity seen[TLS_FILES];
  struct tls_loaded loaded;
  char why[TLS_WHY_MAX];

  tls_files_look(&context->params, seen);
  const bool is_change = memcmp(seen, context->seen, sizeof(seen)) != 0;
  if (!is_change && !context->is_outdated)
    return;
  memcpy(context->seen, seen, sizeof(seen));
  int rc = tls_context_load(context, &loaded, why);
  context->is_outdated = tls_may_pass(rc);
  if (rc < 0) {
    if (is_change)
      pst_log(PST_LOG_ERROR, "tls: %s; the credentials read before stay in use%s", why,
              context->is_outdated ? " until a later handshake can read the files" : "");
    return;
  }
  tls_files_free(&context->loaded);
  context->loaded = loaded;
  pst_log(PST_LOG_INFO, "tls: read changed credentials, for connections from now on");
}

/* ---- Pre-shared keys ---------------------------------------------------------------------- */

/* Makes the session that stands for a pre-shared key in OpenSSL. NULL: out of memory. */
static SSL_SESSION *tls_psk_session(SSL *ssl, const struct tls_psk *psk)
{
  static const unsigned char aes_128_gcm_sha256[] = {0x13, 0x01};
  const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, aes_128_gcm_sha256);
  SSL_SESSION *made = SSL_SESSION_new();

  if (made && cipher && SSL_SESSION_set1_master_key(made, psk->key, psk->length) &&
      SSL_SESSION_set_cipher(made, cipher) &&
      SSL_SESSION_set_protocol_version(made, TLS1_3_VERSION))
    return made;
  SSL_SESSION_free(made);
  return NULL;
}

static int tls_psk_use(SSL *ssl, const EVP_MD *digest, const unsigned char **name, size_t *length,
                       SSL_SESSION **made)
{
  struct tls_session *session = SSL_get_app_data(ssl);
  const struct tls_psk *psk = session->context->loaded.psks;

  (void)digest; /* SHA-256: the suites have no other */
  *made = tls_psk_session(ssl, psk);
  *name = (const unsigned char *)psk->name;
  *length = strlen(psk->name);
  snprintf(session->peer, sizeof(session->peer), "key of %s", psk->name);
  return *made != NULL;
}

static int tls_psk_find(SSL *ssl, const unsigned char *name, size_t length, SSL_SESSION **made)
{
  struct tls_session *session = SSL_get_app_data(ssl);
  const struct tls_psk *psk = session->context->loaded.psks;
  char shown[TLS_NAME_MAX];

  while (psk && (strlen(psk->name) != length || memcmp(psk->name, name, length) != 0))
    psk = psk->next;
  if (psk) {
    snprintf(session->peer, sizeof(session->peer), "key of %s", psk->name);
    *made = tls_psk_session(ssl, psk);
    return *made != NULL;
  }
  snprintf(shown, sizeof(shown), "%.*s", (int)(length < TLS_NAME_MAX ? length : TLS_NAME_MAX - 1),
           (const char *)name);
  pst_make_printable(shown, strlen(shown), '?');
  snprintf(session->why, TLS_WHY_MAX,
           "has the pre-shared key '%s', and `psk` here has none of "
           "that name",
           shown);
  *made = NULL;
  return 1;
}

/* ---- Sessions ------------------------------------------------------------------------------ */

static void tls_count_late(int is_sent, int version, int type, const void *bytes, size_t length,
                           SSL *ssl, void *context)
{
  struct tls_session *session = context;

  (void)version, (void)bytes, (void)length, (void)ssl;
  if (!is_sent && type == SSL3_RT_HANDSHAKE && session->is_done)
    session->late++;
}

static int tls_session_set_up(struct tls_session *session, const char *host)
{
  session->ssl = SSL_new(session->context->loaded.ssl);
  session->in = BIO_new(BIO_s_mem());
  session->out = BIO_new(BIO_s_mem());
  session->host = host ? strdup(host) : NULL;
  if (!session->ssl || !session->in || !session->out || (host && !session->host))
    return -ENOMEM;
  SSL_set_bio(session->ssl, session->in, session->out);
  SSL_set_app_data(session->ssl, session);
  SSL_set_msg_callback(session->ssl, tls_count_late);
  SSL_set_msg_callback_arg(session->ssl, session);
  if (!host) {
    SSL_set_accept_state(session->ssl);
    /* OpenSSL treats a pre-shared key as a session, which needs a context id. */
    SSL_set_session_id_context(session->ssl, (const unsigned char *)"penstock", 8);
    SSL_set_psk_find_session_callback(session->ssl,
                                      session->context->params.psk ? tls_psk_find : NULL);
    return 0;
  }
  SSL_set_connect_state(session->ssl);
  if (session->context->params.psk)
    SSL_set_psk_use_session_callback(session->ssl, tls_psk_use);
  else if (!strchr(host, ':') && !tls_is_address(host) && /* RFC 6066, 3: no address */
           !SSL_set_tlsext_host_name(session->ssl, host))
    return -ENOMEM;
  return 0;
}

struct tls_session *tls_session_new(struct tls_context *context, const char *host)
{
  struct tls_session *session = calloc(1, sizeof(*session));

  if (!session)
    return NULL;
  tls_context_refresh(context);
  session->context = context;
  if (tls_session_set_up(session, host) == 0)
    return session;
  if (session->ssl && SSL_get_rbio(session->ssl))
    session->in = session->out = NULL;
  BIO_free(session->in);
  BIO_free(session->out);
  tls_session_free(session);
  return NULL;
}

void tls_session_free(struct tls_session *session)
{
  if (!session)
    return;
  SSL_free(session->ssl);
  free(session->host);
  free(session);
}

int tls_session_feed(struct tls_session *session, const void *bytes, size_t length)
{
  assert(length <= INT_MAX);
  if (!session->is_done) {
    if (length > TLS_HANDSHAKE_MAX - session->fed)
      return -EMSGSIZE;
    session->fed += (uint32_t)length;
  }
  return BIO_write(session->in, bytes, (int)length) == (int)length ? 0 : -ENOMEM;
}

/* Returns the text for an alert of the other end; NULL: none. */
static const char *tls_alert_text(const struct tls_session *session, int alert)
{
  switch (alert) {
  case SSL_AD_CERTIFICATE_EXPIRED:
    return "refuses this end's certificate: it has expired; renew it, or check the clock there";
  case SSL_AD_CERTIFICATE_REVOKED:
    return "refuses this end's certificate: it is revoked";
  case SSL_AD_UNKNOWN_CA:
    return "refuses this end's certificate: its `ca` has not signed it; write the CA's certificate "
           "there";
  case SSL_AD_BAD_CERTIFICATE:
    return "refuses this end's certificate: it has none of the names that are wanted there, or is "
           "not valid yet; its log says which";
  case SSL_AD_UNSUPPORTED_CERTIFICATE:
    return "refuses this end's certificate: its extended key usage lacks clientAuth or serverAuth";
  case SSL_AD_CERTIFICATE_UNKNOWN:
    return "refuses this end's certificate; its log says why";
  case SSL_AD_CERTIFICATE_REQUIRED:
    return "wants a certificate of this end: write `certificate` and `key`";
  case SSL_AD_PROTOCOL_VERSION:
    return "speaks no TLS 1.3";
  case SSL_AD_ILLEGAL_PARAMETER:
  case SSL_AD_DECRYPT_ERROR:
    if (session->context->params.psk)
      return "has another pre-shared key of this name: copy the line of one `psk` to the other";
    break;
  case SSL_AD_HANDSHAKE_FAILURE:
    return session->context->params.psk
               ? "refuses this end's pre-shared key: its `psk` has none of that name, or it has "
                 "certificates instead"
               : "offers nothing that both ends have: it has a pre-shared key, or other kinds of "
                 "keys";
  default:
    break;
  }
  return NULL;
}

/* Writes why TLS has failed: a check of this end, the other end's alert, or OpenSSL's reason. */
static void tls_explain(struct tls_session *session, char why[TLS_WHY_MAX])
{
  const unsigned long error = ERR_peek_error();
  const int reason = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;
  const bool is_alert = reason > SSL_AD_REASON_OFFSET && reason < SSL_AD_REASON_OFFSET + 256;
  const char *text = NULL;
  const char *words = ERR_reason_error_string(error);

  if (session->why[0])
    text = session->why;
  else if (is_alert)
    text = tls_alert_text(session, reason - SSL_AD_REASON_OFFSET);
  else if (reason == SSL_R_UNSUPPORTED_PROTOCOL || reason == SSL_R_UNKNOWN_PROTOCOL ||
           reason == SSL_R_WRONG_SSL_VERSION || reason == SSL_R_NO_PROTOCOLS_AVAILABLE)
    text = "speaks no TLS 1.3, which is the only version here";
  else if (reason == SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC && !session->is_done)
    text = "repeats an earlier handshake, or garbles this one";
  else if (reason == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE)
    text = "shows no certificate, and this end wants one";
  else if (reason == SSL_R_BINDER_DOES_NOT_VERIFY)
    text = "has another pre-shared key of this name: copy the line of one `psk` to the other";
  else if (session->context->params.psk && !session->is_done &&
           (reason == SSL_R_NO_SUITABLE_SIGNATURE_ALGORITHM || reason == SSL_R_NO_SHARED_CIPHER))
    text = "has no pre-shared key, and this end takes no other credentials";
  if (text)
    snprintf(why, TLS_WHY_MAX, "%s", text);
  else
    snprintf(why, TLS_WHY_MAX, "%s: %s", is_alert ? "ended TLS" : "broke TLS",
             words ? words : "what came is no TLS");
  session->has_failed = true;
  ERR_clear_error();
}

static void tls_session_name_peer(struct tls_session *session)
{
  char names[NAMES_TEXT_MAX];
  X509 *certificate = SSL_get1_peer_certificate(session->ssl);

  if (!certificate)
    return;
  tls_names_text(certificate, names);
  snprintf(session->peer, sizeof(session->peer), "certificate of %.*s", TLS_NAME_MAX - 1, names);
  X509_free(certificate);
}

int tls_session_handshake(struct tls_session *session, char why[TLS_WHY_MAX])
{
  ERR_clear_error();
  const int rc = session->has_failed ? -1 : SSL_do_handshake(session->ssl);

  if (rc == 1 && session->context->params.psk && !SSL_session_reused(session->ssl)) {
    snprintf(session->why, TLS_WHY_MAX, "has not used the pre-shared key");
  } else if (rc == 1) {
    session->is_done = true;
    tls_session_name_peer(session);
    return 0;
  } else if (!session->has_failed && SSL_get_error(session->ssl, rc) == SSL_ERROR_WANT_READ) {
    return -EAGAIN;
  }
  tls_explain(session, why);
  return -EACCES;
}

ssize_t tls_session_read(struct tls_session *session, void *to, size_t size, char why[TLS_WHY_MAX])
{
  size_t length = 0;

  assert(session->is_done);
  ERR_clear_error();
  const bool is_read = !session->has_failed && SSL_read_ex(session->ssl, to, size, &length);
  const int error = session->has_failed ? SSL_ERROR_SSL : SSL_get_error(session->ssl, is_read);
  if (session->late > TLS_LATE_MAX) {
    snprintf(why, TLS_WHY_MAX, "changes its TLS keys again and again");
    session->has_failed = true;
    return -EACCES;
  }
  if (is_read)
    return (ssize_t)length;
  if (error == SSL_ERROR_WANT_READ)
    return -EAGAIN;
  if (error == SSL_ERROR_ZERO_RETURN)
    return 0;
  tls_explain(session, why);
  return -EACCES;
}

int tls_session_write(struct tls_session *session, const void *bytes, size_t length)
{
  size_t written = 0;

  ERR_clear_error();
  if (session->has_failed || !SSL_write_ex(session->ssl, bytes, length, &written)) {
    ERR_clear_error();
    session->has_failed = true;
    return -EPIPE;
  }
  assert(written == length); /* the BIO grows */
  return 0;
}

void tls_session_finish(struct tls_session *session)
{
  ERR_clear_error();
  if (session->is_done && !session->has_failed)
    SSL_shutdown(session->ssl);
  ERR_clear_error();
}

size_t tls_session_take(struct tls_session *session, void *to, size_t size)
{
  size_t length = 0;

  return BIO_read_ex(session->out, to, size, &length) ? length : 0;
}

const char *tls_session_peer(const struct tls_session *session)
{
  return session->peer;
}
