/* SPDX-License-Identifier: Apache-2.0 */
/* A machine with other pages, for what is linked with -Wl,--wrap=sysconf. */
#ifndef FAKE_PAGE_H
#define FAKE_PAGE_H

#include <unistd.h>

enum { FAKE_PAGE = 65536 };
static long fake_page = FAKE_PAGE;

long __real_sysconf(int name);
long __wrap_sysconf(int name);
long __wrap_sysconf(int name)
{
  return name == _SC_PAGESIZE ? fake_page : __real_sysconf(name);
}

#endif
