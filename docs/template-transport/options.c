/* SPDX-License-Identifier: Apache-2.0 */
/* What can be known of the plugin without its vendor's library. */
#include <penstock/plugin.h>

PST_DESCRIPTION(PST_KIND_TRANSPORT, "template", "1.0", "By copy within a process", "",
                "hardware (any machine)", NULL, 0);
