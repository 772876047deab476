/* SPDX-License-Identifier: Apache-2.0 */
/* The JSON Schema of configuration files, and the command that prints it. */
#include "schema_json.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <json-c/json.h>

#include "commands.h"
#include "log.h"
#include "result.h"

#define NAME_BYTES 128
#define WORDS_BYTES 512

struct schema_json {
  struct json_object *defs;
  struct json_object *map, *properties; /* the definition to which keys are added */
  const struct pst_option *first;       /* the mapping's first key */
};

static struct json_object *schema_text(const char *text)
{
  return json_object_new_string(text);
}

/* An array of strings, from arguments up to NULL. */
static struct json_object *schema_words(const char *word, ...)
{
  struct json_object *array = json_object_new_array();
  va_list args;

  va_start(args, word);
  for (; word != NULL; word = va_arg(args, const char *))
    json_object_array_add(array, schema_text(word));
  va_end(args);
  return array;
}

/* An object with one member. */
static struct json_object *schema_one(const char *key, struct json_object *value)
{
  struct json_object *object = json_object_new_object();

  json_object_object_add(object, key, value);
  return object;
}

/* The array that is the member `key`, made where there is none. */
static struct json_object *schema_array(struct json_object *object, const char *key)
{
  struct json_object *array = json_object_object_get(object, key);

  if (!array)
    json_object_object_add(object, key, array = json_object_new_array());
  return array;
}

static struct json_object *schema_reference(const char *name)
{
  char pointer[NAME_BYTES + 16];

  snprintf(pointer, sizeof(pointer), "#/$defs/%s", name);
  return schema_one("$ref", schema_text(pointer));
}

/* "streams[].sender" becomes "streams.sender". */
static const char *schema_name(const char *path, char name[NAME_BYTES])
{
  size_t length = 0;

  for (const char *at = path[0] != '\0' ? path : "file"; *at != '\0' && length + 1 < NAME_BYTES;
       at++)
    if (*at != '[' && *at != ']')
      name[length++] = *at;
  name[length] = '\0';
  return name;
}

/* ---- Values ----------------------------------------------------------------------- */

static void schema_bounds(struct json_object *to, const struct pst_option *rule)
{
  json_object_object_add(to, "minimum", json_object_new_uint64(rule->min));
  if (rule->max > 0)
    json_object_object_add(to, "maximum", json_object_new_uint64(rule->max));
}

static void schema_string(struct json_object *to, const struct pst_option *rule)
{
  json_object_object_add(to, "type", schema_words("string", "number", "boolean", "null", NULL));
  if (rule->min > 0)
    json_object_object_add(to, "minLength", json_object_new_uint64(rule->min));
  if (rule->max > 0)
    json_object_object_add(to, "maxLength", json_object_new_uint64(rule->max));
}

/* As a reader of YAML 1.2 or 1.1 may have read the word, unquoted: 1, 0, or -1 for a text alone. */
static int schema_truth(const char *word)
{
  return strcmp(word, "true") == 0 || strcmp(word, "on") == 0     ? 1
         : strcmp(word, "false") == 0 || strcmp(word, "off") == 0 ? 0
                                                                  : -1;
}

static void schema_choices(struct json_object *to, const struct pst_option *rule)
{
  struct json_object *choices = schema_array(to, "enum");

  for (const char *const *choice = rule->choices; *choice != NULL; choice++) {
    const int truth = schema_truth(*choice);
    json_object_array_add(choices, schema_text(*choice));
    if (truth >= 0)
      json_object_array_add(choices, json_object_new_boolean(truth));
  }
  json_object_array_add(choices, NULL);
}

/* A number that may have a unit. */
static void schema_quantity(struct json_object *to, const char *units)
{
  char pattern[WORDS_BYTES];

  snprintf(pattern, sizeof(pattern), "^[0-9]+(\\.[0-9]+)? *(%s)$", units);
  json_object_object_add(to, "type", schema_words("number", "string", "null", NULL));
  json_object_object_add(to, "pattern", schema_text(pattern));
}

