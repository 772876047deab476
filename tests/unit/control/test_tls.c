/* SPDX-License-Identifier: Apache-2.0 */
/* TLS: who is let in, who is refused with which reason, and what a stranger can make us keep. */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../simulated_clock.h"
#include "control/tls.h"
#include "credentials.h"

static struct ca *ours, *others;
static long revoked_serial;

static int set_up(void **state)
{
  (void)state;
  credentials_begin();
  ours = ca_new("ours");
  others = ca_new("others");
  ca_sign(ours,
          &(struct leaf){.name = "here", .san = "DNS:localhost,IP:127.0.0.1,DNS:here.example"});
  ca_sign(ours, &(struct leaf){.name = "node", .san = "DNS:node.example,URI:spiffe://site/Node"});
  ca_sign(ours, &(struct leaf){.name = "nameless"});
  ca_sign(ours, &(struct leaf){
                    .name = "expired", .san = "DNS:node.example", .from_days = -3, .to_days = -1});
  ca_sign(ours,
          &(struct leaf){.name = "early", .san = "DNS:node.example", .from_days = 1, .to_days = 2});
  ca_sign(ours, &(struct leaf){.name = "server", .san = "DNS:node.example", .usage = "serverAuth"});
  revoked_serial = ca_sign(ours, &(struct leaf){.name = "revoked", .san = "DNS:node.example"});
  ca_sign(others, &(struct leaf){.name = "foreign", .san = "DNS:node.example,IP:127.0.0.1"});
  /* Its name is an address of one byte. */
  ca_sign(others, &(struct leaf){.name = "short", .san = "DER:30:03:87:01:7f"});
  ca_revoke(ours, "ours", revoked_serial, 1);
  ca_revoke(ours, "old", 0, -1);
  ca_revoke(others, "others", 0, 1);
  credential_write("psk", "# of a test\n\nalice:" KEY_A "\nbob:" KEY_B "\n", 0600);
  credential_write("psk-bob", "bob:" KEY_B "\n", 0600);
  credential_write("psk-carol", "carol:" KEY_B "\n", 0600);
  credential_write("psk-wrong", "alice:" KEY_B "\n", 0600);
  return 0;
}

static int tear_down(void **state)
{
  (void)state;
  ca_free(ours);
  ca_free(others);
  credentials_end();
  return 0;
}

/* ---- Pairs over 127.0.0.1 ----------------------------------------------------------------- */

struct pair {
  struct end *receiver, *sender;
  void *in, *out;
};

static void *receiver_begin(struct pair *pair, const struct pst_tls_params *tls)
{
  pair->receiver = end_new();
  pair->receiver->params.tls = tls;
  pair->in = end_stream(pair->receiver, "packets", false, NULL);
  log_clear();
  assert_int_equal(end_listen(pair->receiver), 0);
  return pair->in;
}

static void sender_begin(struct pair *pair, const struct pst_tls_params *tls)
{
  pair->sender = end_new();
  pair->sender->params.tls = tls;
  pair->out = end_stream(pair->sender, "packets", true, NULL);
  assert_int_equal(end_connect(pair->sender, control_port(pair->receiver->control)), 0);
}

/* The receiver still serves after the test's peers: a sender with credentials connects to it. Ends
 * both. */
static void assert_receiver_serves_on(struct pair *pair, const struct pst_tls_params *tls)
{
  sender_begin(pair, tls);
  end_wait(pair->receiver, SEEN_PEER, pair->in, 0);
  end_close(pair->sender);
  end_close(pair->receiver);
}

static void assert_they_meet(const struct pst_tls_params *receiver,
                             const struct pst_tls_params *sender, const char *seen_by_receiver,
                             const char *seen_by_sender)
{
  struct pair pair;

  receiver_begin(&pair, receiver);
  sender_begin(&pair, sender);
  struct seen seen = end_wait(pair.receiver, SEEN_PEER, pair.in, 0);
  assert_non_null(strstr(seen.text, seen_by_receiver));
  assert_int_equal(seen.address_length, 7);
  seen = end_wait(pair.sender, SEEN_PEER, pair.out, 0);
  assert_non_null(strstr(seen.text, seen_by_sender));
  end_close(pair.sender);
  end_close(pair.receiver);
}

