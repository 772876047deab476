/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control channel's messages as bytes.
 *
 * A frame is a u32, big-endian, of the body's length, and the body: one CBOR map
 * (RFC 8949) of integer keys in ascending order, definite lengths only. Unknown
 * keys are skipped, so that a minor version may add some. In HELLO the keys
 * `type`, `magic` and `version` come first and keep their form for ever: a
 * decoder of another major still learns which one it met.
 *
 * Error codes travel as positive numbers of Linux's generic errno table.
 */
#ifndef PST_CONTROL_WIRE_H
#define PST_CONTROL_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "control.h"
#include "util/cbor_message.h"

#define WIRE_MAJOR 1u
#define WIRE_MINOR 3u
#define WIRE_MAGIC "penstock"

#define WIRE_HEADER_BYTES 4u
#define WIRE_BODY_MAX 65536u
#define WIRE_FRAME_MAX (WIRE_HEADER_BYTES + WIRE_BODY_MAX)
#define WIRE_HELLO_MAX 4096u /* bytes of the body of HELLO, and of a BYE before it */
#define WIRE_STREAM_MAX 127  /* bytes of a stream's name */
#define WIRE_HOST_MAX 64
#define WIRE_TEXT_MAX PST_CBOR_TEXT_MAX
#define WIRE_LIBRARY_MAX 31
#define WIRE_TOKEN_BYTES 16
#define WIRE_UNIX_PATH_MAX 107
#define WIRE_FDS_MAX 4 /* of one blob */
#define WIRE_PAYLOAD_MAX CONTROL_MESSAGE_MAX
#define WIRE_WHY_MAX PST_CBOR_WHY_MAX

enum wire_type {
  WIRE_HELLO = 1,
  WIRE_OFFER = 2,
  WIRE_ACCEPT = 3,
  WIRE_REFUSE = 4,
  WIRE_ADDRESS = 5,
  WIRE_BEAT = 6,
  WIRE_FINISH = 7,
  WIRE_COUNTS = 8,
  WIRE_FAIL = 9,
  WIRE_KEEP = 10, /* still alive, nothing to say */
  WIRE_BYE = 11,  /* nothing follows */
  /* Between nodes, since 1.2. */
  WIRE_JOIN = 12,      /* who has connected: what both must have the same, its address */
  WIRE_WELCOME = 13,   /* the answer */
  WIRE_REGION = 14,    /* a region on offer */
  WIRE_TAKEN = 15,     /* it is known; with a code: refused */
  WIRE_WITHDRAW = 16,  /* it is no more */
  WIRE_READDRESS = 17, /* since 1.3: the endpoint's address is another now */
  /* Between nodes without a transport. */
  WIRE_MESSAGE = 18, /* of the application's */
  WIRE_ROOM = 19,    /* some were taken: as many more may come */
  WIRE_TYPES = 20,
};

enum wire_role {
  WIRE_SENDER = 1,
  WIRE_RECEIVER = 2,
  WIRE_NODE = 4,
};

/* Any message; which fields hold follows from the type. */
struct wire_message {
  uint32_t type;

  /* HELLO. With another major than ours only `major` and `minor` hold. The acceptor sends
   * the first one: `unix_path` is the path of its Unix socket, and `token` what this connection
   * shows there. Once the connector has shown the token, it sends its HELLO with its identity. The
   * acceptor then sends a second one, with its own identity. */
  uint32_t major, minor;
  uint32_t role;
  bool has_identity;
  uint64_t pid;
  char host[WIRE_HOST_MAX + 1];
  char library[WIRE_LIBRARY_MAX + 1];
  char unix_path[WIRE_UNIX_PATH_MAX + 1];
  uint8_t token[WIRE_TOKEN_BYTES];
  bool has_token;

  /* All that concern a stream. */
  char stream[WIRE_STREAM_MAX + 1];

  /* OFFER, ACCEPT, JOIN, WELCOME */
  uint32_t term_count;
  uint32_t param_count;
  struct control_pair terms[CONTROL_TERMS_MAX];
  struct control_pair params[CONTROL_PARAMS_MAX];

