/* SPDX-License-Identifier: Apache-2.0 */
/* The host that the plugins under test see, the images they are loaded from and
 * the regions they move. */
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness.h"

#include "config/options.h"
#include "loader/loader.h"
#include "loader/ops.h"

#include <penstock/page.h>

static _Atomic uint32_t complaints;
static pthread_mutex_t complaint_lock = PTHREAD_MUTEX_INITIALIZER;
static char complaint[1024];
static struct {
  const char *_Atomic words;
  struct {
    int level;
    char text[sizeof(complaint)];
  } lines[16];
  uint32_t head, tail;
} kept; /* under complaint_lock */
static const struct pst_memory_ops *memory_ops;
static struct pst_memory *memory;

uint32_t contract_complaints(void)
{
  return atomic_exchange(&complaints, 0);
}

const char *contract_complaint(void)
{
  static char text[sizeof(complaint)];
  pthread_mutex_lock(&complaint_lock);
  memcpy(text, complaint, sizeof(text));
  pthread_mutex_unlock(&complaint_lock);
  return text;
}

void contract_complained(uint32_t count)
{
  uint32_t logged = contract_complaints();
  if (logged == count)
    return;
  if (logged)
    print_error("[  ERROR   ] --- the last line logged: %s\n", contract_complaint());
  fail_msg("the plugin logged %u errors and warnings, not %u: who decides an error logs it, once; "
           "-EAGAIN and what post refuses is not logged",
           logged, count);
}

static void complain(const char *text)
{
  pthread_mutex_lock(&complaint_lock);
  snprintf(complaint, sizeof(complaint), "%s", text);
  pthread_mutex_unlock(&complaint_lock);
  atomic_fetch_add(&complaints, 1);
}

void contract_listen(const char *words)
{
  pthread_mutex_lock(&complaint_lock);
  kept.words = words;
  kept.head = kept.tail = 0;
  pthread_mutex_unlock(&complaint_lock);
}

int contract_heard(char *line, size_t size)
{
  int level = -1;
  pthread_mutex_lock(&complaint_lock);
  if (kept.tail != kept.head) {
    level = kept.lines[kept.tail].level;
    snprintf(line, size, "%s", kept.lines[kept.tail++].text);
  }
  pthread_mutex_unlock(&complaint_lock);
  return level;
}

static void keep(int level, const char *text)
{
  pthread_mutex_lock(&complaint_lock);
  const char *words = kept.words;
  if (words && strstr(text, words) && kept.head < sizeof(kept.lines) / sizeof(kept.lines[0])) {
    kept.lines[kept.head].level = level;
    snprintf(kept.lines[kept.head].text, sizeof(kept.lines[0].text), "%s", text);
    kept.head++;
  }
  pthread_mutex_unlock(&complaint_lock);
}

static void host_log(const struct pst_host *host, int level, const char *format, ...)
{
  char text[sizeof(complaint)];
  va_list args;
  (void)host;
  if (level > PST_LOG_WARN && !kept.words && !getenv("CONTRACT_LOG"))
    return;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  if (level <= PST_LOG_WARN)
    complain(text);
  keep(level, text);
  if (getenv("CONTRACT_LOG"))
    fprintf(stderr, "%s\n", text);
}

static uint64_t (*clock_now)(void) = contract_now_ns;

void contract_host_clock(uint64_t (*now_ns)(void))
{
  clock_now = now_ns;
}

static uint64_t host_clock(const struct pst_host *host)
{
  (void)host;
  return clock_now();
}

static bool refuses_works;

void contract_host_refuses_works(bool refuses)
{
  refuses_works = refuses;
}

static bool holds_works;
static struct {
  void (*work)(void *arg);
  void *arg;
} held[16];
static uint32_t held_count;

void contract_host_holds_works(bool holds)
{
  holds_works = holds;
  for (uint32_t i = 0; !holds && i < held_count; i++)
    held[i].work(held[i].arg);
  held_count = 0;
}

static int host_defer(const struct pst_host *host, const void *key, void (*work)(void *arg),
                      void *arg)
{
  (void)host, (void)key;
  if (refuses_works)
    return -ENOMEM;
  if (!holds_works) {
    work(arg);
    return 0;
  }
  assert_true(held_count < sizeof(held) / sizeof(held[0]));
  held[held_count].work = work;
  held[held_count++].arg = arg;
  return 0;
}

