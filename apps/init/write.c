/* SPDX-License-Identifier: Apache-2.0 */
/* The YAML of a plan. Each value has a comment that says why it is what it is. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <penstock/penstock.h>

#include "plan.h"
#include "size.h"
#include "topo/cores.h"
#include "topo/distance.h"
#include "util/printable.h"

#define COLUMN 40
#define WIDTH 100
#define MTU_MOST 9000     /* of Ethernet's jumbo frames; lo has more, and nothing sends so much */
#define ASSUMED_MBPS 1000 /* where nobody knows a link's speed */
#define SOCKETS_MOST_BPS UINT64_C(5000000000) /* what one core sends by sockets, about */
#define RING_MOST_BYTES (UINT64_C(64) << 20)

/* `value` at its indent, then the comment beside it in as many lines as it needs. */
static void write_line(FILE *to, const char *value, const char *format, ...) PST_PRINTF(3, 4);
static void write_line(FILE *to, const char *value, const char *format, ...)
{
  char text[1024];
  va_list args;
  int column;

  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  pst_make_printable(text, strlen(text), '?');
  column = fprintf(to, "%s", value);
  if (column < COLUMN - 1)
    fprintf(to, "%*s", COLUMN - 1 - column, "");
  else if (column > COLUMN)
    fprintf(to, "\n%*s", COLUMN - 1, "");
  fprintf(to, " #");
  column = COLUMN + 1;
  for (char *rest = NULL, *word = strtok_r(text, " ", &rest); word;
       word = strtok_r(NULL, " ", &rest)) {
    if (column + 1 + (int)strlen(word) > WIDTH) {
      fprintf(to, "\n%*s#", COLUMN, "");
      column = COLUMN + 1;
    }
    column += fprintf(to, " %s", word);
  }
  fputc('\n', to);
}

/* A YAML string in double quotes; control characters, and bytes that are not UTF-8, are escaped. */
static void write_quoted(char *to, size_t size, const char *indent_and_key, const char *text)
{
  size_t used = (size_t)snprintf(to, size, "%s: \"", indent_and_key);

  while (*text && used + 8 < size) {
    uint32_t code = (unsigned char)*text;
    const size_t bytes = pst_utf8_decode(text, strlen(text), &code);
    if (bytes == 0 || pst_is_control(code)) {
      used += (size_t)snprintf(to + used, size - used, code > 0xff ? "\\u%04X" : "\\x%02X", code);
    } else {
      if (code == '"' || code == '\\')
        to[used++] = '\\';
      used += (size_t)snprintf(to + used, size - used, "%.*s", (int)bytes, text);
    }
    text += bytes > 0 ? bytes : 1;
  }
  snprintf(to + used, size - used, "\"");
}

static bool write_is_datagram(const struct init_plan *plan)
{
  return plan->transport == INIT_UDP || plan->transport == INIT_ETHERNET;
}

static uint64_t write_link_bps(const struct init_plan *plan)
{
  const uint64_t mbps = plan->adapter ? plan->adapter->speed_mbps : 0;
  return (mbps > 0 ? mbps : ASSUMED_MBPS) * 1000000;
}

static uint64_t write_rate_bps(const struct init_plan *plan)
{
  const uint64_t most = write_link_bps(plan) / 10 * 8;

  if (plan->rate_bps > 0)
    return plan->rate_bps;
  return plan->kind == INIT_SEND && most > SOCKETS_MOST_BPS ? SOCKETS_MOST_BPS : most;
}

static uint32_t write_mtu(const struct init_plan *plan)
{
  const uint32_t mtu = plan->adapter && plan->adapter->mtu > 0 ? plan->adapter->mtu : 1500;
  return mtu < MTU_MOST ? mtu : MTU_MOST;
}

/* Bytes of IP, UDP and the framing. */
static uint32_t write_header_bytes(const struct init_plan *plan)
{
  const uint32_t ip = plan->address[0] && strchr(plan->address, ':') ? 48 : 28;

  if (plan->kind == INIT_CAMERA)
    return ip + (plan->transport == INIT_ETHERNET ? 24 : 12); /* with room for an extension */
  return ip + (plan->kind == INIT_INSTRUMENT ? 0 : 16);
}

