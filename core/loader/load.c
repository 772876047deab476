/* SPDX-License-Identifier: Apache-2.0 */
/* Loading and describing by name: which file it is, and what to say when there is
 * none that works. */
#include "loader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/config.h"
#include "config/rules.h"
#include "open.h"
#include "plugin_names.h"
#include "reason.h"
#include "search.h"
#include "util/log.h"
#include "util/suggest.h"
#include "util/text.h"

#define REASONS_MAX 8u
#define NAMES_MAX 256u

struct names {
  uint32_t kind;
  const char **list;
  size_t count, max;
};

static int load_visit_name(void *context, const char *path, uint32_t kind, const char *name,
                           bool is_description)
{
  struct names *names = context;

  (void)path;
  (void)is_description;
  if (kind != names->kind)
    return 0;
  name = loader_intern(name);
  for (size_t i = 0; name && i < names->count && i < names->max; i++) {
    if (names->list[i] == name)
      return 0;
  }
  if (name && names->count < names->max)
    names->list[names->count] = name;
  names->count++;
  return 0;
}

/* Plugins and descriptions, usable or not. Returns how many there are. */
static size_t load_list_names(const struct loader_folders *folders, uint32_t kind,
                              const char **list, size_t max)
{
  struct names names = {.kind = kind, .list = list, .max = max};

  search_each(folders, load_visit_name, &names);
  return names.count < max ? names.count : max;
}

struct described {
  struct described *next;
  uint32_t kind;
  const char *name;
  const struct pst_description *description;
};

static struct described *descriptions;

static const struct pst_description *described_find(uint32_t kind, const char *name)
{
  for (const struct described *d = descriptions; d; d = d->next) {
    if (d->kind == kind && strcmp(d->name, name) == 0)
      return d->description;
  }
  return NULL;
}

static void described_add(uint32_t kind, const char *name,
                          const struct pst_description *description)
{
  const char *kept = loader_intern(name);
  struct described *d = kept ? malloc(sizeof(*d)) : NULL;

  if (!d)
    return;
  *d = (struct described){descriptions, kind, kept, description};
  descriptions = d;
}

/* A file is asked for again and again while a configuration is checked, and then loaded: each
 * reason is warned of once. The lock is held. */
static void load_warn_once(const struct loader_reason *why)
{
  static const char *said[64];
  const char *line = loader_intern(why->line);
  size_t i = 0;

  while (i < sizeof(said) / sizeof(said[0]) && said[i] && said[i] != line)
    i++;
  if (line && i < sizeof(said) / sizeof(said[0])) {
    if (said[i])
      return;
    said[i] = line;
  }
  loader_note(PST_LOG_WARN, "%s", why->line);
}

/* Folder by folder, so that it is the description of the plugin that would load. */
static const struct pst_description *load_describe_in(const struct loader_folder *folder,
                                                      uint32_t kind, const char *name)
{
  const struct pst_description *description = NULL;
  const struct loader_plugin *plugin;
  struct loader_reason why;
  const char *real;
  char *path = search_file(folder, kind, name, true);

  if (path && open_description(path, kind, name, &description, &real, &why) < 0)
    load_warn_once(&why);
  free(path);
  if (description)
    return description;
  path = search_file(folder, kind, name, false);
  if (path && open_plugin(path, kind, name, &plugin, &why) == 0)
    description = plugin->description;
  else if (path)
    load_warn_once(&why);
  free(path);
  return description;
}

static const struct pst_description *load_describe_locked(const struct loader_folders *folders,
                                                          uint32_t kind, const char *name)
{
  const struct pst_description *description = described_find(kind, name);
  const struct loader_plugin *plugin = open_find(kind, name);

  if (!description && plugin)
    description = plugin->description;
  if (description)
    return description;
  for (const struct loader_folder *in = folders->first; in && !description; in = in->next)
    description = load_describe_in(in, kind, name);
  if (description)
    described_add(kind, name, description);
  return description;
}

static const struct pst_description *catalog_find(void *context, uint32_t kind, const char *name)
{
  const struct pst_description *description = NULL;
  struct loader_folders folders;

  (void)context;
  if (!loader_kind_name(kind) || !loader_name_ok(name))
    return NULL;
  loader_lock();
  if (search_folders(&folders) == 0)
    description = load_describe_locked(&folders, kind, name);
  search_folders_free(&folders);
  loader_unlock();
  return description;
}

