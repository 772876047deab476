/* SPDX-License-Identifier: Apache-2.0 */
/* The cases of `penstock bench`, from its command line. */
#include "cases.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include <penstock/penstock.h>

#include "clock.h"
#include "control_link.h"
#include "plugin_options.h"

#define DURATION_NS (500 * NS_PER_MS)
#define WARMUP_MOST_NS (100 * NS_PER_MS)
#define WARMUP_SHARE 10 /* of the duration */
#define PAIRS_SIZE ((uint64_t)1 << 20)
#define WORD_MAX 64
#define CPU_MAX 4095
#define STRIDE 64 /* no two places share a cache line */

static const char *const op_names[] = {"send", "write", "read", NULL};
static const char *const measure_names[] = {"bandwidth", "latency", NULL};
static const char *const path_names[] = {"auto", "direct", "mapped", "staged", NULL};

const char *bench_op_name(enum bench_op op)
{
  return op_names[op - 1];
}

const char *bench_measure_name(enum bench_measure measure)
{
  return measure_names[measure - 1];
}

bool bench_is_one_sided(enum bench_op op)
{
  return (BENCH_ONE_SIDED & 1u << op) != 0;
}

uint32_t bench_places(const struct bench_case *c)
{
  if (c->places)
    return c->places;
  return c->verify && c->ring < 2 ? 2 : c->ring;
}

uint64_t bench_stride(const struct bench_case *c)
{
  return (c->size + STRIDE - 1) / STRIDE * STRIDE;
}

uint64_t bench_plan_warmup(const struct bench_plan *plan)
{
  const uint64_t share = plan->duration_ns / WARMUP_SHARE;
  return share < WARMUP_MOST_NS ? share : WARMUP_MOST_NS;
}

static int bench_cases_index_of(const char *word, const char *const *names)
{
  for (int i = 0; names[i] != NULL; i++)
    if (strcmp(word, names[i]) == 0)
      return i;
  return -1;
}

/* ---- From the command line -------------------------------------------------- */

struct reader {
  const struct command *command;
  const struct arguments *arguments;
  struct bench_plan *plan;
};

static int bench_cases_unknown_word(const struct reader *reader, const char *option,
                                    const char *word, const char *const *names)
{
  char what[512], meant[ARGUMENTS_MEANT_BYTES];
  int used = snprintf(what, sizeof(what), "--%s '%s' is not one of", option, word);
  size_t count = 0;

  for (; names[count] != NULL; count++)
    used += snprintf(what + used, sizeof(what) - (size_t)used, "%s %s", count > 0 ? "," : "",
                     names[count]);
  snprintf(what + used, sizeof(what) - (size_t)used, "%s",
           app_arguments_meant(word, names, count, "; did you mean '", meant));
  return app_arguments_wrong(reader->command, "%s", what);
}

/* Call take() with each word of a list "a,b,c". */
static int bench_cases_each_word(const struct reader *reader, enum bench_word option,
                                 const char *name,
                                 int (*take)(const struct reader *reader, const char *word))
{
  const char *at = reader->arguments->bench[option];
  char word[WORD_MAX];

  while (at) {
    size_t length = strcspn(at, ",");
    if (length == 0 || length >= sizeof(word)) {
      return app_arguments_wrong(reader->command, "--%s '%.100s' is not a list like a,b,c", name,
                                 reader->arguments->bench[option]);
    }
    memcpy(word, at, length);
    word[length] = '\0';
    int rc = take(reader, word);
    if (rc < 0)
      return rc;
    at = at[length] == ',' ? at + length + 1 : NULL;
  }
  return 0;
}

static int bench_cases_take_op(const struct reader *reader, const char *word)
{
  int index = bench_cases_index_of(word, op_names);

  if (index < 0)
    return bench_cases_unknown_word(reader, "op", word, op_names);
  reader->plan->ops |= 1u << (index + 1);
  return 0;
}

