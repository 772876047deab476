/* SPDX-License-Identifier: Apache-2.0 */
/* The options of the plugin ethernet, and its description. */
#include <stdio.h>
#include <string.h>

#include "../datagram/blob.h"
#include "../datagram/check.h"
#include "../datagram/options.h"
#include "described.h"
#include "frame.h"

static const char *const role_choices[] = {"auto", "server", "client", NULL};
static const char *const memory_choices[] = {"auto", "normal", "huge", NULL};
static const char *const receive_choices[] = {"auto", "slots", "copy", NULL};
static const char *const rules_choices[] = {"auto", "off", NULL};
static const char *const sum_choices[] = {"auto", "software", "none", NULL};
static const char *const time_choices[] = {"hardware", "software", NULL};
static const char *const departure_choices[] = {"hardware", "software", NULL};

#define DEVICE PST_SCOPE_DEVICE

static const struct pst_option options[] = {
    DG_CHOICE("driver", DEVICE, "pci", eth_driver_choices,
              "The DPDK driver of the port. `pci`: that of the network card at the PCI "
              "address `device`. `memif`: shared memory with another process of this host, "
              "by a Unix `socket`. `ring`: memory of this process. `af_packet`, `af_xdp`, "
              "`pcap`: an interface of the kernel, `netdev`. `tap`: a new interface, called "
              "`netdev`. `virtio_user`: a virtual switch or machine, by `socket`. `null`: "
              "frames go nowhere. `other`: the device that `devargs` names."),
    DG_TEXT(
        "device", DEVICE, 63,
        "The port. `pci`: its PCI address, 0000:03:00.0 for instance. Other drivers: any name; with `ring`, ends that give the same name are connected."),
    DG_TEXT("socket", DEVICE, 100,
            "`memif`, `virtio_user`: path of the Unix socket that both ends name."),
    DG_CHOICE("role", DEVICE, "auto", role_choices,
              "`memif`, `virtio_user`, `ring`: one end of a link is the server, which makes "
              "the socket, and the other the client. `auto`: a port of memif or virtio_user "
              "that only sends is the client, all others are servers; a ring is one port, "
              "which receives the frames that it sends."),
    DG_TEXT("netdev", DEVICE, 15, "`af_packet`, `af_xdp`, `pcap`, `tap`: the kernel's interface."),
    DG_TEXT("remote", DEVICE, 15,
            "`tap`: interface of the kernel that the port shares, as in eth0. Flow rules "
            "steer frames for the streams to the port; the kernel gets all other frames. "
            "DPDK removes the queueing disciplines and filters of the interface."),
    DG_TEXT("rx_pcap", DEVICE, 255, "`pcap`: capture file that frames are read from."),
    DG_TEXT("tx_pcap", DEVICE, 255, "`pcap`: capture file that frames are written to."),
    DG_TEXT(
        "devargs", DEVICE, 255,
        "Arguments for DPDK's driver, added to those of the other options. With "
        "`driver: other` they are the only ones, as in net_bonding0,mode=1,member=0000:03:00.0."),
    {DG_OPTION("eal", LIST, DEVICE, NULL,
               "Further arguments for DPDK's EAL, as in --iova-mode=va. Those of the first "
               "port in the process count.")},
    DG_CHOICE("memory", DEVICE, "auto", memory_choices,
              "DPDK's own memory, which all ports of the process share. `normal`: ordinary "
              "pages. `huge`: huge pages. `auto`: huge for a PCI address whose driver needs "
              "them, normal for all others."),
    {DG_OPTION("address", LIST, DEVICE, NULL,
               "Addresses of this port with their prefix length, as in 192.0.2.1/24 or "
               "2001:db8::1/64; one of each family. Empty: those of `netdev`. A port without "
               "`netdev` has a link-local address made from its MAC.")},
    DG_TEXT("gateway", DEVICE, 63,
            "Router for destinations outside the networks of `address`. If `netdev` has "
            "the address, the kernel's routes are used instead."),
    DG_TEXT("mac", DEVICE, 17,
            "`memif`, `tap`, `virtio_user`: MAC of this port, as in 02:00:00:00:00:01. "
            "Empty: the driver chooses."),
    DG_NUMBER("vlan", UINT, DEVICE, "0", 0, 4094,
              "VLAN identifier in the tag of frames (802.1Q). `0`: frames have no tag."),
    DG_NUMBER("mtu", UINT, DEVICE, "0", 0, ETH_MTU_MAX,
              "Largest IP packet in bytes, at least 576. `0`: the MTU of the card or "
              "`netdev`; 1500 for memif, ring and other drivers."),
    DG_NUMBER("descriptors", UINT, DEVICE, "1024", 32, 16384,
              "Frames that each queue of the port can hold. If the driver receives into "
              "slots of a ring, the ring needs at least 64 slots more than this."),
    DG_CHOICE("receive", DEVICE, "auto", receive_choices,
              "`slots`: the driver receives into slots of the stream's ring. `copy`: the "
              "driver receives into memory of its own, and payloads are copied. `auto`: "
              "`slots` where driver and sizes allow it; the path in the result says which."),
    DG_CHOICE(
        "rules", DEVICE, "auto", rules_choices,
        "Whether the card sorts frames by stream. `auto`: where the driver has flow rules "
        "(rte_flow: pci, tap), each ring has a queue of its own, and a rule steers the ring's "
        "frames there. `off`: all frames come by one queue, and software sorts them. Where the "
        "kernel uses the interface, too, and has the port's address (mlx5, tap with `remote`), "
        "rules leave all other frames to the kernel in either case."),
    DG_CHOICE("udp_checksum", DEVICE, "auto", sum_choices,
              "How the UDP checksum of sent packets is computed. `auto`: by the card if it can; "
              "otherwise the checksum is 0 over IPv4, and the CPU computes it over IPv6. "
              "`software`: by the CPU. `none`: 0 over IPv4."),
    DG_CHOICE("timestamps", DEVICE, "hardware", time_choices,
              "The source of a message's time of arrival. `hardware`: the network card if it "
              "stamps frames, or libpcap; otherwise there are no times. `software`: the "
              "thread that takes the frame from the queue."),
    DG_CHOICE("departure", DEVICE, "hardware", departure_choices,
              "How messages are paced at the sender's `rate`. `hardware`: by the network card, if "
              "it can (mlx5 with `tx_pp`); other cards send messages as soon as they get "
              "them. `software`: by the sender's thread, which gives each message to the card "
              "at its time."),
    DG_NUMBER("patience", DURATION, DEVICE, "100 ms", 0, UINT64_C(60000000000),
              "How long a full queue may hold up the sender. After that, messages are "
              "dropped and counted as `device_full` until the queue accepts frames again."),
    DG_TEXT("to_mac", PST_SCOPE_SENDER, 17,
            "MAC that frames are sent to, as in 02:00:00:00:00:01. Empty: the port finds "
            "it by the kernel, or by ARP and Neighbor Discovery."),
    DG_OPTIONS,
};

