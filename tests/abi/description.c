/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin's description, by the headers as they are. */
#define FIXTURE_DESCRIPTION_ONLY
#define FIXTURE_KIND PST_KIND_TRANSPORT
#include "fixture.h"
