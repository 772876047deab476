/* SPDX-License-Identifier: Apache-2.0 */
/* The command line: options, their values and their units. */
#include "arguments.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "log.h"
#include "option_table.h"
#include "util/suggest.h"
#include "util/tls_params.h"
#include "util/units.h"

#define NAME_MAX_BYTES 64
#define HELP_COLUMNS 96
#define HELP_INDENT 26 /* column at which the help of an option begins */
#define HELP_LEFT (HELP_INDENT - 4)

const char *app_arguments_meant(const char *word, const char *const *names, size_t count,
                                const char *lead, char text[ARGUMENTS_MEANT_BYTES])
{
  const char *near = suggest_name(word, names, count);

  text[0] = '\0';
  if (near)
    snprintf(text, ARGUMENTS_MEANT_BYTES, "%s%s'?", lead, near);
  return text;
}

int app_arguments_duration(const char *text, uint64_t *ns)
{
  const bool is_bare = text[strspn(text, "0123456789.")] == '\0';
  char whole[64];
  int length = snprintf(whole, sizeof(whole), "%s%s%s", text[0] == '.' ? "0" : "", text,
                        is_bare && text[0] != '\0' ? "s" : "");

  return length < (int)sizeof(whole) ? units_parse(PST_OPTION_DURATION, whole, ns) : -EINVAL;
}

int app_arguments_count(const char *text, uint64_t *count)
{
  return units_parse(PST_OPTION_UINT, text, count);
}

int app_arguments_size(const char *text, uint64_t *bytes)
{
  return units_parse(PST_OPTION_SIZE, text, bytes);
}

static int arguments_append(const char ***list, size_t *count, const char *item)
{
  const char **longer = reallocarray(*list, *count + 2, sizeof(*longer));
  if (!longer)
    return -ENOMEM;
  longer[(*count)++] = item;
  longer[*count] = NULL;
  *list = longer;
  return 0;
}

static char *arguments_join(int argc, char **argv)
{
  size_t length = sizeof("penstock");
  for (int i = 0; i < argc; i++)
    length += strlen(argv[i]) + 1;
  char *line = malloc(length);
  if (!line)
    return NULL;
  char *at = stpcpy(line, "penstock");
  for (int i = 0; i < argc; i++)
    at = stpcpy(stpcpy(at, " "), argv[i]);
  return line;
}

/* The option that such a text begins with: "--count" of "--count 'x' is not …"; NULL: none. */
static const char *arguments_option_of(const char *what, char *option, size_t size)
{
  static const char *const before[] = {"unknown ", "option ", "'"};

  for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++)
    if (strncmp(what, before[i], strlen(before[i])) == 0)
      what += strlen(before[i]);
  snprintf(option, size, "%.*s", (int)strcspn(what, " ='"), what);
  return option[0] == '-' ? option : NULL;
}

enum arguments_result app_arguments_wrong(const struct command *command, const char *format, ...)
{
  char what[512], option[256];
  va_list args;

  va_start(args, format);
  vsnprintf(what, sizeof(what), format, args);
  va_end(args);
  app_log_error_at(arguments_option_of(what, option, sizeof(option)),
                   "%s: %s; `penstock %s --help` lists the options", command->name, what,
                   command->name);
  return ARGUMENTS_WRONG;
}

static enum arguments_result arguments_unknown_option(const struct command *command,
                                                      const char *written)
{
  const char *names[WORDS_MAX];
  char bare[NAME_MAX_BYTES + 1], meant[ARGUMENTS_MEANT_BYTES];
  bool known = false, takes_none = false;
  size_t count = 0;

  snprintf(bare, sizeof(bare), "%s", written + strspn(written, "-"));
  bare[strcspn(bare, "=")] = '\0';
  for (size_t i = 0; i < app_option_word_count; i++) {
    bool ours = (app_option_words[i].bit & command->options) != 0 || app_option_words[i].bit == 0;
    if (strcmp(bare, app_option_words[i].name) == 0) {
      known = true;
      takes_none |= ours;
    }
    if (ours)
      names[count++] = app_option_words[i].name;
  }
  if (known) {
    return app_arguments_wrong(command,
                               takes_none ? "option '--%s' takes no value"
                                          : "'--%s' is an option of other subcommands",
                               bare);
  }
  return app_arguments_wrong(command, "unknown option '%.200s'%s", written,
                             app_arguments_meant(bare, names, count, ", did you mean '--", meant));
}

