/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin's own check of its options. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

#define TEXT_MAX 512

struct facts_check {
  struct pst_check check; /* first: the plugin hands it back */
  const struct facts_query *query;
};

static void plugin_facts_report(const struct pst_check *check, const char *option,
                                const char *format, ...) PST_PRINTF(3, 4);

static void plugin_facts_report(const struct pst_check *check, const char *option,
                                const char *format, ...)
{
  const struct facts_query *query = ((const struct facts_check *)(const void *)check)->query;
  char text[TEXT_MAX];
  va_list args;

  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  query->report(query->context, option, text);
}

static void plugin_facts_lower(uint64_t *limit, uint64_t other)
{
  if (other != 0 && (*limit == 0 || other < *limit))
    *limit = other;
}

/* Asks a plugin's `check` about its options. Complaints become findings at their keys; *facts gets
 * what the plugin says. */
void plugin_facts(const struct facts_query *query, const struct config_plugin *plugin,
                  struct pst_facts *facts)
{
  const struct facts_check check = {.check = {.struct_size = sizeof(check.check),
                                              .side = query->side,
                                              .flags = query->flags,
                                              .options = plugin->options,
                                              .option_uint = options_get_uint,
                                              .option_string = options_get_string,
                                              .option_item = options_get_item,
                                              .option_is_set = options_is_set,
                                              .report = plugin_facts_report},
                                    .query = query};
  struct pst_facts known = {.struct_size = sizeof(known)};

  if (!plugin->description || !plugin->description->check)
    return;
  plugin->description->check(&check.check, &known);
  plugin_facts_lower(&facts->message_max, known.message_max);
  plugin_facts_lower(&facts->slots_max, known.slots_max);
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
