/* SPDX-License-Identifier: Apache-2.0 */
/* Counters: the router's, which go on where those of the router before it ended. */
#include "worker.h"

/* Keeps a copy of a name; NULL: it is "", or memory ran out. Call with the lock. */
static const char *share_name_of(struct pst_device *device, const char *text)
{
  struct share_name *name;

  if (!*text)
    return NULL;
  for (name = device->names; name; name = name->next)
    if (strcmp(name->text, text) == 0)
      return name->text;
  name = malloc(sizeof(*name) + strlen(text) + 1);
  if (!name)
    return NULL;
  memcpy(name->text, text, strlen(text) + 1);
  name->next = device->names;
  device->names = name;
  return name->text;
}

void share_kept_free(struct share_kept *kept)
{
  free(kept->at);
  *kept = (struct share_kept){0};
}

static bool share_kept_is_same(const char *one, const char *other)
{
  return one == other || (one && other && strcmp(one, other) == 0);
}

/* Finds the counter, or adds it. NULL: out of memory. */
static struct share_kept_counter *share_kept_find(struct share_kept *kept,
                                                  const struct pst_counter *counter)
{
  for (uint32_t i = 0; i < kept->count; i++)
    if (share_kept_is_same(kept->at[i].shown.name, counter->name) &&
        share_kept_is_same(kept->at[i].shown.cause, counter->cause))
      return &kept->at[i];
  struct share_kept_counter *at = realloc(kept->at, (kept->count + 1) * sizeof(*at));
  if (!at)
    return NULL;
  kept->at = at;
  at[kept->count] = (struct share_kept_counter){.shown = *counter};
  return &at[kept->count++];
}

/* Adds what the routers before had counted. `opened` says which of the router's objects counts. */
static void share_kept_add(struct share_kept *kept, uint32_t opened, struct pst_counter *counters,
                           uint32_t count)
{
  for (uint32_t i = 0; i < kept->count && kept->opened != opened; i++)
    if (!(kept->at[i].shown.flags & PST_COUNTER_GAUGE))
      kept->at[i].base = kept->at[i].shown.value;
  kept->opened = opened;
  for (uint32_t i = 0; i < count; i++) {
    if (counters[i].flags & PST_COUNTER_ENTRY)
      continue;
    struct share_kept_counter *counter = share_kept_find(kept, &counters[i]);
    if (!counter)
      continue;
    counters[i].value += counter->base;
    counter->shown = counters[i];
  }
}

/* The counters as they were last: there is no router to ask. */
static uint32_t share_kept_copy(const struct share_kept *kept, struct pst_counter *counters,
                                uint32_t max)
{
  for (uint32_t i = 0; i < kept->count && i < max; i++)
    counters[i] = kept->at[i].shown;
  return kept->count;
}

/* Sets what this side counts itself, and adds what it alone can know. Returns the new count. */
static uint32_t share_count_messages(const struct pst_endpoint *endpoint,
                                     struct pst_counter *counters, uint32_t count, uint32_t max)
{
  const struct {
    const char *name;
    uint64_t value;
  } own[] = {{"messages_sent", endpoint->sent},
             {"bytes_sent", endpoint->sent_bytes},
             {"messages_received", endpoint->received},
             {"bytes_received", endpoint->received_bytes}};

  for (uint32_t i = 0; i < count && i < max; i++)
    for (size_t k = 0; k < sizeof(own) / sizeof(own[0]); k++)
      if (strcmp(counters[i].name, own[k].name) == 0)
        counters[i].value = own[k].value;
  if (!endpoint->ring)
    return count;
  if (count < max)
    counters[count] = (struct pst_counter){.name = "lost_between_routers",
                                           .cause = "router_restarted",
                                           .value = endpoint->lost,
                                           .flags = PST_COUNTER_DROP};
  return count + 1;
}

static void share_take_values(struct pst_device *device, struct pst_counter_value *values,
                              uint32_t count, struct pst_counter *counters)
{
  pthread_mutex_lock(&device->lock);
  for (uint32_t i = 0; i < count; i++) {
    values[i].name[sizeof(values[i].name) - 1] = '\0';
    values[i].cause[sizeof(values[i].cause) - 1] = '\0';
    const char *name = share_name_of(device, values[i].name);
    counters[i] = (struct pst_counter){.name = name ? name : "",
                                       .cause = share_name_of(device, values[i].cause),
                                       .value = values[i].value,
                                       .flags = values[i].flags};
  }
  pthread_mutex_unlock(&device->lock);
}

/* Reads the router's counters of the object, and adds what was counted before it and beside it. */
int share_counters(struct pst_device *device, struct pst_worker *worker,
                   struct pst_endpoint *endpoint, struct pst_counter *counters, uint32_t max)
{
  struct pst_counter_value values[PST_SHARE_COUNTERS_MAX];
  const struct pst_share_request request = {.call = PST_SHARE_COUNTERS,
                                            .worker = endpoint ? endpoint->worker->number
                                                      : worker ? worker->number
                                                               : 0,
                                            .object = endpoint ? endpoint->number : 0,
                                            .flag = endpoint ? PST_SHARE_OF_ENDPOINT
                                                    : worker ? PST_SHARE_OF_WORKER
                                                             : PST_SHARE_OF_DEVICE};
  struct share_call call = {.device = device,
                            .link = endpoint ? share_endpoint_link(endpoint)
                                    : worker ? worker->link
                                             : 0,
                            .request = &request,
                            .reply_bytes = values,
                            .reply_room = sizeof(values)};
  struct share_kept *kept = endpoint ? &endpoint->kept : worker ? &worker->kept : &device->kept;

  const int rc = share_ask(&call);
  uint32_t count = rc > 0 ? call.reply.length / (uint32_t)sizeof(values[0]) : 0;
  if (count) /* without an answer, a restore may hold the lock for long */
    share_take_values(device, values, count < max ? count : max, counters);
  if (!device->reconnect_ns)
    return (int)count;
  if (rc < 0)
    count = share_kept_copy(kept, counters, max);
  else
    share_kept_add(kept,
                   endpoint ? endpoint->opened
                   : worker ? worker->link
                            : atomic_load(&device->last_link),
                   counters, count < max ? count : max);
  if (endpoint && endpoint->returns)
    count = share_count_messages(endpoint, counters, count, max);
  return (int)count;
}
