/* SPDX-License-Identifier: Apache-2.0 */
/* dlopen() of a candidate that may be opened, and the checks of what came out. */
#include "internal.h"

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

#include "util/limit_remedy.h"
#include "util/log.h"

struct plugin {
  struct loader_plugin pub; /* first: what callers hold */
  struct plugin *next;
  struct host *host;
  struct pst_transport_ops transport;
  struct pst_memory_ops memory;
};

struct note {
  struct note *next;
  int level;
  char text[];
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

    pst_log(note->level, "%s", note->text);
    free(note);
    note = next;
  }
}

void loader_note(int level, const char *format, ...)
{
  char text[2048];
  struct note *note;
  va_list args;

  if (!pst_log_enabled(level))
    return;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  note = malloc(sizeof *note + strlen(text) + 1);
  if (!note)
    return;
  note->next = NULL;
  note->level = level;
  strcpy(note->text, text);
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

/* What the C library and the compiler bring is nobody's vendor library. */
static bool is_runtime(const char *soname)
{
  static const char *const stems[] = {"libc.so",      "libm.so",     "libdl.so",   "libpthread.so",
                                      "librt.so",     "ld-linux",    "ld64.so",    "libgcc_s.so",
                                      "libasan.so",   "libubsan.so", "libtsan.so", "liblsan.so",
                                      "libclang_rt.", "linux-vdso"};

  for (size_t i = 0; i < sizeof stems / sizeof stems[0]; i++) {
    if (strncmp(soname, stems[i], strlen(stems[i])) == 0)
      return true;
  }
  return false;
}

/* dlerror() is "<library>: cannot open shared object file: …" for a library that
 * is missing, "<file>: undefined symbol: <symbol>" for a symbol. */
static int dlopen_reason(const char *path, struct loader_reason *why)
{
  static const char missing[] = ": cannot open shared object file";
  static const char undefined[] = "undefined symbol: ";
  const char *error = dlerror(), *at;

  if (!error)
    error = "no reason given";
  if (strstr(error, strerror(EMFILE)))
    return loader_reject(why, -EMFILE, path, "cannot be opened: %s%s", error,
                         limit_remedy(-EMFILE));
  at = strstr(error, missing);
  if (at)
    return loader_reject(why, -ELIBACC, path,
                         "needs the library %.*s, which cannot be opened here%s; "
                         "install the package that has it",
                         (int)(at - error), error, at + strlen(missing));
  at = strstr(error, undefined);
  if (at) {
    const char *symbol = at + strlen(undefined);

    return loader_reject(why, -ELIBBAD, path,
                         "undefined symbol %.*s; link the library that has it, in the version "
                         "it was built with",
                         (int)strcspn(symbol, " ,"), symbol);
  }
  return loader_reject(why, -ELIBBAD, path, "cannot be opened: %s", error);
}

static bool same_file(const char *a, const char *b)
{
  struct stat sa, sb;

  return stat(a, &sa) == 0 && stat(b, &sb) == 0 && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

/* The address is in this very file: dlsym() looks into what it is linked with too,
 * and a symbol of the program's goes before the plugin's own. */
static int check_origin(const char *path, const char *real, const char *symbol, const void *address,
                        struct loader_reason *why)
{
  Dl_info info;

  if (dladdr(address, &info) && info.dli_fname && same_file(info.dli_fname, real))
    return 0;
  return loader_reject(why, -ELIBBAD, path,
                       "its %s is that of %s; export one of its own, and link no other plugin",
                       symbol, info.dli_fname ? info.dli_fname : "something else");
}

static void note_constructors(const char *path, const struct constructors_said *said)
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
                     const char *const *environment, struct inspect *found, void **handle,
                     const void **address, struct loader_reason *why)
{
  struct constructors_said said;
  char symbol[64];
  int rc = trust_file(path, real, why);

  if (rc == 0)
    rc = inspect_file(path, real, stem, found, why);
  if (rc < 0)
    return rc;
  rc = constructors_dlopen(real, environment, handle, &said);
  note_constructors(path, &said);
  if (rc < 0) {
    rc =
        rc == -ENOMEM ? loader_reject(why, rc, path, "no memory for it") : dlopen_reason(path, why);
    goto fail;
  }
  snprintf(symbol, sizeof symbol, "%s%u", stem, PST_ABI_MAJOR);
  *address = dlsym(*handle, symbol);
  rc = *address ? check_origin(path, real, symbol, *address, why)
                : inspect_no_symbol(path, stem, why);
  if (rc == 0)
    return 0;
  dlclose(*handle);
fail:
  inspect_free(found);
  return rc;
}

static int check_plugin(const char *path, const char *real, uint32_t kind, const char *name,
                        const struct pst_plugin *plugin, struct loader_reason *why)
{
  int rc;

  rc = check_size(path, "pst_plugin", plugin->struct_size, sizeof *plugin, why);
  if (rc < 0)
    return rc;
  if (plugin->described) {
    rc = check_origin(path, real, PST_DESCRIPTION_SYMBOL, plugin->described, why);
    if (rc < 0)
      return rc;
  }
  rc = check_description(path, kind, name, plugin->described, why);
  if (rc < 0)
    return rc;
  if (!plugin->probe)
    return loader_reject(why, -EPROTO, path, "the mandatory call probe is NULL");
  return check_ops(path, kind, plugin->ops, why);
}

/* They are loaded by now; only their real paths are wanted. */
static void add_needed(struct host *host, char *const *needed)
{
  for (; needed && *needed; needed++) {
    void *handle = is_runtime(*needed) ? NULL : dlopen(*needed, RTLD_LAZY | RTLD_NOLOAD);

    if (handle) {
      host_library_add(host, handle);
      dlclose(handle);
    }
  }
}

static struct plugin *plugin_new(uint32_t kind, const char *name, const char *real,
                                 const struct pst_plugin *table)
{
  struct plugin *plugin = calloc(1, sizeof *plugin);
  char label[64];

  if (!plugin)
    return NULL;
  snprintf(label, sizeof label, "%s %s", loader_kind_name(kind), name);
  plugin->pub.kind = kind;
  plugin->pub.name = loader_intern(name);
  plugin->pub.path = loader_intern(real);
  plugin->pub.plugin = table;
  plugin->pub.description = table->described->description;
  plugin->host = host_new(label);
  if (!plugin->host || !plugin->pub.name || !plugin->pub.path) {
    free(plugin);
    return NULL;
  }
  plugin->pub.host = host_table(plugin->host);
  if (kind == PST_KIND_MEMORY) {
    overlay_memory(table->ops, &plugin->memory);
    plugin->pub.memory = &plugin->memory;
  } else {
    overlay_transport(table->ops, &plugin->transport);
    plugin->pub.transport = &plugin->transport;
  }
  return plugin;
}

/* What the description beside a plugin names: its own cannot be read before it is opened. NULL:
 * there is none that can be used. */
static const char *const *environment_beside(const char *path, uint32_t kind, const char *name)
{
  const struct pst_description *description;
  struct loader_reason why;
  char beside[PATH_MAX];
  const char *real;

  snprintf(beside, sizeof beside, "%.*s.desc.so", (int)(strlen(path) - strlen(".so")), path);
  if (access(beside, F_OK) != 0 ||
      open_description(beside, kind, name, &description, &real, &why) < 0)
    return NULL;
  return environment_of(description);
}

static int check_same_environment(const char *path, const struct pst_plugin *plugin,
                                  const char *const *environment, struct loader_reason *why)
{
  static const char *const none[] = {NULL};

  if (environment_equal(environment_of(plugin->described->description),
                        environment ? environment : none))
    return 0;
  return loader_reject(why, -EPROTO, path,
                       "its environment is not that of the description beside it, which is set "
                       "before it is opened; install %.*s.desc.so of the same build",
                       (int)(strlen(path) - strlen(".so")), path);
}

int open_plugin(const char *path, uint32_t kind, const char *name,
                const struct loader_plugin **opened, struct loader_reason *why)
{
  char real[PATH_MAX];
  struct inspect found;
  struct plugin *plugin;
  const char *const *environment = environment_beside(path, kind, name);
  const void *address;
  void *handle;
  int rc;

  rc = open_file(path, real, "pst_plugin_v", environment, &found, &handle, &address, why);
  if (rc < 0)
    return rc;
  rc = check_plugin(path, real, kind, name, address, why);
  if (rc == 0)
    rc = check_same_environment(path, address, environment, why);
  if (rc < 0)
    goto fail;
  plugin = plugin_new(kind, name, real, address);
  if (!plugin) {
    rc = loader_reject(why, -ENOMEM, path, "no memory for it");
    goto fail;
  }
  add_needed(plugin->host, found.needed);
  inspect_free(&found);
  plugin->next = plugins;
  plugins = plugin;
  *opened = &plugin->pub;
  return 0;
fail:
  inspect_free(&found);
  dlclose(handle);
  return rc;
}

int open_description(const char *path, uint32_t kind, const char *name,
                     const struct pst_description **description, const char **real_path,
                     struct loader_reason *why)
{
  char real[PATH_MAX];
  struct inspect found;
  const void *address;
  void *handle;
  int rc;

  rc = open_file(path, real, "pst_description_v", NULL, &found, &handle, &address, why);
  if (rc < 0)
    return rc;
  inspect_free(&found);
  rc = check_description(path, kind, name, address, why);
  if (rc == 0 && !(*real_path = loader_intern(real)))
    rc = loader_reject(why, -ENOMEM, path, "no memory for it");
  if (rc < 0) {
    dlclose(handle);
    return rc;
  }
  *description = ((const struct pst_described *)address)->description;
  return 0;
}

const char *const *loader_libraries(const struct loader_plugin *plugin)
{
  return host_libraries(((const struct plugin *)plugin)->host);
}

void loader_defer_drain(const struct loader_plugin *plugin)
{
  host_defer_drain(((const struct plugin *)plugin)->host);
}