static void test_certificates(void **state)
{
  struct pst_tls_params here = credentials_of("here", "ours"),
                        node = credentials_of("node", "ours");

  (void)state;
  assert_they_meet(&here, &node, ", certificate of node.example", ", certificate of localhost");
  /* Revocations that concern others. */
  here.crl = node.crl = credential("ours.crl");
  assert_they_meet(&here, &node, "certificate of node.example", "certificate of localhost");
}

static void test_names(void **state)
{
  static const char *const of_node[] = {"other.example", "NODE.Example"};
  static const char *const of_uri[] = {"spiffe://site/Node"};
  struct pst_tls_params here = credentials_of("here", "ours"),
                        node = credentials_of("node", "ours");

  (void)state;
  here.peers = of_node;
  here.peer_count = 2;
  assert_they_meet(&here, &node, "certificate of node.example", "certificate of localhost");
  here.peers = of_uri;
  here.peer_count = 1;
  assert_they_meet(&here, &node, "certificate of node.example", "certificate of localhost");
  /* With `peers`, a connector requires another name than the host's. */
  here = credentials_of("here", "ours");
  node.peers = of_node + 1;
  node.peer_count = 1;
  assert_they_meet(&node, &node, "certificate of node.example", "certificate of node.example");
}

static void test_pre_shared_keys(void **state)
{
  const struct pst_tls_params both = credentials_of_psk("psk"), bob = credentials_of_psk("psk-bob");

  (void)state;
  assert_they_meet(&both, &both, ", key of alice", ", key of alice");
  assert_they_meet(&both, &bob, ", key of bob", ", key of bob");
}

/* Bytes both ways, and an end that neither calls a loss. */
static void test_whole_stream(void **state)
{
  const struct pst_tls_params here = credentials_of("here", "ours");
  const struct control_totals totals = totals_of(1000);
  struct pair pair;

  (void)state;
  receiver_begin(&pair, &here);
  sender_begin(&pair, &here);
  end_wait(pair.sender, SEEN_PEER, pair.out, 0);
  assert_int_equal(control_finish(pair.sender->control, pair.out, &totals), 0);
  struct seen seen = end_wait(pair.receiver, SEEN_FINISH, pair.in, 0);
  assert_memory_equal(&seen.totals, &totals, sizeof(totals));
  assert_int_equal(control_counts(pair.receiver->control, pair.in, &totals), 0);
  end_wait(pair.sender, SEEN_COUNTS, pair.out, 0);
  assert_int_equal(control_counts(pair.sender->control, pair.out, &totals), 0);
  end_wait(pair.receiver, SEEN_COUNTS, pair.in, 0);
  end_close(pair.sender);
  end_close(pair.receiver);
  assert_false(log_has("lost"));
  assert_false(log_has("dropped"));
}

/* ---- Refusals ------------------------------------------------------------------------------ */

/* The sender's stream fails with one reason, the receiver logs another; a sender with `good` is
 * then let in. */
static void assert_refused(const struct pst_tls_params *receiver,
                           const struct pst_tls_params *sender, const char *at_sender,
                           const char *at_receiver, const struct pst_tls_params *good)
{
  struct pair pair;

  receiver_begin(&pair, receiver);
  sender_begin(&pair, sender);
  struct seen seen = end_wait(pair.sender, SEEN_FAIL, pair.out, 0);
  if (!strstr(seen.text, at_sender))
    fail_msg("the sender says: %s", seen.text);
  assert_int_equal(seen.code, -EACCES);
  log_wait(at_receiver);
  assert_int_equal(end_seen(pair.receiver, SEEN_PEER, NULL), 0);
  end_close(pair.sender);
  sender_begin(&pair, good);
  end_wait(pair.receiver, SEEN_PEER, pair.in, 0);
  end_close(pair.sender);
  end_close(pair.receiver);
}

