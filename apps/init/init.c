/* SPDX-License-Identifier: Apache-2.0 */
/* `penstock init`: a configuration for this machine, by what is asked on the terminal or told. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "atomic_file.h"
#include "commands.h"
#include "log.h"
#include "plan.h"
#include "util/printable.h"
#include "util/units.h"

const char *const init_kind_names[INIT_KINDS] = {"camera", "instrument", "receive", "send",
                                                 "loopback"};
const char *const init_kind_meanings[INIT_KINDS] = {
    "RTP from a camera, an encoder or ffmpeg", "UDP from a radio or another instrument",
    "From another host that runs Penstock", "To another host that runs Penstock",
    "Both ends on this host, to try out"};
const char *const init_transport_names[INIT_TRANSPORTS] = {"udp", "ethernet", "verbs_rc", "ucx",
                                                           "loopback"};

#define ANSWER_BYTES 512
#define MTU_LEAST 576 /* what each host of IPv4 takes (RFC 791) */
#define NAME_MOST 64

struct init {
  const struct arguments *arguments;
  struct init_plan plan;
  bool asks; /* both streams are a terminal */
  char kind[ANSWER_BYTES], from[ANSWER_BYTES], to[ANSWER_BYTES], peer[ANSWER_BYTES];
  char address[64];
};

static int init_fail(int status, const char *format, ...) PST_PRINTF(2, 3);
static int init_fail(int status, const char *format, ...)
{
  char text[1024];
  va_list args;

  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  app_log(PST_LOG_ERROR, "init: %s", text);
  return status;
}

/* Writes the list of adapters, for messages: "eth0 (192.0.2.1/24), lo". */
static void init_list_adapters(const struct topo_machine *machine, char *text, size_t size)
{
  size_t used = 0;

  snprintf(text, size, "none");
  for (size_t i = 0; i < machine->adapter_count && used < size; i++) {
    const struct topo_adapter *adapter = &machine->adapters[i];
    used += (size_t)snprintf(text + used, size - used, "%s%s%s%s%s", i > 0 ? ", " : "",
                             adapter->name, adapter->address_count > 0 ? " (" : "",
                             adapter->address_count > 0 ? adapter->addresses[0].text : "",
                             adapter->address_count > 0 ? ")" : "");
  }
  pst_make_printable(text, strlen(text), '?');
}

static void init_list_gpus(const struct topo_machine *machine, char *text, size_t size)
{
  size_t used = 0;

  snprintf(text, size, "none");
  for (size_t i = 0; i < machine->gpu_count && used < size; i++)
    used += (size_t)snprintf(text + used, size - used, "%s%s (%s)", i > 0 ? ", " : "",
                             machine->gpus[i].name, machine->gpus[i].model);
  pst_make_printable(text, strlen(text), '?');
}

/* Puts an option's value or the user's answer into `answer`; an empty answer is `otherwise`. NULL
 * as `otherwise`: there must be an answer, one of `choices`. Returns an exit status. */
static int init_answer(const struct init *init, enum topo_word word, const char *option,
                       const char *question, const char *choices, const char *otherwise,
                       char answer[ANSWER_BYTES])
{
  const char *told = init->arguments->topo[word];

  if (told && strlen(told) >= ANSWER_BYTES)
    return init_fail(PST_EXIT_USAGE, "--%s is longer than %d bytes", option, ANSWER_BYTES - 1);
  if (told)
    return snprintf(answer, ANSWER_BYTES, "%s", told), PST_EXIT_OK;
  if (init->asks) {
    char shown[ANSWER_BYTES];
    snprintf(shown, sizeof(shown), "%s", otherwise ? otherwise : "");
    pst_make_printable(shown, strlen(shown), '?');
    fprintf(stderr, "%s%s%s%s: ", question, otherwise ? " [" : "", shown, otherwise ? "]" : "");
    if (!fgets(answer, ANSWER_BYTES, stdin))
      return init_fail(PST_EXIT_USAGE, "no answer");
    if (!strchr(answer, '\n') && strlen(answer) == ANSWER_BYTES - 1)
      return init_fail(PST_EXIT_USAGE, "the answer is longer than %d bytes", ANSWER_BYTES - 2);
    answer[strcspn(answer, "\n")] = '\0';
    if (answer[0])
      return PST_EXIT_OK;
  }
  if (!otherwise)
    return init_fail(PST_EXIT_USAGE, "--%s is missing (%s): %s", option, question, choices);
  snprintf(answer, ANSWER_BYTES, "%s", otherwise);
  return PST_EXIT_OK;
}

