/* SPDX-License-Identifier: Apache-2.0 */
/* Options of plugins on the command line, NAME=VALUE. */
#include "plugin_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const struct pst_origins app_setting_origins = {.struct_size = sizeof(app_setting_origins),
                                                .transport_option = "--transport-option",
                                                .memory_option = "--memory-option",
                                                .insecure = "--insecure"};

int app_plugin_options_read(const char **words, size_t count, struct pst_setting **settings,
                            uint32_t *written)
{
  *settings = calloc(count + 1, sizeof(**settings));
  if (!*settings)
    return -ENOMEM;
  for (size_t i = 0; i < count; i++) {
    const char *equals = strchr(words[i], '=');
    (*settings)[i].name = strndup(words[i], (size_t)(equals - words[i]));
    (*settings)[i].value = equals + 1;
    if (!(*settings)[i].name)
      return -ENOMEM;
    (*written)++;
  }
  return 0;
}

void app_plugin_options_free(struct pst_setting *settings, uint32_t count)
{
  for (uint32_t i = 0; i < count; i++)
    free((char *)(uintptr_t)settings[i].name);
  free(settings);
}
