/* SPDX-License-Identifier: Apache-2.0 */
/* Which neighbours are asked, when, and what an answer changes; on a simulated clock. */
#include "support.h"

#include "message.h"
#include "neighbour.h"

#define START (1000 * SECOND)

/* A port of two addresses, and its frames. */
struct port {
  struct eth_neighbours *n;
  uint8_t frame[ETH_CONTROL_MAX];
  uint32_t length;
  struct eth_packet packet;
};

static void open_port(struct port *port, const uint8_t mac[ETH_MAC_BYTES], const char *v4,
                      const char *v6)
{
  struct eth_neighbours_params params = {.vlan = ETH_UNTAGGED, .own_count = 2, .seed = mac[5]};

  memcpy(params.mac, mac, ETH_MAC_BYTES);
  memcpy(params.own[0], AT(v4), 16);
  memcpy(params.own[1], AT(v6), 16);
  assert_int_equal(eth_neighbours_open(&params, START, &port->n), 0);
}

/* The next frame, which any parser takes. */
static bool next(struct port *port, uint64_t now)
{
  port->length = eth_neighbours_next(port->n, now, port->frame);
  if (!port->length)
    return false;
  const enum eth_verdict verdict = parse(port->frame, port->length, &port->packet);
  assert_true(verdict == ETH_IS_ARP || verdict == ETH_IS_ICMPV6);
  return true;
}

static void drop_all(struct port *port, uint64_t now)
{
  while (next(port, now))
    ;
}

/* Passes the frames of `from` to `to`; returns how many. */
static uint32_t carry(struct port *from, struct port *to, uint64_t now)
{
  uint32_t count = 0;

  for (; next(from, now); count++) {
    const struct eth_bytes frame = guarded(from->frame, from->length, from->length);
    assert_true(eth_neighbours_take(to->n, &frame, &from->packet, now));
  }
  return count;
}

static bool take(struct port *port, const uint8_t *bytes, uint32_t length, uint64_t now)
{
  const struct eth_bytes frame = guarded(bytes, length, length);
  struct eth_packet packet;

  (void)eth_parse(&frame, 0, &packet);
  return eth_neighbours_take(port->n, &frame, &packet, now);
}

static enum eth_neighbour_state look(struct port *port, uint32_t index, uint8_t mac[6])
{
  return eth_neighbours_look(port->n, index, mac);
}

static uint64_t refused(struct port *port)
{
  struct eth_neighbours_counts counts;

  eth_neighbours_counts(port->n, &counts);
  return counts.refused;
}

/* RFC 826 as every host speaks it: a request to all, an answer to who asked. */
static void arp_is_as_the_rfc_says(void **state)
{
  static const char request[] = "ffffffffffff 02000000000a 0806 0001 0800 06 04 0001"
                                "02000000000a 0a000001 000000000000 0a000002";
  static const char answer[] = "02000000000a 02000000000b 0806 0001 0800 06 04 0002"
                               "02000000000b 0a000002 02000000000a 0a000001";
  struct port a, b;
  uint8_t bytes[64], mac[6];
  uint32_t index;

  (void)state;
  open_port(&a, mac_a, "10.0.0.1", "fd00::1");
  open_port(&b, mac_b, "10.0.0.2", "fd00::2");
  drop_all(&a, START);
  drop_all(&b, START);
  assert_int_equal(eth_neighbours_ask(a.n, AT("10.0.0.2"), START, &index), 0);
  assert_true(eth_neighbours_due(a.n) <= START);
  assert_int_equal(look(&a, index, mac), ETH_NEIGHBOUR_ASKED);
  assert_true(next(&a, START));
  assert_int_equal(a.length, hex(request, bytes));
  assert_memory_equal(a.frame, bytes, a.length);
  assert_true(take(&b, a.frame, a.length, START));
  assert_true(next(&b, START));
  assert_int_equal(b.length, hex(answer, bytes));
  assert_memory_equal(b.frame, bytes, b.length);
  assert_true(take(&a, b.frame, b.length, START));
  assert_int_equal(look(&a, index, mac), ETH_NEIGHBOUR_KNOWN);
  assert_memory_equal(mac, mac_b, 6);
  assert_false(next(&a, START + SECOND));
  eth_neighbours_close(a.n);
  eth_neighbours_close(b.n);
}

