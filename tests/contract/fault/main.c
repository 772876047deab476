/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of the filter fault. */
#include <stdio.h>

#include "fault.h"

static struct contract_variant variants[] = {
    {.name = "copy", .options = "mode=copy"},
    {.name = "reference", .options = "mode=reference"},
    {.name = "processes", .options = "mode=copy", .apart = true},
};

int main(int argc, char **argv)
{
  for (size_t i = 0; argc == 3 && i < sizeof(variants) / sizeof(variants[0]); i++) {
    if (strcmp(variants[i].name, argv[1]) != 0)
      continue;
    variants[i].plugin = argv[2];
    return fault_rates_run(&variants[i]) + fault_ends_run(&variants[i]) ? 1 : 0;
  }
  fprintf(stderr, "usage: %s copy|reference|processes FILTER+TRANSPORT\n", argv[0]);
  return 2;
}
