/* SPDX-License-Identifier: Apache-2.0 */
#include "arguments.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "notice.h"

#define NAME_MAX_BYTES 64

enum {
  KEY_HELP = 'h',
  KEY_LONG = 256,
  KEY_BENCH = 512, /* + enum bench_word */
  KEY_TRANSPORT_OPTION = KEY_BENCH + BENCH_WORDS,
  KEY_MEMORY_OPTION,
};

static const struct option_word {
  uint32_t bit; /* 0: every command has it */
  int key;
  const char *name;
  const char *value; /* NULL: takes none */
  const char *help;
} words[] = {
    {OPTION_BENCH, KEY_BENCH + BENCH_TRANSPORT, "transport", "NAME",
     "the transport plugin that is measured"},
    {OPTION_BENCH, KEY_TRANSPORT_OPTION, "transport-option", "KEY=VALUE",
     "an option of it; may be repeated"},
    {OPTION_BENCH, KEY_BENCH + BENCH_MEMORY, "memory", "NAME",
     "the memory plugin of this side (of both without a HOST)"},
    {OPTION_BENCH, KEY_MEMORY_OPTION, "memory-option", "KEY=VALUE",
     "an option of it; may be repeated"},
    {OPTION_BENCH, KEY_BENCH + BENCH_OP, "op", "LIST",
     "send,write,read; all that the transport has when not given"},
    {OPTION_BENCH, KEY_BENCH + BENCH_SIZE, "size", "LIST",
     "bytes a message: 64,1462,64KiB; 64 B to 4 MiB in steps of 4 when not given"},
    {OPTION_BENCH, KEY_BENCH + BENCH_BANDWIDTH, "bandwidth", NULL, "no latency"},
    {OPTION_BENCH, KEY_BENCH + BENCH_LATENCY, "latency", NULL, "no bandwidth"},
    {OPTION_BENCH, KEY_LONG, "duration", "TIME", "of each measurement; 500ms when not given"},
    {OPTION_BENCH, KEY_BENCH + BENCH_RING, "ring", "N",
     "send: slots at each end; as many as 4 MiB hold, 16 to 1024, when not given"},
    {OPTION_BENCH, KEY_BENCH + BENCH_DEPTH, "depth", "N",
     "write, read: transfers under way; like --ring when not given"},
    {OPTION_BENCH, KEY_BENCH + BENCH_PATH, "path", "PATH",
     "send: how messages may reach their memory: auto, direct, mapped, staged"},
    {OPTION_BENCH, KEY_BENCH + BENCH_CPU, "cpu", "A[,B]",
     "pin this side's thread to CPU A, and the other end's, when it is here too, to B"},
    {OPTION_BENCH, KEY_BENCH + BENCH_TOUCH, "touch", "yes|no",
     "send, read: read a cache line of each where it arrived; yes where its CPU can"},
    {OPTION_BENCH, KEY_BENCH + BENCH_VERIFY, "verify", NULL,
     "fill each with the test pattern, and check each byte where it arrived"},
    {OPTION_BENCH, KEY_BENCH + BENCH_IN_PROCESS, "in-process", NULL,
     "both ends in one process, by two threads"},
    {OPTION_BENCH, KEY_BENCH + BENCH_SERVER, "server", NULL,
     "be the other end, for clients one after the other"},
    {OPTION_BENCH, KEY_BENCH + BENCH_ONCE, "once", NULL, "as the server: end after one client"},
    {OPTION_BENCH, KEY_BENCH + BENCH_INSECURE, "insecure", NULL,
     "allow a HOST beyond this machine: nothing is authenticated or encrypted"},
    {OPTION_DURATION, KEY_LONG, "duration", "TIME",
     "stop so long after both ends have connected: 3, 1.5, 250ms, 2min"},
    {OPTION_COUNT, KEY_LONG + 1, "count", "N", "stop after N messages of each stream"},
    {OPTION_JSON, KEY_LONG + 2, "json", "FILE", "write the result as JSON; - is standard output"},
    {OPTION_STREAM, KEY_LONG + 3, "stream", "NAME", "only this stream; may be repeated"},
    {OPTION_SET, KEY_LONG + 4, "set", "PATH=VALUE",
     "override a value: streams.packets.ring=4096; may be repeated"},
    {OPTION_PLUGIN_PATH, KEY_LONG + 5, "plugin-path", "DIR",
     "look for plugins here first; may be repeated"},
    {OPTION_QUIET, 'q', "quiet", NULL, "errors only"},
    {OPTION_VERBOSE, 'v', "verbose", NULL, "say more"},
    {0, KEY_HELP, "help", NULL, "this page"},
};
#define WORDS (sizeof words / sizeof words[0])

