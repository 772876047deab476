/* SPDX-License-Identifier: Apache-2.0 */
/* The Markdown of config/README.md, from the tables that check configurations. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "rules.h"
#include "schema.h"

#define PLUGINS_MAX 64
#define WORDS_MAX 512

static const char intro[] =
    "# Configuration\n\n"
    "One YAML file says what is streamed, how and where to. The same file serves both ends: "
    "`penstock send` reads the sender's part, `penstock receive` the receiver's, `penstock run` "
    "both.\n\n"
    "```yaml\n"
    "penstock: 1\n"
    "transport: loopback\n"
    "streams:\n"
    "  - name: packets\n"
    "    message: 1462 B\n"
    "```\n\n"
    "That is all a run needs: what is not written has a default. The other files of this folder "
    "are commented for a newcomer:\n\n"
    "| file | needs |\n"
    "| --- | --- |\n"
    "| `loopback.yaml`, `loopback-many.yaml`, `loopback-frames.yaml`, `ucx.yaml`, `udp.yaml`, "
    "`udp-camera.yaml`, `ethernet-memif.yaml` | nothing: they run as they are |\n"
    "| `loopback-cuda.yaml`, `ucx-cuda.yaml` | a GPU |\n"
    "| `loopback-igpu.yaml`, `udp-igpu.yaml`, `ethernet-igpu.yaml` | an integrated GPU |\n"
    "| `verbs.yaml` | an RDMA device |\n"
    "| `verbs-dc.yaml` | a ConnectX-4 or later |\n"
    "| `verbs-igpu.yaml` | an RDMA device and an integrated GPU |\n"
    "| `ethernet-afpacket.yaml` | an interface |\n"
    "| `ethernet-tap.yaml` | CAP_NET_ADMIN |\n"
    "| `ethernet-mlx5-gpu.yaml` | a network card and a GPU |\n"
    "| the others | the names of files |\n\n"
    "- `penstock check FILE` reads a file without running it, and prints every value in effect "
    "with where it came from. What it prints is itself a configuration.\n"
    "- Every mistake is reported with `file:line:column`, what is wrong and what would be right, "
    "all of them at once; nothing is started.\n"
    "- `--set PATH=VALUE` overrides one value, as in `--set streams.packets.ring=4096`. Streams "
    "and filters are called by name or by number from 0. Missing mappings on the way are made. "
    "The value is a YAML scalar, `[a, b]` or `{a: b}`; an empty value goes back to the default. "
    "It may be given several times.\n"
    "- Sizes take `B`, `KB`, `MB`, `GB`, `TB` (powers of 1000), `KiB`, `MiB`, `GiB`, `TiB` (powers "
    "of 1024), and a bare number is bytes. Times take `ns`, `us`, `ms`, `s`, `min`, `h`, and only 0 "
    "may stand bare. Rates take `bps`, `Kbps`, `Mbps`, `Gbps`, `Tbps` (powers of 1000), and a bare "
    "number is bits per second.\n"
    "- A key without a value, `~` and `null` mean that the key is not written. Anchors and aliases "
    "work; tags, merge keys (`<<`) and several documents in a file do not.\n\n"
    "This page is made by `config-reference` from the tables that check a configuration.\n";

/* Text in a table's cell. */
static void cell(FILE *out, const char *text)
{
  for (; *text; text++) {
    if (*text == '|')
      fputc('\\', out);
    fputc(*text == '\n' ? ' ' : *text, out);
  }
}

/* In one word or two, without an article. */
static const char *type_word(const struct pst_option *rule, char words[WORDS_MAX])
{
  if (rule->type == PST_OPTION_ENUM)
    return "choice";
  if (rule->type == SCHEMA_LIST || rule->type == SCHEMA_FILTERS)
    return "list";
  if (rule->type == SCHEMA_TRANSPORT || rule->type == SCHEMA_MEMORY)
    return "plugin";
  if (rule->type == SCHEMA_PLUGIN_NAME)
    return "name";
  if (rule->type >= SCHEMA_MAP)
    return "mapping";
  value_type_words(rule, words, WORDS_MAX);
  return words + (strncmp(words, "a ", 2) == 0 ? 2 : 0);
}

static void write_values(FILE *out, const struct pst_option *rule)
{
  char words[WORDS_MAX];
  if (rule->type == PST_OPTION_ENUM) {
    for (size_t i = 0; rule->choices && rule->choices[i]; i++)
      fprintf(out, "%s`%s`", i ? ", " : "", rule->choices[i]);
    return;
  }
  if (rule->type == PST_CONFIG_SHARE) {
    fputs("0 to 1", out);
    return;
  }
  if (rule->type < SCHEMA_MAP) {
    value_range_words(rule, words, sizeof(words));
    cell(out, words);
  }
}