static size_t catalog_names(void *context, uint32_t kind, const char **names, size_t max)
{
  struct loader_folders folders;
  size_t count = 0;

  (void)context;
  loader_lock();
  if (search_folders(&folders) == 0)
    count = load_list_names(&folders, kind, names, max);
  search_folders_free(&folders);
  loader_unlock();
  return count;
}

/* Findings of a search that did not lead to a plugin. */
struct lookup {
  struct loader_reason reasons[REASONS_MAX];
  size_t count;
  char used[1024];    /* path of the one that loaded */
  char folders[2048]; /* where was looked */
  const char *nearest;
  const char *other_kind;                    /* there is one of that name, but of this kind */
  const struct pst_description *description; /* not built here */
};

static const struct loader_plugin *load_first(const struct loader_folders *folders, uint32_t kind,
                                              const char *name, struct lookup *found)
{
  const struct loader_plugin *plugin = NULL;
  char later[1024] = ""; /* "path, path": of its name, not used */
  struct loader_reason spare;

  for (const struct loader_folder *in = folders->first; in; in = in->next) {
    struct loader_reason *why = found->count < REASONS_MAX ? &found->reasons[found->count] : &spare;
    char *path = search_file(in, kind, name, false);

    if (!path)
      continue;
    if (plugin) {
      text_add(later, sizeof(later), "%s%s", later[0] ? ", " : "", path);
    } else if (open_plugin(path, kind, name, &plugin, why) == 0) {
      snprintf(found->used, sizeof(found->used), "%s", path);
    } else if (why != &spare) {
      found->count++;
    }
    free(path);
  }
  for (size_t i = 0; plugin && i < found->count; i++)
    load_warn_once(&found->reasons[i]);
  if (later[0])
    loader_note(PST_LOG_DEBUG, "%s: shadowed by %s", later, found->used);
  return plugin;
}

static void load_look_for_hints(const struct loader_folders *folders, uint32_t kind,
                                const char *name, struct lookup *found)
{
  const char *names[NAMES_MAX];
  size_t count = load_list_names(folders, kind, names, NAMES_MAX);

  found->nearest = suggest_name(name, names, count);
  for (uint32_t other = PST_KIND_TRANSPORT; other <= PST_KIND_FILTER; other++) {
    count = other == kind ? 0 : load_list_names(folders, other, names, NAMES_MAX);
    for (size_t i = 0; i < count; i++) {
      if (strcmp(names[i], name) == 0)
        found->other_kind = loader_kind_name(other);
    }
  }
}

/* A configuration is checked by the description and run by the plugin. */
static bool load_is_stale(const struct pst_description *a, const struct pst_description *b)
{
  if (a == b)
    return false;
  if (strcmp(a->version, b->version) != 0 || a->option_count != b->option_count)
    return true;
  for (uint32_t i = 0; i < a->option_count; i++) {
    if (strcmp(a->options[i].name, b->options[i].name) != 0 ||
        a->options[i].type != b->options[i].type)
      return true;
  }
  return !rules_equal(a, b) || !a->check != !b->check;
}

static int load_locked(uint32_t kind, const char *name, const struct loader_plugin **plugin,
                       struct lookup *found)
{
  const struct pst_description *description = described_find(kind, name);
  struct loader_folders folders;
  int rc = search_folders(&folders);

  if (rc < 0) {
    search_folders_free(&folders);
    return rc;
  }
  search_folders_text(&folders, found->folders, sizeof(found->folders));
  if (loader_name_ok(name))
    *plugin = load_first(&folders, kind, name, found);
  if (*plugin && description && load_is_stale(description, (*plugin)->description)) {
    loader_note(PST_LOG_WARN,
                "%s: the description beside it is of another build, so its options may "
                "have been checked wrongly; build both anew",
                found->used);
  } else if (!*plugin && found->count == 0) {
    if (loader_name_ok(name))
      found->description = load_describe_locked(&folders, kind, name);
    load_look_for_hints(&folders, kind, name, found);
  }
  search_folders_free(&folders);
  return 0;
}

