/* SPDX-License-Identifier: Apache-2.0 */
/* Configuration files. */
#include "allocation.h"
#include "config_load.h"
#include "require.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
  (void)argc;
  (void)argv;
  config_quiet();
  return 0;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
  config_try((const char *)data, size, NULL, 0, input_number(data, size));
  return 0;
}
