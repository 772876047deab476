/* SPDX-License-Identifier: Apache-2.0 */
/* `--set path=value`, one a line, over one file. A vertical tab stands for a line end
 * within a set. */
#include <string.h>

#include "allocation.h"
#include "config_load.h"
#include "require.h"

#define SETS_MAX 16

static const char file[] = "penstock: 1\n"
                           "control: 127.0.0.1:18515\n"
                           "transport: {plugin: loopback, filters: [fault, bare]}\n"
                           "streams:\n"
                           "  - name: one\n"
                           "    sender: {memory: host, source: pattern}\n"
                           "  - name: one.more\n"
                           "    ring: 64\n"
                           "    receiver: {sink: verify}\n";

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
  (void)argc;
  (void)argv;
  config_quiet();
  return 0;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
  char *sets[SETS_MAX];
  size_t count = 0;
  char *text = malloc(size + 1);
  REQUIRE(text != NULL);
  if (size > 0)
    memcpy(text, data, size);
  text[size] = '\0';
  for (char *rest = text; rest && count < SETS_MAX;) {
    char *set = strsep(&rest, "\n");
    for (char *c = set; (c = strchr(c, '\v')) != NULL;)
      *c = '\n';
    sets[count] = strdup(set); /* of its own, so that reading past its end shows */
    REQUIRE(sets[count] != NULL);
    count++;
  }
  config_try(file, sizeof(file) - 1, (const char *const *)sets, count, input_number(data, size));
  for (size_t i = 0; i < count; i++)
    free(sets[i]);
  free(text);
  return 0;
}
