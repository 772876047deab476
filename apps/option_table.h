/* SPDX-License-Identifier: Apache-2.0 */
/* All options of all subcommands. */
#ifndef APP_OPTION_TABLE_H
#define APP_OPTION_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arguments.h"

#define WORDS_MAX 128

enum {
  KEY_HELP = 'h',
  KEY_OUTPUT = 'o',
  KEY_LONG = 256,
  KEY_JSON = KEY_LONG + 2,
  KEY_METRICS = KEY_LONG + 7,
  KEY_METRICS_WAIT,
  KEY_METRICS_INSECURE,
  KEY_SERIES,
  KEY_SANDBOX,
  KEY_SANDBOX_PATH,
  KEY_BENCH = 512, /* + enum bench_word */
  KEY_TRANSPORT_OPTION = KEY_BENCH + BENCH_WORDS,
  KEY_MEMORY_OPTION,
  KEY_ENDPOINT,
  KEY_NODE,                                 /* + enum node_word */
  KEY_HARDWARE = KEY_NODE + NODE_WORDS,     /* + enum hardware_word */
  KEY_TOPO = KEY_HARDWARE + HARDWARE_WORDS, /* + enum topo_word */
  KEY_DOCTOR = KEY_TOPO + TOPO_WORDS,       /* + enum doctor_word */
  KEY_TLS = KEY_DOCTOR + DOCTOR_WORDS,      /* + enum tls_word */
  KEY_TLS_PEER = KEY_TLS + TLS_WORDS,
  KEY_HOST,
  KEY_SHARE = KEY_HOST + 1, /* + enum share_word */
};

/* One name may be there several times, for commands of different bits. */
struct option_word {
  uint32_t bit; /* those of the commands that have it; 0: every command */
  int key;
  const char *name;
  const char *value; /* NULL: takes none */
  const char *help;
  bool repeats; /* with another value; else one that takes a value is written once */
};
extern const struct option_word app_option_words[];
extern const size_t app_option_word_count;

#endif
