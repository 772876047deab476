/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that are connected in pairs. They are forked by one that is not attached to the
 * fabric, and meet in memory that they share. None of it runs within cmocka, whose assertions end
 * a process then. */
#ifndef CROWD_H
#define CROWD_H

#include "rig.h"

#include <stdatomic.h>
#include <sys/types.h>

enum { CROWD_MOST = 256 };

struct crowd {
  struct {
    _Atomic uint32_t qpn, connected;
    union ibv_gid gid;
  } member[CROWD_MOST];
  _Atomic uint32_t arrived, released;
  _Atomic uint64_t messages;
};

struct crowd *crowd_make(void);
/* Forks; the child runs `live` and exits with what that returns. */
pid_t crowd_fork(struct crowd *crowd, unsigned number,
                 int (*live)(struct crowd *crowd, unsigned number));
/* Opens an end on mlx5_0 and connects it to member `number` ^ 1, who then is connected too. */
void crowd_connect(struct crowd *crowd, unsigned number, struct rig_end *end,
                   const struct rig_how *how);
/* Adds to a count, and wakes who waits for it. */
void crowd_add(_Atomic uint32_t *count, uint32_t n);
/* Waits until a count is there; ends the process after 60 s. */
void crowd_await(_Atomic uint32_t *count, uint32_t value);
/* Fails unless nobody is on the fabric, and nothing of anybody. */
void crowd_assert_empty(void);

#endif
