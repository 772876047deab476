/* SPDX-License-Identifier: Apache-2.0 */
/* Stands for the kernels where nvcc is not there to build them: the fake goes by their
 * names, and the plugin is the same. */
#include <kernels.h>

const unsigned char cuda_kernels_image[] = "the fake driver has kernels of its own";
const unsigned long cuda_kernels_length = sizeof(cuda_kernels_image);
const int cuda_kernels_version = 11070;
