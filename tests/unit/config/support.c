/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of config. */
#include "support.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <penstock/transport.h>

#include "../../../apps/schema.h"

/* `source`, `sink` and `expect` are those of the program. */
__attribute__((constructor)) static void register_program(void)
{
  if (pst_config_program(&app_schema_program) < 0)
    abort();
}

static const char *const copy_choices[] = {"auto", "copy", "reference", NULL};
static const struct pst_option loopback_options[] = {{.name = "copy",
                                                      .help = "How.",
                                                      .default_value = "auto",
                                                      .choices = copy_choices,
                                                      .type = PST_OPTION_ENUM,
                                                      .scope = PST_SCOPE_DEVICE},
                                                     {.name = "depth",
                                                      .help = "Depth.",
                                                      .default_value = "4 KiB",
                                                      .min = 1,
                                                      .max = 1 << 20,
                                                      .type = PST_OPTION_SIZE,
                                                      .scope = PST_SCOPE_STREAM},
                                                     {.name = "burst",
                                                      .help = "Burst.",
                                                      .default_value = "64",
                                                      .min = 1,
                                                      .max = 128,
                                                      .type = PST_OPTION_UINT,
                                                      .scope = PST_SCOPE_SENDER},
                                                     {.name = "wait",
                                                      .help = "Wait.",
                                                      .default_value = "1 ms",
                                                      .type = PST_OPTION_DURATION,
                                                      .scope = PST_SCOPE_RECEIVER},
                                                     {.name = "names",
                                                      .help = "Names.",
                                                      .default_value = "[]",
                                                      .type = PST_OPTION_LIST,
                                                      .scope = PST_SCOPE_DEVICE}};
static const struct pst_option verbs_options[] = {{.name = "device",
                                                   .help = "Name the device.",
                                                   .type = PST_OPTION_STRING,
                                                   .max = 31,
                                                   .scope = PST_SCOPE_DEVICE,
                                                   .flags = PST_OPTION_REQUIRED},
                                                  {.name = "mtu",
                                                   .help = "Path MTU.",
                                                   .default_value = "4096",
                                                   .type = PST_OPTION_UINT,
                                                   .scope = PST_SCOPE_STREAM}};
static const struct pst_option cousin_options[] = {{.name = "mtu",
                                                    .help = "Path MTU.",
                                                    .default_value = "4096",
                                                    .type = PST_OPTION_UINT,
                                                    .scope = PST_SCOPE_STREAM},
                                                   {.name = "depth",
                                                    .help = "Depth.",
                                                    .default_value = "4 KiB",
                                                    .type = PST_OPTION_SIZE,
                                                    .scope = PST_SCOPE_STREAM}};
static const struct pst_option host_options[] = {{.name = "numa",
                                                  .help = "Node.",
                                                  .default_value = "auto",
                                                  .type = PST_OPTION_STRING,
                                                  .scope = PST_SCOPE_DEVICE}};
static const struct pst_option cuda_options[] = {{.name = "device",
                                                  .help = "Which GPU.",
                                                  .default_value = "0",
                                                  .type = PST_OPTION_STRING,
                                                  .scope = PST_SCOPE_DEVICE}};
static const struct pst_option fault_options[] = {{.name = "drop",
                                                   .help = "One in so many.",
                                                   .default_value = "0",
                                                   .type = PST_OPTION_UINT,
                                                   .scope = PST_SCOPE_SENDER,
                                                   .flags = PST_OPTION_TESTING}};

static const char *const ways[] = {"write", "send", NULL};
static const struct pst_option ruled_options[] = {
    {.name = "qps",
     .help = "How many.",
     .default_value = "1",
     .type = PST_OPTION_UINT,
     .scope = PST_SCOPE_DEVICE},
    {.name = "way",
     .help = "Which.",
     .default_value = "write",
     .choices = ways,
     .type = PST_OPTION_ENUM,
     .scope = PST_SCOPE_DEVICE},
    {.name = "again",
     .help = "For how long.",
     .default_value = "0",
     .type = PST_OPTION_DURATION,
     .scope = PST_SCOPE_DEVICE},
    {.name = "beat",
     .help = "How often.",
     .default_value = "1 s",
     .type = PST_OPTION_DURATION,
     .scope = PST_SCOPE_DEVICE},
    {.name = "group", .help = "A group.", .type = PST_OPTION_STRING, .scope = PST_SCOPE_RECEIVER},
    {.name = "port",
     .help = "Its port.",
     .default_value = "0",
     .type = PST_OPTION_UINT,
     .scope = PST_SCOPE_RECEIVER},
    {.name = "to",
     .help = "Where to.",
     .default_value = "0",
     .type = PST_OPTION_UINT,
     .scope = PST_SCOPE_SENDER}};
