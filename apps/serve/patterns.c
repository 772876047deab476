/* SPDX-License-Identifier: Apache-2.0 */
#include "patterns.h"

void patterns_add(struct patterns *patterns, struct pattern_work *work,
                  const struct pst_area_pattern *parts, uint32_t n)
{
  if (work->status < 0)
    return;
  work->status = work->again ? pst_area_verify_begin(patterns->area, parts, n, &work->ticket)
                             : pst_area_fill_begin(patterns->area, parts, n, &work->ticket);
}

void patterns_begin(struct patterns *patterns, struct pattern_work *work)
{
  work->next = NULL;
  if (patterns->first == NULL)
    patterns->last = &patterns->first;
  *patterns->last = work;
  patterns->last = &work->next;
  patterns_poll(patterns);
}

int patterns_poll(struct patterns *patterns)
{
  struct pst_verify_result found = {.struct_size = sizeof found};
  struct pattern_work *work;
  uint64_t done = 0;
  int ended = 0;

  if (patterns->first == NULL || patterns->polling)
    return 0;
  int rc = pst_area_poll(patterns->area, &done, &found);
  bool suspect = rc == 0 && found.corrupted != patterns->corrupted;
  if (rc == 0)
    patterns->corrupted = found.corrupted;
  patterns->polling = true;
  while ((work = patterns->first) != NULL && (rc < 0 || work->status < 0 || work->ticket <= done)) {
    int status = work->status < 0 ? work->status : rc;
    patterns->first = work->next;
    if (status == 0 && suspect && work->again)
      status = work->again(work);
    work->ended(work, status);
    ended++;
  }
  patterns->polling = false;
  return ended;
}