/* RFC 4861, sections 4.3 and 4.4. */
static void nd_is_as_the_rfc_says(void **state)
{
  struct port a, b;
  uint8_t mac[6];
  uint32_t index;

  (void)state;
  open_port(&a, mac_a, "10.0.0.1", "fd00::1");
  open_port(&b, mac_b, "10.0.0.2", "fd00::2:3456");
  drop_all(&a, START);
  drop_all(&b, START);
  assert_int_equal(eth_neighbours_ask(a.n, AT("fd00::2:3456"), START, &index), 0);
  assert_true(next(&a, START));
  assert_int_equal(a.length, 86);
  assert_int_equal(a.packet.hop_limit, 255);
  assert_memory_equal(a.packet.from.address, AT("fd00::1"), 16);
  assert_memory_equal(a.packet.to.address, AT("ff02::1:ff02:3456"), 16);
  assert_int_equal(a.frame[0], 0x33);
  assert_int_equal(a.frame[54], 135);
  assert_memory_equal(a.frame + 62, AT("fd00::2:3456"), 16);
  assert_int_equal(a.frame[78], 1);
  assert_memory_equal(a.frame + 80, mac_a, 6);
  assert_true(take(&b, a.frame, a.length, START));
  assert_true(next(&b, START));
  assert_memory_equal(b.frame, mac_a, 6);
  assert_memory_equal(b.packet.to.address, AT("fd00::1"), 16);
  assert_int_equal(b.frame[54], 136);
  assert_int_equal(b.frame[58], 0x60); /* solicited, overrides */
  assert_int_equal(b.frame[78], 2);
  assert_true(take(&a, b.frame, b.length, START));
  assert_int_equal(look(&a, index, mac), ETH_NEIGHBOUR_KNOWN);
  assert_memory_equal(mac, mac_b, 6);
  assert_int_equal(refused(&a) + refused(&b), 0);
  eth_neighbours_close(a.n);
  eth_neighbours_close(b.n);
}

static void own_addresses_are_announced_twice(void **state)
{
  struct port a;

  (void)state;
  open_port(&a, mac_a, "10.0.0.1", "fd00::1");
  for (uint32_t round = 0; round < 2; round++) {
    const uint64_t now = START + round * 2 * SECOND;
    assert_int_equal(eth_neighbours_due(a.n), now);
    assert_true(next(&a, now)); /* an ARP announcement: RFC 5227, section 3 */
    assert_memory_equal(a.frame + 28, a.frame + 38, 4);
    assert_int_equal(a.frame[0], 0xff);
    for (uint32_t i = 0; i < 2; i++) { /* and of the link-local address, too */
      assert_true(next(&a, now));
      assert_memory_equal(a.packet.to.address, AT("ff02::1"), 16);
      assert_int_equal(a.frame[58], 0x20);
    }
    assert_memory_equal(a.frame + 62, AT("fe80::ff:fe00:a"), 16);
    assert_false(next(&a, now + 2 * SECOND - 1));
  }
  assert_int_equal(eth_neighbours_due(a.n), UINT64_MAX);
  eth_neighbours_close(a.n);
}

static void silence_is_asked_less_and_less_often(void **state)
{
  static const uint32_t waits[] = {1, 1, 1, 2, 4, 8, 16, 32, 60, 60};
  struct port a, b;
  uint64_t now = START;
  uint8_t mac[6];
  uint32_t index;

  (void)state;
  open_port(&a, mac_a, "10.0.0.1", "fd00::1");
  open_port(&b, mac_b, "10.0.0.2", "fd00::2");
  drop_all(&a, START);
  drop_all(&a, START + 2 * SECOND);
  now = START + 2 * SECOND;
  drop_all(&b, now);
  drop_all(&b, now + 2 * SECOND);
  assert_int_equal(eth_neighbours_ask(a.n, AT("10.0.0.2"), now, &index), 0);
  for (uint32_t i = 0; i < LENGTH(waits); i++) {
    assert_int_equal(eth_neighbours_due(a.n), now);
    assert_true(next(&a, now));
    assert_false(next(&a, now));
    assert_int_equal(look(&a, index, mac), i < 3 ? ETH_NEIGHBOUR_ASKED : ETH_NEIGHBOUR_UNANSWERED);
    now += waits[i] * SECOND;
  }
  assert_true(next(&a, now));
  assert_true(take(&b, a.frame, a.length, now));
  assert_int_equal(carry(&b, &a, now), 1);
  assert_int_equal(look(&a, index, mac), ETH_NEIGHBOUR_KNOWN);
  eth_neighbours_close(a.n);
  eth_neighbours_close(b.n);
}

