/* SPDX-License-Identifier: Apache-2.0 */
/* The environment layer's arguments, its start, and what it leaves as it was. */
#include "eal.h"

#include <errno.h>
#include <glob.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_malloc.h>
#include <rte_version.h>

#include "eal_log.h"

/* Address space of a process without huge pages, of which only what is touched becomes memory. It
 * cannot grow later: mbufs of 2^20 slots fit. */
#define EAL_NORMAL_MIB "1024"
#define GRANT_HUGE_PAGES                                                                           \
  "`echo 512 > /sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages` (as root) grants 1 GiB of " \
  "them, `grep Huge /proc/meminfo` shows them"
#define EAL_ARGUMENTS_MAX 48
#define EAL_TEXT 256

struct eal_arguments {
  char *at[EAL_ARGUMENTS_MAX + 1];
  int count;
};

/* Whether EAL runs, as far as this image of the plugin knows. */
static bool eal_is_known;

static int eth_eal_arguments_add(struct eal_arguments *arguments, const char *text)
{
  if (arguments->count == EAL_ARGUMENTS_MAX)
    return -E2BIG;
  arguments->at[arguments->count] = strdup(text);
  return arguments->at[arguments->count++] ? 0 : -ENOMEM;
}

static void eth_eal_arguments_free(struct eal_arguments *arguments, char **kept)
{
  for (int i = 0; i < arguments->count; i++)
    free(kept[i]);
}

/* The thread's own CPUs as the one lcore that DPDK insists on: it then pins nobody. */
static int eth_eal_arguments_add_lcore(struct eal_arguments *arguments, const cpu_set_t *cpus)
{
  char text[EAL_TEXT] = "--lcores=0@(";
  size_t at = strlen(text);

  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
    int last = cpu;
    if (!CPU_ISSET(cpu, cpus))
      continue;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, cpus))
      last++;
    int n = snprintf(text + at, sizeof(text) - at, "%s%d-%d", text[at - 1] == '(' ? "" : ",", cpu,
                     last);
    if (n < 0 || (size_t)n >= sizeof(text) - at - 1)
      break; /* the CPUs so far will do: the mask is put back */
    at += (size_t)n;
    cpu = last;
  }
  text[at] = ')';
  text[at + 1] = '\0';
  return eth_eal_arguments_add(arguments, text);
}

/* A prefix of one's own keeps several processes, and several users, apart. */
static int eth_eal_arguments_make(struct eal_arguments *arguments, const struct pst_host *host,
                                  const struct pst_options *options, bool is_huge,
                                  const cpu_set_t *cpus)
{
  char prefix[64];
  const char *item;
  int rc = eth_eal_arguments_add(arguments, "penstock");

  snprintf(prefix, sizeof(prefix), "--file-prefix=penstock-%d-%llx", (int)getpid(),
           (unsigned long long)host->clock_ns(host));
  rc = rc ? rc : eth_eal_arguments_add(arguments, prefix);
  rc = rc ? rc : eth_eal_arguments_add_lcore(arguments, cpus);
  rc = rc ? rc : eth_eal_arguments_add(arguments, "--no-shconf");
  rc = rc ? rc : eth_eal_arguments_add(arguments, "--no-telemetry");
  rc = rc ? rc
          : eth_eal_arguments_add(arguments, "--allow=ffff:ff:1f.7"); /* none: ports come later */
  if (is_huge) {
    rc = rc ? rc : eth_eal_arguments_add(arguments, "--in-memory");
  } else {
    rc = rc ? rc : eth_eal_arguments_add(arguments, "--no-huge");
    rc = rc ? rc : eth_eal_arguments_add(arguments, "-m");
    rc = rc ? rc : eth_eal_arguments_add(arguments, EAL_NORMAL_MIB);
  }
  for (uint32_t i = 0; rc == 0 && (item = host->option_item(options, "eal", i)); i++)
    rc = eth_eal_arguments_add(arguments, item);
  return rc;
}

/* The folder that it makes whatever one asks for. Its parent is DPDK's own and may be another's. */
static void eth_eal_remove_folder(void)
{
  char path[512];
  char *slash;

  snprintf(path, sizeof(path), "%s", rte_eal_get_runtime_dir());
  if (!path[0] || !strstr(path, "penstock-") || rmdir(path) != 0)
    return;
  slash = strrchr(path, '/');
  if (slash && slash != path) {
    *slash = '\0';
    rmdir(path); /* as long as nobody else is in it */
  }
}

