#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""deploy/: the chart by Helm's library, manifests by the schemas of three Kubernetes, what is in them by the program."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import helm
from cuda_driver import environment as cuda_environment
from cuda_driver import plugins
from harness import HANGS, PROGRAM, ROOT, SIMULATED, Case, main
from kube_api import ApiServer
from machines import unpack
from netns import need

VERSIONS = ("1.30.0", "1.33.0", "1.37.0")
MANIFESTS = sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
VALUES = sorted((helm.CHART / "ci").glob("*.yaml"))
MACHINE = pathlib.Path(__file__).resolve().parent / "machines" / "dgx-h100.txt"


def module(name, package):
    """It, or the test is skipped."""
    try:
        return __import__(name)
    except ImportError as error:
        raise unittest.SkipTest(f"{package} is not installed: {error}") from None


def documents():
    yaml = module("yaml", "python3-yaml")
    for path in MANIFESTS:
        for document in yaml.safe_load_all(path.read_text()):
            yield path.name, document


def rendered(values=None, **options):
    """Objects of a release in the order of their making, its objects that are hooks, and its notes."""
    yaml = module("yaml", "python3-yaml")
    module("helm_sdkpy", "helm-sdkpy")
    release, made = helm.install(values or {}, **options)
    hooks = [hook["manifest"] for hook in release.get("hooks") or []]
    return made, [yaml.safe_load(text) for text in hooks], release["info"]["notes"]


def values_of(name):
    return module("yaml", "python3-yaml").safe_load((helm.CHART / "ci" / f"{name}-values.yaml").read_text())


def by_kind(objects):
    return {(value["kind"], value["metadata"]["name"]): value for value in objects}


def is_allowed(objects, account, verb, resource):
    """Whether a service account may do it to an object of the cluster, by the roles and bindings among these objects."""
    roles = {value["metadata"]["name"]: value["rules"] for value in objects if value["kind"] == "ClusterRole"}
    granted = [
        rule for value in objects if value["kind"] == "ClusterRoleBinding"
        if {"kind": "ServiceAccount", **account} in value["subjects"] and value["roleRef"]["kind"] == "ClusterRole"
        for rule in roles[value["roleRef"]["name"]]]  # fmt: skip
    return any(verb in rule["verbs"] and resource in rule["resources"] and "" in rule["apiGroups"] for rule in granted)


def containers(document):
    spec = document.get("spec", {}).get("template", {}).get("spec", {})
    yield from spec.get("initContainers", []) + spec.get("containers", [])