/* After half a minute, more or less, it is asked by itself; silent, its MAC stays in use. */
static void a_known_one_is_asked_again(void **state)
{
  struct port a, b;
  uint8_t mac[6];
  uint32_t index;

  (void)state;
  open_port(&a, mac_a, "10.0.0.1", "fd00::1");
  open_port(&b, mac_b, "10.0.0.2", "fd00::2");
  drop_all(&a, START + 2 * SECOND);
  drop_all(&a, START + 4 * SECOND);
  drop_all(&b, START);
  uint64_t now = START + 5 * SECOND;
  assert_int_equal(eth_neighbours_ask(a.n, AT("10.0.0.2"), now, &index), 0);
  carry(&a, &b, now);
  carry(&b, &a, now);
  assert_in_range(eth_neighbours_due(a.n), now + 15 * SECOND, now + 45 * SECOND);
  now = eth_neighbours_due(a.n);
  for (uint32_t i = 0; i < 3; i++, now += SECOND) {
    assert_true(next(&a, now));
    assert_memory_equal(a.frame, mac_b, 6); /* to itself */
    assert_int_equal(look(&a, index, mac), ETH_NEIGHBOUR_KNOWN);
  }
  assert_true(next(&a, now));
  assert_int_equal(a.frame[0], 0xff); /* to all */
  memset(mac, 0, 6);
  assert_int_equal(look(&a, index, mac), ETH_NEIGHBOUR_SILENT);
  assert_memory_equal(mac, mac_b, 6);
  assert_true(take(&b, a.frame, a.length, now));
  assert_int_equal(carry(&b, &a, now), 1);
  assert_int_equal(look(&a, index, mac), ETH_NEIGHBOUR_KNOWN);
  eth_neighbours_close(a.n);
  eth_neighbours_close(b.n);
}

static void of_two_that_answer_the_first_is_used(void **state)
{
  struct port a, b, c;
  struct eth_neighbour_event event;
  uint8_t request[64], mac[6];
  uint32_t index, length;

  (void)state;
  open_port(&a, mac_a, "10.0.0.1", "fd00::1");
  open_port(&b, mac_b, "10.0.0.2", "fd00::2");
  open_port(&c, mac_c, "10.0.0.2", "fd00::3");
  drop_all(&a, START);
  drop_all(&b, START);
  drop_all(&c, START);
  assert_int_equal(eth_neighbours_ask(a.n, AT("10.0.0.2"), START, &index), 0);
  assert_true(next(&a, START));
  length = a.length;
  memcpy(request, a.frame, length);
  assert_true(take(&b, request, length, START));
  assert_true(take(&c, request, length, START));
  assert_int_equal(carry(&b, &a, START), 1);
  assert_int_equal(carry(&c, &a, START + MS), 1);
  assert_int_equal(look(&a, index, mac), ETH_NEIGHBOUR_KNOWN);
  assert_memory_equal(mac, mac_b, 6);
  assert_true(eth_neighbours_event(a.n, &event));
  assert_int_equal(event.kind, ETH_NEIGHBOUR_TWO);
  assert_memory_equal(event.address, AT("10.0.0.2"), 16);
  assert_memory_equal(event.before, mac_b, 6);
  assert_memory_equal(event.mac, mac_c, 6);
  assert_false(eth_neighbours_event(a.n, &event));
  /* Later it is a move, told apart, and at most once a minute. */
  assert_true(take(&c, request, length, START + 90 * SECOND));
  assert_int_equal(eth_neighbours_next(c.n, START + 90 * SECOND, c.frame), 42);
  assert_true(take(&a, c.frame, 42, START + 90 * SECOND));
  assert_int_equal(look(&a, index, mac), ETH_NEIGHBOUR_KNOWN);
  assert_memory_equal(mac, mac_c, 6);
  assert_true(eth_neighbours_event(a.n, &event));
  assert_int_equal(event.kind, ETH_NEIGHBOUR_MOVED);
  assert_memory_equal(event.before, mac_b, 6);
  assert_true(take(&b, request, length, START + 100 * SECOND));
  assert_int_equal(eth_neighbours_next(b.n, START + 100 * SECOND, b.frame), 42);
  assert_true(take(&a, b.frame, 42, START + 100 * SECOND));
  assert_false(eth_neighbours_event(a.n, &event));
  eth_neighbours_close(a.n);
  eth_neighbours_close(b.n);
  eth_neighbours_close(c.n);
}