static void test_refused_certificates(void **state)
{
  static const char *const wanted[] = {"node.example"};
  struct pst_tls_params here = credentials_of("here", "ours");
  const struct pst_tls_params node = credentials_of("node", "ours");
  static const struct {
    const char *leaf, *at_sender, *at_receiver;
  } cases[] = {
      {"foreign", "refuses this end's certificate: its `ca` has not signed it",
       "shows a certificate (node.example, 127.0.0.1) that is not signed by a CA of `ca`"},
      {"short", "refuses this end's certificate: its `ca` has not signed it",
       "shows a certificate (no name) that is not signed by a CA of `ca`"},
      {"expired", "refuses this end's certificate: it has expired",
       "shows a certificate (node.example) that has expired"},
      {"early", "or is not valid yet", "shows a certificate (node.example) that is not valid yet"},
      {"nameless", "none of the names that are wanted there",
       "shows a certificate (no name) that has none of the names in `peers`"},
      {"here", "none of the names that are wanted there", "that has none of the names in `peers`"},
      {"revoked", "refuses this end's certificate: it is revoked",
       "shows a certificate (node.example) that is revoked, `crl` says"},
      {"server", "its extended key usage lacks clientAuth",
       "has an extended key usage without clientAuth"},
  };

  (void)state;
  here.peers = wanted;
  here.peer_count = 1;
  here.crl = credential("ours.crl");
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    const struct pst_tls_params sender = credentials_of(cases[i].leaf, "ours");
    assert_refused(&here, &sender, cases[i].at_sender, cases[i].at_receiver, &node);
  }
}

/* The other way round: who listens is not whom the sender wants. */
static void test_refused_listeners(void **state)
{
  const struct pst_tls_params node = credentials_of("node", "ours");
  struct pst_tls_params foreign = credentials_of("foreign", "others");
  const struct pst_tls_params here = credentials_of("here", "ours");
  struct pst_tls_params careful = here, strict = here;

  (void)state;
  (void)foreign;
  careful.peers = (const char *const[]){"node.example"};
  careful.peer_count = 1;
  assert_refused(&node, &here, "does not name '127.0.0.1', to which this end connects",
                 "refuses this end's certificate: it has none of the names", &careful);
  foreign.ca = credential("ours.pem"); /* it would let us in */
  strict.ca = credential("others.pem");
  assert_refused(&foreign, &here, "is not signed by a CA of `ca`",
                 "refuses this end's certificate: its `ca` has not signed it", &strict);
}

static void test_revocation_lists_are_needed(void **state)
{
  struct pst_tls_params here = credentials_of("here", "ours");
  const struct pst_tls_params node = credentials_of("node", "ours");
  struct pair pair;

  (void)state;
  here.crl = credential("old.crl");
  receiver_begin(&pair, &here);
  sender_begin(&pair, &node);
  end_wait(pair.sender, SEEN_FAIL, pair.out, 0);
  log_wait("the list in `crl` has expired");
  end_close(pair.sender);
  end_close(pair.receiver);
  here.crl = credential("others.crl");
  receiver_begin(&pair, &here);
  sender_begin(&pair, &node);
  end_wait(pair.sender, SEEN_FAIL, pair.out, 0);
  log_wait("is of a CA for which `crl` has no list");
  end_close(pair.sender);
  end_close(pair.receiver);
}

static void test_refused_keys(void **state)
{
  const struct pst_tls_params both = credentials_of_psk("psk"),
                              carol = credentials_of_psk("psk-carol"),
                              wrong = credentials_of_psk("psk-wrong"),
                              node = credentials_of("node", "ours"),
                              here = credentials_of("here", "ours");

  (void)state;
  assert_refused(&both, &carol, "refuses this end's pre-shared key",
                 "has the pre-shared key 'carol', and `psk` here has none of that name", &both);
  assert_refused(&both, &wrong, "has another pre-shared key of this name",
                 "has another pre-shared key of this name", &both);
  assert_refused(&both, &node, "it has a pre-shared key",
                 "has no pre-shared key, and this end takes no other credentials", &both);
  assert_refused(&here, &both, "was not asked for: this end has `psk`", "it has a pre-shared key",
                 &here);
}

static void test_without_tls(void **state)
{
  const struct pst_tls_params here = credentials_of("here", "ours");

  (void)state;
  assert_refused(&here, NULL, "your end began no TLS within 2.5 s, and this end takes TLS alone",
                 "began no TLS within 2.5 s", &here);
  assert_refused(NULL, &here, "speaks without TLS, and this end takes TLS alone",
                 "speaks TLS, and this end does not", NULL);
}

/* ---- Strangers, byte by byte ----------------------------------------------------------------- */

static void send_all(int fd, const void *bytes, size_t length)
{
  assert_int_equal(send(fd, bytes, length, MSG_NOSIGNAL), (ssize_t)length);
}

/* A client that the test drives itself, and what it has said. */
struct client {
  struct tls_context *context;
  struct tls_session *session;
  uint8_t said[16384];
  size_t length, first;
};

