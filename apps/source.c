/* SPDX-License-Identifier: Apache-2.0 */
#include "source.h"

#include <errno.h>
#include <string.h>

#include "notice.h"

int source_open(struct source *source, const char *type, const struct source_params *params,
                struct pst_error *error)
{
  static const struct source_ops *const known[] = {&source_pattern, &source_file, &source_pcap};

  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
    if (strcmp(known[i]->name, type) == 0) {
      int result = known[i]->open(params, &source->state, error);
      if (result == 0)
        source->ops = known[i];
      return result;
    }
  }
  return notice_fail(error, PST_EXIT_USAGE, -EINVAL,
                     "stream '%s': there is no source '%s'; use pattern, file or pcap",
                     params->stream, type);
}

void source_close(struct source *source)
{
  if (source->ops != NULL)
    source->ops->close(source->state);
  source->ops = NULL;
}