static const struct pst_option_rule rules[] = {
    {.option = "qps", .value = "1", .needs = "way", .needed = "write", .flags = PST_RULE_UNLESS},
    {.option = "again",
     .value = "0",
     .needs = "beat",
     .needed = "0 s",
     .because = "it alone tells",
     .flags = PST_RULE_UNLESS | PST_RULE_OTHER},
    {.option = "way", .value = "send", .needs = "beat", .needed = "1000 ms"},
    {.option = "port", .value = "7", .needs = "group", .needed = "", .flags = PST_RULE_OTHER},
    {.option = "to",
     .value = "0",
     .needs = "port",
     .needed = "0",
     .flags = PST_RULE_UNLESS}, /* of two sides */
};

static const struct pst_option asked_options[] = {
    {.name = "address",
     .help = "Numbers only.",
     .type = PST_OPTION_STRING,
     .scope = PST_SCOPE_RECEIVER},
    {.name = "to", .help = "A destination.", .type = PST_OPTION_STRING, .scope = PST_SCOPE_SENDER}};

static void check_host(const struct pst_check *check, struct pst_facts *facts)
{
  (void)check;
  facts->memory_kinds = 1u << PST_MEMORY_HOST;
}

static void check_cuda(const struct pst_check *check, struct pst_facts *facts)
{
  (void)check;
  facts->memory_kinds = 1u << PST_MEMORY_MAPPED;
  facts->memory_lacks = PST_NEED_CPU_ACCESS;
}

static void check_asked(const struct pst_check *check, struct pst_facts *facts)
{
  const char *address = check->option_string(check->options, "address");
  const uint32_t wants = PST_CHECK_FOREIGN | PST_CHECK_OPENS;

  if (check->side == PST_SCOPE_RECEIVER && address[0] > '9')
    check->report(check, "address", "\"%s\" is not an address", address);
  if (check->side == PST_SCOPE_SENDER && (check->flags & wants) == wants &&
      !check->option_is_set(check->options, "to"))
    check->report(check, "to", "is missing");
  facts->direct_needs = PST_NEED_CPU_ACCESS | PST_NEED_PINNED;
  facts->message_max = 1000;
  facts->slots_max = 100;
  facts->lacks = PST_CAP_SEQUENCE | PST_CAP_META | PST_CAP_TIME | PST_CAP_SHARED_RING |
                 PST_CAP_READ | PST_CAP_WRITE;
}

static const struct pst_option placed_options[] = {
    {.name = "takes", .help = "Alone.", .type = PST_OPTION_STRING, .scope = PST_SCOPE_DEVICE},
    {.name = "shares",
     .help = "With others.",
     .default_value = "false",
     .type = PST_OPTION_BOOL,
     .scope = PST_SCOPE_DEVICE},
    {.name = "to", .help = "Where to.", .type = PST_OPTION_STRING, .scope = PST_SCOPE_SENDER},
    {.name = "at", .help = "Where.", .type = PST_OPTION_STRING, .scope = PST_SCOPE_RECEIVER},
    {.name = "family", .help = "Which.", .type = PST_OPTION_STRING, .scope = PST_SCOPE_DEVICE}};

static void check_placed(const struct pst_check *check, struct pst_facts *facts)
{
  const char *meets = check->side == PST_SCOPE_SENDER ? "to" : "at";

  if ((check->flags & PST_CHECK_APART) &&
      strcmp(check->option_string(check->options, "family"), "near") == 0)
    check->report(check, "family", "\"near\" reaches no other process");
  snprintf(facts->takes, sizeof(facts->takes), "%s", check->option_string(check->options, "takes"));
  snprintf(facts->meets, sizeof(facts->meets), "%s", check->option_string(check->options, meets));
  snprintf(facts->equals, sizeof(facts->equals), "%s",
           check->option_string(check->options, "family"));
  facts->takes_option = "takes";
  facts->meets_option = meets;
  facts->equals_option = "family";
  if (check->option_uint(check->options, "shares"))
    facts->flags |= PST_FACTS_SHARES;
  if (check->flags & PST_CHECK_APART)
    facts->direct_needs = PST_NEED_EXPORT_FD;
}

static void check_closed(const struct pst_check *check, struct pst_facts *facts)
{
  (void)check;
  facts->memory_kinds = 1u << PST_MEMORY_HOST;
  facts->memory_lacks = PST_NEED_EXPORT_FD;
}

#define DESCRIPTION(kind_, name_, options_)                                                        \
  {                                                                                                \
    .kind = kind_, .option_count = sizeof(options_) / sizeof((options_)[0]), .name = name_,        \
    .version = "1", .summary = "a table for tests", .rung = "compiled", .options = options_        \
  }

