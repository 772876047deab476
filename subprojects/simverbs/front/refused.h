// SPDX-License-Identifier: Apache-2.0
// Symbols that programs bind when they are loaded and that the simulator does not build. One line
// of a table each: the answer is EOPNOTSUPP in the shape that the symbol's callers expect, and the
// name goes to the simulator's log, so that nobody wonders who said no.
#ifndef SIM_REFUSED_H
#define SIM_REFUSED_H

// Logs `symbol` and sets errno; returns EOPNOTSUPP.
__attribute__((visibility("default"))) int sim_refused(const char *symbol);

// Callers pass what they pass: on the ABIs we build for (x86-64, AArch64) a callee need not know.
#define SIM_REFUSED_DEFINE(type, symbol, statement)                                                \
  __attribute__((visibility("default"))) type symbol(void);                                        \
  type symbol(void)                                                                                \
  {                                                                                                \
    statement;                                                                                     \
  }

// For functions that answer an errno value, a pointer (NULL and errno), -1 and errno, a
// negative errno value, nothing.
#define SIM_REFUSED_ERRNO(symbol) SIM_REFUSED_DEFINE(int, symbol, return sim_refused(#symbol))
#define SIM_REFUSED_POINTER(symbol)                                                                \
  SIM_REFUSED_DEFINE(void *, symbol, sim_refused(#symbol); return NULL)
#define SIM_REFUSED_MINUS_ONE(symbol)                                                              \
  SIM_REFUSED_DEFINE(long, symbol, sim_refused(#symbol); return -1)
#define SIM_REFUSED_MINUS_ERRNO(symbol)                                                            \
  SIM_REFUSED_DEFINE(int, symbol, return -sim_refused(#symbol))
#define SIM_REFUSED_VOID(symbol) SIM_REFUSED_DEFINE(void, symbol, sim_refused(#symbol))

#endif
