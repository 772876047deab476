/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `control: none`: streams whose peers are not Penstock, or do not say so. Nobody agrees
 * to anything: a sender has ended when all of it is with the device, a receiver by
 * silence or when its application has had enough. What was sent is what the numbers of
 * the messages span.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "session.h"

static int refuse(const struct session_end *end, int rc, struct pst_error *error)
{
  if (pst_fail_said(error, refusal_status(rc), rc) == rc)
    return rc;
  return pst_fail(error, refusal_status(rc), rc,
                  "stream %s: transport %s cannot begin without a peer's address (`control: "
                  "none`): %s; its options name the peer, see `penstock plugins %s`",
                  end->name, end->device->plugin->name, strerror(-rc), end->device->plugin->name);
}

static int begin(struct session_end *end, struct pst_error *error)
{
  const struct pst_transport_ops *ops = end->lane->ops;
  char words[sizeof(end->peer_text)] = "";
  int rc;

  if (!(end->device->limits.capabilities & PST_CAP_FOREIGN))
    return pst_fail(error, PST_EXIT_UNAVAILABLE, -EOPNOTSUPP,
                    "stream %s: transport %s speaks to no peer without Penstock, which `control: "
                    "none` is for; take one that does, such as udp, or leave `control: none` out",
                    end->name, end->device->plugin->name);
  if (end->state == PST_STATE_FAILED) /* the application has left already */
    return 0;
  pst_log_clear_error();
  rc = ops->endpoint_connect(end->endpoint, NULL);
  if (rc < 0)
    return refuse(end, rc, error);
  if (ops->describe(end->endpoint, words, sizeof(words)) < 0)
    words[0] = 0;
  pthread_mutex_lock(&end->text_lock);
  snprintf(end->peer_text, sizeof(end->peer_text), "%s", words);
  pthread_mutex_unlock(&end->text_lock);
  return 0;
}

int foreign_open(struct pst_session *session, struct pst_error *error)
{
  int rc = 0;

  if (session->roles == (PST_SESSION_SENDER | PST_SESSION_RECEIVER))
    return pst_fail(error, PST_EXIT_USAGE, -EINVAL,
                    "`control: none` is for one end alone, whose peer is not Penstock: run "
                    "`penstock receive` or `penstock send`; for both in one process leave it out");
  for (uint32_t i = 0; i < session->out_count && rc == 0; i++)
    rc = begin(session->outs[i], error);
  for (uint32_t i = 0; i < session->in_count && rc == 0; i++)
    rc = begin(session->ins[i], error);
  return rc;
}