/* The JSON Schema of a value that this rule accepts. */
static void schema_value(struct json_object *to, const struct pst_option *rule)
{
  switch (rule->type) {
  case PST_OPTION_BOOL:
    json_object_object_add(to, "type", schema_words("boolean", "null", NULL));
    break;
  case PST_OPTION_UINT:
    json_object_object_add(to, "type", schema_words("integer", "null", NULL));
    schema_bounds(to, rule);
    break;
  case PST_OPTION_SIZE:
    schema_quantity(to, "B|KB|MB|GB|TB|KiB|MiB|GiB|TiB|");
    schema_bounds(to, rule);
    break;
  case PST_OPTION_RATE:
    schema_quantity(to, "bps|Kbps|Mbps|Gbps|Tbps|");
    schema_bounds(to, rule);
    break;
  case PST_OPTION_DURATION: /* a bare number is 0 alone */
    schema_quantity(to, "ns|us|ms|s|min|h");
    json_object_object_add(to, "minimum", json_object_new_int(0));
    json_object_object_add(to, "maximum", json_object_new_int(0));
    break;
  case PST_OPTION_STRING:
    schema_string(to, rule);
    break;
  case PST_OPTION_ENUM:
    schema_choices(to, rule);
    break;
  case PST_OPTION_LIST:
    json_object_object_add(to, "type",
                           schema_words("array", "null",
                                        (rule->flags & PST_OPTION_PAIRS) != 0 ? "object" : NULL,
                                        NULL));
    break;
  case PST_CONFIG_NUMBER:
    json_object_object_add(to, "type", schema_words("number", "null", NULL));
    json_object_object_add(to, "minimum", json_object_new_int(0));
    break;
  case PST_CONFIG_SHARE:
    schema_quantity(to, "%");
    json_object_object_add(to, "minimum", json_object_new_int(0));
    json_object_object_add(to, "maximum", json_object_new_int(1));
    break;
  }
}

/* The alternatives: the mapping, and where it has a shorthand a single value. */
static struct json_object *schema_mapping(const struct pst_config_key *key, bool may_be_null)
{
  struct json_object *any = json_object_new_array();
  char name[NAME_BYTES];

  json_object_array_add(any, schema_reference(schema_name(key->map, name)));
  if (key->shorthand)
    json_object_array_add(any, schema_one("type", schema_words("string", "number", NULL)));
  if (may_be_null)
    json_object_array_add(any, schema_one("type", schema_text("null")));
  return any;
}

static void schema_list(struct json_object *to, const struct pst_config_key *key)
{
  const bool is_required = (key->rule->flags & PST_OPTION_REQUIRED) != 0;

  json_object_object_add(to, "type", schema_words("array", is_required ? NULL : "null", NULL));
  if (is_required)
    json_object_object_add(to, "minItems", json_object_new_int(1));
  json_object_object_add(to, "items", schema_one("anyOf", schema_mapping(key, false)));
}

/* ---- Keys -------------------------------------------------------------------------- */

/* Whether the mapping's first key allows this one with the choice number `bit`. */
static bool schema_allows(const struct pst_option *rule, unsigned bit)
{
  return (rule->scope & 1u << bit) != 0;
}

/* {if: the first key is `choice`, then: ...} */
static void schema_condition(struct schema_json *schema, const char *choice, const char *key,
                             struct json_object *value)
{
  struct json_object *rule = json_object_new_object(), *is = json_object_new_object();

  json_object_object_add(is, "properties",
                         schema_one(schema->first->name, schema_one("const", schema_text(choice))));
  json_object_object_add(is, "required", schema_words(schema->first->name, NULL));
  json_object_object_add(rule, "if", is);
  json_object_object_add(rule, "then", schema_one(key, value));
  json_object_array_add(schema_array(schema->map, "allOf"), rule);
}

static void schema_choice_rules(struct schema_json *schema, const struct pst_config_key *key)
{
  const char *const *choices = schema->first->choices;

  for (unsigned bit = 0; choices[bit] != NULL; bit++) {
    if (!schema_allows(key->rule, bit))
      schema_condition(schema, choices[bit], "properties",
                       schema_one(key->rule->name, json_object_new_boolean(false)));
    else if ((key->rule->flags & PST_OPTION_REQUIRED) != 0)
      schema_condition(schema, choices[bit], "required", schema_words(key->rule->name, NULL));
  }
}

