/* SPDX-License-Identifier: Apache-2.0 */
/* Does a plugin keep what plugin.h, transport.h and memory.h promise, as far as its
 * tables show it. */
#include "internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "config/options.h"
#include "config/rules.h"
#include "config/value.h"

#define OPTIONS_MAX 256u
#define RULES_MAX 64u

static int breach(struct loader_reason *why, const char *path, const char *what)
{
  return loader_reject(why, -EPROTO, path, "%s", what);
}

static int option_breach(struct loader_reason *why, const char *path,
                         const struct pst_option *option, const char *what)
{
  return loader_reject(why, -EPROTO, path, "option '%s': %s", option->name, what);
}

static int option_unknown(struct loader_reason *why, const char *path,
                          const struct pst_option *option, const char *field)
{
  return loader_reject(why, -EPROTO, path,
                       "option '%s': its %s is unknown to ABI %u; build it with this host's "
                       "headers, or install a newer host",
                       option->name, field, PST_ABI_MAJOR);
}

int check_size(const char *path, const char *type, uint32_t its, size_t ours,
               struct loader_reason *why)
{
  if (its == ours)
    return 0;
  return loader_reject(
      why, -EPROTO, path,
      "its %s has %u bytes, this host's has %zu; build it with this host's headers", type, its,
      ours);
}

static int check_default(const char *path, const struct pst_option *option,
                         struct loader_reason *why)
{
  struct pst_options *options;
  int rc = options_new(option, 1, &options);

  if (rc < 0)
    return loader_reject(why, rc == -ENOMEM ? rc : -EPROTO, path,
                         "option '%s': its default '%s' does not parse", option->name,
                         option->default_value ? option->default_value : "");
  options_free(options);
  return 0;
}

static int check_option(const char *path, const struct pst_option *table, uint32_t index,
                        struct loader_reason *why)
{
  const struct pst_option *option = &table[index];
  const uint32_t scopes =
      PST_SCOPE_DEVICE | PST_SCOPE_STREAM | PST_SCOPE_SENDER | PST_SCOPE_RECEIVER;
  const uint32_t flags = PST_OPTION_REQUIRED | PST_OPTION_TESTING;

  if (!loader_name_ok(option->name))
    return loader_reject(why, -EPROTO, path,
                         "option %u: its name is none: write lower case, digits and '_'", index);
  for (uint32_t i = 0; i < index; i++) {
    if (strcmp(table[i].name, option->name) == 0)
      return option_breach(why, path, option, "is in the table twice");
  }
  if (option->type < PST_OPTION_BOOL || option->type > PST_OPTION_LIST)
    return option_unknown(why, path, option, "type");
  if (option->scope == 0)
    return option_breach(why, path, option, "has no scope");
  if (option->scope & ~scopes)
    return option_unknown(why, path, option, "scope");
  if (option->flags & ~flags || option->reserved)
    return option_unknown(why, path, option, "set of flags");
  if (!option->help || !*option->help)
    return option_breach(why, path, option, "has no help text");
  if ((option->type == PST_OPTION_ENUM) != (option->choices && option->choices[0]))
    return option_breach(why, path, option, "choices belong to an ENUM, and an ENUM has some");
  if (option->max && option->min > option->max)
    return option_breach(why, path, option, "its min is over its max");
  if ((option->flags & PST_OPTION_REQUIRED) && option->default_value)
    return option_breach(why, path, option, "is required and has a default all the same");
  return check_default(path, option, why);
}

static int check_words(const char *path, const struct pst_description *description,
                       struct loader_reason *why)
{
  const struct {
    const char *field, *text;
  } words[] = {{"version", description->version},
               {"summary", description->summary},
               {"rung", description->rung}};

  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    if (!words[i].text)
      return loader_reject(why, -EPROTO, path, "its description has no %s; \"\" says none",
                           words[i].field);
  }
  return 0;
}

static int check_wire(const char *path, const struct pst_description *description,
                      struct loader_reason *why)
{
  const char *wire = description->wire;

  if (!wire)
    return 0;
  if (description->kind != PST_KIND_TRANSPORT)
    return loader_reject(why, -EPROTO, path,
                         "its description has a wire form, which only a transport has");
  if (wire[0] < 'a' || wire[0] > 'z' || strlen(wire) >= LOADER_NAME_BYTES ||
      wire[strspn(wire, "abcdefghijklmnopqrstuvwxyz0123456789-")] != '\0')
    return loader_reject(why, -EPROTO, path,
                         "its wire form is '%.64s'; write at most 31 lower-case letters, digits "
                         "and '-', a letter first",
                         wire);
  return 0;
}

static int rule_breach(struct loader_reason *why, const char *path, uint32_t index,
                       const char *what)
{
  return loader_reject(why, -EPROTO, path, "rule %u: %s", index, what);
}

static const struct pst_option *find_option(const struct pst_description *description,
                                            const char *name)
{
  for (uint32_t i = 0; name && i < description->option_count; i++)
    if (strcmp(description->options[i].name, name) == 0)
      return &description->options[i];
  return NULL;
}