static void write_row(FILE *out, const struct pst_option *rule, const char *default_words)
{
  char words[WORDS_MAX];
  fprintf(out, "| `%s` | %s | ", rule->name, type_word(rule, words));
  write_values(out, rule);
  if (rule->flags & PST_OPTION_REQUIRED)
    fputs(" | required | ", out);
  else if (rule->default_value && rule->default_value[0])
    fprintf(out, " | `%s` | ", rule->default_value);
  else if (default_words)
    fprintf(out, " | %s | ", default_words);
  else
    fputs(" | | ", out);
}

static void write_table_head(FILE *out)
{
  fputs("| key | type | values | default | what it does |\n"
        "| --- | --- | --- | --- | --- |\n",
        out);
}

static void write_types(FILE *out, const struct schema_map *map, uint32_t bits)
{
  const char *const *choices = map->keys[0].rule.choices;
  if (bits == 0 || !choices || map->keys[0].rule.type != PST_OPTION_ENUM)
    return;
  fputs("For ", out);
  for (size_t i = 0, n = 0; choices[i]; i++)
    if (bits & (1u << i))
      fprintf(out, "%s`%s`", n++ ? " and " : "", choices[i]);
  fputs(". ", out);
}

static void write_map(FILE *out, const struct schema_map *map)
{
  if (map->path[0])
    fprintf(out, "\n### `%s`\n\n", map->path);
  else
    fputs("\n## Keys\n\n", out);
  fprintf(out, "%s\n\n", map->help);
  write_table_head(out);
  for (const struct schema_key *key = map->keys; key->rule.name; key++) {
    write_row(out, &key->rule, key->default_words);
    write_types(out, map, key->rule.scope);
    cell(out, key->rule.help);
    fputs(" |\n", out);
  }
}

static const char *scope_words(uint32_t scope)
{
  if (scope & PST_SCOPE_STREAM)
    return "Both ends must agree.";
  if (scope == PST_SCOPE_SENDER)
    return "Of the sender.";
  if (scope == PST_SCOPE_RECEIVER)
    return "Of the receiver.";
  return NULL;
}

static void write_rules(FILE *out, const struct pst_description *plugin)
{
  char words[512];

  for (uint32_t i = 0; i < plugin->rule_count; i++) {
    rule_sentence(&plugin->rules[i], words, sizeof(words));
    fprintf(out, "%s- %s.\n", i ? "" : "\n", words);
  }
}

static void write_plugin(FILE *out, const struct pst_description *plugin)
{
  fprintf(out, "\n### `%s`\n\n%s.", plugin->name, plugin->summary);
  if (plugin->needs)
    fprintf(out, " Needs: %s.", plugin->needs);
  fputs("\n\n", out);
  if (plugin->option_count == 0) {
    fputs("It has no options.\n", out);
    return;
  }
  write_table_head(out);
  for (uint32_t i = 0; i < plugin->option_count; i++) {
    const struct pst_option *rule = &plugin->options[i];
    const char *scope = scope_words(rule->scope);
    write_row(out, rule, NULL);
    if (rule->flags & PST_OPTION_TESTING)
      fputs("For tests. ", out);
    cell(out, rule->help ? rule->help : "");
    fprintf(out, "%s%s |\n", scope ? " " : "", scope ? scope : "");
  }
  write_rules(out, plugin);
}

static int compare_names(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void write_kind(FILE *out, const struct config_catalog *catalog, uint32_t kind,
                       const char *title)
{
  const char *names[PLUGINS_MAX];
  size_t count = catalog->names(catalog->context, kind, names, PLUGINS_MAX);
  if (count > PLUGINS_MAX)
    count = PLUGINS_MAX;
  qsort(names, count, sizeof(names[0]), compare_names);
  if (count > 0)
    fprintf(out, "\n## %s\n", title);
  for (size_t i = 0; i < count; i++) {
    const struct pst_description *plugin = catalog->find(catalog->context, kind, names[i]);
    if (plugin)
      write_plugin(out, plugin);
  }
}

int config_write_reference(const struct config_catalog *catalog, void *file)
{
  FILE *out = file;
  fputs(intro, out);
  for (size_t i = 0; schema_maps[i]; i++) {
    write_map(out, schema_maps[i]);
    for (const struct schema_key *key = schema_maps[i]->keys; key->rule.name; key++)
      if (key->program && key->map)
        write_map(out, key->map);
  }
  write_kind(out, catalog, PST_KIND_TRANSPORT, "Options of transports");
  write_kind(out, catalog, PST_KIND_MEMORY, "Options of memories");
  write_kind(out, catalog, PST_KIND_FILTER, "Options of filters");
  return ferror(out) ? -EIO : 0;
}
