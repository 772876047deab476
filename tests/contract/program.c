/* SPDX-License-Identifier: Apache-2.0 */
/* penstock-contract: does a plugin keep what the headers promise? */
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include <penstock/penstock.h>

#include "datagram.h"
#include "harness.h"
#include "program.h"

static const char usage[] =
    "Usage: penstock-contract PLUGIN.so [OPTION]…\n"
    "\n"
    "Runs the contract of memories, transports or filters against a plugin, and reports each\n"
    "case.\n"
    "\n"
    "  --option KEY=VALUE  an option of the plugin, or of the transport that a filter wraps;\n"
    "                      may be repeated\n"
    "  --inner PLUGIN.so   the transport plugin that a filter wraps\n"
    "  --memory PLUGIN.so  the memory plugin for a transport's messages (default: shared\n"
    "                      memory of the test)\n"
    "  --listen ADDRESS    run the part for two processes, and wait at ADDRESS for another\n"
    "                      penstock-contract: HOST:PORT, or /PATH of a socket on this host,\n"
    "                      which can pass descriptors\n"
    "  --connect ADDRESS   run the part for two processes, with the penstock-contract that\n"
    "                      listens at ADDRESS\n"
    "  --messages NUMBER   messages of each stream of that part, the same number at both ends\n"
    "                      (default: 5000)\n"
    "  --case PATTERN      run only the cases whose names match; * and ? are wildcards; may be\n"
    "                      repeated\n"
    "  --skip PATTERN      leave out the cases whose names match; may be repeated\n"
    "  --apart             run only the cases between two processes\n"
    "  --within            run only the cases within one process\n"
    "  --deadline SECONDS  a case that takes longer has failed (default: 20)\n"
    "  --first-failure     end at the first case that fails\n"
    "  --help              print this\n"
    "\n"
    "Environment: CONTRACT_LOG=1 shows what the plugin logs.\n"
    "\n"
    "Exit status: 0 the plugin keeps the contract, 1 it breaks the contract, 2 wrong usage, 77\n"
    "all or some cases cannot run here.\n";

#define OPTIONS_MAX 64
#define MESSAGE_LEAST 1500 /* bytes; what the cases of messages send */

struct arguments {
  const char *plugin, *inner, *memory, *listen, *connect;
  /* NULL-terminated */
  const char *options[OPTIONS_MAX + 1], *cases[OPTIONS_MAX + 1], *skipped[OPTIONS_MAX + 1];
  size_t option_count, case_count, skipped_count;
  uint64_t messages;
  bool apart, within;
};

static int misused(const char *what, const char *which)
{
  fprintf(stderr, "penstock-contract: %s%s; see --help\n", what, which);
  return 2;
}

static bool number(const char *text, uint64_t *value)
{
  char *end;
  unsigned long long given = strtoull(text, &end, 10);
  if (*text < '0' || *text > '9' || *end || given < 1 || given > 1000000000)
    return false;
  *value = given;
  return true;
}

