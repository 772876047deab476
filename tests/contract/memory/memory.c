/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of memories: the program. */
#include "contract.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/penstock.h>

#include "program.h"

struct contract contract;

static atomic_uint errors;

static void log_line(void *context, int level, const char *line)
{
  (void)context;
  if (level == PST_LOG_ERROR)
    atomic_fetch_add(&errors, 1);
  if (getenv("CONTRACT_LOG"))
    fprintf(stderr, "%d %s\n", level, line);
}

unsigned int contract_errors(void)
{
  return atomic_load(&errors);
}

void contract_errors_clear(void)
{
  atomic_store(&errors, 0);
}

static int run(void)
{
  int failed = contract_regions();
  failed += contract_exports();
  failed += contract_copies();
  failed += contract_patterns();
  failed += contract_rows();
  failed += contract_sums();
  return failed + contract_fences();
}

static int open_device(struct pst_memory **memory)
{
  struct pst_options *options = contract.options(contract.options_context);
  struct pst_memory_params params = {sizeof(params), 0, options};
  int rc = contract.ops->open(contract.host, &params, memory);
  options_free(options);
  return rc;
}

struct pst_memory *contract_open(void)
{
  struct pst_memory *memory = NULL;
  assert_int_equal(open_device(&memory), 0);
  assert_non_null(memory);
  return memory;
}

static int open_mover(void)
{
  struct pst_queue_params params = {sizeof(params), QUEUE_BATCHES, QUEUE_PIECES, 0};
  if (!(contract.ops->capabilities & PST_MEMORY_CAP_COPY))
    return 0;
  contract.staging = contract_alloc(PST_ALLOC_STAGING, 1 << 20, 0, 0);
  return contract.ops->queue_open(contract.memory, &params, &contract.mover);
}

static void close_mover(void)
{
  if (!contract.mover)
    return;
  contract.ops->queue_close(contract.mover);
  contract_free(&contract.staging);
}

int contract_memory_run(const struct loader_plugin *plugin, contract_options_make *options,
                        void *context)
{
  pst_log_set(log_line, NULL, PST_LOG_DEBUG);
  contract.host = plugin->host;
  contract.ops = plugin->memory;
  contract.raw = plugin->plugin->ops;
  contract.options = options;
  contract.options_context = context;
  int rc = open_device(&contract.memory);
  if (rc != 0) {
    fprintf(stderr, "%s does not open: %s; CONTRACT_LOG=1 shows what it logs\n", plugin->name,
            strerror(-rc));
    return 1;
  }
  int failed = 1;
  if (open_mover() == 0)
    failed = run();
  /* A case that failed has left its queues and regions: close() may not be called. */
  if (failed)
    return 1;
  close_mover();
  contract_errors_clear();
  contract.ops->close(contract.memory);
  if (contract_errors() > 0)
    fprintf(stderr, "close() complains: something was left over\n");
  return contract_errors() ? 1 : 0;
}
