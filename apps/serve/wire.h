/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between `serve` and its clients, each one message of the node.
 *
 * A message is one CBOR map (RFC 8949) of integer keys in ascending order, definite
 * lengths only. Unknown keys are skipped, so that a minor version may add some. In HELLO and
 * WELCOME the keys up to MINOR keep their form for ever: a decoder of another major still
 * learns which one it met.
 *
 * The client asks, the server answers: each request has a tag of the client's, and gets
 * one answer with the same tag, in any order. The server reads and writes a region that
 * the client offers while a request that names the region is under way, and no longer.
 *
 *     HELLO                                              WELCOME: the server's limits
 *     MOVE   {region, place, op, length, …}              MOVED   the pattern was written or read
 *     OPEN   {name}                                      OPENED  {file, size, mode}
 *     FETCH  {file, offset, length, region, place}       FETCHED {length, crc, or a hole}
 *     CREATE {name, size, mode}                          CREATED {file, size: of an older part}
 *     STORE  {file, offset, length, region, place, crc}  DONE
 *     HOLE   {file, offset, length}                      DONE
 *     CHECK  {file, offset, length, sha256?, flags?}     CHECKED {sha256}
 *     COMMIT {file, sha256?}                             DONE    it has its final name
 *     CLOSE  {file}                                      DONE    it did not change meanwhile
 *     LIST   {name, cursor}                              LISTED  {entries, cursor: 0 at the end}
 *     MKDIR  {name, mode}                                DONE
 *     PING   {flags?}                                    DONE
 * Any of them may be answered by REFUSE {code, text}.
 *
 * Error codes travel as positive numbers of Linux's generic errno table.
 */
#ifndef APP_SERVE_WIRE_H
#define APP_SERVE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/cbor_message.h"

#define SERVE_MAJOR 1u
#define SERVE_MINOR 1u
#define SERVE_MAGIC "penstock-serve"

#define SERVE_MESSAGE_MAX 4096u /* bytes */
#define SERVE_NAME_MAX 1024u    /* bytes of a name, as SERVE_PART_MAX is of a part of one */
#define SERVE_TEXT_MAX PST_CBOR_TEXT_MAX
#define SERVE_PROGRAM_MAX 31u
#define SERVE_SHA256_BYTES 32u
#define SERVE_ENTRIES_MAX 128u
#define SERVE_WHY_MAX PST_CBOR_WHY_MAX

enum serve_type {
  SERVE_HELLO = 1,
  SERVE_WELCOME = 2,
  SERVE_REFUSE = 3,
  SERVE_DONE = 4,
  SERVE_MOVE = 5,
  SERVE_MOVED = 6,
  SERVE_OPEN = 7,
  SERVE_OPENED = 8,
  SERVE_FETCH = 9,
  SERVE_FETCHED = 10,
  SERVE_CREATE = 11,
  SERVE_CREATED = 12,
  SERVE_STORE = 13,
  SERVE_HOLE = 14,
  SERVE_CHECK = 15,
  SERVE_CHECKED = 16,
  SERVE_COMMIT = 17,
  SERVE_CLOSE = 18,
  SERVE_LIST = 19,
  SERVE_LISTED = 20,
  SERVE_MKDIR = 21,
  SERVE_PING = 22,
  SERVE_TYPES = 23,
};

enum serve_op {
  SERVE_OP_WRITE = 1, /* by the server, into the client's region */
  SERVE_OP_READ = 2,
};

enum serve_flag {
  SERVE_FLAG_VERIFY = 1u << 0,    /* MOVE: the pattern is made, or checked, by the server */
  SERVE_FLAG_HOLE = 1u << 1,      /* FETCHED: `length` bytes are 0 and were not written */
  SERVE_FLAG_OVERWRITE = 1u << 2, /* CREATE: a file of that name may be there */
  SERVE_FLAG_RESUME = 1u << 3,    /* CREATE: keep what an interrupted transfer left */
  SERVE_FLAG_FILES = 1u << 4,     /* WELCOME: there is a root */
  SERVE_FLAG_READ_ONLY = 1u << 5, /* WELCOME */
  /* CHECK: its range begins where the last such one ended, and the sum is of all from the
   * beginning of the file to the end of the range */
  SERVE_FLAG_ON = 1u << 6,
  /* PING, minor 1: the client prepares memory, for as long as that takes, and says nothing
   * meanwhile: it is not idle before it says something again. */
  SERVE_FLAG_BUSY = 1u << 7,
  SERVE_FLAGS = (1u << 8) - 1,
};