static uint64_t write_message_bytes(const struct init_plan *plan)
{
  if (write_is_datagram(plan))
    return write_mtu(plan) - write_header_bytes(plan);
  return plan->kind == INIT_LOOPBACK ? 8 << 10 : 64 << 10;
}

static void write_message(const struct init_plan *plan, FILE *to)
{
  char value[64], size[SIZE_TEXT_BYTES];

  snprintf(value, sizeof(value), "    message: %s", app_size_text(write_message_bytes(plan), size));
  if (write_is_datagram(plan))
    write_line(to, value,
               "at most: MTU %u%s less %u bytes of headers (IP, UDP%s); longer packets %s",
               write_mtu(plan),
               plan->adapter->mtu > MTU_MOST ? ", the largest of Ethernet," : " of the port",
               write_header_bytes(plan),
               plan->kind == INIT_CAMERA       ? ", RTP"
               : plan->kind == INIT_INSTRUMENT ? ""
                                               : ", sequence number and nonce",
               plan->kind == INIT_SEND || plan->kind == INIT_RECEIVE ? "would be fragmented"
                                                                     : "count as too_long");
  else if (plan->kind == INIT_LOOPBACK)
    write_line(to, value, "memory has no MTU; this is the default of the key");
  else
    write_line(to, value,
               "many packets of the link in one message: the work of a message is done once");
}

/* A foreign sender's packets may be shorter than the MTU, and each takes a slot. */
static uint64_t write_packet_bytes(const struct init_plan *plan)
{
  const uint64_t message = write_message_bytes(plan);
  const bool is_foreign = plan->kind == INIT_CAMERA || plan->kind == INIT_INSTRUMENT;

  return is_foreign && message > 1460 ? 1460 : message;
}

/* A power of two, of what the stream brings in 10 ms, or in 200 us where a full ring stops the
 * sender. */
static uint64_t write_ring_slots(const struct init_plan *plan, const char **bound)
{
  const uint64_t message = write_message_bytes(plan), packet = write_packet_bytes(plan);
  const uint64_t wanted = write_rate_bps(plan) / 8 / (write_is_datagram(plan) ? 100 : 5000);
  uint64_t memory = 0, most = RING_MOST_BYTES, slots = 16;

  for (size_t i = 0; i < plan->machine->node_count; i++)
    memory += plan->machine->nodes[i].memory_bytes;
  *bound = "";
  if (memory > 0 && memory / 64 < most)
    most = memory / 64;
  while (slots * packet < wanted && slots * 2 * message <= most)
    slots *= 2;
  if (slots * packet < wanted)
    *bound = most < RING_MOST_BYTES ? ", as far as a 64th of the host's memory holds it"
                                    : ", as far as 64 MiB hold it";
  return slots;
}

static void write_ring(const struct init_plan *plan, FILE *to)
{
  char value[64], size[SIZE_TEXT_BYTES], gbps[32];
  const char *bound;

  if (plan->kind == INIT_LOOPBACK) {
    snprintf(value, sizeof(value), "    ring: %u", pst_ring_default(write_message_bytes(plan)));
    write_line(to, value, "1 MiB in all, which stays in the CPU's cache");
    return;
  }
  const uint64_t slots = write_ring_slots(plan, &bound);
  snprintf(value, sizeof(value), "    ring: %" PRIu64, slots);
  snprintf(gbps, sizeof(gbps), "%.3g Gbps", (double)write_rate_bps(plan) / 1e9);
  write_line(to, value, "%s: what %s (%s) bring in %s%s; a ring that is too small %s",
             app_size_about(slots * write_message_bytes(plan), size), gbps,
             plan->rate_bps > 0              ? "--rate"
             : plan->adapter->speed_mbps > 0 ? "of this link, 80%"
                                             : "assumed: the port does not say its speed",
             write_is_datagram(plan) ? "10 ms, a long pause of a busy host" : "200 us", bound,
             write_is_datagram(plan) ? "loses messages" : "slows the sender");
}

