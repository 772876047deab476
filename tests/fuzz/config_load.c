/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a configuration, and aborts where a promise of config.h does not hold. */
#include "config_load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <yaml.h>

#include "../../apps/schema.h"
#include "allocation.h"
#include "allocation_wrap.h"
#include "catalog.h"
#include "config/arena.h"
#include "require.h"
#include "util/log.h"

#define TEXT_MAX 512

static void swallow(void *context, int level, const char *line)
{
  (void)context;
  (void)level;
  (void)line;
}

void config_quiet(void)
{
  pst_log_set(swallow, NULL, PST_LOG_ERROR);
  REQUIRE(pst_config_program(&app_schema_program) == 0);
}

static void try_options(const struct config_plugin *plugin, const struct config_plugin *other)
{
  size_t count = 0;
  const struct pst_option *table = options_table(plugin->options, &count);
  struct pst_options *clone = NULL;
  const char *differs = NULL;
  char text[TEXT_MAX], small[4];
  REQUIRE(count == plugin->description->option_count);
  for (size_t i = 0; i < count; i++) {
    const char *name = table[i].name;
    int rc = options_text(plugin->options, name, text, sizeof(text));
    REQUIRE(rc == 0 || rc == -ENOSPC);
    rc = options_text(plugin->options, name, small, sizeof(small));
    REQUIRE(rc == 0 || rc == -ENOSPC);
    options_get_uint(plugin->options, name);
    REQUIRE(options_get_string(plugin->options, name) != NULL);
    options_get_item(plugin->options, name, 0);
    REQUIRE(options_is_set(plugin->options, name) || !(table[i].flags & PST_OPTION_REQUIRED));
  }
  REQUIRE(options_get_uint(plugin->options, "no such") == 0);
  REQUIRE(*options_get_string(plugin->options, "no such") == '\0');
  REQUIRE(!options_get_item(plugin->options, "no such", 0));
  REQUIRE(options_text(plugin->options, "no such", text, sizeof(text)) == -ENOENT);
  REQUIRE(options_clone(plugin->options, &clone) == 0);
  REQUIRE(options_agree(plugin->options, clone, UINT32_MAX, &differs));
  options_free(clone);
  options_free(NULL);
  if (other->description != plugin->description)
    options_agree(plugin->options, other->options, UINT32_MAX, &differs);
}

static void try_streams(const struct config *config)
{
  for (uint32_t i = 0; i < config->stream_count; i++) {
    const struct config_stream *stream = &config->streams[i];
    REQUIRE(stream->name && stream->message > 0 && stream->ring > 1);
    try_options(&stream->sender.transport.plugin, &stream->receiver.memory);
    try_options(&stream->receiver.memory, &stream->sender.transport.plugin);
    for (uint32_t j = 0; j < stream->sender.transport.filter_count; j++)
      try_options(&stream->sender.transport.filters[j], &stream->sender.memory);
  }
}

static void try_again(const struct pst_config *config)
{
  struct pst_error error = PST_ERROR_INIT;
  struct pst_config *again = NULL;
  char *text = NULL;
  REQUIRE(pst_config_effective(config, &text) == 0);
  int rc =
      config_load_text(text, strlen(text), "again.yaml", NULL, 0, &fuzz_catalog, &again, &error);
  if (rc || strcmp(pst_config_hash(config), pst_config_hash(again)) != 0)
    fprintf(stderr, "the effective text does not load as the same:\n%s%s\n", text, error.text);
  REQUIRE(rc == 0 && strcmp(pst_config_hash(config), pst_config_hash(again)) == 0);
  pst_config_close(again);
  free(text);
}

static void try_without_memory(const char *text, size_t length, const char *const *sets,
                               size_t set_count, unsigned fail_at)
{
  struct pst_error error = PST_ERROR_INIT;
  struct pst_config *config = NULL;
  allocation_begin(fail_at);
  int rc =
      config_load_text(text, length, "t.yaml", sets, set_count, &fuzz_catalog, &config, &error);
  allocation_end();
  REQUIRE(rc == 0 || rc == -EINVAL || rc == -ENOMEM);
  REQUIRE((rc == 0) == (config != NULL));
  pst_config_close(config);
}