static void schema_describe(struct json_object *to, const struct pst_config_key *key)
{
  const bool is_for_some = key->only_for && key->only_for[0] != '\0';
  char words[WORDS_BYTES], *help = NULL;

  if (asprintf(&help, "%s%s%s%s", is_for_some ? "For " : "", is_for_some ? key->only_for : "",
               is_for_some ? ". " : "", key->help) >= 0)
    json_object_object_add(to, "description", schema_text(help));
  free(help);
  json_object_object_add(to, "x-type", schema_text(key->type));
  snprintf(words, sizeof(words), "%s", key->values);
  for (size_t i = 0; key->rule->type == PST_OPTION_ENUM && key->rule->choices[i]; i++)
    snprintf(words + strlen(words), sizeof(words) - strlen(words), "%s%s", i > 0 ? ", " : "",
             key->rule->choices[i]);
  if (words[0] != '\0')
    json_object_object_add(to, "x-values", schema_text(words));
  if (key->default_words || key->default_value[0] != '\0')
    json_object_object_add(
        to, "x-default", schema_text(key->default_words ? key->default_words : key->default_value));
  if ((key->rule->flags & PST_OPTION_REQUIRED) != 0)
    json_object_object_add(to, "x-required", json_object_new_boolean(true));
}

static const char *schema_option_place(const struct pst_option *rule)
{
  if ((rule->scope & PST_SCOPE_STREAM) != 0)
    return "Both ends must agree.";
  return rule->scope == PST_SCOPE_SENDER     ? "Sender only."
         : rule->scope == PST_SCOPE_RECEIVER ? "Receiver only."
                                             : "";
}

/* The kind of the plugin whose options stand in this mapping. */
static const char *schema_plugin_kind(const char *path)
{
  return strncmp(path, "transport.filters", 17) == 0 ? "filter"
         : strncmp(path, "memory", 6) == 0           ? "memory"
                                                     : "transport";
}

/* The JSON Schema of one key, with what `penstock help` says of it. */
static void schema_key(struct schema_json *schema, const struct pst_config_key *key)
{
  struct json_object *to = json_object_new_object();
  char name[NAME_BYTES];

  schema_describe(to, key);
  if (key->plugin) {
    json_object_object_add(to, "x-scope", schema_text(schema_option_place(key->rule)));
    if ((key->rule->flags & PST_OPTION_TESTING) != 0)
      json_object_object_add(to, "x-testing", json_object_new_boolean(true));
  }
  if (key->map)
    json_object_object_add(to, "x-map", schema_text(schema_name(key->map, name)));
  switch (key->kind) {
  case PST_KEY_VALUE:
    schema_value(to, key->rule);
    break;
  case PST_KEY_MAP:
    json_object_object_add(to, "anyOf", schema_mapping(key, true));
    break;
  case PST_KEY_LIST:
    json_object_object_add(to, "x-list", json_object_new_boolean(true));
    schema_list(to, key);
    break;
  case PST_KEY_PLUGIN:
    json_object_object_add(to, "type", schema_text("string"));
    break;
  case PST_KEY_OPTIONS:
    json_object_object_add(to, "type", schema_words("object", "null", NULL));
    json_object_object_add(to, "x-options", schema_text(schema_plugin_kind(key->path)));
    break;
  }
  json_object_object_add(schema->properties, key->rule->name, to);
  if (key->plugin)
    return;
  if (!schema->first)
    schema->first = key->rule;
  if (key->only_for && key->only_for[0] != '\0')
    schema_choice_rules(schema, key);
  else if ((key->rule->flags & PST_OPTION_REQUIRED) != 0)
    json_object_array_add(schema_array(schema->map, "required"), schema_text(key->rule->name));
}

/* ---- Mappings and plugins ------------------------------------------------------------ */

