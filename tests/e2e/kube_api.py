# SPDX-License-Identifier: Apache-2.0
"""As much of a Kubernetes API server as `helm install` and the doctor's label script ask for: it keeps objects."""
import http.server
import json
import ssl
import threading

RESOURCES = {
    "/api/v1": {"Namespace": False, "ServiceAccount": True, "ConfigMap": True, "PersistentVolumeClaim": True,
                "Secret": True, "Service": True, "Node": False},
    "/apis/apps/v1": {"DaemonSet": True, "Deployment": True},
    "/apis/batch/v1": {"Job": True},
    "/apis/rbac.authorization.k8s.io/v1": {"ClusterRole": False, "ClusterRoleBinding": False},
    "/apis/admissionregistration.k8s.io/v1": {"ValidatingAdmissionPolicy": False, "ValidatingAdmissionPolicyBinding": False},
    "/apis/networking.k8s.io/v1": {"NetworkPolicy": True},
}  # fmt: skip
VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]


def plural(kind):
    return kind.lower().removesuffix("y") + ("ies" if kind.endswith("y") else "s")


def discovery(path):
    """The answer to a question about resources; None: it is none."""
    if path == "/version":
        return {"major": "1", "minor": "33", "gitVersion": "v1.33.0"}
    if path == "/api":
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == "/apis":
        versions = [group.removeprefix("/apis/") for group in RESOURCES if group.startswith("/apis/")]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [
            {"name": version.split("/")[0], "versions": [{"groupVersion": version, "version": "v1"}]}
            for version in versions]}  # fmt: skip
    if path in RESOURCES:
        return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": path.split("/", 2)[2], "resources": [
            {"name": plural(kind), "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": VERBS}
            for kind, namespaced in RESOURCES[path].items()]}  # fmt: skip
    return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *arguments):
        pass

    def answer(self, value, status=200):
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def refuse(self, status, reason):
        self.answer({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": status}, status)

    def do_GET(self):
        path, _, query = self.path.partition("?")
        objects = self.server.objects
        if (value := discovery(path)) is not None:
            self.answer(value)
        elif path in objects:
            self.answer(objects[path])
        elif path == "/openapi/v2":  # no schemas
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif "sendInitialEvents=" in query:  # as servers do that know lists and watches alone
            self.refuse(422, "Invalid")
        elif "watch=" in query:  # nothing changes
            self.server.ends.wait(20)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif path.rpartition("/")[2] in {plural(kind) for kinds in RESOURCES.values() for kind in kinds}:
            items = [value for key, value in objects.items() if key.startswith(path + "/")]
            self.answer({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": items})
        else:
            self.refuse(404, "NotFound")

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.partition("?")[0].endswith("/secrets"):  # Helm's notes of its release, in another form than JSON
            self.answer({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "release"}}, 201)
            return
        value = json.loads(body)
        value["metadata"].update({"uid": str(len(self.server.made)), "resourceVersion": "1", "generation": 1})
        if value["kind"] == "Job":
            value["status"] = {"conditions": [{"type": self.server.jobs_end, "status": "True"}]}
        self.server.objects[self.path.partition("?")[0] + "/" + value["metadata"]["name"]] = value
        self.server.made.append(value)
        self.answer(value, 201)

    def do_PUT(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.answer({"kind": "Secret", "apiVersion": "v1", "metadata": {"name": "release"}})

    def do_DELETE(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.server.objects.pop(self.path.partition("?")[0], None):
            self.answer({"kind": "Status", "apiVersion": "v1", "status": "Success"})
        else:
            self.refuse(404, "NotFound")

    def do_PATCH(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = {"path": self.path, "type": self.headers["Content-Type"], "body": json.loads(body),
                   "authorization": self.headers["Authorization"]}  # fmt: skip
        status = self.server.authorize(request)
        self.server.patches.append((request, status))
        self.server.patched.set()
        if status != 200:
            self.refuse(status, "Forbidden")
        else:
            self.answer({"kind": "Node", "apiVersion": "v1"})


class ApiServer(http.server.ThreadingHTTPServer):
    """On a port of its own until it is left. certificate, key: it speaks TLS.

    made: objects in the order of their making. patches: each with the status of its answer.
    """

    daemon_threads = True

    def __init__(self, certificate=None, key=None):
        super().__init__(("127.0.0.1", 0), Handler)
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.objects, self.made, self.patches = {}, [], []
        self.patched = threading.Event()
        self.ends = threading.Event()
        self.jobs_end = "Complete"
        self.authorize = lambda request: 200
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def handle_error(self, request, address):
        """Helm breaks its connections off."""

    def __exit__(self, *exception):
        self.ends.set()
        self.shutdown()
        self.thread.join()
        self.server_close()

    def kubeconfig(self):
        return json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": f"http://127.0.0.1:{self.server_port}"}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
            "users": [{"name": "test", "user": {}}]})  # fmt: skip
