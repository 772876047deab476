# SPDX-License-Identifier: Apache-2.0
"""penstock-simverbs itself: fabrics made, joined and removed, commands run to their end, `ctl`."""
import fcntl
import os
import pathlib
import re
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tests"))
from children import BUILD, FEWER, Case, ROOT, main, wait_until  # noqa: E402

LAUNCHER = BUILD / "penstock-simverbs"
EXAMPLE = ROOT / "examples/two-hosts.yaml"
TWO_HOSTS = """\
simverbs: 1
name: {name}
{more}
hosts:
  - name: a
    devices:
      - {{name: mlx5_0}}
  - name: b
    devices:
      - {{name: mlx5_0}}
      - {{name: mlx5_1}}
"""


class Launcher(Case):
    def setUp(self):
        super().setUp()
        self.name = f"t{os.getpid()}-{self.port}"
        for name in ("PENSTOCK_SIMVERBS_FABRIC", "PENSTOCK_SIMVERBS_HOST"):
            os.environ.pop(name, None)

    def launch(self, *arguments, **options):
        return self.run_program(*arguments, program=LAUNCHER, **options)

    def launch_beside(self, *arguments):
        return self.start(*arguments, program=LAUNCHER)

    def ctl(self, *arguments, expect=0):
        return self.launch("ctl", self.name, *arguments, expect=expect).stdout

    def holding(self, *arguments):
        """A launcher whose command stays until it is killed, once it runs."""
        child = self.launch_beside(*arguments, "sh", "-c", "echo up >&2; exec sleep 600")
        child.wait_line("^up$")
        return child

    def paths(self):
        return [path for folder in ("/dev/shm", "/tmp", self.temporary)
                for path in pathlib.Path(folder).glob(f"simverbs-{os.getuid()}/{self.name}*")]

    def files(self):
        return [path.name for path in self.paths()]

    def counter(self, name):
        return int(re.search(rf"^{name} (\d+)$", self.ctl("counters"), re.M)[1])


class Commands(Launcher):
    def test_exit_status_is_the_commands(self):
        self.launch("sh", "-c", "exit 7", expect=7)

    def test_a_command_ended_by_a_signal_ends_the_launcher_by_it(self):
        self.launch("sh", "-c", "kill -USR1 $$", expect=-signal.SIGUSR1)

    def test_no_such_command(self):
        child = self.launch("no-such-command", expect=127)
        self.assertIn("no-such-command cannot be run: No such file", child.stderr)

    def test_not_a_program(self):
        path = self.write("text", "nothing")
        self.launch(path, expect=126)

    def test_signals_are_passed_on(self):
        child = self.launch_beside("sh", "-c", "trap 'echo got >&2; exit 5' TERM; echo up >&2; "
                                   "while :; do sleep 0.01; done")  # fmt: skip
        child.wait_line("^up$")
        child.signal(signal.SIGTERM)
        self.assertEqual(child.wait(), 5)
        self.assertIn("got", child.stderr)

    def test_a_killed_launcher_takes_its_command_along(self):
        child = self.launch_beside("sh", "-c", "echo $$ >&2; exec sleep 600")
        pid = child.wait_line(r"^(\d+)$")[1]
        child.signal(signal.SIGKILL)
        child.wait()
        wait_until(lambda: not pathlib.Path(f"/proc/{pid}").exists(), 10, "the command has ended")

    def test_the_simulated_library_comes_first(self):
        child = self.launch("sh", "-c", "echo $LD_LIBRARY_PATH", environment={"LD_LIBRARY_PATH": "/else"})
        self.assertEqual(child.stdout, f"{LAUNCHER.parent}:/else")

    def test_wrong_options(self):
        for arguments, said in (
            (("--engine", "lazy", "true"), "there is no engine \"lazy\"; take eager or deferred"),
            (("--clock", "fast", "true"), "there is no clock \"fast\""),
            (("--log", "9", "true"), "there is no log level \"9\""),
            (("--fabric", "a/b", "true"), "neither a fabric's name"),
            (("--nothing", "true"), "see penstock-simverbs --help"),
            (("--host", "hots", "true"), "has no host \"hots\"; did you mean \"host\"?"),
            ((), "usage: penstock-simverbs"),
        ):
            with self.subTest(arguments=arguments):
                self.assertIn(said, self.launch(*arguments, expect=125).stderr)


