/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport contract. A transport joins by rows of this table, one for each
 * way it can be opened, and a line each in meson.build:
 *
 *     transport <variant> <plugin> [<memory plugin>]
 */
#include <stdio.h>
#include <unistd.h>

#include "datagram.h"
#include "harness.h"

#define LOOPBACK_CAPABILITIES                                                                      \
  (PST_CAP_SEND | PST_CAP_WRITE | PST_CAP_READ | PST_CAP_ATOMIC | PST_CAP_RELIABLE |               \
   PST_CAP_ORDERED | PST_CAP_SEQUENCE | PST_CAP_META | PST_CAP_SHARED_RING | PST_CAP_WAKEUP |      \
   PST_CAP_DYNAMIC)

#define RC_CAPABILITIES                                                                            \
  (PST_CAP_SEND | PST_CAP_WRITE | PST_CAP_READ | PST_CAP_ATOMIC | PST_CAP_RELIABLE |               \
   PST_CAP_ORDERED | PST_CAP_SEQUENCE | PST_CAP_SHARED_RING | PST_CAP_WAKEUP | PST_CAP_DYNAMIC)

#define DC_CAPABILITIES (RC_CAPABILITIES | PST_CAP_TWO_SIDED)

#define UDP_CAPABILITIES                                                                           \
  (PST_CAP_SEND | PST_CAP_TIME | PST_CAP_WAKEUP | PST_CAP_DYNAMIC | PST_CAP_FOREIGN)

#define ETHERNET_CAPABILITIES                                                                      \
  (PST_CAP_SEND | PST_CAP_SEQUENCE | PST_CAP_SHARED_RING | PST_CAP_FOREIGN)

