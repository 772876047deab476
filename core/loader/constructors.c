/* SPDX-License-Identifier: Apache-2.0 */
/* dlopen() of a file whose constructors, or those of what it is linked with, would change the
 * process: they see a plugin's environment, and what they do to signals is undone. */
#include "constructors.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/arena.h"
#include "util/text.h"

/* Over a whole dlopen(): of two at once, either could take what the other's constructors did to a
 * signal for what was there before. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* The strings that `environ` was made to point to. Other threads may be in getenv(), so that none
 * is freed. */
static struct arena variables;

static const char *constructors_name_of(const char *variable, char name[LOADER_VARIABLE_BYTES])
{
  snprintf(name, LOADER_VARIABLE_BYTES, "%.*s", (int)strcspn(variable, "="), variable);
  return name;
}

/* Behind all others in a new array, not by setenv(): that may free the array that another thread's
 * getenv() walks along. added: those that the process did not have. 0 or -ENOMEM. */
static int environment_set(const char *const *environment, const char **added,
                           struct constructors_effects *said)
{
  char name[LOADER_VARIABLE_BYTES];
  size_t count = 0, more = 0;
  char **list;

  for (; *environment; environment++) {
    const bool is_set = getenv(constructors_name_of(*environment, name)) != NULL;

    if (is_set)
      text_add(said->kept, sizeof(said->kept), "%s%s", said->kept[0] ? ", " : "", name);
    else
      added[more++] = *environment;
  }
  if (more == 0)
    return 0;
  while (environ && environ[count])
    count++;
  list = arena_alloc(&variables, (count + more + 1) * sizeof(*list));
  if (!list)
    return -ENOMEM;
  if (count > 0)
    memcpy(list, environ, count * sizeof(*environ));
  for (size_t i = 0; i < more; i++) {
    list[count + i] = (char *)(uintptr_t)added[i];
    text_add(said->set, sizeof(said->set), "%s%s", i ? ", " : "", added[i]);
  }
  __atomic_store_n(&environ, list, __ATOMIC_RELEASE);
  return 0;
}

/* From the last on: what stands behind one that goes moves up, and another thread's getenv() could
 * miss that. */
static void environment_take_back(const char *const *added)
{
  char name[LOADER_VARIABLE_BYTES];
  size_t count = 0;

  while (added[count])
    count++;
  while (count > 0)
    unsetenv(constructors_name_of(added[--count], name));
}

/* Signal handlers of the process; those that the C library keeps for itself cannot be read, nor
 * taken. */
struct dispositions {
  struct sigaction of[NSIG];
  bool is_known[NSIG];
};

static void dispositions_read(struct dispositions *all)
{
  all->is_known[0] = false;
  for (int number = 1; number < NSIG; number++)
    all->is_known[number] = sigaction(number, NULL, &all->of[number]) == 0;
}

static bool constructors_is_same(const struct sigaction *a, const struct sigaction *b)
{
  if (a->sa_handler != b->sa_handler || a->sa_flags != b->sa_flags)
    return false;
  for (int number = 1; number < NSIG; number++) {
    if (sigismember(&a->sa_mask, number) != sigismember(&b->sa_mask, number))
      return false;
  }
  return true;
}

static void dispositions_restore(const struct dispositions *before,
                                 struct constructors_effects *said)
{
  struct dispositions now;

  dispositions_read(&now);
  for (int number = 1; number < NSIG; number++) {
    if (!before->is_known[number] || constructors_is_same(&before->of[number], &now.of[number]))
      continue;
    sigaction(number, &before->of[number], NULL);
    text_add(said->restored, sizeof(said->restored), "%s%d (%s)", said->restored[0] ? ", " : "",
             number, strsignal(number));
  }
}

int constructors_dlopen(const char *file, const char *const *environment, void **handle,
                        struct constructors_effects *said)
{
  const char *added[LOADER_VARIABLES_MAX + 1] = {NULL};
  struct dispositions before;
  int rc = 0;

  *said = (struct constructors_effects){0};
  pthread_mutex_lock(&mutex);
  if (environment)
    rc = environment_set(environment, added, said);
  if (rc == 0) {
    dispositions_read(&before);
    *handle = dlopen(file, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    rc = *handle ? 0 : -ELIBBAD;
    dispositions_restore(&before, said);
    environment_take_back(added);
  }
  pthread_mutex_unlock(&mutex);
  return rc;
}

const char *const *environment_of(const struct pst_description *description)
{
  static const char *const none[] = {NULL};

  return description && description->environment ? description->environment : none;
}

bool environment_equal(const char *const *a, const char *const *b)
{
  while (*a && *b && strcmp(*a, *b) == 0)
    a++, b++;
  return !*a && !*b;
}
