#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deploy/: manifests by the schemas of three Kubernetes, what is in them by the program, units by systemd."""
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from harness import PROGRAM, ROOT, main

VERSIONS = ("1.29.0", "1.33.0", "1.37.0")
MANIFESTS = sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))


def documents():
    try:
        import yaml
    except ImportError:
        raise unittest.SkipTest("python3-yaml is not installed") from None
    for path in MANIFESTS:
        for document in yaml.safe_load_all(path.read_text()):
            yield path.name, document


def containers(document):
    spec = document.get("spec", {}).get("template", {}).get("spec", {})
    yield from spec.get("initContainers", []) + spec.get("containers", [])


class Deploy(unittest.TestCase):
    def test_manifests_are_valid(self):
        try:
            import kubernetes_validate
        except ImportError:
            raise unittest.SkipTest("kubernetes-validate is not installed") from None
        for name, document in documents():
            for version in VERSIONS:
                with self.subTest(manifest=name, kind=document["kind"], version=version):
                    kubernetes_validate.validate(document, version, strict=True)

    def test_containers_ask_for_no_more_than_they_need(self):
        seen = 0
        for name, document in documents():
            for container in containers(document):
                with self.subTest(manifest=name, container=container["name"]):
                    security = container["securityContext"]
                    self.assertIs(security["readOnlyRootFilesystem"], True)
                    self.assertIn("memory", container["resources"]["limits"])
                    seen += 1
                    if name == "doctor.yaml":  # which opens the node's devices
                        continue
                    self.assertIs(security["allowPrivilegeEscalation"], False)
                    self.assertEqual(security["capabilities"]["drop"], ["ALL"])
                    added = set(security["capabilities"].get("add", []))
                    self.assertLessEqual(added, {"IPC_LOCK"})
                    if added:  # which Kubernetes gives to root alone
                        self.assertEqual(document["spec"]["template"]["spec"]["securityContext"]["runAsUser"], 0)
                    if "--metrics" in container.get("args", []):  # of all addresses, for Prometheus
                        self.assertIn("--metrics-insecure", container["args"])
        self.assertGreaterEqual(seen, 5)

    def test_configurations_in_manifests_pass_check(self):
        """For their keys and values: a GPU may be missing here."""
        seen = 0
        for name, document in documents():
            text = document.get("data", {}).get("stream.yaml") if document["kind"] == "ConfigMap" else None
            if not text:
                continue
            seen += 1
            with self.subTest(manifest=name), tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder, "stream.yaml")
                path.write_text(text)
                child = subprocess.run([PROGRAM, "check", path], capture_output=True, text=True)
                self.assertIn(child.returncode, (0, 3), child.stderr)
        self.assertEqual(seen, 2)

    def test_options_that_manifests_and_units_give_are_there(self):
        """Of the commands whose arguments stand as a list or on ExecStart's line."""
        calls = [container["args"] for _, document in documents() for container in containers(document)
                 if "args" in container]  # fmt: skip
        for unit in UNITS:
            calls += [line.split()[1:] for line in re.findall(r"^ExecStart=(.*)", unit.read_text(), re.M)]
        self.assertGreaterEqual(len(calls), 5)
        for command, *arguments in calls:
            said = subprocess.run([PROGRAM, command, "--help"], capture_output=True, text=True)
            self.assertEqual(said.returncode, 0, f"{command}: {said.stderr}")
            for option in (word.split("=")[0] for word in arguments if word.startswith("--")):
                with self.subTest(command=command, option=option):
                    self.assertRegex(said.stdout, rf"(?m)^ +(?:-\w, )?{option}\b")

    def test_units_are_as_systemd_has_them(self):
        if not shutil.which("systemd-analyze"):
            raise unittest.SkipTest("systemd-analyze is not installed")
        for unit in UNITS:
            with self.subTest(unit=unit.name), tempfile.TemporaryDirectory() as folder:
                # The program where it was built: the unit names where it is installed.
                copy = pathlib.Path(folder, unit.name)
                copy.write_text(unit.read_text().replace("/usr/bin/penstock", str(PROGRAM)))
                name = f"{folder}/{unit.name.replace('@.', '@camera.')}"
                if "@" in unit.name:
                    copy.rename(name)
                child = subprocess.run(["systemd-analyze", "verify", "--man=no", name], capture_output=True, text=True)
                ours = [line for line in child.stderr.splitlines() if unit.name.split("@")[0].split(".")[0] in line]
                self.assertEqual(ours, [], child.stderr)


if __name__ == "__main__":
    main()