enum serve_kind {
  SERVE_KIND_FILE = 1,
  SERVE_KIND_FOLDER = 2,
  SERVE_KIND_OTHER = 3, /* links and what is not a file: neither is followed */
  /* The entry's name is none that can be asked for; here it has '?' for each control character. */
  SERVE_KIND_UNNAMED = 4,
};

/* One entry of a folder. Decoded, the name points into the message. */
struct serve_entry {
  uint32_t kind; /* enum serve_kind */
  uint32_t length;
  const uint8_t *name;
};

/* Any message; which fields hold follows from the type. */
struct serve_message {
  uint32_t type; /* enum serve_type */
  uint32_t code; /* REFUSE: errno, positive */
  uint64_t tag;  /* 0 in a REFUSE: of the connection, which ends */
  uint32_t major, minor;
  char program[SERVE_PROGRAM_MAX + 1]; /* "0.1.0" */
  uint64_t region;                     /* as offered */
  uint64_t place;                      /* offset in it */
  uint32_t op;                         /* enum serve_op */
  uint32_t pieces;                     /* MOVE: of the server's memory, at least 1 */
  uint64_t length;
  uint64_t iteration; /* MOVE: names the pattern */
  uint32_t flags;     /* enum serve_flag */
  uint32_t file;
  uint64_t offset; /* in the file */
  uint64_t size;   /* of the file, in bytes */
  uint32_t mode;   /* permission bits */
  uint32_t crc;    /* CRC32C of the bytes */
  bool has_sha256;
  uint8_t sha256[SERVE_SHA256_BYTES];
  uint64_t ns; /* MOVED: from the first post to the last completion */
  uint64_t cursor;
  uint64_t request_max, chunk_max, idle_ns; /* WELCOME: bytes, bytes, time */
  uint32_t window;                          /* WELCOME: requests under way */
  uint32_t name_length;
  const uint8_t *name; /* decoded: points into the message; no NUL behind it */
  char text[SERVE_TEXT_MAX + 1];
  uint32_t entry_count;
  struct serve_entry entries[SERVE_ENTRIES_MAX];
};

/* Texts too long are cut, control characters become spaces. 0; -E2BIG: more than `size`;
 * -EINVAL: an unknown type, or more entries than there may be. */
int serve_encode(const struct serve_message *message, uint8_t *bytes, size_t size, size_t *length);

/* 0, or -EPROTO with `why`: what is wrong, in words. Needs nothing but its arguments and
 * allocates nothing. With another major version, only type, major and minor hold. */
int serve_decode(const uint8_t *bytes, size_t length, struct serve_message *message,
                 char why[SERVE_WHY_MAX]);

const char *serve_type_name(uint32_t type);

/* ---- path_names.c: names of files as peers may say them: relative, parts joined by '/'
 * ------------ */

#define NAMES_PART_SUFFIX ".penstock-part"
/* So that ".NAME.penstock-part" is one that file systems take. */
#define NAMES_BYTES_MAX 240u /* of what stands between two slashes */

/* Copies a legal name and ends it by NUL. 0; -EINVAL or -ENAMETOOLONG with *why: the rule
 * that it breaks, in words. `name` has room for SERVE_NAME_MAX + 1. */
int serve_path_check(const uint8_t *bytes, size_t length, char *name, const char **why);

/* The same for one part of a name: no '/'. */
int serve_path_check_part(const uint8_t *bytes, size_t length, char *name, const char **why);

/* Returns whether a name is that of a part, which a transfer under way, or interrupted, writes
 * to. */
bool serve_path_is_part(const uint8_t *bytes, size_t length);
/* Bytes of the control character at the head: ASCII's, or U+0080 to U+009F as UTF-8. 0: none. A
 * name is bytes, so what else is no UTF-8, or turns the direction of writing, is legal. */
size_t serve_path_control(const uint8_t *bytes, size_t length);

#endif
