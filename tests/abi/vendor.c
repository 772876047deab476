/* SPDX-License-Identifier: Apache-2.0 */
/* A vendor's library: once there, once only to link with and not to load. */
__attribute__((visibility("default"))) int fixture_vendor(void);
int fixture_vendor(void)
{
  return 0;
}
