/* SPDX-License-Identifier: Apache-2.0 */
/* `penstock bench`: what a transport and a memory do here, without a file. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "all_pairs.h"
#include "clock.h"
#include "commands.h"
#include "csv.h"
#include "log.h"
#include "pin.h"
#include "result.h"
#include "result_file.h"
#include "run.h"
#include "sessions.h"
#include "signals.h"
#include "statistics.h"

#define PARENT_NS (50 * NS_PER_MS) /* how often a child looks whether its parent lives */

struct bench {
  const struct command *command;
  const struct arguments *arguments;
  struct bench_plan plan;
  struct bench_setting setting;
  struct control_link *link; /* NULL: both ends are in this process */
  pid_t child;               /* the other end, when it was forked here; 0 */
  int child_fd;              /* where that says how to reach it, until it is connected to */
  FILE *table;
  struct json_object *result, *rows; /* NULL without --json; rows: and without --csv */
  struct bench_probe look;
  uint32_t measured, shared; /* rows; those whose threads lacked a CPU */
  uint32_t complete;         /* rows that no signal cut short */
  double cpu_least;
  bool is_whole, is_lonely; /* all was measured; the other end has gone */
  int status;
};

static void bench_cmd_note_failure(struct bench *bench, const struct pst_error *error)
{
  app_finding_add_error(app_result_errors(bench->result), error, bench->arguments);
  bench->status = app_finding_worse(bench->status,
                                    error->exit_status != 0 ? error->exit_status : PST_EXIT_FAILED);
}

/* ---- Before the first case --------------------------------------------------------- */

static int bench_cmd_look_at_transport(struct bench *bench)
{
  struct pst_error error = PST_ERROR_INIT;
  int rc = bench_probe(&bench->plan, &bench->setting, bench->result, &bench->look, &error);

  if (rc < 0)
    bench_cmd_note_failure(bench, &error);
  return rc;
}

/* ---- The cases ----------------------------------------------------------------------- */

static void bench_cmd_add_row(struct bench *bench, const struct bench_row *row)
{
  struct json_object *object, *errors;

  if (!bench->rows)
    return;
  object = bench_row_json(row, bench->measured);
  if (json_object_object_get_ex(object, "errors", &errors))
    app_result_add_errors(bench->result, errors);
  json_object_array_add(bench->rows, object);
}

/* False: no other can follow. */
static bool bench_cmd_run_case(struct bench *bench, const struct bench_case *c)
{
  struct bench_row *row = calloc(1, sizeof(*row));
  bool alive = true;

  if (!row) {
    struct pst_error error = PST_ERROR_INIT;
    app_log_fail(&error, PST_EXIT_FAILED, -ENOMEM, "bench: out of memory");
    bench_cmd_note_failure(bench, &error);
    return false;
  }
  row->c = *c;
  row->cpu_share = -1;
  if (bench->plan.in_process)
    bench_run_here(&bench->plan, row);
  else
    alive = bench_run_with(bench->link, &bench->plan, row);
  if (!row->unreachable)
    bench_show_row(bench->table, row);
  if (row->error[0] != '\0') {
    if (!row->unreachable) /* else it has been logged */
      app_log(PST_LOG_ERROR, "bench: %s %s of %" PRIu64 " B: %s", bench_op_name(c->op),
              bench_measure_name(c->measure), c->size, row->error);
    bench->status = app_finding_worse(bench->status,
                                      row->exit_status != 0 ? row->exit_status : PST_EXIT_FAILED);
  }
  bench_cmd_add_row(bench, row);
  bench->is_lonely = !alive;
  alive = alive && !row->unreachable;
  bench->measured++;
  bench->complete += !row->stopped;
  if (row->cpu_share >= 0 && row->cpu_share < STATISTICS_CPU_FULL) {
    if (bench->shared++ == 0 || row->cpu_share < bench->cpu_least)
      bench->cpu_least = row->cpu_share;
  }
  free(row);
  return alive;
}

