/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors and bytes that a command's reply carries beside its struct. */
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "router.h"

int share_command_add_fd(struct share_command *command, int fd)
{
  if (command->reply_fd_count == PST_SHARE_FDS)
    return -ENOSPC;
  const int own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0)
    return -errno;
  command->reply_fds[command->reply_fd_count++] = own;
  return 0;
}

int share_command_add_blob(struct share_command *command, const struct pst_blob *blob)
{
  int rc = 0;

  for (uint32_t i = 0; i < blob->fd_count && rc == 0; i++)
    rc = share_command_add_fd(command, blob->fds[i]);
  if (rc == 0)
    command->reply->length = blob->length;
  return rc;
}

int share_command_add_counters(struct share_command *command, const struct share_client *client,
                               struct pst_worker *worker, struct pst_endpoint *endpoint)
{
  const struct pst_transport_ops *ops = client->share->transport->transport;
  struct pst_counter counters[PST_SHARE_COUNTERS_MAX];
  struct pst_counter_value *values = command->reply_bytes;
  const int n = ops->counters(client->device, worker, endpoint, counters, PST_SHARE_COUNTERS_MAX);
  const int count = n < (int)PST_SHARE_COUNTERS_MAX ? n : (int)PST_SHARE_COUNTERS_MAX;

  for (int i = 0; i < count; i++) {
    values[i] = (struct pst_counter_value){.value = counters[i].value, .flags = counters[i].flags};
    pst_text_write(values[i].name, sizeof(values[i].name), counters[i].name);
    pst_text_write(values[i].cause, sizeof(values[i].cause),
                   counters[i].cause ? counters[i].cause : "");
  }
  command->reply->length = count > 0 ? (uint32_t)count * (uint32_t)sizeof(*values) : 0;
  return count;
}

void share_command_close(struct share_command *command)
{
  for (uint32_t i = 0; i < command->reply_fd_count; i++)
    close(command->reply_fds[i]);
  command->reply_fd_count = 0;
}
