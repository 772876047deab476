/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin's own table, under a name that others can stand beside. */
#define pst_description_v1 fuzz_description_loopback
#include "../../transports/loopback/options.c"
