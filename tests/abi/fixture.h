/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin that does nothing, as the loader sees it. Each fixture is this one with
 * something changed by a macro on the command line; see meson.build. */
#ifndef FIXTURE_H
#define FIXTURE_H

#include <errno.h>
#include <string.h>

#include <penstock/memory.h>
#include <penstock/transport.h>

#ifndef FIXTURE_DESCRIBED_NAME
#define FIXTURE_DESCRIBED_NAME FIXTURE_NAME
#endif
#ifndef FIXTURE_DESCRIBED_KIND
#define FIXTURE_DESCRIBED_KIND FIXTURE_KIND
#endif
#ifndef FIXTURE_VERSION
#define FIXTURE_VERSION "1"
#endif
/* name, default, type, scope of its second option */
#ifndef FIXTURE_OPTION
#define FIXTURE_OPTION "depth", "8", PST_OPTION_UINT, PST_SCOPE_DEVICE
#endif
#ifndef FIXTURE_OPTION_MORE
#define FIXTURE_OPTION_MORE .help = "What the fixture changes."
#endif
#ifndef FIXTURE_OPTION_COUNT
#define FIXTURE_OPTION_COUNT 2
#endif
#define FIXTURE_OPTION_(name_, default_, type_, scope_)                                            \
  {                                                                                                \
    .name = name_, .default_value = default_, .type = type_, .scope = scope_, FIXTURE_OPTION_MORE  \
  }
#define FIXTURE_OPTION_OF(...) FIXTURE_OPTION_(__VA_ARGS__)

static const struct pst_option fixture_options[] = {
    {.name = "device", .help = "The device.", .type = PST_OPTION_STRING, .scope = PST_SCOPE_DEVICE},
    FIXTURE_OPTION_OF(FIXTURE_OPTION),
};

/* option, value, needs, needed, because, flags of its one rule */
#ifndef FIXTURE_RULE
#define FIXTURE_RULE "depth", "8", "device", "", NULL, PST_RULE_UNLESS
#endif
#ifndef FIXTURE_RULE_COUNT
#define FIXTURE_RULE_COUNT 1
#endif
#ifndef FIXTURE_RULES
#define FIXTURE_RULES fixture_rules
#endif

#define FIXTURE_4_VARIABLES "A=1", "A=2", "A=3", "A=4"
#define FIXTURE_16_VARIABLES                                                                       \
  FIXTURE_4_VARIABLES, FIXTURE_4_VARIABLES, FIXTURE_4_VARIABLES, FIXTURE_4_VARIABLES
#ifdef FIXTURE_VARIABLES
static const char *const fixture_environment[] = {FIXTURE_VARIABLES, NULL};
#define FIXTURE_ENVIRONMENT fixture_environment
#else
#define FIXTURE_ENVIRONMENT NULL
#endif

__attribute__((unused)) static const struct pst_option_rule fixture_rules[] = {{FIXTURE_RULE}};

#ifndef FIXTURE_WIRE
#define FIXTURE_WIRE NULL
#endif

static const struct pst_description fixture_description = {
    .kind = FIXTURE_DESCRIBED_KIND,
    .name = FIXTURE_DESCRIBED_NAME,
    .version = FIXTURE_VERSION,
    .summary = "A fixture of the loader's tests",
    .needs = "libfixture and a device of that kind",
    .rung = "compiled",
    .options = fixture_options,
    .option_count = FIXTURE_OPTION_COUNT,
    .rules = FIXTURE_RULES,
    .rule_count = FIXTURE_RULE_COUNT,
    .environment = FIXTURE_ENVIRONMENT,
    .wire = FIXTURE_WIRE,
};

#ifndef FIXTURE_DESCRIPTION_SIZE
#define FIXTURE_DESCRIPTION_SIZE sizeof(fixture_description)
#endif
#ifndef FIXTURE_DESCRIPTION
#define FIXTURE_DESCRIPTION &fixture_description
#endif
PST_PLUGIN_EXTERN const struct pst_described pst_description_v1 = {
    .struct_size = FIXTURE_DESCRIPTION_SIZE, .description = FIXTURE_DESCRIPTION};

#ifndef FIXTURE_DESCRIPTION_ONLY

#ifndef FIXTURE_PLUGIN_SIZE
#define FIXTURE_PLUGIN_SIZE sizeof(struct pst_plugin)
#endif
#ifndef FIXTURE_DESCRIBED
#define FIXTURE_DESCRIBED &pst_description_v1
#endif
#ifndef FIXTURE_PROBE
#define FIXTURE_PROBE fixture_probe
#endif
#ifndef FIXTURE_OPS
#define FIXTURE_OPS &fixture_ops
#endif
#ifndef FIXTURE_OPS_SIZE
#define FIXTURE_OPS_SIZE sizeof(fixture_ops)
#endif
#ifndef FIXTURE_CAPABILITIES
#define FIXTURE_CAPABILITIES 0
#endif

#ifdef FIXTURE_CALLS
int FIXTURE_CALLS(void);
#endif

int fixture_probe(const struct pst_host *host, struct pst_probe *probe);
int fixture_probe(const struct pst_host *host, struct pst_probe *probe)
{
  (void)host;
#ifdef FIXTURE_CALLS
  return FIXTURE_CALLS();
#endif
#ifdef FIXTURE_UNUSABLE
  strcpy(probe->reason, "no such hardware");
  strcpy(probe->remedy, "buy some");
  return -ENODEV;
#endif
  probe->device(probe->context, "fixture0", "a device of " FIXTURE_NAME);
  return 0;
}

#define FIXTURE_PLUGIN()                                                                           \
  PST_PLUGIN_EXTERN const struct pst_plugin pst_plugin_v1 = {                                      \
      FIXTURE_PLUGIN_SIZE, 0, FIXTURE_DESCRIBED, FIXTURE_PROBE, FIXTURE_OPS}
#endif
#endif
