/* SPDX-License-Identifier: Apache-2.0 */
/* Subcommands, their options, and what was written on the command line. */
#ifndef APP_ARGUMENTS_H
#define APP_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/penstock.h>

struct json_object;

enum option_bit {
  OPTION_JSON = 1u << 0,
  OPTION_DURATION = 1u << 1,
  OPTION_COUNT = 1u << 2,
  OPTION_SET = 1u << 3,
  OPTION_STREAM = 1u << 4,
  OPTION_PLUGIN_PATH = 1u << 5,
  OPTION_QUIET = 1u << 6,
  OPTION_VERBOSE = 1u << 7,
  OPTION_BENCH = 1u << 8, /* all of enum bench_word */
  OPTION_NODE = 1u << 9,  /* of enum node_word: what serve and its clients have */
  OPTION_SERVE = 1u << 10,
  OPTION_REQUEST = 1u << 11,
  OPTION_COPY = 1u << 12, /* get, put */
  OPTION_FOR = 1u << 13,  /* check */
  OPTION_HARDWARE = 1u << 14,
  OPTION_TOPO = 1u << 15,
  OPTION_INIT = 1u << 16,
  OPTION_ROOT = 1u << 17, /* what reads a recorded machine, too */
  OPTION_METRICS = 1u << 18,
  OPTION_SERIES = 1u << 19,
  OPTION_REPORT = 1u << 20,
  OPTION_DOCTOR = 1u << 21,
  OPTION_TLS = 1u << 22,
  OPTION_SANDBOX = 1u << 23,
  OPTION_SHARE = 1u << 24,
  OPTION_KEYS = 1u << 25,
};

/* Options of `bench` alone, as they were written; bench/cases.c reads them. */
enum bench_word {
  BENCH_TRANSPORT,
  BENCH_MEMORY,
  BENCH_OP,
  BENCH_SIZE,
  BENCH_BANDWIDTH,
  BENCH_LATENCY,
  BENCH_RING,
  BENCH_DEPTH,
  BENCH_PLACES,
  BENCH_PATH,
  BENCH_CPU,
  BENCH_TOUCH,
  BENCH_HOLD,
  BENCH_VERIFY,
  BENCH_SERVER,
  BENCH_ONCE,
  BENCH_IN_PROCESS,
  BENCH_INSECURE,
  BENCH_CSV,
  BENCH_ALL_PAIRS,
  BENCH_EXCHANGE,
  BENCH_RANK,
  BENCH_RANKS,
  BENCH_WAIT,
  BENCH_HEAT_MAP,
  BENCH_WORDS,
};

/* Options of `serve`, `request`, `get` and `put` alone; option_table.c has their words. */
enum node_word {
  NODE_TRANSPORT,
  NODE_MEMORY,
  NODE_INSECURE,
  NODE_TIMEOUT,
  NODE_ROOT,
  NODE_READ_ONLY,
  NODE_OVERWRITE,
  NODE_CLIENTS,
  NODE_IN_FLIGHT,
  NODE_REQUEST_MAX,
  NODE_OFFER_MAX,
  NODE_FILE_MAX,
  NODE_IDLE,
  NODE_ONCE,
  NODE_SIZE,
  NODE_PIECES,
  NODE_OFFSET,
  NODE_DEPTH,
  NODE_NO_VERIFY,
  NODE_TO,
  NODE_RECURSIVE,
  NODE_RESUME,
  NODE_SHA256,
  NODE_CHUNK,
  NODE_WORDS,
};

/* Files of TLS, as they were written: arguments.tls has them. */
enum tls_word {
  TLS_CERTIFICATE,
  TLS_KEY,
  TLS_CA,
  TLS_CRL,
  TLS_PSK,
  TLS_WORDS,
};

/* Options of `hardware-check` alone; hardware/hardware.c reads them. */
enum hardware_word {
  HARDWARE_DEVICE,
  HARDWARE_PEER_DEVICE,
  HARDWARE_CHECK,
  HARDWARE_LIMIT,
  HARDWARE_OUTAGE,
  HARDWARE_READDRESS,
  HARDWARE_WORDS,
};

/* Options of `topo` and `init` alone; topo/topo.c and init/init.c read them. */
enum topo_word {
  TOPO_ROOT,
  TOPO_SVG,
  INIT_AS,
  INIT_FROM,
  INIT_TO,
  INIT_PEER,
  INIT_TRANSPORT,
  INIT_RATE,
  INIT_OUTPUT,
  TOPO_WORDS,
};

/* Options of `doctor` alone; doctor/doctor.c reads them. */
enum doctor_word {
  DOCTOR_FOR,
  DOCTOR_AREA,
  DOCTOR_RECORD,
  DOCTOR_WORDS,
};

