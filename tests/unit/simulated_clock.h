/* SPDX-License-Identifier: Apache-2.0 */
/* A monotonic clock that a test moves on, so that a deadline costs no time and does not depend on
 * how fast the machine is. It stands in for clock_gettime() and epoll_wait() of the whole program,
 * the library's included. It moves only while every thread that waits by epoll_wait() has nothing
 * to do. Deadlines that the kernel keeps (timerfd, condition variables) go by the real clock. */
#ifndef TESTS_UNIT_SIMULATED_CLOCK_H
#define TESTS_UNIT_SIMULATED_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/* Before the first thread to be simulated is started, and after the last one has ended. In between,
 * while there is no such thread, each reading of the clock moves it on by 1 ms. As a test's set-up
 * and teardown; without them the clock is the real one. A test fails that took more than 10 s of
 * the simulated clock: what it waited for came too late, or by another deadline. */
int simulated_clock_begin(void **state);
int simulated_clock_end(void **state);
bool simulated_clock_runs(void);
/* Each thread has its own. Unless NULL, it is called before that thread reads the clock: a test
 * does there what happens while the thread has no CPU. */
extern _Thread_local void (*simulated_clock_before_reading)(void);
/* The real clock runs on from so much later. */
void simulated_clock_skip(uint64_t ns);

/* After a thread was started that will wait by epoll_wait(): until it does. */
void simulated_clock_meet(void);

/* Changes with each step of any thread into epoll_wait() or out of it. Take it, see whether what
 * is waited for has come, and if not, move on by it. */
uint64_t simulated_clock_turn(void);
/* Move the clock to the next deadline of a thread, or by step_ns, whichever is sooner; not if any
 * thread has run since `turn`, or has something to do. Then others get the CPU. Returns whether the
 * clock has moved. With the real clock: false, at once. */
bool simulated_clock_move(uint64_t turn, uint64_t step_ns);
/* While the test's thread waits for one to end: the idle threads move the clock themselves. */
void simulated_clock_lend(bool is_to_threads);

#endif
