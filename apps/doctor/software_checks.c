/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of plugins and their libraries, and of the clock. */
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "doctor.h"

static struct json_object *software_member(struct json_object *object, const char *key)
{
  struct json_object *value = NULL;

  json_object_object_get_ex(object, key, &value);
  return value;
}

static bool software_is(struct json_object *plugin, const char *key, const char *text)
{
  const char *value = json_object_get_string(software_member(plugin, key));

  return value && strcmp(value, text) == 0;
}

/* Takes the plugin's own word for it. */
static void software_check_plugin(struct doctor *doctor, const char *kind, const char *name,
                                  uint32_t need)
{
  const char *why;
  struct json_object *facts = host_facts(doctor->host, "plugins", &why),
                     *list = software_member(facts, "plugins");
  struct doctor_finding finding = {.subject = name, .where = "penstock plugins"};
  const size_t count =
      json_object_is_type(list, json_type_array) ? json_object_array_length(list) : 0;

  if (!facts) {
    finding.verdict = DOCTOR_UNKNOWN;
    finding.why = why;
    doctor_add(doctor, &finding, "whether the plugin works here");
    return;
  }
  for (size_t i = 0; i < count; i++) {
    struct json_object *one = json_object_array_get_idx(list, i);
    const char *reason = json_object_get_string(software_member(one, "reason")),
               *remedy = json_object_get_string(software_member(one, "remedy"));
    if (!software_is(one, "kind", kind) || !software_is(one, "name", name))
      continue;
    if (json_object_get_boolean(software_member(one, "usable"))) {
      doctor_add(doctor, &finding, "the plugin works here");
      return;
    }
    finding.verdict = doctor_is_asked(doctor, need) ? DOCTOR_FAILS : DOCTOR_WARNING;
    finding.remedy = remedy && remedy[0] != '\0' ? remedy : "penstock plugins NAME says more";
    doctor_add(doctor, &finding, "%s", reason ? reason : "the plugin is not usable");
    return;
  }
  finding.verdict = doctor_is_asked(doctor, need) ? DOCTOR_ABSENT : DOCTOR_OK;
  finding.remedy = doctor_is_asked(doctor, need) ? "install the package of this plugin" : NULL;
  doctor_add(doctor, &finding, "the plugin is not installed");
}

static void software_check_dpdk(struct doctor *doctor)
{
  software_check_plugin(doctor, "transport", "ethernet", NEED_DPDK);
}

static void software_check_ucx(struct doctor *doctor)
{
  software_check_plugin(doctor, "transport", "ucx", NEED_UCX);
}

/* ---- Time -------------------------------------------------------------------------------------
 */

static void software_check_clock(struct doctor *doctor)
{
  const char *why;
  struct json_object *facts = host_facts(doctor->host, "clock", &why);
  struct doctor_finding finding = {.where = "adjtimex"};

  if (!facts) {
    finding.verdict = DOCTOR_UNKNOWN;
    finding.why = why;
    doctor_add(doctor, &finding, "whether the clock follows another");
    return;
  }
  const bool follows = json_object_get_boolean(software_member(facts, "synchronised"));
  if (!follows) {
    finding.verdict = DOCTOR_WARNING;
    finding.remedy = "sudo systemctl enable --now chrony";
  }
  doctor_add(doctor, &finding, "the system's clock is %s",
             follows ? "synchronised" : "not synchronised: times of two hosts do not compare");
}

/* A port with a clock of its own can follow a PTP master. */
static void software_check_ptp(struct doctor *doctor)
{
  const char *why;
  struct json_object *running = host_facts(doctor->host, "processes", &why);
  const bool ptp4l = json_object_get_boolean(software_member(running, "ptp4l")),
             phc2sys = json_object_get_boolean(software_member(running, "phc2sys"));
  struct doctor_finding finding = {.where = "netlink: ethtool, proc/*/comm"};
  const struct host_link *clock = NULL;

  for (size_t i = 0; i < doctor->network.link_count && !clock; i++)
    if (doctor->network.links[i].phc >= 0)
      clock = &doctor->network.links[i];
  if (!clock) {
    doctor_add(doctor, &finding, "no network device has a PTP clock");
    return;
  }
  finding.subject = clock->name;
  if (ptp4l && !phc2sys) {
    finding.verdict = DOCTOR_WARNING;
    finding.remedy = "sudo systemctl enable --now phc2sys";
    doctor_add(doctor, &finding,
               "ptp4l sets the clock ptp%d, but nothing sets the system's clock by that one",
               clock->phc);
    return;
  }
  doctor_add(doctor, &finding, "clock ptp%d; %s", clock->phc,
             ptp4l ? "ptp4l and phc2sys run" : "no ptp4l runs, which streams do without");
}

const struct doctor_check doctor_software_checks[] = {
    {"dpdk", "dpdk", "Does the transport ethernet work here?", NEED_DPDK, software_check_dpdk},
    {"ucx", "ucx", "Does the transport ucx work here?", NEED_UCX, software_check_ucx},
    {"clock", "time", "Does the system's clock follow another?", 0, software_check_clock},
    {"ptp", "time", "Does a PTP clock set the system's?", 0, software_check_ptp},
};
const size_t doctor_software_check_count =
    sizeof(doctor_software_checks) / sizeof(doctor_software_checks[0]);
