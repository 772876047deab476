/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of ethernet. */
#include "support.h"

#include <arpa/inet.h>
#include <sys/mman.h>
#include <unistd.h>

struct dg_source end_of(const char *address, uint16_t port)
{
  struct dg_source made = {.address = {[10] = 0xff, [11] = 0xff}, .port = port};

  if (inet_pton(AF_INET, address, made.address + 12) != 1)
    assert_int_equal(inet_pton(AF_INET6, address, made.address), 1);
  return made;
}

struct eth_template_params params_of(const char *from, const char *to)
{
  struct eth_template_params params = {
      .vlan = ETH_UNTAGGED, .from = end_of(from, 4000), .to = end_of(to, 5004), .hop_limit = 64};

  memcpy(params.mac_from, mac_a, ETH_MAC_BYTES);
  memcpy(params.mac_to, mac_b, ETH_MAC_BYTES);
  return params;
}

uint32_t frame_of(const struct eth_template_params *params, const void *payload, uint32_t length,
                  uint8_t *frame)
{
  struct eth_template template;

  assert_int_equal(eth_template_make(params, &template), 0);
  memcpy(frame + template.length, payload, length);
  eth_template_write(&template, frame, length, 7, eth_sum(payload, length, 0));
  return template.length + length;
}

struct eth_bytes guarded(const uint8_t *bytes, uint32_t readable, uint32_t total)
{
  static uint8_t *area;
  const size_t room = 1u << 17, page = (size_t)sysconf(_SC_PAGESIZE);

  if (!area) {
    area = mmap(NULL, room + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(area != MAP_FAILED);
    assert_int_equal(mprotect(area, room, PROT_READ | PROT_WRITE), 0);
  }
  assert_true(readable <= room && readable <= total);
  memcpy(area + room - readable, bytes, readable);
  return (struct eth_bytes){area + room - readable, readable, total};
}

enum eth_verdict parse(const uint8_t *bytes, uint32_t total, struct eth_packet *packet)
{
  static struct eth_header_cache seen; /* of the last call */
  const struct eth_bytes frame = guarded(bytes, total, total);
  const enum eth_verdict verdict = eth_parse(&frame, 0, packet);
  bool is_same;

  assert_int_equal(eth_parse_next(&frame, 0, &seen, &is_same), verdict);
  if (verdict == ETH_IS_UDP)
    assert_int_equal(seen.packet.length, packet->length);
  return verdict;
}

uint32_t hex(const char *text, uint8_t *bytes)
{
  uint32_t count = 0;
  unsigned value;

  for (; sscanf(text, " %2x", &value) == 1; count++) {
    bytes[count] = (uint8_t)value;
    text += strspn(text, " ") + 2;
  }
  return count;
}
