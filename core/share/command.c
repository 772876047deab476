/* SPDX-License-Identifier: Apache-2.0 */
/* What a command's reply carries beside its struct. */
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

void share_command_close(struct share_command *command)
{
  for (uint32_t i = 0; i < command->reply_fd_count; i++)
    close(command->reply_fds[i]);
  command->reply_fd_count = 0;
}
