/* SPDX-License-Identifier: Apache-2.0 */
/* TLS: who is let in, who is refused with which reason, and what a stranger can make us keep. */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../simulated_clock.h"
#include "control/tls.h"
#include "credentials.h"

#define KEY_A "00112233445566778899aabbccddeeff"
#define KEY_B "ffeeddccbbaa99887766554433221100"

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

static struct pst_tls_params of_psk(const char *name)
{
  return (struct pst_tls_params){.struct_size = sizeof(struct pst_tls_params),
                                 .psk = credential(name)};
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
  /* Who connects may want another name than the host's. */
  here = credentials_of("here", "ours");
  node.peers = of_node + 1;
  node.peer_count = 1;
  assert_they_meet(&node, &node, "certificate of node.example", "certificate of node.example");
}

static void test_pre_shared_keys(void **state)
{
  const struct pst_tls_params both = of_psk("psk"), bob = of_psk("psk-bob");

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
  const struct pst_tls_params both = of_psk("psk"), carol = of_psk("psk-carol"),
                              wrong = of_psk("psk-wrong"), node = credentials_of("node", "ours"),
                              here = credentials_of("here", "ours");

  (void)state;
  assert_refused(&both, &carol, "refuses this end's pre-shared key",
                 "has the pre-shared key 'carol', and `psk` here has none of that name", &both);
  assert_refused(&both, &wrong, "has another pre-shared key of this name",
                 "has another pre-shared key of this name", &both);
  assert_refused(&both, &node, "it has a pre-shared key",
                 "has no pre-shared key, and this end takes no other credentials", &both);
  assert_refused(&here, &both, "was not asked for: this end has `psk`", "refuses this end's",
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
  };

  log_watch();
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