static bool takes(const struct pst_option *option, const char *text)
{
  char why[VALUE_WHY_MIN];
  struct value value;

  return text && (option->type == PST_OPTION_STRING ||
                  value_parse(option, text, &value, why, sizeof why) == 0);
}

static int check_rule(const char *path, const struct pst_description *description,
                      const struct pst_option_rule *rule, uint32_t index, struct loader_reason *why)
{
  const struct pst_option *option = find_option(description, rule->option);
  const struct pst_option *needs = find_option(description, rule->needs);

  if (!option || !needs || option == needs)
    return rule_breach(why, path, index, "it needs two options that are in the table");
  if (option->type == PST_OPTION_LIST || needs->type == PST_OPTION_LIST)
    return rule_breach(why, path, index, "an option of it is a LIST, which has no one value");
  if (!takes(option, rule->value) || !takes(needs, rule->needed))
    return rule_breach(why, path, index, "a value of it is none that its option takes");
  for (size_t i = 0; i < sizeof rule->reserved / sizeof rule->reserved[0]; i++)
    if (rule->reserved[i] || rule->flags & ~(uint32_t)(PST_RULE_UNLESS | PST_RULE_OTHER))
      return loader_reject(why, -EPROTO, path,
                           "rule %u: its set of flags is unknown to ABI %u; build it with this "
                           "host's headers, or install a newer host",
                           index, PST_ABI_MAJOR);
  return 0;
}

static int check_rules(const char *path, const struct pst_description *description,
                       struct loader_reason *why)
{
  const struct pst_option_rule *rules = description->rules;
  struct pst_options *defaults;
  uint32_t count = description->rule_count;
  int rc = 0;

  if (count == 0)
    return 0;
  if (count > RULES_MAX || !rules)
    return loader_reject(why, -EPROTO, path, "claims %u rules but %s", count,
                         rules ? "64 are the most" : "has none");
  for (uint32_t i = 0; i < count && rc == 0; i++)
    rc = check_rule(path, description, &rules[i], i, why);
  if (rc < 0)
    return rc;
  if (options_new(description->options, description->option_count, &defaults) < 0)
    return loader_reject(why, -ENOMEM, path, "no memory to read it");
  for (uint32_t i = 0; i < count && rc == 0; i++)
    if (!rule_holds(&rules[i], defaults))
      rc = rule_breach(why, path, i, "the defaults break it");
  options_free(defaults);
  return rc;
}

static bool is_variable(const char *text)
{
  const size_t length = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                     "0123456789_");

  return length > 0 && length < LOADER_VARIABLE_BYTES && text[length] == '=' &&
         (text[0] < '0' || text[0] > '9');
}

static int check_environment(const char *path, const struct pst_description *description,
                             struct loader_reason *why)
{
  const char *const *environment = environment_of(description);

  for (uint32_t i = 0; environment[i]; i++) {
    if (i == LOADER_VARIABLES_MAX)
      return loader_reject(why, -EPROTO, path,
                           "names over 64 environment variables; or does NULL not end the list?");
    if (!is_variable(environment[i]))
      return loader_reject(why, -EPROTO, path,
                           "its environment has '%.64s'; write NAME=value, the name of at most 63 "
                           "letters, digits and '_'",
                           environment[i]);
  }
  return 0;
}

int check_description(const char *path, uint32_t kind, const char *name,
                      const struct pst_described *described, struct loader_reason *why)
{
  const struct pst_description *description = described ? described->description : NULL;
  int rc;

  if (!description)
    return breach(why, path, "has no description; add PST_DESCRIPTION() in options.c");
  rc = check_size(path, "pst_description", described->struct_size, sizeof *description, why);
  if (rc < 0)
    return rc;
  if (description->kind != kind)
    return loader_reject(why, -EPROTO, path,
                         "describes itself as a %s, its file name says %s; rename one of them",
                         loader_kind_name(description->kind) ? loader_kind_name(description->kind)
                                                             : "plugin of unknown kind",
                         loader_kind_name(kind));
  if (!description->name || strcmp(description->name, name) != 0)
    return loader_reject(why, -EPROTO, path,
                         "describes itself as '%.64s', its file name says '%s'; "
                         "rename one of them",
                         description->name ? description->name : "", name);
  rc = check_words(path, description, why);
  if (rc < 0)
    return rc;
  if (description->option_count > OPTIONS_MAX ||
      (description->option_count && !description->options))
    return loader_reject(why, -EPROTO, path, "claims %u options but %s", description->option_count,
                         description->options ? "256 is the most" : "has no table of them");
  for (uint32_t i = 0; i < description->option_count && rc == 0; i++)
    rc = check_option(path, description->options, i, why);
  if (rc == 0)
    rc = check_rules(path, description, why);
  if (rc == 0)
    rc = check_wire(path, description, why);
  return rc < 0 ? rc : check_environment(path, description, why);
}

