/* SPDX-License-Identifier: Apache-2.0 */
/* Collects what a command may still do, and confines the process to that. */
#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <libgen.h>
#include <limits.h>
#include <link.h>
#include <linux/capability.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "capabilities.h"
#include "landlock.h"
#include "log.h"
#include "result_file.h"
#include "stream_config.h"
#include "syscalls.h"
#include "util/host_port.h"

#define READ_RIGHTS (LANDLOCK_READ_FILE | LANDLOCK_READ_DIR)
#define DEVICE_RIGHTS (READ_RIGHTS | LANDLOCK_WRITE_FILE | LANDLOCK_TRUNCATE | LANDLOCK_IOCTL_DEV)
#define REPLACE_RIGHTS (LANDLOCK_MAKE_REG | LANDLOCK_REMOVE_FILE)
/* Where control channels keep the folders of their Unix sockets. */
#define SOCKET_RIGHTS                                                                              \
  (LANDLOCK_READ_DIR | LANDLOCK_MAKE_DIR | LANDLOCK_MAKE_SOCK | LANDLOCK_REMOVE_DIR |              \
   LANDLOCK_REMOVE_FILE)
#define WRITE_RIGHTS                                                                               \
  (DEVICE_RIGHTS | REPLACE_RIGHTS | SOCKET_RIGHTS | LANDLOCK_MAKE_FIFO | LANDLOCK_MAKE_SYM |       \
   LANDLOCK_REFER)

/* System files that every command may use. None of them has secrets. */
static const struct landlock_path sandbox_system[] = {
    {"/usr", READ_RIGHTS},
    {"/lib", READ_RIGHTS},
    {"/lib32", READ_RIGHTS},
    {"/lib64", READ_RIGHTS},
    {"/opt", READ_RIGHTS},
    {"/proc", READ_RIGHTS},
    {"/proc/self", READ_RIGHTS | LANDLOCK_WRITE_FILE | LANDLOCK_TRUNCATE},
    {"/sys", READ_RIGHTS},
    {"/run/udev", READ_RIGHTS},
    {"/etc/ld.so.cache", READ_RIGHTS},
    {"/etc/ld.so.conf", READ_RIGHTS},
    {"/etc/ld.so.conf.d", READ_RIGHTS},
    {"/etc/libibverbs.d", READ_RIGHTS},
    {"/etc/libnl-3", READ_RIGHTS},
    {"/etc/rdma", READ_RIGHTS},
    {"/etc/ucx", READ_RIGHTS},
    {"/etc/nvidia", READ_RIGHTS},
    {"/etc/ssl/openssl.cnf", READ_RIGHTS},
    {"/etc/pki/tls/openssl.cnf", READ_RIGHTS},
    {"/etc/crypto-policies", READ_RIGHTS},
    {"/etc/hosts", READ_RIGHTS},
    {"/etc/host.conf", READ_RIGHTS},
    {"/etc/resolv.conf", READ_RIGHTS},
    {"/etc/nsswitch.conf", READ_RIGHTS},
    {"/etc/gai.conf", READ_RIGHTS},
    {"/etc/services", READ_RIGHTS},
    {"/etc/protocols", READ_RIGHTS},
    {"/etc/localtime", READ_RIGHTS},
    {"/etc/passwd", READ_RIGHTS},
    {"/etc/group", READ_RIGHTS},
    {"/tmp", SOCKET_RIGHTS},
};
/* Neither block devices nor /dev/mem. */
static const char *const sandbox_devices[] = {
    "/dev/null",     "/dev/zero",    "/dev/full",
    "/dev/random",   "/dev/urandom", "/dev/infiniband",
    "/dev/nvidia*",  "/dev/nvmap",   "/dev/nvgpu*",
    "/dev/nvhost*",  "/dev/nvsci*",  "/dev/dri",
    "/dev/dma_heap", "/dev/gdrdrv",  "/dev/knem",
    "/dev/xpmem",    "/dev/ptp*",    "/dev/cpu_dma_latency",
};

