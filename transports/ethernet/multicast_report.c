/* SPDX-License-Identifier: Apache-2.0 */
/* Reports: RFC 3376, sections 4.2 and 5; RFC 3810, sections 5.2 and 6; and those of RFC 1112, RFC
 * 2236 and RFC 2710, for queriers of older versions. */
#include "membership.h"

#define SECOND_NS UINT64_C(1000000000)
#define REPEAT_NS SECOND_NS /* Unsolicited Report Interval */
#define REPORT_MAX 1224u    /* bytes of a message: what IPv6 carries without asking, less headers */

enum {
  IS_INCLUDE = 1,
  IS_EXCLUDE = 2,
  TO_INCLUDE = 3,
  TO_EXCLUDE = 4,
  ALLOW = 5,
  BLOCK = 6,
};

/* A message that grows by records. */
struct report {
  bool is_v4;
  uint32_t length, records;
  uint8_t bytes[REPORT_MAX];
};

/* Sources of a record. */
struct sources {
  const uint8_t *at[ETH_SOURCES_MAX];
  uint32_t count;
};

static uint32_t eth_report_address_bytes(const struct report *report)
{
  return report->is_v4 ? 4 : 16;
}

static bool eth_report_has_room(const struct report *report, uint32_t records, uint32_t sources)
{
  const uint32_t bytes = eth_report_address_bytes(report);

  return report->length + records * (4 + bytes) + sources * bytes <= REPORT_MAX;
}

static void eth_report_put_address(struct report *report, const uint8_t address[16])
{
  const uint32_t bytes = eth_report_address_bytes(report);

  memcpy(report->bytes + report->length, report->is_v4 ? address + 12 : address, bytes);
  report->length += bytes;
}

static void eth_report_add_record(struct report *report, uint8_t type,
                                  const struct eth_group *group, const struct sources *sources)
{
  uint8_t *record = report->bytes + report->length;

  record[0] = type;
  record[1] = 0;
  eth_put16(record + 2, sources->count);
  report->length += 4;
  eth_report_put_address(report, group->address);
  for (uint32_t i = 0; i < sources->count; i++)
    eth_report_put_address(report, sources->at[i]);
  report->records++;
}

/* ---- Records of a group --------------------------------------------------------------------- */

static void eth_report_wanted(const struct eth_group *group, struct sources *sources)
{
  for (uint32_t i = 0; i < group->member_count && !group->any_joins; i++)
    if (group->members[i].joins)
      sources->at[sources->count++] = group->members[i].source;
}

static void eth_report_owed(const struct eth_group *group, bool is_allow, struct sources *sources)
{
  for (uint32_t i = 0; i < group->member_count; i++)
    if (is_allow ? group->members[i].allow_left : group->members[i].block_left)
      sources->at[sources->count++] = group->members[i].source;
}

static bool eth_report_is_wanted(const struct eth_group *group, const uint8_t source[16])
{
  for (uint32_t i = 0; i < group->member_count; i++)
    if (group->members[i].joins && eth_is_same(group->members[i].source, source))
      return true;
  return group->any_joins;
}

/* Adds the group's current state. */
static void eth_report_add_current(struct report *report, const struct eth_group *group)
{
  struct sources sources = {.count = 0};

  eth_report_wanted(group, &sources);
  if (!group->is_silent && (group->any_joins || sources.count))
    eth_report_add_record(report, group->any_joins ? IS_EXCLUDE : IS_INCLUDE, group, &sources);
}

/* Adds the answer to a query for the group. */
static void eth_report_add_answer(struct report *report, const struct eth_group *group)
{
  struct sources sources = {.count = 0};

  if (group->asked_count == 0 || group->is_silent) {
    eth_report_add_current(report, group);
    return;
  }
  for (uint32_t i = 0; i < group->asked_count; i++)
    if (eth_report_is_wanted(group, group->asked[i]))
      sources.at[sources.count++] = group->asked[i];
  if (sources.count)
    eth_report_add_record(report, IS_INCLUDE, group, &sources);
}

