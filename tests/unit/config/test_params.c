/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "support.h"

static struct pst_config *load_params(const struct pst_config_params *params)
{
  struct pst_error error = PST_ERROR_INIT;
  struct pst_config *config = NULL;
  if (config_load_params(params, &test_catalog, &config, &error))
    fail_msg("refused:\n%s", error.text);
  return config;
}

static const char *params_refusal(const struct pst_config_params *params)
{
  static struct pst_error error;
  struct pst_config *config = NULL;
  error = (struct pst_error)PST_ERROR_INIT;
  assert_int_equal(config_load_params(params, &test_catalog, &config, &error), -EINVAL);
  assert_int_equal(error.exit_status, PST_EXIT_USAGE);
  assert_null(config);
  return error.text;
}

#define STREAM(...)                                                                                \
  ((const struct pst_stream_params){.struct_size = sizeof(struct pst_stream_params), __VA_ARGS__})
#define PARAMS(stream_, ...)                                                                       \
  ((const struct pst_config_params){.struct_size = sizeof(struct pst_config_params),               \
                                    .stream_count = 1,                                             \
                                    .streams = (const struct pst_stream_params *const[]){stream_}, \
                                    __VA_ARGS__})

static void zero_means_the_default(void **state)
{
  (void)state;
  const struct pst_stream_params stream = STREAM(.name = "a");
  struct pst_config *config = load_params(&PARAMS(&stream));
  struct pst_config *text = load(HEAD);
  assert_string_equal(pst_config_hash(config), pst_config_hash(text));
  assert_string_equal(config_of(config)->streams[0].mark.origin, "params.streams[0]");
  pst_config_close(config);
  pst_config_close(text);
}

static void everything_is_the_same_as_in_yaml(void **state)
{
  (void)state;
  const struct pst_setting shared[] = {{"depth", "8 KiB"}, {"names", "x, y"}};
  const struct pst_setting of_sender[] = {{"burst", "3"}}, of_receiver[] = {{"wait", "2 s"}};
  const struct pst_setting gpu[] = {{"device", "1"}, {"nothing", NULL}};
  const struct pst_stream_params stream =
      STREAM(.name = "a", .ring = 64, .message = 4096, .transport = "loopback",
             .transport_options = shared, .transport_option_count = 2, .rate_bps = 1000,
             .sender = {.transport_options = of_sender, .transport_option_count = 1},
             .receiver = {.memory = "cuda",
                          .memory_options = gpu,
                          .memory_option_count = 1,
                          .transport_options = of_receiver,
                          .transport_option_count = 1},
             .path = "staged");
  struct pst_config *config = load_params(&PARAMS(&stream, .control = "0.0.0.0:9", .workers = 2,
                                                  .insecure = 1, .sleep_after_ns = 3000000));
  struct pst_config *text =
      load(HEAD "  ring: 64\n  message: 4096\n"
                "  transport: {options: {depth: 8 KiB, names: [x, y]}}\n"
                "  sender: {rate: 1000, transport: {options: {burst: 3}}}\n"
                "  receiver: {memory: {plugin: cuda, options: {device: 1}}, path: staged,\n"
                "             transport: {options: {wait: 2 s}}}\n"
                "control: {address: \"0.0.0.0:9\", insecure: true}\n"
                "workers: {count: 2, sleep_after: 3 ms}\n");
  assert_string_equal(pst_config_hash(config), pst_config_hash(text));
  pst_config_close(config);
  pst_config_close(text);
}

static void frames_are_the_same_as_in_yaml(void **state)
{
  (void)state;
  const struct pst_setting assemble[] = {
      {"by", "rtp_marker"}, {"packets", "64"}, {"timeout", "3 ms"}, {"missing", NULL}};
  const struct pst_setting wrong[] = {{"package", "64"}},
                           twice[] = {{"by", "sequence"}, {"by", "x"}};
  struct pst_stream_params stream = STREAM(.name = "a", .assemble = assemble, .assemble_count = 4);
  struct pst_config *config = load_params(&PARAMS(&stream));
  struct pst_config *text =
      load(HEAD "  receiver: {assemble: {by: rtp_marker, packets: 64, timeout: 3 ms}}\n");
  assert_string_equal(pst_config_hash(config), pst_config_hash(text));
  assert_int_equal(pst_config_get_uint(config, "streams.a.receiver.assemble.packets"), 64);
  pst_config_close(config);
  pst_config_close(text);
  stream.assemble = wrong;
  stream.assemble_count = 1;
  assert_non_null(strstr(params_refusal(&PARAMS(&stream)), "unknown key \"package\""));
  stream.assemble = twice;
  stream.assemble_count = 2;
  assert_non_null(
      strstr(params_refusal(&PARAMS(&stream)), "option \"by\" of assemble is given twice"));
  /* A program built before has no such members. */
  stream.struct_size = offsetof(struct pst_stream_params, assemble);
  config = load_params(&PARAMS(&stream));
  assert_int_equal(pst_config_get_uint(config, "streams.a.receiver.assemble.packets"), 0);
  pst_config_close(config);
}

