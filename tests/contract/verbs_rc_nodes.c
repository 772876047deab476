/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes, which send and receive, on a simulated device that fails, with `reconnect`: what either
 * sends arrives once and in order, whoever's requests were lost.
 *
 *     penstock-simverbs verbs-rc-nodes PLUGIN LAUNCHER
 */
#include <stdio.h>

#include "simulated_cm.h"
#include "verbs_rc_stream.h"

struct node {
  struct contract_side side;
  struct contract_region region; /* of what it sends */
  struct pst_mr *mr;
  uint64_t posted, done, delivered;
};

static void node_open(struct node *node, int which)
{
  struct contract_params params = stream_params;
  params.roles_more = PST_ROLE_SENDER | PST_ROLE_RMA;
  params.domain = 1; /* so that one queue pair asks, and another answers */
  *node = (struct node){0};
  contract_side_open(&stream_variants[which], &params, false, true, &node->side);
  contract_region_make(params.slots * params.message, &node->region);
  struct pst_mr_params mr = {.struct_size = sizeof(mr),
                             .access = PST_ACCESS_LOCAL_READ,
                             .region = &node->region.region,
                             .length = node->region.region.length};
  assert_int_equal(node->side.image.ops->mr_register(node->side.device, &mr, &node->mr), 0);
}

static void node_close(struct node *node)
{
  struct contract_side *side = &node->side;
  stream_leave(side, PST_CLOSE_ABORT, contract_deadline_ns);
  side->closed[0] = true;
  side->image.ops->mr_deregister(side->device, node->mr);
  contract_region_free(&node->region);
  contract_side_close(side);
}

static void node_post(struct node *node, uint64_t count)
{
  const uint64_t length = stream_params.message, slots = stream_params.slots;
  const uint64_t n = 1 + contract_random() % 8;
  uint32_t wait;
  for (uint64_t k = 0; k < n && node->posted < count && node->posted < node->done + slots; k++) {
    const uint64_t number = node->posted, offset = number % slots * length;
    contract_fill((uint8_t *)node->region.region.host + offset, length, number);
    struct pst_request request = contract_send(&node->side, offset, length, number);
    request.local.mr = node->mr;
    int rc = contract_post(&node->side, 0, &request, 1, &wait);
    if (rc == -EAGAIN)
      return;
    assert_int_equal(rc, 1);
    node->posted++;
  }
}

static void node_poll(struct node *node)
{
  struct pst_completion one;
  contract_poll(&node->side);
  assert_false(contract_take(&node->side, PST_COMPLETION_EVENT, PST_EVENT_DISCONNECTED, &one));
  while (contract_take(&node->side, PST_COMPLETION_DONE, PST_OP_SEND, &one)) {
    assert_int_equal(one.status, 0);
    node->done += one.u.done.count;
  }
  while (contract_take(&node->side, PST_COMPLETION_MESSAGE, 0, &one)) {
    assert_int_equal(one.u.message.sequence, node->delivered);
    assert_true(contract_verify(contract_payload(&node->side, &one), stream_params.message,
                                node->delivered));
    node->delivered++;
    contract_release(&node->side, &one);
  }
}

/* Both send so many in all, and all of them are done. */
static void run(struct node nodes[2], uint64_t count)
{
  const uint64_t deadline = contract_now_ns() + contract_deadline_ns;
  while (nodes[0].delivered < count || nodes[1].delivered < count || nodes[0].done < count ||
         nodes[1].done < count)
    for (int i = 0; i < 2; i++) {
      node_post(&nodes[i], count);
      node_poll(&nodes[i]);
      contract_in_time(deadline, "messages of both: %" PRIu64 " and %" PRIu64 " of %" PRIu64,
                       nodes[0].delivered, nodes[1].delivered, count);
    }
}

static void connect_both(struct node nodes[2])
{
  struct pst_blob blob;
  for (int i = 0; i < 2; i++) {
    contract_address(&nodes[1 - i].side, 0, &blob);
    assert_int_equal(contract_connect(&nodes[i].side, 0, &blob), 0);
  }
  for (int i = 0; i < 2; i++)
    contract_await(&nodes[i].side, &nodes[1 - i].side, PST_COMPLETION_EVENT, PST_EVENT_CONNECTED);
}

static void go_on(int which, const char *fault)
{
  struct node nodes[2];
  node_open(&nodes[0], which);
  node_open(&nodes[1], which);
  connect_both(nodes);
  run(nodes, 50);
  for (uint64_t round = 1; round <= 4; round++) {
    char action[128];
    snprintf(action, sizeof(action), fault, (int)(contract_random() % 48));
    simulated_ctl(action);
    run(nodes, 50 + 100 * round);
  }
  for (int i = 0; i < 2; i++)
    assert_in_range(stream_counter(&nodes[i].side, "reconnections"), 1, 1000);
  simulated_ctl("clear");
  node_close(&nodes[0]);
  node_close(&nodes[1]);
  contract_complaints();
}

static void go_on_whatever_fails(int which)
{
  go_on(which, "drop --after %d --count 100");
  go_on(which, "qp-error --after %d --count 1");
  simulated_ctl("clock 100");
  go_on(which, "port-down " DEVICE "/1 --after %d --for 5s");
  simulated_ctl("clock real");
}

static void nodes_go_on(void **state)
{
  (void)state;
  go_on_whatever_fails(WRITE);
  go_on_whatever_fails(SHARED);
  go_on_whatever_fails(FOUR_AGAIN);
}

#if PST_TEST_RDMA_CM
static void nodes_go_on_by_rdma_cm(void **state)
{
  (void)state;
  go_on_whatever_fails(CM);
  assert_int_equal(simulated_cm_ids(), 0);
}

static void nodes_go_on_by_rdma_cm_and_ipv6(void **state)
{
  (void)state;
  go_on_whatever_fails(CM_IPV6);
  assert_int_equal(simulated_cm_ids(), 0);
}
#endif

int main(int argc, char **argv)
{
  if (!stream_arguments(argc, argv))
    return 2;
  struct CMUnitTest cases[] = {
    CONTRACT_CASE(nodes_go_on),
#if PST_TEST_RDMA_CM
    CONTRACT_CASE(nodes_go_on_by_rdma_cm),
    CONTRACT_CASE(nodes_go_on_by_rdma_cm_and_ipv6),
#endif
  };
  return CONTRACT_MAIN("nodes", cases, &stream_variants[0]);
}
