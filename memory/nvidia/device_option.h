/* SPDX-License-Identifier: Apache-2.0 */
/* The option `device` as it is written: nothing here asks the driver. */
#ifndef CUDA_DEVICE_OPTION_H
#define CUDA_DEVICE_OPTION_H

#include <stdbool.h>

enum cuda_device_option_by { CUDA_BY_INDEX, CUDA_BY_UUID, CUDA_BY_PCI };
struct cuda_device_option {
  enum cuda_device_option_by by;
  int index;
  char uuid[48]; /* lower case, without "GPU-"; a prefix will do */
  unsigned int domain, bus, device;
};
bool cuda_device_option_parse(const char *text, struct cuda_device_option *wanted);
/* Why that is none, and what would be one. */
const char *cuda_device_option_refusal(const char *text);

#endif
