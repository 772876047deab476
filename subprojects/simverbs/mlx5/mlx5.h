// SPDX-License-Identifier: Apache-2.0
// mlx5dv.h with what it declares visible outside, and the simulator beneath.
#ifndef SIM_MLX5_H
#define SIM_MLX5_H

#include "../front/export.h"
#pragma GCC visibility push(default)
#include <infiniband/mlx5dv.h>
#pragma GCC visibility pop

#include "../front/front.h"

#endif
