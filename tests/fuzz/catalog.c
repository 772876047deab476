/* SPDX-License-Identifier: Apache-2.0 */
/* A catalog of plugins for configurations that are fuzzed. */
#include "catalog.h"

#include <stdio.h>
#include <string.h>

extern const struct pst_described fuzz_description_loopback, fuzz_description_host;

static const char *const modes[] = {"auto", "slow", "fast", NULL};
static const struct pst_option every_options[] = {
    {.name = "device",
     .help = "Which.",
     .type = PST_OPTION_STRING,
     .max = 31,
     .scope = PST_SCOPE_DEVICE,
     .flags = PST_OPTION_REQUIRED},
    {.name = "quoted", .default_value = "\"\"", .type = PST_OPTION_STRING},
    {.name = "mode",
     .default_value = "auto",
     .choices = modes,
     .type = PST_OPTION_ENUM,
     .scope = PST_SCOPE_STREAM},
    {.name = "flag", .default_value = "false", .type = PST_OPTION_BOOL, .scope = PST_SCOPE_STREAM},
    {.name = "depth",
     .default_value = "64",
     .min = 1,
     .max = 128,
     .type = PST_OPTION_UINT,
     .scope = PST_SCOPE_SENDER},
    {.name = "size",
     .default_value = "4 KiB",
     .min = 1,
     .max = 1 << 20,
     .type = PST_OPTION_SIZE,
     .scope = PST_SCOPE_STREAM},
    {.name = "wait",
     .default_value = "1 ms",
     .min = 1000,
     .type = PST_OPTION_DURATION,
     .scope = PST_SCOPE_RECEIVER},
    {.name = "rate", .type = PST_OPTION_RATE, .scope = PST_SCOPE_SENDER},
    {.name = "names",
     .default_value = "[a, b]",
     .type = PST_OPTION_LIST,
     .scope = PST_SCOPE_DEVICE},
    {.name = "strange", .type = 99}};
static const struct pst_option fault_options[] = {
    {.name = "drop", .default_value = "0", .max = 1000000, .type = PST_OPTION_UINT},
    {.name = "seed", .default_value = "1", .type = PST_OPTION_UINT, .scope = PST_SCOPE_SENDER}};
static const struct pst_option wrong_options[] = {
    {.name = "size", .default_value = "large", .type = PST_OPTION_SIZE}};

#define DESCRIPTION(kind_, name_, options_)                                                        \
  {                                                                                                \
    .kind = kind_, .option_count = sizeof(options_) / sizeof((options_)[0]), .name = name_,        \
    .version = "1", .summary = "made up", .rung = "compiled", .options = options_                  \
  }

static const struct pst_description made_up[] = {
    DESCRIPTION(PST_KIND_TRANSPORT, "every", every_options),
    DESCRIPTION(PST_KIND_MEMORY, "all", every_options),
    DESCRIPTION(PST_KIND_FILTER, "fault", fault_options),
    DESCRIPTION(PST_KIND_TRANSPORT, "wrong", wrong_options),
    {.kind = PST_KIND_FILTER,
     .name = "bare",
     .version = "1",
     .summary = "made up",
     .rung = "compiled"}};

#define MADE_UP (sizeof(made_up) / sizeof(made_up[0]))
#define DESCRIPTIONS (MADE_UP + 2)

static const struct pst_description *description(size_t index)
{
  if (index == MADE_UP)
    return fuzz_description_loopback.description;
  return index < MADE_UP ? &made_up[index] : fuzz_description_host.description;
}

static const struct pst_description *find(void *context, uint32_t kind, const char *name)
{
  (void)context;
  for (size_t i = 0; i < DESCRIPTIONS; i++)
    if (description(i)->kind == kind && strcmp(description(i)->name, name) == 0)
      return description(i);
  return NULL;
}

static size_t names(void *context, uint32_t kind, const char **list, size_t max)
{
  size_t count = 0;
  (void)context;
  for (size_t i = 0; i < DESCRIPTIONS; i++)
    if (description(i)->kind == kind && count < max)
      list[count++] = description(i)->name;
  return count;
}

static bool missing(void *context, uint32_t kind, const char *name, char *text, size_t size)
{
  bool broken = strcmp(name, "broken") == 0;
  (void)context;
  (void)kind;
  snprintf(text, size, broken ? "it is broken" : "nothing was looked at");
  return broken;
}

const struct config_catalog fuzz_catalog = {NULL, find, names, missing};