static void client_begin_to(struct client *client, const struct pst_tls_params *params,
                            const char *host)
{
  struct pst_error error = PST_ERROR_INIT;
  char why[TLS_WHY_MAX];

  *client = (struct client){.context = NULL};
  assert_int_equal(tls_context_open(params, &client->context, &error), 0);
  client->session = tls_session_new(client->context, host);
  assert_int_equal(tls_session_handshake(client->session, why), -EAGAIN);
  client->first = client->length =
      tls_session_take(client->session, client->said, sizeof(client->said));
  assert_true(client->length > 0);
}

static void client_begin(struct client *client, const struct pst_tls_params *params)
{
  client_begin_to(client, params, "127.0.0.1");
}

/* The rest of the handshake, over the socket. */
static void client_finish(struct client *client, int fd)
{
  uint8_t bytes[4096];
  char why[TLS_WHY_MAX];

  send_all(fd, client->said, client->length);
  while (tls_session_handshake(client->session, why) == -EAGAIN) {
    ssize_t n = recv(fd, bytes, sizeof(bytes), 0);
    assert_true(n > 0);
    assert_int_equal(tls_session_feed(client->session, bytes, (size_t)n), 0);
  }
  client->length += tls_session_take(client->session, client->said + client->length,
                                     sizeof(client->said) - client->length);
  send_all(fd, client->said + client->first, client->length - client->first);
}

/* Encrypts a frame: how many bytes there are at `to`. */
static size_t client_encrypt(struct client *client, const struct wire_message *message, uint8_t *to,
                             size_t size)
{
  uint8_t plain[1024];
  size_t length;

  assert_int_equal(wire_encode(message, plain, sizeof(plain), &length), 0);
  assert_int_equal(tls_session_write(client->session, plain, length), 0);
  return tls_session_take(client->session, to, size);
}

/* A frame that is a record. False: the other end has closed. */
static bool client_receive(struct client *client, int fd, struct wire_message *message)
{
  uint8_t bytes[4096];
  char why[WIRE_WHY_MAX > TLS_WHY_MAX ? WIRE_WHY_MAX : TLS_WHY_MAX];
  ssize_t length;

  while ((length = tls_session_read(client->session, bytes, sizeof(bytes), why)) == -EAGAIN) {
    ssize_t n = plain_readable(fd) ? recv(fd, bytes, sizeof(bytes), 0) : -1;
    if (n <= 0)
      return false;
    assert_int_equal(tls_session_feed(client->session, bytes, (size_t)n), 0);
  }
  if (length <= 0)
    return false;
  assert_int_equal(
      wire_decode(bytes + WIRE_HEADER_BYTES, (size_t)length - WIRE_HEADER_BYTES, message, why), 0);
  return true;
}

static void client_end(struct client *client)
{
  tls_session_free(client->session);
  tls_context_close(client->context);
}

/* A host's name goes out in the first message; addresses are no names there. */
static void test_server_name(void **state)
{
  static const struct {
    const char *host;
    bool is_said;
  } cases[] = {{"node.example", true}, {"127.0.0.1", false}, {"::1", false}};
  const struct pst_tls_params here = credentials_of("here", "ours");
  struct client client;

  (void)state;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    const char *host = cases[i].host;
    client_begin_to(&client, &here, host);
    assert_int_equal(!memmem(client.said, client.length, host, strlen(host)), !cases[i].is_said);
    client_end(&client);
  }
}

/* All that a client has ever said, said again: nobody is let in. */
static void test_replayed(void **state)
{
  const struct pst_tls_params kinds[] = {credentials_of("here", "ours"), credentials_of_psk("psk")};
  struct client client;
  struct pair pair;
  uint8_t byte;

  (void)state;
  for (size_t i = 0; i < 2; i++) {
    receiver_begin(&pair, &kinds[i]);
    client_begin(&client, &kinds[i]);
    int fd = plain_connect(control_port(pair.receiver->control));
    client_finish(&client, fd);
    assert_true(plain_readable(fd)); /* HELLO */
    assert_int_equal(log_count("earlier handshake"), 0);
    int again = plain_connect(control_port(pair.receiver->control));
    send_all(again, client.said, client.length);
    log_wait("repeats an earlier handshake, or garbles this one");
    while (recv(again, &byte, 1, 0) > 0)
      ;
    close(again);
    close(fd);
    client_end(&client);
    sender_begin(&pair, &kinds[i]);
    end_wait(pair.receiver, SEEN_PEER, pair.in, 0);
    end_close(pair.sender);
    end_close(pair.receiver);
  }
}

