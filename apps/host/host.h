/* SPDX-License-Identifier: Apache-2.0 */
/* The facts of a machine: of this one, or of one whose facts `penstock doctor --record` wrote.
 *
 * Most facts are text files that the kernel has: below /sys, /proc and /etc. host_text() and its
 * like read them below the root: "/", or the folder of a recording. Facts that are no files come
 * from host_facts() as JSON: asked of the kernel or a library where the machine is this one, and
 * read from penstock/NAME.json below the root of a recording. So a check that reads through these
 * calls runs on a recording as on the machine itself.
 *
 * pci.h, rdma.h, network.h and gpu.h have the devices as structs; topology.h has hwloc's tree.
 *
 * Each answer is remembered until host_close(): what these calls return stays valid until then.
 * host_record() writes all that was read. One thread. Nothing here changes the machine. */
#ifndef APP_HOST_H
#define APP_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/types.h>

struct host;
struct json_object;

#define HOST_PATH_BYTES 512
#define HOST_WHY_BYTES 256

/* root NULL: this machine; otherwise the folder of a recording, which no link leaves. NULL: `why`
 * says why not. */
struct host *host_open(const char *root, char why[HOST_WHY_BYTES]);
void host_close(struct host *host);

/* Is it this machine? */
bool host_is_live(const struct host *host);
/* "/", or the folder of a recording: for libraries that take a root. */
const char *host_root(const struct host *host);

/* A file's text without white space at its end; the path is below the root and begins with no '/':
 * "sys/class/net/eth0/mtu". NULL: errno says why; -EACCES where only root may read. */
const char *host_text(struct host *host, const char *format, ...) PST_PRINTF(2, 3);
/* The same as bytes. NULL: errno says why; EFBIG: more than 8 MiB, or with all others more than 256
 * MiB. */
const void *host_bytes(struct host *host, size_t *length, const char *format, ...) PST_PRINTF(3, 4);
/* A whole number, decimal or with 0x. False: no file, or no number. */
bool host_number(struct host *host, int64_t *value, const char *format, ...) PST_PRINTF(3, 4);
/* Does the path exist? */
bool host_has(struct host *host, const char *format, ...) PST_PRINTF(2, 3);
/* Returns the target of a symbolic link: "../../../devices/pci0000:00/0000:00:01.0". NULL: errno
 * says why. */
const char *host_link(struct host *host, const char *format, ...) PST_PRINTF(2, 3);
/* The last part of what a symbolic link names: of sys/…/driver "mlx5_core". NULL: there is none. */
const char *host_link_name(struct host *host, const char *format, ...) PST_PRINTF(2, 3);

struct host_names {
  size_t count;
  char **names; /* sorted; without "." and ".." */
};
/* Returns the names in a folder; none if there is no such folder. */
const struct host_names *host_list(struct host *host, const char *format, ...) PST_PRINTF(2, 3);

/* The value of a line "KEY: value" or "KEY value", as in proc/meminfo ("HugePages_Total"). False:
 * no such file or line. */
bool host_field(struct host *host, const char *path, const char *key, char *value, size_t size);

/* Is a module of the kernel loaded, or built in? '-' and '_' are the same. */
bool host_has_module(struct host *host, const char *module);
/* Is the kernel's version at least that? False: older, or unknown. */
bool host_kernel_is(struct host *host, unsigned major, unsigned minor);
/* The value of a parameter of the kernel's command line: of "iommu=pt" "pt", of one without '='
 * "". NULL: it is not there. */
const char *host_boot_parameter(struct host *host, const char *name);

/* Facts that are no files, by their name:
 *   "network"    links with their addresses, routes, neighbours (network.h reads them)
 *   "nvml"       NVIDIA's driver and GPUs (gpu.h reads them)
 *   "plugins"    Penstock's plugins, each {kind, name, usable, reason, remedy}
 *   "devices"    nodes below /dev, each {may_open, error}
 *   "processes"  which daemons of a list run: {"ptp4l": true, …}
 *   "clock"      adjtimex(2): {synchronised, error_us}
 * An object, or NULL where the facts cannot be had: *why then says why. host owns both. */
struct json_object *host_facts(struct host *host, const char *name, const char **why);

/* Writes what was read so far below `folder`, which is made, in the form that host_open() takes;
 * names and addresses of hosts, users and devices are labels in it. 0, or -errno, with `why`. */
int host_record(struct host *host, const char *folder, char why[HOST_WHY_BYTES]);

#endif
