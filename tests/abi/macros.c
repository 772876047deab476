/* SPDX-License-Identifier: Apache-2.0 */
/* Uses of the macros by a plugin author, in strict C11 and in C++17. */
#include <penstock/memory.h>
#include <penstock/transport.h>

static const struct pst_option options[] = {
    {"depth", "How deep.", "8", 0, 1, 64, PST_OPTION_UINT, PST_SCOPE_DEVICE, 0, 0},
};

static const char *const environment[] = {"SAMPLE_HOOKS=n", NULL};

/* C++ has no members by name before C++20. */
#ifdef __cplusplus
static struct pst_description describe()
{
  struct pst_description made = {};
  made.kind = PST_KIND_MEMORY;
  made.name = "sample";
  made.version = "1.0";
  made.summary = "A sample";
  made.rung = "compiled";
  made.options = options;
  made.option_count = sizeof(options) / sizeof(options[0]);
  made.environment = environment;
  return made;
}
static const struct pst_description description = describe();
#else
static const struct pst_description description = {
    .kind = PST_KIND_MEMORY,
    .name = "sample",
    .version = "1.0",
    .summary = "A sample",
    .rung = "compiled",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .environment = environment,
};
#endif

PST_DESCRIPTION(description);

static int sample_probe(const struct pst_host *host, struct pst_probe *probe)
{
  host->log(host, PST_LOG_DEBUG, "%s", "probed");
  (void)probe;
  return 0;
}

PST_PLUGIN(sample_probe, NULL);
