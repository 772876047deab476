/* SPDX-License-Identifier: Apache-2.0 */
/* `penstock topo`: which adapter is near which GPU, and which CPUs are near both. */
#include <errno.h>
#include <json-c/json.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "atomic_file.h"
#include "commands.h"
#include "finding.h"
#include "log.h"
#include "result.h"
#include "result_file.h"
#include "show.h"

/* 0, or -errno, which is reported. */
static int topo_write_svg(const struct topo_machine *machine, const char *path,
                          struct pst_error *error)
{
  struct atomic_file output = ATOMIC_FILE_INIT;
  char *text = NULL;
  size_t length = 0;
  FILE *memory = open_memstream(&text, &length);
  int rc = memory ? 0 : -ENOMEM;

  if (memory) {
    topo_show_svg(machine, memory);
    rc = fclose(memory) == 0 ? 0 : -ENOMEM;
  }
  if (rc < 0)
    app_log_fail(error, PST_EXIT_FAILED, rc, "topo: out of memory");
  else
    rc = app_atomic_file_open(&output, "topo: --svg", path, ATOMIC_FILE_OVERWRITE, error);
  for (size_t done = 0; rc == 0 && done < length;) {
    const ssize_t part = write(output.fd, text + done, length - done);
    if (part < 0 && errno == EINTR)
      continue;
    if (part < 0)
      rc = app_log_fail(error, PST_EXIT_FAILED, -errno, "topo: --svg: %s: %s", path,
                        strerror(errno));
    else
      done += (size_t)part;
  }
  if (rc == 0)
    rc = app_atomic_file_commit(&output, "topo: --svg", error);
  app_atomic_file_discard(&output);
  free(text);
  return rc;
}

/* All that is shown. The machine is read once. */
static int topo_show(const struct arguments *arguments, const struct topo_machine *machine,
                     struct json_object *result, struct pst_error *error)
{
  const char *svg = arguments->topo[TOPO_SVG];

  if (result)
    json_object_object_add(result, "topo", topo_show_json(machine));
  if (!arguments->json || strcmp(arguments->json, "-") != 0)
    topo_show_text(machine, stdout);
  return svg ? topo_write_svg(machine, svg, error) : 0;
}

static int topo_run(const struct command *command, const struct arguments *arguments)
{
  struct pst_error error = PST_ERROR_INIT;
  struct topo_machine *machine = NULL;
  char why[TOPO_WHY_BYTES] = "";
  struct json_object *result = arguments->json ? app_result_new(command, arguments, NULL) : NULL;
  int rc = topo_machine_read(arguments->topo[TOPO_ROOT], &machine, why);

  if (rc < 0)
    app_log_fail(&error,
                 rc == -EOPNOTSUPP ? PST_EXIT_UNAVAILABLE
                 : rc == -ENOENT   ? PST_EXIT_USAGE
                                   : PST_EXIT_FAILED,
                 rc, "topo: %s", why);
  else
    rc = topo_show(arguments, machine, result, &error);
  if (rc < 0)
    app_finding_add_error(app_result_errors(result), &error, arguments);
  topo_machine_close(machine);
  const int status = rc < 0 ? error.exit_status : PST_EXIT_OK;
  return arguments->json ? app_result_conclude(result, arguments->json, status) : status;
}

const struct command app_command_topo = {
    .name = "topo",
    .options = OPTION_TOPO | OPTION_ROOT | OPTION_JSON,
    .summary = "show NUMA nodes, adapters, GPUs, and how near they are",
    .help =
        "Prints NUMA nodes with their CPUs, and network adapters and GPUs at their places in the PCI\n"
        "tree. Then it prints the distance of each adapter to each GPU (PIX, PXB, PHB, NODE or SYS, as\n"
        "`nvidia-smi topo -m`), and which adapter and CPUs to use for each GPU. Last come the addresses\n"
        "and neighbours of each port. Needs no GPU driver and no root, and changes nothing.\n"
        "\n"
        "Examples:\n"
        "  penstock topo\n"
        "      Prints the topology of this machine.\n"
        "  penstock topo --svg machine.svg --json machine.json\n"
        "      Also draws it as a picture, and writes it as JSON.",
    .run = topo_run,
};
