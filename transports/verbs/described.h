/* SPDX-License-Identifier: Apache-2.0 */
/* Limits that descriptions know, too. */
#ifndef VERBS_DESCRIBED_H
#define VERBS_DESCRIBED_H

#include <penstock/transport.h>

#define VB_BYTES_MAX (UINT64_C(1) << 30) /* of a message, whatever the port has */
#define VB_SLOTS_MAX (1u << 22)
enum vb_ece_option { VB_ECE_AUTO, VB_ECE_NEVER }; /* of the option `ece` */
enum vb_relaxed {
  VB_RELAXED_AUTO,
  VB_RELAXED_NEVER,
  VB_RELAXED_ALWAYS
}; /* of the option `relaxed_ordering` */

#endif
