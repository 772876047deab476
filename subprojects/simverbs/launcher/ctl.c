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
    "Shows or changes a running fabric. FABRIC is its name, the FILE.yaml that describes it, or\n"
    "\".\": the fabric of the launcher around. TARGET is HOST, HOST/DEVICE or HOST/DEVICE/PORT.\n"
    "\n"
    "State and time:\n"
    "  show                          hosts, ports, processes, faults, time\n"
    "  counters [TARGET]             what was sent, what was lost, and why\n"
    "  advance TIME                  move a manual clock on, as in advance 30s, after all work\n"
    "                                that is due\n"
    "  clock real|manual|FACTOR      FACTOR: that many times as fast as real\n"
    "  engine eager|deferred         run work in the call that posts it, or on another thread\n"
    "  strict on|off                 report mistakes that hardware punishes only later\n"
    "  settle                        wait until all that was posted is done\n"
    "  clear                         disarm all faults; what they have done stays\n"
    "\n"
    "Ports, peers, devices and routers:\n"
    "  port-down TARGET, port-up TARGET            traffic stops or goes on; programs get the event\n"
    "  lose-peer TARGET, restore-peer TARGET       traffic stops or goes on; no event\n"
    "  remove-device TARGET, restore-device TARGET as if pulled out; programs must open it again\n"
    "  router-down ROUTER, router-up ROUTER        packets through it are lost, or pass again\n"
    "  port-event TARGET --event EVENT             programs get the event; nothing else changes.\n"
    "      EVENT: lid-change, pkey-change, gid-change, sm-change, client-reregister, unknown\n"
    "  port-set HOST/DEVICE/PORT [--lid N] [--mtu BYTES] [--gid ADDRESS --index N]\n"
    "                                              set these; programs get lid-change, gid-change\n"
    "  When, for each of these:\n"
    "      --after N             with the next message after N messages\n"
    "      --from HOST[/DEVICE]  count only messages of this sender\n"
    "      --at TIME             TIME from now\n"
    "      --for TIME            undo it after TIME\n"
    "\n"
    "Messages and queue pairs:\n"
    "  drop                          messages vanish\n"
    "  delay --by TIME               messages arrive later\n"
    "  qp-error                      the sender's queue pair fails as by an adapter's error\n"
    "  cq-error                      the sender's completion queue fails, and all queue pairs on it\n"
    "  qp-event --event EVENT        the sender's queue pair gets the event; the message passes.\n"
    "      EVENT: path-mig, path-mig-err, comm-est, sq-drained\n"
    "  rnr [TARGET]                  the receiver answers that it is not ready\n"
    "  target-error [TARGET]         a DC target fails when a message arrives, with the event\n"
    "  refuse-registration [TARGET]  ibv_reg_mr fails; --error ENOMEM\n"
    "  refuse-dmabuf [TARGET]        ibv_reg_dmabuf_mr fails; --error EOPNOTSUPP\n"
    "  Which messages or calls, for each of these:\n"
    "      --from HOST[/DEVICE]  of this sender (drop, delay, qp-error, cq-error, qp-event)\n"
    "      --qp NUMBER           of this queue pair (all but refuse-*)\n"
    "      --after N             let the first N pass\n"
    "      --count N             hit N, then disarm\n"
    "      --share 1%            hit this share, at random\n"
    "      --at TIME             begin TIME from now\n"
    "      --for TIME            disarm after TIME\n"
    "\n"
    "Exit status: 0 done, 1 it could not be done, 2 wrong usage.\n";

static int ctl_advance(int count, char *const words[])
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

static int ctl_counters(int count, char *const words[])
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

static int ctl_show(int count, char *const words[])
{
  (void)words;
  if (count) {
    complain("show takes nothing more");
    return CTL_USAGE;
  }
  show_fabric();
  return 0;
}

static int ctl_clear(int count, char *const words[])
{
  (void)words;
  if (count) {
    complain("clear takes nothing more: it forgets all faults");
    return CTL_USAGE;
  }
  fab_fault_clear();
  return 0;
}

static int ctl_settle(int count, char *const words[])
{
  (void)words;
  if (count) {
    complain("settle takes nothing more");
    return CTL_USAGE;
  }
  return fab_await_answers() ? 0 : CTL_FAILED;
}

static int ctl_set_clock(int count, char *const words[])
{
  if (count == 1 && !fab_clock_set(fab, words[0])) {
    fab_kick_all();
    return 0;
  }
  complain("clock takes real, manual, or how many times as fast as real, as in 1000");
  return CTL_USAGE;
}

/* One of two words: 0 or 1, or -1 and a line on stderr. */
static int ctl_choose(int count, char *const words[], const char *no, const char *yes)
{
  if (count == 1 && (!strcmp(words[0], no) || !strcmp(words[0], yes)))
    return !strcmp(words[0], yes);
  complain("it is either %s or %s", no, yes);
  return -1;
}

static int ctl_set_engine(int count, char *const words[])
{
  int deferred = ctl_choose(count, words, "eager", "deferred");
  if (deferred < 0)
    return CTL_USAGE;
  fab->engine = deferred ? FAB_ENGINE_DEFERRED : FAB_ENGINE_EAGER;
  return 0;
}

static int ctl_set_strict(int count, char *const words[])
{
  int on = ctl_choose(count, words, "off", "on");
  if (on < 0)
    return CTL_USAGE;
  fab->strict = (uint32_t)on;
  return 0;
}

static const struct action {
  const char *name;
  int (*act)(int count, char *const words[]);
} actions[] = {
    {"show", ctl_show},         {"counters", ctl_counters}, {"advance", ctl_advance},
    {"clear", ctl_clear},       {"clock", ctl_set_clock},   {"engine", ctl_set_engine},
    {"strict", ctl_set_strict}, {"settle", ctl_settle},
};

static int ctl_unknown(const char *action)
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

static bool ctl_is_fault(const char *word)
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
  if (!known && !ctl_is_fault(argv[2]))
    return ctl_unknown(argv[2]);
  if (site_open(argv[1]))
    return CTL_FAILED;
  if (known)
    return action->act(argc - 3, argv + 3);
  return describe_fault_words(argv[2], argc - 3, argv + 3) ? CTL_USAGE : 0;
}
