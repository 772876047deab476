/* SPDX-License-Identifier: Apache-2.0 */
/* Helpers of all parts of the contract suite. */
#ifndef CONTRACT_COMMON_H
#define CONTRACT_COMMON_H

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* Deadline after which a wait counts as endless: 20 s, or as --deadline says. */
extern uint64_t contract_deadline_ns;

/* A case that a call into the plugin has kept for so long hangs: 180 s. Both times are longer where
 * PENSTOCK_PATIENCE is set: so many times, for a machine that is emulated. */
unsigned int contract_watch_s(void);

/* How many rounds a case has of so many: divided by PENSTOCK_FEWER where that is set. */
uint32_t contract_rounds(uint32_t rounds);

uint64_t contract_now_ns(void);
/* The same numbers in each run. */
uint64_t contract_random(void);

/* Descriptors of this process. Bytes that malloc has given out: 0 where nobody counts, as with
 * sanitizers. */
unsigned int contract_descriptors(void);
uint64_t contract_heap_bytes(void);
/* Else the case has failed. Bytes are not judged where rounds are fewer: they have not settled. */
void contract_descriptors_are(unsigned int count);
void contract_heap_is_at_most(uint64_t bytes);
/* Fails the case unless an output of a call that refused is unchanged. */
void contract_untouched(const void *made, const void *before, const char *call);
/* Address space that this process has mapped. */
uint64_t contract_mapped_bytes(void);
/* Bytes that a hundred rounds may add to the heap: not one allocation each, but structures that
 * grow to the size of what was there at a time. */
#define CONTRACT_HEAP_NOISE_BYTES UINT64_C(1500)

/* From here on, a case that does not end ends the program, with a word. Fixtures. */
int contract_watch(void **state);

/* Sets the sentence of the headers that the case tries from here on, word for word: a failure
 * quotes it. It holds until the next one, or the end of the case. rules.py fails the build where
 * no header has the sentence. Returns the one before, which a helper puts back. */
const char *contract_rule(const char *sentence);
/* Made by rules.py, in programs that try what the headers say; ends with NULL. There a case that
 * names no rule fails. */
struct contract_place {
  const char *sentence, *header;
  int line;
};
extern const struct contract_place contract_places[] __attribute__((weak));

/* Only cases of such names are run by contract_group(), NULL or none: all; and of them none of the
 * others. NULL-terminated, and kept. */
void contract_pick(const char *const *wanted, const char *const *unwanted);
/* Where some are wanted: were there any, up to now? */
bool contract_picked(void);
/* From now on the first case that fails is the last one. */
void contract_stop_at_failure(void);
/* cmocka's, under its name, and what contract_pick() chose. */
int contract_group(const char *name, const struct CMUnitTest *cases, size_t count,
                   CMFixtureFunction setup);

/* cmocka's, but telling what was called, and naming errno where what was found is an int: who
 * writes a plugin reads these lines, and not the suite's sources. */
void contract_int_equal(uintmax_t found, uintmax_t expected, bool is_status, const char *found_text,
                        const char *expected_text, const char *file, int line);
/* cmocka's, and known here not to be a failure. */
void contract_skip(const char *file, int line);
/* Fails the case once `deadline` has passed, with what has been waited for in vain. */
#define contract_in_time(deadline, ...)                                                            \
  contract_await_ends(deadline, __FILE__, __LINE__, __VA_ARGS__)
void contract_await_ends(uint64_t deadline_ns, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#undef assert_int_equal
#define assert_int_equal(found, expected)                                                          \
  contract_int_equal(cast_to_largest_integral_type(found),                                         \
                     cast_to_largest_integral_type(expected),                                      \
                     _Generic((found), int                                                         \
                              : true, default                                                      \
                              : false),                                                            \
                     #found, #expected, __FILE__, __LINE__)
#undef skip
#define skip() contract_skip(__FILE__, __LINE__)

#endif
