/* SPDX-License-Identifier: Apache-2.0 */
/* UCX's log through the host's. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <ucs/debug/log_def.h>

#include "status.h"

static const struct pst_host *log_host;
static pthread_once_t log_once = PTHREAD_ONCE_INIT;
static __thread char *log_text;
static __thread size_t log_size;

/* UCX's warnings are news for the operator, but for what a worker is closed with: requests of peers
 * that died go with the worker (README.md). */
static int ucx_log_level_of(ucs_log_level_t level, const char *text)
{
  if (level == UCS_LOG_LEVEL_FATAL)
    return PST_LOG_ERROR;
  if (level > UCS_LOG_LEVEL_WARN || strstr(text, " was not returned to mpool "))
    return PST_LOG_DEBUG;
  return PST_LOG_INFO;
}

static ucs_log_func_rc_t ucx_log_line(const char *file, unsigned line, const char *function,
                                      ucs_log_level_t level,
                                      const ucs_log_component_config_t *component,
                                      const char *message, va_list arguments)
{
  char text[1024];

  (void)file, (void)line, (void)function, (void)component;
  if (level > UCS_LOG_LEVEL_DEBUG)
    return UCS_LOG_FUNC_RC_CONTINUE;
  vsnprintf(text, sizeof(text), message, arguments);
  if (log_text && level <= UCS_LOG_LEVEL_WARN) {
    const size_t used = strlen(log_text);
    snprintf(log_text + used, log_size - used, "%s%s", used ? "; " : "", text);
    return UCS_LOG_FUNC_RC_STOP;
  }
  const struct pst_host *host = __atomic_load_n(&log_host, __ATOMIC_ACQUIRE);
  host->log(host, ucx_log_level_of(level, text), "UCX: %s", text);
  return UCS_LOG_FUNC_RC_STOP;
}

static void ucx_log_push(void)
{
  ucs_log_push_handler(ucx_log_line);
}

void ucx_log_take(const struct pst_host *host)
{
  __atomic_store_n(&log_host, host, __ATOMIC_RELEASE);
  pthread_once(&log_once, ucx_log_push);
}

void ucx_log_keep(char *text, size_t size)
{
  log_text = text;
  log_size = size;
  if (text)
    text[0] = 0;
}