static const struct pst_option_rule rules[] = {
    {.option = "netdev",
     .value = "",
     .needs = "driver",
     .needed = "pci",
     .because = "a card is named by its PCI address, in `device`",
     .flags = PST_RULE_UNLESS | PST_RULE_OTHER},
    {.option = "remote", .value = "", .needs = "driver", .needed = "tap", .flags = PST_RULE_UNLESS},
    {.option = "rx_pcap",
     .value = "",
     .needs = "driver",
     .needed = "pcap",
     .flags = PST_RULE_UNLESS},
    {.option = "tx_pcap",
     .value = "",
     .needs = "driver",
     .needed = "pcap",
     .flags = PST_RULE_UNLESS},
    DG_RULES,
};

/* Checks that the options a driver cannot do without are set. */
static void eth_options_check_driver(const struct pst_check *check, enum eth_driver_kind driver)
{
  const struct pst_options *values = check->options;
  const struct {
    enum eth_driver_kind driver;
    const char *option, *remedy;
  } needs[] = {
      {ETH_DRIVER_PCI, "device",
       "the port's PCI address is missing; write `device: 0000:03:00.0` (`dpdk-devbind.py -s` or "
       "`lspci -D` lists them), or name another `driver`"},
      {ETH_DRIVER_MEMIF, "socket", "memif needs the path of a Unix socket, the same at both ends"},
      {ETH_DRIVER_VIRTIO_USER, "socket", "virtio_user needs the path of a Unix socket"},
      {ETH_DRIVER_AF_PACKET, "netdev", "af_packet needs an interface (`ip link` lists them)"},
      {ETH_DRIVER_AF_XDP, "netdev", "af_xdp needs an interface (`ip link` lists them)"},
      {ETH_DRIVER_TAP, "netdev", "tap needs a name for the interface that it makes"},
      {ETH_DRIVER_OTHER, "devargs", "driver other is what `devargs` says: net_null0,size=64"},
  };

  if (!(check->flags & PST_CHECK_OPENS))
    return;
  for (size_t i = 0; i < sizeof(needs) / sizeof(needs[0]); i++)
    if (needs[i].driver == driver && !check->option_string(values, needs[i].option)[0])
      check->report(check, needs[i].option, "%s", needs[i].remedy);
  if (driver == ETH_DRIVER_PCAP && !check->option_string(values, "netdev")[0] &&
      !check->option_string(values, "rx_pcap")[0] && !check->option_string(values, "tx_pcap")[0])
    check->report(check, "netdev",
                  "pcap needs an interface, or capture files in `rx_pcap` and "
                  "`tx_pcap`");
}

