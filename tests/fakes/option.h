/* SPDX-License-Identifier: Apache-2.0 */
/* An option of a plugin for tests: `type_` without PST_OPTION_; bounds may follow. */
#ifndef FAKES_OPTION_H
#define FAKES_OPTION_H

#include <penstock/plugin.h>

#define FAKE_OPTION(name_, type_, default_, ...)                                                   \
  {                                                                                                \
    .name = name_, .default_value = default_, .type = PST_OPTION_##type_,                          \
    .scope = PST_SCOPE_DEVICE, .flags = PST_OPTION_TESTING, .help = __VA_ARGS__                    \
  }

#endif
