/* SPDX-License-Identifier: Apache-2.0 */
/* NUMA policy goes by system call: libnuma would add a dependency for two of
 * its calls. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "format.h"
#include "numa.h"
#include "state.h"

/* linux/mempolicy.h */
#define POLICY_DEFAULT 0
#define POLICY_BIND 2

/* linux/mman.h since 5.14, not in every libc */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define NODES_MAX 1024
#define NODE_WORD_BITS (8 * sizeof(unsigned long))

static void host_numa_read_nodes(char *text, size_t size)
{
  snprintf(text, size, "0");
  FILE *file = fopen("/sys/devices/system/node/online", "re");
  if (!file)
    return;
  char line[128];
  if (fscanf(file, "%127s", line) == 1)
    snprintf(text, size, "%s", line);
  fclose(file);
}

/* Reads `numa_node`: -1 for auto, or a node that this host has. false: logged, with -errno in
 * *error. */
bool host_node_parse(const struct pst_host *host, const char *text, int *node, int *error)
{
  if (strcmp(text, "auto") == 0 || strcmp(text, "-1") == 0) {
    *node = -1;
    return true;
  }
  char *end;
  errno = 0;
  unsigned long number = strtoul(text, &end, 10);
  if (text[0] < '0' || text[0] > '9' || *end || errno) {
    host->log(host, PST_LOG_ERROR, "numa_node: \"%s\" is not a node; write auto, -1 or a number",
              text);
    *error = -EINVAL;
    return false;
  }
  char path[64], nodes[128];
  snprintf(path, sizeof(path), "/sys/devices/system/node/node%lu", number);
  host_numa_read_nodes(nodes, sizeof(nodes));
  bool exists =
      access(path, F_OK) == 0 || (number == 0 && access("/sys/devices/system/node", F_OK) != 0);
  if (number >= NODES_MAX || !exists) {
    host->log(host, PST_LOG_ERROR, "numa_node: there is no NUMA node %lu; there are: %s", number,
              nodes);
    *error = -ENODEV;
    return false;
  }
  *node = (int)number;
  return true;
}

int host_block_bind(const struct pst_memory *memory, struct host_block *block, const char *label)
{
  if (memory->numa_node < 0)
    return 0;
  unsigned long mask[NODES_MAX / NODE_WORD_BITS] = {0};
  mask[(size_t)memory->numa_node / NODE_WORD_BITS] =
      1ul << ((size_t)memory->numa_node % NODE_WORD_BITS);
  if (syscall(SYS_mbind, block->address, block->length, POLICY_BIND, mask, NODES_MAX, 0) == 0) {
    block->bound = true;
    return 0;
  }
  int code = errno;
  /* A kernel without NUMA has one node, on which everything lies. */
  if (code == ENOSYS && memory->numa_node == 0)
    return 0;
  host_error(memory, "%s: cannot place %s on NUMA node %d: mbind: %s; %s", label,
             host_size_text(block->length).text, memory->numa_node, strerror(code),
             code == EPERM
                 ? "allow mbind in this container (CAP_SYS_NICE), or write numa_node: auto"
                 : "is the node among those this process may use (Mems_allowed in "
                   "/proc/self/status)?");
  return -code;
}

void host_block_unbind(struct host_block *block)
{
  (void)syscall(SYS_mbind, block->address, block->length, POLICY_DEFAULT, NULL, 0, 0);
}

int host_block_lock(const struct pst_memory *memory, struct host_block *block, const char *label,
                    bool required)
{
  if (mlock(block->address, block->length) == 0) {
    block->locked = true;
    return 0;
  }
  int code = errno;
  struct rlimit limit = {0};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  if (!required) {
    host_debug(memory, "%s: %s stays unlocked: mlock: %s", label,
               host_size_text(block->length).text, strerror(code));
    return 0;
  }
  host_error(memory,
             "%s: cannot lock %s in memory: mlock: %s; RLIMIT_MEMLOCK is %s for all that this "
             "process locks: raise it (ulimit -l unlimited; LimitMEMLOCK=infinity in a systemd "
             "unit), grant CAP_IPC_LOCK, or write lock: false",
             label, host_size_text(block->length).text, strerror(code),
             limit.rlim_cur == RLIM_INFINITY ? "unlimited" : host_size_text(limit.rlim_cur).text);
  return -ENOMEM;
}

/* Kernels before 5.14. Reads and writes back what is there: nobody else has the
 * block yet. */
static void host_numa_touch_pages(struct host_block *block)
{
  for (uint64_t at = 0; at < block->length; at += block->page_size) {
    volatile uint8_t *page = block->address + at;
    *page = *page;
  }
}

int host_block_populate(const struct pst_memory *memory, struct host_block *block,
                        const struct pst_alloc_params *params)
{
  if (madvise(block->address, block->length, MADV_POPULATE_WRITE) == 0)
    return 0;
  int code = errno;
  if (code == EINVAL) {
    host_numa_touch_pages(block);
    return 0;
  }
  char where[48] = "";
  if (block->bound)
    snprintf(where, sizeof(where), " on NUMA node %d", memory->numa_node);
  host_error(memory, "%s: cannot allocate %s of %s%s: %s; %s: %s%s", params->label,
             host_size_text(block->length).text, block->words, where, strerror(code),
             host_room_text().text, host_remedy_text(params).text,
             block->bound ? ", reserve more on that node, or write numa_node: auto" : "");
  return -ENOMEM;
}
