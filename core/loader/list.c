/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that can be found, loaded, probed and reported. */
#include "loader.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "open.h"
#include "plugin_names.h"
#include "search.h"
#include "util/log.h"

struct found {
  struct found *next;
  const char *path;
  uint32_t kind;
  bool is_description;
  char name[LOADER_NAME_BYTES];
};

struct all {
  struct arena arena;
  struct found *first, **end;
};

/* The devices of one plugin, kept until the plugin itself has been reported. */
struct found_device {
  struct found_device *next;
  const char *name, *detail;
};

struct devices {
  struct arena arena;
  struct found_device *first, **end;
};

struct report {
  void (*plugin)(void *context, const struct pst_plugin_info *info);
  void (*device)(void *context, const char *name, const char *detail);
  void *context;
};

static int list_keep(void *context, const char *path, uint32_t kind, const char *name,
                     bool is_description)
{
  struct all *all = context;
  struct found *entry = arena_alloc(&all->arena, sizeof(*entry));
  const char *kept = arena_string(&all->arena, path);

  if (!entry || !kept)
    return -ENOMEM;
  *entry = (struct found){.path = kept, .kind = kind, .is_description = is_description};
  snprintf(entry->name, sizeof(entry->name), "%s", name);
  *all->end = entry;
  all->end = &entry->next;
  return 0;
}

static void list_keep_device(void *context, const char *name, const char *detail)
{
  struct devices *devices = context;
  struct found_device *device = arena_alloc(&devices->arena, sizeof(*device));

  if (!device)
    return;
  device->name = arena_string(&devices->arena, name ? name : "");
  device->detail = arena_string(&devices->arena, detail ? detail : "");
  if (!device->name || !device->detail)
    return;
  *devices->end = device;
  devices->end = &device->next;
}

/* Probes a plugin and hands what it found to the caller. The texts live until the callback
 * returns. */
static void list_report_plugin(const struct report *report, const struct loader_plugin *plugin)
{
  struct devices devices = {.end = &devices.first};
  struct pst_probe probe = {
      .struct_size = sizeof(probe), .context = &devices, .device = list_keep_device};
  struct pst_plugin_info info = {.struct_size = sizeof(info),
                                 .kind = plugin->kind,
                                 .path = plugin->path,
                                 .reason = probe.reason,
                                 .remedy = probe.remedy,
                                 .shadowed_by = ""};

  config_describe_info(plugin->description, &info);
  info.status = plugin->plugin->probe(plugin->host, &probe);
  probe.reason[sizeof(probe.reason) - 1] = '\0';
  probe.remedy[sizeof(probe.remedy) - 1] = '\0';
  if (info.status >= 0) {
    info.status = 0;
    probe.reason[0] = probe.remedy[0] = '\0';
  } else if (!probe.reason[0]) {
    info.reason = strerror(-info.status);
  }
  info.libraries = loader_libraries(plugin);
  if (report->plugin)
    report->plugin(report->context, &info);
  for (const struct found_device *at = devices.first; at; at = at->next)
    if (report->device && info.status == 0)
      report->device(report->context, at->name, at->detail);
  arena_free(&devices.arena);
}

/* A rejected one has at least the name that its file gives it. */
static void list_report_other(const struct report *report, const struct found *entry,
                              const struct pst_description *description, const char *path,
                              int status, const char *reason, const char *remedy,
                              const char *shadowed_by)
{
  static const char *const none[] = {NULL};
  struct pst_plugin_info info = {.struct_size = sizeof(info),
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
    config_describe_info(description, &info);
  if (report->plugin)
    report->plugin(report->context, &info);
}

/* The first file of the same name, that is a description or a plugin. */
static const struct found *list_find_entry(const struct all *all, const struct found *like,
                                           bool is_description)
{
  for (const struct found *entry = all->first; entry; entry = entry->next)
    if (entry->kind == like->kind && entry->is_description == is_description &&
        strcmp(entry->name, like->name) == 0)
      return entry;
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
    snprintf(real, sizeof(real), "%s", entry->path);
  loader_lock();
  plugin = used = open_find(entry->kind, entry->name);
  is_shadowed = used && strcmp(real, used->path) != 0;
  if (!used)
    rc = open_plugin(entry->path, entry->kind, entry->name, &plugin, &why);
  loader_unlock();
  if (is_shadowed) {
    snprintf(reason, sizeof(reason), "shadowed by %s", used->path);
    list_report_other(report, entry, NULL, real, -EEXIST, reason, "", used->path);
  } else if (rc == 0) {
    list_report_plugin(report, plugin);
  } else {
    list_report_other(report, entry, NULL, "", rc, why.line, "", "");
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
    list_report_other(report, entry, NULL, "", rc, why.line, "", "");
    return;
  }
  if (description->needs)
    snprintf(remedy, sizeof(remedy), "it needs %s", description->needs);
  list_report_other(report, entry, description, real, -ENOENT, "known but not built here", remedy,
                    "");
}

int pst_plugins_list(void (*plugin)(void *context, const struct pst_plugin_info *info),
                     void (*device)(void *context, const char *name, const char *detail),
                     void *context)
{
  const struct report report = {plugin, device, context};
  struct loader_folders folders;
  struct all all = {.end = &all.first};
  char text[128];
  int rc;

  loader_lock();
  rc = search_folders(&folders);
  if (rc == 0)
    rc = search_each(&folders, list_keep, &all);
  search_folders_free(&folders);
  loader_unlock();
  if (rc < 0) {
    loader_search_failed(rc, text, sizeof(text));
    pst_log(PST_LOG_ERROR, "%s", text);
  }
  for (const struct found *entry = all.first; rc == 0 && entry; entry = entry->next) {
    if (!entry->is_description)
      list_plugin(&report, entry);
    else if (!list_find_entry(&all, entry, false) && list_find_entry(&all, entry, true) == entry)
      list_description(&report, entry);
  }
  arena_free(&all.arena);
  return rc;
}
