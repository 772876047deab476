/* SPDX-License-Identifier: Apache-2.0 */
/* A tree against the schema: findings, struct config, and the effective tree. */
#ifndef PST_CONFIG_CHECK_H
#define PST_CONFIG_CHECK_H

#include <stdatomic.h>

#include "config.h"
#include "schema.h"
#include "tree.h"

struct pst_config {
  atomic_uint holds;
  struct arena arena;
  struct config config;
  struct node *effective;
  struct node *streams;          /* the effective list of streams */
  struct node **stream_elements; /* its elements, in the order of config.streams */
  struct pst_options *options;   /* all that were made, as a list */
  char hash[65];
};

struct check {
  struct pst_config *owner;
  struct arena *arena; /* the owner's */
  struct findings *findings;
  const struct config_catalog *catalog;
};

/* A configuration given as structs, as the tree that a file would have made. */
#define PARAMS_SOURCE "params"
void params_read(struct arena *arena, struct findings *findings,
                 const struct pst_config_params *params, const struct config_params_more *more,
                 struct node **root);
/* --set path=value: a value put into the tree before that is checked. *root may be NULL and is then
 * made. Missing mappings on the way are made too; whether their names mean anything is for the
 * check to say. */
void override_apply(struct arena *arena, struct findings *findings, const char *set,
                    struct node **root);

/* Everything. `root` NULL: nothing is there to check. Fills owner->config and
 * owner->effective; they hold only when there are no findings. */
void check_root(struct check *check, const char *source, struct node *root);

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

/* side: 0 for the file and a stream, else PST_SCOPE_SENDER or PST_SCOPE_RECEIVER.
 * parent: the enclosing level's; NULL: none. place: of what encloses, for findings
 * about what is not written. */
void check_transport(struct check *check, struct node *node, const struct place *place,
                     uint32_t side, const struct config_transport *parent,
                     struct config_transport *transport);
void check_memory(struct check *check, struct node *node, const struct place *place, uint32_t side,
                  struct config_plugin *memory);
/* Both ends of a stream, the sender's first: each for itself, and what must agree.
 * place: of the stream; facts: what the plugins of each end know. */
void check_transport_ends(struct check *check, struct config_transport *const ends[2],
                          const struct place *place, struct pst_facts facts[2]);
/* The check() of a plugin's description, asked about option values: `report` is called for each
 * finding, with the option's name and the text. */
struct facts_query {
  uint32_t side;  /* PST_SCOPE_SENDER or PST_SCOPE_RECEIVER */
  uint32_t flags; /* enum pst_check_flag */
  void (*report)(void *context, const char *option, const char *text);
  void *context;
};
/* Adds what the plugin knows to *facts: the least of each limit, and all that is lacked. Nothing
 * where there is no description, or that has no check(). */
void plugin_facts(const struct facts_query *query, const struct config_plugin *plugin,
                  struct pst_facts *facts);
/* One plugin at one end: what must be set, what does not go together, what it refuses. place:
 * of what encloses, for findings about what is not written. */
void check_whole(struct check *check, const struct config_plugin *plugin, uint32_t side,
                 const struct place *place, struct pst_facts *facts);
/* A stream beside what the plugins of its ends know. `map`: the stream's. */
void check_facts(struct check *check, struct node *map, const struct config_stream *stream,
                 const struct pst_facts facts[2], const struct pst_facts memories[2]);
/* A value in the effective tree, whose canonical text and number these are. */
void effective_value(struct check *check, struct node *parent, const struct pst_option *rule,
                     const char *text, const struct value *value, const struct place *place);
/* The effective mappings of a stream and of its ends, the sender's first. `stream` is replaced by
 * the sender's when neither end uses it. */
void effective_transports(struct check *check, struct node *stream_node,
                          struct node *const nodes[2], const struct config_transport *stream,
                          struct config_transport *const ends[2]);
void effective_memory(struct check *check, struct node *parent, const struct config_plugin *memory,
                      uint32_t side);

void check_streams(struct check *check, struct node *list, const struct place *place,
                   const struct config_transport *global, struct node *effective);
/* The program's mappings in `map`, which is `parent`'s or NULL, appended to `effective`. */
void check_program(struct check *check, const struct schema_map *parent, const struct node *map,
                   const struct place *place, struct node *effective);
/* Runs the program's own checks of a stream; `node`: the stream as it is written. */
void check_program_stream(struct check *check, const struct node *node, uint32_t index);
void check_control(struct check *check, struct node *node, struct node *effective);
/* Between streams and with the control channel; all values hold. */
void check_relations(struct check *check, const struct node *streams);

#endif
