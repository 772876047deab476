/* SPDX-License-Identifier: Apache-2.0 */
#include "../option.h"

static const struct pst_description description = {
    .kind = PST_KIND_FILTER,
    .name = "counting",
    .version = "0.1.0",
    .summary = "Logs how many registrations and rings there are",
    .rung = "hardware: any machine; it wraps whatever transport there is",
};
PST_DESCRIPTION(description);
