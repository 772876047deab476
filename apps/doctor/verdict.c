/* SPDX-License-Identifier: Apache-2.0 */
/* Names of verdicts. */
#include "verdict.h"

const char *doctor_verdict_name(enum doctor_verdict verdict)
{
  static const char *const names[] = {[DOCTOR_OK] = "ok",
                                      [DOCTOR_WARNING] = "warning",
                                      [DOCTOR_FAILS] = "fails",
                                      [DOCTOR_UNKNOWN] = "cannot tell",
                                      [DOCTOR_ABSENT] = "not here"};

  return names[verdict];
}
