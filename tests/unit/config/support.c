/* SPDX-License-Identifier: Apache-2.0 */
#include "support.h"

#include <errno.h>

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

#define DESCRIPTION(kind_, name_, options_)                                                        \
  {                                                                                                \
    .struct_size = sizeof(struct pst_description), .kind = kind_,                                  \
    .option_count = sizeof(options_) / sizeof((options_)[0]), .name = name_, .version = "1",       \
    .summary = "a table for tests", .needs = "", .rung = "compiled", .options = options_           \
  }

static const struct pst_description descriptions[] = {
    DESCRIPTION(PST_KIND_TRANSPORT, "loopback", loopback_options),
    DESCRIPTION(PST_KIND_TRANSPORT, "verbs", verbs_options),
    DESCRIPTION(PST_KIND_MEMORY, "host", host_options),
    DESCRIPTION(PST_KIND_MEMORY, "cuda", cuda_options),
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
