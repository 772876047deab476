/* SPDX-License-Identifier: Apache-2.0 */
/* Prints config/README.md, made from core's tables, the program's and the descriptions of all
 * plugins that are found; with a file's name, says whether that file is current. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../apps/schema.h"
#include "config/config.h"
#include "loader/loader.h"

/* All of a text; free() it. NULL: that was said. */
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
  if (!memory || pst_config_program(&schema_program) < 0)
    return 1;
  int rc = config_write_reference(loader_catalog(), memory);
  if (fclose(memory) != 0 || rc != 0)
    return 1;
  if (argc == 1)
    status = fputs(should, stdout) < 0 || fflush(stdout) != 0;
  else if ((is = read_file(argv[1])) != NULL)
    status = compare(argv[1], is, should);
  free(is);
  free(should);
  return status;
}
