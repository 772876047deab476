/* SPDX-License-Identifier: Apache-2.0 */
/* One end of a control channel whose callbacks are kept in order, to be waited
 * for with a deadline. */
#ifndef TESTS_CONTROL_HARNESS_H
#define TESTS_CONTROL_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "control/connection.h"
#include "control/messages.h"

#define MS(n) ((uint64_t)(n)*1000000u)
#define ADDRESS_KEPT 64
#define STREAMS_MAX 64

enum seen_kind { SEEN_PEER, SEEN_ADDRESS, SEEN_BEAT, SEEN_FINISH, SEEN_COUNTS, SEEN_FAIL };

struct seen {
  enum seen_kind kind;
  void *stream;
  int code;                      /* FAIL */
  char text[512];                /* FAIL; PEER: the peer's */
  char param[2][256];            /* PEER: the first one's key and value */
  uint32_t param_count;          /* PEER */
  uint8_t address[ADDRESS_KEPT]; /* PEER, ADDRESS: its beginning */
  uint32_t address_length;
  uint32_t fd_count;
  int fds[4];                   /* duplicates; closed with the end */
  struct control_totals totals; /* BEAT, FINISH, COUNTS; FAIL with has_totals */
  bool has_totals;
};

struct end {
  struct control *control;
  pthread_mutex_t mutex;
  pthread_cond_t more;
  struct seen *seen;
  uint32_t count;
  uint32_t capacity;
  struct control_pair terms[STREAMS_MAX][2];
  struct control_stream streams[STREAMS_MAX];
  uint32_t stream_count;
  struct control_params params;
  struct control_limits limits;
  struct pst_error error;
};

/* An end without streams, whose peers may wait for a CPU as long as they like. */
struct end *end_new(void);
/* Add a stream; its context is returned. `terms` is one "key=value", or NULL. */
void *end_stream(struct end *end, const char *name, bool is_sender, const char *terms);
int end_open(struct end *end);
/* open on an unused port of 127.0.0.1, and remember it. */
int end_listen(struct end *end);
int end_connect(struct end *end, uint16_t port);
void end_close(struct end *end); /* and free */

/* The nth (from 0) callback of that kind for that stream (NULL: any). Fails the test
 * when it does not come within a minute. */
struct seen end_wait(struct end *end, enum seen_kind kind, void *stream, uint32_t nth);
uint32_t end_seen(struct end *end, enum seen_kind kind, void *stream);

/* Lines that were logged since the last log_clear. */
void log_watch(void);
void log_clear(void);
bool log_has(const char *part);
void log_wait(const char *part);
uint32_t log_count(const char *part);

uint32_t open_descriptors(void);
/* Until no more are open: other threads close some. */
void descriptors_wait(uint32_t most);
uint16_t unused_port(void);
/* A plain client or server socket of 127.0.0.1. */
int plain_connect(uint16_t port);
int plain_listen(uint16_t *port);
/* Whether there is something to read within a minute. */
bool plain_readable(int fd);
/* Whether the other end closes within a minute. */
bool plain_closed(int fd);
void plain_send(int fd, const struct wire_message *message);
/* The next frame, decoded; the message's address is void. */
bool plain_receive(int fd, struct wire_message *message);
/* Connected to an insecure receiver, HELLOs exchanged, as a sender. */
int plain_sender(uint16_t port, struct wire_message *hello);
void hello_of(struct wire_message *message, uint32_t role);

struct control_totals totals_of(uint64_t messages);

#endif
