/* SPDX-License-Identifier: Apache-2.0 */
/* The folders with plugins, and what lies in them. */
#ifndef PST_LOADER_SEARCH_H
#define PST_LOADER_SEARCH_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/arena.h"

struct loader_folder {
  struct loader_folder *next;
  const char *path; /* as it was named */
  const char *real; /* NULL: cannot be looked into, errno in `error` */
  int error;
};

struct loader_folders {
  struct arena arena;
  struct loader_folder *first, **end;
};

/* The folders to look into, in order, each once; search_folders_free() whatever comes of it. 0,
 * -ENOMEM, or why the list of the build's cannot be read: loader_search_failed() has the words. */
int search_folders(struct loader_folders *folders);
void search_folders_free(struct loader_folders *folders);
/* The file of this library, or of the program it is linked into. */
bool search_own_file(char path[PATH_MAX]);
/* "a, b (No such file or directory)" */
void search_folders_text(const struct loader_folders *folders, char *text, size_t size);

/* Called for each file named as a plugin or a description: folder by folder, by
 * name within one. A result other than 0 ends the search and is returned. */
typedef int (*search_visit)(void *context, const char *path, uint32_t kind, const char *name,
                            bool is_description);
int search_each(const struct loader_folders *folders, search_visit visit, void *context);
/* folder/kind-name.so or .desc.so when there is such an entry; free() it. */
char *search_file(const struct loader_folder *folder, uint32_t kind, const char *name,
                  bool is_description);

#endif
