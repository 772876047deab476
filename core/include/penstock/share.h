/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The router of `penstock share`: it owns a transport, and serves programs of this host
 * that use the transport plugin `share`. docs/howto/share.md.
 */
#ifndef PENSTOCK_SHARE_H
#define PENSTOCK_SHARE_H

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pst_share;

struct pst_share_params {
  uint32_t struct_size;
  uint32_t reserved;
  const char *socket;                 /* path of the Unix socket; a stale one is replaced */
  const char *transport;              /* name of a transport plugin */
  const struct pst_setting *settings; /* its options */
  const uint32_t *uids;               /* who may connect; none: this process's user and root */
  uint32_t setting_count;
  uint32_t uid_count;
  /* Limits of each client; 0: the default. */
  uint32_t regions;   /* 4096 */
  uint32_t endpoints; /* 1024 */
  uint32_t workers;   /* 64 */
  uint64_t bytes;     /* of registered memory; no bound */
  uint64_t rate;      /* bytes per second that it sends, writes and reads; no bound */
  uint32_t clients;   /* at one time; 256 */
  uint32_t huge;      /* 1: clients may register memory of huge pages; see --huge */
  /* The memory plugin that imports clients' device memory by a descriptor of the vendor
   * (PST_EXPORT_VENDOR_FD); NULL: none. A dma-buf needs none. */
  const char *memory;
  /* A YAML file of classes of clients, each with limits of its own, for which the limits above are
   * defaults; docs/howto/share.md. NULL: none. With it `uids` is empty. */
  const char *limits;
};

struct pst_share_stats {
  uint32_t struct_size;
  uint32_t clients;            /* connected now */
  uint64_t served;             /* clients that were accepted */
  uint64_t refused;            /* clients that were not */
  uint64_t expelled;           /* clients that broke a rule */
  uint64_t regions, bytes;     /* registered now */
  uint64_t endpoints;          /* open now */
  uint64_t requests, messages; /* posted, and delivered, since the start */
};

/* Open plugins and socket, and serve in new threads. Blocks for as long as plugins load.
 * 0; -EINVAL: a wrong option or limit (exit status 2); -EADDRINUSE: another process serves this
 * socket. With any other error the plugin or the socket is not available here (exit status 3). */
PST_EXPORT int pst_share_open(const struct pst_share_params *params, struct pst_share **share,
                              struct pst_error *error);
/* Get what the clients have and have done. Any thread. */
PST_EXPORT void pst_share_stats(struct pst_share *share, struct pst_share_stats *stats);
/* Disconnect all clients, close what they had open, and remove the socket. NULL is legal. */
PST_EXPORT void pst_share_close(struct pst_share *share);

#ifdef __cplusplus
}
#endif
#endif
