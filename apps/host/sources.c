/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of this machine that are no files, but for those of libraries. */
#include "sources.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <sys/timex.h>
#include <unistd.h>

#include <penstock/config.h>

#include "json_put.h"

/* ---- Plugins ----------------------------------------------------------------------------------
 */

static void sources_add_plugin(void *context, const struct pst_plugin_info *info)
{
  static const char *const kinds[] = {[PST_KIND_TRANSPORT] = "transport",
                                      [PST_KIND_MEMORY] = "memory",
                                      [PST_KIND_FILTER] = "filter"};
  struct json_object *plugin = json_object_new_object();

  app_json_put_text(plugin, "kind",
                    info->kind < sizeof(kinds) / sizeof(kinds[0]) ? kinds[info->kind] : NULL);
  app_json_put_text(plugin, "name", info->name);
  app_json_put_bool(plugin, "usable", info->status == 0);
  app_json_put_text(plugin, "reason", info->reason);
  app_json_put_text(plugin, "remedy", info->remedy);
  json_object_array_add(context, plugin);
}

struct json_object *host_ask_plugins(char why[HOST_WHY_BYTES])
{
  struct json_object *object = json_object_new_object(), *list = json_object_new_array();
  const int rc = pst_plugins_list(sources_add_plugin, NULL, list);

  json_object_object_add(object, "plugins", list);
  if (rc >= 0)
    return object;
  snprintf(why, HOST_WHY_BYTES, "the plugins cannot be listed: %s", strerror(-rc));
  json_object_put(object);
  return NULL;
}

/* ---- Nodes below /dev -------------------------------------------------------------------------
 */

/* uverbs is opened, which a container's device rules refuse where the file's mode does not. Opening
 * others may wake hardware, or needs what a program has set up. */
static bool sources_may_open(const char *path)
{
  if (!strstr(path, "/uverbs"))
    return access(path, R_OK | W_OK) == 0;
  const int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd >= 0)
    close(fd);
  return fd >= 0;
}

struct json_object *host_ask_devices(char why[HOST_WHY_BYTES])
{
  static const char *const patterns[] = {"/dev/infiniband/*", "/dev/nvidia[0-9]*", "/dev/nvidiactl",
                                         "/dev/nvidia-uvm",   "/dev/vfio/*",       "/dev/ptp[0-9]*",
                                         "/dev/nvhost-gpu",   "/dev/nvmap"};
  struct json_object *object = json_object_new_object();

  (void)why;
  for (size_t i = 0; i < sizeof(patterns) / sizeof(patterns[0]); i++) {
    glob_t found = {0};
    if (glob(patterns[i], 0, NULL, &found) == 0)
      for (size_t k = 0; k < found.gl_pathc; k++) {
        const bool may = sources_may_open(found.gl_pathv[k]);
        struct json_object *node = json_object_new_object();
        app_json_put_text(node, "error", may ? NULL : strerror(errno));
        app_json_put_bool(node, "may_open", may);
        json_object_object_add(object, found.gl_pathv[k] + 1, node);
      }
    globfree(&found);
  }
  return object;
}

/* ---- Daemons ----------------------------------------------------------------------------------
 */

static const char *const daemons[] = {"ptp4l",  "phc2sys",    "ts2phc",          "chronyd",
                                      "ntpd",   "irqbalance", "nv-fabricmanage", "nvidia-persiste",
                                      "opensm", "tuned",      "lldpad",          "systemd-timesyn"};

/* comm of proc(5), which the kernel cuts to 15 bytes. */
static void sources_note_process(struct json_object *object, const char *number)
{
  char path[300], name[32] = "";

  snprintf(path, sizeof(path), "/proc/%s/comm", number);
  FILE *file = fopen(path, "re");
  if (file && fgets(name, sizeof(name), file))
    name[strcspn(name, "\n")] = '\0';
  if (file)
    fclose(file);
  for (size_t i = 0; i < sizeof(daemons) / sizeof(daemons[0]); i++)
    if (strcmp(daemons[i], name) == 0)
      app_json_put_bool(object, name, true);
}

struct json_object *host_ask_processes(char why[HOST_WHY_BYTES])
{
  DIR *folder = opendir("/proc");
  struct json_object *object;

  if (!folder) {
    snprintf(why, HOST_WHY_BYTES, "/proc: %s", strerror(errno));
    return NULL;
  }
  object = json_object_new_object();
  for (size_t i = 0; i < sizeof(daemons) / sizeof(daemons[0]); i++)
    app_json_put_bool(object, daemons[i], false);
  for (const struct dirent *one; (one = readdir(folder)) != NULL;)
    if (isdigit((unsigned char)one->d_name[0]))
      sources_note_process(object, one->d_name);
  closedir(folder);
  return object;
}

/* ---- The clock --------------------------------------------------------------------------------
 */

struct json_object *host_ask_clock(char why[HOST_WHY_BYTES])
{
  struct timex clock = {0};
  struct json_object *object;

  if (adjtimex(&clock) < 0) {
    snprintf(why, HOST_WHY_BYTES, "adjtimex: %s", strerror(errno));
    return NULL;
  }
  object = json_object_new_object();
  app_json_put_bool(object, "synchronised", (clock.status & STA_UNSYNC) == 0);
  app_json_put_uint(object, "error_us", (uint64_t)clock.esterror);
  return object;
}

/* ---- All --------------------------------------------------------------------------------------
 */

const struct host_source host_sources[] = {
    {"clock", host_ask_clock}, {"devices", host_ask_devices}, {"network", host_ask_network},
    {"nvml", host_ask_nvml},   {"plugins", host_ask_plugins}, {"processes", host_ask_processes},
};
const size_t host_source_count = sizeof(host_sources) / sizeof(host_sources[0]);