/* Options of `share` alone; share/share.c reads them. */
enum share_word {
  SHARE_SOCKET,
  SHARE_TRANSPORT,
  SHARE_ALLOW,
  SHARE_REGIONS,
  SHARE_BYTES,
  SHARE_ENDPOINTS,
  SHARE_WORKERS,
  SHARE_CLIENTS,
  SHARE_RATE,
  SHARE_HUGE,
  SHARE_MEMORY,
  SHARE_LIMITS,
  SHARE_WORDS,
};

enum operand_need { OPERAND_REQUIRED, OPERAND_OPTIONAL };

struct arguments {
  const char *operand;   /* the first: FILE or NAME; NULL */
  const char **operands; /* all */
  size_t operand_count;
  const char *judged_for; /* "run", "send", "receive"; NULL: each */
  const char *json;       /* "-": stdout; NULL: none */
  const char *metrics;    /* ADDRESS:PORT; NULL: no metrics are served */
  bool metrics_insecure;
  uint64_t metrics_wait_ns;
  bool series;
  const char *sandbox; /* "auto", "require", "off"; NULL: auto */
  const char **sandbox_paths;
  size_t sandbox_path_count;
  uint64_t duration_ns;
  bool duration_set;
  uint64_t count;
  bool count_set;
  const char **sets;
  size_t set_count;
  const char **streams;
  size_t stream_count;
  const char **plugin_paths;
  size_t plugin_path_count;
  const char *bench[BENCH_WORDS]; /* NULL: not written; "": has no value */
  const char *node[NODE_WORDS];
  const char *hardware[HARDWARE_WORDS];
  const char *topo[TOPO_WORDS];
  const char *doctor[DOCTOR_WORDS];
  const char *tls_words[TLS_WORDS];
  const char **hosts; /* of keys */
  size_t host_count;
  const char **tls_peers;
  size_t tls_peer_count;
  struct pst_tls_params tls_params;
  const struct pst_tls_params *tls; /* NULL: none of its options was written */
  const char **transport_options;   /* "k=v" */
  const char *share[SHARE_WORDS];
  size_t transport_option_count;
  const char **memory_options;
  size_t memory_option_count;
  const char **endpoints; /* of bench --all-pairs */
  size_t endpoint_count;
  bool quiet;
  int verbose;
  char *line; /* the whole command line, for results */
};

struct command {
  const char *name;
  const char *operand; /* "FILE"; NULL: it has none */
  enum operand_need need;
  uint32_t operands_least, operands_most; /* 0: one, as `need` says */
  uint32_t options;                       /* enum option_bit */
  uint32_t roles; /* of the streams that it runs, enum pst_session_role bits; 0: none */
  bool forks;     /* and has no other thread before: it calls app_result_watch() itself */
  const char *summary;
  const char *help; /* what follows the usage line: what it does, two examples */
  /* Is `path` a file that the operands have the command read or write? NULL: they name none. */
  bool (*names_file)(const struct arguments *arguments, const char *path);
  /* Hides in a result what identifies a host, before it is written; NULL: nothing. Any thread. */
  void (*redact)(const struct arguments *arguments, struct json_object *result);
  /* Whether it writes no result here, whatever --json says; NULL: never. */
  bool (*is_silent)(const struct arguments *arguments);
  int (*run)(const struct command *command, const struct arguments *arguments);
};

enum arguments_result { ARGUMENTS_OK = 0, ARGUMENTS_HELP = 1, ARGUMENTS_WRONG = -1 };

/* argv[0] is the subcommand's name. WRONG: said on stderr why, with the nearest
 * option. Free with app_arguments_free in any case. */
enum arguments_result app_arguments_parse(const struct command *command, int argc, char **argv,
                                          struct arguments *arguments);
void app_arguments_free(struct arguments *arguments);

/* The page of --help, on stdout. */
void app_arguments_help(const struct command *command);

/* Say what is wrong with the command line, and where its options are listed. */
enum arguments_result app_arguments_wrong(const struct command *command, const char *format, ...)
    PST_PRINTF(2, 3);

/* Reads "3", "1.5" (seconds), or a number with a unit as in YAML: ns us ms s min h. 0, -EINVAL or
 * -ERANGE. */
int app_arguments_duration(const char *text, uint64_t *ns);
/* Reads a whole number. 0, -EINVAL or -ERANGE. */
int app_arguments_count(const char *text, uint64_t *count);
/* "64", "1462B", "64 KiB": whole bytes, with a unit of YAML's sizes. 0 or -EINVAL,
 * -ERANGE. */
int app_arguments_size(const char *text, uint64_t *bytes);

/* Writes the rest of a message about a word that is none of `names`: `lead`, ", did you mean '",
 * the nearest name, and "'?"; "": none is near. */
#define ARGUMENTS_MEANT_BYTES 128
const char *app_arguments_meant(const char *word, const char *const *names, size_t count,
                                const char *lead, char text[ARGUMENTS_MEANT_BYTES]);

#endif