static int load_say_missing(const char *kind, const char *name, const struct lookup *found,
                            struct pst_error *error)
{
  if (found->count) {
    for (size_t i = 0; i < found->count; i++)
      pst_fail(error, PST_EXIT_UNAVAILABLE, found->reasons[i].code, "%s", found->reasons[i].line);
    return pst_fail(error, PST_EXIT_UNAVAILABLE, found->reasons[0].code,
                    "%s '%s' cannot be loaded; looked in: %s", kind, name, found->folders);
  }
  if (found->description)
    return pst_fail(error, PST_EXIT_UNAVAILABLE, -ENOENT,
                    "%s '%s' is known but not built here%s%s; looked in: %s", kind, name,
                    found->description->needs ? ": it needs " : "",
                    found->description->needs ? found->description->needs : "", found->folders);
  if (found->other_kind)
    return pst_fail(error, PST_EXIT_USAGE, -ENOENT,
                    "no %s is named '%s', but there is a %s of that name; looked in: %s", kind,
                    name, found->other_kind, found->folders);
  return pst_fail(error, PST_EXIT_USAGE, -ENOENT, "no %s is named '%s'; %s%s%slooked in: %s", kind,
                  name, found->nearest ? "did you mean '" : "",
                  found->nearest ? found->nearest : "", found->nearest ? "'? " : "",
                  found->folders);
}

int loader_load(uint32_t kind, const char *name, const struct loader_plugin **plugin,
                struct pst_error *error)
{
  const struct loader_plugin *loaded = NULL;
  struct lookup *found;
  char text[128];
  int rc = 0;

  if (!loader_kind_name(kind))
    return pst_fail(error, PST_EXIT_FAILED, -EINVAL, "no kind of plugin has the number %u", kind);
  found = calloc(1, sizeof(*found));
  if (!found)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "no memory to look for plugins");
  loader_lock();
  loaded = open_find(kind, name);
  if (!loaded)
    rc = load_locked(kind, name, &loaded, found);
  loader_unlock();
  if (rc < 0) {
    loader_search_failed(rc, text, sizeof(text));
    rc = pst_fail(error, PST_EXIT_UNAVAILABLE, rc, "%s '%s': %s", loader_kind_name(kind), name,
                  text);
  } else if (loaded) {
    *plugin = loaded;
  } else {
    rc = load_say_missing(loader_kind_name(kind), name, found, error);
  }
  free(found);
  return rc;
}

static bool catalog_missing(void *context, uint32_t kind, const char *name, char *text, size_t size)
{
  const struct loader_plugin *loaded = NULL;
  struct lookup *found = calloc(1, sizeof(*found));
  bool rejected;
  int rc;

  (void)context;
  text[0] = 0;
  if (!found)
    return false;
  loader_lock();
  rc = load_locked(kind, name, &loaded, found);
  loader_unlock();
  rejected = rc < 0 || found->count > 0;
  if (rc < 0) {
    loader_search_failed(rc, text, size);
  } else {
    for (size_t i = 0; i < found->count; i++)
      text_add(text, size, "%s; ", found->reasons[i].line);
    text_add(text, size, "looked in: %s", found->folders);
  }
  free(found);
  return rejected;
}

const struct config_catalog *loader_catalog(void)
{
  static const struct config_catalog catalog = {
      .find = catalog_find, .names = catalog_names, .missing = catalog_missing};

  return &catalog;
}

const char *pst_version(void)
{
  return PST_API_VERSION;
}

int pst_config_open_file(const char *path, const char *const *sets, size_t set_count,
                         struct pst_config **config, struct pst_error *error)
{
  return config_load_file(path, sets, set_count, loader_catalog(), config, error);
}

int pst_config_open_text(const char *text, size_t length, const char *name, const char *const *sets,
                         size_t set_count, struct pst_config **config, struct pst_error *error)
{
  return config_load_text(text, length, name, sets, set_count, loader_catalog(), config, error);
}

int pst_config_open_params(const struct pst_config_params *params, struct pst_config **config,
                           struct pst_error *error)
{
  return config_load_params(params, NULL, loader_catalog(), config, error);
}

int pst_config_keys(void (*key)(void *context, const struct pst_config_key *key), void *context)
{
  config_keys(loader_catalog(), key, context);
  return 0;
}