#define BURST 64 /* more than one round reads, in fewer bytes than one recv() takes */
#define NEVER MS(3600 * 1000)

/* A burst of small frames is read to its end at once, and not when the next deadline comes. */
static void test_burst(void **state)
{
  static struct wire_message message;
  const struct pst_tls_params here = credentials_of("here", "ours");
  struct client client;
  struct pair pair = {.receiver = end_new()};
  uint8_t burst[4096];
  size_t length;

  (void)state;
  pair.receiver->params.tls = &here;
  pair.receiver->params.heartbeat_ns = NEVER;
  pair.receiver->params.peer_timeout_ns = 0;
  pair.receiver->limits.idle_ns = NEVER;
  end_stream(pair.receiver, "packets", false, NULL);
  log_clear();
  assert_int_equal(end_listen(pair.receiver), 0);
  client_begin(&client, &here);
  int fd = plain_connect(control_port(pair.receiver->control));
  client_finish(&client, fd);
  assert_true(plain_readable(fd)); /* HELLO */
  hello_of(&message, WIRE_SENDER);
  length = client_encrypt(&client, &message, burst, sizeof(burst));
  memset(&message, 0, sizeof(message));
  message.type = WIRE_KEEP;
  for (int i = 0; i < BURST; i++)
    length += client_encrypt(&client, &message, burst + length, sizeof(burst) - length);
  hello_of(&message, WIRE_SENDER);
  length += client_encrypt(&client, &message, burst + length, sizeof(burst) - length);
  assert_true(length < sizeof(burst));
  send_all(fd, burst, length);
  log_wait("said HELLO twice");
  close(fd);
  client_end(&client);
  end_close(pair.receiver);
}

#define FDS 400

/* All descriptors are in use: who comes finishes the handshake, and hears so behind it. */
static void test_no_descriptor(void **state)
{
  static struct wire_message message;
  const struct pst_tls_params here = credentials_of("here", "ours");
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  struct client client;
  struct pair pair;
  struct rlimit limit;
  int taken[FDS];
  int count = 0;

  (void)state;
  receiver_begin(&pair, &here);
  client_begin(&client, &here);
  address.sin_port = htons(control_port(pair.receiver->control));
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
  assert_int_equal(
      setrlimit(RLIMIT_NOFILE, &(struct rlimit){.rlim_cur = FDS, .rlim_max = limit.rlim_max}), 0);
  while ((taken[count] = fcntl(0, F_DUPFD_CLOEXEC, 0)) >= 0)
    count++;
  assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
  client_finish(&client, fd);
  do
    assert_true(client_receive(&client, fd, &message));
  while (message.type == WIRE_HELLO);
  while (count > 0)
    close(taken[--count]);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
  assert_int_equal(message.type, WIRE_BYE);
  assert_int_equal(message.code, -EMFILE);
  assert_non_null(strstr(message.text, "its process has no room for another connection"));
  client_end(&client);
  close(fd);
  assert_receiver_serves_on(&pair, &here);
}

static void test_tls_1_2(void **state)
{
  const struct pst_tls_params here = credentials_of("here", "ours");
  SSL_CTX *context = SSL_CTX_new(TLS_client_method());
  SSL *ssl = SSL_new(context);
  struct pair pair;

  (void)state;
  SSL_set_max_proto_version(ssl, TLS1_2_VERSION);
  receiver_begin(&pair, &here);
  int fd = plain_connect(control_port(pair.receiver->control));
  SSL_set_fd(ssl, fd);
  assert_int_not_equal(SSL_connect(ssl), 1);
  assert_int_equal(ERR_GET_REASON(ERR_peek_error()), SSL_R_TLSV1_ALERT_PROTOCOL_VERSION);
  log_wait("speaks no TLS 1.3, which is the only version here");
  SSL_free(ssl);
  SSL_CTX_free(context);
  close(fd);
  assert_receiver_serves_on(&pair, &here);
}

