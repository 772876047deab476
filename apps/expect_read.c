/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "expect.h"

void expect_read(const struct pst_config *config, const char *stream, struct expect_wanted *wanted)
{
  const struct {
    const char *key;
    struct expect_value *value;
  } keys[] = {
      {"path", &wanted->path},
      {"via", &wanted->via},
      {"carrier", &wanted->carrier},
      {"min_gbps", &wanted->min_gbps},
      {"max_loss", &wanted->max_loss},
      {"max_corrupted", &wanted->max_corrupted},
      {"max_duplicates", &wanted->max_duplicates},
      {"max_reordered", &wanted->max_reordered},
      {"min_messages", &wanted->min_messages},
      {"verified", &wanted->verified},
  };

  for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
    char path[512];
    snprintf(path, sizeof path, "streams.%s.expect.%s", stream, keys[i].key);
    keys[i].value->text = pst_config_get(config, path);
    keys[i].value->number = pst_config_get_number(config, path);
  }
}
