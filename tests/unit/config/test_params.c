/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of core/config/params.c. */
#include <errno.h>

#include "support.h"

static struct pst_config *load_params(const struct pst_config_params *params)
{
  struct pst_error error = PST_ERROR_INIT;
  struct pst_config *config = NULL;
  if (config_load_params(params, NULL, &test_catalog, &config, &error))
    fail_msg("refused:\n%s", error.text);
  return config;
}

static const char *params_refusal(const struct pst_config_params *params)
{
  static struct pst_error error;
  struct pst_config *config = NULL;
  error = (struct pst_error)PST_ERROR_INIT;
  assert_int_equal(config_load_params(params, NULL, &test_catalog, &config, &error), -EINVAL);
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
  assert_string_equal(config_of(config)->streams[0].origin, "params.streams[0]");
  pst_config_close(config);
  pst_config_close(text);
}

static void everything_is_the_same_as_in_yaml(void **state)
{
  (void)state;
  const struct pst_setting shared[] = {{"depth", "8 KiB"}, {"names", "x, y"}};
  const struct pst_setting gpu[] = {{"device", "1"}, {"nothing", NULL}};
  const struct pst_stream_params stream =
      STREAM(.name = "a", .ring = 64, .message = 4096, .transport = "loopback",
             .transport_options = shared, .transport_option_count = 2,
             .receiver = {.memory = "cuda", .memory_options = gpu, .memory_option_count = 1},
             .path = "staged");
  struct pst_config *config =
      load_params(&PARAMS(&stream, .control = "0.0.0.0:9", .threads = 2, .insecure = 1));
  struct pst_config *text =
      load(HEAD "  ring: 64\n  message: 4096\n"
                "  transport: {options: {depth: 8 KiB, names: [x, y]}}\n"
                "  receiver: {memory: {plugin: cuda, options: {device: 1}}, path: staged}\n"
                "control: {address: \"0.0.0.0:9\", insecure: true}\n"
                "threads: {count: 2}\n");
  assert_string_equal(pst_config_hash(config), pst_config_hash(text));
  pst_config_close(config);
  pst_config_close(text);
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
  struct pst_stream_params stream = STREAM(.name = "a", .ring = 1, .origins = &origins);
  struct pst_config *config;

  assert_string_equal(params_refusal(&PARAMS(&stream)),
                      "tool: ring: 1 is out of range; it takes 2 to 16777216");
  stream.ring = 2;
  config = load_params(&PARAMS(&stream));
  assert_string_equal(config_of(config)->streams[0].origin, "tool");
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
  stream.receiver = gpu;
  assert_non_null(strstr(params_refusal(&PARAMS(&stream)), "-m devise=1: memory plugin cuda"));
}

static void older_structs_read_as_zero(void **state)
{
  (void)state;
  struct pst_stream_params stream = STREAM(.name = "a", .path = "no such path");
  struct pst_config_params params = PARAMS((&stream), .control = "no address", .threads = 7);
  stream.struct_size = offsetof(struct pst_stream_params, path);
  params.struct_size = offsetof(struct pst_config_params, control);
  struct pst_config *config = load_params(&params);
  assert_get(config, "control.address", "127.0.0.1:18515");
  assert_get(config, "threads.count", "0");
  assert_get(config, "streams.a.receiver.path", "auto");
  pst_config_close(config);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(zero_means_the_default),
                                     cmocka_unit_test(everything_is_the_same_as_in_yaml),
                                     cmocka_unit_test(findings_name_the_struct),
                                     cmocka_unit_test(findings_name_where_a_user_has_written_it),
                                     cmocka_unit_test(older_structs_read_as_zero)};
  return cmocka_run_group_tests(tests, quiet, NULL) ? 1 : 0;
}
