/* SPDX-License-Identifier: Apache-2.0 */
/* A configuration made of structs instead of YAML. */
#include "check.h"

#include <stdio.h>
#include <string.h>

struct builder {
  struct arena *arena;
  struct findings *findings;
  struct place place;
  struct pst_origins origins; /* of this stream */
};

static struct node *params_add(struct builder *builder, struct node *parent, enum node_type type,
                               const char *key, const char *text)
{
  size_t at = 0;
  const char *problem = text ? text_problem(text, strlen(text), false, &at) : NULL;
  if (problem) {
    findings_add(builder->findings, &builder->place, "%s: the value holds %s", key, problem);
    return NULL;
  }
  return node_add(builder->arena, parent, type, key, text, &builder->place);
}

static struct node *params_add_map(struct builder *builder, struct node *parent, const char *key)
{
  return parent ? params_add(builder, parent, NODE_MAP, key, NULL) : NULL;
}

/* NULL is not written. */
static void params_add_text(struct builder *builder, struct node *parent, const char *key,
                            const char *text)
{
  if (parent && text)
    params_add(builder, parent, NODE_SCALAR, key, text);
}

/* 0 is not written. */
static void params_add_number(struct builder *builder, struct node *parent, const char *key,
                              uint64_t number)
{
  char text[32];
  snprintf(text, sizeof(text), "%llu", (unsigned long long)number);
  params_add_text(builder, parent, key, number ? text : NULL);
}

/* Adds the settings as a mapping under `key`; findings call the mapping `of`. `origin` is from
 * struct pst_origins, or NULL: it stands before each option in the option's place:
 * "--transport-option mode=x". */
static void params_add_settings(struct builder *builder, struct node *parent, const char *key,
                                const char *of, const char *origin,
                                const struct pst_setting *settings, uint32_t count)
{
  const char *whole = builder->place.source;
  struct node *map = count ? params_add_map(builder, parent, key) : NULL;
  for (uint32_t i = 0; map && i < count; i++) {
    const char *value = settings[i].value;
    const char *name = text_printable(builder->arena, settings[i].name ? settings[i].name : "");
    const char *shown = text_printable(builder->arena, value ? value : "");
    builder->place.source =
        origin ? arena_printf(builder->arena, "%s %s=%s", origin, name, shown) : whole;
    if (!name || !shown || !builder->place.source)
      break;
    if (node_find(map, name))
      findings_add(builder->findings, &builder->place,
                   "option \"%.60s\" of %s is given twice; remove one", name, of);
    else
      params_add_text(builder, map, name, value);
  }
  builder->place.source = whole;
}

/* `origin`: of its options. */
static void params_add_plugin(struct builder *builder, struct node *parent, const char *key,
                              const char *name, const char *origin,
                              const struct pst_setting *settings, uint32_t count)
{
  struct node *map = params_add_map(builder, parent, key);
  params_add_text(builder, map, "plugin", name);
  params_add_settings(builder, map, "options", key, origin, settings, count);
}

static struct node *params_add_side(struct builder *builder, struct node *stream, const char *key,
                                    const struct pst_side_params *side)
{
  struct node *map = params_add_map(builder, stream, key);
  if (side->memory || side->memory_option_count)
    params_add_plugin(builder, map, "memory", side->memory, builder->origins.memory_option,
                      side->memory_options, side->memory_option_count);
  return map;
}

static void params_add_filters(struct builder *builder, struct node *transport,
                               const struct config_params_more *more)
{
  struct node *list = transport ? params_add(builder, transport, NODE_LIST, "filters", NULL) : NULL;
  for (uint32_t i = 0; list && i < more->filter_count; i++)
    params_add_plugin(builder, list, NULL, more->filters[i].name, NULL, more->filters[i].options,
                      more->filters[i].option_count);
}

/* Adds a stream of the caller's structs to the tree, at a place that messages name. */
static void params_add_stream(struct builder *builder, struct node *list, uint32_t index,
                              const struct pst_stream_params *given,
                              const struct config_params_more *more)
{
  struct pst_stream_params params = {.name = NULL};
  if (given)
    pst_struct_read(&params, sizeof(params), given);
  builder->origins = (struct pst_origins){.stream = NULL};
  if (params.origins)
    pst_struct_read(&builder->origins, sizeof(builder->origins), params.origins);
  const char *source = more ? more->source : builder->origins.stream;
  builder->place.source =
      source ? text_printable(builder->arena, source)
             : arena_printf(builder->arena, "%s.streams[%u]", PARAMS_SOURCE, index);
  if (!builder->place.source) {
    builder->place.source = PARAMS_SOURCE;
    return;
  }
  if (!given) {
    findings_add(builder->findings, &builder->place, "the pointer is NULL; point to a stream");
    return;
  }
  struct node *stream = params_add_map(builder, list, NULL);
  params_add_text(builder, stream, "name", params.name);
  params_add_number(builder, stream, "message", params.message);
  params_add_number(builder, stream, "ring", params.ring);
  if (params.transport || params.transport_option_count)
    params_add_plugin(builder, stream, "transport", params.transport,
                      builder->origins.transport_option, params.transport_options,
                      params.transport_option_count);
  if (more && more->filter_count)
    params_add_filters(builder, node_find(stream, "transport"), more);
  params_add_side(builder, stream, "sender", &params.sender);
  params_add_text(builder, params_add_side(builder, stream, "receiver", &params.receiver), "path",
                  params.path);
}

static void params_add_tls(struct builder *builder, struct node *control,
                           const struct pst_tls_params *given)
{
  struct pst_tls_params tls;

  if (!given)
    return;
  pst_struct_read(&tls, sizeof(tls), given);
  struct node *map = params_add_map(builder, control, "tls");
  params_add_text(builder, map, "certificate", tls.certificate);
  params_add_text(builder, map, "key", tls.key);
  params_add_text(builder, map, "ca", tls.ca);
  params_add_text(builder, map, "crl", tls.crl);
  struct node *peers = map ? params_add(builder, map, NODE_LIST, "peers", NULL) : NULL;
  for (uint32_t i = 0; peers && i < tls.peer_count; i++)
    params_add_text(builder, peers, NULL, tls.peers[i]);
  params_add_text(builder, map, "psk", tls.psk);
}

void params_read(struct arena *arena, struct findings *findings,
                 const struct pst_config_params *given, const struct config_params_more *more,
                 struct node **root)
{
  struct builder builder = {arena, findings, {PARAMS_SOURCE, 0, 0}, {.stream = NULL}};
  struct pst_config_params params;
  pst_struct_read(&params, sizeof(params), given);
  *root = params_add(&builder, NULL, NODE_MAP, NULL, NULL);
  if (!*root)
    return;
  params_add_text(&builder, *root, "penstock", "1");
  struct node *control = params_add_map(&builder, *root, "control");
  params_add_text(&builder, control, "address", params.control);
  params_add_text(&builder, control, "insecure", params.insecure ? "true" : NULL);
  params_add_tls(&builder, control, params.tls);
  struct node *threads = params.threads ? params_add_map(&builder, *root, "threads") : NULL;
  params_add_number(&builder, threads, "count", params.threads);
  struct node *streams = params_add(&builder, *root, NODE_LIST, "streams", NULL);
  for (uint32_t i = 0; streams && params.streams && i < params.stream_count; i++)
    params_add_stream(&builder, streams, i, params.streams[i], more);
}
