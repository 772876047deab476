/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends of a session on this thread, driven by hand. */
#ifndef STREAM_SUPPORT_H
#define STREAM_SUPPORT_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include <penstock/penstock.h>

#define BATCH 64
#define DEADLINE_NS UINT64_C(60000000000)

struct run {
  struct pst_config *config;
  struct pst_session *session;
  uint64_t deadline_ns;
};

uint64_t now_ns(void);
void open_text(struct run *run, const char *text);
/* Opens what must be refused; the report, valid until the next call. */
const char *refused_text(const char *text);
/* The exit status of the last one. */
uint32_t refused_status(void);
void start(struct run *run);
void in_time(const struct run *run);
void close_run(struct run *run);
/* Send what there is room for, up to `total`; then finish. 0, or what a call returned. */
int try_feed(struct pst_sender *sender, uint64_t *sent, uint64_t total);
void feed(struct pst_sender *sender, uint64_t *sent, uint64_t total);
/* Take what has arrived, check it, give it back behind the check. Returns false
 * when the stream has ended. */
bool drain(struct pst_receiver *receiver, uint64_t *received);
/* pst_receiver_verify(), again while the memory has no room for it. */
int check_all(struct pst_receiver *receiver, const struct pst_view *views, uint32_t n,
              struct pst_fence **fence);
void check_counts(struct pst_sender *sender, struct pst_receiver *receiver, uint64_t total);
void stream_all(struct run *run, const char *name, uint64_t total);
/* For a group's set-up. */
int use_fakes(void **state);

#endif
