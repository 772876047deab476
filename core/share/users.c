/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the descriptors and mappings of the router that the clients of each user hold. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <penstock/transport-util.h>

#include "router.h"
#include "util/log.h"

#define USERS_OWN_FDS 8u    /* that the router may open for itself later */
#define USERS_OWN_MAPS 512u /* heaps of its threads, plugins */
#define USERS_MAPS 65530u   /* the kernel's default for vm.max_map_count */

/* The most that an object of a client takes, with what transports open for it. Memory of the heap
 * that is large enough for a mapping of its own counts. */
static const uint32_t share_users_cost[][SHARE_RESOURCES] = {
    [SHARE_CLIENT] = {[SHARE_FDS] = 6, [SHARE_MAPS] = 10},
    [SHARE_REGION] = {[SHARE_FDS] = 1, [SHARE_MAPS] = 2},
    [SHARE_WORKER] = {[SHARE_FDS] = 10, [SHARE_MAPS] = 6},
    [SHARE_RING] = {[SHARE_FDS] = 1, [SHARE_MAPS] = 3},
    [SHARE_ENDPOINT] = {[SHARE_FDS] = 6, [SHARE_MAPS] = 8},
    [SHARE_REMOTE] = {[SHARE_FDS] = 1, [SHARE_MAPS] = 2},
};

static const struct share_users_resource {
  const char *name, *remedy;
} share_users_resources[SHARE_RESOURCES] = {
    [SHARE_FDS] = {"descriptors", "`ulimit -n` of `penstock share` (systemd: LimitNOFILE=)"},
    [SHARE_MAPS] = {"mappings", "the sysctl vm.max_map_count"},
};

void share_users_begin(struct pst_share *share)
{
  FILE *maximum = fopen("/proc/sys/vm/max_map_count", "re"), *maps = fopen("/proc/self/maps", "re");
  struct rlimit files = {.rlim_cur = 1024};
  unsigned long long most[SHARE_RESOURCES] = {[SHARE_MAPS] = USERS_MAPS};
  uint64_t own[SHARE_RESOURCES] = {[SHARE_FDS] = USERS_OWN_FDS, [SHARE_MAPS] = USERS_OWN_MAPS};

  getrlimit(RLIMIT_NOFILE, &files);
  most[SHARE_FDS] = files.rlim_cur;
  if (maximum && fscanf(maximum, "%llu", &most[SHARE_MAPS]) != 1)
    most[SHARE_MAPS] = USERS_MAPS;
  own[SHARE_FDS] += maps ? (uint64_t)fileno(maps) : 0; /* all lower ones are open */
  for (int c; maps && (c = getc(maps)) != EOF;)
    own[SHARE_MAPS] += c == '\n';
  if (maximum)
    fclose(maximum);
  if (maps)
    fclose(maps);
  for (uint32_t i = 0; i < SHARE_RESOURCES; i++)
    share->room[i] = most[i] > own[i] ? most[i] - own[i] : 0;
}

static bool share_users_are_several(const struct pst_share *share)
{
  return share->params.uid_count > 1 || share->params.limits;
}

/* Takes what the object needs; with the lock. With several users, each leaves as much free as it
 * holds, so that nobody takes all. */
static int share_users_take(struct share_user *user, enum share_object object, char *why,
                            size_t size)
{
  struct pst_share *share = user->share;
  const uint32_t *cost = share_users_cost[object];
  const bool are_several = share_users_are_several(share);

  for (uint32_t i = 0; i < SHARE_RESOURCES; i++) {
    const uint64_t least = cost[i] + (are_several ? user->held[i] + cost[i] : 0);
    if (share->held[i] + least <= share->room[i])
      continue;
    snprintf(why, size,
             "the router has no %s left for user %u, whose clients hold %llu; those of all users "
             "hold %llu of %llu%s; raise %s",
             share_users_resources[i].name, (unsigned)user->uid, (unsigned long long)user->held[i],
             (unsigned long long)share->held[i], (unsigned long long)share->room[i],
             are_several ? ", and each user must leave as many free as it holds" : "",
             share_users_resources[i].remedy);
    return -ENOSPC;
  }
  for (uint32_t i = 0; i < SHARE_RESOURCES; i++) {
    user->held[i] += cost[i];
    share->held[i] += cost[i];
  }
  return 0;
}

static void share_users_give(struct share_user *user, enum share_object object)
{
  for (uint32_t i = 0; i < SHARE_RESOURCES; i++) {
    user->held[i] -= share_users_cost[object][i];
    user->share->held[i] -= share_users_cost[object][i];
  }
}

/* With the lock. NULL: no memory is left. */
static struct share_user *share_users_find(struct pst_share *share, uid_t uid)
{
  struct share_user *user = share->users;

  while (user && user->uid != uid)
    user = user->next;
  if (user || !(user = calloc(1, sizeof(*user))))
    return user;
  user->share = share;
  user->uid = uid;
  user->next = share->users;
  share->users = user;
  return user;
}

/* With the lock. */
static void share_users_drop(struct share_user *user)
{
  struct share_user **at = &user->share->users;

  if (user->clients)
    return;
  while (*at != user)
    at = &(*at)->next;
  *at = user->next;
  free(user);
}

int share_user_join(struct pst_share *share, uid_t uid, struct share_user **joined, char *why,
                    size_t size)
{
  const uint32_t clients = share->params.clients;
  const uint32_t most = share_users_are_several(share) && clients > 1 ? clients / 2 : clients;
  int rc = -ENOSPC;

  pthread_mutex_lock(&share->lock);
  struct share_user *user = share_users_find(share, uid);
  if (!user) {
    snprintf(why, size, "the router has no memory left");
    rc = -ENOMEM;
  } else if (user->clients >= most) {
    snprintf(why, size,
             "the router serves %u clients of user %u already, half of all; raise --clients", most,
             (unsigned)uid);
  } else if ((rc = share_users_take(user, SHARE_CLIENT, why, size)) == 0) {
    user->clients++;
    *joined = user;
  }
  if (user && rc < 0)
    share_users_drop(user);
  pthread_mutex_unlock(&share->lock);
  return rc;
}

void share_user_leave(struct share_user *user)
{
  struct pst_share *share = user->share;

  pthread_mutex_lock(&share->lock);
  share_users_give(user, SHARE_CLIENT);
  user->clients--;
  share_users_drop(user);
  pthread_mutex_unlock(&share->lock);
}

int share_user_take(struct share_user *user, enum share_object object)
{
  char why[SHARE_WHY_BYTES];

  pthread_mutex_lock(&user->share->lock);
  const int rc = share_users_take(user, object, why, sizeof(why));
  pthread_mutex_unlock(&user->share->lock);
  if (rc < 0)
    pst_log(PST_LOG_ERROR, "%s", why);
  return rc;
}

void *share_user_alloc(struct share_user *user, enum share_object object, size_t size, int *rc)
{
  *rc = share_user_take(user, object);
  void *made = *rc == 0 ? calloc(1, size) : NULL;

  if (*rc == 0 && !made) {
    share_user_give(user, object);
    *rc = -ENOMEM;
  }
  return made;
}

void share_user_give(struct share_user *user, enum share_object object)
{
  pthread_mutex_lock(&user->share->lock);
  share_users_give(user, object);
  pthread_mutex_unlock(&user->share->lock);
}
