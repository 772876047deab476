/* SPDX-License-Identifier: Apache-2.0 */
/* When a payload may lie where the CPU does not reach, and why else it may not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "payload.h"

static const struct eth_payload_facts good = {
    .is_card = true, .has_no_inline = true, .segments_max = 2, .offloads_udp = true};

static void assert_refused(const struct eth_payload_facts *facts, const char *word)
{
  const char *why = eth_payload_judge(facts);

  assert_non_null(why);
  assert_in_range(strlen(why), 1, 80); /* core quotes so much */
  if (!strstr(why, word))
    fail_msg("\"%s\" is not in \"%s\"", word, why);
}

static void a_card_that_gathers_is_taken(void **state)
{
  struct eth_payload_facts facts = good;

  (void)state;
  assert_null(eth_payload_judge(&facts));
  facts.may_be_ipv6 = true; /* the card sums it */
  assert_null(eth_payload_judge(&facts));
  facts.may_be_ipv6 = facts.offloads_udp = false; /* a checksum of 0 is legal over IPv4 */
  assert_null(eth_payload_judge(&facts));
}

static void headers_alone_may_be_copied(void **state)
{
  struct eth_payload_facts facts = good;

  (void)state;
  facts.inline_min = 42;
  assert_null(eth_payload_judge(&facts));
  assert_int_equal(eth_payload_inline_min(""), 0);
  assert_int_equal(eth_payload_inline_min("txq_inline_max=300,tx_pp=500"), 0);
  assert_int_equal(eth_payload_inline_min("tx_pp=500,txq_inline_min=0x40"), 64);
  assert_int_equal(eth_payload_inline_min("txq_inline_min=60,txq_inline_min=18"), 60);
  assert_int_equal(eth_payload_inline_min("txq_inline_min=-1"), 0);
  assert_int_equal(eth_payload_inline_min("txq_inline_min=8589934592"), UINT32_MAX);
}

static void each_lack_has_its_reason(void **state)
{
  struct eth_payload_facts facts = good;

  (void)state;
  facts.is_card = false;
  assert_refused(&facts, "the CPU reads");
  facts = good;
  facts.has_no_inline = false;
  assert_refused(&facts, "mlx5");
  facts = good;
  facts.inline_min = 43;
  assert_refused(&facts, "txq_inline_min");
  facts = good;
  facts.segments_max = 1;
  assert_refused(&facts, "several segments");
  facts = good;
  facts.sums_bytes = true;
  assert_refused(&facts, "`checksum: false`");
  facts.has_tags = true; /* instead of sums */
  assert_refused(&facts, "`authenticate`");
  facts = good;
  facts.sums_udp = true;
  assert_refused(&facts, "`udp_checksum: software`");
  facts = good;
  facts.offloads_udp = false;
  facts.may_be_ipv6 = true;
  assert_refused(&facts, "`family: ipv4`");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_card_that_gathers_is_taken),
      cmocka_unit_test(headers_alone_may_be_copied),
      cmocka_unit_test(each_lack_has_its_reason),
  };

  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
