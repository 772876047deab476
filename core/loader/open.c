/* SPDX-License-Identifier: Apache-2.0 */
/* dlopen() of a candidate that may be opened, and the checks of what came out. */
#include "open.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "constructors.h"
#include "elf_check.h"
#include "host.h"
#include "ops.h"
#include "plugin_names.h"
#include "trust.h"
#include "util/limit_remedy.h"
#include "util/log.h"

struct plugin {
  struct loader_plugin pub; /* first: what callers hold */
  struct plugin *next;
  struct pst_transport_ops transport;
  struct pst_memory_ops memory;
};

struct note {
  struct note *next;
  int level;
  char *text;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct plugin *plugins;
static struct note *notes, **notes_end = &notes;

void loader_lock(void)
{
  pthread_mutex_lock(&mutex);
}

void loader_unlock(void)
{
  struct note *note = notes;

  notes = NULL;
  notes_end = &notes;
  pthread_mutex_unlock(&mutex);
  while (note) {
    struct note *next = note->next;

    if (note->text)
      pst_log(note->level, "%s", note->text);
    free(note->text);
    free(note);
    note = next;
  }
}

void loader_note(int level, const char *format, ...)
{
  struct note *note = pst_log_enabled(level) ? calloc(1, sizeof(*note)) : NULL;
  va_list args;

  if (!note)
    return;
  note->level = level;
  va_start(args, format);
  if (vasprintf(&note->text, format, args) < 0)
    note->text = NULL;
  va_end(args);
  *notes_end = note;
  notes_end = &note->next;
}

const struct loader_plugin *open_find(uint32_t kind, const char *name)
{
  for (const struct plugin *plugin = plugins; plugin; plugin = plugin->next) {
    if (plugin->pub.kind == kind && strcmp(plugin->pub.name, name) == 0)
      return &plugin->pub;
  }
  return NULL;
}

/* Returns whether a library belongs to the C library or the compiler, and so to no vendor. */
static bool open_is_runtime(const char *soname)
{
  static const char *const stems[] = {"libc.so",      "libm.so",     "libdl.so",   "libpthread.so",
                                      "librt.so",     "ld-linux",    "ld64.so",    "libgcc_s.so",
                                      "libasan.so",   "libubsan.so", "libtsan.so", "liblsan.so",
                                      "libclang_rt.", "linux-vdso"};

  for (size_t i = 0; i < sizeof(stems) / sizeof(stems[0]); i++) {
    if (strncmp(soname, stems[i], strlen(stems[i])) == 0)
      return true;
  }
  return false;
}

/* dlerror() is "<library>: cannot open shared object file: …" for a library that
 * is missing, "<file>: undefined symbol: <symbol>" for a symbol. */
static int open_dlopen_reason(struct loader_reason *why)
{
  static const char missing[] = ": cannot open shared object file";
  static const char undefined[] = "undefined symbol: ";
  const char *error = dlerror(), *at;

  if (!error)
    error = "no reason given";
  if (strstr(error, strerror(EMFILE)))
    return loader_reject(why, -EMFILE, "cannot be opened: %s%s", error, limit_remedy(-EMFILE));
  at = strstr(error, missing);
  if (at)
    return loader_reject(why, -ELIBACC,
                         "needs the library %.*s, which cannot be opened here%s; "
                         "install the package that has it",
                         (int)(at - error), error, at + strlen(missing));
  at = strstr(error, undefined);
  if (at) {
    const char *symbol = at + strlen(undefined);

    return loader_reject(why, -ELIBBAD,
                         "undefined symbol %.*s; link the library that has it, in the version "
                         "it was built with",
                         (int)strcspn(symbol, " ,"), symbol);
  }
  return loader_reject(why, -ELIBBAD, "cannot be opened: %s", error);
}

static bool open_same_file(const char *a, const char *b)
{
  struct stat sa, sb;

  return stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

/* The address is in this very file: dlsym() looks into what it is linked with too,
 * and a symbol of the program's goes before the plugin's own. */
static int open_check_origin(const char *real, const char *symbol, const void *address,
                             struct loader_reason *why)
{
  Dl_info info;

  if (dladdr(address, &info) && info.dli_fname && open_same_file(info.dli_fname, real))
    return 0;
  return loader_reject(why, -ELIBBAD,
                       "its %s is that of %s; export one of its own, and link no other plugin",
                       symbol, info.dli_fname ? info.dli_fname : "something else");
}

static void open_note_constructors(const char *path, const struct constructors_effects *said)
{
  if (said->set[0])
    loader_note(PST_LOG_DEBUG, "%s: opened with %s in the environment", path, said->set);
  if (said->kept[0])
    loader_note(PST_LOG_DEBUG, "%s: opened with the environment's own %s", path, said->kept);
  if (said->restored[0])
    loader_note(PST_LOG_DEBUG, "%s: opening it changed the handling of signals; restored: %s", path,
                said->restored);
}

/* Judged, inspected, opened with `environment` (or NULL), its symbol found to be its own; *handle
 * and *address. */
static int open_file(const char *path, char real[PATH_MAX], const char *stem,
                     const char *const *environment, struct elf_check *found, void **handle,
                     const void **address, struct loader_reason *why)
{
  struct constructors_effects said;
  char symbol[64];
  int rc = trust_file(path, real, why);

  if (rc == 0)
    rc = elf_check_file(real, stem, found, why);
  if (rc < 0)
    return rc;
  rc = constructors_dlopen(real, environment, handle, &said);
  open_note_constructors(path, &said);
  if (rc < 0) {
    rc = rc == -ENOMEM ? loader_reject(why, rc, "out of memory for it") : open_dlopen_reason(why);
    goto fail;
  }
  snprintf(symbol, sizeof(symbol), "%s%u", stem, PST_ABI_MAJOR);
  *address = dlsym(*handle, symbol);
  rc = *address ? open_check_origin(real, symbol, *address, why) : elf_check_no_symbol(stem, why);
  if (rc == 0)
    return 0;
  dlclose(*handle);
fail:
  elf_check_free(found);
  return rc;
}

static int open_check_plugin(const char *real, uint32_t kind, const char *name,
                             const struct pst_plugin *plugin, struct loader_reason *why)
{
  int rc;

  rc = check_size("pst_plugin", plugin->struct_size, sizeof(*plugin), why);
  if (rc < 0)
    return rc;
  if (plugin->described) {
    rc = open_check_origin(real, PST_DESCRIPTION_SYMBOL, plugin->described, why);
    if (rc < 0)
      return rc;
  }
  rc = check_description(kind, name, plugin->described, why);
  if (rc < 0)
    return rc;
  if (!plugin->probe)
    return loader_reject(why, -EPROTO, "the mandatory call probe is NULL");
  return ops_check(kind, plugin->ops, why);
}

/* Adds the real paths of the libraries, which are loaded by now. */
static void open_add_needed(const struct pst_host *host, const char *const *needed)
{
  for (; needed && *needed; needed++) {
    void *handle = open_is_runtime(*needed) ? NULL : dlopen(*needed, RTLD_LAZY | RTLD_NOLOAD);

    if (handle) {
      host_library_add(host, handle);
      dlclose(handle);
    }
  }
}

static struct plugin *plugin_new(uint32_t kind, const char *name, const char *real,
                                 const struct pst_plugin *table)
{
  struct plugin *plugin = calloc(1, sizeof(*plugin));
  char label[64];

  if (!plugin)
    return NULL;
  snprintf(label, sizeof(label), "%s %s", loader_kind_name(kind), name);
  plugin->pub.kind = kind;
  plugin->pub.name = loader_intern(name);
  plugin->pub.path = loader_intern(real);
  plugin->pub.plugin = table;
  plugin->pub.description = table->described->description;
  plugin->pub.host = host_new(label);
  if (!plugin->pub.host || !plugin->pub.name || !plugin->pub.path) {
    free(plugin);
    return NULL;
  }
  if (kind == PST_KIND_MEMORY) {
    ops_overlay_memory(table->ops, &plugin->memory);
    plugin->pub.memory = &plugin->memory;
  } else {
    ops_overlay_transport(table->ops, &plugin->transport);
    plugin->pub.transport = &plugin->transport;
  }
  return plugin;
}

/* Returns the environment that the description beside a plugin names, if there is a usable one: the
 * plugin's own cannot be read before the plugin is opened. */
static const char *const *environment_beside(const char *path, uint32_t kind, const char *name)
{
  const struct pst_description *description;
  struct loader_reason why;
  char beside[PATH_MAX];
  const char *real;

  snprintf(beside, sizeof(beside), "%.*s.desc.so", (int)(strlen(path) - strlen(".so")), path);
  if (access(beside, F_OK) != 0 ||
      open_description(beside, kind, name, &description, &real, &why) < 0)
    return environment_of(NULL);
  return environment_of(description);
}

static int open_check_same_environment(const struct pst_plugin *plugin,
                                       const char *const *environment, struct loader_reason *why)
{
  if (environment_equal(environment_of(plugin->described->description), environment))
    return 0;
  return loader_reject(why, -EPROTO,
                       "it needs other environment variables than the description beside it, which "
                       "are set before a plugin is opened; install %.*s.desc.so of the same build",
                       (int)(strlen(why->path) - strlen(".so")), why->path);
}

int open_plugin(const char *path, uint32_t kind, const char *name,
                const struct loader_plugin **opened, struct loader_reason *why)
{
  char real[PATH_MAX];
  struct elf_check found;
  struct plugin *plugin;
  const char *const *environment = environment_beside(path, kind, name);
  const void *address;
  void *handle;
  int rc;

  rc = open_file(path, real, "pst_plugin_v", environment, &found, &handle, &address, why);
  if (rc < 0)
    return rc;
  rc = open_check_plugin(real, kind, name, address, why);
  if (rc == 0)
    rc = open_check_same_environment(address, environment, why);
  if (rc < 0)
    goto fail;
  plugin = plugin_new(kind, name, real, address);
  if (!plugin) {
    rc = loader_reject(why, -ENOMEM, "out of memory for it");
    goto fail;
  }
  open_add_needed(plugin->pub.host, found.needed);
  elf_check_free(&found);
  plugin->next = plugins;
  plugins = plugin;
  *opened = &plugin->pub;
  return 0;
fail:
  elf_check_free(&found);
  dlclose(handle);
  return rc;
}

int open_description(const char *path, uint32_t kind, const char *name,
                     const struct pst_description **description, const char **real_path,
                     struct loader_reason *why)
{
  char real[PATH_MAX];
  struct elf_check found;
  const void *address;
  void *handle;
  int rc;

  rc = open_file(path, real, "pst_description_v", NULL, &found, &handle, &address, why);
  if (rc < 0)
    return rc;
  elf_check_free(&found);
  rc = check_description(kind, name, address, why);
  if (rc == 0 && !(*real_path = loader_intern(real)))
    rc = loader_reject(why, -ENOMEM, "out of memory for it");
  if (rc < 0) {
    dlclose(handle);
    return rc;
  }
  *description = ((const struct pst_described *)address)->description;
  return 0;
}
