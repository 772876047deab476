/* SPDX-License-Identifier: Apache-2.0 */
/* RDMA devices of a machine, as sys/class/infiniband has them. */
#ifndef APP_HOST_RDMA_H
#define APP_HOST_RDMA_H

#include "host.h"

#define HOST_GID_BYTES 48

enum host_gid_reach {
  HOST_GID_LINK_LOCAL,
  HOST_GID_IPV4,
  HOST_GID_IPV6, /* or of InfiniBand */
};

struct host_gid {
  unsigned index;
  char address[HOST_GID_BYTES]; /* "192.0.2.1", "fe80::1"; in a recording a label: "ipv4-1" */
  enum host_gid_reach reach;
  char type[16];   /* "RoCE v2", "RoCE v1" (the kernel's IB/RoCE v1), "IB" */
  char netdev[32]; /* ""; of a VLAN that one's */
};

struct host_rdma_port {
  unsigned number;
  bool is_ethernet;  /* link_layer; else InfiniBand */
  char state[16];    /* "ACTIVE" */
  char physical[24]; /* "LinkUp" */
  double gbps;       /* 0: unknown */
  char netdev[32];   /* of its first GID, or the one of the same PCI device; "" */
  size_t gid_count;
  struct host_gid *gids; /* without empty entries */
};

struct host_rdma {
  char name[64];     /* "mlx5_0" */
  char firmware[48]; /* "" */
  char board[48];    /* board_id: "MT_0000000838" */
  char driver[48];   /* "mlx5_core", "rdma_rxe"; "": unknown */
  char pci[16];      /* address; "": it is on no PCI bus, as a soft one */
  int numa_node;     /* -1 */
  size_t port_count;
  struct host_rdma_port *ports;
};

struct host_rdmas {
  size_t count;
  struct host_rdma *all;
};

void host_rdma_list(struct host *host, struct host_rdmas *rdmas);
void host_rdma_free(struct host_rdmas *rdmas);

#endif