/* RFC 4861, section 7.2.5: without the flag, the known MAC is asked and not replaced. */
static void an_advertisement_without_override_changes_nothing(void **state)
{
  struct port a, b;
  uint8_t frame[86], mac[6];
  uint32_t index;

  (void)state;
  open_port(&a, mac_a, "10.0.0.1", "fd00::1");
  open_port(&b, mac_b, "10.0.0.2", "fd00::2");
  drop_all(&a, START);
  drop_all(&b, START);
  assert_int_equal(eth_neighbours_ask(a.n, AT("fd00::2"), START, &index), 0);
  carry(&a, &b, START);
  assert_true(next(&b, START));
  assert_true(take(&a, b.frame, b.length, START));
  drop_all(&a, START + 2 * SECOND);
  memcpy(frame, b.frame, 86);
  frame[58] = 0x40;
  memcpy(frame + 80, mac_c, 6);
  memset(frame + 56, 0, 2);
  const uint16_t sum = eth_sum_complement(
      eth_sum(frame + 54, 32, eth_sum(frame + 22, 32, 0) + eth_word(58) + eth_word(32)));
  memcpy(frame + 56, &sum, 2);
  const uint64_t now = START + 10 * SECOND;
  assert_false(next(&a, now));
  assert_true(take(&a, frame, 86, now));
  assert_int_equal(look(&a, index, mac), ETH_NEIGHBOUR_KNOWN);
  assert_memory_equal(mac, mac_b, 6);
  assert_true(next(&a, now));
  assert_memory_equal(a.frame, mac_b, 6);
  eth_neighbours_close(a.n);
  eth_neighbours_close(b.n);
}

static void our_address_is_defended(void **state)
{
  struct port a, c;
  struct eth_neighbour_event event;
  const uint64_t now = START + 5 * SECOND;

  (void)state;
  open_port(&a, mac_a, "10.0.0.1", "fd00::1");
  open_port(&c, mac_c, "10.0.0.1", "fd00::1");
  drop_all(&a, START);
  drop_all(&a, START + 2 * SECOND);
  assert_false(next(&a, now));
  carry(&c, &a, now); /* announces both */
  for (uint32_t i = 0; i < 2; i++) {
    assert_true(eth_neighbours_event(a.n, &event));
    assert_int_equal(event.kind, ETH_NEIGHBOUR_OURS);
    assert_memory_equal(event.mac, mac_c, 6);
    assert_memory_equal(event.address, i ? AT("fd00::1") : AT("10.0.0.1"), 16);
  }
  assert_true(next(&a, now));
  assert_memory_equal(a.frame + 28, a.frame + 38, 4);
  assert_true(next(&a, now));
  assert_false(next(&a, now));
  carry(&c, &a, now + 2 * SECOND); /* again, too soon for another defence */
  assert_false(next(&a, now + 3 * SECOND));
  eth_neighbours_close(a.n);
  eth_neighbours_close(c.n);
}

/* RFC 5227, section 2.1.1; RFC 4862, section 5.4: probes of one that wants our address. */
static void one_that_looks_for_duplicates_is_answered(void **state)
{
  static const char probe[] = "ffffffffffff 02000000000c 0806 0001 0800 06 04 0001"
                              "02000000000c 00000000 000000000000 0a000001";
  struct port a;
  uint8_t bytes[ETH_CONTROL_MAX], message[24] = {135};
  static const uint8_t none[16];
  const struct eth_link link = {{2, 0, 0, 0, 0, 0xc}, ETH_UNTAGGED};
  struct eth_icmpv6 packet = {.from = none, .hop_limit = 255, .message = message, .length = 24};
  uint8_t group[16];

  (void)state;
  open_port(&a, mac_a, "10.0.0.1", "fd00::1");
  drop_all(&a, START);
  assert_true(take(&a, bytes, hex(probe, bytes), START));
  assert_true(next(&a, START));
  assert_int_equal(a.frame[21], 2);
  assert_memory_equal(a.frame, mac_c, 6);
  memcpy(message + 8, AT("fd00::1"), 16);
  eth_solicited_node(AT("fd00::1"), group);
  packet.to = group;
  assert_true(take(&a, bytes, eth_icmpv6_write(bytes, &link, &packet), START));
  assert_true(next(&a, START));
  assert_memory_equal(a.packet.to.address, AT("ff02::1"), 16);
  assert_int_equal(a.frame[58], 0x20);
  assert_int_equal(refused(&a), 0);
  eth_neighbours_close(a.n);
}