static enum arguments_result arguments_add(const struct command *command, const char ***list,
                                           size_t *count, const char *item)
{
  return arguments_append(list, count, item) < 0 ? app_arguments_wrong(command, "out of memory")
                                                 : ARGUMENTS_OK;
}

static bool arguments_is_assignment(const char *text)
{
  return strchr(text, '=') && text[0] != '=';
}

/* Stores one option's value. A wrong value is reported with the form that is accepted. */
static enum arguments_result arguments_take(const struct command *command, int key,
                                            const char *value, struct arguments *a)
{
  switch (key) {
  case KEY_LONG:
    a->duration_set = true;
    if (app_arguments_duration(value, &a->duration_ns) < 0 || a->duration_ns == 0)
      return app_arguments_wrong(
          command, "--duration '%.100s' is not a time above 0; write 3, 1.5, 250ms, 2min or 1h",
          value);
    return ARGUMENTS_OK;
  case KEY_LONG + 1:
    a->count_set = true;
    if (app_arguments_count(value, &a->count) < 0)
      return app_arguments_wrong(command, "--count '%.100s' is not a whole number up to 2^64 - 1",
                                 value);
    return ARGUMENTS_OK;
  case KEY_JSON:
    if (value[0] == '\0')
      return app_arguments_wrong(command,
                                 "--json needs the name of a file, or - for standard output");
    a->json = value;
    return ARGUMENTS_OK;
  case KEY_LONG + 3:
    return arguments_add(command, &a->streams, &a->stream_count, value);
  case KEY_LONG + 4:
    if (!arguments_is_assignment(value))
      return app_arguments_wrong(
          command, "--set '%.200s' is not PATH=VALUE, as in --set streams.packets.ring=4096",
          value);
    return arguments_add(command, &a->sets, &a->set_count, value);
  case KEY_LONG + 5:
    /* The caller would choose code that runs with more privileges than the caller has. */
    if (getauxval(AT_SECURE) != 0)
      return app_arguments_wrong(
          command, "--plugin-path is refused: this program runs with other privileges than its "
                   "caller's; install the plugins");
    return arguments_add(command, &a->plugin_paths, &a->plugin_path_count, value);
  case KEY_LONG + 6:
    a->judged_for = value;
    if (strcmp(value, "run") != 0 && strcmp(value, "send") != 0 && strcmp(value, "receive") != 0)
      return app_arguments_wrong(command, "--for '%.100s' is not one of run, send, receive", value);
    return ARGUMENTS_OK;
  case KEY_METRICS:
    a->metrics = value;
    return ARGUMENTS_OK;
  case KEY_METRICS_WAIT:
    if (app_arguments_duration(value, &a->metrics_wait_ns) < 0)
      return app_arguments_wrong(
          command, "--metrics-wait '%.100s' is not a time; write 15, 1.5, 250ms or 2min", value);
    return ARGUMENTS_OK;
  case KEY_METRICS_INSECURE:
    a->metrics_insecure = true;
    return ARGUMENTS_OK;
  case KEY_SERIES:
    a->series = true;
    return ARGUMENTS_OK;
  case KEY_SANDBOX:
    a->sandbox = value;
    if (strcmp(value, "auto") != 0 && strcmp(value, "require") != 0 && strcmp(value, "off") != 0)
      return app_arguments_wrong(command, "--sandbox '%.100s' is not one of auto, require, off",
                                 value);
    return ARGUMENTS_OK;
  case KEY_SANDBOX_PATH:
    return arguments_add(command, &a->sandbox_paths, &a->sandbox_path_count, value);
  case 'q':
    a->quiet = true;
    return ARGUMENTS_OK;
  case 'v':
    a->verbose++;
    return ARGUMENTS_OK;
  case KEY_TRANSPORT_OPTION:
  case KEY_MEMORY_OPTION:
    if (!arguments_is_assignment(value))
      return app_arguments_wrong(command,
                                 "--%s-option '%.200s' is not KEY=VALUE; `penstock plugins NAME` "
                                 "lists the options of a plugin",
                                 key == KEY_TRANSPORT_OPTION ? "transport" : "memory", value);
    return key == KEY_TRANSPORT_OPTION
               ? arguments_add(command, &a->transport_options, &a->transport_option_count, value)
               : arguments_add(command, &a->memory_options, &a->memory_option_count, value);
  case KEY_ENDPOINT:
    return arguments_add(command, &a->endpoints, &a->endpoint_count, value);
  case KEY_HOST:
    return arguments_add(command, &a->hosts, &a->host_count, value);
  case KEY_TLS_PEER:
    return arguments_add(command, &a->tls_peers, &a->tls_peer_count, value);
  default: {
    const char **word = key == KEY_OUTPUT     ? &a->topo[INIT_OUTPUT]
                        : key >= KEY_SHARE    ? &a->share[key - KEY_SHARE]
                        : key >= KEY_TLS      ? &a->tls_words[key - KEY_TLS]
                        : key >= KEY_DOCTOR   ? &a->doctor[key - KEY_DOCTOR]
                        : key >= KEY_TOPO     ? &a->topo[key - KEY_TOPO]
                        : key >= KEY_HARDWARE ? &a->hardware[key - KEY_HARDWARE]
                        : key >= KEY_NODE     ? &a->node[key - KEY_NODE]
                                              : &a->bench[key - KEY_BENCH];
    *word = value ? value : "";
    return ARGUMENTS_OK;
  }
  }
}