static const struct pst_description descriptions[] = {
    DESCRIPTION(PST_KIND_TRANSPORT, "loopback", loopback_options),
    DESCRIPTION(PST_KIND_TRANSPORT, "verbs", verbs_options),
    {.kind = PST_KIND_TRANSPORT,
     .option_count = sizeof(cousin_options) / sizeof(cousin_options[0]),
     .name = "cousin",
     .version = "1",
     .summary = "a table for another transport of loopback's wire form",
     .rung = "compiled",
     .options = cousin_options,
     .wire = "loopback"},
    {.kind = PST_KIND_TRANSPORT,
     .option_count = sizeof(ruled_options) / sizeof(ruled_options[0]),
     .name = "ruled",
     .version = "1",
     .summary = "a table with rules",
     .rung = "compiled",
     .options = ruled_options,
     .rules = rules,
     .rule_count = sizeof(rules) / sizeof(rules[0])},
    {.kind = PST_KIND_TRANSPORT,
     .option_count = sizeof(ruled_options) / sizeof(ruled_options[0]),
     .name = "unruled",
     .version = "1",
     .summary = "a table without rules",
     .rung = "compiled",
     .options = ruled_options},
    {.kind = PST_KIND_TRANSPORT,
     .option_count = sizeof(asked_options) / sizeof(asked_options[0]),
     .name = "asked",
     .version = "1",
     .summary = "a table with a check()",
     .rung = "compiled",
     .options = asked_options,
     .check = check_asked},
    {.kind = PST_KIND_TRANSPORT,
     .option_count = sizeof(placed_options) / sizeof(placed_options[0]),
     .name = "placed",
     .version = "1",
     .summary = "a table of a transport whose ends have places",
     .rung = "compiled",
     .options = placed_options,
     .check = check_placed},
    {.kind = PST_KIND_MEMORY,
     .option_count = sizeof(host_options) / sizeof(host_options[0]),
     .name = "closed",
     .version = "1",
     .summary = "a table of a memory without a descriptor",
     .rung = "compiled",
     .options = host_options,
     .check = check_closed},
    {.kind = PST_KIND_MEMORY,
     .option_count = sizeof(host_options) / sizeof(host_options[0]),
     .name = "host",
     .version = "1",
     .summary = "a table of a memory with a check()",
     .rung = "compiled",
     .options = host_options,
     .check = check_host},
    {.kind = PST_KIND_MEMORY,
     .option_count = sizeof(cuda_options) / sizeof(cuda_options[0]),
     .name = "cuda",
     .version = "1",
     .summary = "a table of a memory that the CPU does not reach",
     .rung = "compiled",
     .options = cuda_options,
     .check = check_cuda},
    DESCRIPTION(PST_KIND_FILTER, "fault", fault_options)};
#define DESCRIPTIONS (sizeof(descriptions) / sizeof(descriptions[0]))

static const struct pst_description *find(void *context, uint32_t kind, const char *name)
{
  (void)context;
  for (size_t i = 0; i < DESCRIPTIONS; i++)
    if (descriptions[i].kind == kind && strcmp(descriptions[i].name, name) == 0)
      return &descriptions[i];
  return NULL;
}

static size_t names(void *context, uint32_t kind, const char **list, size_t max)
{
  size_t count = 0;
  (void)context;
  for (size_t i = 0; i < DESCRIPTIONS; i++)
    if (descriptions[i].kind == kind && count < max)
      list[count++] = descriptions[i].name;
  return count;
}

const struct config_catalog test_catalog = {NULL, find, names};

static void swallow(void *context, int level, const char *line)
{
  (void)context;
  (void)level;
  (void)line;
}

int quiet(void **state)
{
  (void)state;
  pst_log_set(swallow, NULL, PST_LOG_ERROR);
  return 0;
}

static size_t count_sets(const char *const *sets)
{
  size_t count = 0;
  while (sets && sets[count])
    count++;
  return count;
}

struct pst_config *load_sets(const char *text, const char *const *sets)
{
  struct pst_error error = PST_ERROR_INIT;
  struct pst_config *config = NULL;
  if (config_load_text(text, strlen(text), "t.yaml", sets, count_sets(sets), &test_catalog, &config,
                       &error))
    fail_msg("refused:\n%s", error.text);
  return config;
}

struct pst_config *load(const char *text)
{
  return load_sets(text, NULL);
}

const char *refusal_sets(const char *text, const char *const *sets)
{
  static struct pst_error error;
  struct pst_config *config = NULL;
  error = (struct pst_error)PST_ERROR_INIT;
  int rc = config_load_text(text, strlen(text), "t.yaml", sets, count_sets(sets), &test_catalog,
                            &config, &error);
  assert_int_equal(rc, -EINVAL);
  assert_int_equal(error.code, -EINVAL);
  assert_int_equal(error.exit_status, PST_EXIT_USAGE);
  assert_null(config);
  return error.text;
}

const char *refusal(const char *text)
{
  return refusal_sets(text, NULL);
}

void assert_refused(const char *text, const char *expected)
{
  assert_string_equal(refusal(text), expected);
}

void assert_get(const struct pst_config *config, const char *path, const char *expected)
{
  const char *value = pst_config_get(config, path);
  if (!value)
    fail_msg("%s is not set", path);
  assert_string_equal(value, expected);
}
