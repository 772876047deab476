/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics of `penstock serve`. */
#include "metrics/server.h"
#include "metrics/streams.h"
#include "server.h"

void serve_metrics_add_totals(struct metrics_page *page, const struct server_totals *totals,
                              uint32_t clients)
{
  static const struct metrics_name
      now = {METRICS_GAUGE, "penstock_serve_clients", "Clients that are connected."},
      all = {METRICS_COUNTER, "penstock_serve_joined_clients_total", "Clients that joined."},
      requests = {METRICS_COUNTER, "penstock_serve_requests_total", "Requests answered."},
      refused = {METRICS_COUNTER, "penstock_serve_refused_requests_total",
                 "Requests that were refused."},
      written = {METRICS_COUNTER, "penstock_serve_written_bytes_total",
                 "Bytes written into clients' regions."},
      read = {METRICS_COUNTER, "penstock_serve_read_bytes_total",
              "Bytes read from clients' regions."},
      got = {METRICS_COUNTER, "penstock_serve_read_files_total", "Files that clients got."},
      put = {METRICS_COUNTER, "penstock_serve_written_files_total", "Files that clients put."};

  metrics_page_labels(page, NULL);
  metrics_page_put(page, &now, clients);
  metrics_page_put(page, &all, totals->clients);
  metrics_page_put(page, &requests, totals->requests);
  metrics_page_put(page, &refused, totals->refused);
  metrics_page_put(page, &written, totals->bytes_written);
  metrics_page_put(page, &read, totals->bytes_read);
  metrics_page_put(page, &got, totals->files_read);
  metrics_page_put(page, &put, totals->files_written);
}

struct metrics_page *serve_metrics_page(const struct server *server)
{
  struct pst_plugin_info plugin = {.struct_size = sizeof(plugin)};
  struct pst_device_info device = {.struct_size = sizeof(device)};
  struct pst_counter_value values[COUNTERS_MAX];
  struct metrics_page *page = metrics_page_new();

  if (!page)
    return NULL;
  metrics_put_program(page, "serve");
  for (uint32_t i = 0; i < pst_node_plugins(server->node); i++)
    if (pst_node_plugin(server->node, i, &plugin) == 0)
      metrics_put_plugin(page, &plugin);
  /* The device's own counters may block, and this is the thread that serves. */
  if (pst_node_device(server->node, &device) == 0) {
    metrics_page_labels(page, "transport", device.transport, "device", device.device, "thread", "0",
                        NULL);
    metrics_put_counters(page, "worker", values,
                         pst_node_worker_counters(server->node, values, COUNTERS_MAX));
  }
  return page;
}

void serve_metrics_publish(const struct server *server)
{
  struct metrics_page *page = serve_metrics_page(server);

  serve_metrics_add_totals(page, &server->totals, server->client_count);
  metrics_server_publish(server->params->metrics, page);
}
