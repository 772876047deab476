/* SPDX-License-Identifier: Apache-2.0 */
/* Queries, and what others report: RFC 3376, sections 5.2 and 7.2; RFC 3810, sections 6.2 and 8.2.
 */
#include "membership.h"

#define MS_NS UINT64_C(1000000)
/* How long a querier of an older version counts, at the default intervals: RFC 3376, 8.12; RFC
 * 3810, 9.12. */
#define OLDER_NS (260 * UINT64_C(1000000000))

/* A query of any version. */
struct query {
  bool is_v4;
  uint32_t version;
  uint64_t delay_ns;      /* that an answer may have */
  uint32_t robustness;    /* 0: it says nothing */
  uint8_t group[16];      /* any: it is a general one */
  const uint8_t *sources; /* of 4 or 16 bytes each */
  uint32_t source_count;
};

static void eth_query_address_at(const uint8_t *at, bool is_v4, uint8_t address[16])
{
  memset(address, 0, 10);
  memset(address + 10, 0xff, 2);
  memcpy(is_v4 ? address + 12 : address, at, is_v4 ? 4 : 16);
}

/* Above half of its range a code is a mantissa and an exponent. */
static uint64_t eth_query_delay_v4(uint32_t code)
{
  const uint32_t tenths = code < 128 ? code : ((code & 15) | 16) << ((code >> 4 & 7) + 3);

  return tenths * 100 * MS_NS;
}

static uint64_t eth_query_delay_v6(uint32_t code)
{
  const uint32_t ms = code < 32768 ? code : ((code & 0xfff) | 0x1000) << ((code >> 12 & 7) + 3);

  return ms * MS_NS;
}

/* Reads the fields that newer versions have behind the group. */
static bool eth_query_read_sources(const uint8_t *at, uint32_t left, uint32_t address_bytes,
                                   struct query *query)
{
  query->robustness = at[0] & 7;
  query->source_count = eth_get16(at + 2);
  query->sources = at + 4;
  return query->source_count <= (left - 4) / address_bytes;
}

static bool eth_query_read_igmp(const uint8_t *igmp, uint32_t length, struct query *query)
{
  query->is_v4 = true;
  eth_query_address_at(igmp + 4, true, query->group);
  if (length == 8) {
    query->version = igmp[1] ? 2 : 1;
    query->delay_ns = (igmp[1] ? igmp[1] : 100u) * 100 * MS_NS;
    return true;
  }
  query->version = 3;
  query->delay_ns = eth_query_delay_v4(igmp[1]);
  return length >= 12 && eth_query_read_sources(igmp + 8, length - 8, 4, query);
}

static bool eth_query_read_mld(const uint8_t *mld, uint32_t length, const struct eth_packet *packet,
                               struct query *query)
{
  const uint8_t *from = packet->from.address;

  if (length < 24 || packet->hop_limit != 1 || !packet->has_alert || from[0] != 0xfe ||
      (from[1] & 0xc0) != 0x80)
    return false;
  eth_query_address_at(mld + 8, false, query->group);
  query->delay_ns = eth_get16(mld + 4) * MS_NS;
  query->version = 1;
  if (length == 24)
    return true;
  query->version = 2;
  query->delay_ns = eth_query_delay_v6(eth_get16(mld + 4));
  return length >= 28 && eth_query_read_sources(mld + 24, length - 24, 16, query);
}

/* Answers that wait are those of another version, and void. */
static void eth_query_version_changes(struct eth_groups *groups, bool is_v4)
{
  eth_speaker_of(groups, is_v4)->general_due = ETH_NEVER;
  for (struct eth_group *group = groups->all; group < groups->all + ETH_GROUPS_MAX; group++)
    if (eth_is_v4(group->address) == is_v4)
      group->answer_due = ETH_NEVER;
}

/* The sources of a query, to those that are asked for already; none: the whole group is. */
static void eth_query_ask_sources(struct eth_group *group, const struct query *query,
                                  bool was_asked)
{
  const uint32_t bytes = query->is_v4 ? 4 : 16;

  if (!was_asked)
    group->asked_count = 0;
  if (query->source_count == 0 || (was_asked && group->asked_count == 0) ||
      query->source_count > ETH_SOURCES_MAX - group->asked_count) {
    group->asked_count = 0;
    return;
  }
  for (uint32_t i = 0; i < query->source_count; i++)
    eth_query_address_at(query->sources + (size_t)i * bytes, query->is_v4,
                         group->asked[group->asked_count++]);
}

