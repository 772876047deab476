/* SPDX-License-Identifier: Apache-2.0 */
/* Names, and the line of a case. */
#include "statuses.h"

#include <poll.h>
#include <stdarg.h>
#include <time.h>

static const char *const status_names[] = {
    "SUCCESS",          "LOC_LEN_ERR",       "LOC_QP_OP_ERR",     "LOC_EEC_OP_ERR",
    "LOC_PROT_ERR",     "WR_FLUSH_ERR",      "MW_BIND_ERR",       "BAD_RESP_ERR",
    "LOC_ACCESS_ERR",   "REM_INV_REQ_ERR",   "REM_ACCESS_ERR",    "REM_OP_ERR",
    "RETRY_EXC_ERR",    "RNR_RETRY_EXC_ERR", "LOC_RDD_VIOL_ERR",  "REM_INV_RD_REQ_ERR",
    "REM_ABORT_ERR",    "INV_EECN_ERR",      "INV_EEC_STATE_ERR", "FATAL_ERR",
    "RESP_TIMEOUT_ERR", "GENERAL_ERR",
};

static const char *const event_names[] = {
    "CQ_ERR",
    "QP_FATAL",
    "QP_REQ_ERR",
    "QP_ACCESS_ERR",
    "COMM_EST",
    "SQ_DRAINED",
    "PATH_MIG",
    "PATH_MIG_ERR",
    "DEVICE_FATAL",
    "PORT_ACTIVE",
    "PORT_ERR",
    "LID_CHANGE",
    "PKEY_CHANGE",
    "SM_CHANGE",
    "SRQ_ERR",
    "SRQ_LIMIT_REACHED",
    "QP_LAST_WQE_REACHED",
    "CLIENT_REREGISTER",
    "GID_CHANGE",
    "WQ_FATAL",
};

static const char *const state_names[] = {"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"};

const char *errno_name(int error)
{
  return error ? strerrorname_np(error) : "ok";
}

const char *status_name(enum ibv_wc_status status)
{
  return (size_t)status < COUNT_OF(status_names) ? status_names[status] : "UNKNOWN";
}

const char *state_name(enum ibv_qp_state state)
{
  return (size_t)state < COUNT_OF(state_names) ? state_names[state] : "UNKNOWN";
}

enum ibv_qp_state qp_state(struct ibv_qp *qp)
{
  struct ibv_qp_attr attr;
  struct ibv_qp_init_attr init;
  if (!qp || ibv_query_qp(qp, &attr, IBV_QP_STATE, &init))
    return IBV_QPS_UNKNOWN;
  return attr.qp_state;
}

int64_t now_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Equal neighbours as one, with their number. */
static void print_runs(FILE *out, const char *const *names, size_t count)
{
  for (size_t i = 0; i < count;) {
    size_t end = i;
    while (end < count && strcmp(names[end], names[i]) == 0)
      end++;
    fprintf(out, "%s%s", i ? " " : "", names[i]);
    if (end - i > 1)
      fprintf(out, "*%zu", end - i);
    i = end;
  }
}

/* Since *then, which becomes now; but a time in which the machine, an emulated one on a busy host
 * maybe, stood still counts for little. */
static int64_t waited_ms(int64_t *then)
{
  int64_t now = now_ms(), since = now - *then;
  *then = now;
  return since < STEP_MS ? since : STEP_MS;
}

char *completions_text(const struct end *end, unsigned int count)
{
  const char *names[4 * CQ_DEPTH];
  unsigned int found = 0;
  int64_t then = now_ms(), left = count ? PATIENCE_MS : 0;
  while (end->cq && found < COUNT_OF(names)) {
    struct ibv_wc wc;
    int polled = ibv_poll_cq(end->cq, 1, &wc);
    if (polled < 0)
      names[found++] = "POLL_FAILED";
    if (polled > 0)
      names[found++] = status_name(wc.status);
    if (polled < 0 || (polled == 0 && (found >= count || left < 0)))
      break;
    left -= waited_ms(&then);
  }
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  print_runs(out, names, found);
  fclose(out);
  return text;
}

static const char *owner(const struct pair *pair, const struct ibv_async_event *event)
{
  for (int which = REQ; which <= RSP; which++) {
    const struct end *end = &pair->end[which];
    const void *element = event->element.qp;
    if (event->event_type < IBV_EVENT_DEVICE_FATAL || event->event_type > IBV_EVENT_SM_CHANGE) {
      if (element == end->qp || element == end->cq || (end->srq && element == end->srq))
        return which == REQ ? "req" : "rsp";
    }
  }
  return "device";
}

char *events_text(const struct pair *pair)
{
  char *text = NULL;
  size_t size;
  FILE *out = open_memstream(&text, &size);
  struct pollfd ready = {.fd = device.context->async_fd, .events = POLLIN};
  while (poll(&ready, 1, QUIET_MS) > 0) {
    struct ibv_async_event event;
    if (ibv_get_async_event(device.context, &event))
      break;
    const char *name = (size_t)event.event_type < COUNT_OF(event_names)
                           ? event_names[event.event_type]
                           : "UNKNOWN";
    fprintf(out, "%s%s:%s", ftell(out) ? " " : "", owner(pair, &event), name);
    ibv_ack_async_event(&event);
  }
  fclose(out);
  return text;
}

void tell(const char *name, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  printf("%s: ", name);
  vprintf(format, arguments);
  putchar('\n');
  va_end(arguments);
  fflush(stdout);
}

void tell_errno(const char *name, int error)
{
  tell(name, "%s", errno_name(error));
}

/* Joins two texts: the first, then the one that came while the events were waited for. */
static char *joined(char *first, char *more)
{
  char *text = NULL;
  if (asprintf(&text, "%s%s%s", first, *first && *more ? " " : "", more) < 0)
    abort();
  free(first);
  free(more);
  return text;
}

void tell_outcome(const char *name, struct pair *pair, unsigned int at_req, unsigned int at_rsp)
{
  char *req = completions_text(&pair->end[REQ], at_req);
  char *rsp = completions_text(&pair->end[RSP], at_rsp);
  char *events = events_text(pair);
  req = joined(req, completions_text(&pair->end[REQ], 0));
  rsp = joined(rsp, completions_text(&pair->end[RSP], 0));
  tell(name, "req [%s] rsp [%s] states %s %s events [%s]", req, rsp,
       state_name(qp_state(pair->end[REQ].qp)), state_name(qp_state(pair->end[RSP].qp)), events);
  free(req);
  free(rsp);
  free(events);
}
