/* SPDX-License-Identifier: Apache-2.0 */
/* The limit of locked memory, and what helps. */
#include "mr.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <penstock/page.h>
#include <penstock/plugin.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#define KIB(bytes_) ((unsigned long long)((bytes_) / 1024))

/* True in the first user namespace, whose map has all users: capable() asks for the capability
 * there. */
static bool vb_memlock_is_first_namespace(void)
{
  FILE *map = fopen("/proc/self/uid_map", "re");
  uint64_t inside = 1, outside = 1, count = 0;

  if (!map)
    return true; /* a kernel without user namespaces */
  bool is_read = fscanf(map, "%" SCNu64 " %" SCNu64 " %" SCNu64, &inside, &outside, &count) == 3;
  fclose(map);
  return is_read && inside == 0 && outside == 0 && count == UINT32_MAX;
}

void vb_memlock_read(struct vb_memlock *now)
{
  struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
  FILE *status = fopen("/proc/self/status", "re");
  uint64_t capabilities = 0, pinned_kib = 0;
  char line[256];

  while (status && fgets(line, sizeof(line), status)) {
    sscanf(line, "VmPin: %" SCNu64, &pinned_kib);
    sscanf(line, "CapEff: %" SCNx64, &capabilities);
  }
  if (status)
    fclose(status);
  getrlimit(RLIMIT_MEMLOCK, &limit);
  *now = (struct vb_memlock){
      .limit = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur,
      .pinned = pinned_kib * 1024,
      .is_privileged = (capabilities >> CAP_IPC_LOCK & 1) && vb_memlock_is_first_namespace(),
  };
}

static uint64_t vb_memlock_whole_pages(uint64_t bytes)
{
  uint64_t page = pst_page_size();

  return bytes > UINT64_MAX - page ? bytes : (bytes + page - 1) / page * page;
}

bool vb_memlock_exceeded(const struct vb_memlock *now, uint64_t wanted)
{
  return !now->is_privileged && now->limit != UINT64_MAX &&
         (now->pinned > now->limit || vb_memlock_whole_pages(wanted) > now->limit - now->pinned);
}

#define REMEDY                                                                                     \
  "raise it (`ulimit -l unlimited`, LimitMEMLOCK=infinity, a container's --ulimit memlock=-1)"

void vb_memlock_words(const struct vb_memlock *now, uint64_t wanted, char *text, size_t size)
{
  if (wanted > now->limit)
    snprintf(text, size,
             "the locked-memory limit of %llu KiB is less than the %llu KiB wanted: " REMEDY,
             KIB(now->limit), KIB(wanted));
  else
    snprintf(
        text, size,
        "the locked-memory limit of %llu KiB is used up, %llu KiB are pinned and %llu KiB more "
        "are wanted: " REMEDY,
        KIB(now->limit), KIB(now->pinned), KIB(vb_memlock_whole_pages(wanted)));
}

void vb_memlock_innocent(const struct vb_memlock *now, char *text, size_t size)
{
  if (now->limit == UINT64_MAX)
    snprintf(text, size, "the locked-memory limit is not the cause: there is none");
  else if (now->is_privileged)
    snprintf(
        text, size,
        "the locked-memory limit is not the cause: this process has CAP_IPC_LOCK, which lifts it");
  else
    snprintf(text, size, "the locked-memory limit is not the cause: %llu of %llu KiB are pinned",
             KIB(now->pinned), KIB(now->limit));
}

const char *vb_memlock_hint(int error, char text[160])
{
  struct vb_memlock now;

  text[0] = '\0';
  if (error != ENOMEM && error != EPERM && error != EAGAIN)
    return text;
  vb_memlock_read(&now);
  if (!now.is_privileged && now.limit != UINT64_MAX)
    snprintf(text, 160, ", or raise `ulimit -l`: %llu of %llu KiB are pinned", KIB(now.pinned),
             KIB(now.limit));
  return text;
}
