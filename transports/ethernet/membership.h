/* SPDX-License-Identifier: Apache-2.0 */
/* Memberships of a port, as multicast.h's calls share them. */
#ifndef ETHERNET_MEMBERSHIP_H
#define ETHERNET_MEMBERSHIP_H

#include "message.h"
#include "multicast.h"

#define ETH_NEVER UINT64_MAX
#define ETH_ROBUSTNESS 2u /* until a querier says another: RFC 3376, 8.1; RFC 3810, 9.1 */

/* A source of a group. */
struct eth_member {
  uint8_t source[16];
  uint32_t joins;     /* 0: it is left, which is still to be reported */
  uint8_t allow_left; /* reports owed that it is wanted */
  uint8_t block_left; /* that it is not */
};

struct eth_group {
  bool is_used;
  bool is_silent; /* never reported: 224.0.0.1, ff02::1, what stays within a node */
  uint8_t address[16];
  uint32_t any_joins; /* of any source: the filter mode is EXCLUDE, without sources */
  struct eth_member members[ETH_SOURCES_MAX];
  uint32_t member_count;
  uint8_t mode_left;                  /* reports owed that the filter mode has changed */
  uint64_t change_due;                /* of the next report of a change; ETH_NEVER: none is owed */
  uint64_t answer_due;                /* to a query for this group; ETH_NEVER */
  uint8_t asked[ETH_SOURCES_MAX][16]; /* the sources of that query; none: for the whole group */
  uint32_t asked_count;
};

/* IGMP or MLD. */
struct eth_speaker {
  uint32_t newest;         /* version: IGMP 3, MLD 2 */
  uint64_t older_until[3]; /* [v]: a querier of version v is present until then */
  uint32_t robustness;
  uint64_t general_due;  /* of the answer to a general query; ETH_NEVER */
  uint32_t general_next; /* the group that it goes on with */
};

struct eth_groups {
  struct eth_link link;
  uint8_t own_v4[16], own_v6[16];
  uint64_t random;
  struct eth_speaker igmp, mld;
  struct eth_group all[ETH_GROUPS_MAX];
  struct eth_groups_counts counts;
};

static inline struct eth_speaker *eth_speaker_of(struct eth_groups *groups, bool is_v4)
{
  return is_v4 ? &groups->igmp : &groups->mld;
}

/* Returns the version to speak: the oldest of which a querier is present. */
static inline uint32_t eth_speaker_version(const struct eth_speaker *speaker, uint64_t now_ns)
{
  for (uint32_t version = 1; version < speaker->newest; version++)
    if (now_ns < speaker->older_until[version])
      return version;
  return speaker->newest;
}

/* Is anything of it joined? */
static inline bool eth_group_is_wanted(const struct eth_group *group)
{
  for (uint32_t i = 0; i < group->member_count; i++)
    if (group->members[i].joins)
      return true;
  return group->any_joins;
}

struct eth_group *eth_group_find(struct eth_groups *groups, const uint8_t address[16]);
/* Removes members that are not joined and whose changes have all been reported; and the group, if
 * nothing of it is joined and no report is due. */
void eth_group_settle(struct eth_group *group);

#endif