/* Characters that DPDK would take for the end of an argument. */
static void eth_options_check_words(const struct pst_check *check)
{
  static const char *const names[] = {"device", "socket", "netdev", "remote", "rx_pcap", "tx_pcap"};

  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
    if (strpbrk(check->option_string(check->options, names[i]), ",=[]"))
      check->report(check, names[i], "DPDK takes no ',', '=', '[' and ']' in it; use another name");
}

static void eth_options_check_macs(const struct pst_check *check, enum eth_driver_kind driver)
{
  const char *const names[] = {"mac", check->side == PST_SCOPE_SENDER ? "to_mac" : NULL};
  uint8_t mac[6];

  for (int i = 0; i < 2; i++) {
    const char *text = names[i] ? check->option_string(check->options, names[i]) : "";
    if (text[0] && !eth_mac_read(text, mac))
      check->report(check, names[i],
                    "\"%s\" is not the MAC of a port: six pairs of digits, as 02:00:00:00:00:01, "
                    "the first one even",
                    text);
  }
  if (check->option_string(check->options, "mac")[0] && driver != ETH_DRIVER_MEMIF &&
      driver != ETH_DRIVER_TAP && driver != ETH_DRIVER_VIRTIO_USER)
    check->report(check, "mac", "%s ports keep the MAC that they have; leave it out",
                  eth_drivers[driver].name);
  else if (check->option_string(check->options, "mac")[0] &&
           check->option_string(check->options, "remote")[0])
    check->report(check, "mac", "a tap with `remote` has that interface's MAC; leave `mac` out");
}

static void eth_options_check_networks(const struct pst_check *check)
{
  uint8_t address[16];
  uint32_t prefix, of_family[2] = {0, 0};
  const char *text;

  for (uint32_t i = 0; (text = check->option_item(check->options, "address", i)); i++)
    if (!eth_network_read(text, address, &prefix))
      check->report(check, "address",
                    "\"%s\" is not an address of a port with the length of its network; write "
                    "192.0.2.1/24 or 2001:db8::1/64",
                    text);
    else if (of_family[eth_is_v4(address)]++)
      check->report(check, "address",
                    "\"%s\" is the second of its family; a port has one IPv4 and one IPv6 address",
                    text);
  text = check->option_string(check->options, "gateway");
  if (text[0] && (strchr(text, '/') || !eth_network_read(text, address, &prefix)))
    check->report(check, "gateway", "\"%s\" is not an address of a router; write 192.0.2.254",
                  text);
}

/* Options of DPDK's that this plugin does not decide itself; of any other, DPDK would print pages
 * to standard output. */
static void eth_options_check_eal(const struct pst_check *check)
{
  static const char *const known[] = {
      "--iova-mode=pa", "--iova-mode=va",      "--log-level=",        "--socket-mem=",
      "--huge-dir=",    "--vfio-intr=",        "--vfio-vf-token=",    "--force-max-simd-bitwidth=",
      "--legacy-mem",   "--match-allocations", "--huge-worker-stack", "--single-file-segments"};
  const char *text;

  for (uint32_t i = 0; (text = check->option_item(check->options, "eal", i)); i++) {
    bool is_known = false;
    for (size_t k = 0; k < sizeof(known) / sizeof(known[0]); k++)
      is_known |= strncmp(text, known[k], strlen(known[k])) == 0;
    if (!is_known)
      check->report(
          check, "eal",
          "\"%s\" is not taken; there are --iova-mode=pa|va, --log-level=, --socket-mem=, "
          "--huge-dir=, --vfio-intr=, --vfio-vf-token=, --force-max-simd-bitwidth=, "
          "--legacy-mem, --match-allocations, --single-file-segments",
          text);
  }
}

