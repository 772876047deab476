/* SPDX-License-Identifier: Apache-2.0 */
/* Devices by the names that people have for them. */
#ifndef CUDA_DEVICE_H
#define CUDA_DEVICE_H

#include "device_option.h"
#include "driver.h"

struct cuda_place {
  char uuid[48];
  char pci[16]; /* "0000:b7:00.0" */
  char name[96];
  int capability; /* 90 for 9.0 */
};
/* Does the device at `index` go by that name? */
bool cuda_device_option_is(const struct cuda_device_option *wanted, int index,
                           const struct cuda_place *place);
cuda_status cuda_place_read(const struct cuda_driver *driver, cuda_device device,
                            struct cuda_place *place);
/* Does it share the host's memory? */
bool cuda_device_is_integrated(const struct cuda_driver *driver, cuda_device device);
/* The first that does, or does not: "1 (Orin, 0000:00:00.0)", or "none". */
void cuda_device_say_first(const struct cuda_driver *driver, bool integrated, char *out,
                           size_t size);
/* 0 and *device, or -ENODEV or -EINVAL, logged. */
int cuda_device_find(const struct pst_host *host, const struct cuda_driver *driver,
                     const char *text, cuda_device *device);

#endif