static int bench_cases_take_size(const struct reader *reader, const char *word)
{
  struct bench_plan *plan = reader->plan;
  uint64_t size = 0;

  if (app_arguments_size(word, &size) < 0 || size == 0 || size > BENCH_SIZE_MAX) {
    return app_arguments_wrong(
        reader->command, "--size '%s' is not a size from 1 B to 1 GiB; write 64,1462,64KiB", word);
  }
  if (plan->size_count == BENCH_SIZES_MAX) {
    return app_arguments_wrong(reader->command, "--size takes at most %d sizes", BENCH_SIZES_MAX);
  }
  plan->sizes[plan->size_count++] = size;
  return 0;
}

static int bench_cases_take_cpu(const struct reader *reader, const char *word)
{
  struct bench_plan *plan = reader->plan;
  int *cpu = plan->cpus[0] < 0 ? &plan->cpus[0] : &plan->cpus[1];
  uint64_t number = 0;

  if (*cpu >= 0)
    return app_arguments_wrong(reader->command, "--cpu takes two CPUs at most, one for each end");
  if (app_arguments_count(word, &number) < 0 || number > CPU_MAX) {
    return app_arguments_wrong(reader->command,
                               "--cpu '%s' is not the number of a CPU; write --cpu 2,3", word);
  }
  *cpu = (int)number;
  return 0;
}

static int bench_cases_read_side(const struct reader *reader)
{
  const struct arguments *arguments = reader->arguments;
  struct bench_side *side = &reader->plan->side;
  const char *const *words = arguments->bench;

  side->transport = words[BENCH_TRANSPORT];
  side->memory = words[BENCH_MEMORY];
  side->path = words[BENCH_PATH];
  if (!side->transport || side->transport[0] == '\0')
    return app_arguments_wrong(reader->command,
                               "--transport is missing; `penstock plugins` lists the transports");
  if (!side->memory || side->memory[0] == '\0')
    return app_arguments_wrong(
        reader->command,
        "--memory is missing; `penstock plugins` lists the memories; host works everywhere");
  if (side->path && bench_cases_index_of(side->path, path_names) < 0)
    return bench_cases_unknown_word(reader, "path", side->path, path_names);
  if (app_plugin_options_read(arguments->transport_options, arguments->transport_option_count,
                              &side->transport_options, &side->transport_option_count) < 0 ||
      app_plugin_options_read(arguments->memory_options, arguments->memory_option_count,
                              &side->memory_options, &side->memory_option_count) < 0)
    return app_arguments_wrong(reader->command, "out of memory");
  return 0;
}

static int bench_cases_read_number(const struct reader *reader, const char *word, const char *is,
                                   uint32_t least, uint32_t *number)
{
  uint64_t read = 0;

  if (!word)
    return 0;
  if (app_arguments_count(word, &read) < 0 || read < least || read > BENCH_RING_MAX) {
    return app_arguments_wrong(reader->command, "'%.60s' is not %s from %u to %u", word, is, least,
                               BENCH_RING_MAX);
  }
  *number = (uint32_t)read;
  return 0;
}

static int bench_cases_read_ring(const struct reader *reader)
{
  const char *const *words = reader->arguments->bench;
  struct bench_plan *plan = reader->plan;

  if (bench_cases_read_number(reader, words[BENCH_RING], "a --ring, a number of slots", 2,
                              &plan->ring) < 0)
    return -EINVAL;
  if (bench_cases_read_number(reader, words[BENCH_DEPTH], "a --depth, a number of transfers", 1,
                              &plan->depth) < 0)
    return -EINVAL;
  return bench_cases_read_number(reader, words[BENCH_PLACES], "a number of --places", 1,
                                 &plan->places);
}

static int bench_cases_read_touch(const struct reader *reader)
{
  const char *word = reader->arguments->bench[BENCH_TOUCH];

  if (!word || strcmp(word, "yes") == 0)
    return 0;
  if (strcmp(word, "no") != 0)
    return app_arguments_wrong(reader->command, "--touch takes yes or no");
  reader->plan->no_touch = true;
  return 0;
}

static int bench_cases_read_hold(const struct reader *reader)
{
  const char *word = reader->arguments->bench[BENCH_HOLD];
  uint64_t ns = 0;

  if (!word)
    return 0;
  if (app_arguments_duration(word, &ns) < 0 || ns > BENCH_HOLD_MAX_NS)
    return app_arguments_wrong(reader->command, "--hold '%s' is not a time up to 1 s; write 50us",
                               word);
  reader->plan->hold_ns = ns;
  return 0;
}

