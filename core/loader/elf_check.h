/* SPDX-License-Identifier: Apache-2.0 */
/* Identifies a file before it is opened. */
#ifndef PST_LOADER_ELF_CHECK_H
#define PST_LOADER_ELF_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "config/arena.h"

struct loader_reason;

struct elf_check {
  bool is_listed;       /* its symbols could be listed */
  bool is_defined;      /* "<stem>1" among them, defined */
  uint32_t other_major; /* N of "<stem>N" where 1 is not there; 0: none */
  const char **needed;  /* libraries it is linked with, NULL-terminated; or NULL */
  struct arena arena;   /* of that */
};

/* May it be opened: is it whole, is it for this machine, which
 * major. stem: "pst_plugin_v" or "pst_description_v". */
int elf_check_file(const char *real, const char *stem, struct elf_check *found,
                   struct loader_reason *why);
void elf_check_free(struct elf_check *found);
/* -ELIBBAD: neither the file's table nor dlsym() has "<stem>1". */
int elf_check_no_symbol(const char *stem, struct loader_reason *why);

#endif
