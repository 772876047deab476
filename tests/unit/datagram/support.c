/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of datagram. */
#include "support.h"

#include "check.h"
#include "options.h"

struct end end;
uint32_t counter_count;

static const struct pst_option options[] = {DG_OPTIONS};
static const struct pst_option_rule rules[] = {DG_RULES};
static const struct pst_description description = {
    .kind = PST_KIND_TRANSPORT,
    .name = "none",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .rules = rules,
    .rule_count = sizeof(rules) / sizeof(rules[0]),
    .wire = DG_WIRE,
};
PST_DESCRIPTION(description);

static const char *const causes[] = {[MISSED] = "missed", [FULL] = "full", NULL};

int reset(void **state)
{
  (void)state;
  memset(&end, 0, sizeof(end));
  fake_log_clear();
  fake_clock_ns = 1000000000;
  return 0;
}

int teardown(void **state)
{
  (void)state;
  if (end.dg.receiver)
    dg_receiver_end(&end.receiver, &end.ring);
  pst_cpu_endpoint_end(&end.dg.cpu);
  pst_cpu_ring_close(&end.ring, &end.rings);
  free(end.rings.all);
  return 0;
}

static void open_ring(const struct pst_limits *limits)
{
  static uint8_t memory[SLOTS * STRIDE];
  struct pst_cpu_mr mr = {memory, sizeof(memory), PST_ACCESS_LOCAL_WRITE | PST_ACCESS_RING};
  const struct pst_ring_params params = {.struct_size = sizeof(params),
                                         .slots = SLOTS,
                                         .mr = (struct pst_mr *)&mr,
                                         .stride = STRIDE,
                                         .payload_max = PAYLOAD,
                                         .headroom = HEADROOM,
                                         .endpoints = 1};
  assert_int_equal(pst_cpu_ring_open(&end.ring, &fake_host, &end.rings, &params, limits), 0);
}

int open_end(uint32_t role, const struct fake_option *given)
{
  const struct pst_open_params open = {.struct_size = sizeof(open), .options = FAKE_OPTIONS(given)};
  bool receives = role == PST_ROLE_RECEIVER;
  struct pst_endpoint_params params = {.struct_size = sizeof(params),
                                       .roles = role,
                                       .cookie = 7,
                                       .options = FAKE_OPTIONS(given),
                                       .label = "camera",
                                       .requests = receives ? 0 : 8,
                                       .message_max = PAYLOAD};
  union dg_address own;
  struct pst_limits limits;
  char zone[DG_ZONE_MAX];

  dg_device_read(&end.device, &fake_host, &open);
  dg_limits_fill(&end.device, PST_CAP_SEND | PST_CAP_SEQUENCE, 1472, &limits);
  limits.tailroom = 0;
  end.ring.number = PST_PLACE_NONE;
  if (receives)
    open_ring(&limits);
  params.ring = receives ? (struct pst_ring *)&end.ring : NULL;
  int rc = dg_endpoint_open(&end.dg, &end.device, &end.rings, &limits, &params);
  if (rc < 0)
    return rc;
  assert_true(dg_address_read("192.0.2.1:40000", &own, zone));
  dg_endpoint_place(&end.dg, &own, 0);
  end.receiver.causes = causes;
  if (receives)
    end.dg.receiver = &end.receiver;
  else
    end.dg.sender = &end.sender;
  rc = dg_endpoint_check(&end.dg);
  return rc < 0 || receives ? rc : dg_sender_open(&end.sender, &end.device, FAKE_OPTIONS(given));
}

struct dg_blob peer_blob(bool is_receiver)
{
  return (struct dg_blob){.framing = (uint8_t)end.device.framing,
                          .family = 4,
                          .is_receiver = is_receiver,
                          .count = 1,
                          .port = 5000,
                          .nonce = UINT64_C(0x0102030405060708),
                          .addresses = {{[10] = 0xff, [11] = 0xff, 192, 0, 2, 9}}};
}

int connect_blob(const struct dg_blob *blob, const struct dg_reach *reach)
{
  uint8_t bytes[DG_BLOB_BYTES];
  const struct pst_blob address = {
      .struct_size = sizeof(address), .length = sizeof(bytes), .bytes = bytes};
  dg_blob_write(blob, bytes);
  return dg_endpoint_connect(&end.dg, &address, reach);
}

uint64_t counter(const char *name, const char *cause)
{
  struct pst_counter all[32];
  struct pst_counter_list list = {all, 32, 0};
  struct dg_losses losses;
  dg_losses_tail(&end.dg, &losses);
  dg_losses_count(&end.receiver, &losses);
  dg_counters_receiver(&list, &end.dg, &losses);
  counter_count = list.count;
  for (uint32_t i = 0; i < list.count; i++)
    if (strcmp(all[i].name, name) == 0 &&
        (!cause || (all[i].cause && strcmp(all[i].cause, cause) == 0)))
      return all[i].value;
  return UINT64_MAX;
}
