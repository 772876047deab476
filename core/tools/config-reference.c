/* SPDX-License-Identifier: Apache-2.0 */
/* Prints config/README.md, made from core's tables, the program's and the descriptions of all
 * plugins that are found; with a file's name, says whether that file is current. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/config.h>
#include <penstock/plugin.h>

#include "../../apps/schema.h"

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
    "That is all a run needs: a key that is not written has its default. More example files, each "
    "with comments, are in the folder `config` of the sources, and installed in `share/penstock`. "
    "Each needs:\n\n"
    "| file | needs |\n"
    "| --- | --- |\n"
    "| `loopback.yaml`, `loopback-many.yaml`, `loopback-frames.yaml`, `udp.yaml`, `udp-camera.yaml` "
    "| nothing: they run as they are |\n"
    "| `ucx.yaml` | UCX |\n"
    "| `ethernet-memif.yaml` | DPDK, and two processes: `penstock receive` and `penstock send` |\n"
    "| `loopback-cuda.yaml` | a GPU |\n"
    "| `ucx-cuda.yaml` | UCX and a GPU |\n"
    "| `loopback-igpu.yaml`, `udp-igpu.yaml` | an integrated GPU |\n"
    "| `ethernet-igpu.yaml` | DPDK and an integrated GPU |\n"
    "| `verbs.yaml` | an RDMA device |\n"
    "| `verbs-dc.yaml` | a ConnectX-4 or later |\n"
    "| `verbs-igpu.yaml` | an RDMA device and an integrated GPU |\n"
    "| `ethernet-afpacket.yaml` | DPDK, CAP_NET_RAW and an interface |\n"
    "| `ethernet-tap.yaml` | DPDK and CAP_NET_ADMIN |\n"
    "| `ethernet-mlx5-gpu.yaml` | DPDK, a network card and a GPU |\n"
    "| the others | the names of files |\n\n"
    "- `penstock check FILE` reads a file without running it, and prints every value in effect, with its origin. The output is itself a configuration.\n"
    "- All mistakes are reported at once, each with `file:line:column`, what is wrong and what would be right. Nothing is started.\n"
    "- `--set PATH=VALUE` overrides one value, as in `--set streams.packets.ring=4096`. Streams and filters are chosen by name, or by number from 0. Mappings that are missing on the way are created. The value is a YAML scalar, `[a, b]` or `{a: b}`; an empty value restores the default. `--set` may be repeated.\n"
    "- Sizes take `B`, `KB`, `MB`, `GB`, `TB` (powers of 1000), `KiB`, `MiB`, `GiB`, `TiB` (powers "
    "of 1024), and a bare number is bytes. Times take `ns`, `us`, `ms`, `s`, `min`, `h`, and only 0 "
    "may stand bare. Rates take `bps`, `Kbps`, `Mbps`, `Gbps`, `Tbps` (powers of 1000), and a bare "
    "number is bits per second.\n"
    "- A key without a value, `~` and `null` mean that the key is not written. Anchors and aliases "
    "work; tags, merge keys (`<<`) and several documents in a file do not.\n\n"
    "This page is made by `config-reference` from the tables that check a configuration.\n";

static uint32_t reference_plugin_kind; /* whose heading is written; 0: none */

/* Text in a table's cell. */
static void cell(FILE *out, const char *text)
{
  for (; *text; text++) {
    if (*text == '|')
      fputc('\\', out);
    fputc(*text == '\n' ? ' ' : *text, out);
  }
}

static void write_values(FILE *out, const struct pst_config_key *key)
{
  const char *const *choices = key->rule->type == PST_OPTION_ENUM ? key->rule->choices : NULL;

  for (size_t i = 0; choices && choices[i]; i++)
    fprintf(out, "%s`%s`", i ? ", " : "", choices[i]);
  cell(out, key->values);
}

static void write_default(FILE *out, const struct pst_config_key *key)
{
  if (key->rule->flags & PST_OPTION_REQUIRED)
    fputs(" | required | ", out);
  else if (key->default_value[0])
    fprintf(out, " | `%s` | ", key->default_value);
  else if (key->default_words)
    fprintf(out, " | %s | ", key->default_words);
  else
    fputs(" | | ", out);
}