static int init_choose_kind(struct init *init)
{
  char names[128] = "", meant[ARGUMENTS_MEANT_BYTES];
  size_t used = 0;

  for (int i = 0; i < INIT_KINDS; i++)
    used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", i > 0 ? ", " : "",
                             init_kind_names[i]);
  if (init->asks && !init->arguments->topo[INIT_AS])
    for (int i = 0; i < INIT_KINDS; i++)
      fprintf(stderr, "  %-11s %s\n", init_kind_names[i], init_kind_meanings[i]);
  int status = init_answer(init, INIT_AS, "as", "What is streamed", names,
                           init->asks ? "loopback" : NULL, init->kind);
  if (status != PST_EXIT_OK)
    return status;
  for (int i = 0; i < INIT_KINDS; i++)
    if (strcmp(init->kind, init_kind_names[i]) == 0)
      return init->plan.kind = (enum init_kind)i, PST_EXIT_OK;
  return init_fail(
      PST_EXIT_USAGE, "--as '%.60s' is not one of %s%s", init->kind, names,
      app_arguments_meant(init->kind, init_kind_names, INIT_KINDS, "; did you mean '", meant));
}

/* An end that is memory or a file: "host", "gpu0", "igpu", a PCI address or UUID, "file:PATH" or
 * what has a '/'. */
static int init_choose_end(const struct init *init, const char *option, const char *text,
                           struct init_end *end)
{
  const struct topo_machine *machine = init->plan.machine;
  char there[512];

  if (strcmp(text, "host") == 0)
    return PST_EXIT_OK;
  if (strncmp(text, "file:", 5) == 0 || strchr(text, '/')) {
    end->file = strncmp(text, "file:", 5) == 0 ? text + 5 : text;
    return end->file[0] ? PST_EXIT_OK
                        : init_fail(PST_EXIT_USAGE, "--%s file: names no file", option);
  }
  end->gpu = topo_gpu_find(machine, text);
  for (size_t i = 0; !end->gpu && strcmp(text, "igpu") == 0 && i < machine->gpu_count; i++)
    if (machine->gpus[i].is_integrated)
      end->gpu = &machine->gpus[i];
  init_list_gpus(machine, there, sizeof(there));
  if (!end->gpu)
    return init_fail(PST_EXIT_UNAVAILABLE,
                     "--%s %s: this machine has no such memory; there are host, file:PATH and the "
                     "GPUs: %s",
                     option, text, there);
  if (!end->gpu->is_nvidia)
    return init_fail(PST_EXIT_UNAVAILABLE,
                     "--%s %s: no memory plugin reaches a GPU of this vendor (%s); take host",
                     option, text, end->gpu->model);
  return PST_EXIT_OK;
}

static const char *init_first_adapter(const struct topo_machine *machine)
{
  for (size_t i = 0; i < machine->adapter_count; i++)
    if (machine->adapters[i].place.pci[0] && machine->adapters[i].netdev[0] &&
        strcmp(machine->adapters[i].state, "down") != 0)
      return machine->adapters[i].name;
  return "lo";
}

/* The first address that another host reaches, IPv4 before IPv6. */
static void init_choose_address(struct init *init)
{
  const struct topo_adapter *adapter = init->plan.adapter;

  for (int ipv6 = 0; ipv6 < 2 && !init->address[0]; ipv6++)
    for (size_t i = 0; i < adapter->address_count && !init->address[0]; i++)
      if (adapter->addresses[i].is_ipv6 == ipv6 && !adapter->addresses[i].is_link_local)
        snprintf(init->address, sizeof(init->address), "%.*s",
                 (int)strcspn(adapter->addresses[i].text, "/"), adapter->addresses[i].text);
  init->plan.address = init->address;
}