class Fabrics(Launcher):
    def test_the_last_launcher_removes_the_fabric(self):
        first = self.holding("--fabric", self.name)
        second = self.holding("--fabric", self.name)
        self.assertEqual(len(self.files()), 1)
        first.signal(signal.SIGTERM)
        first.wait()
        self.assertEqual(len(self.files()), 1)
        second.signal(signal.SIGTERM)
        second.wait()
        self.assertEqual(self.files(), [])

    def test_of_launchers_at_once_one_makes_it_and_all_are_on_it(self):
        """They look for it, and then make it: one in a hundred rounds has met another there."""
        launched = f"{LAUNCHER} --fabric {self.name} true & pids=\"$pids $!\"; "
        awaited = "for pid in $pids; do wait $pid || exit 1; done; "
        rounds = f"for round in $(seq {300 // FEWER}); do pids=; {8 * launched} {awaited} done"
        self.run_program("-c", rounds, program="/bin/sh", seconds=120)

    def test_what_a_killed_launcher_leaves_is_cleared_away(self):
        child = self.holding("--fabric", self.name, "--clock", "manual")
        self.assertEqual(len(self.paths()), 1)
        with self.paths()[0].open() as held:
            fcntl.flock(held, fcntl.LOCK_SH)  # launchers of other tests would clear it away meanwhile
            child.signal(signal.SIGKILL)
            child.wait()
            self.launch("true")
            self.assertEqual(len(self.files()), 1)
        # Another launcher's making of any fabric finds it, and this name is free again.
        self.launch("true")
        self.assertEqual(self.files(), [])

    def test_a_launcher_within_another_is_on_its_fabric(self):
        inner = f"{LAUNCHER} sh -c 'echo $PENSTOCK_SIMVERBS_FABRIC'"
        child = self.launch("--fabric", self.name, "sh", "-c", f"echo $PENSTOCK_SIMVERBS_FABRIC; {inner}")
        outer_path, inner_path = child.stdout.splitlines()
        self.assertEqual(outer_path, inner_path)
        self.assertTrue(outer_path.endswith(f"/{self.name}.fabric"))

    def test_two_hosts_of_a_description(self):
        path = self.write("two.yaml", TWO_HOSTS.format(name=self.name, more=""))
        self.holding("--fabric", path, "--host", "a")
        child = self.launch("--fabric", path, "--host", "b", "sh", "-c", "echo $PENSTOCK_SIMVERBS_HOST")
        self.assertEqual(child.stdout, "b")
        child = self.launch("--fabric", path, "--host", "c", "true", expect=125)
        self.assertIn('has no host "c"', child.stderr)

    def test_another_description_of_the_same_name(self):
        path = self.write("two.yaml", TWO_HOSTS.format(name=self.name, more=""))
        self.holding("--fabric", path)
        path = self.write("two.yaml", TWO_HOSTS.format(name=self.name, more="strict: true"))
        child = self.launch("--fabric", path, "true", expect=125)
        self.assertIn("from another description", child.stderr)

    def test_options_are_the_makers(self):
        self.holding("--fabric", self.name)
        child = self.launch("--fabric", self.name, "--clock", "manual", "true", expect=125)
        self.assertIn("for the launcher that makes it", child.stderr)

    def test_example(self):
        child = self.launch("--fabric", EXAMPLE, LAUNCHER, "ctl", ".", "show")
        self.assertIn("router core: up, mtu 4096, joins west east; 0 died", child.stdout)
        self.assertIn("gid 4: ::ffff:10.2.7.1 rocev2 vlan 7", child.stdout)


