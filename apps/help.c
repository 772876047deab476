/* SPDX-License-Identifier: Apache-2.0 */
/* `penstock help KEY`, by the JSON Schema of configuration files. */
#include "help.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "arguments.h"
#include "log.h"
#include "schema_json.h"

#define PATH_BYTES 256
#define NAMES_MAX 1024
#define COLUMNS 80

static const char *help_text(struct json_object *object, const char *key)
{
  const char *text = json_object_get_string(json_object_object_get(object, key));

  return text ? text : "";
}

/* `text` as a paragraph behind four spaces. */
static void help_paragraph(const char *text)
{
  int column = 0;

  while (*text != '\0') {
    int length = (int)strcspn(text, " ");
    if (column > 0 && column + 1 + length > COLUMNS) {
      putchar('\n');
      column = 0;
    }
    printf("%s%.*s", column == 0 ? "    " : " ", length, text);
    column += length + (column == 0 ? 4 : 1);
    text += length;
    text += strspn(text, " ");
  }
  printf("\n");
}

static void help_print(const char *path, struct json_object *key)
{
  const char *values = help_text(key, "x-values"), *value = help_text(key, "x-default");
  const char *scope = help_text(key, "x-scope");

  printf("%s (%s%s%s", path, help_text(key, "x-type"), values[0] != '\0' ? ": " : "", values);
  if (json_object_object_get(key, "x-required"))
    printf("; required");
  else if (value[0] != '\0')
    printf("; default %s", value);
  if (json_object_object_get(key, "x-testing"))
    printf("; for tests");
  printf(")\n");
  help_paragraph(help_text(key, "description"));
  if (scope[0] != '\0')
    help_paragraph(scope);
}

/* ---- By path ------------------------------------------------------------------------- */

/* A place in the schema that a path leads to. */
struct help_place {
  struct json_object *map; /* the definition whose keys may follow; NULL: none */
  struct json_object *key; /* the key itself; NULL: the file */
  const char *options;     /* the kind of the plugin whose options may follow; NULL */
  bool is_list;            /* a name or number of an element may follow */
  char path[PATH_BYTES];   /* without names of elements */
};

/* Behind *path; false: there is no room. */
static bool help_append(char path[PATH_BYTES], const char *word)
{
  size_t length = strlen(path);

  return snprintf(path + length, PATH_BYTES - length, "%s%s", length > 0 ? "." : "", word) <
         (int)(PATH_BYTES - length);
}

/* is_last: no word follows, so that this one names no element of a list. */
static bool help_step(struct json_object *defs, struct help_place *at, const char *word,
                      bool is_last)
{
  struct json_object *key =
      json_object_object_get(json_object_object_get(at->map, "properties"), word);
  const char *options;

  if (!key && at->is_list && !is_last) {
    at->is_list = false;
    return true;
  }
  if (!key || !help_append(at->path, word))
    return false;
  options = help_text(key, "x-options");
  at->key = key;
  at->options = options[0] != '\0' ? options : NULL;
  at->is_list = json_object_object_get(key, "x-list") != NULL;
  at->map = json_object_object_get(defs, help_text(key, "x-map"));
  return true;
}

static void help_map(const struct help_place *at)
{
  json_object_object_foreach(json_object_object_get(at->map, "properties"), name, key)
  {
    char path[PATH_BYTES];

    snprintf(path, sizeof(path), "%s", at->path);
    if (help_append(path, name)) {
      printf("\n");
      help_print(path, key);
    }
  }
}

/* Options `word` of all plugins of that kind; NULL: of all kinds. is_found: something was printed
 * before. Whether anything is. */
static bool help_options(struct json_object *defs, const char *kind, const char *word,
                         bool is_found)
{

  json_object_object_foreach(defs, name, map)
  {
    const char *is_of = help_text(map, "x-kind");
    struct json_object *key =
        json_object_object_get(json_object_object_get(map, "properties"), word);
    char path[PATH_BYTES];

    (void)name;
    if (!key || is_of[0] == '\0' || (kind && strcmp(kind, is_of) != 0))
      continue;
    snprintf(path, sizeof(path), "%s %s, options.%s", is_of, help_text(map, "x-name"), word);
    printf("%s", is_found ? "\n" : "");
    help_print(path, key);
    is_found = true;
  }
  return is_found;
}