/* A connector meets one that speaks no TLS 1.3. */
static void test_server_of_tls_1_2(void **state)
{
  const struct pst_tls_params here = credentials_of("here", "ours");
  SSL_CTX *context = SSL_CTX_new(TLS_server_method());
  struct client client;
  uint8_t bytes[1024];
  char why[TLS_WHY_MAX];

  (void)state;
  SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION);
  SSL *ssl = SSL_new(context);
  SSL_set_bio(ssl, BIO_new(BIO_s_mem()), BIO_new(BIO_s_mem()));
  client_begin(&client, &here);
  assert_int_equal(BIO_write(SSL_get_rbio(ssl), client.said, (int)client.length),
                   (int)client.length);
  assert_int_not_equal(SSL_accept(ssl), 1);
  int length = BIO_read(SSL_get_wbio(ssl), bytes, sizeof(bytes));
  assert_true(length > 0);
  assert_int_equal(tls_session_feed(client.session, bytes, (size_t)length), 0);
  assert_int_equal(tls_session_handshake(client.session, why), -EACCES);
  assert_string_equal(why, "speaks no TLS 1.3");
  client_end(&client);
  SSL_free(ssl);
  SSL_CTX_free(context);
}

/* Each asks for an answer, and costs the other end more than who sends it. */
static void test_flood_of_key_updates(void **state)
{
  const struct pst_tls_params here = credentials_of("here", "ours");
  SSL_CTX *context = SSL_CTX_new(TLS_client_method());
  struct pair pair;
  uint8_t byte;
  int sent = 0;

  (void)state;
  signal(SIGPIPE, SIG_IGN); /* OpenSSL writes on behind the end */
  assert_int_equal(SSL_CTX_use_certificate_chain_file(context, here.certificate), 1);
  assert_int_equal(SSL_CTX_use_PrivateKey_file(context, here.key, SSL_FILETYPE_PEM), 1);
  SSL *ssl = SSL_new(context);
  receiver_begin(&pair, &here);
  int fd = plain_connect(control_port(pair.receiver->control));
  SSL_set_fd(ssl, fd);
  assert_int_equal(SSL_connect(ssl), 1);
  while (sent < 10000 && SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED) == 1 &&
         SSL_do_handshake(ssl) == 1)
    sent++;
  assert_true(sent > (int)TLS_LATE_MAX);
  log_wait("changes its TLS keys again and again");
  while (recv(fd, &byte, 1, 0) > 0)
    ;
  signal(SIGPIPE, SIG_DFL);
  SSL_free(ssl);
  SSL_CTX_free(context);
  close(fd);
  assert_receiver_serves_on(&pair, &here);
}

/* One that takes the connection and says nothing: the sender tries again, and says so in the end.
 */
static void test_silent_listener(void **state)
{
  const struct pst_tls_params here = credentials_of("here", "ours");
  struct end *sender = end_new();
  uint16_t port;
  int listens = plain_listen(&port);

  (void)state;
  sender->params.tls = &here;
  sender->limits.answer_ns = MS(500);
  sender->params.connect_timeout_ns = MS(2000);
  void *out = end_stream(sender, "packets", true, NULL);
  assert_int_equal(end_connect(sender, port), 0);
  struct seen seen = end_wait(sender, SEEN_FAIL, out, 0);
  assert_int_equal(seen.code, -ETIMEDOUT);
  assert_non_null(strstr(seen.text, "it accepted the connection and did not finish TLS"));
  end_close(sender);
  close(listens);
}

#define HALF_OPEN 64u
#define HALF_OPEN_BYTES_MAX (96u << 10) /* of one, of both ends' memory here */

static void test_half_open(void **state)
{
  const struct pst_tls_params here = credentials_of("here", "ours");
  struct client client;
  struct pair pair;
  int fds[HALF_OPEN];

  (void)state;
  receiver_begin(&pair, &here);
  client_begin(&client, &here);
  const size_t before = mallinfo2().uordblks;
  for (unsigned i = 0; i < HALF_OPEN; i++) {
    fds[i] = plain_connect(control_port(pair.receiver->control));
    send_all(fds[i], client.said, client.first);
    assert_true(plain_readable(fds[i])); /* its hello: it has all that it keeps of ours */
  }
  assert_true(mallinfo2().uordblks - before < HALF_OPEN * HALF_OPEN_BYTES_MAX);
  for (unsigned i = 0; i < HALF_OPEN; i++) {
    log_wait("did not finish the TLS handshake within 5 s");
    while (recv(fds[i], client.said, sizeof(client.said), 0) > 0)
      ;
    close(fds[i]);
  }
  client_end(&client);
  assert_receiver_serves_on(&pair, &here);
}

