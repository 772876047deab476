/* SPDX-License-Identifier: Apache-2.0 */
/* Classes of clients, from a YAML file or from pst_share_params. */
#include "classes.h"

#include <errno.h>
#include <libgen.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "config/tree.h"
#include "config/value.h"
#include "router.h"
#include "util/log.h"

#define CLASSES_MAX 256u
#define CGROUP_BYTES 1024

/* A limit: a key of a class, and its place in struct share_class. */
static const struct share_classes_key {
  struct pst_option rule;
  size_t at;
  bool is_wide;
} share_classes_keys[] = {
    {{.name = "regions", .type = PST_OPTION_UINT, .min = 1, .max = SHARE_REGIONS_MAX},
     offsetof(struct share_class, regions),
     false},
    {{.name = "endpoints", .type = PST_OPTION_UINT, .min = 1, .max = 262144},
     offsetof(struct share_class, endpoints),
     false},
    {{.name = "workers", .type = PST_OPTION_UINT, .min = 1, .max = SHARE_WORKERS_MAX},
     offsetof(struct share_class, workers),
     false},
    {{.name = "clients", .type = PST_OPTION_UINT, .min = 1, .max = 65536},
     offsetof(struct share_class, clients),
     false},
    {{.name = "bytes", .type = PST_OPTION_SIZE, .min = 1, .max = INT64_MAX},
     offsetof(struct share_class, bytes),
     true},
    {{.name = "rate", .type = PST_OPTION_RATE, .min = 8, .max = INT64_MAX},
     offsetof(struct share_class, rate),
     true},
};
#define CLASSES_KEYS "name, uid, cgroup, token, regions, endpoints, workers, clients, bytes, rate"

struct share_classes_reader {
  struct pst_share *share;
  struct findings findings;
  const char *folder; /* of the file: its tokens are found from there */
};

/* ---- One class ------------------------------------------------------------------------ */

static void share_classes_read_limit(struct share_classes_reader *reader,
                                     const struct share_classes_key *key, const struct node *node,
                                     struct share_class *class)
{
  char why[VALUE_WHY_MIN];
  struct value value = {0};

  if (value_parse(&key->rule, node->type == NODE_SCALAR ? node->text : "", &value, why,
                  sizeof(why)) < 0) {
    findings_add(&reader->findings, &node->place, "%s: %s", key->rule.name, why);
    return;
  }
  if (key->rule.type == PST_OPTION_RATE)
    value.number /= 8;
  if (key->is_wide)
    *(uint64_t *)(void *)((char *)class + key->at) = value.number;
  else
    *(uint32_t *)(void *)((char *)class + key->at) = (uint32_t)value.number;
}

static void share_classes_read_uids(struct share_classes_reader *reader, const struct node *node,
                                    struct share_class *class)
{
  static const struct pst_option rule = {
      .name = "uid", .type = PST_OPTION_UINT, .min = 0, .max = UINT32_MAX - 1};
  const bool is_list = node->type == NODE_LIST;
  uint32_t *uids =
      arena_alloc(&reader->share->arena, (is_list ? node->count + 1 : 1) * sizeof(*uids));
  char why[VALUE_WHY_MIN];

  if (is_list && node->count == 0)
    findings_add(&reader->findings, &node->place, "uid: no user is in it; leave it out for all");
  for (const struct node *each = is_list ? node->first : node; each && uids;
       each = is_list ? each->next : NULL) {
    struct value value = {0};
    if (value_parse(&rule, each->type == NODE_SCALAR ? each->text : "", &value, why, sizeof(why)) <
        0)
      findings_add(&reader->findings, &each->place, "uid: %s", why);
    uids[class->uid_count++] = (uint32_t)value.number;
  }
  class->uids = uids;
}

static void share_classes_read_token(struct share_classes_reader *reader, const struct node *node,
                                     struct share_class *class)
{
  struct arena *arena = &reader->share->arena;
  char *token = arena_alloc(arena, PST_SHARE_TOKEN);
  const char *path =
      node->text[0] == '/' ? node->text : arena_printf(arena, "%s/%s", reader->folder, node->text);

  const int rc = token && path ? pst_share_read_token(path, token) : 0;
  if (rc < 0)
    findings_add(&reader->findings, &node->place, "token: %s: %s", path,
                 pst_share_token_problem(rc));
  class->token = token;
}