class Chart(unittest.TestCase):
    """By Helm's library, which installs the chart into an API server of the test's."""

    def test_lint(self):
        module("helm_sdkpy", "helm-sdkpy")
        self.assertGreaterEqual(len(VALUES), 3)
        for values in (None, *VALUES):
            with self.subTest(values=values):
                self.assertEqual(helm.lint(values), ([], None))

    def test_what_it_renders_is_valid(self):
        validate = module("kubernetes_validate", "kubernetes-validate").validate
        yaml = module("yaml", "python3-yaml")
        for values in (None, *VALUES):
            made, hooks, _ = rendered(yaml.safe_load(values.read_text()) if values else None)
            self.assertGreaterEqual(len(made), 4)
            for value in made + hooks:
                value.pop("status", None)  # of the test's API server
                for version in VERSIONS:
                    with self.subTest(values=values, kind=value["kind"], version=version):
                        validate(value, version, strict=True)

    def test_the_plain_manifests_are_what_it_renders(self):
        module("helm_sdkpy", "helm-sdkpy")
        plain = helm.plain()
        self.assertEqual(sorted(plain), [path.name for path in MANIFESTS])
        for path in MANIFESTS:
            self.assertEqual(path.read_text(), plain[path.name], "tests/e2e/helm.py makes them anew")

    def test_values_reach_the_pods(self):
        made, hooks, notes = rendered(values_of("sriov"))
        objects = by_kind(made + hooks)
        job = objects["Job", "penstock-verify"]["spec"]["template"]
        receiver = objects["Deployment", "penstock-receiver"]["spec"]["template"]
        for pod in (job, receiver):
            self.assertEqual(pod["metadata"]["annotations"]["k8s.v1.cni.cncf.io/networks"], "fabric/sriov-net")
            self.assertEqual(pod["spec"]["imagePullSecrets"], [{"name": "registry"}])
            for container in pod["spec"]["initContainers"] + pod["spec"]["containers"]:
                self.assertEqual(container["image"], "registry.example/team/penstock:1.2")
                self.assertEqual(container["resources"]["limits"], {
                    "cpu": "16", "memory": "64Gi", "nvidia.com/gpu": 2, "nvidia.com/sriov_rdma": 2})  # fmt: skip
        environment = {entry["name"]: entry["value"] for entry in job["spec"]["containers"][0]["env"]}
        self.assertEqual((environment["GPUDIRECT"], environment["TRANSPORT"]), ("peermem", "verbs_dc"))
        self.assertIn({"name": "exchange", "persistentVolumeClaim": {"claimName": "exchange"}}, job["spec"]["volumes"])
        self.assertNotIn(("PersistentVolumeClaim", "penstock-exchange"), objects)
        self.assertNotIn(("NetworkPolicy", "penstock-receiver"), objects)
        self.assertNotIn("affinity", receiver["spec"])
        ports = {port["name"]: port["containerPort"] for port in receiver["spec"]["containers"][0]["ports"]}
        self.assertEqual(ports, {"control": 20000, "metrics": 9500})
        self.assertIn("0.0.0.0:20000", objects["ConfigMap", "penstock-receiver"]["data"]["stream.yaml"])
        self.assertIn("driver.rdma.enabled=true", notes)
        made, _, notes = rendered(values_of("receiver"))
        self.assertEqual(sorted(value["kind"] for value in made), ["ConfigMap", "Deployment", "NetworkPolicy", "Service"])
        policy = by_kind(made)["NetworkPolicy", "penstock-receiver"]["spec"]["ingress"]
        self.assertEqual(policy[0]["from"], [{"podSelector": {"matchLabels": {
            "penstock.io/role": "sender", "app": "camera"}}}])  # fmt: skip
        self.assertIn("penstock-receiver:18515", notes)

    def test_values_that_cannot_be_are_refused(self):
        error = module("helm_sdkpy", "helm-sdkpy").InstallError
        for values, why in (({"gpudirekt": "any"}, "gpudirekt"), ({"gpudirect": "pcie"}, "gpudirect"),
                            ({"device": {"gpu": {"resource": "gpu", "count": 1}}}, "/device/gpu/resource"),
                            ({"device": {"rdma": {"resource": "rdma/a", "count": 0}}}, "/device/rdma/count"),
                            ({"receiver": {"networkPolicy": {"senders": {"penstock.io/role": None}}}}, "senders"),
                            ({"verify": {"hook": "always"}}, "/verify/hook")):  # fmt: skip
            with self.subTest(values=values), self.assertRaisesRegex(error, why):
                rendered(values)

    def test_every_value_is_described(self):
        """By the schema; and each of the schema has its default in values.yaml."""
        defaults = module("yaml", "python3-yaml").safe_load((helm.CHART / "values.yaml").read_text())
        schema = json.loads((helm.CHART / "values.schema.json").read_text())

        def keys(value, rule, path):
            rule = schema["$defs"][rule["$ref"].rpartition("/")[2]] if "$ref" in rule else rule
            if "properties" in rule:
                self.assertIs(rule["additionalProperties"], False, path)
                self.assertEqual(set(value), set(rule["properties"]) - {"global"}, path)
                for key in value:
                    keys(value[key], rule["properties"][key], f"{path}.{key}")

        keys(defaults, schema, "")

    def test_a_verification_before_anything_else(self):
        """hook: install. Helm makes the Job first; where it fails, nothing else is made."""
        made, hooks, _ = rendered(values_of("sriov"))
        kinds = [value["kind"] for value in made]
        self.assertEqual(kinds[:2], ["ConfigMap", "Job"])
        self.assertGreater(kinds.index("Deployment"), kinds.index("Job"))
        self.assertEqual({hook["metadata"]["annotations"]["helm.sh/hook"] for hook in hooks}, {"pre-install,pre-upgrade"})
        with self.assertRaisesRegex(module("helm_sdkpy", "helm-sdkpy").InstallError, "pre-install"):
            rendered(values_of("sriov"), jobs_end="Failed")