static void bench_cmd_note_stopped(struct bench *bench, uint32_t all)
{
  struct pst_error error = PST_ERROR_INIT;

  app_log_fail(&error, PST_EXIT_FAILED, -EINTR,
               "bench: stopped by %s after %" PRIu32 " of %" PRIu32 " measurements; give fewer of "
               "--size and --op, or a shorter --duration",
               app_signals_name(), bench->complete, all);
  bench_cmd_note_failure(bench, &error);
}

static bool bench_cmd_is_measured(const struct bench *bench, enum bench_op op,
                                  enum bench_measure measure)
{
  return (bench->look.ops & 1u << op) != 0 && (bench->plan.measures & measure) != 0 &&
         !(op == BENCH_SEND && measure == MEASURE_LATENCY && bench->look.no_send_latency);
}

/* All sizes of one kind. False: no other can follow. */
static bool bench_cmd_run_sizes(struct bench *bench, enum bench_op op, enum bench_measure measure)
{
  const struct bench_plan *plan = &bench->plan;
  struct bench_case c;

  for (uint32_t i = 0; i < plan->size_count && !app_signals_stop(); i++) {
    bench_case_make(plan, &bench->look, op, measure, plan->sizes[i], &c);
    if (i == 0)
      bench_show_title(bench->table, &c);
    if (!bench_cmd_run_case(bench, &c))
      return false;
  }
  return true;
}

static void bench_cmd_run_cases(struct bench *bench)
{
  uint32_t all = 0;
  bool goes_on = true;

  for (enum bench_op op = BENCH_SEND; op < BENCH_OPS; op = (enum bench_op)(op + 1)) {
    for (uint32_t measure = MEASURE_BANDWIDTH; measure <= MEASURE_LATENCY; measure++) {
      if (!bench_cmd_is_measured(bench, op, (enum bench_measure)measure))
        continue;
      all += bench->plan.size_count;
      goes_on = goes_on && bench_cmd_run_sizes(bench, op, (enum bench_measure)measure);
    }
  }
  bench->is_whole = goes_on && bench->complete == all;
  if (goes_on && !bench->is_whole)
    bench_cmd_note_stopped(bench, all);
}

/* ---- The end that measures ----------------------------------------------------------------------
 */

/* Address and secret that the child passes to its parent: where the child listens, and the token by
 * which it knows the parent. */
struct invitation {
  uint16_t port;
  char token[BENCH_TOKEN_MAX];
};

/* Nobody reads from it any more. */
static bool bench_cmd_is_deserted(int fd)
{
  struct pollfd event = {.fd = fd};

  return poll(&event, 1, 0) > 0 && (event.revents & POLLERR);
}

/* Serves this process's parent alone, as long as the parent has its end of the pipe. */
static void bench_cmd_serve_parent(struct bench *bench, struct control_link_server *server, int fd,
                                   const char *token)
{
  int rc = -EACCES;

  while (rc == -EACCES) {
    struct control_link *link;
    if (bench_link_take(server, PARENT_NS, &link) < 0) {
      if (bench_cmd_is_deserted(fd))
        break;
      continue;
    }
    snprintf(link->peer, sizeof(link->peer), "process %ld", (long)getppid());
    rc = bench_serve(link, &bench->plan, token, 0, bench->plan.cpus[1]);
    bench_link_close(link);
  }
}

