/* SPDX-License-Identifier: Apache-2.0 */
/* Values of options, in the order of their choices. */
#ifndef IGPU_OPTIONS_H
#define IGPU_OPTIONS_H

enum igpu_cache { IGPU_CACHED, IGPU_WRITE_COMBINED };

#endif