/* ---- Operations ---------------------------------------------------------- */

/* One op that must be there: always (capability 0), or with a capability, or two. */
struct rule {
  uint64_t capability;
  const char *capability_name;
  const char *op;
  size_t offset;
};

#define T_OP(op_)                                                                                  \
  {                                                                                                \
    0, NULL, #op_, offsetof(struct pst_transport_ops, op_)                                         \
  }
#define T_CAP(cap_, op_)                                                                           \
  {                                                                                                \
    PST_CAP_##cap_, #cap_, #op_, offsetof(struct pst_transport_ops, op_)                           \
  }
#define M_OP(op_)                                                                                  \
  {                                                                                                \
    0, NULL, #op_, offsetof(struct pst_memory_ops, op_)                                            \
  }
#define M_CAP(cap_, op_)                                                                           \
  {                                                                                                \
    PST_MEMORY_CAP_##cap_, #cap_, #op_, offsetof(struct pst_memory_ops, op_)                       \
  }

static const struct rule transport_rules[] = {
    T_OP(open),
    T_OP(close),
    T_OP(limits),
    T_OP(mr_register),
    T_OP(mr_deregister),
    T_OP(worker_open),
    T_OP(worker_close),
    T_OP(endpoint_open),
    T_OP(endpoint_address),
    T_OP(endpoint_connect),
    T_OP(endpoint_path),
    T_OP(endpoint_close),
    T_OP(post),
    T_OP(poll),
    T_CAP(SEND, ring_open),
    T_CAP(SEND, ring_close),
    T_CAP(SEND, release),
    T_CAP(WRITE, mr_pack),
    T_CAP(WRITE, remote_open),
    T_CAP(WRITE, remote_close),
    T_CAP(READ, mr_pack),
    T_CAP(READ, remote_open),
    T_CAP(READ, remote_close),
    T_CAP(ATOMIC, mr_pack),
    T_CAP(ATOMIC, remote_open),
    T_CAP(ATOMIC, remote_close),
    T_CAP(LEND, release),
    T_CAP(SHARED_RING, ring_open),
    T_CAP(WAKEUP, arm),
    T_CAP(WAKEUP, event_fd),
};

static const struct rule memory_rules[] = {
    M_OP(open),
    M_OP(close),
    M_OP(alloc),
    M_OP(free_region),
    M_CAP(COPY, queue_open),
    M_CAP(COPY, queue_close),
    M_CAP(COPY, queue_poll),
    M_CAP(COPY, copy_rows),
    M_CAP(PATTERN, queue_open),
    M_CAP(PATTERN, queue_close),
    M_CAP(PATTERN, queue_poll),
    M_CAP(PATTERN, fill_rows),
    M_CAP(PATTERN, verify_rows),
    M_CAP(PATTERN, verify_result),
    M_CAP(FENCE, fence_record),
    M_CAP(FENCE, fence_wait),
    M_CAP(FENCE, fence_query),
    M_CAP(FENCE, fence_release),
    M_CAP(EXPORT, export_region),
    M_CAP(IMPORT, import_region),
    M_CAP(HOST_REGISTER, host_register),
    M_CAP(HOST_REGISTER, host_unregister),
    M_CAP(FLUSH, flush),
    M_CAP(CHECKSUM, queue_open),
    M_CAP(CHECKSUM, queue_close),
    M_CAP(CHECKSUM, queue_poll),
    M_CAP(CHECKSUM, sum_batch),
    M_CAP(ADOPT, adopt_region),
};

static bool has_op(const struct ops_head *head, size_t offset)
{
  void (*op)(void);

  memcpy(&op, (const char *)head + offset, sizeof op);
  return op != NULL;
}

int check_ops(const char *path, uint32_t kind, const void *ops, struct loader_reason *why)
{
  const struct ops_head *head = ops;
  bool is_memory = kind == PST_KIND_MEMORY;
  const struct rule *rules = is_memory ? memory_rules : transport_rules;
  size_t count = is_memory ? sizeof memory_rules / sizeof memory_rules[0]
                           : sizeof transport_rules / sizeof transport_rules[0];
  const char *type = is_memory ? "pst_memory_ops" : "pst_transport_ops";
  size_t size = is_memory ? sizeof(struct pst_memory_ops) : sizeof(struct pst_transport_ops);
  int rc;

  if (!head)
    return loader_reject(why, -EPROTO, path, "has no struct %s", type);
  rc = check_size(path, type, head->struct_size, size, why);
  if (rc < 0)
    return rc;
  for (size_t i = 0; i < count; i++) {
    if (has_op(head, rules[i].offset))
      continue;
    if (!rules[i].capability)
      return loader_reject(why, -EPROTO, path, "the mandatory op %s is NULL", rules[i].op);
    if ((head->capabilities & rules[i].capability) == rules[i].capability)
      return loader_reject(why, -EPROTO, path, "announces %s but its op %s is NULL",
                           rules[i].capability_name, rules[i].op);
  }
  return 0;
}
