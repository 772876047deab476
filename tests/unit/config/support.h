/* SPDX-License-Identifier: Apache-2.0 */
/* Plugins that exist only as tables, and configurations loaded from text. */
#ifndef TEST_CONFIG_SUPPORT_H
#define TEST_CONFIG_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "config/config.h"
#include "util/log.h"

#define HEAD "penstock: 1\nstreams:\n- name: a\n"

/* transports loopback (copy DEVICE enum, depth STREAM size, burst SENDER uint, wait
 * RECEIVER duration, names DEVICE list), verbs (device required), ruled (rules between
 * its options), unruled (the same, without rules) and asked (with a
 * check(): message at most 1000, ring at most 100, few capabilities) and placed (its facts are
 * its options: takes, shares, family DEVICE, to SENDER, at RECEIVER; another process needs
 * memory with a descriptor, and is not reached by `family: near`); memories host (numa), closed
 * (no descriptor) and cuda (device); filter fault (drop SENDER). */
extern const struct config_catalog test_catalog;

/* Keeps log lines off the terminal. */
int quiet(void **state);

/* Loads `text` as "t.yaml" with a NULL-terminated list of sets; fails the test when
 * that fails. */
struct pst_config *load_sets(const char *text, const char *const *sets);
struct pst_config *load(const char *text);
/* Loads what must be refused; the report, valid until the next call. */
const char *refusal_sets(const char *text, const char *const *sets);
const char *refusal(const char *text);
/* The report of `text` has exactly these lines, in this order. */
void assert_refused(const char *text, const char *expected);
void assert_get(const struct pst_config *config, const char *path, const char *expected);

#endif