static enum arguments_result arguments_take_operands(const struct command *command, int argc,
                                                     char **argv, struct arguments *a)
{
  const bool has_operand = command->operand != NULL;
  size_t most = command->operands_most > 0 ? command->operands_most : has_operand;
  size_t least = command->operands_least > 0 ? command->operands_least : has_operand;

  while (optind < argc && a->operand_count < most) {
    if (arguments_append(&a->operands, &a->operand_count, argv[optind++]) < 0)
      return app_arguments_wrong(command, "out of memory");
  }
  a->operand = a->operand_count > 0 ? a->operands[0] : NULL;
  if (optind < argc && !has_operand)
    return app_arguments_wrong(command, "only options may follow, not '%.200s'", argv[optind]);
  if (optind < argc) {
    return app_arguments_wrong(command, "one %s is enough, '%.200s' is too many", command->operand,
                               argv[optind]);
  }
  if (a->operand_count < least && command->need == OPERAND_REQUIRED) {
    return app_arguments_wrong(command, "%s is missing%s", command->operand,
                               a->operand_count > 0 ? " in part" : "");
  }
  return ARGUMENTS_OK;
}

static enum arguments_result arguments_wrong_option(const struct command *command, int key,
                                                    char **argv)
{
  const char *written = argv[optind > 0 ? optind - 1 : 0];
  char letter[3] = {'-', (char)optopt, '\0'};

  if (key == ':') {
    return app_arguments_wrong(command, "option '%.200s' needs a value", written);
  }
  bool is_short = optopt > 0 && optopt < KEY_LONG && strncmp(written, "--", 2) != 0;
  return arguments_unknown_option(command, is_short ? letter : written);
}

