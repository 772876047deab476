/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of the tests of apps/serve: server script. */
#include "server_script.h"

#include "log.h"
#include "server_model.h"
#include "signals.h"
#include "support.h"

static bool has_ended;

bool app_signals_stop(void)
{
  return has_ended;
}

void script_end(void)
{
  has_ended = true;
}

void script_say(struct pst_peer *peer, const struct serve_message *message)
{
  uint8_t bytes[SERVE_MESSAGE_MAX];
  size_t length = 0;

  assert_int_equal(serve_encode(message, bytes, sizeof(bytes), &length), 0);
  if (message->type != SERVE_HELLO)
    world_expect(peer, message->tag);
  world_say(peer, bytes, length);
}

void script_say_hello(struct pst_peer *peer)
{
  script_say(peer,
             &(struct serve_message){.type = SERVE_HELLO, .major = SERVE_MAJOR, .program = "0"});
}

void script_run(struct server *server, struct server_params params)
{
  static struct server_params kept; /* the server reads them until it is closed */
  struct pst_error error = PST_ERROR_INIT;

  kept = params;
  kept.node.listen = "";
  kept.area.memory = "host";
  kept.node.peers = WORLD_PEERS;
  has_ended = false;
  app_log_level(PST_LOG_ERROR);
  world_node_begin();
  model_begin(kept.root != NULL, false, kept.request_max);
  world_io_drain(!kept.root);
  assert_int_equal(serve_server_open(&kept, server, &error), 0);
  assert_int_equal(serve_server_run(server, -1), 0);
}
