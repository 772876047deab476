/* SPDX-License-Identifier: Apache-2.0 */
/* Chooses suites: by what the device announces; and by whether this is a transport between
 * processes at all, which no capability tells. */
#include "harness.h"
#include "program.h"

static bool reached;
static struct pst_limits announced;

static void a_device_opens_and_announces(void **state)
{
  contract_rule("Open the device that the options name. Device thread; may block.");
  contract_limits(*state, &announced);
}

int contract_open_run(const struct contract_variant *variant, struct pst_limits *limits)
{
  struct CMUnitTest cases[] = {CONTRACT_CASE(a_device_opens_and_announces)};
  int failed = CONTRACT_RUN("open", cases, variant);
  *limits = announced;
  return failed;
}

static void peer_of_another_process_is_reached_or_named_as_out_of_reach(void **state)
{
  contract_rule(
      "-EXDEV: with these options it reaches no other process, and the plan is not IN_PROCESS");
  struct contract_image image;
  struct pst_device *device;
  contract_image_open(*state, false, &image);
  int opened = contract_device_try(*state, &image, false, false, &device);
  if (opened == -EXDEV) { /* as its options are, none at all */
    contract_complaints();
    return;
  }
  assert_int_equal(opened, 0);
  image.ops->close(device);
  struct contract_pair *pair = contract_pair_open(*state, NULL);
  struct pst_blob blob;
  contract_address(&pair->receiver, 0, &blob);
  int rc = contract_connect(&pair->sender, 0, &blob);
  assert_true(rc == 0 || rc == -EXDEV);
  reached = rc == 0;
  contract_pair_close(pair);
  contract_complaints();
}

int contract_reach_run(const struct contract_variant *variant, bool *is_reached)
{
  struct CMUnitTest cases[] = {
      CONTRACT_CASE(peer_of_another_process_is_reached_or_named_as_out_of_reach),
  };
  int failed = CONTRACT_RUN("reach", cases, variant);
  *is_reached = reached;
  return failed;
}