static void what_breaks_the_rules_is_refused(void **state)
{
  static const char *const arps[] = {
      "0006 0800 06 04 0001 02000000000c 0a000009 000000000000 0a000001",
      "0001 86dd 06 04 0001 02000000000c 0a000009 000000000000 0a000001",
      "0001 0800 08 04 0001 02000000000c 0a000009 000000000000 0a000001",
      "0001 0800 06 04 0003 02000000000c 0a000009 000000000000 0a000001",
      "0001 0800 06 04 0001 000000000000 0a000009 000000000000 0a000001",
      "0001 0800 06 04 0001 03000000000c 0a000009 000000000000 0a000001",
      "0001 0800 06 04 0001 02000000000c ffffffff 000000000000 0a000001",
      "0001 0800 06 04 0001 02000000000c e0000001 000000000000 0a000001",
  };
  struct port a;
  uint8_t bytes[100];

  (void)state;
  open_port(&a, mac_a, "10.0.0.1", "fd00::1");
  drop_all(&a, START);
  for (uint32_t i = 0; i < LENGTH(arps); i++) {
    uint32_t length = hex("ffffffffffff 02000000000c 0806", bytes);
    length += hex(arps[i], bytes + length);
    assert_true(take(&a, bytes, length, START));
    assert_int_equal(refused(&a), i + 1);
    assert_false(next(&a, START));
  }
  eth_neighbours_close(a.n);
}

static void solicitations_that_break_the_rules_are_refused(void **state)
{
  static const uint8_t none[16];
  const struct eth_link link = {{2, 0, 0, 0, 0, 0xc}, ETH_UNTAGGED};
  struct port a;
  uint8_t bytes[ETH_CONTROL_MAX], message[32];

  (void)state;
  open_port(&a, mac_a, "10.0.0.1", "fd00::1");
  drop_all(&a, START);
  for (uint32_t i = 0; i < 9; i++) {
    const struct dg_source from = end_of("fd00::9", 0), all = end_of("ff02::1", 0),
                           own = end_of("fd00::1", 0);
    struct eth_icmpv6 packet = {.mac_to = mac_a,
                                .from = from.address,
                                .to = own.address,
                                .hop_limit = 255,
                                .message = message,
                                .length = 32};
    memset(message, 0, sizeof(message));
    message[0] = 135;
    memcpy(message + 8, AT("fd00::1"), 16);
    message[24] = message[25] = 1;
    memcpy(message + 26, mac_c, 6);
    if (i == 0)
      packet.hop_limit = 254;
    else if (i == 1)
      message[1] = 1;
    else if (i == 2)
      packet.length = 20;
    else if (i == 3)
      message[25] = 0;
    else if (i == 4)
      message[25] = 2;
    else if (i == 5)
      memcpy(message + 8, all.address, 16);
    else if (i == 6)
      packet.from = none;
    else if (i == 7)
      message[26] |= 1;
    else
      message[0] = 136, message[4] = 0x40, message[24] = 2, packet.to = all.address;
    assert_true(take(&a, bytes, eth_icmpv6_write(bytes, &link, &packet), START));
    assert_int_equal(refused(&a), i + 1);
    assert_false(next(&a, START));
  }
  eth_neighbours_close(a.n);
}

