/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the groups of the transport contract. */
#include "harness.h"

int contract_transport_run(const struct contract_variant *variant)
{
  int failed = contract_life_run(variant);
  failed += contract_post_run(variant);
  failed += contract_limits_run(variant);
  failed += contract_stream_run(variant);
  failed += contract_share_run(variant);
  failed += contract_lend_run(variant);
  failed += contract_rma_run(variant);
  failed += contract_complete_run(variant);
  failed += contract_wake_run(variant);
  failed += contract_race_run(variant);
  failed += contract_close_run(variant);
  failed += contract_dynamic_run(variant);
  failed += contract_thread_run(variant);
  return failed + contract_death_run(variant);
}
