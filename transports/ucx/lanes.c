/* SPDX-License-Identifier: Apache-2.0 */
/* Which transports UCX has chosen: only print_info shows them. */
#include "lanes.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <ucp/api/ucp.h>

/* Whether names[i...] is a whole word that begins with `name`. */
bool ucx_lanes_has(const char *names, const char *name)
{
  const size_t length = strlen(name);

  for (const char *at = names; at; at = strchr(at, ' ')) {
    at += *at == ' ';
    if (strncmp(at, name, length) == 0)
      return true;
  }
  return false;
}

static bool ucx_lanes_has_word(const char *names, const char *word)
{
  const size_t length = strlen(word);

  for (const char *at = strstr(names, word); at; at = strstr(at + 1, word))
    if ((at == names || at[-1] == ' ') && (at[length] == 0 || at[length] == ' '))
      return true;
  return false;
}

static void ucx_lanes_add_word(char *names, size_t size, const char *word)
{
  const size_t used = strlen(names);

  if (ucx_lanes_has_word(names, word) || used + strlen(word) + 2 > size)
    return;
  snprintf(names + used, size - used, "%s%s", used ? " " : "", word);
}

/* "lane[0]:  1:posix/memory.0 md[1] -> ..." */
static void ucx_lanes_read_lane(const char *line, struct ucx_lanes *lanes)
{
  char name[64];
  const char *at = strchr(line, ']');

  if (!at || sscanf(at + 1, ": %*[0-9]:%63[^ .]", name) != 1)
    return;
  ucx_lanes_add_word(lanes->names, sizeof(lanes->names), name);
}

/* "am_send: 0..<egr/short>..93..<egr/bcopy>..8256..<rndv>..(inf)" */
static void ucx_lanes_read_thresholds(const char *line, struct ucx_lanes *lanes)
{
  const char *rendezvous = strstr(line, "..<rndv>");

  if (!rendezvous)
    return;
  while (rendezvous > line && isdigit((unsigned char)rendezvous[-1]))
    rendezvous--;
  lanes->eager_max = strtoull(rendezvous, NULL, 10);
}

static void ucx_lanes_print_to(FILE *(*open_text)(char **, size_t *), ucp_ep_h ep,
                               ucp_context_h context, char **text)
{
  size_t size;
  FILE *file = open_text(text, &size);

  if (!file)
    return;
  if (ep)
    ucp_ep_print_info(ep, file);
  else
    ucp_context_print_info(context, file);
  fclose(file);
}

void ucx_lanes_read(ucp_ep_h ep, struct ucx_lanes *lanes)
{
  char *text = NULL, *rest, *line;

  memset(lanes, 0, sizeof(*lanes));
  ucx_lanes_print_to(open_memstream, ep, NULL, &text);
  for (line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest)) {
    if (strstr(line, "lane["))
      ucx_lanes_read_lane(strstr(line, "lane["), lanes);
    else if (strstr(line, "am_send:"))
      ucx_lanes_read_thresholds(line, lanes);
  }
  free(text);
}

/* "#            resource 0  :  md 0  dev 0  flags -- self/memory0" */
void ucx_transports_read(ucp_context_h context, char *names, size_t size)
{
  char *text = NULL, *rest, *line, name[64];

  names[0] = 0;
  ucx_lanes_print_to(open_memstream, NULL, context, &text);
  for (line = text ? strtok_r(text, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest)) {
    const char *slash = strchr(line, '/');
    if (!strstr(line, "resource ") || !slash)
      continue;
    const char *begin = slash;
    while (begin > line && begin[-1] != ' ')
      begin--;
    snprintf(name, sizeof(name), "%.*s", (int)(slash - begin), begin);
    ucx_lanes_add_word(names, size, name);
  }
  free(text);
}