static void schema_plugin(struct json_object *to, const struct pst_plugin_info *plugin)
{
  char rule[WORDS_BYTES];

  json_object_object_add(to, "title", schema_text(plugin->summary));
  json_object_object_add(to, "x-kind", schema_text(app_result_kind_name(plugin->kind, "?")));
  json_object_object_add(to, "x-name", schema_text(plugin->name));
  if (plugin->needs)
    json_object_object_add(to, "x-needs", schema_text(plugin->needs));
  if (plugin->rung)
    json_object_object_add(to, "x-rung", schema_text(plugin->rung));
  for (uint32_t i = 0; pst_plugin_rule(plugin, i, rule, sizeof(rule)) == 0; i++)
    json_object_array_add(schema_array(to, "x-rules"), schema_text(rule));
}

/* In the mapping that names a plugin: its options, by its name. */
static void schema_plugin_options(struct schema_json *schema, const struct pst_plugin_info *plugin,
                                  const char *name)
{
  const char *where = plugin->kind == PST_KIND_FILTER   ? "transport.filters"
                      : plugin->kind == PST_KIND_MEMORY ? "memory"
                                                        : "transport";
  struct json_object *any = json_object_new_array();
  struct schema_json at = {.map = json_object_object_get(schema->defs, where),
                           .first = &(const struct pst_option){.name = "plugin"}};

  json_object_array_add(any, schema_reference(name));
  json_object_array_add(any, schema_one("type", schema_text("null")));
  schema_condition(&at, plugin->name, "properties",
                   schema_one("options", schema_one("anyOf", any)));
}

static void schema_head(struct schema_json *schema, const struct pst_config_key *key)
{
  char name[NAME_BYTES];

  schema->map = json_object_new_object();
  schema->properties = json_object_new_object();
  schema->first = NULL;
  if (key->plugin) {
    snprintf(name, sizeof(name), "%s-%s", app_result_kind_name(key->plugin->kind, "?"),
             key->plugin->name);
    schema_plugin(schema->map, key->plugin);
  } else {
    schema_name(key->path, name);
    json_object_object_add(schema->map, "description", schema_text(key->help));
    if (key->shorthand)
      json_object_object_add(schema->map, "x-shorthand", schema_text(key->shorthand));
  }
  json_object_object_add(schema->map, "type", schema_text("object"));
  json_object_object_add(schema->map, "properties", schema->properties);
  json_object_object_add(schema->map, "additionalProperties", json_object_new_boolean(false));
  json_object_object_add(schema->defs, name, schema->map);
  if (key->plugin)
    schema_plugin_options(schema, key->plugin, name);
}

static void schema_take(void *context, const struct pst_config_key *key)
{
  struct schema_json *schema = context;

  if (key->is_map)
    schema_head(schema, key);
  else
    schema_key(schema, key);
}

struct json_object *app_schema_json(void)
{
  struct json_object *root = json_object_new_object();
  struct schema_json schema = {.defs = json_object_new_object()};

  json_object_object_add(root, "$schema",
                         schema_text("https://json-schema.org/draft/2020-12/schema"));
  json_object_object_add(root, "title", schema_text("A configuration of Penstock"));
  json_object_object_add(root, "$ref", schema_text("#/$defs/file"));
  json_object_object_add(root, "$defs", schema.defs);
  pst_config_keys(schema_take, &schema);
  return root;
}

static int schema_run(const struct command *command, const struct arguments *arguments)
{
  (void)command;
  for (size_t i = 0; i < arguments->plugin_path_count; i++)
    pst_plugin_path_add(arguments->plugin_paths[i]);
  struct json_object *schema = app_schema_json();
  printf("%s\n",
         json_object_to_json_string_ext(schema, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_SPACED |
                                                    JSON_C_TO_STRING_NOSLASHESCAPE));
  json_object_put(schema);
  return PST_EXIT_OK;
}

const struct command app_command_schema = {
    .name = "schema",
    .options = OPTION_PLUGIN_PATH,
    .summary = "print a JSON Schema of configuration files, for editors",
    .help =
        "Prints a JSON Schema (draft 2020-12) of configuration files: every key with its type,\n"
        "range, default and description, and the options of each plugin that is found. "
        "Editors\nuse it to complete and check keys. `penstock check` also checks how values fit "
        "together.\n"
        "\n"
        "Examples:\n"
        "  penstock schema > penstock.schema.json\n"
        "      For an editor: `# yaml-language-server: $schema=penstock.schema.json` is the\n"
        "      first line of a YAML file.",
    .run = schema_run,
};