static void findings_name_the_struct(void **state)
{
  (void)state;
  const struct pst_setting wrong[] = {{"dept", "1"}}, twice[] = {{"depth", "1"}, {"depth", "2"}};
  const struct pst_stream_params ring = STREAM(.name = "a", .ring = 1);
  const struct pst_stream_params nameless = STREAM(.ring = 2);
  const struct pst_stream_params option =
      STREAM(.name = "a", .transport_options = wrong, .transport_option_count = 1);
  const struct pst_stream_params doubled =
      STREAM(.name = "a", .transport_options = twice, .transport_option_count = 2);
  const struct pst_stream_params bytes = STREAM(.name = "\xff");
  assert_string_equal(params_refusal(&PARAMS(&ring)),
                      "params.streams[0]: ring: 1 is out of range; it takes 2 to 16777216");
  assert_string_equal(params_refusal(&PARAMS(&nameless)),
                      "params.streams[0]: \"name\" is missing in streams[]; it takes a text");
  assert_string_equal(params_refusal(&PARAMS(&option)),
                      "params.streams[0]: transport plugin loopback: unknown option \"dept\"; did "
                      "you mean \"depth\"?");
  assert_string_equal(
      params_refusal(&PARAMS(&doubled)),
      "params.streams[0]: option \"depth\" of transport is given twice; remove one");
  assert_non_null(strstr(params_refusal(&PARAMS(&bytes)),
                         "params.streams[0]: name: the value holds a byte that is not UTF-8"));
  assert_non_null(strstr(params_refusal(&PARAMS(NULL)),
                         "params.streams[0]: the pointer is NULL; point to a stream"));
  assert_non_null(strstr(params_refusal(&PARAMS(&ring, .control = "far:5")), "beyond loopback"));
}

static void findings_name_where_a_user_has_written_it(void **state)
{
  (void)state;
  const struct pst_origins origins = {.struct_size = sizeof(origins),
                                      .stream = "tool",
                                      .transport_option = "-t",
                                      .memory_option = "-m"};
  const struct pst_setting wrong[] = {{"dept", "1"}}, twice[] = {{"depth", "1"}, {"depth", "2"}};
  const struct pst_setting bytes[] = {{"depth", "\xff"}}, device[] = {{"devise", "1"}};
  const struct pst_side_params gpu = {
      .memory = "cuda", .memory_options = device, .memory_option_count = 1};
  const struct pst_side_params own = {.transport_options = wrong, .transport_option_count = 1};
  struct pst_stream_params stream = STREAM(.name = "a", .ring = 1, .origins = &origins);
  struct pst_config *config;

  assert_string_equal(params_refusal(&PARAMS(&stream)),
                      "tool: ring: 1 is out of range; it takes 2 to 16777216");
  stream.ring = 2;
  config = load_params(&PARAMS(&stream));
  assert_string_equal(config_of(config)->streams[0].mark.origin, "tool");
  pst_config_close(config);
  stream.transport_options = wrong;
  stream.transport_option_count = 1;
  assert_string_equal(
      params_refusal(&PARAMS(&stream)),
      "-t dept=1: transport plugin loopback: unknown option \"dept\"; did you mean \"depth\"?");
  stream.transport_options = twice;
  stream.transport_option_count = 2;
  assert_string_equal(params_refusal(&PARAMS(&stream)),
                      "-t depth=2: option \"depth\" of transport is given twice; remove one");
  stream.transport_options = bytes;
  stream.transport_option_count = 1;
  assert_non_null(
      strstr(params_refusal(&PARAMS(&stream)), "depth: the value holds a byte that is not UTF-8"));
  stream.transport_option_count = 0;
  stream.sender = own;
  assert_non_null(strstr(params_refusal(&PARAMS(&stream)), "-t dept=1: transport plugin"));
  stream.sender = (struct pst_side_params){NULL};
  stream.receiver = gpu;
  assert_non_null(strstr(params_refusal(&PARAMS(&stream)), "-m devise=1: memory plugin cuda"));
}

static void older_structs_read_as_zero(void **state)
{
  (void)state;
  struct pst_stream_params stream = STREAM(.name = "a", .path = "no such path");
  struct pst_config_params params = PARAMS((&stream), .control = "no address", .workers = 7);
  stream.struct_size = offsetof(struct pst_stream_params, path);
  params.struct_size = offsetof(struct pst_config_params, control);
  struct pst_config *config = load_params(&params);
  assert_get(config, "control.address", "127.0.0.1:18515");
  assert_get(config, "workers.count", "0");
  assert_get(config, "streams.a.receiver.path", "auto");
  pst_config_close(config);
}

static void a_region_is_the_same_as_in_yaml(void **state)
{
  (void)state;
  const struct pst_stream_params stream = STREAM(.name = "a", .region = 1048576);
  const struct pst_stream_params both = STREAM(.name = "a", .region = 64, .ring = 4);
  struct pst_config *config = load_params(&PARAMS(&stream));
  struct pst_config *text = load(HEAD "  region: 1 MiB\n");
  assert_string_equal(pst_config_hash(config), pst_config_hash(text));
  assert_int_equal(pst_config_get_uint(config, "streams.a.region"), 1048576);
  assert_int_equal(config_of(text)->streams[0].region, 1048576);
  assert_int_equal(config_of(text)->streams[0].message, 0);
  assert_non_null(strstr(params_refusal(&PARAMS(&both)), "no effect beside \"region\""));
  pst_config_close(config);
  pst_config_close(text);
}

static void no_control_channel(void **state)
{
  (void)state;
  const struct pst_stream_params stream = STREAM(.name = "a");
  struct pst_config *config = load_params(&PARAMS(&stream, .control = "none"));
  assert_true(config_of(config)->control.none);
  pst_config_close(config);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(zero_means_the_default),
                                     cmocka_unit_test(everything_is_the_same_as_in_yaml),
                                     cmocka_unit_test(frames_are_the_same_as_in_yaml),
                                     cmocka_unit_test(findings_name_the_struct),
                                     cmocka_unit_test(findings_name_where_a_user_has_written_it),
                                     cmocka_unit_test(older_structs_read_as_zero),
                                     cmocka_unit_test(a_region_is_the_same_as_in_yaml),
                                     cmocka_unit_test(no_control_channel)};
  return cmocka_run_group_tests(tests, quiet, NULL) ? 1 : 0;
}
