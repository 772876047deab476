/* SPDX-License-Identifier: Apache-2.0 */
/* The public ways to a configuration: core's, with the loader's catalog. */
#include "session.h"

const char *pst_version(void)
{
  return PST_API_VERSION;
}

int pst_config_open_file(const char *path, const char *const *sets, size_t set_count,
                         struct pst_config **config, struct pst_error *error)
{
  return config_load_file(path, sets, set_count, loader_catalog(), config, error);
}

int pst_config_open_text(const char *text, size_t length, const char *name, const char *const *sets,
                         size_t set_count, struct pst_config **config, struct pst_error *error)
{
  return config_load_text(text, length, name, sets, set_count, loader_catalog(), config, error);
}

int pst_config_open_params(const struct pst_config_params *params, struct pst_config **config,
                           struct pst_error *error)
{
  return config_load_params(params, loader_catalog(), config, error);
}