class Ctl(Launcher):
    def test_no_such_fabric(self):
        child = self.launch("ctl", self.name, "show", expect=1)
        self.assertIn(f'there is no fabric "{self.name}"', child.stderr)

    def test_words_that_are_none(self):
        self.holding("--fabric", self.name)
        for words, said in (
            (("prot-down",), 'did you mean "port-down"?'),
            (("port-down",), 'port-down needs "on"'),
            (("port-down", "hst"), 'there is no host "hst"; did you mean "host"?'),
            (("port-down", "host/mlx_0"), 'that host has no device "mlx_0"; did you mean "mlx5_0"?'),
            (("port-down", "host/mlx5_0/2"), 'that device has no port "2"'),
            (("remove-device", "host"), "a whole device is meant: HOST/DEVICE"),
            (("router-down", "r"), 'there is no router "r"'),
            (("drop", "--shre", "1%"), 'a fault has no key "shre"; did you mean "share"?'),
            (("drop", "--share", "2"), "share: 2 is out of range"),
            (("drop", "--by", "1 ms"), '"by" has no meaning for drop; remove it'),
            (("drop", "--count"), "--count needs a value"),
            (("drop", "--qp", "x1"), 'qp: "x1" is not a QP number'),
            (("delay",), 'delay needs "by", as in 5 ms'),
            (("delay", "--by", "5"), 'by: "5" is not a time'),
            (("refuse-registration", "--error", "ENOMME"), 'did you mean "ENOMEM"?'),
            (("port-event", "host"), 'port-event needs "event": which event'),
            (("port-event", "--event", "sm-change"), 'port-event needs "on"'),
            (("port-event", "host", "--event", "sm"), 'event: "sm" is not one of'),
            (("port-event", "host", "--event", "path-mig"), "path-mig is an event of a queue pair; use qp-event"),
            (("qp-event", "--event", "gid-change"), "gid-change is an event of a port; use port-event"),
            (("port-event", "host", "--event", "sm-change", "--for", "1s"), '"for" has no meaning for port-event'),
            (("lose-peer", "host", "--at", "1s", "--after", "3"), "remove one"),
            (("advance", "soon"), 'advance: "soon" is not a time'),
            (("engine", "lazy"), "eager or deferred"),
            (("clock", "never"), "clock takes real, manual"),
        ):
            with self.subTest(words=words):
                child = self.launch("ctl", self.name, *words, expect=2)
                self.assertIn(said, child.stderr)

    def test_a_port_goes_down_and_comes_up(self):
        self.holding("--fabric", self.name)
        self.assertIn("port 1: ethernet, up", self.ctl("show"))
        self.ctl("port-down", "host/mlx5_0/1")
        self.assertIn("port 1: ethernet, down", self.ctl("show"))
        self.assertIn("port 1: infiniband, up", self.ctl("show"))
        self.ctl("port-up", "host")
        self.assertIn("port 1: ethernet, up", self.ctl("show"))

    def test_what_is_done_for_a_time_is_undone_by_the_launcher(self):
        self.holding("--fabric", self.name)
        self.ctl("port-down", "host/mlx5_0", "--for", "20ms")
        wait_until(lambda: "ethernet, up" in self.ctl("show"), 10, "the port is up again")

    def test_a_manual_clock_does_what_comes_due_in_its_order(self):
        self.holding("--fabric", self.name, "--clock", "manual")
        self.ctl("port-down", "host/mlx5_0", "--at", "3s", "--for", "2s")
        self.assertIn("ethernet, up", self.ctl("show"))
        self.ctl("advance", "2999ms")
        self.assertIn("ethernet, up", self.ctl("show"))
        self.ctl("advance", "1ms")
        self.assertIn("ethernet, down", self.ctl("show"))
        self.ctl("advance", "1s")
        self.assertIn("fault port-up on host/mlx5_0, in 1.000 s", self.ctl("show"))
        self.ctl("advance", "1s")
        self.assertIn("ethernet, up", self.ctl("show"))
        # Both in one leap end the same.
        self.ctl("port-down", "host/mlx5_0", "--at", "3s", "--for", "2s")
        self.ctl("advance", "1h")
        self.assertIn("ethernet, up", self.ctl("show"))
        self.assertNotIn("fault", self.ctl("show"))

    def test_only_a_manual_clock_is_advanced(self):
        self.holding("--fabric", self.name)
        child = self.launch("ctl", self.name, "advance", "1s", expect=1)
        self.assertIn("the clock of", child.stderr)
        self.ctl("clock", "manual")
        self.ctl("advance", "1000s")
        self.assertRegex(self.ctl("show"), r"manual clock at 100\d\.")
        self.ctl("clock", "real")
        self.assertRegex(self.ctl("show"), r"real clock at 100\d\.")

    def test_faults_are_shown_and_cleared(self):
        self.holding("--fabric", self.name)
        self.ctl("drop", "--from", "host/mlx5_0", "--qp", "0x1a", "--after", "5", "--count", "2", "--share", "0.5%")
        self.ctl("delay", "--by", "5ms", "--for", "1h")
        shown = self.ctl("show")
        self.assertIn("fault drop of host/mlx5_0 qp 0x1a, after 5, 2 left, share 0.5%", shown)
        self.assertRegex(shown, r"fault delay, by 5 ms, ends in 3[56]\d\d\.\d\d\d s")
        self.ctl("clear")
        self.assertNotIn("fault", self.ctl("show"))

    def test_the_table_of_faults_has_an_end(self):
        faults = "".join("  - {do: drop, count: 1}\n" for _ in range(128))
        path = self.write("many.yaml", TWO_HOSTS.format(name=self.name, more="faults:\n" + faults))
        self.holding("--fabric", path)
        child = self.launch("ctl", self.name, "drop", expect=2)
        self.assertIn("at most 128 faults", child.stderr)
        self.ctl("clear")
        self.ctl("drop")

    def test_counters_of_a_port(self):
        self.holding("--fabric", self.name)
        self.assertEqual(self.counter("tx_messages"), 0)
        self.assertIn("host/mlx5_1/1 lost_hop_limit 0", self.ctl("counters", "host/mlx5_1"))
        self.assertNotIn("mlx5_0", self.ctl("counters", "host/mlx5_1"))

    def test_counters_of_all(self):
        self.holding("--fabric", self.name)
        self.launch("--fabric", self.name, LAUNCHER.parent / "rules" / "sim_rule_receive")
        sent = self.counter("tx_messages")
        self.assertGreater(sent, 0)
        self.assertIn(f"host/mlx5_0/1 tx_messages {sent}", self.ctl("counters", "host/mlx5_0"))
        self.assertGreater(self.counter("rnr_naks"), 0)


if __name__ == "__main__":
    main(side_by_side=4)
