/* SPDX-License-Identifier: Apache-2.0 */
/* rdma_getaddrinfo, and endpoints made of its results. */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "cm.h"

enum { RESOLVE_MS = 2000 }; /* rdma_create_ep's */

static bool cm_addrinfo_copy_address(struct sockaddr **to, socklen_t *to_len,
                                     const struct sockaddr *from, socklen_t len)
{
  if (!len)
    return true;
  *to = malloc(len);
  if (!*to)
    return false;
  memcpy(*to, from, len);
  *to_len = len;
  return true;
}

/* 0, a positive or negative error of getaddrinfo(3), or -1 and errno: as librdmacm has it. */
static int cm_addrinfo_look_up(const char *node, const char *service,
                               const struct rdma_addrinfo *hints, struct rdma_addrinfo *to)
{
  const bool is_passive = hints->ai_flags & RAI_PASSIVE;
  const bool is_datagram = hints->ai_port_space == RDMA_PS_UDP ||
                           hints->ai_port_space == RDMA_PS_IPOIB || hints->ai_qp_type == IBV_QPT_UD;
  struct addrinfo asked = {
      .ai_flags =
          (is_passive ? AI_PASSIVE : 0) | (hints->ai_flags & RAI_NUMERICHOST ? AI_NUMERICHOST : 0),
      .ai_family = hints->ai_family,
      .ai_socktype = is_datagram ? SOCK_DGRAM : SOCK_STREAM,
  };
  struct addrinfo *found;
  int rc = getaddrinfo(node, service, &asked, &found);
  if (rc)
    return rc;
  to->ai_flags = hints->ai_flags & RAI_PASSIVE;
  to->ai_family = found->ai_family;
  to->ai_qp_type = hints->ai_qp_type ? hints->ai_qp_type : is_datagram ? IBV_QPT_UD : IBV_QPT_RC;
  to->ai_port_space = hints->ai_port_space ? hints->ai_port_space
                      : is_datagram        ? RDMA_PS_UDP
                                           : RDMA_PS_TCP;
  bool copied = is_passive ? cm_addrinfo_copy_address(&to->ai_src_addr, &to->ai_src_len,
                                                      found->ai_addr, found->ai_addrlen)
                           : cm_addrinfo_copy_address(&to->ai_dst_addr, &to->ai_dst_len,
                                                      found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return copied ? 0 : cm_fail(ENOMEM);
}

int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
                     struct rdma_addrinfo **res)
{
  static const struct rdma_addrinfo none;
  int rc = 0;
  if (!service && !node && !hints)
    return cm_fail(EINVAL);
  struct rdma_addrinfo *made = calloc(1, sizeof(*made));
  if (!made)
    return cm_fail(ENOMEM);
  if (!hints)
    hints = &none;
  if (node || service) {
    rc = cm_addrinfo_look_up(node, service, hints, made);
  } else {
    made->ai_flags = hints->ai_flags;
    made->ai_family = hints->ai_family;
    made->ai_qp_type = hints->ai_qp_type;
    made->ai_port_space = hints->ai_port_space;
    if (!cm_addrinfo_copy_address(&made->ai_dst_addr, &made->ai_dst_len, hints->ai_dst_addr,
                                  hints->ai_dst_len))
      rc = cm_fail(ENOMEM);
  }
  if (!rc && !made->ai_src_len &&
      !cm_addrinfo_copy_address(&made->ai_src_addr, &made->ai_src_len, hints->ai_src_addr,
                                hints->ai_src_len))
    rc = cm_fail(ENOMEM);
  if (rc)
    rdma_freeaddrinfo(made);
  else
    *res = made;
  return rc;
}

void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
  while (res) {
    struct rdma_addrinfo *next = res->ai_next;
    free(res->ai_connect);
    free(res->ai_route);
    free(res->ai_src_canonname);
    free(res->ai_dst_canonname);
    free(res->ai_src_addr);
    free(res->ai_dst_addr);
    free(res);
    res = next;
  }
}

/* ---- endpoints ---- */

/* Binds a passive identifier, and keeps the attributes for the queue pair of a later request. */
static int cm_addrinfo_make_passive(struct rdma_cm_id *id, const struct rdma_addrinfo *res,
                                    struct ibv_pd *pd, const struct ibv_qp_init_attr *attr)
{
  struct ibv_qp_init_attr **kept = &cm_id_of(id)->qp_init_attr;
  if (rdma_bind_addr(id, res->ai_src_addr))
    return -1;
  if (pd)
    id->pd = pd;
  if (!attr)
    return 0;
  *kept = malloc(sizeof(**kept));
  if (!*kept)
    return cm_fail(ENOMEM);
  **kept = *attr;
  (*kept)->qp_type = res->ai_qp_type;
  return 0;
}

static int cm_addrinfo_make_active(struct rdma_cm_id *id, const struct rdma_addrinfo *res,
                                   struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
  struct cm_id *of = cm_id_of(id);
  if (rdma_resolve_addr(id, res->ai_src_addr, res->ai_dst_addr, RESOLVE_MS) ||
      rdma_resolve_route(id, RESOLVE_MS))
    return -1;
  if (attr) {
    attr->qp_type = res->ai_qp_type;
    if (rdma_create_qp(id, pd, attr))
      return -1;
  }
  if (!res->ai_connect_len)
    return 0;
  of->connect = malloc(res->ai_connect_len);
  if (!of->connect)
    return cm_fail(ENOMEM);
  memcpy(of->connect, res->ai_connect, res->ai_connect_len);
  of->connect_len = res->ai_connect_len;
  return 0;
}

int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
                   struct ibv_qp_init_attr *qp_init_attr)
{
  struct rdma_cm_id *made;
  if (cm_create(NULL, &made, NULL, res->ai_port_space, res->ai_qp_type))
    return -1;
  int rc = res->ai_flags & RAI_PASSIVE ? cm_addrinfo_make_passive(made, res, pd, qp_init_attr)
                                       : cm_addrinfo_make_active(made, res, pd, qp_init_attr);
  if (rc) {
    const int error = errno;
    rdma_destroy_ep(made);
    return cm_fail(error);
  }
  *id = made;
  return 0;
}

void rdma_destroy_ep(struct rdma_cm_id *id)
{
  if (id->qp)
    rdma_destroy_qp(id);
  if (id->srq)
    rdma_destroy_srq(id);
  rdma_destroy_id(id);
}
