# SPDX-License-Identifier: Apache-2.0
"""Descriptions of fabrics: a fabric has what its description says, and an error names its line and
column."""
import pathlib
import sys
import textwrap

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
from children import BUILD, Case, main  # noqa: E402

LAUNCHER = BUILD / "penstock-simverbs"
HOST = "hosts: [{name: h, devices: [{name: d}]}]\n"


class Describe(Case):
    def show(self, text):
        path = self.write("f.yaml", textwrap.dedent(text))
        return self.run_program("--fabric", path, LAUNCHER, "ctl", ".", "show", program=LAUNCHER).stdout

    def wrong(self, text):
        path = self.write("f.yaml", textwrap.dedent(text))
        child = self.run_program("--fabric", path, "true", program=LAUNCHER, expect=125)
        return child.stderr.replace(f"{path}:", "")


class Right(Describe):
    def test_defaults(self):
        shown = self.show("simverbs: 1\n" + HOST)
        self.assertIn("fabric f: eager engine, real clock", shown)
        self.assertIn("port 1: ethernet, up, subnet subnet, mtu 4096\n", shown)
        self.assertIn("gid 3: ::ffff:10.1.1.1 rocev2", shown)

    def test_addresses_differ_by_subnet_host_and_port(self):
        shown = self.show("""\
            simverbs: 1
            subnets: [{name: x}, {name: y}]
            hosts:
              - {name: a, devices: [{name: d, ports: [{subnet: x}, {subnet: y}]}, {name: e, ports: [{subnet: x}]}]}
              - {name: b, devices: [{name: d, ports: [{subnet: x}]}]}
            """)
        for address in ("10.1.1.1", "10.2.1.2", "10.1.1.3", "10.1.2.1"):
            self.assertIn(f"gid 3: ::ffff:{address} rocev2", shown)

    def test_a_port_of_each_kind(self):
        shown = self.show("""\
            simverbs: 1
            name: kinds
            strict: true
            engine: deferred
            clock: manual
            subnets: [{name: e, mtu: 1024}, {name: i}]
            hosts:
              - name: a
                devices:
                  - name: roce
                    ports:
                      - {subnet: e, netdev: eth7, address: 192.0.2.9, vlan: 5, state: down}
                      - {subnet: e, mtu: 512}
                  - name: ib
                    ports:
                      - {subnet: i, link_layer: infiniband, lid: 77}
                      - {subnet: i, link_layer: infiniband}
            """)
        self.assertRegex(shown, r"fabric kinds: deferred engine, manual clock at 1\.\d+ s, strict")
        self.assertIn("port 1: ethernet, down, subnet e, mtu 1024, netdev eth7", shown)
        self.assertIn("gid 3: ::ffff:192.0.2.9 rocev2 vlan 5", shown)
        self.assertIn("port 2: ethernet, up, subnet e, mtu 512", shown)
        self.assertIn("port 1: infiniband, up, subnet i, mtu 4096, lid 77", shown)
        self.assertIn("port 2: infiniband, up, subnet i, mtu 4096, lid 78", shown)

    def test_gids_as_listed(self):
        shown = self.show("""\
            simverbs: 1
            hosts:
              - name: a
                devices:
                  - name: d
                    ports:
                      - gids:
                          - {gid: "2001:db8::1"}
                          - {gid: "::ffff:192.0.2.1", type: rocev1, index: 9}
                          - {gid: "fe80::7", vlan: 3, ifindex: 8}
            """)
        gids = [line.strip() for line in shown.splitlines() if "gid " in line]
        self.assertEqual(gids, ["gid 0: 2001:db8::1 rocev2", "gid 1: fe80::7 rocev2 vlan 3 ifindex 8",
                                "gid 9: ::ffff:192.0.2.1 rocev1"])  # fmt: skip

    def test_faults(self):
        shown = self.show("simverbs: 1\n" + HOST + textwrap.dedent("""\
            clock: manual
            faults:
              - {do: drop, from: h/d, share: 10%, after: 2}
              - {do: port-down, on: h/d/1, at: 5 s, for: 1.5 min}
              - {do: lose-peer, on: h}
              - {do: delay, from: h/d, by: 2.5ms, share: 0.25}
              - {do: refuse-dmabuf, on: h, error: EINVAL, count: 1}
              - {do: qp-event, event: path-mig, from: h, count: 1}
              - {do: port-event, event: sm-change, on: h/d, at: 5 s}
            """))
        self.assertIn("fault drop of h/d, after 2, share 10%", shown)
        self.assertIn("fault port-down on h/d/1, in 5.000 s", shown)
        self.assertIn("fault delay of h/d, share 25%, by 2500 us", shown)
        self.assertIn("ethernet, up, cut off", shown)
        self.assertIn("fault refuse-dmabuf of h, 1 left", shown)
        self.assertIn("fault qp-event path-mig of h, 1 left", shown)
        self.assertIn("fault port-event sm-change on h/d, in 5.000 s", shown)


