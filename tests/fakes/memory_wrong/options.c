/* SPDX-License-Identifier: Apache-2.0 */
#include <penstock/plugin.h>

PST_DESCRIPTION(PST_KIND_MEMORY, "wrong", "0.1.0",
                "Takes the pages of a region when asked, or breaks the contract",
                "the environment variable WRONG, which says how", "simulated: shared memory", NULL,
                0);