/* An option that is given twice is refused: otherwise one value would be ignored without a word. */
static enum arguments_result arguments_refuse_twice(const struct command *command,
                                                    const struct option_word *word,
                                                    const char *value, struct arguments *arguments)
{
  if (word->key == KEY_JSON && value[0] != '\0')
    arguments->json = value;
  return app_arguments_wrong(command,
                             "--%s is written twice, the second time with '%.200s'; write it once",
                             word->name, value);
}

/* Whether the value is the next option, for it was forgotten: that one is read then. A value that
 * begins so is written behind a '='. */
static bool arguments_gives_back(char **argv)
{
  if (optarg != argv[optind - 1] || strncmp(optarg, "--", 2) != 0)
    return false;
  optind--;
  return true;
}

/* Takes the options of TLS together. */
static enum arguments_result arguments_take_tls(const struct command *command, struct arguments *a)
{
  bool is_written = a->tls_peer_count > 0;

  for (int word = 0; word < TLS_WORDS; word++)
    is_written |= a->tls_words[word] != NULL;
  if (!is_written)
    return ARGUMENTS_OK;
  a->tls_params = (struct pst_tls_params){.struct_size = sizeof(a->tls_params),
                                          .peer_count = (uint32_t)a->tls_peer_count,
                                          .certificate = a->tls_words[TLS_CERTIFICATE],
                                          .key = a->tls_words[TLS_KEY],
                                          .ca = a->tls_words[TLS_CA],
                                          .crl = a->tls_words[TLS_CRL],
                                          .peers = a->tls_peers,
                                          .psk = a->tls_words[TLS_PSK]};
  a->tls = &a->tls_params;
  const char *wrong = pst_tls_params_wrong(a->tls);
  if (wrong)
    return app_arguments_wrong(command, "--tls-...: %s", wrong);
  if (a->node[NODE_INSECURE] || a->bench[BENCH_INSECURE])
    return app_arguments_wrong(
        command,
        "--insecure accepts peers without credentials, and TLS does not; remove --insecure or "
        "--tls-...");
  return ARGUMENTS_OK;
}

/* Options that mean nothing without another one. */
static enum arguments_result arguments_check_pairs(const struct command *command,
                                                   const struct arguments *a)
{
  if (!a->metrics && (a->metrics_wait_ns != 0 || a->metrics_insecure))
    return app_arguments_wrong(command, "--metrics-%s needs --metrics ADDRESS:PORT",
                               a->metrics_insecure ? "insecure" : "wait");
  if (a->series && !a->json)
    return app_arguments_wrong(command, "--series goes into the result, and needs --json FILE");
  return ARGUMENTS_OK;
}

enum arguments_result app_arguments_parse(const struct command *command, int argc, char **argv,
                                          struct arguments *arguments)
{
  const struct option_word *words[WORDS_MAX];
  bool seen[WORDS_MAX] = {false};
  struct option longs[WORDS_MAX + 1] = {{0}};
  char shorts[2 * WORDS_MAX + 2] = ":"; /* a letter, and ':' where it takes a value */
  enum arguments_result result = ARGUMENTS_OK;
  size_t count = 0, used = 1;
  int key, index;

  memset(arguments, 0, sizeof(*arguments));
  for (size_t i = 0; i < app_option_word_count; i++) {
    if (app_option_words[i].bit != 0 && (app_option_words[i].bit & command->options) == 0)
      continue;
    words[count] = &app_option_words[i];
    longs[count++] = (struct option){app_option_words[i].name,
                                     app_option_words[i].value ? required_argument : no_argument,
                                     NULL, app_option_words[i].key};
    if (app_option_words[i].key < KEY_LONG)
      used += (size_t)sprintf(shorts + used, "%c%s", app_option_words[i].key,
                              app_option_words[i].value ? ":" : "");
  }
  if (!(arguments->line = arguments_join(argc, argv)))
    return app_arguments_wrong(command, "out of memory");

