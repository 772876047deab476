/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory whose pages alloc() takes at once, as a plugin does that must not meet SIGBUS
 * later: asked for 1 PiB, only RLIMIT_FSIZE stands between it and the machine's last page. The
 * environment variable WRONG says how it breaks the contract.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <penstock/memory.h>

#include <penstock/page.h>

#define NEEDS_KNOWN (PST_NEED_PINNED * 2 - 1)

struct pst_memory {
  const struct pst_host *host;
};

static bool wrong(const char *how)
{
  const char *wanted = getenv("WRONG");
  return wanted && strcmp(wanted, how) == 0;
}

static int refuse(const struct pst_memory *memory, int code, const char *why)
{
  memory->host->log(memory->host, PST_LOG_ERROR, "%s", why);
  return code;
}

static int wrong_probe(const struct pst_host *host, struct pst_probe *probe)
{
  (void)host, (void)probe;
  return 0;
}

static int wrong_open(const struct pst_host *host, const struct pst_memory_params *params,
                      struct pst_memory **memory)
{
  struct pst_memory *made = malloc(sizeof(*made));
  (void)params;
  if (!made)
    return -ENOMEM;
  made->host = host;
  if (wrong("leaks devices"))
    (void)!open("/dev/null", O_RDONLY | O_CLOEXEC);
  *memory = made;
  return 0;
}

static void wrong_close(struct pst_memory *memory)
{
  if (wrong("dies of close(NULL)") && !memory)
    raise(SIGSEGV); /* which the suite survives */
  free(memory);
}

/* Nobody shall find out by asking without a limit. */
static bool is_guarded(void)
{
  struct sigaction too_large;
  struct rlimit file, space;
  int score = 0;
  FILE *own = fopen("/proc/self/oom_score_adj", "re");
  if (own && fscanf(own, "%d", &score) != 1)
    score = 0;
  if (own)
    fclose(own);
  return sigaction(SIGXFSZ, NULL, &too_large) == 0 && too_large.sa_handler == SIG_IGN &&
         getrlimit(RLIMIT_FSIZE, &file) == 0 && file.rlim_cur <= UINT64_C(1) << 31 &&
         getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur != RLIM_INFINITY && score == 1000;
}

static void *take_pages(uint64_t length)
{
  int fd = memfd_create("wrong", MFD_CLOEXEC);
  if (fd < 0)
    return NULL;
  void *bytes = length <= INT64_MAX && posix_fallocate(fd, 0, (off_t)length) == 0
                    ? mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                    : MAP_FAILED;
  if (!wrong("leaks regions"))
    close(fd);
  return bytes == MAP_FAILED ? NULL : bytes;
}

static int wrong_alloc(struct pst_memory *memory, const struct pst_alloc_params *params,
                       struct pst_region *region)
{
  const bool checks = !wrong("takes any need");
  if (params->length == 0 || (params->alignment & (params->alignment - 1)) ||
      params->alignment > pst_page_size() || params->purpose > PST_ALLOC_STAGING ||
      params->reserved || (checks && (params->needs & ~(uint32_t)NEEDS_KNOWN)) ||
      (!checks && params->needs == 1u << 31))
    return refuse(memory, -EINVAL, "no such region");
  if (params->length >= UINT64_C(1) << 40 && !is_guarded())
    return refuse(memory, -EDEADLK, "it would take all pages of this machine: nothing limits it");
  void *bytes = take_pages(params->length);
  if (!bytes)
    return refuse(memory, -ENOMEM, "not so many pages; ask for less");
  const struct pst_region made = {.kind = PST_MEMORY_HOST,
                                  .address = (uint64_t)(uintptr_t)bytes,
                                  .host = bytes,
                                  .length = params->length,
                                  .page_size = pst_page_size(),
                                  .backing = "memfd",
                                  .memory = memory};
  pst_struct_write(region, &made, sizeof(made));
  return 0;
}

static void wrong_free_region(struct pst_memory *memory, struct pst_region *region)
{
  (void)memory;
  munmap(region->host, region->length);
}

static const struct pst_memory_ops ops = {
    .struct_size = sizeof(ops),
    .open = wrong_open,
    .close = wrong_close,
    .alloc = wrong_alloc,
    .free_region = wrong_free_region,
};

PST_PLUGIN(wrong_probe, &ops);
