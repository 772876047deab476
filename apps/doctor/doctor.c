/* SPDX-License-Identifier: Apache-2.0 */
/* `penstock doctor`: which step of bringing up this machine is missing? */
#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "doctor.h"
#include "finding.h"
#include "host/topology.h"
#include "json_put.h"
#include "log.h"
#include "plain_text.h"
#include "result.h"
#include "result_file.h"

#define INDENT "                   "

static const char *const areas[] = {"host", "adapter", "gpu",  "pair",
                                    "dpdk", "ucx",     "igpu", "time"};
#define AREAS (sizeof(areas) / sizeof(areas[0]))

/* ---- Which checks run -------------------------------------------------------------------------
 */

/* Returns what this machine has, as needs; with --for, the file's needs are used instead. */
static uint32_t doctor_has(const struct doctor *doctor)
{
  uint32_t has = NEED_PINNED | NEED_HUGE | NEED_DPDK | NEED_UCX;

  has |= doctor->rdmas.count > 0 ? NEED_RDMA : 0;
  for (size_t i = 0; i < doctor->gpus.count; i++)
    has |= doctor->gpus.all[i].is_integrated ? NEED_IGPU : NEED_GPU;
  return has;
}

static bool doctor_runs(const struct doctor *doctor, const struct doctor_check *check,
                        const char *area)
{
  uint32_t asked = doctor->required.file ? doctor->required.needs : ~0u;

  /* Ports of the transport ethernet may be RDMA devices, too. */
  if (strcmp(check->id, "link-type") == 0 && (asked & NEED_DPDK) != 0)
    asked |= NEED_RDMA;
  if (area && strcmp(area, check->area) != 0)
    return false;
  /* Without an adapter nothing is pinned. */
  if ((check->needs & NEED_PINNED) != 0 && doctor->rdmas.count == 0)
    return false;
  /* A stream needs no check of the area `time`, and none of a device that it does not name. */
  if (doctor->required.file && check->needs == 0 && strcmp(check->area, "host") != 0 &&
      !(strcmp(check->area, "igpu") == 0 && doctor_is_asked(doctor, NEED_IGPU)) &&
      !(strcmp(check->id, "adapter-driver") == 0 && doctor_is_asked(doctor, NEED_RDMA)))
    return false;
  return (check->needs & ~(doctor_has(doctor) & asked)) == 0;
}

static void doctor_run_table(struct doctor *doctor, const struct doctor_check *checks, size_t count,
                             const char *area)
{
  for (size_t i = 0; i < count; i++)
    if (doctor_runs(doctor, &checks[i], area)) {
      doctor->check = &checks[i];
      checks[i].look(doctor);
    }
}

/* Adds a finding for each thing that --for or --area asks for and this machine has not. */
static void doctor_add_absent(struct doctor *doctor, const char *area)
{
  static const struct {
    uint32_t need;
    struct doctor_check check;
    const char *text, *where, *remedy;
  } absent[] = {
      {NEED_RDMA,
       {"adapter-here", "adapter", NULL, 0, NULL},
       "no RDMA device is here",
       "sys/class/infiniband",
       "for a soft one: sudo rdma link add rxe0 type rxe netdev NETDEV"},
      {NEED_GPU,
       {"gpu-here", "gpu", NULL, 0, NULL},
       "no GPU of NVIDIA is here",
       "sys/bus/pci/devices",
       "in a container start it with --gpus all, in a pod with a resource nvidia.com/gpu"},
  };

  for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
    const bool asked = doctor_is_asked(doctor, absent[i].need) ||
                       (area && strcmp(area, absent[i].check.area) == 0);
    if (!asked || (doctor_has(doctor) & absent[i].need) != 0 ||
        (area && strcmp(area, absent[i].check.area) != 0))
      continue;
    const struct doctor_finding finding = {
        .verdict = DOCTOR_ABSENT, .where = absent[i].where, .remedy = absent[i].remedy};
    doctor->check = &absent[i].check;
    doctor_add(doctor, &finding, "%s", absent[i].text);
  }
}