/* One number for each pair. */
static int bench_cases_check_pairs(const struct reader *reader)
{
  const char *const *words = reader->arguments->bench;
  struct bench_plan *plan = reader->plan;

  if (!plan->all_pairs &&
      (words[BENCH_EXCHANGE] || words[BENCH_RANK] || words[BENCH_RANKS] || words[BENCH_WAIT] ||
       words[BENCH_HEAT_MAP] || reader->arguments->endpoint_count > 0))
    return app_arguments_wrong(reader->command, "--exchange, --rank, --ranks, --endpoint, --wait "
                                                "and --heat-map are for --all-pairs");
  if (!plan->all_pairs)
    return 0;
  if (plan->host || plan->server || plan->in_process)
    return app_arguments_wrong(
        reader->command,
        "--all-pairs finds its ranks by the launcher: it takes no HOST, --server or --in-process");
  if (words[BENCH_CSV])
    return app_arguments_wrong(reader->command,
                               "--csv does not go with --all-pairs; use --json FILE");
  if ((words[BENCH_OP] && strpbrk(words[BENCH_OP], ",")) || plan->size_count > 1)
    return app_arguments_wrong(reader->command, "--all-pairs measures one --op and one --size");
  if ((words[BENCH_RANK] || words[BENCH_RANKS]) && !words[BENCH_EXCHANGE])
    return app_arguments_wrong(
        reader->command,
        "--rank and --ranks are for --exchange; without it the launcher provides both by PMIx");
  if (words[BENCH_WAIT] &&
      (app_arguments_duration(words[BENCH_WAIT], &plan->wait_ns) < 0 || plan->wait_ns == 0))
    return app_arguments_wrong(reader->command, "--wait '%s' is not a time; write 60s, 5min",
                               words[BENCH_WAIT]);
  if (plan->ops == 0)
    plan->ops = 1u << BENCH_SEND;
  if (plan->size_count == 0)
    plan->sizes[plan->size_count++] = PAIRS_SIZE;
  plan->measures = words[BENCH_LATENCY] ? MEASURE_LATENCY : MEASURE_BANDWIDTH;
  return 0;
}

/* Options of which one makes the other meaningless. */
static int bench_cases_check_together(const struct reader *reader)
{
  const char *const *words = reader->arguments->bench;
  const struct bench_plan *plan = reader->plan;

  if (words[BENCH_BANDWIDTH] && words[BENCH_LATENCY])
    return app_arguments_wrong(
        reader->command, "--bandwidth and --latency exclude each other; without either both are "
                         "measured");
  if (plan->ops != 0 && (plan->ops & BENCH_ONE_SIDED) == 0 &&
      (words[BENCH_DEPTH] || words[BENCH_PLACES]))
    return app_arguments_wrong(reader->command,
                               "--depth and --places are for write and read; send has --ring");
  if (words[BENCH_HOLD] &&
      ((plan->ops != 0 && (plan->ops & 1u << BENCH_SEND) == 0) || words[BENCH_LATENCY]))
    return app_arguments_wrong(reader->command, "--hold is for the bandwidth of send");
  if (plan->verify && words[BENCH_PLACES])
    return app_arguments_wrong(
        reader->command,
        "--places does not go with --verify, which gives each transfer a place of its own");
  if (plan->ops != 0 && (plan->ops & 1u << BENCH_SEND) == 0 &&
      (words[BENCH_RING] || words[BENCH_PATH]))
    return app_arguments_wrong(
        reader->command, "--ring and --path are for send: write and read have --depth, and reach "
                         "their regions without staging");
  if (plan->in_process && (plan->server || plan->host))
    return app_arguments_wrong(
        reader->command, "--in-process runs both ends here: it takes no HOST and no --server");
  if (plan->access.tls && !plan->host && !plan->server && !plan->all_pairs)
    return app_arguments_wrong(reader->command,
                               "--tls-... are for two hosts: write HOST or --server");
  if (plan->once && !plan->server)
    return app_arguments_wrong(reader->command, "--once is for --server");
  if (!plan->server)
    return 0;
  if (words[BENCH_OP] || words[BENCH_SIZE] || words[BENCH_BANDWIDTH] || words[BENCH_LATENCY] ||
      words[BENCH_RING] || words[BENCH_DEPTH] || words[BENCH_PLACES] || words[BENCH_TOUCH] ||
      words[BENCH_VERIFY] || words[BENCH_HOLD] || reader->arguments->duration_set ||
      reader->arguments->json)
    return app_arguments_wrong(reader->command,
                               "the client says what is measured: the server takes --transport, "
                               "--memory, their options, --path, --cpu, --once, --insecure and "
                               "--tls-...");
  return 0;
}

