#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renders the chart by Helm's own library. As a program it writes the plain manifests beside the chart anew.

The library is the Python package helm-sdkpy, which .ci/run installs into build-python.
"""
import asyncio
import pathlib
import re
import shutil
import sys
import tempfile

from kube_api import ApiServer

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
KUBERNETES = ROOT / "deploy" / "kubernetes"
CHART = KUBERNETES / "chart"
HEAD = "# SPDX-License-Identifier: Apache-2.0\n# Made from chart/ by tests/e2e/helm.py. Change the chart.\n"
sys.path.append(str(ROOT / "build-python"))
SEVERITY_WARNING = 2


def library():
    """Raises ImportError."""
    import helm_sdkpy

    return helm_sdkpy


def with_api(job, jobs_end="Complete"):
    """Returns the result of job(configuration), and the objects that Helm made in a cluster."""
    # Helm keeps its caches below HOME; a test's goes with the test.
    with ApiServer() as server, tempfile.TemporaryDirectory() as folder:
        server.jobs_end = jobs_end
        config = pathlib.Path(folder, "kubeconfig")
        config.write_text(server.kubeconfig())
        with library().Configuration(namespace="penstock", kubeconfig=str(config)) as configuration:
            return asyncio.run(job(configuration)), server.made


def install(values, jobs_end="Complete"):
    """The release and the objects made. Raises helm_sdkpy.InstallError."""
    return with_api(
        lambda configuration: library().Install(configuration).run(
            "penstock", str(CHART), values=values, wait=False, timeout=20), jobs_end)  # fmt: skip


def lint(values_file):
    """Messages of `helm lint` from warnings on, with these values for defaults."""
    import yaml

    with tempfile.TemporaryDirectory() as folder:
        chart = pathlib.Path(folder, "penstock")
        shutil.copytree(CHART, chart)
        if values_file:
            defaults = yaml.safe_load((chart / "values.yaml").read_text())
            merged = merge(defaults, yaml.safe_load(values_file.read_text()))
            merged["createNamespace"] = False  # the library lints without a namespace
            (chart / "values.yaml").write_text(yaml.safe_dump(merged))
        report, _ = with_api(lambda configuration: library().Lint(configuration).run(str(chart)))
    return [message for message in report["Messages"] if message["Severity"] >= SEVERITY_WARNING], report["Errors"]


def merge(into, values):
    for key, value in values.items():
        into[key] = merge(into[key], value) if isinstance(value, dict) and isinstance(into.get(key), dict) else value
    return into


def plain():
    """Each plain manifest's name and text."""
    import yaml

    values = yaml.safe_load((CHART / "ci" / "plain-values.yaml").read_text())
    release, _ = install(values)
    texts = {}
    for part in re.split(r"(?m)^---\n# Source: penstock/templates/", release["manifest"])[1:]:
        name, _, text = part.partition("\n")
        texts.setdefault(name, []).append(re.sub(r"(?m)^# SPDX-License-Identifier: .*\n", "", text).strip() + "\n")
    return {name: HEAD + "---\n".join(parts) for name, parts in texts.items()}


if __name__ == "__main__":
    for name, text in plain().items():
        (KUBERNETES / name).write_text(text)
