/* SPDX-License-Identifier: Apache-2.0 */
/* An application outside the tree: it streams to itself and counts what arrives. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <penstock/penstock.h>

enum { MESSAGES = 5000, BATCH = 64 };

static const char text[] = "penstock: 1\n"
                           "transport: loopback\n"
                           "streams:\n"
                           "  - {name: packets, message: 64 B, ring: 128}\n";

/* Fill and submit what there is room for, up to MESSAGES; then say that it was all. */
static int send_some(struct pst_sender *sender, uint64_t *sent)
{
  struct pst_slot slots[BATCH];
  uint64_t left = MESSAGES - *sent;
  int n;

  if (left == 0)
    return pst_sender_poll(sender);
  n = pst_sender_acquire(sender, slots, left < BATCH ? (uint32_t)left : BATCH);
  if (n <= 0)
    return n;
  for (int i = 0; i < n; i++) {
    memset(slots[i].host, (int)(slots[i].sequence & 0xff), slots[i].capacity);
    slots[i].length = slots[i].capacity;
  }
  *sent += (uint64_t)n;
  n = pst_sender_submit(sender, slots, (uint32_t)n);
  return n == 0 && *sent == MESSAGES ? pst_sender_finish(sender) : n;
}

/* Look at what has arrived and give it back; at the end say that it was seen. */
static int receive_some(struct pst_receiver *receiver, uint64_t *received, uint64_t *wrong)
{
  struct pst_view views[BATCH];
  struct pst_batch batch = {.struct_size = sizeof(batch), .capacity = BATCH, .views = views};
  int n = pst_receiver_poll(receiver, &batch);

  if (n == -ENODATA)
    return pst_receiver_state(receiver) == PST_STATE_ENDING ? pst_receiver_finish(receiver) : 0;
  if (n <= 0)
    return n;
  for (int i = 0; i < n; i++)
    *wrong += ((const unsigned char *)views[i].host)[63] != (views[i].sequence & 0xff);
  *received += (uint64_t)n;
  return pst_receiver_release(receiver, views, (uint32_t)n);
}

int main(void)
{
  struct pst_error error = PST_ERROR_INIT;
  struct pst_config *config = NULL;
  struct pst_session *session = NULL;
  struct pst_session_params params = {
      .struct_size = sizeof(params),
      .roles = PST_SESSION_SENDER | PST_SESSION_RECEIVER,
  };
  uint64_t sent = 0, received = 0, wrong = 0;
  struct pst_sender *sender;
  struct pst_receiver *receiver;
  int status = 0;

  if (pst_config_open_text(text, strlen(text), "embedded", NULL, 0, &config, &error) != 0 ||
      pst_session_open(config, &params, &session, &error) != 0 ||
      pst_session_start(session, &error) != 0) {
    fprintf(stderr, "%s\n", error.text);
    pst_session_close(session);
    pst_config_close(config);
    return 1;
  }
  sender = pst_session_sender(session, "packets");
  receiver = pst_session_receiver(session, "packets");
  while (status >= 0 && (pst_sender_state(sender) < PST_STATE_ENDED ||
                         pst_receiver_state(receiver) < PST_STATE_ENDED)) {
    status = send_some(sender, &sent);
    if (status >= 0)
      status = receive_some(receiver, &received, &wrong);
  }
  pst_session_close(session);
  pst_config_close(config);
  printf("%s: %llu received, %llu wrong\n", pst_version(), (unsigned long long)received,
         (unsigned long long)wrong);
  return status >= 0 && received == MESSAGES && wrong == 0 ? 0 : 1;
}
