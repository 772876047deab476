/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DPDK calls many things errors that the program can do without, so that its lines are logged at
 * debug level. The first of a call that fails is kept for our own message.
 */
#include "eal_log.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include <rte_log.h>

#include "eal.h"

static const struct pst_host *log_host;
static pthread_mutex_t words_lock = PTHREAD_MUTEX_INITIALIZER;
static char words[192];
static _Thread_local char words_of_caller[sizeof(words)];

static void eth_log_keep(const char *text, int length)
{
  pthread_mutex_lock(&words_lock);
  if (!words[0])
    snprintf(words, sizeof(words), ": %.*s", length, text);
  pthread_mutex_unlock(&words_lock);
}

/* DPDK writes whole lines and flushes after each. */
static ssize_t eth_log_write_lines(void *cookie, const char *text, size_t size)
{
  const char *at = text, *end = text + size;
  bool is_error = rte_log_cur_msg_loglevel() > 0 && rte_log_cur_msg_loglevel() <= (int)RTE_LOG_ERR;

  (void)cookie;
  while (at < end) {
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    int length = (int)((stop ? stop : end) - at);
    if (length)
      log_host->log(log_host, PST_LOG_DEBUG, "DPDK: %.*s", length, at);
    if (length && is_error)
      eth_log_keep(at, length);
    at += length + 1;
  }
  return (ssize_t)size;
}

void eal_words_clear(void)
{
  pthread_mutex_lock(&words_lock);
  words[0] = '\0';
  pthread_mutex_unlock(&words_lock);
}

const char *eal_words(void)
{
  pthread_mutex_lock(&words_lock);
  memcpy(words_of_caller, words, sizeof(words));
  pthread_mutex_unlock(&words_lock);
  return words_of_caller;
}

int eal_log_open(const struct pst_host *host)
{
  const cookie_io_functions_t calls = {.write = eth_log_write_lines};
  FILE *stream;

  log_host = host;
  stream = fopencookie(NULL, "w", calls);
  if (!stream)
    return -errno;
  if (setvbuf(stream, NULL, _IOFBF, 4096) != 0 || rte_openlog_stream(stream) != 0) {
    fclose(stream);
    return -ENOMEM;
  }
  return 0;
}