/* `words` are cut at their dots. */
static bool help_path(struct json_object *defs, char *words)
{
  struct help_place at = {.map = json_object_object_get(defs, "file")};
  char *rest = words;

  for (char *word; (word = strsep(&rest, ".")) != NULL;) {
    word[strcspn(word, "[")] = '\0';
    if (at.options)
      return !rest && help_options(defs, at.options, word, false);
    if (word[0] == '\0' || !help_step(defs, &at, word, !rest))
      return false;
  }
  help_print(at.path, at.key);
  if (at.map) {
    printf("\n");
    help_paragraph(help_text(at.map, "description"));
    help_map(&at);
  }
  return true;
}

/* ---- By name ------------------------------------------------------------------------- */

static bool help_plugin(struct json_object *defs, const char *word)
{
  bool is_found = false;

  json_object_object_foreach(defs, name, map)
  {
    (void)name;
    if (!json_object_object_get(map, "x-kind") || strcmp(help_text(map, "x-name"), word) != 0)
      continue;
    printf("%s%s %s: %s. `penstock plugins %s` has more.\n", is_found ? "\n" : "",
           help_text(map, "x-kind"), word, help_text(map, "title"), word);
    help_map(&(const struct help_place){.map = map, .path = "options"});
    is_found = true;
  }
  return is_found;
}

static bool help_name(struct json_object *defs, const char *word)
{
  bool is_found = false;

  json_object_object_foreach(defs, name, map)
  {
    struct json_object *key =
        json_object_object_get(json_object_object_get(map, "properties"), word);
    char path[PATH_BYTES] = "";

    if (!key || help_text(map, "x-kind")[0] != '\0')
      continue;
    if ((strcmp(name, "file") != 0 && !help_append(path, name)) || !help_append(path, word))
      continue;
    printf("%s", is_found ? "\n" : "");
    help_print(path, key);
    is_found = true;
  }
  return help_options(defs, NULL, word, is_found);
}

/* ---- Commands and plugins ------------------------------------------------------------ */

struct help_names {
  const char *names[NAMES_MAX];
  char *owned[NAMES_MAX];
  size_t count, owned_count;
};

static void help_add(struct help_names *names, const char *name)
{
  if (names->count < NAMES_MAX)
    names->names[names->count++] = name;
}

static void help_add_path(struct help_names *names, const char *map, const char *key)
{
  char *path = NULL;

  if (names->owned_count == NAMES_MAX || asprintf(&path, "%s.%s", map, key) < 0)
    return;
  names->owned[names->owned_count++] = path;
  help_add(names, path);
}

/* Reports that `word` is no key, option, plugin or command, with the nearest name. */
static int help_unknown(struct json_object *defs, const char *word, const char *const *commands,
                        size_t count)
{
  struct help_names *names = calloc(1, sizeof(*names));
  char meant[ARGUMENTS_MEANT_BYTES] = "";

  for (size_t i = 0; names && i < count; i++)
    help_add(names, commands[i]);
  if (names) {
    json_object_object_foreach(defs, name, map)
    {
      const bool is_plugin = help_text(map, "x-kind")[0] != '\0';
      if (is_plugin)
        help_add(names, help_text(map, "x-name"));
      json_object_object_foreach(json_object_object_get(map, "properties"), key, value)
      {
        (void)value;
        help_add(names, key);
        if (!is_plugin && strcmp(name, "file") != 0)
          help_add_path(names, name, key);
      }
    }
    app_arguments_meant(word, names->names, names->count, ", did you mean '", meant);
    for (size_t i = 0; i < names->owned_count; i++)
      free(names->owned[i]);
  }
  free(names);
  app_log(PST_LOG_ERROR,
          "help: there is no command, key or option '%s'%s; `penstock --help` lists the commands, "
          "`man penstock.yaml` the keys",
          word, meant);
  return PST_EXIT_USAGE;
}

int app_help_key(const char *word, const char *const *commands, size_t count)
{
  struct json_object *schema = app_schema_json(), *defs = json_object_object_get(schema, "$defs");
  char *words = strdup(word);
  int status = PST_EXIT_OK;

  if (!words)
    status = PST_EXIT_FAILED;
  else if (!help_path(defs, words) && !help_plugin(defs, word) && !help_name(defs, word))
    status = help_unknown(defs, word, commands, count);
  free(words);
  json_object_put(schema);
  return status;
}
