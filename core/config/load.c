/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration from a file, from text or from parameters. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/evp.h>

#include "../util/log.h"
#include "check.h"
#include "config.h"

static int load_hash(struct pst_config *config)
{
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  char *text = NULL;
  int rc = print_tree(config->effective, false, &text);
  if (rc)
    return rc;
  int done = EVP_Digest(text, strlen(text), digest, &length, EVP_sha256(), NULL);
  free(text);
  if (!done || length != 32)
    return -ENOMEM;
  for (unsigned int i = 0; i < length; i++)
    snprintf(config->hash + 2 * (size_t)i, 3, "%02x", digest[i]);
  return 0;
}

/* Empty, held once, and where its findings go. NULL: no memory, which is reported. */
static struct pst_config *load_begin(struct findings *findings, struct pst_error *error)
{
  struct pst_config *config = calloc(1, sizeof(*config));
  struct arena none = {.no_memory = true};
  *findings = (struct findings){.arena = config ? &config->arena : &none};
  if (config)
    atomic_init(&config->holds, 1);
  else
    findings_report(findings, error);
  return config;
}

/* Takes the config over: it goes to *out or is closed. */
static int load_finish(struct pst_config *config, struct findings *findings, const char *source,
                       struct node *root, const struct config_catalog *catalog,
                       struct pst_config **out, struct pst_error *error)
{
  struct check check = {config, &config->arena, findings, catalog};
  check_root(&check, source, root);
  if (findings->total == 0 && !config->arena.no_memory && load_hash(config))
    config->arena.no_memory = true;
  int rc = findings_report(findings, error);
  if (rc)
    pst_config_close(config);
  else
    *out = config;
  return rc;
}

int config_load_text(const char *text, size_t length, const char *name, const char *const *sets,
                     size_t set_count, const struct config_catalog *catalog,
                     struct pst_config **config, struct pst_error *error)
{
  struct findings findings;
  struct pst_config *made = load_begin(&findings, error);
  struct node *root = NULL;
  if (!made)
    return -ENOMEM;
  const char *source = text_printable(&made->arena, name ? name : "configuration");
  source = source ? source : "";
  tree_read(&made->arena, &findings, source, true, text, length, &root);
  bool readable = root || findings.total == 0;
  for (size_t i = 0; readable && i < set_count; i++)
    override_apply(&made->arena, &findings, sets[i], &root);
  return load_finish(made, &findings, source, root, catalog, config, error);
}

int config_load_params(const struct pst_config_params *params,
                       const struct config_params_more *more, const struct config_catalog *catalog,
                       struct pst_config **config, struct pst_error *error)
{
  struct findings findings;
  struct pst_config *made = load_begin(&findings, error);
  struct node *root = NULL;
  if (!made)
    return -ENOMEM;
  made->config.is_node = more && more->is_node;
  params_read(&made->arena, &findings, params, more, &root);
  return load_finish(made, &findings, PARAMS_SOURCE, root, catalog, config, error);
}

/* All of a file, and one byte more than may be when it is too long; free() it. */
static int load_read_all(FILE *file, char **text, size_t *length)
{
  char *buffer = malloc(TREE_FILE_MAX + 1);
  if (!buffer)
    return -ENOMEM;
  *length = fread(buffer, 1, TREE_FILE_MAX + 1, file);
  if (ferror(file)) {
    int rc = errno ? -errno : -EIO;
    free(buffer);
    return rc;
  }
  *text = buffer;
  return 0;
}

int config_read_file(const char *path, char **text, size_t *length)
{
  const bool standard_input = strcmp(path, "-") == 0;
  FILE *file = standard_input ? stdin : fopen(path, "re");
  const int rc = file ? load_read_all(file, text, length) : -errno;

  if (file && !standard_input)
    fclose(file);
  return rc;
}

int config_load_file(const char *path, const char *const *sets, size_t set_count,
                     const struct config_catalog *catalog, struct pst_config **config,
                     struct pst_error *error)
{
  const bool standard_input = strcmp(path, "-") == 0;
  char *text = NULL;
  size_t length = 0;
  int rc = config_read_file(path, &text, &length);
  if (rc)
    return pst_fail(error, PST_EXIT_USAGE, rc,
                    "cannot read the configuration %s: %s; give the path of a YAML file, or - for "
                    "standard input",
                    path, strerror(-rc));
  rc = config_load_text(text, length, standard_input ? "stdin" : path, sets, set_count, catalog,
                        config, error);
  free(text);
  return rc;
}