/* A connection that has not finished TLS makes room before an older one that has. */
static void test_half_open_make_room(void **state)
{
  static struct wire_message message;
  const struct pst_tls_params here = credentials_of("here", "ours");
  struct client client;
  struct pair pair = {.receiver = end_new()};
  uint8_t hello[1024];

  (void)state;
  pair.receiver->params.tls = &here;
  pair.receiver->limits.peers_max = 2;
  end_stream(pair.receiver, "packets", false, NULL);
  log_clear();
  assert_int_equal(end_listen(pair.receiver), 0);
  client_begin(&client, &here);
  int known = plain_connect(control_port(pair.receiver->control));
  client_finish(&client, known);
  assert_true(client_receive(&client, known, &message)); /* HELLO: it is done with TLS */
  int unknown = plain_connect(control_port(pair.receiver->control));
  int third = plain_connect(control_port(pair.receiver->control));
  log_wait("to make room");
  hello_of(&message, WIRE_SENDER);
  send_all(known, hello, client_encrypt(&client, &message, hello, sizeof(hello)));
  assert_true(client_receive(&client, known, &message));
  assert_int_equal(message.type, WIRE_HELLO);
  assert_true(plain_closed(unknown));
  close(third);
  close(unknown);
  close(known);
  client_end(&client);
  end_close(pair.receiver);
}

/* A hello that says it is 100000 bytes long. */
static void test_endless_hello(void **state)
{
  static const uint8_t begin[] = {22, 3, 1, 0x40, 0, 1, 1, 0x86, 0xa0};
  static uint8_t record[5 + 16384];
  const struct pst_tls_params here = credentials_of("here", "ours");
  struct pair pair;

  (void)state;
  receiver_begin(&pair, &here);
  int fd = plain_connect(control_port(pair.receiver->control));
  memcpy(record, begin, sizeof(begin));
  send_all(fd, record, sizeof(record));
  memset(record + 5, 0, 16384);
  send_all(fd, record, sizeof(record));
  log_wait("sent more bytes than a TLS handshake has");
  close(fd);
  assert_receiver_serves_on(&pair, &here);
}

/* ---- Rotation ---------------------------------------------------------------------------------
 */

static void test_rotation(void **state)
{
  struct pst_tls_params here = credentials_of("here", "ours");
  const struct pst_tls_params node = credentials_of("node", "ours");
  const struct pst_tls_params revoked = credentials_of("revoked", "ours");
  const struct control_totals totals = totals_of(3);
  struct pair first, second;

  (void)state;
  ca_revoke(ours, "changing", 0, 1);
  here.crl = credential("changing.crl");
  receiver_begin(&first, &here);
  second.receiver = first.receiver;
  sender_begin(&first, &revoked); /* not yet */
  end_wait(first.receiver, SEEN_PEER, first.in, 0);
  ca_revoke(ours, "changing", revoked_serial, 1);
  sender_begin(&second, &revoked);
  end_wait(second.sender, SEEN_FAIL, second.out, 0);
  log_wait("read changed credentials");
  log_wait("is revoked, `crl` says");
  end_close(second.sender);
  /* Connections that are open stay open. */
  assert_int_equal(control_finish(first.sender->control, first.out, &totals), 0);
  end_wait(first.receiver, SEEN_FINISH, first.in, 0);
  credential_write("changing.crl", "nothing", 0644);
  sender_begin(&second, &revoked);
  end_wait(second.sender, SEEN_FAIL, second.out, 0);
  assert_int_equal(log_count("the credentials read before stay in use"), 1);
  end_close(second.sender);
  sender_begin(&second, &node);
  /* Let in, and told that another has the stream. */
  struct seen seen = end_wait(second.sender, SEEN_FAIL, second.out, 0);
  assert_int_not_equal(seen.code, -EACCES);
  assert_int_equal(log_count("the credentials read before stay in use"), 1);
  end_close(second.sender);
  end_close(first.sender);
  end_close(first.receiver);
}

static void copy_credential(const char *from, const char *suffix, const char *to, unsigned mode)
{
  char name[64], text[8192];

  snprintf(name, sizeof(name), "%s%s", from, suffix);
  FILE *file = fopen(credential(name), "r");
  assert_non_null(file);
  text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
  fclose(file);
  snprintf(name, sizeof(name), "%s%s", to, suffix);
  credential_write(name, text, mode);
}