/* Reads one key of a class; what is wrong with it becomes a finding. */
static void share_classes_read_key(struct share_classes_reader *reader, const struct node *node,
                                   struct share_class *class)
{
  if (strcmp(node->key, "uid") == 0) {
    share_classes_read_uids(reader, node, class);
    return;
  }
  for (size_t i = 0; i < sizeof(share_classes_keys) / sizeof(share_classes_keys[0]); i++)
    if (strcmp(node->key, share_classes_keys[i].rule.name) == 0) {
      share_classes_read_limit(reader, &share_classes_keys[i], node, class);
      return;
    }
  if (node->type != NODE_SCALAR || node->null || node->text[0] == '\0')
    findings_add(&reader->findings, &node->place, "%s: write a text", node->key);
  else if (strcmp(node->key, "name") == 0)
    class->name = node->text;
  else if (strcmp(node->key, "token") == 0)
    share_classes_read_token(reader, node, class);
  else if (strcmp(node->key, "cgroup") != 0)
    findings_add(&reader->findings, &node->key_place, "%s: no such key; a class has %s", node->key,
                 CLASSES_KEYS);
  else if (node->text[0] != '/')
    findings_add(
        &reader->findings, &node->place,
        "cgroup: '%s' is no path; write it as /proc/PID/cgroup has it behind 0::", node->text);
  else if (node->text[1] && node->text[strlen(node->text) - 1] == '/')
    findings_add(&reader->findings, &node->place,
                 "cgroup: '%s' ends with a slash, which no group's path does; leave it out",
                 node->text);
  else
    class->cgroup = node->text;
}

/* ---- The file ------------------------------------------------------------------------- */

/* Returns the class that pst_share_params describe, the default of every class. */
static struct share_class share_classes_default(const struct pst_share_params *params)
{
  return (struct share_class){.regions = params->regions,
                              .endpoints = params->endpoints,
                              .workers = params->workers,
                              .bytes = params->bytes,
                              .rate = params->rate};
}

static void share_classes_read_list(struct share_classes_reader *reader, const struct node *root)
{
  struct pst_share *share = reader->share;
  const struct node *list = node_value(root, "classes");

  for (const struct node *each = root ? root->first : NULL; each; each = each->next)
    if (!each->key || strcmp(each->key, "classes") != 0)
      findings_add(&reader->findings, &each->place,
                   "%s: no such key; write classes:", each->key ? each->key : "-");
  if (!list || list->type != NODE_LIST || list->count == 0 || list->count > CLASSES_MAX) {
    const struct place whole = {.source = share->params.limits};
    findings_add(&reader->findings, node_place(list, &whole),
                 "classes: write a list of 1 to %u classes, each with a name", CLASSES_MAX);
    return;
  }
  share->classes = arena_alloc(&share->arena, list->count * sizeof(*share->classes));
  for (const struct node *each = list->first; each && share->classes; each = each->next) {
    struct share_class *class = &share->classes[share->class_count++];
    *class = share_classes_default(&share->params);
    for (const struct node *key = each->type == NODE_MAP ? each->first : NULL; key; key = key->next)
      share_classes_read_key(reader, key, class);
    if (!class->name)
      findings_add(&reader->findings, &each->place, "a class has no name; a class has %s",
                   CLASSES_KEYS);
  }
}

static int share_classes_read_file(struct pst_share *share, struct pst_error *error)
{
  struct share_classes_reader reader = {.share = share, .findings.arena = &share->arena};
  const char *path = share->params.limits;
  char *copy = arena_string(&share->arena, path), *text = NULL;
  struct node *root = NULL;
  size_t length = 0;

  const int rc = config_read_file(path, &text, &length);
  if (rc < 0)
    return pst_fail(error, PST_EXIT_USAGE, rc, "share: --limits %s: %s", path, strerror(-rc));
  reader.folder = copy ? dirname(copy) : ".";
  tree_read(&share->arena, &reader.findings, path, true, text, length, &root);
  free(text);
  if (reader.findings.total == 0)
    share_classes_read_list(&reader, root);
  return findings_report(&reader.findings, error);
}

int share_classes_read(struct pst_share *share, struct pst_error *error)
{
  struct pst_share_params *params = &share->params;

  if (params->limits && params->uid_count)
    return pst_fail(error, PST_EXIT_USAGE, -EINVAL,
                    "share: --allow and --limits: %s says by its keys uid who may connect; leave "
                    "--allow out",
                    params->limits);
  if (params->limits && !(params->limits = arena_string(&share->arena, params->limits)))
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  if (params->limits)
    return share_classes_read_file(share, error);
  uint32_t *uids = arena_alloc(&share->arena, (params->uid_count + 2) * sizeof(*uids));
  share->classes = arena_alloc(&share->arena, sizeof(*share->classes));
  if (!uids || !share->classes)
    return pst_fail(error, PST_EXIT_FAILED, -ENOMEM, "out of memory");
  *share->classes = share_classes_default(params);
  share->classes->uids = uids;
  share->class_count = 1;
  share->classes->uid_count = params->uid_count ? params->uid_count : 2;
  uids[0] = geteuid();
  uids[1] = 0;
  if (params->uid_count)
    memcpy(uids, params->uids, params->uid_count * sizeof(*uids));
  return 0;
}

