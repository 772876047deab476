/* SPDX-License-Identifier: Apache-2.0 */
/* Verdicts of the checks of `penstock doctor`. */
#ifndef APP_DOCTOR_VERDICT_H
#define APP_DOCTOR_VERDICT_H

enum doctor_verdict {
  DOCTOR_OK,
  DOCTOR_WARNING, /* it works, and slowly, or not always */
  DOCTOR_FAILS,
  DOCTOR_UNKNOWN, /* it cannot be told: `why` says why */
  DOCTOR_ABSENT,  /* --for or --area asks for what this machine has not */
  DOCTOR_VERDICTS,
};
/* "ok", "warning", "fails", "cannot tell", "not here" */
const char *doctor_verdict_name(enum doctor_verdict verdict);

#endif
