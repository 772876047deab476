/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases that every memory plugin must pass, whatever its memory: the words of
 * memory.h. A case whose capability the plugin does not announce is skipped;
 * what is announced is tried.
 */
#ifndef CONTRACT_MEMORY_H
#define CONTRACT_MEMORY_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <penstock/memory.h>

#include "common.h"

#define QUEUE_BATCHES 4u
#define QUEUE_PIECES 64u

typedef struct pst_options *contract_options_make(void *context);

/* The plugin under test, opened once. */
struct contract {
  const struct pst_host *host;
  const struct pst_memory_ops *ops; /* laid over -EOPNOTSUPP */
  const struct pst_memory_ops *raw; /* as the plugin gives them */
  struct pst_memory *memory;
  contract_options_make *options;
  void *options_context;
  struct pst_queue *mover;   /* for put and get, where the CPU cannot reach a region */
  struct pst_region staging; /* of the mover */
};
extern struct contract contract;

#define need_capability(bits)                                                                      \
  do {                                                                                             \
    if ((contract.ops->capabilities & (bits)) != (bits))                                           \
      skip();                                                                                      \
  } while (0)

/* Error lines since contract_errors_clear(). */
unsigned int contract_errors(void);
void contract_errors_clear(void);
/* The call is refused with `code`, and the log says why, in one line. */
#define assert_refused(code, call)                                                                 \
  do {                                                                                             \
    contract_errors_clear();                                                                       \
    assert_int_equal((call), (code));                                                              \
    if (contract_errors() != 1)                                                                    \
      fail_msg("refused as it should be, but with %u error lines in the log: who decides an "      \
               "error logs it, once, and says the remedy; " #call,                                 \
               contract_errors());                                                                 \
  } while (0)

/* One more device of the same options, which are gone when this returns. */
struct pst_memory *contract_open(void);

struct pst_region contract_alloc(uint32_t purpose, uint64_t length, uint64_t alignment,
                                 uint32_t needs);
void contract_free(struct pst_region *region);
int contract_alloc_params(const struct pst_alloc_params *params, struct pst_region *region);

struct pst_queue *contract_queue(void);
/* Poll until the batch is finished. */
void contract_finish(struct pst_queue *queue, uint64_t ticket);

/* Bytes into and out of a region, by the CPU where it can, else by copies. */
bool contract_reaches(const struct pst_region *region);
void contract_put(const struct pst_region *region, uint64_t offset, const void *bytes,
                  uint64_t length);
void contract_get(const struct pst_region *region, uint64_t offset, void *bytes, uint64_t length);

/* The pattern, byte by byte, from the text of memory.h. */
void contract_pattern(uint8_t *bytes, uint64_t length, uint64_t seed, uint64_t sequence);

/* Between the two this process makes no file and maps no memory of more than a GiB: so a plugin
 * that takes what it is asked for fails its case, and leaves the machine its memory. */
void contract_guard(void);
void contract_unguard(void);

/* Groups of cases; each returns how many failed. */
int contract_regions(void);
int contract_exports(void);
int contract_copies(void);
int contract_patterns(void);
int contract_rows(void);
int contract_sums(void);
int contract_fences(void);

#endif
