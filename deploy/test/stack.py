"""The compose files, brought up behind one balancer, and what has to hold then."""

import os
import socket
import subprocess

from engine import output, wait
from images import BATON, PROJECT
from load import Load

DEPLOY = PROJECT / "deploy"
# By balancer.
FILES = {
    "nginx": [DEPLOY / "compose.yaml"],
    "haproxy": [DEPLOY / "compose.yaml", DEPLOY / "compose.haproxy.yaml"],
    "envoy": [DEPLOY / "compose.yaml", DEPLOY / "compose.envoy.yaml"],
}
SERVICES = ["gateway-1", "gateway-2", "worker-1", "worker-2", "redis"]
# By which signal a balancer takes a new configuration. Envoy has none.
RELOAD = {"nginx": "HUP", "haproxy": "USR2"}
NAME = "baton-deploy-test"


class Stack:
    def __init__(self, docker, balancer, directory):
        self.docker, self.balancer, self.directory = docker, balancer, directory / balancer
        self.directory.mkdir()
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{probe.getsockname()[1]}"
        self.url = f"http://{address}"
        # Beside a stack that somebody uses.
        settings = {"COMPOSE_PROJECT_NAME": NAME, "BATON_IMAGE": BATON, "BATON_ADDRESS": address, "BATON_NETWORK": "172.31.88"}
        self.env = {**docker.env, **settings}
        self.files = [word for file in FILES[balancer] for word in ("-f", file)]

    def __enter__(self):
        try:
            self.compose("up", "--detach", "--no-build")
            wait("the balancer finds a gateway that is ready", lambda: self.curl("/readyz") == "200")
            return self
        except BaseException as error:
            self.__exit__(type(error))
            raise

    def __exit__(self, error, *_):
        if error:
            (self.directory / "compose.log").write_text(self.compose("logs", "--no-color"))
            print(f"logs are in {self.directory}", flush=True)
        self.compose("down", "--volumes", "--remove-orphans")

    def compose(self, *arguments):
        return output([*self.docker.compose, *self.files, *arguments], env=self.env)

    def container(self, service):
        return self.docker.inspect(self.compose("ps", "--quiet", service).strip())

    def processes(self, service):
        """Their ids, and who runs each."""
        lines = self.docker("top", self.container(service)["Id"], "-eo", "pid,uid").splitlines()[1:]
        return dict(line.split() for line in lines)

    def curl(self, path, *options, shows="%{http_code}"):
        command = ["curl", "-s", "-m", "10", "-o", "/dev/null", "-w", shows, *options, f"{self.url}{path}"]
        return subprocess.run(command, capture_output=True, text=True).stdout

    def is_confined(self):
        for service in [*SERVICES, "balancer"]:
            container = self.container(service)
            host = container["HostConfig"]
            assert host["ReadonlyRootfs"], f"{service} can write to its root"
            assert host["CapDrop"] == ["ALL"] and not host["CapAdd"], f"{service} has capabilities"
            assert "no-new-privileges:true" in host["SecurityOpt"], f"{service} may gain privileges"
            users = set(self.processes(service).values())
            assert users and "0" not in users, f"{service} runs as {users}"
            published = {it["HostIp"] for ports in host["PortBindings"].values() for it in ports}
            assert published <= {"127.0.0.1"}, f"{service} is reached by {published}"
        print("nothing runs as root or can write to its root", flush=True)

    def carries(self):
        assert self.curl("/metrics") == "404", "metrics are shown to the world"
        # nginx before 1.25.1 has another port for it, which stays in its container; with TLS it is the same everywhere.
        if self.balancer != "nginx":
            answer = self.curl("/readyz", "--http2-prior-knowledge", shows="%{http_code} %{http_version}")
            assert answer == "200 2", f"HTTP/2: {answer}"

    def plays_with_official_clients(self):
        clients = PROJECT / "cli" / "tests" / "clients"
        commands = {
            "Rust": [PROJECT / "target" / "clients" / "debug" / "scenario"],
            "TypeScript": ["node", clients / "typescript" / "scenario.mjs"],
            "Python": [clients / "python" / ".venv" / "bin" / "python", clients / "python" / "scenario.py"],
        }
        for transport in ["http", "ws"]:
            for name, command in commands.items():
                print(f"{name} client over {transport}", flush=True)
                said = output([*command, transport, f"{self.url}/acp"], timeout=120)
                assert said.endswith("scenario passed\n"), said

    def smoke(self):
        print("k6 smoke", flush=True)
        output([PROJECT / "loadtests" / "k6" / "run", "smoke"], env=self.for_k6(), timeout=120)

    def for_k6(self):
        return {**os.environ, "BASE_URL": self.url, "RESULTS": str(self.directory)}

    def restarts_under_load(self):
        with Load(self.for_k6(), self.directory) as load:
            load.is_under_way()
            for service in SERVICES:
                load.notices_nothing(f"{service} is restarted", lambda: self.restart(service))
            load.notices_nothing("gateway-1 is replaced", lambda: self.replace("gateway-1"))
            # nginx closes connections after the answer under way, though it had said that they stay: a client may have sent its next
            # request by then.
            if self.balancer in RELOAD:
                judge = load.recovers if self.balancer == "nginx" else load.notices_nothing
                judge("the balancer is reloaded", lambda: self.reload(RELOAD[self.balancer]))
            load.recovers("the balancer is restarted", lambda: self.restart("balancer"))

    def reload(self, signal):
        before = self.processes("balancer")
        self.compose("kill", "-s", signal, "balancer")
        wait("the balancer has new processes", lambda: self.processes("balancer").keys() - before.keys())

    def restart(self, service):
        self.renews(service, "restart", service)

    def replace(self, service):
        """As for a new version: by another container."""
        self.renews(service, "up", "--detach", "--no-build", "--no-deps", "--force-recreate", service)

    def renews(self, service, *command):
        before = self.container(service)["State"]["StartedAt"]
        self.compose(*command)
        wait(f"{service} is there again", lambda: self.is_back(service, before))

    def is_back(self, service, before):
        state = self.container(service)["State"]
        healthy = state.get("Health", {}).get("Status", "healthy") == "healthy"
        return state["Running"] and healthy and state["StartedAt"] != before

    def left_nothing(self):
        mine = ["--filter", f"label=com.docker.compose.project={NAME}", "--quiet"]
        for what in [("ps", "--all"), ("network", "ls"), ("volume", "ls")]:
            left = self.docker(*what, *mine).split()
            assert not left, f"docker {' '.join(what)} still has {left}"