static int host_library(const struct pst_host *host, const char *soname, void **handle)
{
  (void)host;
  void *opened = dlopen(soname, RTLD_NOW | RTLD_LOCAL);
  if (!opened)
    return -ENOENT;
  *handle = opened;
  return 0;
}

struct pst_options *contract_options(const struct pst_description *description, const char *text,
                                     const char *const *list)
{
  struct pst_options *options;
  char pair[512], why[256];
  assert_int_equal(options_new(description->options, description->option_count, &options), 0);
  while ((text && *text) || (list && *list)) {
    if (text && *text) {
      size_t length = strcspn(text, ",");
      snprintf(pair, sizeof(pair), "%.*s", (int)length, text);
      text += length + (text[length] == ',');
    } else {
      snprintf(pair, sizeof(pair), "%s", *list++);
    }
    char *value = strchr(pair, '=');
    assert_non_null(value);
    *value++ = '\0';
    if (options_set(options, pair, value, why, sizeof(why)) != 0)
      fail_msg("option %s of %s: %s", pair, description->name, why);
  }
  return options;
}

/* The getters only log what is a bug of the plugin. */
static void check_option(const struct pst_options *options, const char *name)
{
  size_t count;
  const struct pst_option *table = options_table(options, &count);
  for (size_t i = 0; i < count; i++)
    if (strcmp(table[i].name, name) == 0)
      return;
  fail_msg("the plugin asks for an option that is not in its table: %s", name);
}

static uint64_t host_uint(const struct pst_options *options, const char *name)
{
  check_option(options, name);
  return options_get_uint(options, name);
}

static const char *host_string(const struct pst_options *options, const char *name)
{
  check_option(options, name);
  return options_get_string(options, name);
}

static const char *host_item(const struct pst_options *options, const char *name, uint32_t index)
{
  check_option(options, name);
  return options_get_item(options, name, index);
}

static int host_is_set(const struct pst_options *options, const char *name)
{
  check_option(options, name);
  return options_is_set(options, name);
}

static int host_export(const struct pst_host *host, const struct pst_region *region, uint32_t kind,
                       uint64_t offset, uint64_t length, struct pst_export *out)
{
  (void)host;
  if (region->memory)
    return memory_ops->export_region
               ? memory_ops->export_region(region->memory, region, kind, offset, length, out)
               : -EOPNOTSUPP;
  if (kind != PST_EXPORT_FD || !region->handle)
    return -EOPNOTSUPP;
  int fd = fcntl((int)(intptr_t)region->handle, F_DUPFD_CLOEXEC, 0);
  if (fd < 0)
    return -errno;
  const struct pst_export made = {.kind = kind,
                                  .fd = fd,
                                  .offset = offset,
                                  .length = length,
                                  .base_address = region->address,
                                  .base_length = region->length};
  pst_struct_write(out, &made, sizeof(made));
  return 0;
}

static const struct pst_memory_ops *host_memory(const struct pst_host *host,
                                                const struct pst_region *region)
{
  (void)host;
  return region->memory ? memory_ops : NULL;
}

static int host_import(const struct pst_host *host, const struct pst_region *near,
                       const struct pst_export *from, struct pst_region *far)
{
  (void)host;
  return near->memory && memory_ops->import_region
             ? memory_ops->import_region(near->memory, from, far)
             : -EOPNOTSUPP;
}

static void host_release(const struct pst_host *host, struct pst_region *far)
{
  (void)host;
  memory_ops->free_region(far->memory, far);
}

const struct pst_host contract_host = {
    .struct_size = sizeof(struct pst_host),
    .log = host_log,
    .clock_ns = host_clock,
    .defer = host_defer,
    .library_open = host_library,
    .option_uint = host_uint,
    .option_string = host_string,
    .option_item = host_item,
    .option_is_set = host_is_set,
    .region_export = host_export,
    .region_memory = host_memory,
    .region_import = host_import,
    .region_release = host_release,
};

/* A copy is another object to the dynamic linker: its variables are its own. */
static void *load(const char *path, bool copy)
{
  char name[64];
  int from = -1, to = -1;
  if (copy) {
    struct stat info;
    from = open(path, O_RDONLY | O_CLOEXEC);
    to = memfd_create("second", MFD_CLOEXEC);
    assert_true(from >= 0 && to >= 0 && fstat(from, &info) == 0);
    for (off_t left = info.st_size; left > 0;) {
      ssize_t n = sendfile(to, from, NULL, (size_t)left);
      assert_true(n > 0);
      left -= n;
    }
    close(from);
    snprintf(name, sizeof(name), "/proc/self/fd/%d", to);
    path = name;
  }
  /* The copy's descriptor stays open: its path names the object. */
  void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle)
    fail_msg("%s", dlerror());
  return handle;
}