static void eth_query_ask_group(struct eth_group *group, const struct query *query, uint64_t due_ns)
{
  eth_query_ask_sources(group, query, group->answer_due != ETH_NEVER);
  if (due_ns < group->answer_due)
    group->answer_due = due_ns;
}

static void eth_query_ask_all(struct eth_groups *groups, const struct query *query, uint64_t due_ns,
                              bool is_newest, uint64_t now_ns)
{
  struct eth_speaker *speaker = eth_speaker_of(groups, query->is_v4);

  if (is_newest) {
    speaker->general_due = due_ns;
    speaker->general_next = 0;
    return;
  }
  for (struct eth_group *group = groups->all; group < groups->all + ETH_GROUPS_MAX; group++)
    if (group->is_used && eth_is_v4(group->address) == query->is_v4)
      eth_query_ask_group(group, query,
                          now_ns + eth_random_below(&groups->random, query->delay_ns));
}

static void eth_query_take(struct eth_groups *groups, const struct query *query, uint64_t now_ns)
{
  struct eth_speaker *speaker = eth_speaker_of(groups, query->is_v4);
  const uint32_t before = eth_speaker_version(speaker, now_ns);
  const uint64_t due_ns = now_ns + eth_random_below(&groups->random, query->delay_ns);
  struct eth_group *group;

  groups->counts.queries++;
  if (query->version < speaker->newest)
    speaker->older_until[query->version] = now_ns + OLDER_NS;
  if (query->robustness)
    speaker->robustness = query->robustness;
  const uint32_t version = eth_speaker_version(speaker, now_ns);
  if (version != before)
    eth_query_version_changes(groups, query->is_v4);
  if (speaker->general_due <= due_ns && version == speaker->newest)
    return; /* the answer that waits says it sooner */
  if (eth_is_any(query->group))
    eth_query_ask_all(groups, query, due_ns, version == speaker->newest, now_ns);
  else if ((group = eth_group_find(groups, query->group)))
    eth_query_ask_group(group, query, due_ns);
}

/* In older versions one member answers for all: RFC 2236, section 3; RFC 2710, section 4. */
static void eth_query_take_report(struct eth_groups *groups, const uint8_t *at, bool is_v4,
                                  uint64_t now_ns)
{
  struct eth_speaker *speaker = eth_speaker_of(groups, is_v4);
  struct eth_group *group;
  uint8_t address[16];

  eth_query_address_at(at, is_v4, address);
  group = eth_group_find(groups, address);
  if (group && eth_speaker_version(speaker, now_ns) < speaker->newest)
    group->answer_due = ETH_NEVER;
}

static bool eth_query_take_igmp(struct eth_groups *groups, const uint8_t *igmp, uint32_t length,
                                uint64_t now_ns)
{
  struct query query = {0};

  if (igmp[0] == ETH_IGMP1_REPORT || igmp[0] == ETH_IGMP2_REPORT)
    eth_query_take_report(groups, igmp + 4, true, now_ns);
  if (igmp[0] != ETH_IGMP_QUERY)
    return true;
  if (eth_query_read_igmp(igmp, length, &query))
    eth_query_take(groups, &query, now_ns);
  else
    groups->counts.refused++;
  return true;
}

static bool eth_query_take_mld(struct eth_groups *groups, const uint8_t *mld,
                               const struct eth_packet *packet, uint64_t now_ns)
{
  struct query query = {0};

  if (mld[0] != ETH_MLD_QUERY && mld[0] != ETH_MLD1_REPORT && mld[0] != ETH_MLD1_DONE &&
      mld[0] != ETH_MLD2_REPORT)
    return false;
  if (mld[0] == ETH_MLD1_REPORT && packet->length >= 24)
    eth_query_take_report(groups, mld + 8, false, now_ns);
  if (mld[0] != ETH_MLD_QUERY)
    return true;
  if (eth_query_read_mld(mld, packet->length, packet, &query))
    eth_query_take(groups, &query, now_ns);
  else
    groups->counts.refused++;
  return true;
}

bool eth_groups_take(struct eth_groups *groups, const struct eth_bytes *frame,
                     const struct eth_packet *packet, uint64_t now_ns)
{
  const uint8_t *message = frame->bytes + packet->offset;

  if (packet->verdict == ETH_IS_IGMP)
    return eth_query_take_igmp(groups, message, packet->length, now_ns);
  return packet->verdict == ETH_IS_ICMPV6 && eth_query_take_mld(groups, message, packet, now_ns);
}
