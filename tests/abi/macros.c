/* SPDX-License-Identifier: Apache-2.0 */
/* What a plugin author writes, in strict C11 and in C++17. */
#include <penstock/memory.h>
#include <penstock/transport.h>

static const struct pst_option options[] = {
    {"depth", "How deep.", "8", 0, 1, 64, PST_OPTION_UINT, PST_SCOPE_DEVICE, 0, 0},
};

PST_DESCRIPTION(PST_KIND_MEMORY, "sample", "1.0", "A sample", "", "compiled", options,
                sizeof options / sizeof options[0]);

static int sample_probe(const struct pst_host *host, struct pst_probe *probe)
{
  host->log(host, PST_LOG_DEBUG, "%s", "probed");
  (void)probe;
  return 0;
}

PST_PLUGIN(sample_probe, NULL);