/* ---- A client ------------------------------------------------------------------------- */

static bool share_classes_has_user(const struct share_class *class, uid_t uid)
{
  for (uint32_t i = 0; i < class->uid_count; i++)
    if (class->uids[i] == uid)
      return true;
  return class->uid_count == 0;
}

bool share_classes_have_user(const struct pst_share *share, uid_t uid)
{
  for (uint32_t i = 0; i < share->class_count; i++)
    if (share_classes_has_user(&share->classes[i], uid))
      return true;
  return false;
}

/* `path`, or below it. */
static bool share_classes_has_cgroup(const struct share_class *class, const char *path)
{
  const size_t length = class->cgroup ? strlen(class->cgroup) : 0;

  return !class->cgroup || strcmp(class->cgroup, "/") == 0 ||
         (strncmp(path, class->cgroup, length) == 0 &&
          (path[length] == '\0' || path[length] == '/'));
}

/* Takes the same time whatever the token is. */
static bool share_classes_has_token(const struct share_class *class,
                                    const char token[PST_SHARE_TOKEN])
{
  unsigned differs = 0;

  for (size_t i = 0; class->token && i < PST_SHARE_TOKEN; i++)
    differs |= (unsigned char)(class->token[i] ^ token[i]);
  return differs == 0;
}

/* Returns the first class that the client fits. NULL: none; or *undecided might be the first, and
 * the client's control group, "", is not known. */
static struct share_class *share_classes_find(const struct share_client *client, const char *cgroup,
                                              const char token[PST_SHARE_TOKEN],
                                              const struct share_class **undecided)
{
  const struct pst_share *share = client->share;

  for (uint32_t i = 0; i < share->class_count; i++) {
    struct share_class *class = &share->classes[i];
    if (!share_classes_has_user(class, client->uid) || !share_classes_has_token(class, token))
      continue;
    if (class->cgroup && !cgroup[0]) {
      *undecided = class;
      return NULL;
    }
    if (share_classes_has_cgroup(class, cgroup))
      return class;
  }
  return NULL;
}

int share_classes_join(struct share_client *client, const char token[PST_SHARE_TOKEN], char *why,
                       size_t size)
{
  struct pst_share *share = client->share;
  const struct share_class *undecided = NULL;
  char cgroup[CGROUP_BYTES] = "", remedy[SHARE_REMEDY_BYTES];
  int rc = 0;

  if (share->params.limits)
    rc = share_cgroup_of(client->fd, client->pid, cgroup, sizeof(cgroup));
  if (rc < 0)
    cgroup[0] = '\0';
  struct share_class *class = share_classes_find(client, cgroup, token, &undecided);
  if (undecided) {
    snprintf(why, size,
             "the control group of this client (process %d) is not known: %s, so whether it "
             "belongs to class %.60s of %.120s is unknown; the process that connects must open "
             "the device itself, and the router must see it in /proc",
             (int)client->pid, strerror(-rc), undecided->name, share->params.limits);
    return -EACCES;
  }
  if (!class) {
    snprintf(why, size,
             "no class of %s has this client: user %u, control group %s, %s; add one, or show the "
             "token of one by the option token",
             share->params.limits, (unsigned)client->uid, cgroup[0] ? cgroup : "not known",
             token[0] ? "with a token" : "without a token");
    return -EACCES;
  }
  pthread_mutex_lock(&share->lock);
  const bool is_full = class->clients && class->connected >= class->clients;
  class->connected += !is_full;
  pthread_mutex_unlock(&share->lock);
  client->class = class;
  if (!is_full)
    return 0;
  snprintf(why, size, "the router serves %u clients of this class already; %s", class->clients,
           share_class_remedy(client, "clients", remedy));
  client->class = NULL;
  return -ENOSPC;
}

void share_classes_leave(struct share_client *client)
{
  if (!client->class)
    return;
  pthread_mutex_lock(&client->share->lock);
  client->class->connected--;
  pthread_mutex_unlock(&client->share->lock);
}

const char *share_class_remedy(const struct share_client *client, const char *key,
                               char text[SHARE_REMEDY_BYTES])
{
  if (client->class->name)
    snprintf(text, SHARE_REMEDY_BYTES, "raise `%s` of class %.60s in %.120s", key,
             client->class->name, client->share->params.limits);
  else
    snprintf(text, SHARE_REMEDY_BYTES, "raise --%s of `penstock share`", key);
  return text;
}
