/* SPDX-License-Identifier: Apache-2.0 */
/* `--endpoint auto`: the endpoints that this machine's topology suggests. */
#ifndef APP_BENCH_END_AUTO_H
#define APP_BENCH_END_AUTO_H

#include <stdint.h>

#define END_AUTO_BYTES 512

struct topo_machine;

/* Writes at most `most` endpoints in the form of --endpoint. For memory `cuda` there is one for
 * each visible GPU, with the adapter nearest to it, and else one for each adapter that is up and
 * that the transport can use. Returns how many, or writes `why` and returns -ENODEV: the
 * machine has none, or a GPU's adapter cannot be used; -EINVAL: the transport names its adapters in
 * another way. */
int bench_end_auto(const struct topo_machine *machine, const char *transport, const char *memory,
                   char (*endpoints)[END_AUTO_BYTES], uint32_t most, char why[END_AUTO_BYTES]);

#endif
