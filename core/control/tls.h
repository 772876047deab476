/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS 1.3 of a control connection. tls.c alone includes OpenSSL's headers; tls_none.c stands in its
 * place in a build without libssl.
 *
 * A session has no descriptor. The connection hands over what it received, and takes what it has to
 * send: epoll, the limits of strangers and the frames stay what they are without TLS.
 *
 *   socket → recv() → tls_session_feed() → tls_session_read()  → frames
 *   frames → tls_session_write() → tls_session_take() → send() → socket
 *
 * - Both ends show a certificate, or both know a pre-shared key (PSK). Nobody is let in without.
 * - TLS 1.3 and no other version; no tickets, no resumption and no early data, so that a first
 *   message that is sent again opens nothing: who repeats it cannot finish the handshake.
 * - Until the handshake is done a peer may send TLS_HANDSHAKE_MAX bytes, and has the time that
 *   HELLO has (control_limits.answer_ns). After half of that time a peer that sent nothing gets a
 *   BYE in clear, which says that this end takes TLS: a connector without TLS waits for our HELLO.
 * - Behind the handshake a peer may send TLS_LATE_MAX messages of TLS's own in all: a change of
 * keys costs this end more than the peer. A Penstock sends none.
 * - The files are read again before a handshake when one of them has changed. What is open stays
 *   open. New files that do not fit leave the old ones in use, and a line in the log.
 *
 * A context and its sessions belong to one thread, the control channel's.
 */
#ifndef PST_CONTROL_TLS_H
#define PST_CONTROL_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <penstock/config.h>

#define TLS_HANDSHAKE_MAX 32768u
#define TLS_LATE_MAX 64u
#define TLS_WHY_MAX 384
#define TLS_NAME_MAX 64

struct tls_context; /* the files of one end */
struct tls_session; /* one connection */

/* Reads the files. The texts of *params are copied. In *error: -EINVAL: params do not go together;
 * -EOPNOTSUPP: a build without libssl; -EACCES: a secret that others may read; -ENOENT, … of
 * open(2); -EBADMSG: a file has not what it should have; -ENOMEM. */
int tls_context_open(const struct pst_tls_params *params, struct tls_context **context,
                     struct pst_error *error);
/* NULL is legal. Sessions that are open go on. */
void tls_context_close(struct tls_context *context);

/* host: of a connector, the host that its certificate has to name where `peers` does not; NULL: of
 * an acceptor. NULL: out of memory. */
struct tls_session *tls_session_new(struct tls_context *context, const char *host);
void tls_session_free(struct tls_session *session);

/* Bytes that were received. 0; -ENOMEM; -EMSGSIZE: too many before the handshake is done. */
int tls_session_feed(struct tls_session *session, const void *bytes, size_t length);
/* 0: done; -EAGAIN: it needs more bytes of the peer; -EACCES: refused, `why` says by which check:
 * "has a certificate that has expired". Afterwards something may be there to be sent. */
int tls_session_handshake(struct tls_session *session, char why[TLS_WHY_MAX]);
/* After the handshake. How many bytes; 0: the peer has closed; -EAGAIN; -EACCES with `why`: what
 * came is no TLS of this session's, or it refuses what this end has shown. */
ssize_t tls_session_read(struct tls_session *session, void *to, size_t size, char why[TLS_WHY_MAX]);
/* After the handshake; takes all. 0; -EPIPE: the session has failed. */
int tls_session_write(struct tls_session *session, const void *bytes, size_t length);
/* Says that nothing follows (close_notify). */
void tls_session_finish(struct tls_session *session);
/* Bytes for the peer: how many there were, up to `size`. */
size_t tls_session_take(struct tls_session *session, void *to, size_t size);

/* Could these first bytes of a peer be TLS? */
static inline bool tls_is_record(const uint8_t *bytes, size_t length)
{
  return length > 0 && bytes[0] >= 20 && bytes[0] <= 23 && (length < 2 || bytes[1] == 3);
}
/* Whom it shows: "certificate of node1.example", "key of node1"; after the handshake. */
const char *tls_session_peer(const struct tls_session *session);

#endif
