/* SPDX-License-Identifier: Apache-2.0 */
/* Quantities as people write them: "8 KiB", "68.75 Gbps", "250 ms". All return
 * 0, -EINVAL (not a number, or an unknown unit) or -ERANGE (overflow). The space
 * before the unit is optional. */
#ifndef PST_CONFIG_UNITS_H
#define PST_CONFIG_UNITS_H

#include <stddef.h>
#include <stdint.h>

int units_parse_uint(const char *text, uint64_t *value);
/* B, KB, MB, GB, TB (powers of 1000), KiB, MiB, GiB, TiB; a bare number is bytes. */
int units_parse_size(const char *text, uint64_t *bytes);
/* ns, us, ms, s, min, h; a bare 0 is legal, any other bare number is not. */
int units_parse_duration(const char *text, uint64_t *ns);
/* bps, Kbps, Mbps, Gbps, Tbps (powers of 1000); a bare number is bit/s. */
int units_parse_rate(const char *text, uint64_t *bps);
/* The shortest exact text that parses to the same value. */
void units_print_size(uint64_t bytes, char *text, size_t size);
#define UNITS_ABOUT_BYTES 32
/* For a message: exact where a unit divides it ("64 GiB"), else to a tenth ("11.2 MiB"). */
void units_print_about(uint64_t bytes, char *text, size_t size);
void units_print_duration(uint64_t ns, char *text, size_t size);
void units_print_rate(uint64_t bps, char *text, size_t size);

#endif
