/* SPDX-License-Identifier: Apache-2.0 */
/* The key-value exchange of the launcher: PMIx, which Open MPI's mpirun and Slurm's srun offer. Its
 * library is loaded when a launcher says that it is there. */
#ifndef APP_BENCH_PMIX_H
#define APP_BENCH_PMIX_H

#include <stddef.h>
#include <stdint.h>

struct bench_pmix;

/* Joins the launcher's job: *rank of *ranks. 0; -ENOENT: no launcher has started this process, or
 * none with PMIx; -EOPNOTSUPP: this program is built without PMIx, or its library is not here;
 * -EIO. `why` says so in words. Once in a process. */
int bench_pmix_open(struct bench_pmix **pmix, uint32_t *rank, uint32_t *ranks, char *why,
                    size_t size);
/* Makes rank 0's text known to the job. 0 or -EIO. */
int bench_pmix_put(struct bench_pmix *pmix, const char *text);
/* Rank 0's text. Waits until until_ns, or a signal asks to stop. 0; -ETIMEDOUT; -EINTR; -EIO. */
int bench_pmix_get(struct bench_pmix *pmix, uint64_t until_ns, char *text, size_t size);
/* Leaves the job: a process that ends without it has failed for its launcher. NULL is legal. */
void bench_pmix_close(struct bench_pmix *pmix);

#endif