struct loaded {
  char path[512];
  bool second;
  const struct pst_plugin *plugin;
  struct pst_transport_ops transport; /* of any minor: what it lacks is NULL */
  struct pst_transport_ops whole;     /* as a filter is handed it */
};

static const struct loaded *load_plugin(const char *path, bool second)
{
  static struct loaded known[16];
  size_t i = 0;
  while (known[i].plugin && (strcmp(known[i].path, path) != 0 || known[i].second != second))
    assert_true(++i < sizeof(known) / sizeof(known[0]));
  if (!known[i].plugin) {
    known[i].plugin = dlsym(load(path, second), PST_PLUGIN_SYMBOL);
    assert_non_null(known[i].plugin);
    snprintf(known[i].path, sizeof(known[i].path), "%s", path);
    known[i].second = second;
    uint32_t size = *(const uint32_t *)known[i].plugin->ops;
    memcpy(&known[i].transport, known[i].plugin->ops,
           size < sizeof(known[i].transport) ? size : sizeof(known[i].transport));
    if (known[i].plugin->described->description->kind == PST_KIND_TRANSPORT)
      ops_overlay_transport(known[i].plugin->ops, &known[i].whole);
  }
  return &known[i];
}

void contract_image_open(const struct contract_variant *variant, bool second,
                         struct contract_image *image)
{
  char outer[512];
  const char *plus = strchr(variant->plugin, '+');
  snprintf(outer, sizeof(outer), "%.*s",
           plus ? (int)(plus - variant->plugin) : (int)strlen(variant->plugin), variant->plugin);
  const struct loaded *loaded = load_plugin(outer, second);
  *image = (struct contract_image){.plugin = loaded->plugin, .ops = &loaded->transport};
  if (plus) {
    loaded = load_plugin(plus + 1, second);
    image->inner = loaded->plugin;
    image->inner_ops = &loaded->whole;
  }
}

void contract_memory_ops(const struct pst_memory_ops *ops)
{
  memory_ops = ops;
}

void contract_memory_use(const char *path)
{
  if (!path)
    return;
  const struct pst_plugin *plugin = load_plugin(path, false)->plugin;
  struct pst_options *options = contract_options(plugin->described->description, NULL, NULL);
  struct pst_memory_params params = {.struct_size = sizeof(params), .options = options};
  assert_int_equal(plugin->described->description->kind, PST_KIND_MEMORY);
  memory_ops = plugin->ops;
  assert_int_equal(memory_ops->open(&contract_host, &params, &memory), 0);
  options_free(options);
}

void contract_region_make(uint64_t length, struct contract_region *region)
{
  *region = (struct contract_region){.region.struct_size = sizeof(struct pst_region), .fd = -1};
  if (memory) {
    struct pst_alloc_params params = {.struct_size = sizeof(params),
                                      .length = length,
                                      .needs = PST_NEED_CPU_ACCESS | PST_NEED_EXPORT_FD,
                                      .label = "contract"};
    assert_int_equal(memory_ops->alloc(memory, &params, &region->region), 0);
    return;
  }
  region->fd = memfd_create("contract", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  assert_true(region->fd >= 0);
  assert_int_equal(ftruncate(region->fd, (off_t)length), 0);
  assert_int_equal(fcntl(region->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
  void *map = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, region->fd, 0);
  assert_true(map != MAP_FAILED);
  region->region.kind = PST_MEMORY_HOST;
  region->region.address = (uint64_t)(uintptr_t)map;
  region->region.host = map;
  region->region.length = length;
  region->region.page_size = pst_page_size();
  region->region.exports = PST_EXPORT_FD;
  region->region.handle = (void *)(intptr_t)region->fd;
}

void contract_region_free(struct contract_region *region)
{
  if (region->region.memory) {
    memory_ops->free_region(region->region.memory, &region->region);
  } else if (region->region.host) {
    munmap(region->region.host, region->region.length);
    close(region->fd);
  }
  region->region = (struct pst_region){0};
}
