/* SPDX-License-Identifier: Apache-2.0 */
/* A program that a step runs: what it writes, what it costs, how it ends. It dies with its parent.
 */
#ifndef APP_HARDWARE_CHILD_H
#define APP_HARDWARE_CHILD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define CHILD_WORDS 96
#define CHILD_COUNTERS 4

/* A command line. Empty: all zero. */
struct child_words {
  char *words[CHILD_WORDS + 1];
  size_t count;
  bool is_own;   /* this program, whatever words[0] calls it; else one of PATH */
  bool is_short; /* of memory or of room: it cannot be started */
};

/* Adds a word. */
void hardware_child_word(struct child_words *words, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds the words of `text`, which single spaces part. NULL: none. */
void hardware_child_split(struct child_words *words, const char *text);
/* As one would write it in a shell. */
void hardware_child_line(const struct child_words *words, const char *environment, char *line,
                         size_t size);
void hardware_child_words_free(struct child_words *words);

/* Text that a child has written to one of its streams, terminated: of a long text the last part. */
struct child_text {
  int fd; /* -1: it is closed */
  char *bytes;
  size_t length;
};

struct child {
  pid_t pid; /* 0: none is running */
  struct child_text out, err;
  int status; /* waitpid()'s, once has_ended */
  bool has_ended;
  int counter_fds[CHILD_COUNTERS]; /* -1: not counted */
};
/* Not started, so that hardware_child_end() is legal. */
#define CHILD_NONE                                                                                 \
  (struct child)                                                                                   \
  {                                                                                                \
    .out = {.fd = -1}, .err = {.fd = -1}, .counter_fds = { -1, -1, -1, -1 }                        \
  }

/* Starts a child without a terminal: it gets no ^C of this one, and has nothing to read.
 * environment: "NAME=VALUE" more; NULL. Variables of cmocka are left out. is_counted: its
 * instructions are. 0, or -errno. */
int hardware_child_start(struct child *child, const struct child_words *words,
                         const char *environment, bool is_counted);
/* Takes what it has written, and notes its end; sleeps at most `ns` for either. */
void hardware_child_pump(struct child *child, uint64_t ns);
/* A signal, if it still runs. */
void hardware_child_signal(const struct child *child, int number);
/* Kills it if it still runs, and frees all. */
void hardware_child_end(struct child *child);

/* How it ended, in words: "status 3", "killed by signal 11 (Segmentation fault)". */
void hardware_child_how_ended(const struct child *child, char *text, size_t size);
/* Whether a line of its standard error begins with `start`, and has `words` behind that. */
bool hardware_child_has_said(const struct child *child, const char *start, const char *words);
/* The text of the last error that it has said there; else its last line. Cut to `size`. */
void hardware_child_last_error(const struct child *child, char *text, size_t size);
/* Returns the text behind the words by which programs of Penstock begin an error; NULL: the line is
 * none. */
const char *hardware_child_error_in(const char *line);
/* 0 to 255; -1: by a signal. */
int hardware_child_exit_status(const struct child *child);

/* Writes the child's counters in user space, by hardware_child_counter_names; -1: this machine does
 * not count it. Call it when the child has ended. */
void hardware_child_counters(const struct child *child, double values[CHILD_COUNTERS]);
/* Whether this user and machine can count them. */
bool hardware_child_can_count(void);
extern const char *const hardware_child_counter_names[CHILD_COUNTERS];

#endif
