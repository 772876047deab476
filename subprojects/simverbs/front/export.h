// SPDX-License-Identifier: Apache-2.0
// verbs.h, with what it declares visible outside, and without the macros that stand before the
// functions of the same names.
#ifndef SIM_EXPORT_H
#define SIM_EXPORT_H

#pragma GCC visibility push(default)
#include <infiniband/verbs.h>
#pragma GCC visibility pop

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define SIM_EXPORT __attribute__((visibility("default")))

#endif
