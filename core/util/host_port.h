/* SPDX-License-Identifier: Apache-2.0 */
/* "host:port" and "[v6]:port" in their parts. In a header, since the program finds nothing in the
 * library but its API. */
#ifndef PST_UTIL_HOST_PORT_H
#define PST_UTIL_HOST_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct pst_host_port {
  const char *host; /* without its brackets */
  size_t host_length;
  const char *port;  /* what is behind the colon; NULL: there is none */
  bool is_ambiguous; /* several colons and no brackets: an IPv6 address, and all of it the host */
};

/* The parts lie in `text`, and are not checked. False: its brackets do not close around a host. */
static inline bool pst_host_port_split(const char *text, struct pst_host_port *parts)
{
  const bool has_brackets = text[0] == '[';
  const char *end = strchr(text, has_brackets ? ']' : ':');

  *parts = (struct pst_host_port){.host = text};
  if (has_brackets) {
    if (!end || (end[1] != '\0' && end[1] != ':'))
      return false;
    parts->host++;
    parts->port = end[1] == ':' ? end + 2 : NULL;
  } else if (end && strchr(end + 1, ':')) {
    parts->is_ambiguous = true;
    end = NULL;
  } else if (end) {
    parts->port = end + 1;
  }
  parts->host_length = end ? (size_t)(end - parts->host) : strlen(parts->host);
  return true;
}

#endif
