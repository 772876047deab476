/* SPDX-License-Identifier: Apache-2.0 */
/* A checked configuration: its life, and what is asked of it. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "print.h"

/* ---- Life ------------------------------------------------------------------- */

struct pst_config *config_new(void)
{
  struct pst_config *config = calloc(1, sizeof(*config));
  if (config)
    atomic_init(&config->holds, 1);
  return config;
}

void config_hold(struct pst_config *config)
{
  atomic_fetch_add_explicit(&config->holds, 1, memory_order_relaxed);
}

PST_EXPORT void pst_config_close(struct pst_config *config)
{
  if (!config || atomic_fetch_sub_explicit(&config->holds, 1, memory_order_acq_rel) != 1)
    return;
  for (struct held_options *held = config->options; held; held = held->next)
    options_free(held->options);
  arena_free(&config->arena);
  free(config);
}

const struct config_stream *config_stream_find(const struct config *config, const char *name,
                                               size_t length)
{
  const struct index_entry *entry = index_find(config->names, config->name_count, name, length);
  return entry ? &config->streams[entry->item] : NULL;
}

const struct config *config_of(const struct pst_config *config)
{
  return &config->config;
}

/* ---- Asking ------------------------------------------------------------------------- */

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

/* The stream of that number. */
static const struct node *stream_at(const struct pst_config *config, const char *path,
                                    const char **rest)
{
  size_t length = strspn(path, "0123456789");
  if (length == 0 || length > 6 || (path[length] && path[length] != '.'))
    return NULL;
  unsigned long index = strtoul(path, NULL, 10);
  if (index >= config->streams->count)
    return NULL;
  *rest = path[length] ? path + length + 1 : NULL;
  return config->stream_elements[index];
}

/* As node_element(), but streams are too many to go through. */
static const struct node *find_stream(const struct pst_config *config, const char *path,
                                      const char **rest)
{
  size_t length = strlen(path);
  while (length > 0) {
    const struct config_stream *stream = config_stream_find(&config->config, path, length);
    if (stream) {
      *rest = path[length] == '.' ? path + length + 1 : NULL;
      return config->stream_elements[stream - config->config.streams];
    }
    do
      length--;
    while (length > 0 && path[length] != '.');
  }
  return stream_at(config, path, rest);
}

static const struct node *find(const struct pst_config *config, const char *path)
{
  const struct node *node = config->effective;
  while (node && path) {
    if (node->type == NODE_LIST) {
      node = node == config->streams ? find_stream(config, path, &path)
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

static const struct node *find_scalar(const struct pst_config *config, const char *path)
{
  const struct node *node = find(config, path);
  return node && node->type == NODE_SCALAR ? node : NULL;
}

PST_EXPORT const char *pst_config_origin(const struct pst_config *config, const char *path)
{
  const struct node *node = find(config, path);
  return node ? place_text((struct arena *)&config->arena, &node->place) : NULL;
}

PST_EXPORT const char *pst_config_get(const struct pst_config *config, const char *path)
{
  const struct node *node = find_scalar(config, path);
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

PST_EXPORT uint64_t pst_config_get_uint(const struct pst_config *config, const char *path)
{
  const struct node *node = find_scalar(config, path);
  return node ? node->number : 0;
}

PST_EXPORT double pst_config_get_number(const struct pst_config *config, const char *path)
{
  const struct node *node = find_scalar(config, path);
  return node ? node->real : 0;
}