static int init_choose_adapter(struct init *init, const char *option, const char *text)
{
  struct init_plan *plan = &init->plan;
  char there[1024];

  plan->adapter = topo_adapter_find(plan->machine, text);
  init_list_adapters(plan->machine, there, sizeof(there));
  if (!plan->adapter)
    return init_fail(PST_EXIT_UNAVAILABLE,
                     "--%s %s: this machine has no such adapter; there are: %s", option, text,
                     there);
  init_choose_address(init);
  const bool needs_address = plan->kind == INIT_RECEIVE || plan->kind == INIT_SEND;
  if (needs_address && !init->address[0])
    return init_fail(PST_EXIT_UNAVAILABLE,
                     "--%s %s: the port has no address; `ip address add ADDRESS/PREFIX dev %s` "
                     "gives one",
                     option, text, plan->adapter->name);
  if (!plan->adapter->netdev[0])
    return init_fail(PST_EXIT_UNAVAILABLE,
                     "--%s %s: the port has no interface of the kernel; load the adapter's driver",
                     option, text);
  return PST_EXIT_OK;
}

/* Can the port carry what is chosen? An exit status. */
static int init_check_port(const struct init_plan *plan)
{
  const struct topo_adapter *adapter = plan->adapter;

  if (plan->transport == INIT_VERBS && !adapter->rdma[0])
    return init_fail(PST_EXIT_UNAVAILABLE,
                     "--transport verbs_rc: no RDMA device is on %s; as root, `rdma link add "
                     "rxe0 type rxe netdev %s` makes a soft one",
                     adapter->name, adapter->netdev);
  if (plan->transport == INIT_ETHERNET && adapter->is_infiniband)
    return init_fail(PST_EXIT_UNAVAILABLE,
                     "--transport ethernet: %s is InfiniBand, which carries no Ethernet frames; "
                     "take udp",
                     adapter->name);
  if ((plan->transport == INIT_UDP || plan->transport == INIT_ETHERNET) && adapter->mtu > 0 &&
      adapter->mtu < MTU_LEAST)
    return init_fail(PST_EXIT_UNAVAILABLE,
                     "the MTU of %s is %u, below %d: `ip link set %s mtu 1500` sets a usual one",
                     adapter->name, adapter->mtu, MTU_LEAST, adapter->netdev);
  return PST_EXIT_OK;
}

/* An address, with or without brackets, or a name of a host. An exit status. */
static int init_choose_peer(struct init *init)
{
  static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-";
  char *peer = init->peer;
  const size_t length = strlen(peer);
  unsigned char raw[16];

  if (length > 2 && peer[0] == '[' && peer[length - 1] == ']') {
    peer[length - 1] = '\0';
    memmove(peer, peer + 1, length - 1);
  }
  init->plan.peer = peer;
  if (inet_pton(AF_INET6, peer, raw) == 1 || inet_pton(AF_INET, peer, raw) == 1 ||
      (peer[0] != '\0' && strlen(peer) <= NAME_MOST && strspn(peer, letters) == strlen(peer)))
    return PST_EXIT_OK;
  return init_fail(PST_EXIT_USAGE,
                   "--peer '%.80s' is neither an address nor the name of a host; write 192.0.2.7, "
                   "2001:db8::7 or host.example, without a port",
                   peer);
}