/* Damerau-Levenshtein distance with adjacent transpositions. */
static size_t distance(const char *a, const char *b)
{
  size_t rows[3][NAME_MAX_BYTES + 1];
  size_t m = strlen(a), n = strlen(b);

  if (m > NAME_MAX_BYTES || n > NAME_MAX_BYTES)
    return NAME_MAX_BYTES;
  for (size_t j = 0; j <= n; j++)
    rows[0][j] = j;
  for (size_t i = 1; i <= m; i++) {
    size_t *row = rows[i % 3], *above = rows[(i - 1) % 3], *twice = rows[(i + 1) % 3];
    row[0] = i;
    for (size_t j = 1; j <= n; j++) {
      size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
      if (above[j] + 1 < best)
        best = above[j] + 1;
      if (row[j - 1] + 1 < best)
        best = row[j - 1] + 1;
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && twice[j - 2] + 1 < best)
        best = twice[j - 2] + 1;
      row[j] = best;
    }
  }
  return rows[m % 3][n];
}

const char *arguments_nearest(const char *word, const char *const *names)
{
  const char *found = NULL;
  size_t least = SIZE_MAX;

  for (; *names != NULL; names++) {
    size_t length = strlen(word) > strlen(*names) ? strlen(word) : strlen(*names);
    size_t allowed = length / 3 > 0 ? length / 3 : 1;
    size_t d = distance(word, *names);
    if (d <= allowed && d < least) {
      least = d;
      found = *names;
    }
  }
  return found;
}

int arguments_duration(const char *text, uint64_t *ns)
{
  static const struct {
    const char *unit;
    double ns;
  } units[] = {{"", 1e9},  {"s", 1e9},    {"ms", 1e6},   {"us", 1e3},
               {"ns", 1.}, {"min", 60e9}, {"h", 3600e9}, {NULL, 0}};
  char *end;

  if (!isdigit((unsigned char)text[0]) && text[0] != '.')
    return -EINVAL;
  /* strtod also takes "0x", "inf" and exponents, which a YAML duration does not. */
  if (strspn(text, "0123456789.") == 0 || text[strspn(text, "0123456789.")] == 'e' ||
      text[strspn(text, "0123456789.")] == 'x')
    return -EINVAL;
  double value = strtod(text, &end);
  if (end == text)
    return -EINVAL;
  while (*end == ' ')
    end++;
  for (size_t i = 0; units[i].unit != NULL; i++) {
    if (strcmp(end, units[i].unit) == 0) {
      double exact = value * units[i].ns;
      if (!(exact < 9.2e18))
        return -ERANGE;
      *ns = (uint64_t)(exact + 0.5);
      return 0;
    }
  }
  return -EINVAL;
}

int arguments_count(const char *text, uint64_t *count)
{
  char *end;

  if (!isdigit((unsigned char)text[0]))
    return -EINVAL;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  if (errno == ERANGE)
    return -ERANGE;
  if (*end != '\0')
    return -EINVAL;
  *count = value;
  return 0;
}

int arguments_size(const char *text, uint64_t *bytes)
{
  static const struct {
    const char *unit;
    uint64_t bytes;
  } units[] = {{"", 1},         {"B", 1},         {"KB", 1000},       {"KiB", 1 << 10},
               {"MB", 1000000}, {"MiB", 1 << 20}, {"GB", 1000000000}, {"GiB", 1 << 30}};
  char *end;

  if (!isdigit((unsigned char)text[0]))
    return -EINVAL;
  errno = 0;
  unsigned long long value = strtoull(text, &end, 10);
  if (errno == ERANGE)
    return -ERANGE;
  while (*end == ' ')
    end++;
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
    uint64_t product;
    if (strcmp(end, units[i].unit) != 0)
      continue;
    if (__builtin_mul_overflow((uint64_t)value, units[i].bytes, &product))
      return -ERANGE;
    *bytes = product;
    return 0;
  }
  return -EINVAL;
}