#define CAPABILITIES_ALWAYS                                                                        \
  (CAPABILITY(CAP_IPC_LOCK) | CAPABILITY(CAP_SYS_NICE) | CAPABILITY(CAP_SYS_RESOURCE) |            \
   CAPABILITY(CAP_NET_BIND_SERVICE) | CAPABILITY(CAP_DAC_OVERRIDE) |                               \
   CAPABILITY(CAP_DAC_READ_SEARCH) | CAPABILITY(CAP_FOWNER) | CAPABILITY(CAP_CHOWN) |              \
   CAPABILITY(CAP_FSETID))
#define CAPABILITIES_NETWORK (CAPABILITY(CAP_NET_RAW) | CAPABILITY(CAP_NET_ADMIN))
#define CAPABILITIES_DPDK                                                                          \
  (CAPABILITIES_NETWORK | CAPABILITY(CAP_SYS_RAWIO) | CAPABILITY(CAP_SYS_ADMIN) |                  \
   CAPABILITY(CAP_BPF) | CAPABILITY(CAP_PERFMON))

/* Rights that a transport needs beyond CAPABILITIES_ALWAYS and the ports of the control channel. */
struct sandbox_transport {
  const char *plugin;
  uint64_t capabilities;
  bool has_tcp; /* opens connections to ports that are not known beforehand */
  bool opens_inet;
  bool reads_peers; /* memory of other processes, which Landlock forbids */
};
static const struct sandbox_transport sandbox_transports[] = {
    {"loopback", 0, false, false, false},
    {"udp", CAPABILITIES_NETWORK, false, true, false},
    {"ethernet", CAPABILITIES_DPDK, false, true, false},
    {"verbs_rc", CAPABILITY(CAP_NET_RAW), false, true, false},
    {"verbs_dc", CAPABILITY(CAP_NET_RAW), false, true, false},
    {"ucx", CAPABILITY(CAP_SYS_PTRACE), true, true, true},
    {"share", 0, false, false, false}, /* the router has the adapter */
};
/* A plugin of somebody else may need all of it. One that reads its peers' memory needs
 * --sandbox off. */
static const struct sandbox_transport sandbox_unknown = {NULL, UINT64_MAX, true, true, false};

enum sandbox_mode { SANDBOX_AUTO, SANDBOX_REQUIRE, SANDBOX_OFF, SANDBOX_UNKNOWN };

struct sandbox {
  enum sandbox_mode mode;
  struct landlock_path *paths; /* their strings are ours */
  size_t path_count;
  struct landlock_port *ports;
  size_t port_count;
  uint64_t capabilities;
  bool has_tcp;
  struct syscalls_needs calls;
  bool is_short; /* out of memory */
};

/* ---- Rights -------------------------------------------------------------------------- */

static void sandbox_add(struct sandbox *sandbox, const char *path, uint64_t access)
{
  struct landlock_path *grown =
      reallocarray(sandbox->paths, sandbox->path_count + 1, sizeof(*sandbox->paths));
  char *copy = strdup(path);

  if (grown)
    sandbox->paths = grown;
  if (!grown || !copy) {
    free(copy);
    sandbox->is_short = true;
    return;
  }
  sandbox->paths[sandbox->path_count++] = (struct landlock_path){copy, access};
}

static void sandbox_add_parent(struct sandbox *sandbox, const char *path, uint64_t access)
{
  char *copy = strdup(path);

  if (copy)
    sandbox_add(sandbox, dirname(copy), access);
  sandbox->is_short |= !copy;
  free(copy);
}

/* A list of folders, with ':' between them. */
static void sandbox_add_list(struct sandbox *sandbox, const char *folders, uint64_t access)
{
  char *copy = strdup(folders ? folders : ""), *rest = NULL;

  sandbox->is_short |= !copy;
  for (char *word = copy ? strtok_r(copy, ":", &rest) : NULL; word;
       word = strtok_r(NULL, ":", &rest))
    sandbox_add(sandbox, word, access);
  free(copy);
}

static void sandbox_add_devices(struct sandbox *sandbox, const char *pattern)
{
  glob_t found;

  if (glob(pattern, 0, NULL, &found) != 0)
    return;
  for (size_t i = 0; i < found.gl_pathc; i++)
    sandbox_add(sandbox, found.gl_pathv[i], DEVICE_RIGHTS);
  globfree(&found);
}