/* By --transport, else by the kind and the adapter. An exit status. */
static int init_choose_transport(struct init *init)
{
  struct init_plan *plan = &init->plan;
  const char *told = init->arguments->topo[INIT_TRANSPORT];
  const bool is_foreign = plan->kind == INIT_CAMERA || plan->kind == INIT_INSTRUMENT;

  plan->transport = plan->kind == INIT_LOOPBACK                     ? INIT_MEMORY
                    : !is_foreign && plan->adapter->rdma[0] != '\0' ? INIT_VERBS
                                                                    : INIT_UDP;
  if (!told)
    return plan->adapter ? init_check_port(plan) : PST_EXIT_OK;
  for (int i = 0; i < INIT_TRANSPORTS; i++)
    if (strcmp(told, init_transport_names[i]) == 0 &&
        (i == INIT_MEMORY) == (plan->kind == INIT_LOOPBACK) &&
        (!is_foreign || i == INIT_UDP || i == INIT_ETHERNET)) {
      plan->transport = (enum init_transport)i;
      return plan->adapter ? init_check_port(plan) : PST_EXIT_OK;
    }
  return init_fail(PST_EXIT_USAGE, "--transport '%.40s' does not go with --as %s: %s", told,
                   init->kind,
                   plan->kind == INIT_LOOPBACK ? "loopback does"
                   : is_foreign                ? "udp and ethernet do"
                                               : "udp, ethernet, verbs_rc and ucx do");
}

static int init_choose_rate(struct init *init)
{
  const char *told = init->arguments->topo[INIT_RATE];

  if (told && (units_parse(PST_OPTION_RATE, told, &init->plan.rate_bps) < 0 ||
               init->plan.rate_bps < 1000000))
    return init_fail(PST_EXIT_USAGE,
                     "--rate '%.40s' is not a rate of at least 1 Mbps; write 10Gbps", told);
  return PST_EXIT_OK;
}

/* All questions, or options, in their order. An exit status. */
static int init_choose(struct init *init)
{
  struct init_plan *plan = &init->plan;
  int status = init_choose_kind(init);
  char adapters[1024], gpus[512];

  if (status != PST_EXIT_OK)
    return status;
  const bool sends = plan->kind == INIT_SEND, is_local = plan->kind == INIT_LOOPBACK;
  init_list_adapters(plan->machine, adapters, sizeof(adapters));
  if (init->asks && !is_local)
    fprintf(stderr, "adapters: %s\n", adapters);
  init_list_gpus(plan->machine, gpus, sizeof(gpus));
  if (init->asks)
    fprintf(stderr, "memory: host, file:PATH, GPUs: %s\n", gpus);
  const char *first = init->asks ? init_first_adapter(plan->machine) : NULL;
  status = init_answer(init, INIT_FROM, "from",
                       sends || is_local ? "Memory or file to send from" : "Adapter to receive on",
                       adapters, sends || is_local ? "host" : first, init->from);
  if (status == PST_EXIT_OK)
    status = init_answer(init, INIT_TO, "to",
                         sends ? "Adapter to send on" : "Memory or file to receive into", adapters,
                         sends ? first : "host", init->to);
  if (status == PST_EXIT_OK && (sends || is_local))
    status = init_choose_end(init, "from", init->from, &plan->from);
  if (status == PST_EXIT_OK && !sends)
    status = init_choose_end(init, "to", init->to, &plan->to);
  if (status == PST_EXIT_OK && !is_local)
    status = init_choose_adapter(init, sends ? "to" : "from", sends ? init->to : init->from);
  if (status == PST_EXIT_OK && sends)
    status = init_answer(init, INIT_PEER, "peer", "Address of the receiver",
                         "192.0.2.7, 2001:db8::7 or host.example, without a port",
                         plan->adapter->is_loopback ? init->address : NULL, init->peer);
  if (status == PST_EXIT_OK && sends)
    status = init_choose_peer(init);
  if (status == PST_EXIT_OK)
    status = init_choose_transport(init);
  return status == PST_EXIT_OK ? init_choose_rate(init) : status;
}

