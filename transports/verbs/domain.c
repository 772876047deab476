/* SPDX-License-Identifier: Apache-2.0 */
/* Protection domains. Memory that peers may reach lies in one domain for each peer: a device
 * compares the domain of a key with that of the queue pair by which it is named, and refuses the
 * access where they differ. Memory that is only sent from, or read into, is in the device's own
 * domain, once for all peers: no key of it has remote rights.
 */
#include "domain.h"
#include "worker.h"

/* soft-RoCE checks the local keys of a shared receive against the domain of the queue pair that
 * takes it, not against the shared queue's (rxe_resp.c: send_data_in). */
bool vb_domain_is_one(const struct pst_device *device)
{
  return device->has_one_domain || (device->shares && device->is_soft);
}

int vb_domain_open(struct vb_domain *domain, struct pst_device *device, uint64_t number)
{
  domain->device = device;
  domain->number = number;
  domain->pd = ibv_alloc_pd(device->open.context);
  if (!domain->pd) {
    const int code = errno;
    VB_LOG(device, PST_LOG_ERROR,
           "%s: ibv_alloc_pd: %s; the device has at most %d protection domains for all processes "
           "(`ibv_devinfo -v`: max_pd; in use: `rdma resource`), and each peer takes one",
           device->open.info->name, strerror(code), device->attr.max_pd);
    return vb_call_error(code);
  }
  vb_mrs_open(&domain->mrs, domain->pd, device->attr.max_mr, &device->registrations);
  return 0;
}

void vb_domain_close(struct vb_domain *domain)
{
  if (!domain->pd)
    return;
  vb_mrs_close(&domain->mrs);
  ibv_dealloc_pd(domain->pd);
}

static int vb_domain_find_or_open(struct pst_device *device, uint64_t number,
                                  struct vb_domain **domain)
{
  struct vb_domain *one = device->domains;

  while (one && one->number != number)
    one = one->next;
  if (!one) {
    one = calloc(1, sizeof(*one));
    int rc = one ? vb_domain_open(one, device, number) : -ENOMEM;
    if (rc < 0) {
      free(one);
      return rc;
    }
    one->next = device->domains;
    device->domains = one;
  }
  one->users++;
  *domain = one;
  return 0;
}

int vb_domain_take(struct pst_device *device, uint64_t number, struct vb_domain **domain)
{
  if (number == 0 || vb_domain_is_one(device)) {
    *domain = &device->own;
    return 0;
  }
  pthread_mutex_lock(&device->domains_lock);
  int rc = vb_domain_find_or_open(device, number, domain);
  pthread_mutex_unlock(&device->domains_lock);
  return rc;
}

void vb_domain_give(struct vb_domain *domain)
{
  if (!domain || domain == &domain->device->own)
    return;
  struct pst_device *device = domain->device;
  struct vb_domain **at = &device->domains;

  pthread_mutex_lock(&device->domains_lock);
  const bool is_last = --domain->users == 0;
  while (is_last && *at != domain)
    at = &(*at)->next;
  if (is_last)
    *at = domain->next;
  pthread_mutex_unlock(&device->domains_lock);
  if (!is_last)
    return;
  vb_domain_close(domain);
  free(domain);
}

struct ibv_pd *vb_thread_domain_take(struct pst_worker *worker, struct vb_domain *domain)
{
  struct vb_thread_domain **at = &worker->domains;

  while (*at && (*at)->domain != domain)
    at = &(*at)->next;

  if (!*at && worker->td) {
    struct ibv_parent_domain_init_attr attr = {.pd = domain->pd, .td = worker->td};
    struct vb_thread_domain *made = calloc(1, sizeof(*made));
    struct ibv_pd *pd = made ? ibv_alloc_parent_domain(worker->device->open.context, &attr) : NULL;
    if (!pd) {
      free(made);
      return domain->pd;
    }
    *made = (struct vb_thread_domain){.domain = domain, .pd = pd};
    *at = made;
  }
  if (!*at)
    return domain->pd;
  (*at)->users++;
  return (*at)->pd;
}

static void vb_domain_close_thread(struct vb_thread_domain **at)
{
  struct vb_thread_domain *domain = *at;

  *at = domain->next;
  ibv_dealloc_pd(domain->pd);
  free(domain);
}

void vb_thread_domain_give(struct pst_worker *worker, const struct ibv_pd *pd)
{
  struct vb_thread_domain **at = &worker->domains;

  while (*at && (*at)->pd != pd)
    at = &(*at)->next;
  if (*at && --(*at)->users == 0)
    vb_domain_close_thread(at);
}

void vb_thread_domains_close(struct pst_worker *worker)
{
  while (worker->domains)
    vb_domain_close_thread(&worker->domains);
  if (worker->td)
    ibv_dealloc_td(worker->td);
}

int vb_domain_pin(struct vb_domain *domain, const char *label, const char *what, void *at,
                  size_t bytes, struct ibv_mr **mr)
{
  char why[400];

  *mr = vb_pin(&domain->mrs, at, bytes, IBV_ACCESS_LOCAL_WRITE | domain->device->relaxed);
  if (*mr)
    return 0;
  const int code = errno;
  vb_mr_refusal(&domain->mrs, code, bytes, why, sizeof(why));
  VB_LOG(domain->device, PST_LOG_ERROR, "%s%sibv_reg_mr of %zu bytes for %s: %s: %s",
         label ? label : "", label ? ": " : "", bytes, what, strerror(code), why);
  return vb_call_error(code);
}

int vb_domain_pages_open(struct vb_domain *domain, const char *label, const char *what,
                         size_t bytes, uint8_t **pages, struct ibv_mr **mr)
{
  if (!*pages && (*pages = vb_pages_alloc(bytes)))
    memset(*pages, 0, bytes);
  return *pages ? vb_domain_pin(domain, label, what, *pages, bytes, mr) : -ENOMEM;
}
