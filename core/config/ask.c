/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin's own check of its options. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

#define TEXT_MAX 512

struct asked {
  struct pst_check check; /* first: the plugin hands it back */
  const struct ask *ask;
};

static void ask_report(const struct pst_check *check, const char *option, const char *format, ...)
    PST_PRINTF(3, 4);

static void ask_report(const struct pst_check *check, const char *option, const char *format, ...)
{
  const struct ask *ask = ((const struct asked *)(const void *)check)->ask;
  char text[TEXT_MAX];
  va_list args;

  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  ask->report(ask->context, option, text);
}

static void ask_lower(uint64_t *limit, uint64_t other)
{
  if (other != 0 && (*limit == 0 || other < *limit))
    *limit = other;
}

/* Asks a plugin's `check` about its options. Complaints become findings at their keys; *facts gets
 * what the plugin says. */
void ask_plugin(const struct ask *ask, const struct config_plugin *plugin, struct pst_facts *facts)
{
  const struct asked asked = {.check = {.struct_size = sizeof(asked.check),
                                        .side = ask->side,
                                        .flags = ask->flags,
                                        .options = plugin->options,
                                        .option_uint = options_get_uint,
                                        .option_string = options_get_string,
                                        .option_item = options_get_item,
                                        .option_is_set = options_is_set,
                                        .report = ask_report},
                              .ask = ask};
  struct pst_facts known = {.struct_size = sizeof(known)};

  if (!plugin->description || !plugin->description->check)
    return;
  plugin->description->check(&asked.check, &known);
  ask_lower(&facts->message_max, known.message_max);
  ask_lower(&facts->slots_max, known.slots_max);
  facts->lacks |= known.lacks;
  facts->flags |= known.flags;
  facts->memory_kinds |= known.memory_kinds;
  facts->memory_lacks |= known.memory_lacks;
  facts->direct_needs |= known.direct_needs;
#define TAKE(text)                                                                                 \
  if (known.text[0]) {                                                                             \
    memcpy(facts->text, known.text, sizeof(facts->text));                                          \
    facts->text##_option = known.text##_option;                                                    \
  }
  TAKE(takes)
  TAKE(meets)
  TAKE(equals)
#undef TAKE
}