/* Shared memory, also in huge pages. */
static void sandbox_add_shared_memory(struct sandbox *sandbox)
{
  FILE *mounts = setmntent("/proc/self/mounts", "r");

  sandbox_add(sandbox, "/dev/shm", WRITE_RIGHTS);
  for (struct mntent *entry = NULL; mounts && (entry = getmntent(mounts));)
    if (strcmp(entry->mnt_type, "hugetlbfs") == 0)
      sandbox_add(sandbox, entry->mnt_dir, WRITE_RIGHTS);
  if (mounts)
    endmntent(mounts);
}

/* The folder of the program, of its library, or of another object that is loaded: plugins and what
 * they load lie beside them. */
static int sandbox_add_object(struct dl_phdr_info *object, size_t size, void *context)
{
  const char *name = object->dlpi_name[0] == '\0' ? "/proc/self/exe" : object->dlpi_name;
  char *where = realpath(name, NULL);

  (void)size;
  if (where && strchr(where + 1, '/'))
    sandbox_add_parent(context, where, READ_RIGHTS);
  free(where);
  return 0;
}

static void sandbox_add_program(struct sandbox *sandbox)
{
  dl_iterate_phdr(sandbox_add_object, sandbox);
}

static void sandbox_add_port(struct sandbox *sandbox, const char *address, bool to_listen)
{
  struct pst_host_port parts;
  char *end = NULL;
  unsigned long port = ULONG_MAX;

  if (!address)
    return;
  if (pst_host_port_split(address, &parts) && parts.port && parts.port[0] != '\0')
    port = strtoul(parts.port, &end, 10);
  struct landlock_port *grown =
      reallocarray(sandbox->ports, sandbox->port_count + 1, sizeof(*sandbox->ports));
  if (grown)
    sandbox->ports = grown;
  else
    sandbox->is_short = true;
  if (!grown || port > UINT16_MAX || *end != '\0') {
    sandbox->has_tcp = true; /* reported where the address is used */
    return;
  }
  sandbox->ports[sandbox->port_count++] = (struct landlock_port){(uint16_t)port, to_listen};
}

/* Allows a path. For a file that does not exist yet, allows its folder. */
static void sandbox_allow_named(struct sandbox *sandbox, const char *path)
{
  sandbox_add(sandbox, path, WRITE_RIGHTS);
  if (access(path, F_OK) != 0 && strchr(path + 1, '/') && strncmp(path, "/dev/", 5) != 0)
    sandbox_add_parent(sandbox, path, WRITE_RIGHTS);
}

/* Allows each absolute path in the text. */
static void sandbox_allow_paths_in(struct sandbox *sandbox, const char *text, size_t size)
{
  static const char ends[] = " \t\n\"',;=:[]{}";
  char *copy = strndup(text, size), *rest = NULL;

  sandbox->is_short |= !copy;
  for (char *word = copy ? strtok_r(copy, ends, &rest) : NULL; word;
       word = strtok_r(NULL, ends, &rest))
    if (word[0] == '/' && word[1] != '\0' && word[1] != '/')
      sandbox_allow_named(sandbox, word);
  free(copy);
}

/* Allows the paths in a plugin's "KEY=VALUE". */
static void sandbox_allow_option(struct sandbox *sandbox, const char *option)
{
  sandbox_allow_paths_in(sandbox, option, strlen(option));
}

static bool sandbox_is_file(const char *path)
{
  struct stat is;

  return stat(path, &is) != 0 || S_ISREG(is.st_mode);
}

static enum sandbox_mode sandbox_read_mode(const char *word)
{
  return strcmp(word, "auto") == 0      ? SANDBOX_AUTO
         : strcmp(word, "require") == 0 ? SANDBOX_REQUIRE
         : strcmp(word, "off") == 0     ? SANDBOX_OFF
                                        : SANDBOX_UNKNOWN;
}

struct sandbox *app_sandbox_new(const struct arguments *arguments)
{
  struct sandbox *sandbox = calloc(1, sizeof(*sandbox));
  const char *mode = arguments->sandbox ? arguments->sandbox : secure_getenv("PENSTOCK_SANDBOX");

