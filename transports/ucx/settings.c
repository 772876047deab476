/* SPDX-License-Identifier: Apache-2.0 */
/* The options of this plugin as UCX's own configuration. */
#include "settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ucp/api/ucp.h>

#include <penstock/transport-util.h>

#include "status.h"

extern char **environ;

/* libucs's, which all releases since 1.9 have; later ones have the last parameter, which the
 * earlier ones do not look at. */
extern void ucs_config_parser_print_all_opts(FILE *stream, const char *prefix, int flags,
                                             void *list, const char *filter);
extern char ucs_config_global_list[];

#define SETTINGS_PRINT_CONFIG 1
#define SETTINGS_NAME_MAX 96
#define SETTINGS_PREFIX "UCX_"

/* Edits that make one of the other (Levenshtein). */
static size_t ucx_settings_distance(const char *a, const char *b)
{
  size_t row[SETTINGS_NAME_MAX + 1], width = strlen(b);

  if (width > SETTINGS_NAME_MAX)
    return SIZE_MAX;
  for (size_t j = 0; j <= width; j++)
    row[j] = j;
  for (size_t i = 0; a[i]; i++) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < width; j++) {
      size_t best = diagonal + (a[i] != b[j]);
      diagonal = row[j + 1];
      if (row[j] + 1 < best)
        best = row[j] + 1;
      if (diagonal + 1 < best)
        best = diagonal + 1;
      row[j + 1] = best;
    }
  }
  return row[width];
}

/* Is there a variable of this name? If not, the nearest one. */
static bool ucx_settings_find_name(const char *name, char nearest[SETTINGS_NAME_MAX])
{
  char *text = NULL, *rest, *line;
  size_t size, best = SIZE_MAX;
  bool found = false;
  FILE *file = open_memstream(&text, &size);

  nearest[0] = 0;
  if (!file)
    return true;
  ucs_config_parser_print_all_opts(file, SETTINGS_PREFIX, SETTINGS_PRINT_CONFIG,
                                   ucs_config_global_list, NULL);
  fclose(file);
  for (line = strtok_r(text, "\n", &rest); line && !found; line = strtok_r(NULL, "\n", &rest)) {
    char *end = strchr(line, '=');
    if (!end || strncmp(line, SETTINGS_PREFIX, strlen(SETTINGS_PREFIX)) != 0)
      continue;
    *end = 0;
    line += strlen(SETTINGS_PREFIX);
    const size_t edits = ucx_settings_distance(name, line);
    found = edits == 0;
    if (edits < best) {
      best = edits;
      pst_text_write(nearest, SETTINGS_NAME_MAX, line);
    }
  }
  free(text);
  return found;
}

static int ucx_settings_set(const struct pst_host *host, ucp_config_t *config, const char *name,
                            const char *value)
{
  char nearest[SETTINGS_NAME_MAX];
  ucs_status_t status;

  if (!ucx_settings_find_name(name, nearest))
    return PST_REFUSE(host, -EOPNOTSUPP,
                      "this UCX has no option %s; the nearest is %s, and `ucx_info -c` lists all",
                      name, nearest);
  status = ucp_config_modify(config, name, value);
  return status == UCS_OK
             ? 0
             : PST_REFUSE(host, -EOPNOTSUPP,
                          "UCX does not take %s=%s: %s; `ucx_info -cf` says what it takes", name,
                          value, ucs_status_string(status));
}

/* The name in "NAME=VALUE", which check() has seen, without UCX_. Returns VALUE, or NULL. */
static const char *ucx_settings_split(const char *item, char name[SETTINGS_NAME_MAX])
{
  const char *equals = strchr(item, '=');

  if (strncmp(item, SETTINGS_PREFIX, strlen(SETTINGS_PREFIX)) == 0)
    item += strlen(SETTINGS_PREFIX);
  if (!equals || equals <= item || equals - item >= SETTINGS_NAME_MAX)
    return NULL;
  snprintf(name, SETTINGS_NAME_MAX, "%.*s", (int)(equals - item), item);
  return equals + 1;
}

/* Options of ours that are UCX's by another name. */
static const char *const own[][2] = {{"tls", "TLS"}, {"net_devices", "NET_DEVICES"}};

int ucx_settings_read(const struct pst_host *host, const struct pst_options *options,
                      ucp_config_t **config)
{
  ucs_status_t status = ucp_config_read(NULL, NULL, config);
  char name[SETTINGS_NAME_MAX];
  const char *item;
  int rc = 0;

  if (status != UCS_OK)
    return PST_REFUSE(host, ucx_status_errno(status), "UCX cannot read its configuration: %s; %s",
                      ucs_status_string(status), ucx_status_remedy(status));
  for (int i = 0; i < 2 && rc == 0; i++)
    if (*host->option_string(options, own[i][0]))
      rc = ucx_settings_set(host, *config, own[i][1], host->option_string(options, own[i][0]));
  for (uint32_t i = 0; rc == 0 && (item = host->option_item(options, "ucx", i)); i++) {
    const char *value = ucx_settings_split(item, name);
    rc = value ? ucx_settings_set(host, *config, name, value) : -EINVAL;
  }
  if (rc < 0)
    ucp_config_release(*config);
  return rc;
}

bool ucx_settings_have(const struct pst_host *host, const struct pst_options *options,
                       const char *name)
{
  char found[SETTINGS_NAME_MAX];
  const char *item;

  for (int i = 0; i < 2; i++)
    if (strcmp(own[i][1], name) == 0 && *host->option_string(options, own[i][0]))
      return true;
  for (uint32_t i = 0; (item = host->option_item(options, "ucx", i)); i++)
    if (ucx_settings_split(item, found) && strcmp(found, name) == 0)
      return true;
  return false;
}

void ucx_settings_environment(char *text, size_t size)
{
  size_t used = 0;

  text[0] = 0;
  for (char **at = environ; at && *at; at++) {
    const char *equals = strchr(*at, '=');
    if (strncmp(*at, SETTINGS_PREFIX, strlen(SETTINGS_PREFIX)) != 0 || !equals ||
        used + (size_t)(equals - *at) + 2 > size)
      continue;
    used += (size_t)snprintf(text + used, size - used, "%s%.*s", used ? " " : "",
                             (int)(equals - *at), *at);
  }
}