/* Counts a report that has been sent. */
static void eth_report_count_change(struct eth_groups *groups, struct eth_group *group,
                                    uint64_t now_ns)
{
  if (group->mode_left) {
    group->mode_left--;
  } else {
    for (uint32_t i = 0; i < group->member_count; i++) {
      struct eth_member *member = &group->members[i];
      member->allow_left -= member->allow_left > 0;
      member->block_left -= member->block_left > 0;
    }
  }
  group->change_due = now_ns + 1 + eth_random_below(&groups->random, REPEAT_NS);
  eth_group_settle(group);
}

static void eth_report_add_change(struct report *report, const struct eth_group *group)
{
  struct sources allow = {.count = 0}, block = {.count = 0};

  if (group->mode_left) {
    eth_report_wanted(group, &allow);
    eth_report_add_record(report, group->any_joins ? TO_EXCLUDE : TO_INCLUDE, group, &allow);
    return;
  }
  eth_report_owed(group, true, &allow);
  eth_report_owed(group, false, &block);
  if (allow.count)
    eth_report_add_record(report, ALLOW, group, &allow);
  if (block.count)
    eth_report_add_record(report, BLOCK, group, &block);
}

/* ---- Frames ------------------------------------------------------------------------------- */

static uint32_t eth_report_write_message(struct eth_groups *groups, bool is_v4,
                                         const uint8_t to[16], uint8_t *message, uint32_t length,
                                         uint8_t *frame)
{
  const struct eth_icmpv6 packet = {.from = groups->own_v6,
                                    .to = to,
                                    .hop_limit = 1,
                                    .has_alert = true,
                                    .message = message,
                                    .length = length};

  groups->counts.reports++;
  return is_v4 ? eth_igmp_write(frame, &groups->link, groups->own_v4, to, message, length)
               : eth_icmpv6_write(frame, &groups->link, &packet);
}

static uint32_t eth_report_write(struct eth_groups *groups, struct report *report, uint8_t *frame)
{
  static const uint8_t routers_v4[16] = {[10] = 0xff, [11] = 0xff, 224, 0, 0, 22},
                       routers_v6[16] = {0xff, 0x02, [15] = 22};

  report->bytes[0] = report->is_v4 ? ETH_IGMP3_REPORT : ETH_MLD2_REPORT;
  eth_put16(report->bytes + 6, report->records);
  return eth_report_write_message(groups, report->is_v4, report->is_v4 ? routers_v4 : routers_v6,
                                  report->bytes, report->length, frame);
}

/* Writes a report of an older version, or that the group is left, which IGMPv1 does not have. */
static uint32_t eth_report_write_older(struct eth_groups *groups, const struct eth_group *group,
                                       uint32_t version, bool is_left, uint8_t *frame)
{
  static const uint8_t routers_v4[16] = {[10] = 0xff, [11] = 0xff, 224, 0, 0, 2},
                       routers_v6[16] = {0xff, 0x02, [15] = 2};
  const bool is_v4 = eth_is_v4(group->address);
  uint8_t message[24] = {0};

  if (is_v4) {
    message[0] = is_left ? ETH_IGMP2_LEAVE : version == 2 ? ETH_IGMP2_REPORT : ETH_IGMP1_REPORT;
    memcpy(message + 4, group->address + 12, 4);
  } else {
    message[0] = is_left ? ETH_MLD1_DONE : ETH_MLD1_REPORT;
    memcpy(message + 8, group->address, 16);
  }
  return eth_report_write_message(groups, is_v4,
                                  !is_left ? group->address
                                  : is_v4  ? routers_v4
                                           : routers_v6,
                                  message, is_v4 ? 8 : 24, frame);
}