  if (!sandbox)
    return NULL;
  sandbox->mode = sandbox_read_mode(mode ? mode : "auto");
  sandbox->capabilities = CAPABILITIES_ALWAYS;
  if (sandbox->mode == SANDBOX_OFF)
    return sandbox;
  for (size_t i = 0; i < sizeof(sandbox_system) / sizeof(sandbox_system[0]); i++)
    sandbox_add(sandbox, sandbox_system[i].path, sandbox_system[i].access);
  for (size_t i = 0; i < sizeof(sandbox_devices) / sizeof(sandbox_devices[0]); i++)
    sandbox_add_devices(sandbox, sandbox_devices[i]);
  sandbox_add_shared_memory(sandbox);
  sandbox_add_program(sandbox);
  sandbox_add_list(sandbox, secure_getenv("XDG_RUNTIME_DIR"), SOCKET_RIGHTS);
  sandbox_add_list(sandbox, secure_getenv("PENSTOCK_PLUGIN_PATH"), READ_RIGHTS);
  sandbox_add_list(sandbox, secure_getenv("LD_LIBRARY_PATH"), READ_RIGHTS);
  for (size_t i = 0; i < arguments->plugin_path_count; i++)
    sandbox_add(sandbox, arguments->plugin_paths[i], READ_RIGHTS);
  for (size_t i = 0; i < arguments->sandbox_path_count; i++)
    sandbox_add(sandbox, arguments->sandbox_paths[i], WRITE_RIGHTS);
  for (size_t i = 0; i < arguments->transport_option_count; i++)
    sandbox_allow_option(sandbox, arguments->transport_options[i]);
  for (size_t i = 0; i < arguments->memory_option_count; i++)
    sandbox_allow_option(sandbox, arguments->memory_options[i]);
  if (arguments->json && strcmp(arguments->json, "-") != 0) {
    /* The result file is read before it is replaced. A FIFO or a device is written to. */
    sandbox_add(sandbox, arguments->json,
                READ_RIGHTS | (sandbox_is_file(arguments->json) ? 0 : LANDLOCK_WRITE_FILE));
    if (sandbox_is_file(arguments->json))
      sandbox_add_parent(sandbox, arguments->json, REPLACE_RIGHTS);
  }
  sandbox_add_port(sandbox, arguments->metrics, true);
  return sandbox;
}

void app_sandbox_free(struct sandbox *sandbox)
{
  if (!sandbox)
    return;
  for (size_t i = 0; i < sandbox->path_count; i++)
    free((char *)(uintptr_t)sandbox->paths[i].path);
  free(sandbox->paths);
  free(sandbox->ports);
  free(sandbox);
}

void app_sandbox_allow_folder(struct sandbox *sandbox, const char *folder, bool is_read_only)
{
  sandbox_add(sandbox, folder, is_read_only ? READ_RIGHTS : WRITE_RIGHTS);
}

void app_sandbox_allow_transport(struct sandbox *sandbox, const char *plugin)
{
  const struct sandbox_transport *needs = &sandbox_unknown;
  const bool is_dpdk = plugin && strcmp(plugin, "ethernet") == 0;

  for (size_t i = 0; i < sizeof(sandbox_transports) / sizeof(sandbox_transports[0]); i++)
    if (plugin && strcmp(sandbox_transports[i].plugin, plugin) == 0)
      needs = &sandbox_transports[i];
  sandbox->capabilities |= needs->capabilities;
  sandbox->has_tcp |= needs->has_tcp;
  sandbox->calls.opens_inet |= needs->opens_inet;
  sandbox->calls.reads_peers |= needs->reads_peers;
  /* memif reconnects; UCX wakes its peers by datagrams. */
  sandbox->calls.has_unix |= needs->has_tcp || is_dpdk;
  if (is_dpdk) {
    static const char *const devices[] = {"/dev/vfio", "/dev/uio*", "/dev/net/tun",
                                          "/dev/vhost-net"};
    for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++)
      sandbox_add_devices(sandbox, devices[i]);
    sandbox_add(sandbox, "/run/dpdk", WRITE_RIGHTS);
    sandbox_add_list(sandbox, secure_getenv("XDG_RUNTIME_DIR"), WRITE_RIGHTS);
    /* DPDK makes its runtime folder where that is not there yet, and removes what it made. */
    sandbox_add_list(sandbox, "/run", LANDLOCK_MAKE_DIR | LANDLOCK_REMOVE_DIR);
  }
}