/* Devices that streams name, and no adapter is. */
static void doctor_add_unnamed(struct doctor *doctor, const char *area)
{
  static const struct doctor_check check = {"adapter-here", "adapter", NULL, 0, NULL};

  if (doctor->rdmas.count == 0 || (area && strcmp(area, "adapter") != 0))
    return;
  for (size_t i = 0; i < doctor->required.device_count; i++) {
    const struct doctor_finding finding = {.verdict = DOCTOR_ABSENT,
                                           .subject = doctor->required.devices[i],
                                           .where = "sys/class/infiniband",
                                           .remedy =
                                               "`penstock plugins verbs_rc` lists the devices"};
    if (doctor_has_rdma(doctor, doctor->required.devices[i]))
      continue;
    doctor->check = &check;
    doctor_add(doctor, &finding, "no RDMA device has this name or address");
  }
}

static void doctor_run_checks(struct doctor *doctor, const char *area)
{
  doctor_run_table(doctor, doctor_host_checks, doctor_host_check_count, area);
  doctor_add_absent(doctor, area);
  doctor_add_unnamed(doctor, area);
  doctor_run_table(doctor, doctor_adapter_checks, doctor_adapter_check_count, area);
  doctor_run_table(doctor, doctor_network_checks, doctor_network_check_count, area);
  doctor_run_table(doctor, doctor_gpu_checks, doctor_gpu_check_count, area);
  doctor_run_table(doctor, doctor_software_checks, doctor_software_check_count, area);
}

/* ---- Output -----------------------------------------------------------------------------------
 */

static void doctor_print_finding(FILE *to, const struct doctor_finding *finding, bool in_full)
{
  app_print_line(to, "  %-11s  %-16s %s%s%s%s%s", doctor_verdict_name(finding->verdict),
                 finding->check, finding->subject ? finding->subject : "",
                 finding->subject ? ": " : "", finding->read ? finding->read : "?",
                 finding->why ? ": " : "", finding->why ? finding->why : "");
  if (in_full && finding->where)
    app_print_line(to, INDENT "           read: %s", finding->where);
  if (finding->remedy)
    app_print_line(to, INDENT "           remedy: %s%s", finding->remedy,
                   finding->is_lost ? " (lost at reboot)" : "");
}

/* By area, in the order of the checks; what is ok in one line for each check, unless --verbose. */
static void doctor_print(FILE *to, const struct doctor *doctor, bool is_quiet, bool in_full)
{
  uint32_t counts[DOCTOR_VERDICTS] = {0};

  for (size_t area = 0; area < AREAS; area++) {
    bool heads = true;
    for (size_t i = 0; i < doctor->count; i++) {
      const struct doctor_finding *finding = &doctor->findings[i];
      if (strcmp(finding->area, areas[area]) != 0)
        continue;
      counts[finding->verdict]++;
      if (is_quiet && finding->verdict == DOCTOR_OK)
        continue;
      if (heads)
        fprintf(to, "%s\n", areas[area]);
      heads = false;
      doctor_print_finding(to, finding, in_full);
    }
  }
  if (doctor->rdmas.count == 0 && !doctor->required.file)
    fprintf(to, "no RDMA adapter is here: streams use loopback, udp, ethernet or ucx\n");
  if (doctor->gpus.count == 0 && !doctor->required.file)
    fprintf(to, "no GPU of NVIDIA is here: streams use memory host\n");
  fprintf(to, "ok %u, warning %u, fails %u, cannot tell %u, not here %u\n", counts[DOCTOR_OK],
          counts[DOCTOR_WARNING], counts[DOCTOR_FAILS], counts[DOCTOR_UNKNOWN],
          counts[DOCTOR_ABSENT]);
}

static struct json_object *doctor_findings_json(const struct doctor *doctor)
{
  struct json_object *list = json_object_new_array();

  for (size_t i = 0; i < doctor->count; i++) {
    const struct doctor_finding *finding = &doctor->findings[i];
    struct json_object *object = json_object_new_object();
    app_json_put_text(object, "check", finding->check);
    app_json_put_text(object, "area", finding->area);
    app_json_put_text(object, "subject", finding->subject);
    app_json_put_text(object, "verdict", doctor_verdict_name(finding->verdict));
    app_json_put_text(object, "read", finding->read);
    app_json_put_text(object, "where", finding->where);
    app_json_put_text(object, "why", finding->why);
    app_json_put_text(object, "remedy", finding->remedy);
    app_json_put_bool(object, "lost_at_reboot", finding->is_lost);
    json_object_array_add(list, object);
  }
  return list;
}

