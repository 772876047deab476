/* SPDX-License-Identifier: Apache-2.0 */
/* A host for the plugin linked into this test: options from a list, log lines
 * kept for looking at. */
#ifndef TEST_FAKE_HOST_H
#define TEST_FAKE_HOST_H

#include <penstock/memory.h>

struct fake_option {
  const char *name;
  const char *value;
};

/* Also what the getters take for struct pst_options: a list ended by no name;
 * what it leaves out has its default. */
#define FAKE_OPTIONS(list) ((const struct pst_options *)(list))

extern const struct pst_host fake_host;

/* Time of the host's clock. Only the test moves it. */
extern uint64_t fake_clock_ns;

/* The lines logged since fake_log_clear(), each "LEVEL text\n" with the level's
 * number. */
const char *fake_log(void);
void fake_log_clear(void);

#endif
