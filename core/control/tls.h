/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS 1.3 for a control connection, by OpenSSL; tls_none.c replaces it in a build without libssl.
 *
 * A session has no descriptor. The connection passes in the bytes that it received, and takes out
 * the bytes to send. So epoll, the limits for strangers and the framing are the same as without
 * TLS.
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
 * - The files are read again before a handshake when one of them has changed. Connections stay
 *   open. New files that do not fit leave the old ones in use, and a line in the log.
 *
 * A context and its sessions belong to one thread, that of the control channel.
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

/* Read the files, and copy the texts of *params. 0, or in *error: -EINVAL: params contradict each
 * other; -EOPNOTSUPP: a build without libssl; -EACCES: others may read a secret file; an errno of
 * open(2) or read(2); -EBADMSG: a file's contents are wrong; -ENOMEM. */
int tls_context_open(const struct pst_tls_params *params, struct tls_context **context,
                     struct pst_error *error);
/* NULL is legal. Open sessions stay usable. */
void tls_context_close(struct tls_context *context);

/* host: for a connector, the host that the peer's certificate must name if `peers` is empty; NULL
 * for an acceptor. Returns NULL if memory runs out. */
struct tls_session *tls_session_new(struct tls_context *context, const char *host);
void tls_session_free(struct tls_session *session);

/* Pass in received bytes. 0; -ENOMEM; -EMSGSIZE: more than TLS_HANDSHAKE_MAX before the handshake
 * is done. */
int tls_session_feed(struct tls_session *session, const void *bytes, size_t length);
/* Advance the handshake, then send what tls_session_take() returns. 0: done; -EAGAIN: more bytes of
 * the peer are needed; -EACCES: refused, and `why` says by which check. */
int tls_session_handshake(struct tls_session *session, char why[TLS_WHY_MAX]);
/* After the handshake: read decrypted bytes. Returns how many; 0: the peer has closed; -EAGAIN;
 * -EACCES: the bytes do not belong to this session, or the peer refuses this end's credentials. */
ssize_t tls_session_read(struct tls_session *session, void *to, size_t size, char why[TLS_WHY_MAX]);
/* After the handshake: encrypt all bytes. 0; -EPIPE: the session has failed. */
int tls_session_write(struct tls_session *session, const void *bytes, size_t length);
/* Tell the peer that no more bytes follow (close_notify). */
void tls_session_finish(struct tls_session *session);
/* Take at most `size` bytes to send to the peer; returns how many. */
size_t tls_session_take(struct tls_session *session, void *to, size_t size);

/* Can these first bytes of a peer be TLS? */
static inline bool tls_is_record(const uint8_t *bytes, size_t length)
{
  return length > 0 && bytes[0] >= 20 && bytes[0] <= 23 && (length < 2 || bytes[1] == 3);
}
/* After the handshake: what the peer has shown, as in "certificate of node1.example" or "key of
 * node1". */
const char *tls_session_peer(const struct tls_session *session);

#endif
