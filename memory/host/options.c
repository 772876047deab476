/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the plugin host, and its description. */
#include <string.h>

#include <penstock/memory.h>
#include <penstock/plugin.h>

static const char *const backings[] = {"auto", "malloc", "memfd", "huge_2m", "huge_1g", NULL};

static const struct pst_option options[] = {
    {
        .name = "backing",
        .help = "How regions are allocated. `auto`: by memfd where the transport hands the "
                "memory to another process. Else in reserved huge pages, if the region is "
                "large and enough are free. Else by malloc with transparent huge pages "
                "advised. A huge page size that is named here must have free pages; there is "
                "no fallback.",
        .default_value = "auto",
        .choices = backings,
        .type = PST_OPTION_ENUM,
        .scope = PST_SCOPE_DEVICE,
    },
    {
        .name = "numa_node",
        .help = "The only NUMA node whose memory is used. auto or -1: each page is on the node "
                "of the thread that first touches the page.",
        .default_value = "auto",
        .max = 15,
        .type = PST_OPTION_STRING,
        .scope = PST_SCOPE_DEVICE,
    },
    {
        .name = "lock",
        .help = "Lock regions in memory (mlock), so that they are never paged out. Locked "
                "bytes count against RLIMIT_MEMLOCK; a limit that is too low is an error.",
        .default_value = "false",
        .type = PST_OPTION_BOOL,
        .scope = PST_SCOPE_DEVICE,
    },
    {
        .name = "populate",
        .help = "Allocate all pages of a region at once, so that no message has to wait for a "
                "page fault. Huge pages on a named NUMA node are always allocated at once.",
        .default_value = "true",
        .type = PST_OPTION_BOOL,
        .scope = PST_SCOPE_DEVICE,
    },
};

/* Whether the machine has the node is open()'s to say. */
static void host_options_check(const struct pst_check *check, struct pst_facts *facts)
{
  const char *node = check->option_string(check->options, "numa_node");

  facts->memory_kinds = 1u << PST_MEMORY_HOST;
  if (check->option_uint(check->options, "backing") == 1) /* malloc */
    facts->memory_lacks = PST_NEED_EXPORT_FD;
  if (strcmp(node, "auto") != 0 && strcmp(node, "-1") != 0 &&
      (!node[0] || node[strspn(node, "0123456789")]))
    check->report(check, "numa_node", "\"%s\" is not a node; write auto, -1 or a number", node);
}

static const struct pst_description description = {
    .kind = PST_KIND_MEMORY,
    .name = "host",
    .version = "1.0",
    .summary = "Host memory: malloc, memfd, huge pages",
    .rung = "hardware: tests/unit/memory and tests/contract/memory run on any machine",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .check = host_options_check,
};
PST_DESCRIPTION(description);