/* To `path`, which must not exist; NULL: to standard output. An exit status. */
static int init_output(const struct init_plan *plan, const char *path)
{
  struct atomic_file output = ATOMIC_FILE_INIT;
  struct pst_error error = PST_ERROR_INIT;
  char *text = NULL;
  size_t length = 0, done = 0;

  if (!path)
    return init_write(plan, stdout), PST_EXIT_OK;
  if (access(path, F_OK) == 0)
    return init_fail(PST_EXIT_USAGE, "-o %s: the file exists; name another, or remove it", path);
  FILE *memory = open_memstream(&text, &length);
  if (!memory)
    return init_fail(PST_EXIT_FAILED, "out of memory");
  init_write(plan, memory);
  fclose(memory);
  int rc = app_atomic_file_open(&output, "init: -o", path, 0, &error);
  while (rc == 0 && done < length) {
    const ssize_t part = write(output.fd, text + done, length - done);
    if (part < 0 && errno != EINTR)
      rc = app_log_fail(&error, PST_EXIT_FAILED, -errno, "init: %s: %s", path, strerror(errno));
    done += part > 0 ? (size_t)part : 0;
  }
  if (rc == 0)
    rc = app_atomic_file_commit(&output, "init: -o", &error);
  app_atomic_file_discard(&output);
  free(text);
  return rc == 0 ? PST_EXIT_OK : error.exit_status;
}

static int init_run(const struct command *command, const struct arguments *arguments)
{
  struct topo_machine *machine = NULL;
  char why[TOPO_WHY_BYTES] = "";
  struct init *init = calloc(1, sizeof(*init));
  int status = PST_EXIT_FAILED;

  (void)command;
  if (!init)
    return PST_EXIT_FAILED;
  const int rc = topo_machine_read(arguments->topo[TOPO_ROOT], &machine, why);
  if (rc < 0) {
    status = init_fail(rc == -EOPNOTSUPP ? PST_EXIT_UNAVAILABLE
                       : rc == -ENOENT   ? PST_EXIT_USAGE
                                         : PST_EXIT_FAILED,
                       "%s", why);
  } else {
    init->arguments = arguments;
    init->asks = !arguments->topo[INIT_AS] && isatty(STDIN_FILENO) && isatty(STDERR_FILENO);
    init->plan = (struct init_plan){.machine = machine, .address = "", .line = arguments->line};
    status = init_choose(init);
  }
  if (status == PST_EXIT_OK)
    status = init_output(&init->plan, arguments->topo[INIT_OUTPUT]);
  topo_machine_close(machine);
  free(init);
  return status;
}

const struct command app_command_init = {
    .name = "init",
    .options = OPTION_INIT | OPTION_ROOT,
    .summary = "write a commented configuration that fits this machine",
    .help =
        "Writes a configuration that fits this machine: device, address, memory, message size (from\n"
        "the MTU), ring (from the rate) and CPU (from `penstock topo`). A comment gives the reason for\n"
        "each value. Without --as it asks, if it runs on a terminal. Kinds (--as):\n"
        "  camera      RTP from a camera, an encoder or ffmpeg   --from ADAPTER --to MEMORY\n"
        "  instrument  UDP from a radio or another instrument    --from ADAPTER --to MEMORY\n"
        "  receive     from another host that runs Penstock      --from ADAPTER --to MEMORY\n"
        "  send        to another host that runs Penstock        --from MEMORY --to ADAPTER --peer HOST\n"
        "  loopback    both ends on this host, to try Penstock   --from MEMORY --to MEMORY\n"
        "ADAPTER is an interface, an RDMA device, a PCI address or an address of this host.\n"
        "MEMORY is host, gpu0 (`penstock topo` lists GPUs), igpu, or file:PATH.\n"
        "If this machine has no such device, lists those that it has, and ends with status 3.\n"
        "\n"
        "Examples:\n"
        "  penstock init --as camera --from lo -o ffmpeg.yaml\n"
        "      Receives what ffmpeg sends on this host. For a camera at eth0 write --from eth0, and to\n"
        "      receive into a GPU --to gpu0.\n"
        "  penstock init --as loopback | tee try.yaml\n"
        "      A stream that needs no device; run it with `penstock run try.yaml --duration 3`.",
    .run = init_run,
};