  opterr = 0;
  optind = 0;
  while (result == ARGUMENTS_OK &&
         (index = -1, key = getopt_long(argc, argv, shorts, longs, &index)) != -1) {
    for (size_t i = 0; index < 0 && i < count; i++)
      index = words[i]->key == key ? (int)i : -1;
    bool has_value = index >= 0 && longs[index].has_arg == required_argument;
    if (has_value && arguments_gives_back(argv)) {
      result = app_arguments_wrong(command, "option '--%s' needs a value", longs[index].name);
      continue;
    }
    if (key == KEY_HELP)
      return ARGUMENTS_HELP;
    if (key == '?' || key == ':')
      result = arguments_wrong_option(command, key, argv);
    else if (has_value && seen[index] && !words[index]->repeats)
      result = arguments_refuse_twice(command, words[index], optarg, arguments);
    else
      result = arguments_take(command, key, optarg, arguments);
    if (has_value)
      seen[index] = true;
  }
  if (result == ARGUMENTS_OK)
    result = arguments_take_operands(command, argc, argv, arguments);
  if (result == ARGUMENTS_OK)
    result = arguments_check_pairs(command, arguments);
  if (result == ARGUMENTS_OK)
    result = arguments_take_tls(command, arguments);
  /* The result that says what is wrong goes to the FILE that is named behind it, too. */
  while (result == ARGUMENTS_WRONG && (key = getopt_long(argc, argv, shorts, longs, NULL)) != -1)
    if (optarg && !arguments_gives_back(argv) && key == KEY_JSON && optarg[0] != '\0')
      arguments->json = optarg;
  return result;
}

void app_arguments_free(struct arguments *arguments)
{
  free(arguments->operands);
  free(arguments->sets);
  free(arguments->streams);
  free(arguments->plugin_paths);
  free(arguments->sandbox_paths);
  free(arguments->transport_options);
  free(arguments->memory_options);
  free(arguments->endpoints);
  free(arguments->hosts);
  free(arguments->tls_peers);
  free(arguments->line);
  memset(arguments, 0, sizeof(*arguments));
}

/* `text` from column `indent` on, in lines of at most HELP_COLUMNS. The first line begins there. */
static void arguments_print_wrapped(const char *text, int indent)
{
  int column = indent;

  while (*text != '\0') {
    int length = (int)strcspn(text, " ");
    if (column > indent && column + 1 + length > HELP_COLUMNS) {
      printf("\n%*s", indent, "");
      column = indent;
    } else if (column > indent) {
      putchar(' ');
      column++;
    }
    printf("%.*s", length, text);
    column += length;
    text += length;
    text += strspn(text, " ");
  }
  putchar('\n');
}

static void arguments_print_option(const struct option_word *word)
{
  char left[64];

  if (word->key < KEY_LONG)
    snprintf(left, sizeof(left), "-%c, --%s%s%s", word->key, word->name, word->value ? " " : "",
             word->value ? word->value : "");
  else
    snprintf(left, sizeof(left), "    --%s%s%s", word->name, word->value ? " " : "",
             word->value ? word->value : "");
  if (strlen(left) > HELP_LEFT)
    printf("  %s\n%*s", left, HELP_INDENT, "");
  else
    printf("  %-*s", HELP_INDENT - 2, left);
  arguments_print_wrapped(word->help, HELP_INDENT);
}

void app_arguments_help(const struct command *command)
{
  const bool is_optional = command->need == OPERAND_OPTIONAL;

  printf("Usage: penstock %s ", command->name);
  if (command->operand)
    printf("%s%s%s ", is_optional ? "[" : "", command->operand, is_optional ? "]" : "");
  printf("[options]\n\n%s\n\nOptions:\n", command->help);
  for (size_t i = 0; i < app_option_word_count; i++)
    if (app_option_words[i].bit == 0 || (app_option_words[i].bit & command->options) != 0)
      arguments_print_option(&app_option_words[i]);
}
