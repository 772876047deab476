/* SPDX-License-Identifier: Apache-2.0 */
/* A vendor's library that changes the process from its constructor, as UCX's do. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

__attribute__((visibility("default"))) char fixture_saw[64];
__attribute__((visibility("default"))) int FIXTURE_CALLS(void);

static void handle(int number)
{
  (void)number;
}

__attribute__((constructor)) static void patch_process(void)
{
  const struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESETHAND};
  const char *mode = getenv("FIXTURE_MODE");

  snprintf(fixture_saw, sizeof(fixture_saw), "%s", mode ? mode : "");
  setenv("FIXTURE_MADE", "by a library", 1);
  sigaction(SIGHUP, &action, NULL);
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGRTMAX, &action, NULL);
}

int FIXTURE_CALLS(void)
{
  return 0;
}