/* Writes one frame of what is due for one group. */
static uint32_t eth_report_next_older(struct eth_groups *groups, uint32_t version, bool is_v4,
                                      uint64_t now_ns, uint8_t *frame)
{
  for (struct eth_group *group = groups->all; group < groups->all + ETH_GROUPS_MAX; group++) {
    if (!group->is_used || eth_is_v4(group->address) != is_v4 ||
        (group->change_due > now_ns && group->answer_due > now_ns))
      continue;
    const bool is_left = !eth_group_is_wanted(group);
    const uint32_t length = is_left && is_v4 && version == 1
                                ? 0
                                : eth_report_write_older(groups, group, version, is_left, frame);
    group->answer_due = ETH_NEVER;
    if (is_left)
      group->is_used = false;
    else if (group->change_due <= now_ns)
      eth_report_count_change(groups, group, now_ns);
    if (length)
      return length;
  }
  return 0;
}

static void eth_report_collect_changes(struct eth_groups *groups, struct report *report,
                                       uint64_t now_ns)
{
  for (struct eth_group *group = groups->all; group < groups->all + ETH_GROUPS_MAX; group++) {
    if (!group->is_used || eth_is_v4(group->address) != report->is_v4)
      continue;
    if (group->change_due <= now_ns && eth_report_has_room(report, 2, group->member_count)) {
      eth_report_add_change(report, group);
      eth_report_count_change(groups, group, now_ns);
    }
    if (group->is_used && group->answer_due <= now_ns &&
        eth_report_has_room(report, 1, ETH_SOURCES_MAX)) {
      eth_report_add_answer(report, group);
      group->answer_due = ETH_NEVER;
    }
  }
}

/* Collects the rest of the answer to a general query. */
static void eth_report_collect_general(struct eth_groups *groups, struct report *report,
                                       uint64_t now_ns)
{
  struct eth_speaker *speaker = eth_speaker_of(groups, report->is_v4);

  if (speaker->general_due > now_ns)
    return;
  for (; speaker->general_next < ETH_GROUPS_MAX; speaker->general_next++) {
    const struct eth_group *group = &groups->all[speaker->general_next];
    if (!group->is_used || eth_is_v4(group->address) != report->is_v4)
      continue;
    if (!eth_report_has_room(report, 1, group->member_count))
      return;
    eth_report_add_current(report, group);
  }
  speaker->general_due = ETH_NEVER;
  speaker->general_next = 0;
}

static uint32_t eth_report_next_of(struct eth_groups *groups, bool is_v4, uint64_t now_ns,
                                   uint8_t *frame)
{
  const struct eth_speaker *speaker = eth_speaker_of(groups, is_v4);
  const uint32_t version = eth_speaker_version(speaker, now_ns);
  struct report report = {.is_v4 = is_v4, .length = 8};

  *(is_v4 ? &groups->counts.igmp_version : &groups->counts.mld_version) = (uint8_t)version;
  if (version < speaker->newest)
    return eth_report_next_older(groups, version, is_v4, now_ns, frame);
  eth_report_collect_changes(groups, &report, now_ns);
  eth_report_collect_general(groups, &report, now_ns);
  return report.records ? eth_report_write(groups, &report, frame) : 0;
}

uint32_t eth_groups_next(struct eth_groups *groups, uint64_t now_ns, uint8_t frame[ETH_CONTROL_MAX])
{
  const uint32_t length = eth_report_next_of(groups, true, now_ns, frame);

  return length ? length : eth_report_next_of(groups, false, now_ns, frame);
}

uint64_t eth_groups_due(const struct eth_groups *groups)
{
  uint64_t due = groups->igmp.general_due;

  if (groups->mld.general_due < due)
    due = groups->mld.general_due;
  for (const struct eth_group *group = groups->all; group < groups->all + ETH_GROUPS_MAX; group++) {
    if (!group->is_used)
      continue;
    if (group->change_due < due)
      due = group->change_due;
    if (group->answer_due < due)
      due = group->answer_due;
  }
  return due;
}
