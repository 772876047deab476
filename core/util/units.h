/* SPDX-License-Identifier: Apache-2.0 */
/* Quantities as people write them: "8 KiB", "68.75 Gbps", "250 ms", by the type of an option. */
#ifndef PST_UTIL_UNITS_H
#define PST_UTIL_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <penstock/plugin.h>

/* UINT, which has no unit; SIZE (B, KB, MB, GB, TB, powers of 1000, KiB, MiB, GiB, TiB; a bare
 * number is bytes), DURATION (ns, us, ms, s, min, h; a bare 0 is legal, any other bare number is
 * not) or RATE (bps, Kbps, Mbps, Gbps, Tbps, powers of 1000; a bare number is bit/s). The space
 * before the unit is optional. 0; -EINVAL (not a number, an unknown unit, another type); -ERANGE
 * (overflow). */
int units_parse(uint32_t type, const char *text, uint64_t *value);
/* The shortest exact text that parses to the same value; of other types the number. */
void units_print(uint32_t type, uint64_t value, char *text, size_t size);
/* Reads a decimal number, by hand, since strtod() follows the application's locale. `share`: from 0
 * to 1, or a percentage. 0; -EINVAL: no number; -ERANGE: no share. */
int units_parse_real(const char *text, bool share, double *real);
/* Writes a number as units_parse_real() reads it. */
void units_print_real(double real, char *text, size_t size);
/* The unit of the type that a wrong one was meant to be: KIB for KiB, sec for s. NULL: none. */
const char *units_meant(uint32_t type, const char *text);
#define UNITS_ABOUT_BYTES 32
/* For a message: exact where a unit divides it ("64 GiB"), else to a tenth ("11.2 MiB"). */
void units_print_about(uint64_t bytes, char *text, size_t size);

#endif