static int append(const char ***list, size_t *count, const char *item)
{
  const char **longer = reallocarray(*list, *count + 2, sizeof *longer);
  if (longer == NULL)
    return -ENOMEM;
  longer[(*count)++] = item;
  longer[*count] = NULL;
  *list = longer;
  return 0;
}

static char *join(int argc, char **argv)
{
  size_t length = sizeof "penstock";
  for (int i = 0; i < argc; i++)
    length += strlen(argv[i]) + 1;
  char *line = malloc(length);
  if (line == NULL)
    return NULL;
  char *at = stpcpy(line, "penstock");
  for (int i = 0; i < argc; i++)
    at = stpcpy(stpcpy(at, " "), argv[i]);
  return line;
}

enum arguments_result arguments_wrong(const struct command *command, const char *what)
{
  notice(PST_LOG_ERROR, "%s: %s; `penstock %s --help` lists the options", command->name, what,
         command->name);
  return ARGUMENTS_WRONG;
}

static enum arguments_result unknown_option(const struct command *command, const char *written)
{
  const char *names[WORDS + 1];
  char what[512], bare[NAME_MAX_BYTES + 1];
  size_t count = 0;

  snprintf(bare, sizeof bare, "%s", written + strspn(written, "-"));
  bare[strcspn(bare, "=")] = '\0';
  for (size_t i = 0; i < WORDS; i++) {
    if (strcmp(bare, words[i].name) == 0) {
      if ((words[i].bit & command->options) != 0 || words[i].bit == 0)
        snprintf(what, sizeof what, "option '--%s' takes no value", bare);
      else
        snprintf(what, sizeof what, "'--%s' is an option of other subcommands", bare);
      return arguments_wrong(command, what);
    }
    if ((words[i].bit & command->options) != 0 || words[i].bit == 0)
      names[count++] = words[i].name;
  }
  names[count] = NULL;
  const char *near = arguments_nearest(bare, names);
  snprintf(what, sizeof what, "unknown option '%.200s'%s%s%s", written,
           near != NULL ? ", did you mean '--" : "", near != NULL ? near : "",
           near != NULL ? "'?" : "");
  return arguments_wrong(command, what);
}

static enum arguments_result take(const struct command *command, int key, const char *value,
                                  struct arguments *a)
{
  char what[512];
  int result = 0;

  switch (key) {
  case KEY_LONG:
    result = arguments_duration(value, &a->duration_ns);
    if (result == 0 && a->duration_ns == 0)
      result = -EINVAL;
    a->duration_set = true;
    snprintf(what, sizeof what,
             "--duration '%.100s' is not a time above 0; write 3, 1.5, 250ms, 2min or 1h", value);
    break;
  case KEY_LONG + 1:
    result = arguments_count(value, &a->count);
    a->count_set = true;
    snprintf(what, sizeof what, "--count '%.100s' is not a whole number up to 2^64 - 1", value);
    break;
  case KEY_LONG + 2:
    a->json = value;
    if (value[0] == '\0')
      result = -EINVAL;
    snprintf(what, sizeof what, "--json needs the name of a file, or - for standard output");
    break;
  case KEY_LONG + 3:
    result = append(&a->streams, &a->stream_count, value);
    break;
  case KEY_LONG + 4: {
    const char *equals = strchr(value, '=');
    result = equals == NULL || equals == value ? -EINVAL : append(&a->sets, &a->set_count, value);
    snprintf(what, sizeof what,
             "--set '%.200s' is not PATH=VALUE, as in --set streams.packets.ring=4096", value);
    break;
  }
  case KEY_LONG + 5:
    result = append(&a->plugin_paths, &a->plugin_path_count, value);
    break;
  case 'q':
    a->quiet = true;
    break;
  case 'v':
    a->verbose++;
    break;
  case KEY_TRANSPORT_OPTION:
  case KEY_MEMORY_OPTION: {
    bool transport = key == KEY_TRANSPORT_OPTION;
    const char *equals = strchr(value, '=');
    if (equals == NULL || equals == value)
      result = -EINVAL;
    else if (transport)
      result = append(&a->transport_options, &a->transport_option_count, value);
    else
      result = append(&a->memory_options, &a->memory_option_count, value);
    snprintf(what, sizeof what,
             "--%s-option '%.200s' is not KEY=VALUE; `penstock plugins NAME` "
             "lists the options of a plugin",
             transport ? "transport" : "memory", value);
    break;
  }
  default:
    if (key >= KEY_BENCH)
      a->bench[key - KEY_BENCH] = value != NULL ? value : "";
    break;
  }
  if (result == -ENOMEM)
    return arguments_wrong(command, "out of memory");
  return result < 0 ? arguments_wrong(command, what) : ARGUMENTS_OK;
}