static int bench_cases_check_bytes(const struct reader *reader, uint32_t count, const char *option)
{
  const struct bench_plan *plan = reader->plan;

  for (uint32_t i = 0; i < plan->size_count; i++) {
    if (plan->sizes[i] * count > BENCH_BYTES_MAX) {
      return app_arguments_wrong(reader->command,
                                 "%u slots of %" PRIu64 " B are over 4 GiB; choose a smaller %s",
                                 count, plan->sizes[i], option);
    }
  }
  return 0;
}

int bench_plan_read(const struct command *command, const struct arguments *arguments,
                    struct bench_plan *plan)
{
  const struct reader reader = {command, arguments, plan};
  const char *const *words = arguments->bench;

  *plan = (struct bench_plan){
      .measures = (!words[BENCH_LATENCY] ? MEASURE_BANDWIDTH : 0u) |
                  (!words[BENCH_BANDWIDTH] ? MEASURE_LATENCY : 0u),
      .duration_ns = arguments->duration_set ? arguments->duration_ns : DURATION_NS,
      .cpus = {-1, -1},
      .verify = words[BENCH_VERIFY] != NULL,
      .in_process = words[BENCH_IN_PROCESS] != NULL,
      .server = words[BENCH_SERVER] != NULL,
      .once = words[BENCH_ONCE] != NULL,
      .access = {words[BENCH_INSECURE] != NULL, arguments->tls},
      .all_pairs = words[BENCH_ALL_PAIRS] != NULL,
      .host = arguments->operand,
  };
  bool all = words[BENCH_OP] && strcmp(words[BENCH_OP], "all") == 0;
  if ((!all && bench_cases_each_word(&reader, BENCH_OP, "op", bench_cases_take_op) < 0) ||
      bench_cases_check_together(&reader) < 0 || bench_cases_read_side(&reader) < 0 ||
      bench_cases_read_ring(&reader) < 0 || bench_cases_read_touch(&reader) < 0 ||
      bench_cases_read_hold(&reader) < 0 ||
      bench_cases_each_word(&reader, BENCH_SIZE, "size", bench_cases_take_size) < 0 ||
      bench_cases_each_word(&reader, BENCH_CPU, "cpu", bench_cases_take_cpu) < 0 ||
      bench_cases_check_pairs(&reader) < 0)
    return -EINVAL;
  for (uint64_t size = 64; !words[BENCH_SIZE] && !plan->all_pairs && size <= 4 << 20; size *= 4)
    plan->sizes[plan->size_count++] = size;
  if (plan->duration_ns > BENCH_DURATION_MAX_NS) {
    return app_arguments_wrong(command, "--duration is the time of one measurement, at most 1h");
  }
  if (bench_cases_check_bytes(&reader, plan->ring, "--ring") < 0)
    return -EINVAL;
  /* Where places are named, transfers have none of their own. */
  return plan->places ? bench_cases_check_bytes(&reader, plan->places, "--places")
                      : bench_cases_check_bytes(&reader, plan->depth, "--depth");
}

void bench_plan_free(struct bench_plan *plan)
{
  struct bench_side *side = &plan->side;

  app_plugin_options_free(side->transport_options, side->transport_option_count);
  app_plugin_options_free(side->memory_options, side->memory_option_count);
}

/* ---- One of them -------------------------------------------------------------- */