static struct json_object *doctor_json(const struct doctor *doctor, const char *root,
                                       const char *area)
{
  struct json_object *object = json_object_new_object(), *counts = json_object_new_object();

  app_json_put_text(object, "root", root);
  app_json_put_text(object, "for", doctor->required.file);
  app_json_put_text(object, "area", area);
  for (int verdict = 0; verdict < DOCTOR_VERDICTS; verdict++) {
    uint64_t count = 0;
    for (size_t i = 0; i < doctor->count; i++)
      count += doctor->findings[i].verdict == (enum doctor_verdict)verdict;
    app_json_put_uint(counts, doctor_verdict_name((enum doctor_verdict)verdict), count);
  }
  json_object_object_add(object, "counts", counts);
  return object;
}

/* ---- Running ----------------------------------------------------------------------------------
 */

/* Something that fails is 1; what was asked for and is not here, or cannot be told without more
 * privilege, is 3. */
static int doctor_status(const struct doctor *doctor, bool is_asked)
{
  int status = PST_EXIT_OK;

  for (size_t i = 0; i < doctor->count; i++) {
    const enum doctor_verdict verdict = doctor->findings[i].verdict;
    if (verdict == DOCTOR_FAILS)
      return PST_EXIT_FAILED;
    if (verdict == DOCTOR_ABSENT ||
        (is_asked && verdict == DOCTOR_UNKNOWN && !doctor->findings[i].is_beyond))
      status = PST_EXIT_UNAVAILABLE;
  }
  return status;
}

static int doctor_record(struct doctor *doctor, const char *folder)
{
  char why[HOST_WHY_BYTES] = "";

  if (host_record(doctor->host, folder, why) < 0) {
    app_log(PST_LOG_ERROR, "doctor: --record: %s", why);
    return PST_EXIT_FAILED;
  }
#ifdef HAVE_HWLOC
  const int rc = host_topology_record(doctor->host, folder);
  if (rc < 0) {
    app_log(PST_LOG_ERROR, "doctor: --record: %s/penstock/topology.xml: %s", folder, strerror(-rc));
    return PST_EXIT_FAILED;
  }
#endif
  return PST_EXIT_OK;
}

static int doctor_conclude(const struct doctor *doctor, const struct command *command,
                           const struct arguments *arguments, int status)
{
  const char *const *own = arguments->doctor;
  struct json_object *result = app_result_new(command, arguments, NULL);

  if (result) {
    json_object_object_add(result, "doctor",
                           doctor_json(doctor, arguments->topo[TOPO_ROOT], own[DOCTOR_AREA]));
    json_object_object_add(result, "findings", doctor_findings_json(doctor));
    for (size_t i = 0; i < doctor->count; i++) {
      const struct doctor_finding *finding = &doctor->findings[i];
      if (finding->verdict == DOCTOR_FAILS || (finding->verdict == DOCTOR_ABSENT && status == 3))
        app_finding_add(app_result_errors(result),
                        finding->verdict == DOCTOR_FAILS ? FINDING_FAILED : FINDING_UNAVAILABLE,
                        finding->check, finding->read);
    }
  }
  return app_result_conclude(result, arguments->json, status);
}

static void doctor_close(struct doctor *doctor)
{
  for (size_t i = 0; i < doctor->count; i++) {
    struct doctor_finding *finding = &doctor->findings[i];
    free((char *)(uintptr_t)finding->subject);
    free((char *)(uintptr_t)finding->where);
    free((char *)(uintptr_t)finding->why);
    free((char *)(uintptr_t)finding->remedy);
    free(finding->read);
  }
  free(doctor->findings);
  host_network_free(&doctor->network);
  host_gpu_free(&doctor->gpus);
  host_rdma_free(&doctor->rdmas);
  host_pci_free(&doctor->pcis);
  host_close(doctor->host);
}

static bool doctor_is_area(const char *area)
{
  for (size_t i = 0; i < AREAS; i++)
    if (strcmp(area, areas[i]) == 0)
      return true;
  return false;
}