/* One thread, on the best CPU near the adapter. */
static void write_threads(const struct init_plan *plan, FILE *to)
{
  static const struct topo_place nowhere = {.node = -1};
  const struct init_end *end = plan->kind == INIT_SEND ? &plan->from : &plan->to;
  const struct topo_place *place = plan->adapter ? &plan->adapter->place
                                   : end->gpu    ? &end->gpu->place
                                                 : &nowhere;
  struct topo_core core;
  char value[64];

  if (plan->adapter && plan->adapter->is_loopback) {
    fprintf(to, "# No `threads`: both ends are on this host, and one `cpus` would pin both to one "
                "CPU.\n\n");
    return;
  }
  if (topo_cores_choose(plan->machine, place, &core, 1) == 0)
    return;
  fprintf(to, "threads:\n");
  write_line(to, "  count: 1", "one stream, one thread");
  snprintf(value, sizeof(value), "  cpus: [%d]", core.cpu);
  write_line(to, value, "%s%s%s; `penstock topo` lists others",
             core.is_near && place->node >= 0 && plan->adapter ? "on the adapter's NUMA node, "
             : core.is_near && place->node >= 0                ? "on the GPU's NUMA node, "
                                                               : "",
             core.is_isolated ? "isolated from other programs, "
                              : "not isolated from other programs, ",
             core.is_quiet ? "not CPU 0, which takes interrupts" : "the only one to choose");
  fprintf(to, "\n");
}

static void write_control(const struct init_plan *plan, FILE *to)
{
  const bool is_local = plan->adapter && plan->adapter->is_loopback;
  char value[128];

  if (plan->kind == INIT_CAMERA || plan->kind == INIT_INSTRUMENT) {
    write_line(to, "control: none", "the sender is not Penstock: nobody to agree with");
    fprintf(to, "\n");
    return;
  }
  if (plan->kind == INIT_LOOPBACK)
    return;
  const char *address = plan->kind == INIT_SEND ? plan->peer : plan->address;
  const bool is_ipv6 = strchr(address, ':') != NULL;
  fprintf(to, "control:\n");
  snprintf(value, sizeof(value), "  address: \"%s%s%s:18515\"", is_ipv6 ? "[" : "", address,
           is_ipv6 ? "]" : "");
  write_line(to, value, "%s; the receiver listens there, the sender connects",
             plan->kind == INIT_SEND ? "the receiver, from --peer" : "of this host's port");
  if (!is_local)
    write_line(to, "  insecure: true",
               "nothing on the control channel is authenticated: use a network that you trust");
  fprintf(to, "\n");
}

/* The port, and for datagrams the framing. */
static void write_transport_options(const struct init_plan *plan, FILE *to)
{
  const struct topo_adapter *adapter = plan->adapter;
  char value[512], device[96];

  if (plan->transport == INIT_ETHERNET) {
    write_line(to, "    driver: af_packet",
               "works on any interface, with CAP_NET_RAW; for a card by DPDK: `driver: pci`");
    write_quoted(value, sizeof(value), "    netdev", adapter->netdev);
    write_line(to, value, "from --%s", plan->kind == INIT_SEND ? "to" : "from");
    snprintf(value, sizeof(value), "    mtu: %u", write_mtu(plan));
    write_line(to, value, "the port's, so that a frame fits a slot");
  } else {
    if (plan->transport == INIT_UCX) {
      snprintf(device, sizeof(device), "%s%s", adapter->rdma[0] ? adapter->rdma : adapter->netdev,
               adapter->rdma[0] ? ":1" : "");
      write_quoted(value, sizeof(value), "    net_devices", device);
    } else {
      write_quoted(value, sizeof(value), "    device",
                   plan->transport == INIT_VERBS ? adapter->rdma[0] ? adapter->rdma : adapter->name
                   : plan->kind == INIT_CAMERA || plan->kind == INIT_INSTRUMENT ? adapter->netdev
                                                                                : plan->address);
    }
    write_line(to, value, "%s%s%s", adapter->name, adapter->model[0] ? ", " : "", adapter->model);
  }
  if (!write_is_datagram(plan))
    return;
  if (plan->kind == INIT_CAMERA) {
    write_line(to, "    framing: rtp", "RFC 3550, as cameras, encoders and ffmpeg send");
    write_line(to, "    clock_rate: 90000", "RTP ticks a second, of all video formats");
  } else if (plan->kind == INIT_INSTRUMENT) {
    write_line(to, "    framing: none", "any UDP: payloads alone, whose loss nobody can count");
  } else {
    write_line(to, "    framing: sequence", "each message has a number, so that each loss is seen");
  }
}