static int bench_cmd_serve_as_child(struct bench *bench, int fd)
{
  const struct sigaction ignore = {.sa_handler = SIG_IGN};
  struct pst_error error = PST_ERROR_INIT;
  struct invitation invitation = {.port = 0};
  struct control_link_server server;

  /* ^C is the parent's, which ends us by leaving. */
  sigaction(SIGINT, &ignore, NULL);
  sigaction(SIGTERM, &ignore, NULL);
  sigaction(SIGHUP, &ignore, NULL);
  if (pin_thread(bench->plan.cpus[1]) < 0)
    return PST_EXIT_UNAVAILABLE; /* its parent says why */
  int rc = bench_link_listen("bench", "127.0.0.1:0", 0, NULL, bench->plan.cpus[1], &server, &error);
  if (rc == 0) {
    bench_case_make_token(invitation.token);
    invitation.port = pst_node_port(server.node);
    bool is_told = write(fd, &invitation, sizeof(invitation)) == sizeof(invitation);
    bench_choose_sender(&bench->plan);
    if (is_told)
      bench_cmd_serve_parent(bench, &server, fd, invitation.token);
  }
  bench_link_unlisten(&server);
  return rc < 0 ? error.exit_status : PST_EXIT_OK;
}

/* Before any plugin or thread: what another thread had locked would stay so in the child. Returns
 * in both: *child_status is the child's, else -1. */
static int bench_cmd_fork_server(struct bench *bench, int *child_status)
{
  int ends[2];

  *child_status = -1;
  if (pipe2(ends, O_CLOEXEC) < 0)
    return -errno;
  pid_t pid = fork();
  if (pid < 0) {
    int code = -errno;
    close(ends[0]);
    close(ends[1]);
    return code;
  }
  if (pid == 0) {
    close(ends[0]);
    *child_status = bench_cmd_serve_as_child(bench, ends[1]);
    return 0;
  }
  close(ends[1]);
  bench->child = pid;
  bench->child_fd = ends[0];
  return 0;
}

/* Connects to the child; a child that could not listen has logged why. */
static int bench_cmd_connect_child(struct bench *bench, struct pst_error *error)
{
  struct invitation invitation;
  char address[32];

  ssize_t got = read(bench->child_fd, &invitation, sizeof(invitation));
  if (got != sizeof(invitation))
    return app_log_fail(error, PST_EXIT_FAILED, -ECONNRESET,
                        "bench: the receiving process, %ld, ended before it listened",
                        (long)bench->child);
  memcpy(bench->setting.token, invitation.token, sizeof(bench->setting.token));
  snprintf(address, sizeof(address), "127.0.0.1:%u", invitation.port);
  int rc = bench_link_connect("bench", address, 0, NULL, bench->plan.cpus[0], &bench->link, error);
  if (rc == 0)
    snprintf(bench->link->peer, sizeof(bench->link->peer), "process %ld", (long)bench->child);
  return rc;
}

static void bench_cmd_bury_child(struct bench *bench)
{
  struct pst_error error = PST_ERROR_INIT;
  int status = 0;

  if (bench->child == 0)
    return;
  close(bench->child_fd);
  while (waitpid(bench->child, &status, 0) < 0 && errno == EINTR)
    ;
  if (!WIFSIGNALED(status))
    return;
  app_log_fail(&error, PST_EXIT_FAILED, -ECONNRESET,
               "bench: the receiving process, %ld, was killed by signal %d", (long)bench->child,
               WTERMSIG(status));
  bench_cmd_note_failure(bench, &error);
}

static int bench_cmd_connect_server(struct bench *bench)
{
  struct pst_error error = PST_ERROR_INIT;
  int rc = 0;

  bench->setting.form = "threads";
  snprintf(bench->setting.server, sizeof(bench->setting.server), "another thread of this process");
  if (bench->plan.in_process)
    return 0;
  bench->setting.form = bench->plan.host ? "hosts" : "processes";
  if (bench->plan.host)
    rc = bench_link_connect("bench", bench->plan.host, BENCH_PORT, &bench->plan.access,
                            bench->plan.cpus[0], &bench->link, &error);
  else
    rc = bench_cmd_connect_child(bench, &error);
  if (rc == 0)
    rc = bench_greet(bench->link, &bench->plan, &bench->setting, &error);
  if (rc < 0)
    bench_cmd_note_failure(bench, &error);
  return rc;
}

/* A server elsewhere is not troubled with what cannot be opened here. One of our own
 * waits for its greeting, and opening what is large takes long. */