/* 0; or exit status + 1. */
static int parse(int argc, char **argv, struct arguments *arguments)
{
  static const struct option options[] = {
      {"option", required_argument, NULL, 'o'},   {"inner", required_argument, NULL, 'i'},
      {"memory", required_argument, NULL, 'm'},   {"listen", required_argument, NULL, 'l'},
      {"connect", required_argument, NULL, 'c'},  {"messages", required_argument, NULL, 'n'},
      {"case", required_argument, NULL, 'k'},     {"skip", required_argument, NULL, 's'},
      {"deadline", required_argument, NULL, 'd'}, {"first-failure", no_argument, NULL, 'f'},
      {"apart", no_argument, NULL, 'a'},          {"within", no_argument, NULL, 'w'},
      {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0}};
  int option;
  while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
    if (option == 'h') {
      fputs(usage, stdout);
      return 1;
    }
    if (option == 'o' && (!strchr(optarg, '=') || arguments->option_count == OPTIONS_MAX))
      return 1 + misused("not KEY=VALUE, or too many: ", optarg);
    if ((option == 'k' && arguments->case_count == OPTIONS_MAX) ||
        (option == 's' && arguments->skipped_count == OPTIONS_MAX))
      return 1 + misused("too many patterns: ", optarg);
    if (option == 'o')
      arguments->options[arguments->option_count++] = optarg;
    else if (option == 'f')
      contract_stop_at_failure();
    else if (option == 'a')
      arguments->apart = true;
    else if (option == 'w')
      arguments->within = true;
    else if (option == 'i')
      arguments->inner = optarg;
    else if (option == 'm')
      arguments->memory = optarg;
    else if (option == 'l')
      arguments->listen = optarg;
    else if (option == 'c')
      arguments->connect = optarg;
    else if (option == 'n') {
      if (!number(optarg, &arguments->messages))
        return 1 + misused("not a number from 1 to 1000000000: ", optarg);
    } else if (option == 'd') {
      uint64_t seconds = 0;
      if (!number(optarg, &seconds) || seconds > 3600)
        return 1 + misused("not a number from 1 to 3600: ", optarg);
      contract_deadline_ns = seconds * UINT64_C(1000000000);
    } else if (option == 'k')
      arguments->cases[arguments->case_count++] = optarg;
    else if (option == 's')
      arguments->skipped[arguments->skipped_count++] = optarg;
    else
      return 1 + misused("an unknown option", "");
  }
  if (optind != argc - 1)
    return 1 + misused("one plugin is wanted", "");
  if (arguments->within && (arguments->apart || arguments->listen || arguments->connect))
    return 1 + misused("--within leaves nothing between processes to try", "");
  arguments->plugin = argv[optind];
  return 0;
}

/* By the loader, so that what it would refuse is refused here too, with its reason. */
static int load(const char *file, char path[PATH_MAX], const struct loader_plugin **plugin)
{
  static const char *const kinds[] = {"transport-", "memory-", "filter-"};
  struct pst_error error = PST_ERROR_INIT;
  char folder[PATH_MAX], name[64];
  if (!realpath(file, path)) {
    fprintf(stderr, "penstock-contract: %s: %s\n", file, strerror(errno));
    return 2;
  }
  const char *base = strrchr(path, '/') + 1, *dot = strchr(base, '.');
  snprintf(folder, sizeof(folder), "%.*s", base == path + 1 ? 1 : (int)(base - path - 1), path);
  for (uint32_t i = 0; i < 3 && dot && strcmp(dot, ".so") == 0; i++) {
    size_t length = strlen(kinds[i]);
    if (strncmp(base, kinds[i], length) != 0)
      continue;
    snprintf(name, sizeof(name), "%.*s", (int)(dot - base - (int)length), base + length);
    if (pst_plugin_path_add(folder) == 0 && loader_load(i + 1, name, plugin, &error) == 0)
      return 0;
    return 1; /* the loader has said why */
  }
  return misused("a plugin is named transport-NAME.so, memory-NAME.so or filter-NAME.so, not ",
                 base);
}

static void ignore_device(void *context, const char *name, const char *detail)
{
  (void)context, (void)name, (void)detail;
}

static int make_options(const struct loader_plugin *plugin, const struct arguments *arguments,
                        struct pst_options **options)
{
  const struct pst_description *description = plugin->description;
  char name[64], why[256];
  if (options_new(description->options, description->option_count, options) != 0)
    return 1;
  for (size_t i = 0; i < arguments->option_count; i++) {
    const char *pair = arguments->options[i], *value = strchr(pair, '=');
    snprintf(name, sizeof(name), "%.*s", (int)(value - pair), pair);
    if (options_set(*options, name, value + 1, why, sizeof(why)) != 0) {
      fprintf(stderr, "penstock-contract: %s: %s\n", name, why);
      return 2;
    }
  }
  for (uint32_t i = 0; i < description->option_count; i++) {
    const struct pst_option *option = &description->options[i];
    if ((option->flags & PST_OPTION_REQUIRED) && !options_is_set(*options, option->name))
      return misused("this option must be given: ", option->name);
  }
  return 0;
}

