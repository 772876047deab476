/* SPDX-License-Identifier: Apache-2.0 */
/* A page of metrics in Prometheus' text format: families with their samples. */
#ifndef APP_METRICS_PAGE_H
#define APP_METRICS_PAGE_H

#include <stddef.h>
#include <stdint.h>

struct metrics_page;

enum metrics_type { METRICS_COUNTER, METRICS_GAUGE, METRICS_SUMMARY };

/* A name as it is written: with its unit, and for counters with `_total`. */
struct metrics_name {
  enum metrics_type type;
  const char *name, *help;
};

/* NULL: out of memory; the other calls then do nothing. */
struct metrics_page *metrics_page_new(void);
void metrics_page_free(struct metrics_page *page);

/* Labels of the samples that follow: name, value, …, NULL. Values may be any bytes. */
void metrics_page_labels(struct metrics_page *page, ...);

/* Add a sample of the family `name`. Samples of one family may come at any time. */
void metrics_page_put(struct metrics_page *page, const struct metrics_name *name, uint64_t value);
void metrics_page_put_ns(struct metrics_page *page, const struct metrics_name *name, uint64_t ns);
void metrics_page_put_real(struct metrics_page *page, const struct metrics_name *name,
                           double value);
/* A sample with one more label. */
void metrics_page_put_by(struct metrics_page *page, const struct metrics_name *name,
                         const char *label, const char *value_of_label, uint64_t value);
void metrics_page_put_ns_by(struct metrics_page *page, const struct metrics_name *name,
                            const char *label, const char *value_of_label, uint64_t ns);
/* Count and sum of a summary; its quantiles are put by their label. */
void metrics_page_put_sum_ns(struct metrics_page *page, const struct metrics_name *name,
                             uint64_t count, uint64_t sum_ns);

/* A counter or level of a plugin as a family `penstock_PREFIX_NAME`: times in seconds. */
struct pst_counter_value;
void metrics_page_put_counter(struct metrics_page *page, const char *prefix,
                              const struct pst_counter_value *counter);

/* The whole text, which the caller frees; NULL: out of memory. Frees the page. */
char *metrics_page_text(struct metrics_page *page, size_t *length);

#endif
