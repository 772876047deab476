/* SPDX-License-Identifier: Apache-2.0 */
/* Failures of the driver, said with their remedies. */
#ifndef CUDA_FAILURE_H
#define CUDA_FAILURE_H

#include "state.h"

struct cuda_text {
  char text[160];
};
/* "CUDA_ERROR_OUT_OF_MEMORY: out of memory". */
struct cuda_text cuda_status_text(const struct cuda_driver *driver, cuda_status status);
/* Returns the errno for a status that nothing else explains, and logs it with its remedy. A lost
 * device is logged once: -EIO. */
int cuda_failed(struct pst_memory *memory, const char *call, cuda_status status);
bool cuda_is_lost(cuda_status status);
/* "lower `ring` or `message`", by what the caller says. */
struct cuda_text cuda_lower_text(const struct pst_alloc_params *params);
/* params->length bytes (0: not known how many) that the device, or pinned host memory, has not:
 * says what was asked, what is free, and the remedy: -ENOMEM. Another status: as cuda_failed(). */
#define CUDA_ASKED(what, bytes)                                                                    \
  (&(const struct pst_alloc_params){.label = (what), .length = (bytes)})
int cuda_refuse_device(struct pst_memory *memory, const struct pst_alloc_params *params,
                       const char *call, cuda_status status);
int cuda_refuse_pinned(struct pst_memory *memory, const struct pst_alloc_params *params,
                       const char *call, cuda_status status);
int cuda_refuse_host(struct pst_memory *memory, const struct pst_alloc_params *params,
                     const char *call, const char *why);

#endif
