/* SPDX-License-Identifier: Apache-2.0 */
/* A file that is to be loaded as a plugin, looked at before dlopen(): nothing is read beyond it,
 * what is refused says why, and what is listed ends. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "loader/elf_check.h"
#include "loader/reason.h"
#include "require.h"

static char folder[] = "/tmp/penstock-fuzz-XXXXXX";
static char path[sizeof(folder) + 32];
static int fd;

static void leave(void)
{
  unlink(path);
  rmdir(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
  (void)argc, (void)argv;
  REQUIRE(mkdtemp(folder) != NULL);
  snprintf(path, sizeof(path), "%s/transport-fuzz.so", folder);
  fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  REQUIRE(fd >= 0 && atexit(leave) == 0);
  return 0;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
  struct elf_check found;
  struct loader_reason why = {.path = path};

  REQUIRE(pwrite(fd, data, size, 0) == (ssize_t)size && ftruncate(fd, (off_t)size) == 0);
  int rc = elf_check_file(path, "pst_plugin_v", &found, &why);
  REQUIRE(rc <= 0);
  REQUIRE(rc == 0 || (why.code == rc && strstr(why.line, path)));
  if (rc == 0)
    for (const char **library = found.needed; library && *library; library++)
      REQUIRE(strlen(*library) <= size);
  if (rc == 0)
    elf_check_free(&found);
  return 0;
}
