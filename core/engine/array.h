/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow by one. */
#ifndef PST_ENGINE_ARRAY_H
#define PST_ENGINE_ARRAY_H

#include <errno.h>
#include <stdlib.h>

/* Appends to an array that `count` counts. 0, or -ENOMEM with nothing changed. */
#define ARRAY_APPEND(array, count, item)                                                           \
  ({                                                                                               \
    typeof(array) grown_ = realloc((array), ((count) + 1) * sizeof(*(array)));                     \
    if (grown_) {                                                                                  \
      grown_[(count)++] = (item);                                                                  \
      (array) = grown_;                                                                            \
    }                                                                                              \
    grown_ ? 0 : -ENOMEM;                                                                          \
  })

#endif