static void what_is_not_ours_to_ask_for(void **state)
{
  struct eth_neighbours_params params = {.vlan = ETH_UNTAGGED, .own_count = 1};
  static const char *const bad[] = {"224.0.0.1", "0.0.0.0", "127.0.0.1", "255.255.255.255",
                                    "::",        "::1",     "ff02::1",   "10.0.0.1"};
  struct eth_neighbours *n;
  uint32_t index;

  (void)state;
  for (uint32_t i = 0; i + 1 < LENGTH(bad); i++) {
    memcpy(params.own[0], AT(bad[i]), 16);
    assert_int_equal(eth_neighbours_open(&params, START, &n), -EINVAL);
  }
  memcpy(params.own[0], AT("10.0.0.1"), 16);
  assert_int_equal(eth_neighbours_open(&params, START, &n), 0);
  for (uint32_t i = 0; i < LENGTH(bad); i++)
    assert_int_equal(eth_neighbours_ask(n, AT(bad[i]), START, &index), -EINVAL);
  assert_int_equal(eth_neighbours_ask(n, AT("fd00::2"), START, &index), -EADDRNOTAVAIL);
  for (uint32_t i = 0; i < ETH_NEIGHBOURS_MAX; i++) {
    char text[20];
    snprintf(text, sizeof(text), "10.0.1.%u", i);
    assert_int_equal(eth_neighbours_ask(n, AT(text), START, &index), 0);
  }
  assert_int_equal(eth_neighbours_ask(n, AT("10.0.2.1"), START, &index), -ENOSPC);
  assert_int_equal(eth_neighbours_ask(n, AT("10.0.1.63"), START, &index), 0);
  eth_neighbours_forget(n, index);
  assert_int_equal(eth_neighbours_ask(n, AT("10.0.2.1"), START, &index), -ENOSPC);
  eth_neighbours_forget(n, index);
  assert_int_equal(eth_neighbours_ask(n, AT("10.0.2.1"), START, &index), 0);
  eth_neighbours_close(n);
}

static void more_questions_than_wait_are_counted(void **state)
{
  struct eth_neighbours_counts counts;
  struct port a;
  uint8_t bytes[64];

  (void)state;
  open_port(&a, mac_a, "10.0.0.1", "fd00::1");
  drop_all(&a, START);
  for (uint32_t i = 0; i < 20; i++) {
    hex("ffffffffffff 02000000000c 0806 0001 0800 06 04 0001 02000000000c 0a000009 000000000000 "
        "0a000001",
        bytes);
    bytes[31] = (uint8_t)(100 + i);
    assert_true(take(&a, bytes, 42, START));
  }
  drop_all(&a, START);
  eth_neighbours_counts(a.n, &counts);
  assert_int_equal(counts.answered, 16);
  assert_int_equal(counts.unsent, 4);
  eth_neighbours_close(a.n);
}

static void the_next_hop_is_the_gateway_beyond_the_network(void **state)
{
  const struct dg_source own = end_of("10.1.2.3", 0), way = end_of("10.1.3.254", 0),
                         near = end_of("10.1.3.9", 0), far = end_of("10.1.4.9", 0);
  const struct dg_source own6 = end_of("2001:db8:0:8::1", 0), near6 = end_of("2001:db8:0:b::1", 0),
                         far6 = end_of("2001:db8:0:c::1", 0), link6 = end_of("fe80::1", 0);

  (void)state;
  assert_ptr_equal(eth_next_hop(own.address, 23, way.address, near.address), near.address);
  assert_ptr_equal(eth_next_hop(own.address, 23, way.address, far.address), way.address);
  assert_null(eth_next_hop(own.address, 32, NULL, near.address));
  assert_ptr_equal(eth_next_hop(own.address, 0, NULL, far.address), far.address);
  assert_ptr_equal(eth_next_hop(own6.address, 62, NULL, near6.address), near6.address);
  assert_null(eth_next_hop(own6.address, 62, NULL, far6.address));
  assert_ptr_equal(eth_next_hop(own6.address, 128, NULL, link6.address), link6.address);
  assert_ptr_equal(eth_next_hop(own6.address, 128, NULL, own6.address), own6.address);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arp_is_as_the_rfc_says),
      cmocka_unit_test(nd_is_as_the_rfc_says),
      cmocka_unit_test(own_addresses_are_announced_twice),
      cmocka_unit_test(silence_is_asked_less_and_less_often),
      cmocka_unit_test(a_known_one_is_asked_again),
      cmocka_unit_test(of_two_that_answer_the_first_is_used),
      cmocka_unit_test(an_advertisement_without_override_changes_nothing),
      cmocka_unit_test(our_address_is_defended),
      cmocka_unit_test(one_that_looks_for_duplicates_is_answered),
      cmocka_unit_test(what_breaks_the_rules_is_refused),
      cmocka_unit_test(solicitations_that_break_the_rules_are_refused),
      cmocka_unit_test(what_is_not_ours_to_ask_for),
      cmocka_unit_test(more_questions_than_wait_are_counted),
      cmocka_unit_test(the_next_hop_is_the_gateway_beyond_the_network),
  };
  return cmocka_run_group_tests(tests, NULL, NULL) ? 1 : 0;
}
