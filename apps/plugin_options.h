/* SPDX-License-Identifier: Apache-2.0 */
/* Options of plugins, from words of the command line. */
#ifndef APP_PLUGIN_OPTIONS_H
#define APP_PLUGIN_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include <penstock/penstock.h>

/* From `count` words "KEY=VALUE", which arguments.c has checked for the "=", and whose values
 * must stay; app_plugin_options_free() what was written, after a failure too. 0 or -ENOMEM. */
int app_plugin_options_read(const char **words, size_t count, struct pst_setting **settings,
                            uint32_t *written);
void app_plugin_options_free(struct pst_setting *settings, uint32_t count);

/* The names that findings give as the place of these words. */
extern const struct pst_origins app_setting_origins;

#endif
