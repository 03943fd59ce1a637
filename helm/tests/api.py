"""As much of a Kubernetes API server as helm needs to look Secrets up in it."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRETS = {"name": "secrets", "singularName": "secret", "namespaced": True, "kind": "Secret", "verbs": ["get", "list"]}
FIXED = {
    "/version": {"major": "1", "minor": "37", "gitVersion": "v1.37.0"},
    "/api": {"kind": "APIVersions", "versions": ["v1"]},
    "/apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "/api/v1": {"kind": "APIResourceList", "groupVersion": "v1", "resources": [SECRETS]},
}


@contextmanager
def cluster(secrets, directory):
    """A cluster that holds these Secrets; yields the file that tells helm how to reach it."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            path = self.path.split("?")[0]
            found = FIXED.get(path) or next((it for it in secrets if path == address(it)), None)
            missing = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}
            body = json.dumps(found or missing).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    config = directory / "kubeconfig"
    config.write_text(kubeconfig(server.server_port))
    try:
        yield config
    finally:
        server.shutdown()
        server.server_close()


def address(secret):
    place = secret["metadata"]
    return f"/api/v1/namespaces/{place['namespace']}/secrets/{place['name']}"


def kubeconfig(port):
    return json.dumps({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "it", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
        "users": [{"name": "it", "user": {}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
        "current-context": "it",
    })
