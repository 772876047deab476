/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin igpu: host memory that an integrated GPU maps. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "context.h"
#include "mapped.h"
#include "ops.h"
#include "platform.h"
#include "plugin.h"

static int igpu_refuse_discrete(const struct cuda_driver *driver, const struct cuda_place *place,
                                const struct igpu_facts *facts, struct cuda_refusal *refusal)
{
  char integrated[160];
  cuda_device_say_first(driver, true, integrated, sizeof(integrated));
  snprintf(refusal->reason, sizeof(refusal->reason),
           "%s (%s) is %s: it has memory of its own, and would read this plugin's over %s",
           place->name, place->pci, igpu_platform_name(igpu_platform_of(facts)),
           facts->page_tables ? "NVLink-C2C" : "PCIe");
  snprintf(refusal->remedy, sizeof(refusal->remedy),
           "take memory cuda, or write `allow_discrete: true`; integrated here: %s", integrated);
  return -ENODEV;
}

static int igpu_suits(const struct pst_host *host, const struct cuda_driver *driver,
                      cuda_device device, const struct cuda_place *place,
                      const struct pst_options *options, struct cuda_words *words,
                      struct cuda_refusal *refusal)
{
  const char *root = secure_getenv("PENSTOCK_TEST_ROOT");
  struct igpu_facts facts;
  igpu_facts_read(driver, device, place, root ? root : "", &facts);
  igpu_platform_text(&facts, words->text, sizeof(words->text));
  if (facts.integrated || (options && host->option_uint(options, "allow_discrete")))
    return 0;
  return igpu_refuse_discrete(driver, place, &facts, refusal);
}

static int igpu_open_device(struct pst_memory *memory, const struct pst_options *options)
{
  memory->allocator = (unsigned int)memory->host->option_uint(options, "cache");
  return 0;
}

/* Host memory alone is taken here. */
static void igpu_release(struct pst_memory *memory, struct cuda_block *block)
{
  (void)memory, (void)block;
}

static int igpu_export_block(struct pst_memory *memory, struct cuda_block *block,
                             struct pst_export *made)
{
  (void)memory, (void)block, (void)made;
  return -EOPNOTSUPP;
}

static int igpu_import_block(struct pst_memory *memory, const struct pst_export *from,
                             struct cuda_block *block)
{
  (void)memory, (void)from, (void)block;
  return -EOPNOTSUPP;
}

const struct cuda_plugin cuda_plugin = {
    .kind = PST_MEMORY_MAPPED,
    .suits = igpu_suits,
    .open = igpu_open_device,
    .alloc = igpu_alloc_mapped,
    .release = igpu_release,
    .export_block = igpu_export_block,
    .check_import = igpu_check_import,
    .import_block = igpu_import_block,
};

/* No FLUSH: what a NIC wrote into host memory is there for all later work of the device. */
static const struct pst_memory_ops ops = {
    CUDA_OPS, .capabilities = CUDA_CAPABILITIES,
    .adopt_region = igpu_adopt_region, /* refuses, without PST_MEMORY_CAP_ADOPT */
};

PST_PLUGIN(cuda_probe, &ops);