static int bench_cmd_open_both(struct bench *bench)
{
  int rc = bench->child != 0 ? bench_cmd_connect_server(bench) : bench_cmd_look_at_transport(bench);

  if (rc == 0)
    rc = bench->child != 0 ? bench_cmd_look_at_transport(bench) : bench_cmd_connect_server(bench);
  return rc;
}

static void bench_cmd_begin_result(struct bench *bench)
{
  app_environment_read(&bench->setting.environment);
  if (bench->arguments->json)
    bench->result = app_result_new(bench->command, bench->arguments, NULL);
  if (bench->result || bench->arguments->bench[BENCH_CSV])
    bench->rows = json_object_new_array();
  if (bench->result)
    json_object_object_add(bench->result, "rows", json_object_get(bench->rows));
}

/* Without what bench_cmd_open_both() finds out, on another thread. */
static void bench_cmd_add_interrupted(void *context, struct json_object *result)
{
  const struct bench *bench = context;
  const struct bench_setting setting = {.plan = &bench->plan,
                                        .warmup_ns = bench_plan_warmup(&bench->plan)};

  json_object_object_add(result, "bench", bench_setting_json(&setting, "signal"));
}

static void bench_cmd_end_result(struct bench *bench)
{
  const char *csv = bench->arguments->bench[BENCH_CSV];

  if (csv && bench->rows && bench_csv_write(bench->rows, csv) < 0)
    bench->status = app_finding_worse(bench->status, PST_EXIT_FAILED);
  json_object_put(bench->rows);
  bench->rows = NULL;
  if (!bench->arguments->json)
    return;
  if (bench->result) {
    const char *stopped = bench->is_whole      ? "source_end"
                          : app_signals_stop() ? "signal"
                          : bench->is_lonely   ? "peer"
                                               : "failure";
    json_object_object_add(bench->result, "bench", bench_setting_json(&bench->setting, stopped));
  }
  bench->status = app_result_conclude(bench->result, bench->arguments->json, bench->status);
}

static void bench_cmd_run_client(struct bench *bench)
{
  app_result_interrupted(bench_cmd_add_interrupted, bench);
  bench_cmd_begin_result(bench);
  bench->setting.plan = &bench->plan;
  bench->setting.warmup_ns = bench_plan_warmup(&bench->plan);
  /* The other end's first, where that is here. */
  if ((!bench->plan.host && bench_pin(bench->plan.cpus[1]) < 0) ||
      bench_pin(bench->plan.cpus[0]) < 0)
    bench->status = PST_EXIT_UNAVAILABLE; /* it has said why */
  else if (bench_cmd_open_both(bench) == 0) {
    bench_show_head(bench->table, &bench->setting);
    fputs(bench->look.notes, bench->table);
    bench_cmd_run_cases(bench);
    if (bench->shared > 0)
      bench_show_shared(bench->table, bench->shared, bench->measured, bench->cpu_least);
  }
  /* Tells a server that waits for the next case that there is none. One in the middle of a case
   * would not read that. */
  if (bench->link && !bench->is_lonely)
    bench_link_send(bench->link, bench_link_object("goodbye", json_object_new_boolean(true)));
  bench_link_close(bench->link);
  bench_cmd_bury_child(bench);
  bench_cmd_end_result(bench);
}

/* The command: a rank, a server, both ends in one process, or a client, which forks a server if no
 * host is given. Returns the exit status. */
