/* SPDX-License-Identifier: Apache-2.0 */
/* Verbs devices of this machine: the list, which one an option names, and how to open it. */
#ifndef VERBS_DEVICE_H
#define VERBS_DEVICE_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <penstock/plugin.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gid.h"

/* Returns a verbs call's errno as -errno for the host. 0 and EINVAL become -EIO: EINVAL does not
 * come from an option (transport.h, open). */
static inline int vb_call_error(int code)
{
  return code == 0 || code == EINVAL ? -EIO : -code;
}

#define VB_PORTS_MAX 4u

struct vb_port {
  uint32_t number; /* from 1 */
  enum ibv_port_state state;
  bool is_ethernet;
  bool needs_grh; /* IBV_QPF_GRH_REQUIRED: RoCE, and virtual functions */
  uint16_t lid;
  enum ibv_mtu mtu;
  uint32_t mbps; /* of its width and speed; 0: unknown */
  uint32_t gid_count;
  int gid_error; /* errno of reading them; 0: they were read */
  struct vb_gid gids[VB_GIDS_MAX];
};

/* A device as it is listed. */
struct vb_device {
  char name[64];
  int error;                         /* errno of opening or asking it, and no ports then */
  enum ibv_transport_type transport; /* RC and what is like it are of IBV_TRANSPORT_IB alone */
  char pci[16];                      /* "0000:3b:00.0"; "": not on PCI */
  char firmware[64];
  uint32_t port_count;
  struct vb_port ports[VB_PORTS_MAX];
};

/* The device that an option names: its place in the list, and what its GID has to be. */
struct vb_match {
  uint32_t device;
  uint32_t port; /* place in `ports` */
  struct vb_gid_request requested;
};

/* Finds the port that the option `device` names: "" (the only active port there is), a verbs device
 * (mlx5_0), an address, a netdev or a PCI address; `port` 0: the first active one. `netdev` is the
 * index of the netdev of that name, 0 for none. 0, or -ENODEV, with `why`, which names those there
 * are. */
int vb_match(const struct vb_device *all, uint32_t count, const char *name, uint32_t port,
             uint32_t netdev, struct vb_match *match, char *why, size_t size);
/* As its name or its PCI address, with or without the domain. */
bool vb_is_called(const struct vb_device *device, const char *name);
/* "active", "down", "not active"; of InfiniBand in INIT, whom it waits for. */
const char *vb_port_state(const struct vb_port *port);
/* "port 1 active, Ethernet, 25 Gbit/s, 192.0.2.1 (RoCE v2)" */
void vb_port_text(const struct vb_port *port, char *text, size_t size);
/* Width times speed; codes as in struct ibv_port_attr. */
uint32_t vb_port_mbps(uint32_t width, uint32_t speed);

/* Where a port is on its network, at some time. */
struct vb_port_address {
  struct vb_gid gid;
  uint16_t lid;
  enum ibv_mtu mtu;
  char reason[256]; /* of the GID */
};

/* The device that was chosen, opened. */
struct vb_open {
  struct ibv_context *context;
  struct vb_device *info; /* to be freed */
  struct vb_port *port;   /* in *info; as it was then, the following, too */
  struct vb_gid_request requested;
  struct vb_port_address place; /* without a GID while the port has none */
};
/* 0; -ENODEV, -EACCES and others of opening, logged. */
int vb_open(const struct pst_host *host, const char *name, uint32_t port, int32_t gid_index,
            struct vb_open *opened);
void vb_open_close(struct vb_open *opened);
void vb_port_read(struct ibv_context *context, uint32_t number, struct vb_port *port);

/* port_address.c: chooses LID and GID from what was read of the port. 0; -ENODEV: no such GID;
 * -EADDRNOTAVAIL: no LID; logged, and *place stays as it was. */
int vb_port_address_choose(const struct pst_host *host, const struct vb_open *open,
                           const struct vb_port *port, struct vb_port_address *place);
/* Reads the port again and chooses as vb_port_address_choose(). */
int vb_port_address_read(const struct pst_host *host, const struct vb_open *open,
                         struct vb_port_address *place);
/* Whether the port is as it was, apart from GIDs that were added since. */
bool vb_port_address_holds(const struct vb_open *open, const struct vb_port_address *place);
/* Whether the GID is where it was. */
bool vb_port_address_has_gid(const struct vb_open *open, const struct vb_port_address *place);
/* A plugin's probe(). */
int vb_probe(struct pst_probe *probe);

#endif