class Node(Case):
    """The script of the doctor's DaemonSet as the kubelet starts it, but for its folders and its `penstock`."""

    def setUp(self):
        super().setUp()
        need("curl", "openssl")
        self.account = self.folder / "account"
        self.account.mkdir()
        (self.account / "token").write_text("the.token")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                        "-subj", "/CN=kubernetes", "-addext", "subjectAltName=IP:127.0.0.1", "-out", self.account / "ca.crt",
                        "-keyout", self.folder / "key"], check=True, capture_output=True)  # fmt: skip
        (self.folder / "results").mkdir()
        (self.folder / "bin").mkdir()
        program = self.folder / "bin" / "penstock"
        program.write_text(f'#!/bin/sh\nexec "{PROGRAM}" "$@" --root "{self.folder / "machine"}"\n')
        program.chmod(0o755)
        self.objects = [document for _, document in documents()]
        self.kinds = by_kind(self.objects)
        self.pod = self.kinds["DaemonSet", "penstock-doctor"]["spec"]["template"]["spec"]

    def label(self, server):
        """Runs the script until it has sent a PATCH; that and its answer's status."""
        (container,) = self.pod["containers"]
        environment = {entry["name"]: entry["value"] for entry in container["env"] if "value" in entry}
        for entry in container["env"]:
            if "valueFrom" in entry:
                self.assertEqual(entry, {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}})
        self.assertEqual(container["command"], ["sh", "/scripts/label.sh"])
        script = self.folder / "label.sh"
        script.write_text(self.kinds["ConfigMap", "penstock-doctor"]["data"]["label.sh"])
        child = self.start(script, program="sh", environment={
            **environment, "NODE_NAME": "node-7", "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(server.server_port), "ACCOUNT": str(self.account),
            "RESULTS": str(self.folder / "results"), "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}"})  # fmt: skip
        self.assertTrue(server.patched.wait(HANGS), child)
        if server.patches[-1][1] != 200:
            child.wait_line("cannot label node node-7 ok")
        child.process.terminate()
        self.assertEqual(child.wait(), 0, "it ends at once, for the kubelet")
        return server.patches[-1]

    def authorize(self, request):
        """As the API server does: who has that token, and may it?"""
        account = {"name": self.pod["serviceAccountName"], "namespace": "penstock"}
        self.assertIn(("ServiceAccount", account["name"]), self.kinds)
        self.assertNotIn("automountServiceAccountToken", self.pod)
        if request["authorization"] != "Bearer the.token":
            return 401
        return 200 if is_allowed(self.objects, account, "patch", "nodes") else 403

    def test_each_verdict_becomes_a_label(self):
        recorded = MACHINE.read_text()
        for broken, mended, label in ((None, None, "ok"), ("numa_balancing: 0", "numa_balancing: 1", "warning"),
                                      ("ip_default_ttl: 64", "ip_default_ttl: 1", "fails")):  # fmt: skip
            with self.subTest(label=label), ApiServer(self.account / "ca.crt", self.folder / "key") as server:
                server.authorize = self.authorize
                shutil.rmtree(self.folder / "machine", ignore_errors=True)
                unpack(recorded.replace(broken, mended) if broken else recorded, self.folder / "machine")
                request, status = self.label(server)
                self.assertEqual(status, 200)
                self.assertEqual(request["path"], "/api/v1/nodes/node-7")
                self.assertEqual(request["type"], "application/merge-patch+json")
                self.assertEqual(request["body"], {"metadata": {"labels": {"penstock.io/doctor": label}}})

    def test_the_account_changes_the_label_of_its_own_node_alone(self):
        """By the policy's expressions, in their own language; what the script sends passes."""
        evaluate = module("cel", "common-expression-language").evaluate
        binding = self.kinds["ValidatingAdmissionPolicyBinding", "penstock-doctor"]["spec"]
        policy = self.kinds["ValidatingAdmissionPolicy", binding["policyName"]]["spec"]
        self.assertEqual((binding["validationActions"], policy["failurePolicy"]), (["Deny"], "Fail"))
        self.assertEqual(policy["matchConstraints"], {"resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["nodes"], "operations": ["UPDATE"]}]})  # fmt: skip

        def allows(change, name="penstock-doctor", node=("node-7",)):
            old = {"metadata": {"name": "node-7", "labels": {"zone": "a"}, "annotations": {"a": "b"}}, "spec": {"podCIDR": "x"}}
            new = json.loads(json.dumps(old))
            change(new)
            extra = {"authentication.kubernetes.io/node-name": list(node)} if node else {}
            request = {"name": "node-7", "userInfo": {"username": f"system:serviceaccount:penstock:{name}", "extra": extra}}
            context = {"object": new, "oldObject": old, "request": request}
            (condition,) = policy["matchConditions"]
            return not evaluate(condition["expression"], context) or all(
                evaluate(rule["expression"], context) for rule in policy["validations"])  # fmt: skip

        def label(node):
            node["metadata"]["labels"]["penstock.io/doctor"] = "ok"

        self.assertTrue(allows(label))
        self.assertFalse(allows(label, node=("node-8",)))
        self.assertFalse(allows(label, node=None), "a token that is no pod's")
        for change in (lambda node: node["metadata"]["labels"].update(zone="b"), lambda node: node["metadata"]["labels"].clear(),
                       lambda node: node["metadata"]["labels"].update(other="b"), lambda node: node["metadata"].pop("labels"),
                       lambda node: node["metadata"]["annotations"].update(a="c"), lambda node: node["metadata"].pop("annotations"),
                       lambda node: node["metadata"].update(finalizers=["x"]), lambda node: node["metadata"].update(ownerReferences=[]),
                       lambda node: node["spec"].update(unschedulable=True), lambda node: node["spec"].update(taints=[])):  # fmt: skip
            self.assertFalse(allows(change))
            self.assertTrue(allows(change, name="another"))

    def test_an_account_without_the_right_is_said(self):
        unpack(MACHINE.read_text(), self.folder / "machine")
        for value in self.objects:
            if value["kind"] == "ClusterRole":
                value["rules"] = []
        with ApiServer(self.account / "ca.crt", self.folder / "key") as server:
            server.authorize = self.authorize
            self.assertEqual(self.label(server)[1], 403)


class Ranks(Case):
    """The script of the Job's two pods, on simulated adapters and GPUs."""

    def ranks(self, gpudirect):
        """Rank 0, when both have ended."""
        exchange, results, programs = (self.folder / name for name in ("exchange", "results", "bin"))
        for folder in (exchange, results, programs):
            folder.mkdir(exist_ok=True)
        program = programs / "penstock"
        program.write_text(f'#!/bin/sh\nexec "{PROGRAM}" "$@" {" ".join(map(str, plugins()))}\n')
        program.chmod(0o755)
        fabric = self.folder / f"pods-{os.getpid()}.yaml"
        fabric.write_text("simverbs: 1\nhosts:\n  - name: pods\n    devices:\n"
                          '      - {name: mlx5_0, ports: [{netdev: lo, gids: [{gid: "::ffff:127.0.0.1"}]}]}\n')  # fmt: skip
        (job,) = [document for _, document in documents() if document["kind"] == "Job"]
        (container,) = job["spec"]["template"]["spec"]["containers"]
        environment = {entry["name"]: entry["value"] for entry in container["env"]}
        environment |= {"INTERFACE": "lo", "GPUDIRECT": gpudirect, "SIZE": "4KiB", "DURATION": "50ms",
                        "EXCHANGE": str(exchange), "RESULTS": str(results), "PATH": f"{programs}:{os.environ['PATH']}",
                        **cuda_environment("")}  # fmt: skip
        script = helm.CHART / "files" / "rank.sh"
        children = [
            self.start(script, program="sh", prefix=(SIMULATED, "--fabric", fabric),
                       environment={**environment, "JOB_COMPLETION_INDEX": str(rank)}) for rank in range(2)]  # fmt: skip
        self.assertEqual(children[1].wait(), 0, children[1])
        children[0].wait()
        return children[0]

    def test_the_way_is_the_one_that_is_asked_for(self):
        need("ip")
        if not SIMULATED:
            self.skipTest("the simulated RDMA device is not built: libibverbs-dev is missing")
        for gpudirect, status in (("any", 0), ("dma-buf", 0), ("peermem", 1)):
            with self.subTest(gpudirect=gpudirect):
                child = self.ranks(gpudirect)
                self.assertEqual(child.status, status, child)
                self.assertIn("2 links, median", child.stdout)
                self.assertEqual("does not reach GPU memory by peermem" in child.stderr, status == 1, child)


class Dashboard(unittest.TestCase):
    """deploy/grafana by Grafana's own model of dashboards, and of the panels that it has."""

    def lost(self, before, after, path=""):
        """The keys that the model does not know, or whose values it changes."""
        if isinstance(before, dict) and isinstance(after, dict):
            for key, value in before.items():
                yield from self.lost(value, after.get(key), f"{path}/{key}")
        elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
            for i, (one, other) in enumerate(zip(before, after)):
                yield from self.lost(one, other, f"{path}/{i}")
        elif before != after:
            yield path

    def test_grafana_knows_each_key(self):
        module("grafana_foundation_sdk", "grafana-foundation-sdk")
        from grafana_foundation_sdk.cog import encoder, plugins as panels
        from grafana_foundation_sdk.models import dashboard

        panels.register_default_plugins()
        written = json.loads((ROOT / "deploy" / "grafana" / "penstock.json").read_text())
        read = json.loads(encoder.JSONEncoder().encode(dashboard.Dashboard.from_json(written)))
        # Grafana writes the definition beside a variable's query; the model leaves it out.
        self.assertEqual([path for path in self.lost(written, read) if not path.endswith("/definition")], [])


class Deploy(unittest.TestCase):
    def test_manifests_are_valid(self):
        validate = module("kubernetes_validate", "kubernetes-validate").validate
        for name, document in documents():
            for version in VERSIONS:
                with self.subTest(manifest=name, kind=document["kind"], version=version):
                    validate(document, version, strict=True)

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
        """Looks at commands whose arguments are a list or stand on the line of ExecStart."""
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
