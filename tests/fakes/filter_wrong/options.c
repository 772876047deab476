/* SPDX-License-Identifier: Apache-2.0 */
#include <penstock/plugin.h>

PST_DESCRIPTION(PST_KIND_FILTER, "wrong", "0.1.0", "Breaks the contract in one way of several",
                "the environment variable WRONG, which says how", "hardware: any machine", NULL, 0);
