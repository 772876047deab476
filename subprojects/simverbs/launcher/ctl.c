/* SPDX-License-Identifier: Apache-2.0 */
/* penstock-simverbs ctl: a fabric at run time. */
#include "launcher.h"

#include <stdio.h>
#include <string.h>

#include "nearest.h"

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

enum { CTL_FAILED = 1, CTL_USAGE = 2 };

static const char help[] =
    "usage: penstock-simverbs ctl FABRIC ACTION [TARGET] [--KEY VALUE]...\n"
    "\n"
    "FABRIC is a name, the description's FILE.yaml, or \".\": the one of the launcher around.\n"
    "TARGET is HOST, HOST/DEVICE or HOST/DEVICE/PORT.\n"
    "\n"
    "  show                          hosts, ports, processes, faults, time\n"
    "  counters [TARGET]             what was sent and what was lost, and why\n"
    "  advance TIME                  a manual clock, as in advance 30s, once what is due is done\n"
    "  clock real|manual|FACTOR      FACTOR: so many times as fast as real\n"
    "  engine eager|deferred         where work that is posted runs\n"
    "  strict on|off\n"
    "  clear                         forget all faults that are armed; what was done stays\n"
    "\n"
    "  port-down TARGET, port-up TARGET            programs get the event, traffic stops\n"
    "  lose-peer TARGET, restore-peer TARGET       traffic stops, nobody is told\n"
    "  remove-device TARGET, restore-device TARGET as if pulled out; programs open it anew\n"
    "  router-down ROUTER, router-up ROUTER\n"
    "  port-event TARGET --event EVENT             programs get the event, nothing changes: one of\n"
    "      lid-change, pkey-change, gid-change, sm-change, client-reregister, unknown\n"
    "  port-set HOST/DEVICE/PORT [--lid N] [--mtu BYTES] [--gid ADDRESS --index N]\n"
    "                                what it has from now on, with lid-change and gid-change\n"
    "      --after N     as the next message after N comes;  --from HOST[/DEVICE]: of this sender\n"
    "      --at TIME     so much later;  --for TIME: undone so much later\n"
    "\n"
    "  drop                          messages vanish\n"
    "  delay --by TIME               messages come later\n"
    "  qp-error                      its queue pair fails, as if the adapter had; the event says so\n"
    "  cq-error                      likewise its completion queue, and all queue pairs of that\n"
    "  qp-event --event EVENT        the event of its queue pair, and the message passes: one of\n"
    "      path-mig, path-mig-err, comm-est, sq-drained\n"
    "      --from HOST[/DEVICE]  of this sender;  --qp NUMBER: of this queue pair\n"
    "  rnr [TARGET]                  the receiver says that it is not ready\n"
    "  target-error [TARGET]         a DC target fails as a message comes, and its program hears of it\n"
    "  refuse-registration [TARGET]  ibv_reg_mr fails;  --error ENOMEM\n"
    "  refuse-dmabuf [TARGET]        ibv_reg_dmabuf_mr fails;  --error EOPNOTSUPP\n"
    "      --after N  the first N pass;  --count N: then so many are hit, and it is over\n"
    "      --share 1%  of them, at random;  --at TIME, --for TIME: from when, and how long\n"
    "\n"
    "Exit status: 0; 1 if it could not be done; 2 if it was not understood.\n";

static int advance(int count, char *const words[])
{
  static const struct rule rule = {.type = RULE_DURATION, .max = INT64_MAX};
  struct value value;
  char why[VALUE_WHY_MIN];
  if (count != 1) {
    complain("advance takes a time, as in advance 30s");
    return CTL_USAGE;
  }
  if (value_parse(&rule, words[0], &value, why, sizeof(why))) {
    complain("advance: %s", why);
    return CTL_USAGE;
  }
  if (fab->clock_kind != FAB_CLOCK_MANUAL) {
    complain("the clock of \"%s\" goes by itself; make the fabric with --clock manual", fab->name);
    return CTL_FAILED;
  }
  fab_clock_advance(value.number);
  return 0;
}

static int counters(int count, char *const words[])
{
  struct fab_target of = {0};
  if (count > 1) {
    complain("counters takes one target: HOST, HOST/DEVICE or HOST/DEVICE/PORT");
    return CTL_USAGE;
  }
  if (count && describe_target_words(words[0], &of))
    return CTL_USAGE;
  show_counters(&of);
  return 0;
}

static int show(int count, char *const words[])
{
  (void)words;
  if (count) {
    complain("show takes nothing more");
    return CTL_USAGE;
  }
  show_fabric();
  return 0;
}

static int clear(int count, char *const words[])
{
  (void)words;
  if (count) {
    complain("clear takes nothing more: it forgets all faults");
    return CTL_USAGE;
  }
  fab_fault_clear();
  return 0;
}

static int set_clock(int count, char *const words[])
{
  if (count == 1 && !fab_clock_set(fab, words[0])) {
    fab_kick_all();
    return 0;
  }
  complain("clock takes real, manual, or how many times as fast as real, as in 1000");
  return CTL_USAGE;
}

/* One of two words: 0 or 1, or -1 and a line on stderr. */
static int choose(int count, char *const words[], const char *no, const char *yes)
{
  if (count == 1 && (!strcmp(words[0], no) || !strcmp(words[0], yes)))
    return !strcmp(words[0], yes);
  complain("it is either %s or %s", no, yes);
  return -1;
}

static int set_engine(int count, char *const words[])
{
  int deferred = choose(count, words, "eager", "deferred");
  if (deferred < 0)
    return CTL_USAGE;
  fab->engine = deferred ? FAB_ENGINE_DEFERRED : FAB_ENGINE_EAGER;
  return 0;
}

static int set_strict(int count, char *const words[])
{
  int on = choose(count, words, "off", "on");
  if (on < 0)
    return CTL_USAGE;
  fab->strict = (uint32_t)on;
  return 0;
}

static const struct action {
  const char *name;
  int (*act)(int count, char *const words[]);
} actions[] = {
    {"show", show},       {"counters", counters}, {"advance", advance},   {"clear", clear},
    {"clock", set_clock}, {"engine", set_engine}, {"strict", set_strict},
};

static int unknown(const char *action)
{
  const char *names[32];
  size_t count = 0;
  for (size_t i = 0; i < COUNT(actions); i++)
    names[count++] = actions[i].name;
  for (size_t i = 0; describe_fault_names[i]; i++)
    names[count++] = describe_fault_names[i];
  const char *near = nearest_name(action, names, count);
  if (near)
    complain("there is no action \"%s\"; did you mean \"%s\"?", action, near);
  else
    complain("there is no action \"%s\"; see penstock-simverbs ctl --help", action);
  return CTL_USAGE;
}

static bool is_fault(const char *word)
{
  for (size_t i = 0; describe_fault_names[i]; i++) {
    if (!strcmp(describe_fault_names[i], word))
      return true;
  }
  return false;
}

int ctl_main(int argc, char *argv[])
{
  if (argc > 1 && !strcmp(argv[1], "--help"))
    return fputs(help, stdout) < 0;
  if (argc < 3) {
    fputs(help, stderr);
    return CTL_USAGE;
  }
  const struct action *action = actions;
  while (action < actions + COUNT(actions) && strcmp(action->name, argv[2]))
    action++;
  bool known = action < actions + COUNT(actions);
  if (!known && !is_fault(argv[2]))
    return unknown(argv[2]);
  if (site_open(argv[1]))
    return CTL_FAILED;
  if (known)
    return action->act(argc - 3, argv + 3);
  return describe_fault_words(argv[2], argc - 3, argv + 3) ? CTL_USAGE : 0;
}