static int bench_cmd_run(const struct command *command, const struct arguments *arguments)
{
  struct bench bench = {.command = command, .arguments = arguments};
  const char *csv = arguments->bench[BENCH_CSV];
  bool json_out = arguments->json && strcmp(arguments->json, "-") == 0;
  bool csv_out = csv && strcmp(csv, "-") == 0;
  int child_status = -1;

  bench.table = json_out || csv_out ? stderr : stdout;
  if (json_out && csv_out) {
    app_arguments_wrong(command, "--json - and --csv - would be mixed; name a file for one");
    return PST_EXIT_USAGE;
  }
  if (bench_plan_read(command, arguments, &bench.plan) < 0) {
    bench_plan_free(&bench.plan);
    return PST_EXIT_USAGE;
  }
  app_log_begin(arguments, PST_LOG_ERROR);
  for (size_t i = 0; i < arguments->plugin_path_count; i++)
    pst_plugin_path_add(arguments->plugin_paths[i]);
  int rc = app_signals_open(-1);
  if (rc == 0 && !bench.plan.server && !bench.plan.in_process && !bench.plan.host &&
      !bench.plan.all_pairs)
    rc = bench_cmd_fork_server(&bench, &child_status);
  if (rc == 0 && child_status < 0)
    rc = app_result_watch();
  if (rc < 0) {
    app_log(PST_LOG_ERROR, "bench: cannot begin: %s", strerror(-rc));
    bench.status = PST_EXIT_FAILED;
  } else if (child_status >= 0) {
    bench.status = child_status;
  } else if (bench.plan.all_pairs) {
    bench.status = bench_all_pairs(command, arguments, &bench.plan);
  } else if (bench.plan.server) {
    bench_choose_sender(&bench.plan);
    bench.status =
        bench_pin(bench.plan.cpus[0]) < 0 ? PST_EXIT_UNAVAILABLE : bench_server(&bench.plan);
  } else {
    if (bench.plan.ops == 0 || (bench.plan.ops & 1u << BENCH_SEND) != 0)
      bench_choose_sender(&bench.plan);
    bench_cmd_run_client(&bench);
  }
  bench_plan_free(&bench.plan);
  return bench.status;
}

const struct command app_command_bench = {
    .name = "bench",
    .operand = "HOST",
    .need = OPERAND_OPTIONAL,
    .forks = true,
    .options = OPTION_BENCH | OPTION_TLS | OPTION_JSON | OPTION_PLUGIN_PATH | OPTION_QUIET |
               OPTION_VERBOSE,
    .summary = "measure rates and latency of a transport and a memory",
    .help =
        "Measures message rate, bandwidth and latency of a transport. Without HOST both ends are on\n"
        "this host: two processes, or with --in-process two threads. With HOST[:PORT] the other end is\n"
        "there, started by `penstock bench --server [ADDRESS][:PORT]`. The server needs the same\n"
        "--transport; the client decides everything else. Either may start first. The table goes to\n"
        "standard output. ^C before its last row ends with status 1.\n"
        "\n"
        "With --all-pairs a launcher (srun, mpirun) starts the command once for each rank. The ranks\n"
        "find each other by PMIx or by --exchange, and each pair of ranks is measured in both\n"
        "directions. Rank 0 prints the matrix. A job measures one size (default: 1MiB) and one\n"
        "operation (default: send): its bandwidth, or with --latency its latency.\n"
        "\n"
        "Examples:\n"
        "  penstock bench --transport loopback --memory host\n"
        "      Measures what this machine does between two processes.\n"
        "  penstock bench --transport loopback --memory host --size 1462 --bandwidth --cpu 0,1\n"
        "      Measures one size, with each end on a CPU of its own.\n"
        "  penstock bench --transport loopback --memory host --op write,read --depth 16 --verify\n"
        "      Measures WRITE and READ, 16 under way at a time, and checks every byte.\n"
        "  penstock bench --server --transport loopback --memory host\n"
        "  penstock bench --transport loopback --memory host 127.0.0.1\n"
        "      Measures between a server and a client, here on one host.\n"
        "  srun --mpi=pmix penstock bench --all-pairs --insecure --transport verbs_rc --memory "
        "cuda \\\n"
        "    --endpoint address=ib0\n"
        "      Measures each pair of ranks, and names slow ranks and links.",
    .is_silent = bench_all_pairs_is_silent,
    .run = bench_cmd_run,
};