/* Allows the folder of the file, and that of the file behind a link. */
static void sandbox_allow_file_beside(struct sandbox *sandbox, const char *path)
{
  char *where = realpath(path, NULL);

  sandbox_add_parent(sandbox, path, READ_RIGHTS);
  if (where)
    sandbox_add_parent(sandbox, where, READ_RIGHTS);
  free(where);
}

void app_sandbox_allow_tls(struct sandbox *sandbox, const struct pst_tls_params *tls)
{
  const char *const files[] = {tls->certificate, tls->key, tls->ca, tls->crl, tls->psk};

  for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
    if (files[i])
      sandbox_allow_file_beside(sandbox, files[i]);
}

void app_sandbox_allow_socket(struct sandbox *sandbox, const char *path)
{
  char lock[PATH_MAX];

  if (sandbox->mode == SANDBOX_OFF || snprintf(lock, sizeof(lock), "%s.lock", path) >= PATH_MAX)
    return;
  /* Made here: so that of the folder's files this one alone may be opened. */
  const int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd >= 0)
    close(fd);
  sandbox_add(sandbox, lock, LANDLOCK_READ_FILE | LANDLOCK_WRITE_FILE);
  sandbox_add_parent(sandbox, path, SOCKET_RIGHTS);
}

void app_sandbox_allow_beside(struct sandbox *sandbox, const char *path)
{
  sandbox_allow_file_beside(sandbox, path);
}

void app_sandbox_allow_listen(struct sandbox *sandbox, const char *address)
{
  sandbox_add_port(sandbox, address, true);
}

static void sandbox_allow_connect(struct sandbox *sandbox, const char *address)
{
  sandbox_add_port(sandbox, address, false);
  sandbox->calls.opens_inet |= address != NULL;
}

/* Keys whose files app_sandbox_allow_tls() and sandbox_allow_ends() allow. */
static bool sandbox_is_known_key(const char *line)
{
  static const char *const keys[] = {
      "file:", "certificate:", "key:", "ca:", "crl:", "psk:", "peers:"};

  for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
    if (strncmp(line, keys[i], strlen(keys[i])) == 0)
      return true;
  return false;
}

/* Allows the paths in values of plugins' options. */
static void sandbox_allow_values(struct sandbox *sandbox, const struct pst_config *config)
{
  char *text = NULL;

  if (pst_config_effective(config, &text) < 0) {
    sandbox->is_short = true;
    return;
  }
  for (const char *line = text; *line != '\0';
       line += strcspn(line, "\n") + (strchr(line, '\n') != NULL)) {
    const char *key = line + strspn(line, " -");
    if (!sandbox_is_known_key(key))
      sandbox_allow_paths_in(sandbox, key, strcspn(key, "#\n"));
  }
  free(text);
}

static void sandbox_allow_ends(struct sandbox *sandbox, const struct pst_config *config,
                               uint32_t roles)
{
  for (uint32_t i = 0; i < pst_config_stream_count(config); i++) {
    const char *stream = pst_config_stream_name(config, i);
    const char *source = app_stream_text(config, stream, "sender.source.file");
    const char *sink = app_stream_text(config, stream, "receiver.sink.file");
    if (roles & PST_SESSION_SENDER)
      app_sandbox_allow_transport(sandbox,
                                  app_stream_text(config, stream, "sender.transport.plugin"));
    if (roles & PST_SESSION_RECEIVER)
      app_sandbox_allow_transport(sandbox,
                                  app_stream_text(config, stream, "receiver.transport.plugin"));
    /* A capture that is sent again and again is opened anew each time. */
    if ((roles & PST_SESSION_SENDER) && source)
      sandbox_add(sandbox, source, READ_RIGHTS);
    if ((roles & PST_SESSION_RECEIVER) && sink && sandbox_is_file(sink))
      sandbox_add_parent(sandbox, sink, REPLACE_RIGHTS);
  }
}