void bench_case_make_token(char token[BENCH_TOKEN_MAX])
{
  uint64_t random[1] = {0};

  if (getrandom(random, sizeof(random), 0) != sizeof(random))
    random[0] = app_now_ns();
  snprintf(token, BENCH_TOKEN_MAX, "%016" PRIx64, random[0]);
}

static uint32_t bench_cases_under_way(const struct bench_plan *plan, const struct bench_probe *look,
                                      enum bench_op op, enum bench_measure measure, uint64_t size)
{
  const uint32_t most = pst_ring_default(size);

  if (!bench_is_one_sided(op))
    return plan->ring != 0 ? plan->ring : most;
  if (measure == MEASURE_LATENCY)
    return 1;
  if (plan->depth != 0)
    return plan->depth;
  return look->depth_max < most ? look->depth_max : most;
}

void bench_case_make(const struct bench_plan *plan, const struct bench_probe *look,
                     enum bench_op op, enum bench_measure measure, uint64_t size,
                     struct bench_case *c)
{
  *c = (struct bench_case){.op = op,
                           .measure = measure,
                           .size = size,
                           .ring = bench_cases_under_way(plan, look, op, measure, size),
                           .places = bench_is_one_sided(op) ? plan->places : 0,
                           .duration_ns = plan->duration_ns,
                           .warmup_ns = bench_plan_warmup(plan),
                           .hold_ns =
                               op == BENCH_SEND && measure == MEASURE_BANDWIDTH ? plan->hold_ns : 0,
                           .touch = !plan->no_touch && !plan->verify,
                           .verify = plan->verify};
  bench_case_make_token(c->token);
}

/* ---- Between client and server ---------------------------------------------- */

struct json_object *bench_case_write(const struct bench_case *c)
{
  struct json_object *to = json_object_new_object();

  if (!to)
    return NULL;
  json_object_object_add(to, "op", json_object_new_string(bench_op_name(c->op)));
  json_object_object_add(to, "measure", json_object_new_string(bench_measure_name(c->measure)));
  json_object_object_add(to, "size_bytes", json_object_new_uint64(c->size));
  json_object_object_add(to, "ring_slots", json_object_new_uint64(c->ring));
  json_object_object_add(to, "places", json_object_new_uint64(c->places));
  json_object_object_add(to, "duration_ns", json_object_new_uint64(c->duration_ns));
  json_object_object_add(to, "warmup_ns", json_object_new_uint64(c->warmup_ns));
  json_object_object_add(to, "hold_ns", json_object_new_uint64(c->hold_ns));
  json_object_object_add(to, "touch", json_object_new_boolean(c->touch));
  json_object_object_add(to, "verify", json_object_new_boolean(c->verify));
  json_object_object_add(to, "back_port", json_object_new_uint64(c->back_port));
  json_object_object_add(to, "token", json_object_new_string(c->token));
  return to;
}

static int bench_cases_read_uint(struct json_object *from, const char *key, uint64_t least,
                                 uint64_t most, uint64_t *value, char *why, size_t size)
{
  struct json_object *member = NULL;

  if (!json_object_object_get_ex(from, key, &member) ||
      !json_object_is_type(member, json_type_int)) {
    snprintf(why, size, "%s is missing, or is not a whole number", key);
    return -EPROTO;
  }
  /* json-c cuts a number to the type that is asked for: a negative one to 0. */
  uint64_t number = json_object_get_uint64(member);
  if (json_object_get_int64(member) < 0 || number < least || number > most) {
    snprintf(why, size, "%s is %s, not %" PRIu64 " to %" PRIu64, key,
             json_object_to_json_string(member), least, most);
    return -EPROTO;
  }
  *value = number;
  return 0;
}

static int bench_cases_read_name(struct json_object *from, const char *key,
                                 const char *const *names, int *index, char *why, size_t size)
{
  *index = bench_cases_index_of(bench_link_text(from, key), names);
  if (*index >= 0)
    return 0;
  snprintf(why, size, "%s is missing, or has a value that this server does not know", key);
  return -EPROTO;
}

