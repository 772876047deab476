/* SPDX-License-Identifier: Apache-2.0 */
/* Transitions of a queue pair: which there are, which attributes each needs and takes,
 * and which values are refused. */
#include "statuses.h"

static const char *const type_names[] = {
    [IBV_QPT_RC] = "RC", [IBV_QPT_UC] = "UC", [IBV_QPT_UD] = "UD"};

static const struct {
  const char *name;
  int bit;
} masks[] = {
    {"STATE", IBV_QP_STATE},
    {"CUR_STATE", IBV_QP_CUR_STATE},
    {"EN_SQD_ASYNC_NOTIFY", IBV_QP_EN_SQD_ASYNC_NOTIFY},
    {"ACCESS_FLAGS", IBV_QP_ACCESS_FLAGS},
    {"PKEY_INDEX", IBV_QP_PKEY_INDEX},
    {"PORT", IBV_QP_PORT},
    {"QKEY", IBV_QP_QKEY},
    {"AV", IBV_QP_AV},
    {"PATH_MTU", IBV_QP_PATH_MTU},
    {"TIMEOUT", IBV_QP_TIMEOUT},
    {"RETRY_CNT", IBV_QP_RETRY_CNT},
    {"RNR_RETRY", IBV_QP_RNR_RETRY},
    {"RQ_PSN", IBV_QP_RQ_PSN},
    {"MAX_QP_RD_ATOMIC", IBV_QP_MAX_QP_RD_ATOMIC},
    {"ALT_PATH", IBV_QP_ALT_PATH},
    {"MIN_RNR_TIMER", IBV_QP_MIN_RNR_TIMER},
    {"SQ_PSN", IBV_QP_SQ_PSN},
    {"MAX_DEST_RD_ATOMIC", IBV_QP_MAX_DEST_RD_ATOMIC},
    {"PATH_MIG_STATE", IBV_QP_PATH_MIG_STATE},
    {"CAP", IBV_QP_CAP},
    {"DEST_QPN", IBV_QP_DEST_QPN},
    {"RATE_LIMIT", IBV_QP_RATE_LIMIT},
};

/* Until it has, soft-RoCE lets a QP go from SQD to ERR alone. */
static void await_drained(struct ibv_qp *qp)
{
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  int64_t deadline = now_ms() + PATIENCE_MS;
  do
    require("ibv_query_qp", ibv_query_qp(qp, &attr, IBV_QP_STATE, &init) == 0);
  while (attr.sq_draining && now_ms() < deadline);
}

static void to_state(struct pair *pair, enum ibv_qp_state state)
{
  errno = qp_bring(pair, REQ, state == IBV_QPS_SQD || state == IBV_QPS_ERR ? IBV_QPS_RTS : state);
  require("ibv_modify_qp", errno == 0);
  if (state == IBV_QPS_SQD || state == IBV_QPS_ERR) {
    struct ibv_qp_attr attr = {.qp_state = state};
    errno = ibv_modify_qp(pair->end[REQ].qp, &attr, IBV_QP_STATE);
    require(state == IBV_QPS_SQD ? "to SQD" : "to ERR", errno == 0);
    await_drained(pair->end[REQ].qp);
  }
}

static void open_in(struct pair *pair, enum ibv_qp_type type, enum ibv_qp_state state)
{
  struct setup setup = setup_usual();
  setup.type = type;
  setup.state[REQ] = setup.state[RSP] = IBV_QPS_RESET;
  pair_open(pair, &setup);
  to_state(pair, state);
}

/* The attributes of the step to `to`; the state alone where the table asks for no more. */
static int usual_mask(const struct pair *pair, enum ibv_qp_state from, enum ibv_qp_state to,
                      struct ibv_qp_attr *attr)
{
  int mask = step_attributes(pair, REQ, to, attr);
  return from == IBV_QPS_SQD || (from == IBV_QPS_RTS && to == IBV_QPS_RTS) ? IBV_QP_STATE : mask;
}

/* From one state to each. */
static void transitions(enum ibv_qp_type type, enum ibv_qp_state from)
{
  char text[512];
  size_t used = 0;
  for (int to = IBV_QPS_RESET; to <= IBV_QPS_ERR; to++) {
    struct pair pair;
    open_in(&pair, type, from);
    struct ibv_qp_attr attr;
    int mask = usual_mask(&pair, from, (enum ibv_qp_state)to, &attr);
    int refused = ibv_modify_qp(pair.end[REQ].qp, &attr, mask);
    used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s %s", used ? ", " : "",
                             state_name((enum ibv_qp_state)to), errno_name(refused));
    pair_close(&pair);
  }
  char name[64];
  snprintf(name, sizeof(name), "modify.%s.from-%s", type_names[type], state_name(from));
  tell(name, "%s", text);
}

static int attempt(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to, int without,
                   int with)
{
  struct pair pair;
  open_in(&pair, type, from);
  struct ibv_qp_attr attr;
  int mask = usual_mask(&pair, from, to, &attr);
  if (with & IBV_QP_CUR_STATE)
    attr.cur_qp_state = from;
  if (with & IBV_QP_PATH_MTU)
    attr.path_mtu = IBV_MTU_1024;
  int refused = ibv_modify_qp(pair.end[REQ].qp, &attr, (mask & ~without) | with);
  pair_close(&pair);
  return refused;
}