static enum arguments_result take_operands(const struct command *command, int argc, char **argv,
                                           struct arguments *a)
{
  char what[512];

  if (optind < argc)
    a->operand = argv[optind++];
  if (optind < argc) {
    snprintf(what, sizeof what, "one %s is enough, '%.200s' is too many", command->operand,
             argv[optind]);
    return arguments_wrong(command, what);
  }
  if (a->operand == NULL && command->need == OPERAND_REQUIRED) {
    snprintf(what, sizeof what, "%s is missing", command->operand);
    return arguments_wrong(command, what);
  }
  return ARGUMENTS_OK;
}

enum arguments_result arguments_parse(const struct command *command, int argc, char **argv,
                                      struct arguments *arguments)
{
  struct option longs[WORDS + 1] = {{0}};
  char shorts[2 * WORDS + 2] = ":", what[512];
  size_t count = 0, used = 1;
  int key;

  memset(arguments, 0, sizeof *arguments);
  for (size_t i = 0; i < WORDS; i++) {
    if (words[i].bit != 0 && (words[i].bit & command->options) == 0)
      continue;
    longs[count++] =
        (struct option){words[i].name, words[i].value != NULL ? required_argument : no_argument,
                        NULL, words[i].key};
    if (words[i].key < KEY_LONG)
      shorts[used++] = (char)words[i].key;
  }
  if ((arguments->line = join(argc, argv)) == NULL)
    return arguments_wrong(command, "out of memory");

  opterr = 0;
  optind = 0;
  while ((key = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
    if (key == KEY_HELP)
      return ARGUMENTS_HELP;
    if (key == '?' || key == ':') {
      const char *written = argv[optind > 0 ? optind - 1 : 0];
      char letter[3] = {'-', (char)optopt, '\0'};
      if (key == ':') {
        snprintf(what, sizeof what, "option '%.200s' needs a value", written);
        return arguments_wrong(command, what);
      }
      bool is_short = optopt > 0 && optopt < KEY_LONG && strncmp(written, "--", 2) != 0;
      return unknown_option(command, is_short ? letter : written);
    }
    enum arguments_result result = take(command, key, optarg, arguments);
    if (result != ARGUMENTS_OK)
      return result;
  }
  return take_operands(command, argc, argv, arguments);
}

void arguments_free(struct arguments *arguments)
{
  free(arguments->sets);
  free(arguments->streams);
  free(arguments->plugin_paths);
  free(arguments->transport_options);
  free(arguments->memory_options);
  free(arguments->line);
  memset(arguments, 0, sizeof *arguments);
}

void arguments_help(const struct command *command)
{
  bool optional = command->need == OPERAND_OPTIONAL;

  printf("Usage: penstock %s %s%s%s [options]\n\n%s\n\nOptions:\n", command->name,
         optional ? "[" : "", command->operand, optional ? "]" : "", command->help);
  for (size_t i = 0; i < WORDS; i++) {
    char left[64];
    if (words[i].bit != 0 && (words[i].bit & command->options) == 0)
      continue;
    if (words[i].key < KEY_LONG)
      snprintf(left, sizeof left, "-%c, --%s", words[i].key, words[i].name);
    else
      snprintf(left, sizeof left, "    --%s %s", words[i].name,
               words[i].value != NULL ? words[i].value : "");
    printf("  %-24s %s\n", left, words[i].help);
  }
}
