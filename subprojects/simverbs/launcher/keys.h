/* SPDX-License-Identifier: Apache-2.0 */
/* Mappings of a fabric's description, read by tables of keys. */
#ifndef KEYS_H
#define KEYS_H

#include "fabric/fabric.h"
#include "findings.h"
#include "tree.h"
#include "value.h"

struct key {
  struct rule rule;
  bool required;
};

/* The value that was written under a key. */
struct taken {
  const struct node *node; /* NULL: nothing */
  const char *text;
  struct value value; /* of the types that have one; the default's if nothing was written */
};

struct describe {
  struct tree tree;
  struct findings findings;
  struct fabric *f;
  struct place port_place[FAB_DEVICES][FAB_PORTS];
  uint8_t subnet_layer[FAB_SUBNETS]; /* IBV_LINK_LAYER_*, of its ports; 0: it has none yet */
};

/* `what`: "a port", for findings. taken[i] is that of keys[i]. False: this is no mapping, or not
 * all of it holds; findings tell. */
bool keys_take(struct describe *d, const struct node *node, const char *what,
               const struct key *keys, size_t count, struct taken *taken);
/* A list of mappings: each of them to `element`. */
void keys_each(struct describe *d, const struct node *list, const char *what,
               void (*element)(struct describe *d, const struct node *node));
/* Copies a name; false, with a finding, if it is too long or not a word. */
bool keys_name(struct describe *d, const struct taken *from, char to[FAB_NAME]);
/* Appends "; did you mean …" or "; there are: …" to what is wrong. */
void keys_unknown(struct describe *d, const struct place *place, const char *what,
                  const char *written, const char *const *names, size_t count);

/* ---- the parts, in the order in which they are read ---- */
void describe_subnet(struct describe *d, const struct node *node);
void describe_router(struct describe *d, const struct node *node);
void describe_host(struct describe *d, const struct node *node);
void describe_port(struct describe *d, uint32_t device, unsigned index, const struct node *node);
/* Finds addresses that two ports have. */
void describe_check_ports(struct describe *d);
/* Reads and plants a fault; `kind` NULL: its key `do` says which. */
void describe_fault(struct describe *d, const struct node *node);

/* "HOST", "HOST/DEVICE" or "HOST/DEVICE/PORT"; false, with a finding. */
bool describe_target(struct describe *d, const struct taken *from, struct fab_target *target);
/* The words of enum fab_fault_kind in descriptions and on the command line; NULL at the end. */
extern const char *const describe_fault_names[];
/* The word of an event that is planted. */
const char *describe_event(int type);

/* ---- whole files ---- */

struct describe_options {
  const char *path;    /* NULL: the default description */
  uint64_t hash;       /* of the file's text */
  char name[FAB_NAME]; /* of the fabric */
  int strict, engine;  /* -1: as described */
  bool own;            /* nobody else is to find it */
  const char *clock;   /* NULL: as described */
};
/* For fab_create; the argument is a struct describe_options. Findings go to stderr; EINVAL. */
int describe_fabric(struct fabric *f, void *options);
/* Reads the file's `name` (if it has none: the file's own, without its ending), and a hash of its
 * text. 0; EINVAL, with a line on stderr. */
int describe_identify(const char *path, char name[FAB_NAME], uint64_t *hash);
/* A target from a word of a command line. EINVAL, with a line on stderr. */
int describe_target_words(const char *word, struct fab_target *target);
/* Plants a fault from the words of a command line. EINVAL, with a line on stderr. */
int describe_fault_words(const char *kind, int count, char *const words[]);

#endif