/* A memory may open with options that a probe does not have. */
static bool opens(const struct loader_plugin *plugin, const struct arguments *arguments)
{
  struct pst_options *options = NULL;
  struct pst_memory *memory = NULL;
  if (plugin->kind != PST_KIND_MEMORY || make_options(plugin, arguments, &options) != 0)
    return false;
  const struct pst_memory_params params = {sizeof(params), 0, options};
  bool opened = plugin->memory->open(plugin->host, &params, &memory) == 0;
  if (opened)
    plugin->memory->close(memory);
  options_free(options);
  return opened;
}

static int probe(const struct loader_plugin *plugin, const struct arguments *arguments)
{
  struct pst_probe found = {.struct_size = sizeof(found), .device = ignore_device};
  if (plugin->plugin->probe(plugin->host, &found) == 0 || opens(plugin, arguments))
    return 0;
  fprintf(stderr, "%s cannot be used here: %s; %s\n", plugin->name, found.reason, found.remedy);
  const char *required = getenv("PENSTOCK_REQUIRE");
  return required && strstr(required, plugin->name) ? 1 : 77;
}

struct recipe {
  const struct loader_plugin *plugin;
  const struct arguments *arguments;
};

static struct pst_options *options_again(void *context)
{
  const struct recipe *recipe = context;
  struct pst_options *options = NULL;
  if (make_options(recipe->plugin, recipe->arguments, &options) != 0)
    abort(); /* it could be made before */
  return options;
}

static int run_memory(const struct loader_plugin *plugin, const struct arguments *arguments)
{
  struct recipe recipe = {plugin, arguments};
  struct pst_options *options = NULL;
  if (arguments->listen || arguments->connect || arguments->inner || arguments->memory)
    return misused("a memory is tried alone", "");
  int status = make_options(plugin, arguments, &options);
  contract_pick(arguments->cases, arguments->skipped);
  if (status == 0)
    status = contract_memory_run(plugin, options_again, &recipe);
  options_free(options);
  return status;
}

/* Returns whether the transport has what the suite's streams for reliable transports need. */
static bool has_all(uint64_t capabilities)
{
  static const struct {
    uint64_t bit;
    const char *name;
  } wanted[] = {{PST_CAP_ORDERED, "ORDERED"}, {PST_CAP_SEQUENCE, "SEQUENCE"}};
  bool all = true;
  for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
    if (!(capabilities & wanted[i].bit)) {
      printf("announces RELIABLE but not %s: only opening and meeting are tried\n", wanted[i].name);
      all = false;
    }
  return all;
}

typedef int suite_run(const struct contract_variant *variant);

/* By what the device announces. Sets *is_whole when that is all there is. */
static suite_run *suite_for(const struct pst_limits *limits, bool *is_whole)
{
  const uint64_t capabilities = limits->capabilities;

  *is_whole = true;
  if (!(capabilities & PST_CAP_SEND)) {
    printf("does not announce SEND: only opening and meeting are tried\n");
    *is_whole = false;
    return contract_life_run;
  }
  if (!(capabilities & PST_CAP_RELIABLE)) {
    printf("does not announce RELIABLE: the contract of datagrams\n");
    return contract_datagram_run;
  }
  if (limits->message_max < MESSAGE_LEAST) {
    printf("takes messages of up to %" PRIu64 " B, and the cases need %d: only opening and meeting "
           "are tried\n",
           limits->message_max, MESSAGE_LEAST);
    *is_whole = false;
    return contract_life_run;
  }
  *is_whole = has_all(capabilities);
  return *is_whole ? contract_transport_run : contract_life_run;
}

