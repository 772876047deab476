/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of what embeds a link. */
#ifndef SIM_LIST_H
#define SIM_LIST_H

#include "sim.h"

static inline void sim_list_init(struct sim_list *list)
{
  list->next = list->prev = list;
}
static inline void sim_list_add(struct sim_list *list, struct sim_list *link)
{
  link->next = list;
  link->prev = list->prev;
  list->prev->next = link;
  list->prev = link;
}
static inline void sim_list_del(struct sim_list *link)
{
  link->next->prev = link->prev;
  link->prev->next = link->next;
}
#define sim_list_each(at, list) for (at = (list)->next; at != (list); at = at->next)

#endif