static void step(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to)
{
  struct pair pair;
  open_in(&pair, type, from);
  struct ibv_qp_attr attr;
  int needed = usual_mask(&pair, from, to, &attr);
  pair_close(&pair);
  char *text[2] = {NULL, NULL};
  size_t size[2];
  FILE *out[2] = {open_memstream(&text[0], &size[0]), open_memstream(&text[1], &size[1])};
  for (size_t i = 0; i < COUNT_OF(masks); i++) {
    bool is_needed = needed & masks[i].bit;
    int refused =
        attempt(type, from, to, is_needed ? masks[i].bit : 0, is_needed ? 0 : masks[i].bit);
    FILE *line = out[is_needed ? 0 : 1];
    fprintf(line, "%s%s %s", ftell(line) ? ", " : "", masks[i].name, errno_name(refused));
  }
  static const char *const kinds[] = {"without", "also"};
  for (int i = 0; i < 2; i++) {
    fclose(out[i]);
    char name[64];
    snprintf(name, sizeof(name), "modify.%s.%s-%s.%s", type_names[type], state_name(from),
             state_name(to), kinds[i]);
    tell(name, "%s", text[i]);
    free(text[i]);
  }
}

void family_modify(void)
{
  static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
  static const enum ibv_qp_state states[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
                                             IBV_QPS_RTS,   IBV_QPS_SQD,  IBV_QPS_ERR};
  for (size_t i = 0; i < COUNT_OF(types); i++) {
    for (size_t k = 0; k < COUNT_OF(states); k++)
      transitions(types[i], states[k]);
    step(types[i], IBV_QPS_RESET, IBV_QPS_INIT);
    step(types[i], IBV_QPS_INIT, IBV_QPS_RTR);
    step(types[i], IBV_QPS_RTR, IBV_QPS_RTS);
    step(types[i], IBV_QPS_RTS, IBV_QPS_RTS);
  }
}

#define FIELD(member)                                                                              \
  offsetof(struct ibv_qp_attr, member), sizeof(((struct ibv_qp_attr *)NULL)->member)

static const struct range_case {
  const char *name;
  enum ibv_qp_state to;
  size_t offset;
  size_t size;
  uint32_t value;
} ranges[] = {
    {"port_num-0", IBV_QPS_INIT, FIELD(port_num), 0},
    {"port_num-2", IBV_QPS_INIT, FIELD(port_num), 2},
    {"pkey_index-1", IBV_QPS_INIT, FIELD(pkey_index), 1},
    {"pkey_index-65535", IBV_QPS_INIT, FIELD(pkey_index), 65535},
    {"qp_access_flags-unknown", IBV_QPS_INIT, FIELD(qp_access_flags), 1u << 30},
    {"path_mtu-0", IBV_QPS_RTR, FIELD(path_mtu), 0},
    {"path_mtu-6", IBV_QPS_RTR, FIELD(path_mtu), 6},
    {"path_mtu-above-active", IBV_QPS_RTR, FIELD(path_mtu), IBV_MTU_4096},
    {"dest_qp_num-25-bits", IBV_QPS_RTR, FIELD(dest_qp_num), 1u << 24},
    {"rq_psn-25-bits", IBV_QPS_RTR, FIELD(rq_psn), 1u << 24},
    {"max_dest_rd_atomic-255", IBV_QPS_RTR, FIELD(max_dest_rd_atomic), 255},
    {"min_rnr_timer-32", IBV_QPS_RTR, FIELD(min_rnr_timer), 32},
    {"sq_psn-25-bits", IBV_QPS_RTS, FIELD(sq_psn), 1u << 24},
    {"max_rd_atomic-255", IBV_QPS_RTS, FIELD(max_rd_atomic), 255},
    {"timeout-32", IBV_QPS_RTS, FIELD(timeout), 32},
    {"retry_cnt-8", IBV_QPS_RTS, FIELD(retry_cnt), 8},
    {"rnr_retry-8", IBV_QPS_RTS, FIELD(rnr_retry), 8},
};

static void range(const struct range_case *one)
{
  struct pair pair;
  open_in(&pair, IBV_QPT_RC, one->to - 1);
  struct ibv_qp_attr attr;
  int mask = step_attributes(&pair, REQ, one->to, &attr);
  uint32_t value = one->value;
  memcpy((char *)&attr + one->offset, &value, one->size); /* little-endian: the low bytes */
  char name[64];
  snprintf(name, sizeof(name), "range.%s", one->name);
  tell_errno(name, ibv_modify_qp(pair.end[REQ].qp, &attr, mask));
  pair_close(&pair);
}

/* The state that it is said to be in, and is not. */
static void wrong_current_state(void)
{
  struct pair pair;
  open_in(&pair, IBV_QPT_RC, IBV_QPS_INIT);
  struct ibv_qp_attr attr;
  int mask = step_attributes(&pair, REQ, IBV_QPS_RTR, &attr) | IBV_QP_CUR_STATE;
  attr.cur_qp_state = IBV_QPS_RTS;
  tell_errno("range.cur_qp_state-wrong", ibv_modify_qp(pair.end[REQ].qp, &attr, mask));
  pair_close(&pair);
}

void family_range(void)
{
  for (size_t i = 0; i < COUNT_OF(ranges); i++)
    range(&ranges[i]);
  wrong_current_state();
}