static void write_transport(const struct init_plan *plan, FILE *to)
{
  char value[64];

  if (plan->kind == INIT_LOOPBACK) {
    write_line(to, "transport: loopback", "memory of this host: nothing else is needed");
    fprintf(to, "\n");
    return;
  }
  fprintf(to, "transport:\n");
  snprintf(value, sizeof(value), "  plugin: %s", init_transport_names[plan->transport]);
  write_line(to, value, "%s",
             plan->transport == INIT_VERBS      ? "the port has an RDMA device"
             : plan->transport == INIT_UDP      ? "the kernel's sockets: no privilege is needed"
             : plan->transport == INIT_ETHERNET ? "frames without the kernel's UDP"
                                                : "UCX chooses lanes between the hosts");
  fprintf(to, "  options:\n");
  write_transport_options(plan, to);
  fprintf(to, "\n");
}

/* `memory` of an end of this host. */
static void write_memory(const struct init_plan *plan, const struct init_end *end, FILE *to)
{
  const struct topo_adapter *adapter = plan->adapter;
  char value[96];

  if (!end->gpu && plan->machine->node_count > 1 && adapter && adapter->place.node >= 0) {
    fprintf(to, "      memory:\n        plugin: host\n        options:\n");
    snprintf(value, sizeof(value), "          numa_node: %d", adapter->place.node);
    write_line(to, value, "the adapter's, so that no byte crosses between the sockets");
    return;
  }
  if (!end->gpu) {
    write_line(to, "      memory: host", "%s",
               plan->machine->node_count > 1 ? "this port is on no known NUMA node"
                                             : "the host has one NUMA node");
    return;
  }
  fprintf(to, "      memory:\n");
  write_line(to, end->gpu->is_integrated ? "        plugin: igpu" : "        plugin: cuda", "%s",
             end->gpu->model);
  if (!end->gpu->place.pci[0])
    return;
  fprintf(to, "        options:\n");
  snprintf(value, sizeof(value), "          device: \"%s\"", end->gpu->place.pci);
  if (adapter)
    write_line(to, value, "%s; its PCI address, since CUDA may number GPUs otherwise; %s from %s",
               end->gpu->name, topo_distance_words[topo_distance_pair(adapter, end->gpu)],
               adapter->name);
  else
    write_line(to, value, "%s; its PCI address, since CUDA may number GPUs otherwise",
               end->gpu->name);
}

static void write_file(const struct init_end *end, const char *what, const char *type_line,
                       FILE *to)
{
  char value[4200];

  fprintf(to, "      %s:\n", what);
  write_line(to, type_line, "from the command line");
  write_quoted(value, sizeof(value), "        file", end->file);
  write_line(to, value, "relative to where penstock starts");
}

static void write_sender(const struct init_plan *plan, FILE *to)
{
  char value[64];

  if (plan->kind != INIT_SEND && plan->kind != INIT_LOOPBACK && plan->kind != INIT_RECEIVE)
    return;
  fprintf(to, "    sender:\n");
  if (plan->kind == INIT_RECEIVE)
    write_line(to, "      memory: host", "the other host's; its own file says more");
  else
    write_memory(plan, &plan->from, to);
  if (plan->from.file)
    write_file(&plan->from, "source", "        type: file", to);
  else
    write_line(to, "      source: pattern", "made up, so that the receiver can check each byte");
  if (write_is_datagram(plan)) {
    snprintf(value, sizeof(value), "      rate: %" PRIu64 " Mbps", write_rate_bps(plan) / 1000000);
    write_line(to, value,
               "%s; nothing slows a sender of datagrams down: raise it while none is lost",
               plan->rate_bps > 0                         ? "from --rate"
               : write_rate_bps(plan) == SOCKETS_MOST_BPS ? "about what one core sends by sockets"
               : plan->adapter->speed_mbps > 0            ? "80% of the link"
                                               : "80% of 1 Gbps: the port does not say its speed");
  }
  fprintf(to, "\n");
}