static struct contract_variant variants[] = {
    {
        .name = "loopback-copy",
        .options = "mode=copy",
        .capabilities = LOOPBACK_CAPABILITIES,
    },
    {
        .name = "loopback-reference",
        .options = "mode=reference",
        .capabilities = LOOPBACK_CAPABILITIES | PST_CAP_LEND,
    },
    {
        .name = "loopback-processes",
        .options = "mode=copy",
        .apart = true,
        .capabilities = LOOPBACK_CAPABILITIES,
    },
    {
        .name = "udp-sequence",
        .options = "device=127.0.0.1,rcvbuf=64KiB",
        .accounts = true,
        .capabilities = UDP_CAPABILITIES | PST_CAP_SEQUENCE,
    },
    {
        .name = "udp-rtp",
        .options = "framing=rtp,rcvbuf=64KiB",
        .accounts = true,
        .capabilities = UDP_CAPABILITIES | PST_CAP_SEQUENCE,
    },
    {
        .name = "udp-none",
        .options = "framing=none,device=lo,rcvbuf=64KiB",
        .accounts = true,
        .capabilities = UDP_CAPABILITIES,
    },
    /* One datagram a buffer. */
    {
        .name = "udp-plain",
        .options = "gso=false,gro=false,timestamps=off,checksum=false,rcvbuf=64KiB",
        .accounts = true,
        .capabilities = (UDP_CAPABILITIES & ~(uint64_t)PST_CAP_TIME) | PST_CAP_SEQUENCE,
    },
    {
        .name = "udp-ipv6",
        .options = "device=::1,authenticate=true,rcvbuf=64KiB",
        .accounts = true,
        .capabilities = UDP_CAPABILITIES | PST_CAP_SEQUENCE,
    },
    {
        .name = "udp-processes",
        .options = "framing=rtp,authenticate=true,device=127.0.0.1,rcvbuf=64KiB",
        .apart = true,
        .accounts = true,
        .capabilities = UDP_CAPABILITIES | PST_CAP_SEQUENCE,
    },
    /* DPDK's ports: two that share memory of the process, and two ends of a memif. */
    {
        .name = "ethernet-ring",
        .options = "driver=ring,device=w,role=server,mtu=4000",
        .sender_options = "driver=ring,device=w,role=client,mtu=4000",
        .capabilities = ETHERNET_CAPABILITIES,
    },
    {
        .name = "ethernet-memif",
        .options = "driver=memif,socket=@,role=server,mtu=4000",
        .sender_options = "driver=memif,socket=@,role=client,mtu=4000",
        .capabilities = ETHERNET_CAPABILITIES,
    },
    {
        .name = "ethernet-memif-rtp",
        .options = "driver=memif,socket=@,role=server,mtu=4000,framing=rtp,vlan=7,timestamps="
                   "software,departure=software,authenticate=true",
        .sender_options = "driver=memif,socket=@,role=client,mtu=4000,framing=rtp,vlan=7,"
                          "timestamps=software,departure=software,authenticate=true",
        .capabilities = ETHERNET_CAPABILITIES | PST_CAP_TIME | PST_CAP_DEPARTURE,
    },
    {
        .name = "ethernet-memif-copy",
        .options = "driver=memif,socket=@,role=server,mtu=4000,receive=copy,family=ipv6,"
                   "authenticate=true",
        .sender_options = "driver=memif,socket=@,role=client,mtu=4000,receive=copy,family=ipv6,"
                          "authenticate=true",
        .capabilities = ETHERNET_CAPABILITIES,
    },
    {
        .name = "ethernet-memif-none",
        .options = "driver=memif,socket=@,role=server,mtu=4000,framing=none",
        .sender_options = "driver=memif,socket=@,role=client,mtu=4000,framing=none",
        .capabilities = ETHERNET_CAPABILITIES & ~(uint64_t)PST_CAP_SEQUENCE,
    },
    /* On interfaces pa and pb, which ethernet_links.py makes. */
    {
        .name = "ethernet-af_packet",
        .options = "driver=af_packet,netdev=pb,address=10.9.0.2/24",
        .sender_options = "driver=af_packet,netdev=pa,address=10.9.0.1/24",
        .capabilities = ETHERNET_CAPABILITIES,
    },
    {
        .name = "ethernet-pcap",
        .options = "driver=pcap,netdev=pb,address=10.9.0.2/24",
        .sender_options = "driver=pcap,netdev=pa,address=10.9.0.1/24",
        .capabilities = ETHERNET_CAPABILITIES | PST_CAP_TIME,
    },
    {
        .name = "ethernet-tap",
        .options = "driver=tap,netdev=pb,address=10.9.0.2/24",
        .sender_options = "driver=tap,netdev=pa,address=10.9.0.1/24",
        .capabilities = ETHERNET_CAPABILITIES,
    },
    /* On whatever verbs device there is; a peer that is gone shows soon. */
    {
        .name = "verbs_rc",
        .options = "device=mlx5_0,timeout=8,keepalive=50ms",
        .silent = true,
        .capabilities = RC_CAPABILITIES,
    },
    {
        .name = "verbs_rc-wrap",
        .options = "device=mlx5_0,timeout=8,keepalive=50ms,first_sequence=18446744073709551000",
        .apart = true,
        .silent = true,
        .capabilities = RC_CAPABILITIES,
    },
    {
        .name = "verbs_rc-ib",
        .options = "device=mlx5_1,timeout=8,keepalive=50ms,runs=false",
        .silent = true,
        .capabilities = RC_CAPABILITIES,
    },
    /* Its messages by SEND. */
    {
        .name = "verbs_rc-send",
        .options = "device=mlx5_0,timeout=8,keepalive=50ms,operation=send",
        .silent = true,
        .capabilities = RC_CAPABILITIES,
    },
    {
        .name = "verbs_rc-send-processes",
        .options = "device=mlx5_0,timeout=8,keepalive=50ms,operation=send",
        .apart = true,
        .silent = true,
        .capabilities = RC_CAPABILITIES,
    },
    /* Over four queue pairs. */
    {
        .name = "verbs_rc-qps",
        .options = "device=mlx5_0,timeout=8,keepalive=50ms,qps=4",
        .silent = true,
        .capabilities = RC_CAPABILITIES,
    },
    /* Over four queue pairs, connected by rdma_cm. */
    {
        .name = "verbs_rc-qps-cm",
        .options = "device=mlx5_0,timeout=8,keepalive=50ms,qps=4,connection=rdma_cm",
        .silent = true,
        .capabilities = RC_CAPABILITIES,
    },
    {
        .name = "verbs_rc-cm-processes",
        .options = "device=mlx5_0,timeout=8,keepalive=50ms,connection=rdma_cm",
        .apart = true,
        .silent = true,
        .capabilities = RC_CAPABILITIES,
    },
    /* Receives that a worker's endpoints share. */
    {
        .name = "verbs_rc-srq",
        .options = "device=mlx5_0,timeout=8,keepalive=50ms,srq=true",
        .apart = true,
        .silent = true,
        .capabilities = RC_CAPABILITIES,
    },
    {
        .name = "verbs_rc-srq-send",
        .options = "device=mlx5_0,timeout=8,keepalive=50ms,srq=true,operation=send",
        .silent = true,
        .capabilities = RC_CAPABILITIES,
    },
    /* Endpoints that share few initiators. */
    {
        .name = "verbs_dc",
        .options = "device=mlx5_0,timeout=8,keepalive=50ms,initiators=4",
        .silent = true,
        .capabilities = DC_CAPABILITIES,
    },
    {
        .name = "verbs_dc-wrap",
        .options =
            "device=mlx5_0,timeout=8,keepalive=50ms,initiators=3,first_sequence=18446744073709551000",
        .apart = true,
        .silent = true,
        .capabilities = DC_CAPABILITIES,
    },
    /* Its device has a thread, which may wait for a CPU: silence is 67 ms. */
    {
        .name = "verbs_dc-ib",
        .options = "device=mlx5_1,timeout=11,keepalive=50ms,initiators=3,quota=1,streams=false",
        .silent = true,
        .capabilities = DC_CAPABILITIES,
    },
    {
        .name = "throttle-loopback",
        .options = "mode=copy",
        .filter_options = "rate=1000000000",
        .capabilities = LOOPBACK_CAPABILITIES,
    },
    /* Without a fault, and with one that never comes, so that its machinery is at
     * work. */
    {
        .name = "fault-off",
        .options = "mode=copy",
        .filter_options = "",
        .capabilities = LOOPBACK_CAPABILITIES,
    },
    {
        .name = "fault-copy",
        .options = "mode=copy",
        .filter_options = "kill_at=1000000000000",
        .capabilities = LOOPBACK_CAPABILITIES,
    },
    {
        .name = "fault-reference",
        .options = "mode=reference",
        .filter_options = "kill_at=1000000000000",
        .capabilities = LOOPBACK_CAPABILITIES | PST_CAP_LEND,
    },
    {
        .name = "fault-processes",
        .options = "mode=copy",
        .filter_options = "kill_at=1000000000000",
        .apart = true,
        .capabilities = LOOPBACK_CAPABILITIES,
    },
};

