/* SPDX-License-Identifier: Apache-2.0 */
/* Stands for tls.c in a build without libssl: refuses TLS, so that no other function is called. */
#include <assert.h>
#include <errno.h>

#include "tls.h"
#include "util/log.h"
#include "util/tls_params.h"

int tls_context_open(const struct pst_tls_params *params, struct tls_context **context,
                     struct pst_error *error)
{
  (void)params, (void)context;
  return pst_fail(error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP, "tls: " PST_TLS_NOT_BUILT);
}

void tls_context_close(struct tls_context *context)
{
  assert(!context);
  (void)context;
}

struct tls_session *tls_session_new(struct tls_context *context, const char *host)
{
  (void)context, (void)host;
  return NULL;
}

void tls_session_free(struct tls_session *session)
{
  assert(!session);
  (void)session;
}

int tls_session_feed(struct tls_session *session, const void *bytes, size_t length)
{
  (void)session, (void)bytes, (void)length;
  return -EOPNOTSUPP;
}

int tls_session_handshake(struct tls_session *session, char why[TLS_WHY_MAX])
{
  (void)session, (void)why;
  return -EOPNOTSUPP;
}

ssize_t tls_session_read(struct tls_session *session, void *to, size_t size, char why[TLS_WHY_MAX])
{
  (void)session, (void)to, (void)size, (void)why;
  return -EOPNOTSUPP;
}

int tls_session_write(struct tls_session *session, const void *bytes, size_t length)
{
  (void)session, (void)bytes, (void)length;
  return -EOPNOTSUPP;
}

void tls_session_finish(struct tls_session *session)
{
  (void)session;
}

size_t tls_session_take(struct tls_session *session, void *to, size_t size)
{
  (void)session, (void)to, (void)size;
  return 0;
}

const char *tls_session_peer(const struct tls_session *session)
{
  (void)session;
  return "";
}
