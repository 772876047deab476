/* SPDX-License-Identifier: Apache-2.0 */
/* Differences between the memory plugins that this folder is compiled into. */
#ifndef CUDA_PLUGIN_H
#define CUDA_PLUGIN_H

#include "block.h"
#include "device.h"

/* Behind a device's line in `penstock plugins`. */
struct cuda_words {
  char text[320];
};

struct cuda_plugin {
  uint32_t kind; /* enum pst_memory_kind of NORMAL memory */

  /* Is the device one for this plugin? `options` NULL: by their defaults, of a probe. `words`
   * say what there is to know of it besides. 0; -ENODEV with *refusal. */
  int (*suits)(const struct pst_host *host, const struct cuda_driver *driver, cuda_device device,
               const struct cuda_place *place, const struct pst_options *options,
               struct cuda_words *words, struct cuda_refusal *refusal);
  /* Take the options, with the context there. 0 or -errno, logged. */
  int (*open)(struct pst_memory *memory, const struct pst_options *options);

  /* The context is current in all below. All log their errors. */
  int (*alloc)(struct pst_memory *memory, const struct pst_alloc_params *params,
               struct cuda_block *block); /* NORMAL memory */
  /* A block of a kind that this folder has no name for. */
  void (*release)(struct pst_memory *memory, struct cuda_block *block);
  /* By made->kind, which is not FD, and among the block's exports. */
  int (*export_block)(struct pst_memory *memory, struct cuda_block *block, struct pst_export *made);
  /* May that be imported, as far as its kind and device go? */
  int (*check_import)(const struct pst_memory *memory, const struct pst_export *from);
  /* By from->kind, which is not FD. */
  int (*import_block)(struct pst_memory *memory, const struct pst_export *from,
                      struct cuda_block *block);
};

/* Each plugin defines its own. */
extern const struct cuda_plugin cuda_plugin;

#endif
