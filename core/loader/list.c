/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that can be found, loaded, probed and reported. */
#include "internal.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/log.h"

struct found {
  char *path;
  uint32_t kind;
  bool is_description;
  char name[LOADER_NAME_BYTES];
};

struct all {
  struct found *list;
  size_t count;
};

/* The devices of one plugin, kept until the plugin itself has been reported. */
struct devices {
  char **texts; /* name, detail, name, detail, … */
  size_t count;
};

struct report {
  void (*plugin)(void *context, const struct pst_plugin_info *info);
  void (*device)(void *context, const char *name, const char *detail);
  void *context;
};

static int keep(void *context, const char *path, uint32_t kind, const char *name,
                bool is_description)
{
  struct all *all = context;
  struct found *list = realloc(all->list, (all->count + 1) * sizeof *list), *entry;

  if (!list)
    return -ENOMEM;
  all->list = list;
  entry = &list[all->count];
  *entry = (struct found){.path = strdup(path), .kind = kind, .is_description = is_description};
  snprintf(entry->name, sizeof entry->name, "%s", name);
  if (!entry->path)
    return -ENOMEM;
  all->count++;
  return 0;
}

static void keep_device(void *context, const char *name, const char *detail)
{
  struct devices *devices = context;
  char **texts = realloc(devices->texts, (devices->count + 2) * sizeof *texts);

  if (!texts)
    return;
  devices->texts = texts;
  texts[devices->count] = strdup(name ? name : "");
  texts[devices->count + 1] = strdup(detail ? detail : "");
  if (texts[devices->count] && texts[devices->count + 1]) {
    devices->count += 2;
  } else {
    free(texts[devices->count]);
    free(texts[devices->count + 1]);
  }
}

void loader_describe_info(const struct pst_description *description, struct pst_plugin_info *info)
{
  info->name = description->name;
  info->version = description->version;
  info->summary = description->summary;
  info->needs = description->needs;
  info->rung = description->rung;
  info->wire = description->wire;
  info->options = description->options;
  info->option_count = description->option_count;
  info->environment = description->environment;
  info->description = description;
}

static void report_plugin(const struct report *report, const struct loader_plugin *plugin)
{
  struct devices devices = {0};
  struct pst_probe probe = {
      .struct_size = sizeof probe, .context = &devices, .device = keep_device};
  struct pst_plugin_info info = {.struct_size = sizeof info,
                                 .kind = plugin->kind,
                                 .path = plugin->path,
                                 .reason = probe.reason,
                                 .remedy = probe.remedy,
                                 .shadowed_by = ""};

  loader_describe_info(plugin->description, &info);
  info.status = plugin->plugin->probe(plugin->host, &probe);
  probe.reason[sizeof probe.reason - 1] = '\0';
  probe.remedy[sizeof probe.remedy - 1] = '\0';
  if (info.status >= 0) {
    info.status = 0;
    probe.reason[0] = probe.remedy[0] = '\0';
  } else if (!probe.reason[0]) {
    info.reason = strerror(-info.status);
  }
  info.libraries = loader_libraries(plugin);
  if (report->plugin)
    report->plugin(report->context, &info);
  for (size_t i = 0; i < devices.count; i += 2) {
    if (report->device && info.status == 0)
      report->device(report->context, devices.texts[i], devices.texts[i + 1]);
    free(devices.texts[i]);
    free(devices.texts[i + 1]);
  }
  free(devices.texts);
}

/* A rejected one has at least the name that its file gives it. */
static void report_other(const struct report *report, const struct found *entry,
                         const struct pst_description *description, const char *path, int status,
                         const char *reason, const char *remedy, const char *shadowed_by)
{
  static const char *const none[] = {NULL};
  struct pst_plugin_info info = {.struct_size = sizeof info,
                                 .kind = entry->kind,
                                 .name = entry->name,
                                 .version = "",
                                 .summary = "",
                                 .rung = "",
                                 .path = path,
                                 .status = status,
                                 .described = description != NULL,
                                 .reason = reason,
                                 .remedy = remedy,
                                 .libraries = none,
                                 .shadowed_by = shadowed_by};

  if (description)
    loader_describe_info(description, &info);
  if (report->plugin)
    report->plugin(report->context, &info);
}

/* The first file of that sort before `end`, or NULL. */
static const struct found *find_entry(const struct all *all, size_t end, uint32_t kind,
                                      const char *name, bool is_description)
{
  for (size_t i = 0; i < end; i++) {
    const struct found *entry = &all->list[i];

    if (entry->kind == kind && entry->is_description == is_description &&
        strcmp(entry->name, name) == 0)
      return entry;
  }
  return NULL;
}

static void list_plugin(const struct report *report, const struct found *entry)
{
  const struct loader_plugin *plugin, *used;
  struct loader_reason why = {0};
  char real[PATH_MAX], reason[PATH_MAX + 32];
  bool is_shadowed;
  int rc = 0;

  if (!realpath(entry->path, real))
    snprintf(real, sizeof real, "%s", entry->path);
  loader_lock();
  plugin = used = open_find(entry->kind, entry->name);
  is_shadowed = used && strcmp(real, used->path) != 0;
  if (!used)
    rc = open_plugin(entry->path, entry->kind, entry->name, &plugin, &why);
  loader_unlock();
  if (is_shadowed) {
    snprintf(reason, sizeof reason, "shadowed by %s", used->path);
    report_other(report, entry, NULL, real, -EEXIST, reason, "", used->path);
  } else if (rc == 0) {
    report_plugin(report, plugin);
  } else {
    report_other(report, entry, NULL, "", rc, why.line, "", "");
  }
}

static void list_description(const struct report *report, const struct found *entry)
{
  const struct pst_description *description = NULL;
  struct loader_reason why = {0};
  const char *real = "";
  char remedy[512] = "";
  int rc;

  loader_lock();
  rc = open_description(entry->path, entry->kind, entry->name, &description, &real, &why);
  loader_unlock();
  if (rc < 0) {
    report_other(report, entry, NULL, "", rc, why.line, "", "");
    return;
  }
  if (description->needs)
    snprintf(remedy, sizeof remedy, "it needs %s", description->needs);
  report_other(report, entry, description, real, -ENOENT, "known but not built here", remedy, "");
}

static void say_failed(int code)
{
  char text[128];

  loader_search_failed(code, text);
  pst_log(PST_LOG_ERROR, "%s", text);
}

int pst_plugins_list(void (*plugin)(void *context, const struct pst_plugin_info *info),
                     void (*device)(void *context, const char *name, const char *detail),
                     void *context)
{
  const struct report report = {plugin, device, context};
  struct loader_folders folders;
  struct all all = {0};
  int rc;

  loader_lock();
  rc = search_folders(&folders);
  if (rc == 0) {
    rc = search_each(&folders, keep, &all);
    search_folders_free(&folders);
  }
  loader_unlock();
  if (rc < 0)
    say_failed(rc);
  for (size_t i = 0; rc == 0 && i < all.count; i++) {
    const struct found *entry = &all.list[i];

    if (!entry->is_description)
      list_plugin(&report, entry);
    else if (!find_entry(&all, all.count, entry->kind, entry->name, false) &&
             !find_entry(&all, i, entry->kind, entry->name, true))
      list_description(&report, entry);
  }
  for (size_t i = 0; i < all.count; i++)
    free(all.list[i].path);
  free(all.list);
  return rc;
}
