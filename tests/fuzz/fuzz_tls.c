/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ends of TLS whose flights an attacker changes, cuts, repeats, turns round or makes up. No end
 * that lacks the credentials finishes the handshake with the other, each failure has a reason, and
 * what an end reads is what the other has written, from its beginning.
 */
#include <errno.h>
#include <string.h>

#include "../unit/control/credentials.h"
#include "control/tls.h"
#include "require.h"
#include "util/printable.h"

#define FLIGHT_MAX 32768u
#define ROUNDS 8u

struct end {
  struct tls_session *session;
  bool is_done, is_dead;
  size_t has_read; /* of `said` */
  size_t has_written;
};

enum { CLIENT, SERVER, ENDS };
static const char said[] = "what is agreed, and who agrees";
static struct tls_context
    *contexts[2][2]; /* of certificates and of a key; ours, and a stranger's */
static const uint8_t *input, *input_end;
static struct end ends[ENDS];
static bool is_touched;

static uint32_t take(void)
{
  return input < input_end ? *input++ : 0;
}

static void open_contexts(void)
{
  struct ca *ca[2] = {ca_new("ours"), ca_new("others")};
  struct pst_error error = PST_ERROR_INIT;

  ca_sign(ca[0], &(struct leaf){.name = "node", .san = "DNS:node.example"});
  ca_sign(ca[1], &(struct leaf){.name = "stranger", .san = "DNS:node.example"});
  credential_write("psk", "node:00112233445566778899aabbccddeeff\n", 0600);
  credential_write("psk-stranger", "node:ffeeddccbbaa99887766554433221100\n", 0600);
  for (int i = 0; i < 2; i++) {
    const struct pst_tls_params certificate = credentials_of(i ? "stranger" : "node", "ours");
    const struct pst_tls_params key = {.struct_size = sizeof(key),
                                       .psk = credential(i ? "psk-stranger" : "psk")};
    REQUIRE(tls_context_open(&certificate, &contexts[0][i], &error) == 0);
    REQUIRE(tls_context_open(&key, &contexts[1][i], &error) == 0);
    ca_free(ca[i]);
  }
}

/* ---- An end ------------------------------------------------------------------------------- */

static void check_why(const char *why)
{
  size_t bytes;

  REQUIRE(why[0] && strlen(why) < TLS_WHY_MAX && !pst_unprintable(why, strlen(why), &bytes));
}

static void end_read(struct end *end)
{
  char why[TLS_WHY_MAX] = "", bytes[sizeof(said) * 2];
  ssize_t n;

  while ((n = tls_session_read(end->session, bytes, sizeof(bytes), why)) > 0) {
    REQUIRE(end->has_read + (size_t)n <= sizeof(said));
    REQUIRE(memcmp(said + end->has_read, bytes, (size_t)n) == 0);
    end->has_read += (size_t)n;
  }
  REQUIRE(n == 0 || n == -EAGAIN || n == -EACCES);
  end->is_dead = n != -EAGAIN;
  if (n == -EACCES)
    check_why(why);
}

/* Goes on, after bytes have come. */
static void end_turn(struct end *end)
{
  char why[TLS_WHY_MAX] = "";

  if (!end->is_done && !end->is_dead) {
    int rc = tls_session_handshake(end->session, why);
    REQUIRE(rc == 0 || rc == -EAGAIN || rc == -EACCES);
    end->is_done = rc == 0;
    end->is_dead = rc == -EACCES;
    if (end->is_dead)
      check_why(why);
    if (end->is_done)
      REQUIRE(tls_session_peer(end->session)[0]);
  }
  if (end->is_done && !end->is_dead)
    end_read(end);
  if (end->is_done && !end->is_dead && end->has_written < sizeof(said)) {
    const size_t length = end->has_written ? sizeof(said) - end->has_written : 7;
    if (tls_session_write(end->session, said + end->has_written, length) == 0)
      end->has_written += length;
  }
}

static void end_hear(struct end *end, const uint8_t *bytes, size_t length)
{
  if (end->is_dead || length == 0)
    return;
  int rc = tls_session_feed(end->session, bytes, length);
  REQUIRE(rc == 0 || (rc == -EMSGSIZE && !end->is_done));
  end->is_dead |= rc < 0;
  end_turn(end);
}

/* ---- The attacker --------------------------------------------------------------------------- */

enum { PASS, CHANGE, CUT, INSERT, REPEAT, MAKE_UP, TURN_ROUND, BIT_BY_BIT, WAYS };

static size_t insert(uint8_t *flight, size_t length, size_t at)
{
  size_t n = take() % 64;

  if (n > (size_t)(input_end - input))
    n = (size_t)(input_end - input);
  if (length + n > FLIGHT_MAX)
    return length;
  memmove(flight + at + n, flight + at, length - at);
  memcpy(flight + at, input, n);
  input += n;
  is_touched |= n > 0;
  return length + n;
}

/* From one end to the other, or as the attacker wants. */
static void carry(uint32_t from)
{
  static uint8_t flight[FLIGHT_MAX];
  struct end *to = &ends[!from];
  size_t length = tls_session_take(ends[from].session, flight, sizeof(flight));
  const uint32_t way = take() % WAYS;
  const size_t at = length && way != PASS ? (take() << 8 | take()) % length : 0;

  switch (way) {
  case CHANGE:
    if (length == 0)
      break;
    flight[at] ^= (uint8_t)take();
    is_touched = true;
    break;
  case CUT:
    is_touched |= length > 0;
    length = at;
    break;
  case INSERT:
    length = insert(flight, length, at);
    break;
  case REPEAT:
    is_touched |= length > 0;
    end_hear(to, flight, length);
    break;
  case MAKE_UP:
    is_touched = true;
    length = insert(flight, 0, 0);
    break;
  case TURN_ROUND:
    is_touched |= length > 0;
    to = &ends[from];
    break;
  case BIT_BY_BIT:
    for (; length > at + 1; length--) {
      end_hear(to, flight, 1);
      memmove(flight, flight + 1, length - 1);
    }
    break;
  default:
    break;
  }
  end_hear(to, flight, length);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
  input = data;
  input_end = data + size;
  if (!contexts[0][0]) {
    credentials_begin();
    atexit(credentials_end);
    open_contexts();
  }
  const uint32_t kind = take();
  const uint32_t stranger = kind >> 1 & 3; /* 1: the client is one; 2: the server; else none */
  is_touched = false;
  for (uint32_t i = 0; i < ENDS; i++) {
    ends[i] = (struct end){.session = tls_session_new(contexts[kind & 1][stranger == i + 1],
                                                      i == CLIENT ? "node.example" : NULL)};
    REQUIRE(ends[i].session);
    end_turn(&ends[i]);
  }
  for (uint32_t round = 0; round < ROUNDS; round++) {
    carry(CLIENT);
    carry(SERVER);
  }
  /* With certificates a client is done before the server has seen who it is. */
  if (stranger == 1)
    REQUIRE(!ends[SERVER].is_done);
  if (stranger == 2 || (stranger == 1 && kind & 1))
    REQUIRE(!ends[CLIENT].is_done);
  for (uint32_t i = 0; i < ENDS; i++) {
    if (!is_touched && stranger != 1 && stranger != 2)
      REQUIRE(ends[i].is_done && !ends[i].is_dead && ends[i].has_read == sizeof(said));
    tls_session_finish(ends[i].session);
    tls_session_free(ends[i].session);
  }
  return 0;
}
