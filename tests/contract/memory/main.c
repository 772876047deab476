/* SPDX-License-Identifier: Apache-2.0 */
/* contract-memory PLUGIN [OPTION=VALUE ...]: 0 it keeps the contract, 77 it
 * cannot be used on this machine, 1 it breaks it. */
#include "contract.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/penstock.h>

#include "config/options.h"
#include "loader/loader.h"

struct contract contract = {.random = 1};

static atomic_uint errors;

static void log_line(void *context, int level, const char *line)
{
  (void)context;
  if (level == PST_LOG_ERROR)
    atomic_fetch_add(&errors, 1);
  if (getenv("CONTRACT_VERBOSE"))
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

static int set_options(struct pst_options *options, int count, char **pairs)
{
  char why[256];
  for (int i = 0; i < count; i++) {
    char *value = strchr(pairs[i], '=');
    if (!value) {
      fprintf(stderr, "\"%s\" is not OPTION=VALUE\n", pairs[i]);
      return 1;
    }
    *value++ = '\0';
    if (options_set(options, pairs[i], value, why, sizeof(why)) != 0) {
      fprintf(stderr, "%s: %s\n", pairs[i], why);
      return 1;
    }
  }
  return 0;
}

static int probe(const struct loader_plugin *plugin)
{
  struct pst_probe found = {.struct_size = sizeof(found)};
  int code = plugin->plugin->probe ? plugin->plugin->probe(plugin->host, &found) : 0;
  if (code == 0)
    return 0;
  fprintf(stderr, "%s cannot be used here: %s; %s\n", plugin->name, found.reason, found.remedy);
  const char *required = getenv("PENSTOCK_REQUIRE");
  return required && strstr(required, plugin->name) ? 1 : 77;
}

static int run(void)
{
  int failed = contract_regions();
  failed += contract_exports();
  failed += contract_copies();
  failed += contract_patterns();
  return failed + contract_fences();
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

int main(int argc, char **argv)
{
  const struct loader_plugin *plugin;
  struct pst_error error = PST_ERROR_INIT;
  struct pst_options *options;
  if (argc < 2) {
    fprintf(stderr, "usage: %s PLUGIN [OPTION=VALUE ...]\n", argv[0]);
    return 2;
  }
  if (loader_load(PST_KIND_MEMORY, argv[1], &plugin, &error) != 0)
    return 1;
  pst_log_set(log_line, NULL, PST_LOG_DEBUG);
  int status = probe(plugin);
  if (status)
    return status;
  if (options_new(plugin->description->options, plugin->description->option_count, &options) ||
      set_options(options, argc - 2, argv + 2))
    return 1;
  struct pst_memory_params params = {sizeof(params), 0, options};
  contract.host = plugin->host;
  contract.ops = plugin->memory;
  contract.raw = plugin->plugin->ops;
  if (contract.ops->open(contract.host, &params, &contract.memory) != 0) {
    fprintf(stderr, "%s does not open\n", argv[1]);
    return 1;
  }
  options_free(options);
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