static int run_remote(const struct arguments *arguments, struct contract_variant *variant,
                      suite_run *suite)
{
  variant->apart = true;
  variant->name = "two processes";
  if (suite != contract_transport_run) {
    printf("only reliable transports are tried between two programs\n");
    return 77;
  }
  return contract_remote_run(variant, arguments->listen ? arguments->listen : arguments->connect,
                             arguments->listen, arguments->messages)
             ? 1
             : 0;
}

static int run_transport(const struct arguments *arguments, struct contract_variant *variant)
{
  const bool in_process = !arguments->apart;
  bool is_whole, is_reached = false;
  struct pst_limits limits;
  contract_memory_use(arguments->memory);
  variant->apart = !in_process;
  variant->name = in_process ? "in process" : "between processes";
  if (contract_open_run(variant, &limits))
    return 1;
  suite_run *suite = suite_for(&limits, &is_whole);
  contract_pick(arguments->cases, arguments->skipped);
  if (arguments->listen || arguments->connect)
    return run_remote(arguments, variant, suite);
  int failed = in_process ? suite(variant) : 0;
  if (arguments->within)
    return failed ? 1 : is_whole ? 0 : 77;
  variant->apart = true;
  variant->name = "between processes";
  contract_pick(NULL, NULL);
  failed += contract_reach_run(variant, &is_reached);
  contract_pick(arguments->cases, arguments->skipped);
  if (is_reached)
    failed += suite(variant);
  else if (in_process && !failed)
    printf("it says -EXDEV to a peer of another process: not tried between processes\n");
  else {
    if (arguments->apart)
      puts("it says -EXDEV to a peer of another process: with --apart nothing is left to try");
    failed++;
  }
  return failed ? 1 : is_whole ? 0 : 77;
}

/* A plugin that takes all memory costs this program, not another. */
static void die_first(void)
{
  FILE *own = fopen("/proc/self/oom_score_adj", "we");
  if (!own)
    return;
  fputs("1000", own);
  fclose(own);
}

/* Words to go by, last. */
static int tell(const struct arguments *arguments, int status)
{
  if (status != 1 && !contract_picked())
    return misused("of the cases for such a plugin none is named ", arguments->cases[0]);
  if (status == 0)
    puts("penstock-contract: it keeps the contract");
  else if (status == 1)
    puts(
        "penstock-contract: it BREAKS the contract: an ERROR above says what was called and what "
        "came back,\nthe RULE behind it what the headers say; CONTRACT_LOG=1 shows what the plugin "
        "logs,\n--case NAME runs one case alone, --first-failure ends at the first that fails");
  else if (status == 77)
    puts("penstock-contract: what was tried keeps the contract, but not all could be");
  return status;
}

int main(int argc, char **argv)
{
  static char path[PATH_MAX], inner[PATH_MAX], joined[2 * PATH_MAX];
  const struct loader_plugin *plugin, *wrapped = NULL;
  struct arguments arguments = {.messages = 5000};
  struct pst_options *options = NULL;
  setvbuf(stdout, NULL, _IOLBF, 0);
  die_first();
  int status = parse(argc, argv, &arguments);
  if (status)
    return status - 1;
  status = load(arguments.plugin, path, &plugin);
  if (status == 0 && arguments.inner)
    status = load(arguments.inner, inner, &wrapped);
  if (status == 0)
    status = probe(plugin, &arguments);
  if (status)
    return status;
  printf("%s %s\n", path, plugin->description->version);
  if (plugin->kind == PST_KIND_MEMORY)
    return tell(&arguments, run_memory(plugin, &arguments));
  if ((plugin->kind == PST_KIND_FILTER) != (wrapped != NULL))
    return misused("--inner goes with a filter, and a filter with --inner", "");
  status = make_options(wrapped ? wrapped : plugin, &arguments, &options);
  options_free(options);
  if (status)
    return status;
  snprintf(joined, sizeof(joined), "%s%s%s", path, wrapped ? "+" : "", inner);
  struct contract_variant variant = {
      .plugin = joined, .option_list = arguments.options, .silent = true};
  return tell(&arguments, run_transport(&arguments, &variant));
}
