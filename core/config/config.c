/* SPDX-License-Identifier: Apache-2.0 */
/* A checked configuration: its life, and what is asked of it. */
#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

void config_hold(struct pst_config *config)
{
  atomic_fetch_add_explicit(&config->holds, 1, memory_order_relaxed);
}

PST_EXPORT void pst_config_close(struct pst_config *config)
{
  if (!config || atomic_fetch_sub_explicit(&config->holds, 1, memory_order_acq_rel) != 1)
    return;
  options_free(config->options);
  arena_free(&config->arena);
  free(config);
}

const struct config_stream *config_stream_find(const struct config *config, const char *name,
                                               size_t length)
{
  const struct name_index_entry *entry =
      name_index_find(config->names, config->name_count, name, length);
  return entry ? &config->streams[entry->item] : NULL;
}

const struct config *config_of(const struct pst_config *config)
{
  return &config->config;
}

PST_EXPORT int pst_config_effective(const struct pst_config *config, char **text)
{
  return print_tree(config->effective, true, text);
}

PST_EXPORT const char *pst_config_hash(const struct pst_config *config)
{
  return config->hash;
}

PST_EXPORT uint32_t pst_config_stream_count(const struct pst_config *config)
{
  return config->config.stream_count;
}

PST_EXPORT const char *pst_config_stream_name(const struct pst_config *config, uint32_t index)
{
  return index < config->config.stream_count ? config->config.streams[index].name : NULL;
}

/* As node_element(), but streams are too many to go through. */
static const struct node *config_find_stream(const struct pst_config *config, const char *path,
                                             const char **rest)
{
  size_t length = strlen(path), digits = strspn(path, "0123456789");
  size_t index = config->streams->count;
  const struct config_stream *stream = NULL;

  for (; length > 0; length--)
    if ((path[length] == '.' || path[length] == '\0') &&
        (stream = config_stream_find(&config->config, path, length)))
      break;
  if (stream) {
    index = (size_t)(stream - config->config.streams);
  } else if (digits > 0 && digits <= 6 && (path[digits] == '.' || path[digits] == '\0')) {
    length = digits;
    index = strtoul(path, NULL, 10);
  }
  if (index >= config->streams->count)
    return NULL;
  *rest = path[length] ? path + length + 1 : NULL;
  return config->stream_elements[index];
}

static const struct node *config_find(const struct pst_config *config, const char *path)
{
  const struct node *node = config->effective;
  while (node && path) {
    if (node->type == NODE_LIST) {
      node = node == config->streams ? config_find_stream(config, path, &path)
                                     : node_element(node, path, &path);
      continue;
    }
    char key[64];
    size_t length = strcspn(path, ".");
    if (length >= sizeof(key))
      return NULL;
    memcpy(key, path, length);
    key[length] = '\0';
    node = node_find(node, key);
    path = path[length] == '.' ? path + length + 1 : NULL;
  }
  return node;
}

static const struct node *config_find_scalar(const struct pst_config *config, const char *path)
{
  const struct node *node = config_find(config, path);
  return node && node->type == NODE_SCALAR ? node : NULL;
}

/* The text lives in the configuration's arena, which is const for its readers alone. */
PST_EXPORT const char *pst_config_origin(const struct pst_config *config, const char *path)
{
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  const struct node *node = config_find(config, path);
  if (!node)
    return NULL;
  pthread_mutex_lock(&lock);
  const char *text = place_text((struct arena *)&config->arena, &node->place);
  pthread_mutex_unlock(&lock);
  return text;
}

PST_EXPORT const char *pst_config_get(const struct pst_config *config, const char *path)
{
  const struct node *node = config_find_scalar(config, path);
  return node ? node->text : NULL;
}

PST_EXPORT uint32_t pst_ring_default(uint64_t message_bytes)
{
  /* The sender's slots are as many, and both are to fit into an L2 of 2 MiB. */
  const uint64_t ring_bytes = UINT64_C(1) << 20, most_bytes = UINT64_C(1) << 30;
  uint32_t slots = 1024;

  while (slots > 16 && message_bytes > ring_bytes / slots)
    slots /= 2;
  while (slots > 2 && message_bytes > most_bytes / slots)
    slots /= 2;
  return slots;
}

/* For this time a ring lasts: a receiver pauses for some 50 us for an interrupt, the scheduler, or
 * a batch of a GPU, and its credit comes back by quarters. */
#define RING_NS UINT64_C(100000)
#define RING_MAX 8192u /* 82 million messages a second */
#define RING_BYTES_MAX (UINT64_C(1) << 30)

uint32_t config_ring_of_rate(uint64_t message_bytes, uint64_t rate_bps)
{
  const uint64_t bytes = rate_bps / 8 / (UINT64_C(1000000000) / RING_NS);
  uint32_t slots = pst_ring_default(message_bytes);

  while (slots < RING_MAX && slots * message_bytes < bytes &&
         2 * slots * message_bytes <= RING_BYTES_MAX)
    slots *= 2;
  return slots;
}

PST_EXPORT uint64_t pst_config_get_uint(const struct pst_config *config, const char *path)
{
  const struct node *node = config_find_scalar(config, path);
  return node ? node->number : 0;
}

PST_EXPORT double pst_config_get_number(const struct pst_config *config, const char *path)
{
  const struct node *node = config_find_scalar(config, path);
  return node ? node->real : 0;
}