void app_sandbox_allow_config(struct sandbox *sandbox, const struct pst_config *config,
                              uint32_t roles)
{
  if (sandbox->mode == SANDBOX_OFF)
    return;
  const struct pst_tls_params tls = {
      .certificate = pst_config_get(config, "control.tls.certificate"),
      .key = pst_config_get(config, "control.tls.key"),
      .ca = pst_config_get(config, "control.tls.ca"),
      .crl = pst_config_get(config, "control.tls.crl"),
      .psk = pst_config_get(config, "control.tls.psk"),
  };

  app_sandbox_allow_tls(sandbox, &tls);
  sandbox_allow_values(sandbox, config);
  sandbox_allow_ends(sandbox, config, roles);
  if (roles & PST_SESSION_RECEIVER)
    app_sandbox_allow_listen(sandbox, pst_config_get(config, "control.listen"));
  if (roles & PST_SESSION_SENDER)
    sandbox_allow_connect(sandbox, pst_config_get(config, "control.connect"));
}

/* ---- Confining ------------------------------------------------------------------- */

/* Judges the `rc` of one protection: if it failed, --sandbox require ends the command, and auto
 * logs that the command runs without it. */
static int sandbox_judge(const struct sandbox *sandbox, const char *means, int rc,
                         struct pst_error *error)
{
  if (rc >= 0)
    return 0;
  if (sandbox->mode != SANDBOX_REQUIRE) {
    const bool is_missing = rc == -ENOSYS || rc == -EOPNOTSUPP;
    app_log(is_missing ? PST_LOG_DEBUG : PST_LOG_INFO, "sandbox: without %s: %s", means,
            strerror(-rc));
    return 0;
  }
  return app_log_fail(error, PST_EXIT_UNAVAILABLE, rc,
                      "--sandbox require: there is no %s here: %s; use a kernel and a build that "
                      "have it, or --sandbox auto",
                      means, strerror(-rc));
}

static int sandbox_use_landlock(const struct sandbox *sandbox, struct pst_error *error)
{
  const char *refused = NULL;
  char means[PATH_MAX] = "Landlock";
  int rc = landlock_restrict(sandbox->paths, sandbox->path_count, !sandbox->has_tcp, sandbox->ports,
                             sandbox->port_count, &refused);

  if (refused)
    snprintf(means, sizeof(means), "Landlock for %.200s (its file system keeps no inodes, like 9p)",
             refused);
  return sandbox_judge(sandbox, means, rc, error);
}

static int sandbox_confine(struct sandbox *sandbox, struct pst_error *error)
{
  int rc = 0;

  if (sandbox->mode == SANDBOX_OFF)
    return 0;
  if (sandbox->mode == SANDBOX_UNKNOWN)
    return app_log_fail(error, PST_EXIT_USAGE, -EINVAL,
                        "PENSTOCK_SANDBOX is not one of auto, require, off; correct it, or write "
                        "--sandbox");
  if (sandbox->is_short)
    return app_log_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  if (sandbox->capabilities != UINT64_MAX)
    rc = sandbox_judge(sandbox, "means of dropping capabilities",
                       capabilities_keep(sandbox->capabilities), error);
  /* Landlock forbids to read the memory of other processes, by which ucx copies. */
  if (rc == 0 && sandbox->calls.reads_peers)
    rc = sandbox_judge(sandbox, "Landlock for a transport that reads its peers' memory",
                       -EOPNOTSUPP, error);
  else if (rc == 0)
    rc = sandbox_use_landlock(sandbox, error);
  return rc;
}

int app_sandbox_begin(struct sandbox *sandbox, struct pst_error *error)
{
  int rc = sandbox_confine(sandbox, error);

  if (rc == 0 && (rc = app_result_watch()) < 0)
    app_log_fail(error, PST_EXIT_FAILED, rc, "--json: cannot prepare to write the result: %s",
                 strerror(-rc));
  return rc;
}

int app_sandbox_seal(struct sandbox *sandbox, struct pst_error *error)
{
  return sandbox->mode == SANDBOX_OFF
             ? 0
             : sandbox_judge(sandbox, "seccomp", syscalls_restrict(&sandbox->calls), error);
}
