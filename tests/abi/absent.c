/* SPDX-License-Identifier: Apache-2.0 */
/* A library that is there to link with and not to load. */
int fixture_absent(void);
int fixture_absent(void)
{
  return 0;
}
