/* SPDX-License-Identifier: Apache-2.0 */
/* Not a plugin: it is linked with one, whose symbol dlsym() finds. */
#include <penstock/plugin.h>

PST_PLUGIN_EXTERN const void *borrowed_plugin(void);
const void *borrowed_plugin(void)
{
  return &pst_plugin_v1;
}
