/* SPDX-License-Identifier: Apache-2.0 */
/* Arguments that gpu-consumer passes to its kernel, by value. */
#ifndef CONSUMER_H
#define CONSUMER_H

#include <stdint.h>

struct consumer_args {
  uint64_t base;   /* of the first message, on the device */
  uint64_t stride; /* from message to message */
  uint64_t length; /* of each */
  uint64_t sum;    /* on the device: a uint64_t that all their bytes are added to */
  uint64_t count;
};

#endif
