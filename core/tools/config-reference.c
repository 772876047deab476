/* SPDX-License-Identifier: Apache-2.0 */
/* Prints config/README.md, made from core's tables, the program's and the descriptions of all
 * plugins that are found; with a file's name, says whether that file is current. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../apps/schema.h"
#include "config/config.h"
#include "loader/loader.h"

static char *read_file(const char *path)
{
  FILE *file = fopen(path, "re");
  char *text = NULL;
  size_t size = 0, got = 0;
  char block[8192];
  FILE *memory = open_memstream(&text, &size);
  if (!file || !memory) {
    perror(path);
    if (file)
      fclose(file);
    if (memory)
      fclose(memory);
    free(text);
    return NULL;
  }
  while ((got = fread(block, 1, sizeof(block), file)) > 0)
    fwrite(block, 1, got, memory);
  fclose(file);
  fclose(memory);
  return text;
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
  if (pst_config_program(&schema_program) < 0)
    return 1;
  if (argc == 1)
    return config_write_reference(loader_catalog(), stdout) == 0 && fflush(stdout) == 0 ? 0 : 1;
  FILE *memory = open_memstream(&should, &size);
  if (!memory)
    return 1;
  int rc = config_write_reference(loader_catalog(), memory);
  if (fclose(memory) == 0 && rc == 0) {
    is = read_file(argv[1]);
    status = is ? compare(argv[1], is, should) : 1;
  }
  free(is);
  free(should);
  return status;
}