/* Returns the value of the option that names the port, its last 40 bytes; no device is needed. */
static const char *eth_options_port_name(const struct pst_check *check)
{
  static const char *const names[] = {"device", "socket", "netdev"};
  const char *text = "";

  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !text[0]; i++)
    text = check->option_string(check->options, names[i]);
  return strlen(text) > 40 ? text + strlen(text) - 40 : text;
}

/* No two senders of a process have one UDP port of one port. Receivers do: a frame's sender tells
 * them apart. */
static void eth_options_describe_place(const struct pst_check *check, struct pst_facts *facts)
{
  const bool receives = check->side == PST_SCOPE_RECEIVER;
  const char *option = receives ? "port" : "source_port";
  unsigned long port = check->option_uint(check->options, option);

  facts->takes_option = option;
  if (port)
    snprintf(facts->takes, sizeof(facts->takes), "UDP port %lu of port %s", port,
             eth_options_port_name(check));
  if (receives)
    facts->flags |= PST_FACTS_SHARES;
}

/* Checks the options for errors that hold on any machine, and writes the facts of all devices with
 * these options. */
static void eth_options_check(const struct pst_check *check, struct pst_facts *facts)
{
  enum eth_driver_kind driver = (enum eth_driver_kind)check->option_uint(check->options, "driver");
  uint64_t mtu = check->option_uint(check->options, "mtu");
  struct dg_checked checked;

  dg_options_check(check, NULL, "", (uint32_t)(mtu ? mtu : ETH_MTU_MAX) - 28u, &checked, facts);
  eth_options_check_driver(check, driver);
  eth_options_check_words(check);
  eth_options_check_macs(check, driver);
  eth_options_check_networks(check);
  eth_options_check_eal(check);
  if (mtu && mtu < ETH_MTU_MIN)
    check->report(check, "mtu", "%lu is too small; 0, or at least 576, which each IPv4 host takes",
                  (unsigned long)mtu);
  eth_options_describe_place(check, facts);
  facts->slots_max = ETH_SLOTS_MAX;
  facts->lacks = ~(uint64_t)ETH_CAPABILITIES;
  if (checked.framing == DG_FRAMING_NONE)
    facts->lacks |= PST_CAP_SEQUENCE;
  if (driver == ETH_DRIVER_PCI || check->option_uint(check->options, "departure"))
    facts->lacks &= ~(uint64_t)PST_CAP_DEPARTURE; /* a card may have it, which its driver says */
  if (driver != ETH_DRIVER_PCI && !check->option_uint(check->options, "timestamps") &&
      (driver != ETH_DRIVER_PCAP || !check->option_string(check->options, "netdev")[0]))
    facts->lacks |= PST_CAP_TIME; /* a card may lack it, too, which its driver says */
  facts->direct_needs = driver == ETH_DRIVER_PCI ? 0 : PST_NEED_CPU_ACCESS; /* see split.h */
}

static const struct pst_description description = {
    .kind = PST_KIND_TRANSPORT,
    .name = "ethernet",
    .version = "0.1.0",
    .summary = "UDP and RTP in frames of DPDK's ports, to and from Penstock and anything else",
    .needs = "DPDK 22.11 or later (libdpdk); for a network card, root or access to vfio, and huge "
             "pages unless it is an mlx5",
    .rung = "kernel: memif, ring, af_packet and pcap; ninja -C build test (suite contract); tap "
            "with flow rules, virtio; ./run test vm. mlx5 and other cards: compiled",
    .options = options,
    .option_count = sizeof(options) / sizeof(options[0]),
    .rules = rules,
    .rule_count = sizeof(rules) / sizeof(rules[0]),
    .check = eth_options_check,
    .wire = DG_WIRE,
};
PST_DESCRIPTION(description);