static int bench_cases_read_bool(struct json_object *from, const char *key, bool *value, char *why,
                                 size_t size)
{
  struct json_object *member = NULL;

  if (!json_object_object_get_ex(from, key, &member) ||
      !json_object_is_type(member, json_type_boolean)) {
    snprintf(why, size, "%s is missing, or is neither true nor false", key);
    return -EPROTO;
  }
  *value = json_object_get_boolean(member);
  return 0;
}

static int bench_cases_read_token(struct json_object *from, char token[BENCH_TOKEN_MAX], char *why,
                                  size_t size)
{
  struct json_object *member = NULL;
  const char *text = bench_link_text(from, "token");
  size_t length = strlen(text);

  for (size_t i = 0; i < length; i++)
    if (!isxdigit((unsigned char)text[i]))
      length = 0;
  if (length == 0 || length >= BENCH_TOKEN_MAX ||
      !json_object_object_get_ex(from, "token", &member) ||
      (size_t)json_object_get_string_len(member) != length) {
    snprintf(why, size, "token is missing, or is not 1 to %d hex digits", BENCH_TOKEN_MAX - 1);
    return -EPROTO;
  }
  memcpy(token, text, length + 1);
  return 0;
}

/* Reads a case that the other end has sent, and checks it against all limits. *c stays untouched on
 * failure; -EPROTO with `why`. */
int bench_case_read(struct json_object *from, struct bench_case *c, char *why, size_t size)
{
  struct bench_case in = {0};
  uint64_t ring = 0, places = 0, port = 0;
  int op = 0, measure = 0;

  if (!json_object_is_type(from, json_type_object)) {
    snprintf(why, size, "the request is not a JSON object");
    return -EPROTO;
  }
  if (bench_cases_read_name(from, "op", op_names, &op, why, size) < 0 ||
      bench_cases_read_name(from, "measure", measure_names, &measure, why, size) < 0 ||
      bench_cases_read_uint(from, "size_bytes", 1, BENCH_SIZE_MAX, &in.size, why, size) < 0 ||
      bench_cases_read_uint(from, "ring_slots", 1, BENCH_RING_MAX, &ring, why, size) < 0 ||
      bench_cases_read_uint(from, "places", 0, BENCH_RING_MAX, &places, why, size) < 0 ||
      bench_cases_read_uint(from, "duration_ns", 1, BENCH_DURATION_MAX_NS, &in.duration_ns, why,
                            size) < 0 ||
      bench_cases_read_uint(from, "warmup_ns", 0, BENCH_DURATION_MAX_NS, &in.warmup_ns, why, size) <
          0 ||
      bench_cases_read_uint(from, "hold_ns", 0, BENCH_HOLD_MAX_NS, &in.hold_ns, why, size) < 0 ||
      bench_cases_read_uint(from, "back_port", 0, UINT16_MAX, &port, why, size) < 0 ||
      bench_cases_read_bool(from, "touch", &in.touch, why, size) < 0 ||
      bench_cases_read_bool(from, "verify", &in.verify, why, size) < 0 ||
      bench_cases_read_token(from, in.token, why, size) < 0)
    return -EPROTO;
  in.op = (enum bench_op)(op + 1);
  if (places && (in.verify || !bench_is_one_sided(in.op))) {
    snprintf(why, size, "places is for write and read without verify");
    return -EPROTO;
  }
  if (in.size * (places ? places : ring) > BENCH_BYTES_MAX) {
    snprintf(why, size, "%" PRIu64 " slots of %" PRIu64 " B are over 4 GiB", places ? places : ring,
             in.size);
    return -EPROTO;
  }
  if (ring < 2 && !bench_is_one_sided(in.op)) {
    snprintf(why, size, "ring_slots is 1; a ring has at least 2");
    return -EPROTO;
  }
  if (measure + 1 == MEASURE_LATENCY && port == 0 && !bench_is_one_sided(in.op)) {
    snprintf(why, size, "send latency needs back_port");
    return -EPROTO;
  }
  in.measure = (enum bench_measure)(measure + 1);
  in.ring = (uint32_t)ring;
  in.places = (uint32_t)places;
  in.back_port = (uint16_t)port;
  *c = in;
  return 0;
}
