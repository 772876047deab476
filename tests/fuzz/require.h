/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer takes an abort for a finding; assert() may be compiled out. */
#ifndef FUZZ_REQUIRE_H
#define FUZZ_REQUIRE_H

#include <stdio.h>
#include <stdlib.h>

#define REQUIRE(what)                                                                              \
  do {                                                                                             \
    if (!(what)) {                                                                                 \
      fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #what);                    \
      abort();                                                                                     \
    }                                                                                              \
  } while (0)

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

#endif