class Wrong(Describe):
    def check(self, text, *said):
        stderr = self.wrong(text)
        for line in said:
            self.assertIn(line, stderr)

    def test_files(self):
        child = self.run_program("--fabric", "none.yaml", "true", program=LAUNCHER, expect=125)
        self.assertIn("none.yaml cannot be read: No such file", child.stderr)
        self.check("", "nothing is described")
        self.check("simverbs: [\n", "2:1: ")
        self.check("- 1\n", 'a description is a mapping; write "key: value" lines')

    def test_names(self):
        self.check("simverbs: 1\nhots: []\n" + HOST, '2:1: a description has no key "hots"; did you mean "hosts"?')
        self.check("simverbs: 2\n" + HOST, "1:11: simverbs: 2 is out of range")
        self.check(HOST, 'a description needs the key "simverbs"')
        self.check("simverbs: 1\n", 'a description needs the key "hosts"')
        self.check("simverbs: 1\nhosts: []\n", "2:8: there is no host; describe one")
        self.check("simverbs: 1\nengine: eagr\n" + HOST, '2:9: engine: "eagr" is not one of eager, deferred')
        self.check("simverbs: 1\nclock: slow\n" + HOST, '2:8: clock: "slow" is not real, manual')
        self.check("simverbs: 1\nhosts: [{name: 'a b', devices: []}]\n", '2:16: "a b" is not a name')

    def test_yaml(self):
        self.check("simverbs: 1\n" + HOST + "simverbs: 1\n", '3:1: duplicate key "simverbs"; it stands on line 1 already')
        self.check("simverbs: 1\n" + HOST + "---\nsimverbs: 1\n", "4:1: a second document begins here")
        self.check("simverbs: 1\nhosts: &a [*a]\n", "nested deeper than 32 levels")
        self.check("{[a]: 1}\n", "1:2: expected a key (plain text)")
        bomb = "".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]\n" for a, b in zip("abcde", "bcdef"))
        self.check("a: &a [1]\n" + bomb, "more than 50000 values in one description")

    def test_alias(self):
        shown = self.show("simverbs: 1\nhosts:\n  - {name: a, devices: &d [{name: d}]}\n  - {name: b, devices: *d}\n")
        self.assertEqual(shown.count("port 1: ethernet, up"), 2)

    def test_twice(self):
        self.check("simverbs: 1\nhosts:\n  - {name: a, devices: []}\n  - {name: a, devices: []}\n",
                   '4:12: the name "a" is taken already')
        self.check("simverbs: 1\nhosts: [{name: a, devices: [{name: d}, {name: d}]}]\n",
                   '2:47: the name "d" is taken already')
        self.check("""\
            simverbs: 1
            hosts:
              - name: a
                devices:
                  - {name: d, ports: [{address: 192.0.2.1}]}
                  - {name: e, ports: [{address: 192.0.2.1}]}
            """, "6:27: this port has a GID that a/d/1 has too; give it another")
        self.check("""\
            simverbs: 1
            hosts:
              - name: a
                devices:
                  - {name: d, ports: [{link_layer: infiniband, lid: 4}]}
                  - {name: e, ports: [{link_layer: infiniband, lid: 4}]}
            """, "6:27: this port has a LID that a/d/1 has too")

    def test_subnets(self):
        two = "simverbs: 1\nsubnets: [{name: left}, {name: right}]\n"
        self.check(two + "hosts: [{name: h, devices: [{name: d, ports: [{subnet: lft}]}]}]\n",
                   '3:56: there is no subnet "lft"; did you mean "left"?')
        self.check(two + HOST, "this port is on one of 2 subnets; say which")
        self.check(two + "routers: [{name: r, subnets: [left]}]\n" + HOST,
                   "3:30: a router joins at least two subnets")
        self.check(two + "routers: [{name: r, subnets: [left, rigt]}]\n" + HOST,
                   '3:37: there is no subnet "rigt"; did you mean "right"?')
        self.check("""\
            simverbs: 1
            hosts: [{name: h, devices: [{name: d, ports: [{link_layer: infiniband}, {link_layer: ethernet}]}]}]
            """, "2:73: subnet subnet has ports of the other link layer")

    def test_ports(self):
        def port(text):
            return f"simverbs: 1\nhosts: [{{name: h, devices: [{{name: d, ports: [{text}]}}]}}]\n"

        self.check(port("{mtu: 1500}"), 'mtu: "1500" is not one of 256, 512, 1024, 2048, 4096')
        self.check(port("{}, {}, {}"), "2:55: a device has at most 2 ports")
        self.check(port("{lid: 1}"), "\"lid\" is an InfiniBand port's; remove it")
        self.check(port("{link_layer: infiniband, netdev: x}"), "\"netdev\" is an Ethernet port's; remove it")
        self.check(port("{address: 1.2.3}"), '"1.2.3" is not an IPv4 address')
        self.check(port("{gids: [{gid: 10.0.0.1}]}"), '"10.0.0.1" is not a GID; write it as an IPv6 address')
        self.check(port("{gids: [{gid: '::1', type: ib}]}"), "a port of link layer ethernet has no GID of type ib")
        self.check(port("{gids: [{gid: '::1'}, {gid: '::2', index: 0}]}"), "GID index 0 is taken already")
        self.check(port("{gids: [{gid: '::1', index: 16}]}"), "index: 16 is out of range")

    def test_caps(self):
        def caps(text):
            return f"simverbs: 1\nhosts: [{{name: h, devices: [{{name: d, caps: {{{text}}}}}]}}]\n"

        self.check(caps("max_sgee: 1"), 'caps has no key "max_sgee"; did you mean "max_sge"?')
        self.check(caps("max_sge: 31"), "max_sge: 31 is out of range; it takes 0 to 30")
        self.check(caps("dmabuf: 1"), 'dmabuf: "1" is not true or false')
        self.check("simverbs: 1\nhosts: [{name: h, devices: [{name: d, vendor: rxe}]}]\n",
                   'vendor: "rxe" is not one of mellanox, soft-roce')

    def test_faults(self):
        def fault(text):
            return "simverbs: 1\n" + HOST + f"faults: [{{{text}}}]\n"

        self.check(fault("do: drpo"), 'do: "drpo" is not one of')
        self.check(fault("do: drop, from: x"), '3:27: there is no host "x"; there are: h')
        self.check(fault("do: delay"), 'delay needs "by"')
        self.check(fault("do: delay, by: 5"), 'by: "5" is not a time; write a number with a unit')
        self.check(fault("do: delay, by: 0"), "by: 0 is out of range; it takes at least 1 ns")
        self.check(fault("do: drop, share: 101%"), "share: 101% is out of range; it takes 0 to 1, or 0% to 100%")
        self.check(fault("do: drop, share: few"), 'share: "few" is not a share')
        self.check(fault("do: drop, count: [1]"), "count is a list here; it takes a whole number")
        self.check(fault("do: drop, from: h/d/1"), "choose messages by device, not by port")

    def test_every_finding_is_reported_in_the_files_order(self):
        stderr = self.wrong("simverbs: 1\nstrict: maybe\nengine: none\nhosts: 3\n")
        places = [line.split(": ")[0] for line in stderr.splitlines()]
        self.assertEqual(places[:2], ["2:9", "3:9"])


if __name__ == "__main__":
    main()
