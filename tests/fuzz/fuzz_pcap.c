/* SPDX-License-Identifier: Apache-2.0 */
/* Captures, read through the source's own table into slots, in each of its manners. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "allocation.h"
#include "capture.h"
#include "log.h"
#include "require.h"
#include "source.h"

#define ROUNDS_MAX 4 /* of a capture that begins again at its end */

struct manner {
  uint64_t message;
  bool loop, timed;
  bool refused; /* slots without host memory, and a receiver that takes no parameters */
};

static const struct manner manners[] = {
    {.message = 65536},
    {.message = 64, .loop = true},
    {.message = 2048, .timed = true},
    {.message = 65536, .refused = true},
};

static int file = -1;
static char path[64];
static char *memory;

/* The sender is a struct manner. */
int pst_sender_param_set(struct pst_sender *sender, const char *key, const char *value)
{
  const struct manner *manner = (const struct manner *)sender;
  REQUIRE(key[0] != '\0' && value[0] != '\0');
  return manner->refused ? -ENOSPC : 0;
}

int pst_sender_fill(struct pst_sender *sender, const struct pst_slot *slots, uint32_t n)
{
  (void)sender;
  (void)slots;
  (void)n;
  return -ENOSYS;
}

static int take(const struct source *source, const struct manner *manner)
{
  static struct pst_slot slots[SOURCE_BATCH];
  struct pst_error error = PST_ERROR_INIT;
  uint64_t until_ns = 0;
  int n = source->ops->ready(source->state, SOURCE_BATCH, &until_ns, &error);
  REQUIRE(n >= -4095 && n <= SOURCE_BATCH);
  if (n == 0)
    REQUIRE(until_ns > 0);
  if (n <= 0)
    return -1;
  for (int i = 0; i < n; i++) {
    slots[i] = (struct pst_slot){.capacity = (uint32_t)manner->message};
    slots[i].host = manner->refused ? NULL : memory + (uint64_t)i * manner->message;
  }
  int rc = source->ops->fill(source->state, NULL, slots, (uint32_t)n, &error);
  REQUIRE(rc == (manner->refused ? -EOPNOTSUPP : 0));
  for (int i = 0; rc == 0 && i < n; i++) {
    REQUIRE(slots[i].length <= manner->message);
    REQUIRE(capture_meta(capture_offset(slots[i].meta), capture_cut(slots[i].meta)) ==
            slots[i].meta);
  }
  return rc;
}

static void try_manner(const struct manner *manner)
{
  struct source_params params = {.stream = "s",
                                 .file = path,
                                 .message = manner->message,
                                 .loop = manner->loop,
                                 .timed = manner->timed};
  struct pst_sender *sender = (struct pst_sender *)(uintptr_t)manner;
  struct pst_error error = PST_ERROR_INIT;
  struct source source = {.ops = NULL};
  int rc = app_source_open(&source, "pcap", &params, &error);
  REQUIRE(rc <= 0 && error.code == rc && (rc == 0) == (source.state != NULL));
  if (rc)
    return;
  rc = source.ops->announce(source.state, sender, &error);
  REQUIRE(rc == (manner->refused ? -ENOSPC : 0));
  for (int round = 0; round < ROUNDS_MAX && take(&source, manner) == 0; round++)
    continue;
  app_source_close(&source);
}

/* Calls the code that no capture's content reaches. */
static void try_others(void)
{
  struct source_params params = {.stream = "s", .message = 64};
  struct pst_error error = PST_ERROR_INIT;
  struct source source = {.ops = NULL};
  REQUIRE(app_source_open(&source, "pcap", &params, &error) == -EINVAL);
  params.file = "/nonexistent/capture.pcap";
  error = (struct pst_error)PST_ERROR_INIT;
  REQUIRE(app_source_open(&source, "pcap", &params, &error) == -ENOENT);
  params.file = "/";
  error = (struct pst_error)PST_ERROR_INIT;
  REQUIRE(app_source_open(&source, "pcap", &params, &error) == -EISDIR);
  for (unsigned n = 1; n <= 2; n++) {
    error = (struct pst_error)PST_ERROR_INIT;
    allocation_begin(n);
    int rc = app_source_open(&source, "pcap", &params, &error);
    allocation_end();
    REQUIRE(rc == -ENOMEM);
  }
  REQUIRE(!source.state);
}

const char *__asan_default_options(void);

/* Each source holds 4 MiB: freed memory kept for long costs most of the time. */
const char *__asan_default_options(void)
{
  return "quarantine_size_mb=8";
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
  (void)argc;
  (void)argv;
  app_log_level(-1);
  file = memfd_create("capture", MFD_CLOEXEC);
  memory = malloc(SOURCE_BATCH * manners[0].message);
  REQUIRE(file >= 0 && memory);
  snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
  try_others();
  return 0;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
  REQUIRE(pwrite(file, data, size, 0) == (ssize_t)size && ftruncate(file, (off_t)size) == 0);
  for (size_t i = 0; i < sizeof(manners) / sizeof(manners[0]); i++)
    try_manner(&manners[i]);
  return 0;
}