  /* These, ADDRESS and READDRESS: the endpoint's address. REGION: the packed region. MESSAGE: its
   * bytes. */
  const uint8_t *blob; /* decoded: points into the frame */
  uint32_t blob_length;
  uint32_t fd_count; /* descriptors that come by the Unix socket under fd_id */
  uint64_t fd_id;

  uint32_t region_id;     /* REGION, TAKEN, WITHDRAW: from 1 on */
  uint64_t region_length; /* REGION: from 1 on */
  uint32_t access;        /* REGION: enum pst_access, the remote rights */

  /* BEAT, FINISH, COUNTS; FAIL may have them */
  struct control_totals totals;
  bool has_totals;

  uint32_t count; /* ROOM: from 1 on */

  /* REFUSE, FAIL, BYE, TAKEN: -errno, and why */
  int code;
  char text[WIRE_TEXT_MAX + 1];
};

/* One frame with its header. Texts too long are cut, control characters become
 * spaces. 0; -E2BIG: more than `size` or a body beyond WIRE_BODY_MAX; -EINVAL: an
 * unknown type or a count over its bound. */
int wire_encode(const struct wire_message *message, uint8_t *frame, size_t size, size_t *length);

/* One body, without its header. 0, or -EPROTO with `why`: what is wrong, in words.
 * Needs nothing but its arguments and allocates nothing. */
int wire_decode(const uint8_t *body, size_t length, struct wire_message *message,
                char why[WIRE_WHY_MAX]);

const char *wire_type_name(uint32_t type);

/* Totals of which nothing is known. */
void wire_totals_unknown(struct control_totals *totals);

enum wire_key {
  WIRE_KEY_TYPE = 0,
  WIRE_KEY_MAGIC = 1,
  WIRE_KEY_VERSION = 2, /* [major, minor] */
  WIRE_KEY_AUTH = 3,    /* map, empty: where credentials will stand */
  WIRE_KEY_ROLE = 4,
  WIRE_KEY_HOST = 5,
  WIRE_KEY_PID = 6,
  WIRE_KEY_LIBRARY = 8,
  WIRE_KEY_UNIX_PATH = 9,
  WIRE_KEY_TOKEN = 10,
  WIRE_KEY_STREAM = 16,
  WIRE_KEY_TERMS = 17, /* map of text to text, as are params */
  WIRE_KEY_PARAMS = 18,
  WIRE_KEY_ADDRESS = 19,
  WIRE_KEY_FD_ID = 20,
  WIRE_KEY_FD_COUNT = 21,
  WIRE_KEY_TOTALS = 22, /* map of wire_total; what is unknown is left out */
  WIRE_KEY_CODE = 23,
  WIRE_KEY_TEXT = 24,
  WIRE_KEY_REMOTE = 25,
  WIRE_KEY_REMOTE_LENGTH = 26,
  WIRE_KEY_REMOTE_FD_COUNT = 27,
  WIRE_KEY_REGION_ID = 28,
  WIRE_KEY_ACCESS = 29,
  WIRE_KEY_PAYLOAD = 30,
  WIRE_KEY_COUNT = 31,
  WIRE_KEYS = 32,
};

enum wire_total {
  WIRE_TOTAL_MESSAGES = 0,
  WIRE_TOTAL_BYTES = 1,
  WIRE_TOTAL_LAST_SEQUENCE = 2,
  WIRE_TOTAL_DUPLICATES = 3,
  WIRE_TOTAL_REORDERED = 4,
  WIRE_TOTAL_VERIFIED = 5,
  WIRE_TOTAL_CORRUPTED = 6,
  WIRE_TOTAL_RUNNING = 7,
  WIRE_TOTAL_BLOCKED = 8,  /* map of stage to ns */
  WIRE_TOTAL_DROPS = 9,    /* map of cause to messages */
  WIRE_TOTAL_STOPPED = 10, /* why there are no more; left out while there may be */
};

/* Where the plain numbers of the totals lie, by wire_total; NULL for the maps. */
uint64_t *wire_total_at(struct control_totals *totals, uint32_t key);

#endif
