/* SPDX-License-Identifier: Apache-2.0 */
/* Joined groups, and which changes of them are to be reported: RFC 3376, section 5.1; RFC 3810,
 * 6.1. */
#include <errno.h>
#include <stdlib.h>

#include "membership.h"

int eth_groups_open(const struct eth_groups_params *params, struct eth_groups **made)
{
  struct eth_groups *groups = calloc(1, sizeof(*groups));

  if (!groups)
    return -ENOMEM;
  memcpy(groups->link.mac, params->mac, ETH_MAC_BYTES);
  groups->link.vlan = params->vlan;
  memcpy(groups->own_v4, params->own_v4, 16);
  eth_link_local(params->mac, groups->own_v6);
  groups->random = params->seed;
  groups->igmp =
      (struct eth_speaker){.newest = 3, .robustness = ETH_ROBUSTNESS, .general_due = ETH_NEVER};
  groups->mld = groups->igmp;
  groups->mld.newest = 2;
  groups->counts.igmp_version = 3;
  groups->counts.mld_version = 2;
  *made = groups;
  return 0;
}

void eth_groups_close(struct eth_groups *groups)
{
  free(groups);
}

struct eth_group *eth_group_find(struct eth_groups *groups, const uint8_t address[16])
{
  for (struct eth_group *group = groups->all; group < groups->all + ETH_GROUPS_MAX; group++)
    if (group->is_used && eth_is_same(group->address, address))
      return group;
  return NULL;
}

/* 224.0.0.1, and in IPv6 all nodes and what stays within a node. */
static bool eth_multicast_is_silent(const uint8_t group[16])
{
  static const uint8_t all_v4[4] = {224, 0, 0, 1}, all_v6[16] = {0xff, 0x02, [15] = 1};

  if (eth_is_v4(group))
    return memcmp(group + 12, all_v4, 4) == 0;
  return (group[1] & 0xf) <= 1 || eth_is_same(group, all_v6);
}

static struct eth_group *eth_multicast_group_make(struct eth_groups *groups,
                                                  const uint8_t address[16])
{
  struct eth_group *group = eth_group_find(groups, address);

  for (uint32_t i = 0; !group && i < ETH_GROUPS_MAX; i++) {
    if (groups->all[i].is_used)
      continue;
    group = &groups->all[i];
    *group = (struct eth_group){.is_used = true, .change_due = ETH_NEVER, .answer_due = ETH_NEVER};
    memcpy(group->address, address, 16);
    group->is_silent = eth_multicast_is_silent(address);
  }
  return group;
}

static struct eth_member *eth_multicast_member_find(struct eth_group *group,
                                                    const uint8_t source[16])
{
  for (uint32_t i = 0; i < group->member_count; i++)
    if (eth_is_same(group->members[i].source, source))
      return &group->members[i];
  return NULL;
}

void eth_group_settle(struct eth_group *group)
{
  bool owes = group->mode_left;

  for (uint32_t i = group->member_count; i-- > 0;) {
    const struct eth_member *member = &group->members[i];
    owes |= member->allow_left || member->block_left;
    if (!member->joins && !member->block_left)
      group->members[i] = group->members[--group->member_count];
  }
  if (!owes)
    group->change_due = ETH_NEVER;
  group->is_used = owes || eth_group_is_wanted(group);
}

/* How many reports of a change are owed. */
static uint8_t eth_multicast_robustness_of(struct eth_groups *groups, const struct eth_group *group)
{
  return group->is_silent ? 0
                          : (uint8_t)eth_speaker_of(groups, eth_is_v4(group->address))->robustness;
}

/* The mode has changed, and what stands for it says all there is to say of sources. */
static void eth_multicast_mode_changed(struct eth_groups *groups, struct eth_group *group,
                                       uint64_t now_ns)
{
  group->mode_left = eth_multicast_robustness_of(groups, group);
  group->change_due = now_ns;
  for (uint32_t i = 0; i < group->member_count; i++)
    group->members[i].allow_left = group->members[i].block_left = 0;
}

static int eth_multicast_join_source(struct eth_groups *groups, struct eth_group *group,
                                     const uint8_t source[16], uint64_t now_ns)
{
  struct eth_member *member = eth_multicast_member_find(group, source);

  if (!member) {
    if (group->member_count == ETH_SOURCES_MAX)
      return -ENOSPC;
    member = &group->members[group->member_count++];
    *member = (struct eth_member){0};
    memcpy(member->source, source, 16);
  }
  if (member->joins++ == 0 && !group->any_joins) {
    member->allow_left = eth_multicast_robustness_of(groups, group);
    member->block_left = 0;
    group->change_due = now_ns;
  }
  return 0;
}

int eth_groups_join(struct eth_groups *groups, const uint8_t address[16], const uint8_t *source,
                    uint64_t now_ns)
{
  struct eth_group *group;
  int rc = 0;

  if (!eth_is_multicast(address) || (source && (eth_is_v4(source) != eth_is_v4(address) ||
                                                eth_is_multicast(source) || eth_is_any(source))))
    return -EINVAL;
  if (!(group = eth_multicast_group_make(groups, address)))
    return -ENOSPC;
  if (source)
    rc = eth_multicast_join_source(groups, group, source, now_ns);
  else if (group->any_joins++ == 0)
    eth_multicast_mode_changed(groups, group, now_ns);
  eth_group_settle(group);
  return rc;
}

static void eth_multicast_leave_source(struct eth_groups *groups, struct eth_group *group,
                                       struct eth_member *member, uint64_t now_ns)
{
  if (--member->joins || group->any_joins)
    return;
  member->allow_left = 0;
  member->block_left = eth_multicast_robustness_of(groups, group);
  group->change_due = now_ns;
}

int eth_groups_leave(struct eth_groups *groups, const uint8_t address[16], const uint8_t *source,
                     uint64_t now_ns)
{
  struct eth_group *group = eth_group_find(groups, address);
  struct eth_member *member = group && source ? eth_multicast_member_find(group, source) : NULL;

  if (!group || (source ? !member || !member->joins : !group->any_joins))
    return -ENOENT;
  if (source)
    eth_multicast_leave_source(groups, group, member, now_ns);
  else if (--group->any_joins == 0)
    eth_multicast_mode_changed(groups, group, now_ns);
  eth_group_settle(group);
  return 0;
}

void eth_groups_counts(const struct eth_groups *groups, struct eth_groups_counts *counts)
{
  *counts = groups->counts;
}