static const char *scope_words(const struct pst_config_key *key)
{
  if (!key->plugin)
    return "";
  if (key->rule->scope & PST_SCOPE_STREAM)
    return " Both ends must agree.";
  if (key->rule->scope == PST_SCOPE_SENDER)
    return " Sender only.";
  return key->rule->scope == PST_SCOPE_RECEIVER ? " Receiver only." : "";
}

static void write_table_head(FILE *out)
{
  fputs("| key | type | values | default | what it does |\n"
        "| --- | --- | --- | --- | --- |\n",
        out);
}

static void write_rules(FILE *out, const struct pst_plugin_info *plugin)
{
  char words[512];

  for (uint32_t i = 0; pst_plugin_rule(plugin, i, words, sizeof(words)) == 0; i++)
    fprintf(out, "%s- %s.\n", i ? "" : "\n", words);
}

static void write_plugin_head(FILE *out, const struct pst_plugin_info *plugin)
{
  static const char *const titles[] = {"", "transports", "memories", "filters"};

  if (plugin->kind != reference_plugin_kind)
    fprintf(out, "\n## Options of %s\n", titles[plugin->kind]);
  reference_plugin_kind = plugin->kind;
  fprintf(out, "\n### `%s`\n\n%s.", plugin->name, plugin->summary);
  if (plugin->needs)
    fprintf(out, " Needs: %s.", plugin->needs);
  fputs("\n\n", out);
  if (plugin->option_count == 0)
    fputs("It has no options.\n", out);
  else
    write_table_head(out);
}

static void write_map_head(FILE *out, const struct pst_config_key *key)
{
  if (key->path[0])
    fprintf(out, "\n### `%s`\n\n", key->path);
  else
    fputs("\n## Keys\n\n", out);
  fprintf(out, "%s\n\n", key->help);
  write_table_head(out);
}

static void write_key(void *context, const struct pst_config_key *key)
{
  const struct pst_plugin_info *plugin = key->plugin;
  FILE *out = context;

  if (key->is_map) {
    if (plugin)
      write_plugin_head(out, plugin);
    else
      write_map_head(out, key);
    return;
  }
  fprintf(out, "| `%s` | %s | ", key->rule->name, key->type);
  write_values(out, key);
  write_default(out, key);
  if (plugin && (key->rule->flags & PST_OPTION_TESTING))
    fputs("For tests. ", out);
  if (key->only_for && key->only_for[0])
    fprintf(out, "For %s. ", key->only_for);
  cell(out, key->help);
  fprintf(out, "%s |\n", scope_words(key));
  if (plugin && key->rule == &plugin->options[plugin->option_count - 1])
    write_rules(out, plugin);
}

/* Returns all of a text; free() it. NULL: it cannot be read, which is reported. */
static char *read_file(const char *path)
{
  FILE *file = fopen(path, "re");
  char *text = NULL;
  size_t size = 0;
  bool is_read = file && getdelim(&text, &size, '\0', file) > 0;

  if (!is_read)
    perror(path);
  if (file)
    fclose(file);
  if (is_read)
    return text;
  free(text);
  return NULL;
}

/* 0: the same; 1: they differ, the first line that does has been said. */
static int compare(const char *path, const char *is, const char *should)
{
  unsigned line = 1;
  while (*is && *is == *should) {
    line += *is == '\n';
    is++;
    should++;
  }
  if (*is == *should)
    return 0;
  fprintf(stderr,
          "%s:%u: not what the tables say now; write it anew: "
          "ninja -C BUILD core/tools/config-reference && BUILD/core/tools/config-reference > %s\n",
          path, line, path);
  return 1;
}

int main(int argc, char **argv)
{
  char *should = NULL, *is = NULL;
  size_t size = 0;
  int status = 1;
  if (argc > 2) {
    fprintf(stderr, "usage: config-reference [FILE TO COMPARE WITH]\n");
    return 2;
  }
  FILE *memory = open_memstream(&should, &size);
  if (!memory || pst_config_program(&app_schema_program) < 0)
    return 1;
  fputs(intro, memory);
  int rc = pst_config_keys(write_key, memory);
  if (fclose(memory) != 0 || rc != 0)
    return 1;
  if (argc == 1)
    status = fputs(should, stdout) < 0 || fflush(stdout) != 0;
  else if ((is = read_file(argv[1])))
    status = compare(argv[1], is, should);
  free(is);
  free(should);
  return status;
}
