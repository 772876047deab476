/* SPDX-License-Identifier: Apache-2.0 */
/* Words of messages: sizes ("512 MiB"), what bounds an allocation, and its remedy. */
#ifndef HOST_TEXT_H
#define HOST_TEXT_H

#include <penstock/memory.h>

struct host_text {
  char text[32];
};
struct host_text host_size_text(uint64_t bytes);
/* Text of the limit on an allocation, "19.6 GiB are available", and of its remedy. */
struct host_line {
  char text[112];
};
struct host_line host_room_text(void);
struct host_line host_remedy_text(const struct pst_alloc_params *params);

#endif