/* A socket of this run's: "@" stands for its path. */
static const char *name_socket(const char *options, char text[256])
{
  const char *at = options ? strchr(options, '@') : NULL;

  if (!at)
    return options;
  snprintf(text, 256, "%.*s/tmp/penstock-contract-%d%s", (int)(at - options), options,
           (int)getpid(), at + 1);
  return text;
}

int main(int argc, char **argv)
{
  char options[2][256];
  if (argc < 3 || argc > 4) {
    fprintf(stderr, "usage: %s VARIANT PLUGIN [MEMORY]\n", argv[0]);
    return 2;
  }
  for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++) {
    struct contract_variant *variant = &variants[i];
    if (strcmp(variant->name, argv[1]) != 0)
      continue;
    variant->plugin = argv[2];
    variant->options = name_socket(variant->options, options[0]);
    variant->sender_options = name_socket(variant->sender_options, options[1]);
    contract_memory_use(argv[3]);
    int failed = variant->capabilities & PST_CAP_RELIABLE ? contract_transport_run(variant)
                                                          : contract_datagram_run(variant);
    if (strncmp(variant->name, "throttle", strlen("throttle")) == 0)
      failed += contract_throttle_run(variant);
    return failed ? 1 : 0;
  }
  fprintf(stderr, "%s: no such variant: %s\n", argv[0], argv[1]);
  return 2;
}
