/* SPDX-License-Identifier: Apache-2.0 */
/* Built where nvcc is not. */
#include "kernels.h"

const unsigned char cuda_kernels_image[] = {0};
const unsigned long cuda_kernels_length = 0;
const int cuda_kernels_version = 0;