/* The receiving end: a foreign sender's port, memory, path and sink. */
static void write_receiver(const struct init_plan *plan, FILE *to)
{
  const bool is_foreign = plan->kind == INIT_CAMERA || plan->kind == INIT_INSTRUMENT;

  fprintf(to, "    receiver:\n");
  if (is_foreign)
    write_line(to, "      transport: {options: {port: 5004}}",
               "RTP's usual port; set it to that which the device sends to");
  if (plan->kind == INIT_SEND)
    write_line(to, "      memory: host", "the other host's; its own file says more");
  else
    write_memory(plan, &plan->to, to);
  if (plan->to.gpu)
    write_line(to, plan->to.gpu->is_integrated ? "      path: mapped" : "      path: auto", "%s",
               plan->to.gpu->is_integrated
                   ? "the GPU reads the host's memory, where messages arrive"
                   : "straight into the GPU where adapter and driver can, else by batched copies");
  if (is_foreign)
    write_line(to, "      silence: 2 s", "the stream ends when nothing came for so long");
  if (plan->to.file)
    write_file(&plan->to, "sink", "        type: file", to);
  else if (is_foreign)
    write_line(to, "      sink: discard",
               "counted, not kept; `{type: file, file: PATH}` keeps them");
  else if (plan->from.file)
    write_line(to, "      sink: discard", "a file's bytes have no pattern to check by");
  else
    write_line(to, "      sink: verify", "checks each byte where it arrived");
  fprintf(to, "\n");
}

static void write_expect(const struct init_plan *plan, FILE *to)
{
  const bool is_foreign = plan->kind == INIT_CAMERA || plan->kind == INIT_INSTRUMENT;

  fprintf(to, "    expect:\n");
  if (plan->kind == INIT_INSTRUMENT)
    write_line(to, "      min_messages: 1", "loss is unknown; that nothing came is not");
  else if (write_is_datagram(plan))
    write_line(to, plan->from.file || plan->to.file ? "      max_loss: 0" : "      max_loss: 1%",
               "%s; more ends the run with status 4",
               plan->from.file || plan->to.file ? "a file with a gap is of no use"
                                                : "datagrams may be lost on a busy host");
  else
    write_line(to, "      max_loss: 0", "this transport loses nothing");
  if (is_foreign || plan->to.file || plan->from.file)
    return;
  write_line(to, "      max_corrupted: 0", "each byte is checked");
  write_line(to, "      verified: true", "and a run that checked none is a failure");
}

static const char *write_run_by(const struct init_plan *plan)
{
  return plan->kind == INIT_LOOPBACK ? "run" : plan->kind == INIT_SEND ? "send" : "receive";
}

void init_write(const struct init_plan *plan, FILE *to)
{
  char *line = strdup(plan->line);

  if (line)
    pst_make_printable(line, strlen(line), '?');
  fprintf(
      to,
      "# %s.\n# Written by: %s\n#\n#   penstock %s FILE%s\n#\n"
      "# `penstock check FILE` prints each value in effect; `penstock help KEY` explains a key.\n\n",
      init_kind_meanings[plan->kind], line ? line : "penstock init", write_run_by(plan),
      plan->kind == INIT_LOOPBACK || plan->kind == INIT_SEND ? " --duration 3" : "");
  free(line);
  write_line(to, "penstock: 1", "version of this file's format");
  fprintf(to, "\n");
  write_control(plan, to);
  write_threads(plan, to);
  write_transport(plan, to);
  fprintf(to, "streams:\n");
  write_line(to,
             plan->kind == INIT_CAMERA       ? "  - name: camera"
             : plan->kind == INIT_INSTRUMENT ? "  - name: instrument"
                                             : "  - name: packets",
             "the name in results%s",
             plan->kind == INIT_SEND || plan->kind == INIT_RECEIVE ? ", the same at both ends"
                                                                   : "");
  write_message(plan, to);
  write_ring(plan, to);
  fprintf(to, "\n");
  write_sender(plan, to);
  write_receiver(plan, to);
  write_expect(plan, to);
}
