/* SPDX-License-Identifier: Apache-2.0 */
/* Disconnects a client that breaks a rule. */
#include <sys/socket.h>

#include "router.h"
#include "util/log.h"

void share_client_expel(struct share_client *client, const char *rule)
{
  if (atomic_exchange(&client->is_broken, true))
    return;
  atomic_fetch_add(&client->share->expelled, 1);
  pst_log(PST_LOG_WARN, "share: client %llu (process %d of user %u) is disconnected: %s",
          (unsigned long long)client->number, (int)client->pid, (unsigned)client->uid, rule);
  shutdown(client->fd, SHUT_RDWR);
}