/* Certificate, key and CA are written one after the other, while the receiver listens. */
static void test_rotation_of_certificates(void **state)
{
  struct pst_tls_params turning = credentials_of("turning", "trusted");
  const struct pst_tls_params old = credentials_of("node", "ours");
  struct pst_tls_params new = credentials_of("foreign", "others"), strict = old;
  static const char *const names[] = {"node.example"};
  struct pair pair;

  (void)state;
  copy_credential("here", ".pem", "turning", 0644);
  copy_credential("here", "-key.pem", "turning", 0600);
  copy_credential("ours", ".pem", "trusted", 0644);
  receiver_begin(&pair, &turning);
  /* Its certificate has come, and its key has not. */
  copy_credential("foreign", ".pem", "turning", 0644);
  sender_begin(&pair, &old);
  struct seen seen = end_wait(pair.sender, SEEN_PEER, pair.out, 0);
  assert_non_null(strstr(seen.text, "certificate of localhost"));
  end_wait(pair.receiver, SEEN_PEER, pair.in, 0);
  assert_int_equal(log_count("is not the key of `certificate`"), 1);
  end_close(pair.sender);
  end_close(pair.receiver);
  copy_credential("here", ".pem", "turning", 0644);
  receiver_begin(&pair, &turning);
  copy_credential("foreign", ".pem", "turning", 0644);
  copy_credential("foreign", "-key.pem", "turning", 0600);
  copy_credential("others", ".pem", "trusted", 0644);
  /* The old CA's certificates are let in no more, and the new one's are. */
  strict.ca = credential("others.pem");
  strict.peers = new.peers = names;
  strict.peer_count = new.peer_count = 1;
  sender_begin(&pair, &strict);
  seen = end_wait(pair.sender, SEEN_FAIL, pair.out, 0);
  assert_non_null(strstr(seen.text, "its `ca` has not signed it"));
  log_wait("read changed credentials");
  log_wait("is not signed by a CA of `ca`");
  end_close(pair.sender);
  sender_begin(&pair, &new);
  seen = end_wait(pair.sender, SEEN_PEER, pair.out, 0);
  assert_non_null(strstr(seen.text, "certificate of node.example"));
  end_wait(pair.receiver, SEEN_PEER, pair.in, 0);
  end_close(pair.sender);
  end_close(pair.receiver);
}

static void test_rotation_of_keys(void **state)
{
  const struct pst_tls_params turning = credentials_of_psk("psk-turning"),
                              old = credentials_of_psk("psk"),
                              new = credentials_of_psk("psk-wrong");
  struct pair pair;

  (void)state;
  credential_write("psk-turning", "alice:" KEY_A "\n", 0600);
  assert_they_meet(&turning, &old, "key of alice", "key of alice");
  receiver_begin(&pair, &turning);
  credential_write("psk-turning", "alice:" KEY_B "\n", 0600);
  sender_begin(&pair, &old);
  struct seen seen = end_wait(pair.sender, SEEN_FAIL, pair.out, 0);
  assert_non_null(strstr(seen.text, "has another pre-shared key of this name"));
  log_wait("read changed credentials");
  end_close(pair.sender);
  sender_begin(&pair, &new);
  end_wait(pair.receiver, SEEN_PEER, pair.in, 0);
  end_close(pair.sender);
  end_close(pair.receiver);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_certificates),
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_pre_shared_keys),
      cmocka_unit_test(test_whole_stream),
      cmocka_unit_test(test_refused_certificates),
      cmocka_unit_test(test_refused_listeners),
      cmocka_unit_test(test_revocation_lists_are_needed),
      cmocka_unit_test(test_refused_keys),
      cmocka_unit_test_setup_teardown(test_without_tls, simulated_clock_begin, simulated_clock_end),
      cmocka_unit_test(test_server_name),
      cmocka_unit_test(test_replayed),
      cmocka_unit_test_setup_teardown(test_burst, simulated_clock_begin, simulated_clock_end),
      cmocka_unit_test(test_no_descriptor),
      cmocka_unit_test(test_tls_1_2),
      cmocka_unit_test(test_server_of_tls_1_2),
      cmocka_unit_test(test_flood_of_key_updates),
      cmocka_unit_test_setup_teardown(test_silent_listener, simulated_clock_begin,
                                      simulated_clock_end),
      cmocka_unit_test_setup_teardown(test_half_open, simulated_clock_begin, simulated_clock_end),
      cmocka_unit_test(test_half_open_make_room),
      cmocka_unit_test(test_endless_hello),
      cmocka_unit_test(test_rotation),
      cmocka_unit_test(test_rotation_of_certificates),
      cmocka_unit_test(test_rotation_of_keys),
  };

  log_watch();
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