/* A card that the kernel's mlx5_core has needs no huge pages, as in the plugin's own choice. */
static void doctor_ask_huge(struct doctor *doctor)
{
  struct doctor_requirements *required = &doctor->required;

  for (size_t i = 0; i < required->port_count; i++) {
    const struct host_pci *pci = host_pci_find(&doctor->pcis, required->ports[i]);
    if (!pci || strcmp(pci->driver, "mlx5_core") != 0)
      doctor_requirements_add_huge(required);
  }
}

/* Looks at the machine, checks, and writes what was found. The exit status. */
static int doctor_look(struct doctor *doctor, const struct command *command,
                       const struct arguments *arguments)
{
  const char *const *own = arguments->doctor;
  const bool on_stdout = arguments->json && strcmp(arguments->json, "-") == 0;
  int rc;

  host_pci_list(doctor->host, &doctor->pcis);
  host_rdma_list(doctor->host, &doctor->rdmas);
  host_gpu_list(doctor->host, &doctor->pcis, &doctor->gpus);
  host_network_read(doctor->host, &doctor->network);
  doctor_ask_huge(doctor);
  doctor_run_checks(doctor, own[DOCTOR_AREA]);
  doctor_print(on_stdout ? stderr : stdout, doctor, arguments->quiet, arguments->verbose > 0);
  rc = doctor_status(doctor, own[DOCTOR_FOR] || own[DOCTOR_AREA]);
  if (own[DOCTOR_RECORD])
    rc = app_finding_worse(rc, doctor_record(doctor, own[DOCTOR_RECORD]));
  return arguments->json ? doctor_conclude(doctor, command, arguments, rc) : rc;
}

/* The command line, the file of --for, then the machine. */
static int doctor_run(const struct command *command, const struct arguments *arguments)
{
  const char *const *own = arguments->doctor;
  struct doctor doctor = {0};
  char why[HOST_WHY_BYTES], meant[ARGUMENTS_MEANT_BYTES];

  if (own[DOCTOR_AREA] && !doctor_is_area(own[DOCTOR_AREA])) {
    app_arguments_wrong(
        command, "--area '%.40s' is not one of the areas%s", own[DOCTOR_AREA],
        app_arguments_meant(own[DOCTOR_AREA], areas, AREAS, "; did you mean '", meant));
    return PST_EXIT_USAGE;
  }
  if (own[DOCTOR_RECORD] && arguments->topo[TOPO_ROOT]) {
    app_arguments_wrong(command, "--record is of this machine: it excludes --root");
    return PST_EXIT_USAGE;
  }
  app_log_begin(arguments, PST_LOG_ERROR);
  int rc = doctor_requirements_read(&doctor.required, own[DOCTOR_FOR], arguments->plugin_paths,
                                    arguments->plugin_path_count);
  if (rc != 0)
    return rc;
  if (!(doctor.host = host_open(arguments->topo[TOPO_ROOT], why))) {
    app_arguments_wrong(command, "--root: %s", why);
    return PST_EXIT_USAGE;
  }
  rc = doctor_look(&doctor, command, arguments);
  doctor_close(&doctor);
  return rc;
}

const struct command app_command_doctor = {
    .name = "doctor",
    .options = OPTION_DOCTOR | OPTION_ROOT | OPTION_JSON | OPTION_PLUGIN_PATH | OPTION_QUIET |
               OPTION_VERBOSE,
    .summary = "check this machine for missing steps of its set-up",
    .help =
        "Checks what a machine needs before streams can use RDMA, DPDK, UCX or GPUs: kernel, IOMMU,\n"
        "locked memory, adapters, network, GPUs, the PCIe path between adapter and GPU, clocks. Each\n"
        "finding says what was read, and which command corrects it. Changes nothing and needs no\n"
        "privilege; a check that needs root says so. Ends with status 1 if something fails, and with 3\n"
        "if something that --for or --area asks for is not here or cannot be checked.\n"
        "\n"
        "Areas: host, adapter, gpu, pair, dpdk, ucx, igpu, time.\n"
        "\n"
        "Examples:\n"
        "  penstock doctor\n"
        "      Makes all checks for what this machine has.\n"
        "  penstock doctor --for camera.yaml --json -\n"
        "      Checks only what this file needs, and prints the result as JSON.\n"
        "  penstock doctor --record machine\n"
        "      Writes what was read to a folder, with labels in place of names and addresses. On another\n"
        "      machine `penstock doctor --root machine` checks it.",
    .run = doctor_run,
};
