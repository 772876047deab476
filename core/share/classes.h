/* SPDX-License-Identifier: Apache-2.0 */
/* Classes of clients: the conditions for a client to belong to one, and the limits of each client.
 */
#ifndef PST_SHARE_CLASSES_H
#define PST_SHARE_CLASSES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <penstock/share-protocol.h>

#define SHARE_REMEDY_BYTES 256

struct pst_share;
struct share_client;

struct share_class {
  const char *name;     /* NULL: the only one, of pst_share_params */
  const uint32_t *uids; /* none: of any user */
  uint32_t uid_count;
  uint32_t connected; /* its clients, under the share's lock */
  const char *cgroup; /* NULL: of any */
  const char *token;  /* PST_SHARE_TOKEN bytes; NULL: with any, or none */
  uint32_t regions, endpoints, workers;
  uint32_t clients;     /* at one time; 0: no bound of the class */
  uint64_t bytes, rate; /* 0: no bound */
};

/* Read the classes from params.limits; without it, make one of the other params. 0, or -errno and
 * *error. */
int share_classes_read(struct pst_share *share, struct pst_error *error);
/* May some client of this user connect? */
bool share_classes_have_user(const struct pst_share *share, uid_t uid);
/* Finds the class of a client that shows this token, for client->class. 0; -EACCES: it has none, or
 * -ENOSPC: the class has as many clients as it may, with the reason in `why`. */
int share_classes_join(struct share_client *client, const char token[PST_SHARE_TOKEN], char *why,
                       size_t size);
void share_classes_leave(struct share_client *client);
/* How to raise the limit `key` of this client. */
const char *share_class_remedy(const struct share_client *client, const char *key,
                               char text[SHARE_REMEDY_BYTES]);

/* cgroup.c. The control group (version 2) of the process that has connected, as in
 * /proc/PID/cgroup. 0 or -errno. */
int share_cgroup_of(int fd, pid_t pid, char *path, size_t size);

#endif
