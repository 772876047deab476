/* SPDX-License-Identifier: Apache-2.0 */
/* `penstock plugins`: which there are, with their options and devices. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "log.h"
#include "result.h"

#define NAMES_MAX 256

struct listing {
  const char *name;       /* only this one, in full; NULL: all, a line each */
  bool matched;           /* one at least was printed */
  bool current;           /* the devices that follow are of a plugin that is printed */
  bool heading;           /* "devices:" is printed */
  char *names[NAMES_MAX]; /* for suggestions */
  size_t name_count;
};

static const char *plugins_state_of(const struct pst_plugin_info *info)
{
  if (info->status == 0)
    return "usable";
  if (info->shadowed_by[0] != '\0')
    return "shadowed";
  return info->described ? "not built here" : "not usable";
}

static const char *plugins_type_name(uint32_t type)
{
  static const char *const names[] = {"?",    "bool",   "uint", "size", "duration",
                                      "rate", "string", "enum", "list"};
  return type < sizeof(names) / sizeof(names[0]) ? names[type] : names[0];
}

static void plugins_print_scope(uint32_t scope)
{
  static const char *const names[] = {"device", "stream", "sender", "receiver"};
  const char *separator = "";

  for (unsigned bit = 0; bit < 4; bit++) {
    if ((scope & 1u << bit) != 0) {
      printf("%s%s", separator, names[bit]);
      separator = ", ";
    }
  }
}

static void plugins_print_option(const struct pst_option *option)
{
  printf("  %s (%s; ", option->name, plugins_type_name(option->type));
  plugins_print_scope(option->scope);
  if ((option->flags & PST_OPTION_REQUIRED) != 0)
    printf("; required");
  else if (option->default_value && option->default_value[0] != '\0')
    printf("; default %s", option->default_value);
  if ((option->flags & PST_OPTION_TESTING) != 0)
    printf("; for tests");
  printf(")\n");
  if (option->type == PST_OPTION_ENUM && option->choices) {
    printf("      one of:");
    for (const char *const *choice = option->choices; *choice != NULL; choice++)
      printf(" %s", *choice);
    printf("\n");
  }
  printf("      %s\n", option->help ? option->help : "");
}

static void plugins_print_field(const char *label, const char *text)
{
  if (text && text[0] != '\0')
    printf("%-9s %s\n", label, text);
}

static void plugins_print_rules(const struct pst_plugin_info *info)
{
  char text[512];

  for (uint32_t i = 0; pst_plugin_rule(info, i, text, sizeof(text)) == 0; i++)
    printf("%s  %s\n", i == 0 ? "rules:\n" : "", text);
}

static void plugins_print_environment(const struct pst_plugin_info *info)
{
  const char *const *environment = info->environment;

  for (const char *const *at = environment; at && *at; at++)
    printf("%s  %s\n", at == environment ? "environment, while it is opened:\n" : "", *at);
}

static void plugins_print_full(const struct pst_plugin_info *info)
{
  printf("%s %s %s: %s\n", app_result_kind_name(info->kind, "?"), info->name, info->version,
         plugins_state_of(info));
  plugins_print_field("summary:", info->summary);
  plugins_print_field("needs:", info->needs);
  plugins_print_field("rung:", info->rung);
  plugins_print_field("wire:", info->wire);
  plugins_print_field("path:", info->path);
  plugins_print_field("reason:", info->reason);
  plugins_print_field("remedy:", info->remedy);
  for (const char *const *library = info->libraries; library && *library; library++)
    plugins_print_field("library:", *library);
  if (info->option_count > 0)
    printf("options:\n");
  for (uint32_t i = 0; i < info->option_count; i++)
    plugins_print_option(&info->options[i]);
  plugins_print_rules(info);
  plugins_print_environment(info);
}

static void plugins_print_line(const struct pst_plugin_info *info)
{
  printf("%-9s %-12s %-7s %-14s %s\n", app_result_kind_name(info->kind, "?"), info->name,
         info->version, plugins_state_of(info), info->summary);
  if (info->status != 0) {
    const char *remedy = info->remedy ? info->remedy : "";
    printf("          %s%s%s%s%s\n", info->path ? info->path : "",
           info->path && info->path[0] != '\0' ? ": " : "",
           info->reason && info->reason[0] != '\0' ? info->reason : strerror(-info->status),
           remedy[0] != '\0' ? "; " : "", remedy);
  }
}

static void plugins_take_plugin(void *context, const struct pst_plugin_info *info)
{
  struct listing *listing = context;

  listing->current = false;
  listing->heading = false;
  if (listing->name_count < NAMES_MAX && (listing->names[listing->name_count] = strdup(info->name)))
    listing->name_count++;
  if (listing->name && strcmp(listing->name, info->name) != 0)
    return;
  if (listing->name && listing->matched)
    printf("\n");
  listing->current = listing->matched = true;
  if (listing->name)
    plugins_print_full(info);
  else
    plugins_print_line(info);
}

static void plugins_take_device(void *context, const char *name, const char *detail)
{
  struct listing *listing = context;

  if (!listing->current || !listing->name)
    return;
  if (!listing->heading)
    printf("devices:\n");
  listing->heading = true;
  printf("  %s%s%s\n", name[0] != '\0' ? name : "(default)", detail[0] != '\0' ? ": " : "", detail);
}

static int plugins_unknown_plugin(const struct listing *listing)
{
  char meant[ARGUMENTS_MEANT_BYTES];

  app_log(PST_LOG_ERROR, "plugins: there is no plugin '%s'%s; `penstock plugins` lists all",
          listing->name,
          app_arguments_meant(listing->name, (const char *const *)listing->names,
                              listing->name_count, ", did you mean '", meant));
  return PST_EXIT_USAGE;
}

static int plugins_run(const struct command *command, const struct arguments *arguments)
{
  struct listing listing = {.name = arguments->operand};
  int status = PST_EXIT_OK;

  for (size_t i = 0; i < arguments->plugin_path_count; i++)
    pst_plugin_path_add(arguments->plugin_paths[i]);
  if (!listing.name)
    printf("%-9s %-12s %-7s %-14s %s\n", "KIND", "NAME", "VERSION", "HERE", "WHAT IT IS");
  int rc = pst_plugins_list(plugins_take_plugin, plugins_take_device, &listing);
  if (rc < 0) {
    app_log(PST_LOG_ERROR, "%s: the plugins cannot be listed: %s", command->name, strerror(-rc));
    status = PST_EXIT_FAILED;
  } else if (listing.name && !listing.matched) {
    status = plugins_unknown_plugin(&listing);
  }
  for (size_t i = 0; i < listing.name_count; i++)
    free(listing.names[i]);
  return status;
}

const struct command app_command_plugins = {
    .name = "plugins",
    .operand = "NAME",
    .need = OPERAND_OPTIONAL,
    .options = OPTION_PLUGIN_PATH,
    .summary = "list plugins: needs, options, why one is not usable here",
    .help =
        "Without NAME: every transport, memory and filter that can be found, whether it works on\n"
        "this machine, and if not, why not and what to do; candidates that were rejected too.\n"
        "With NAME: what it is, what it needs, its devices here, every option, and\n"
        "the rules between options, which `penstock check` judges by.\n"
        "\n"
        "Examples:\n"
        "  penstock plugins\n"
        "      Shows which plugins work on this machine.\n"
        "  penstock plugins loopback\n"
        "      Shows the options of one plugin.",
    .run = plugins_run,
};
