/* SPDX-License-Identifier: Apache-2.0 */
/* Drops capabilities of the process for good. */
#include "capabilities.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int capabilities_keep(uint64_t kept)
{
  struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
  struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3];

  if (syscall(SYS_capget, &header, sets) < 0)
    return -errno;
  /* Fails without CAP_SETPCAP. That is harmless: with no_new_privs the bounding set gives nothing.
   */
  for (int number = 0; prctl(PR_CAPBSET_READ, number, 0, 0, 0) >= 0; number++)
    if ((kept & CAPABILITY(number)) == 0)
      prctl(PR_CAPBSET_DROP, number, 0, 0, 0);
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
    const uint32_t word = (uint32_t)(kept >> (32 * i));
    sets[i].effective &= word;
    sets[i].permitted &= word;
    sets[i].inheritable = 0;
  }
  return syscall(SYS_capset, &header, sets) < 0 ? -errno : 0;
}
