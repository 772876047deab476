/* SPDX-License-Identifier: Apache-2.0 */
/* A tree against the schema: findings, struct config, and the effective tree. */
#ifndef PST_CONFIG_CHECK_H
#define PST_CONFIG_CHECK_H

#include <stdatomic.h>

#include "config.h"
#include "schema.h"
#include "tree.h"

struct held_options {
  struct held_options *next;
  struct pst_options *options;
};

struct pst_config {
  atomic_uint holds;
  struct arena arena;
  struct config config;
  struct node *effective;
  struct node *streams;          /* the effective list of streams */
  struct node **stream_elements; /* its elements, in the order of config.streams */
  struct held_options *options;  /* all that were made; freed with the config */
  char hash[65];
};

/* Empty, held once. NULL: no memory. */
struct pst_config *config_new(void);

struct check {
  struct pst_config *owner;
  struct arena *arena; /* the owner's */
  struct findings *findings;
  const struct config_catalog *catalog;
};

/* Everything. `root` NULL: nothing is there to check. Fills owner->config and
 * owner->effective; they hold only when there are no findings. */
void check_root(struct check *check, const char *source, struct node *root);

/* ---- Shared by the files of the checker ---------------------------------- */

/* `node` as a mapping: itself, its shorthand written out, or NULL (absent, null, or
 * reported). Unknown keys are reported. */
struct node *check_map(struct check *check, const struct schema_map *map, struct node *node);
/* All plain values of a mapping (which may be NULL): checked, stored in `base`,
 * appended to `effective`. Keys whose scope lacks `bit` are refused, `because`
 * says why. Others than plain values are passed over. */
void check_keys(struct check *check, const struct schema_map *map, const struct node *node,
                const struct place *place, void *base, struct node *effective, uint32_t bit,
                const char *because);
/* One plain value, of that text: checked, stored in `base`, appended to `effective`. */
void check_value(struct check *check, const struct schema_key *key, const char *text,
                 const struct place *place, void *base, struct node *effective);
/* An effective value; they bear no memory failure out but in the findings. */
struct node *effective_map(struct check *check, struct node *parent, const char *key,
                           const struct place *place);
struct node *effective_list(struct check *check, struct node *parent, const char *key,
                            const struct place *place);
struct node *effective_scalar(struct check *check, struct node *parent, const char *key,
                              const char *text, const struct place *place);
/* NULL: no memory, which the findings then know. */
void *check_alloc(struct check *check, size_t size_bytes);

/* ---- Plugins ---------------------------------------------------------------- */

/* A plugin with its options at one level of the file. */
struct plugin_state {
  uint32_t kind;
  const char *name;
  struct place place;
  const struct pst_description *description; /* NULL: there is none; reported */
  struct pst_options *options;
  struct place *origins; /* one an option */
};

struct transport_state {
  struct plugin_state plugin;
  struct plugin_state *filters;
  uint32_t filter_count;
  struct place filters_place;
};

/* side: 0 for the file and a stream, else PST_SCOPE_SENDER or PST_SCOPE_RECEIVER.
 * parent: the enclosing level's; NULL: none. place: of what encloses, for findings
 * about what is not written. */
void check_transport(struct check *check, struct node *node, const struct place *place,
                     uint32_t side, const struct transport_state *parent,
                     struct transport_state *state);
void check_memory(struct check *check, struct node *node, const struct place *place, uint32_t side,
                  struct plugin_state *state);
/* Both ends of a stream, once they are known: each for itself, and what must agree. */
/* place: of the stream; facts: what the plugins of each end know, the sender's first. */
void check_transport_ends(struct check *check, const struct transport_state *sender,
                          const struct transport_state *receiver, const struct place *place,
                          struct pst_facts facts[2]);
/* One plugin at one end: what must be set, what does not go together, what it refuses. place:
 * of what encloses, for findings about what is not written. */
void check_whole(struct check *check, const struct plugin_state *state, uint32_t side,
                 const struct place *place, struct pst_facts *facts);
/* A stream beside what the plugins of its ends know. `map`: the stream's. */
void check_facts(struct check *check, struct node *map, const struct config_stream *stream,
                 const struct transport_state ends[2], const struct pst_facts facts[2],
                 const char *const memory_names[2], const struct pst_facts memories[2]);
/* The three effective mappings of a stream. `stream` is replaced by the sender's when
 * neither end uses it. */
void effective_transports(struct check *check, struct node *stream_node, struct node *sender_node,
                          struct node *receiver_node, const struct transport_state *stream,
                          const struct transport_state *sender,
                          const struct transport_state *receiver);
void effective_memory(struct check *check, struct node *parent, const struct plugin_state *state,
                      uint32_t side);
void store_plugin(struct check *check, const struct plugin_state *state, struct config_plugin *to);
void store_transport(struct check *check, const struct transport_state *state,
                     struct config_transport *to);

/* ---- Streams ------------------------------------------------------------------ */

void check_streams(struct check *check, struct node *list, const struct place *place,
                   const struct transport_state *global, struct node *effective);
/* The program's mappings in `map`, which is `parent`'s or NULL, appended to `effective`. */
void check_program(struct check *check, const struct schema_map *parent, const struct node *map,
                   const struct place *place, struct node *effective);
/* What the program itself checks of a stream; `node`: as it is written. */
void check_program_stream(struct check *check, const struct node *node, uint32_t index);
void check_control(struct check *check, struct node *node, struct node *effective);
/* Between streams and with the control channel; all values hold. */
void check_relations(struct check *check, const struct node *streams);

#endif