/* Without one DPDK would say so to standard error, and could not be started again. */
static bool eth_eal_huge_pages_are_used_up(void)
{
  glob_t sizes;
  unsigned long free_pages = 0, known = 0;

  if (glob("/sys/kernel/mm/hugepages/*/free_hugepages", 0, NULL, &sizes) != 0)
    return false;
  for (size_t i = 0; i < sizes.gl_pathc; i++) {
    unsigned long pages;
    FILE *file = fopen(sizes.gl_pathv[i], "re");
    if (file && fscanf(file, "%lu", &pages) == 1) {
      free_pages += pages;
      known++;
    }
    if (file)
      fclose(file);
  }
  globfree(&sizes);
  return known && !free_pages;
}

static int eth_eal_fail(const struct pst_host *host, int rc, bool is_huge)
{
  if (rc == -EALREADY)
    return PST_REFUSE(host, -EBUSY,
                      "DPDK was started in this process before, and failed. DPDK starts only once "
                      "in a process: run the program again, with what the first error asks for");
  if (is_huge)
    return PST_REFUSE(host, rc, "DPDK does not start with huge pages%s: %s; " GRANT_HUGE_PAGES,
                      eal_words(), strerror(-rc));
  return PST_REFUSE(host, rc,
                    "DPDK does not start%s: %s; `eal` has arguments of its own, `ulimit -v` and "
                    "memory may be short of the %s MiB of address space that it takes",
                    eal_words(), strerror(-rc), EAL_NORMAL_MIB);
}

/* True if other code of the process has started DPDK: then DPDK has memory to give. */
static bool eth_eal_is_started_elsewhere(void)
{
  void *memory = rte_malloc(NULL, 64, 0);

  rte_free(memory);
  return memory != NULL;
}

static int eth_eal_check_started(const struct pst_host *host, bool is_huge)
{
  if (!is_huge || rte_eal_has_hugepages())
    return 0;
  return PST_REFUSE(host, -EBUSY,
                    "this port's driver needs huge pages, and DPDK runs in this process without: "
                    "it starts once, with the first port. Set `memory: huge` for that port");
}

int eal_start(const struct pst_host *host, const struct pst_options *options, bool is_huge)
{
  struct eal_arguments arguments = {.count = 0};
  char *kept[EAL_ARGUMENTS_MAX + 1];
  sigset_t all, before;
  cpu_set_t cpus;
  int rc;

  if (eal_is_known)
    return eth_eal_check_started(host, is_huge);
  if (is_huge && eth_eal_huge_pages_are_used_up())
    return PST_REFUSE(host, -ENOMEM, "DPDK needs huge pages, and none is free; " GRANT_HUGE_PAGES);
  if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0)
    return PST_REFUSE(host, -errno, "the thread's CPUs are not known: %s", strerror(errno));
  /* Where the program itself has started DPDK, the log is its own. */
  rc = rte_eal_get_runtime_dir()[0] ? 0 : eal_log_open(host);
  if (rc < 0)
    return PST_REFUSE(host, rc, "DPDK's log cannot be taken over: %s", strerror(-rc));
  rc = eth_eal_arguments_make(&arguments, host, options, is_huge, &cpus);
  memcpy(kept, arguments.at, sizeof(kept)); /* DPDK sorts them */
  if (rc == 0) {
    eal_words_clear();
    /* DPDK's thread has this one's mask: signals are handled by the program's own. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = rte_eal_init(arguments.count, arguments.at) < 0 ? -rte_errno : 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    sched_setaffinity(0, sizeof(cpus), &cpus);
    eth_eal_remove_folder();
  }
  eth_eal_arguments_free(&arguments, kept);
  if (rc == -EALREADY && eth_eal_is_started_elsewhere()) {
    eal_is_known = true;
    return eth_eal_check_started(host, is_huge);
  }
  if (rc < 0)
    return eth_eal_fail(host, rc, is_huge);
  eal_is_known = true;
  host->log(host, PST_LOG_DEBUG, "%s started %s huge pages", rte_version(),
            is_huge ? "with" : "without");
  return 0;
}