void config_try(const char *text, size_t length, const char *const *sets, size_t set_count,
                uint32_t number)
{
  struct pst_error error = PST_ERROR_INIT;
  struct pst_config *config = NULL;
  allocation_begin(0);
  int rc =
      config_load_text(text, length, "t.yaml", sets, set_count, &fuzz_catalog, &config, &error);
  unsigned allocations = allocation_end();
  REQUIRE(rc == 0 || rc == -EINVAL);
  REQUIRE((rc == 0) == (config != NULL));
  REQUIRE(error.code == rc && (rc == 0) == (error.text[0] == '\0'));
  if (rc == 0) {
    try_streams(config_of(config));
    try_again(config);
  }
  pst_config_close(config);
  if (number % 2 == 0)
    try_without_memory(text, length, sets, set_count, 1 + number / 2 % allocations);
}

/* ---- Failures when memory runs out ---------------------------------------------- */

void *__real_arena_alloc(struct arena *arena, size_t size);
void *__wrap_arena_alloc(struct arena *arena, size_t size);
char *__real_arena_copy(struct arena *arena, const char *text, size_t length);
char *__wrap_arena_copy(struct arena *arena, const char *text, size_t length);
char *__real_arena_string(struct arena *arena, const char *text);
char *__wrap_arena_string(struct arena *arena, const char *text);
char *__wrap_arena_printf(struct arena *arena, const char *format, ...) PST_PRINTF(2, 3);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__real_strndup(const char *text, size_t size);
char *__wrap_strndup(const char *text, size_t size);
int __real_yaml_parser_initialize(yaml_parser_t *parser);
int __wrap_yaml_parser_initialize(yaml_parser_t *parser);
int __real_yaml_parser_parse(yaml_parser_t *parser, yaml_event_t *event);
int __wrap_yaml_parser_parse(yaml_parser_t *parser, yaml_event_t *event);

/* As arena_alloc() says that it has none. */
static bool arena_fails(struct arena *arena)
{
  const bool fails = allocation_fails();
  arena->no_memory |= fails;
  return fails;
}

void *__wrap_arena_alloc(struct arena *arena, size_t size)
{
  return arena_fails(arena) ? NULL : __real_arena_alloc(arena, size);
}

char *__wrap_arena_copy(struct arena *arena, const char *text, size_t length)
{
  return arena_fails(arena) ? NULL : __real_arena_copy(arena, text, length);
}

char *__wrap_arena_string(struct arena *arena, const char *text)
{
  return arena_fails(arena) ? NULL : __real_arena_string(arena, text);
}

char *__wrap_arena_printf(struct arena *arena, const char *format, ...)
{
  char *text = NULL;
  va_list args;
  if (arena_fails(arena))
    return NULL;
  va_start(args, format);
  int length = vasprintf(&text, format, args);
  va_end(args);
  char *copy = length < 0 ? NULL : __real_arena_string(arena, text);
  free(text);
  return copy;
}

char *__wrap_strdup(const char *text)
{
  return allocation_fails() ? NULL : __real_strdup(text);
}

char *__wrap_strndup(const char *text, size_t size)
{
  return allocation_fails() ? NULL : __real_strndup(text, size);
}

int __wrap_yaml_parser_initialize(yaml_parser_t *parser)
{
  return allocation_fails() ? 0 : __real_yaml_parser_initialize(parser);
}

int __wrap_yaml_parser_parse(yaml_parser_t *parser, yaml_event_t *event)
{
  if (!allocation_fails())
    return __real_yaml_parser_parse(parser, event);
  parser->error = YAML_MEMORY_ERROR;
  return 0;
}
