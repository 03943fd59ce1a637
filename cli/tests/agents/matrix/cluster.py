"""Two gateways, two workers and Redis, on free ports, in a directory that is removed at the end."""

import http.client
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time

LEASE_MS = 2000
REST = "4s"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def children_of(process):
    """All processes that it has started, and those that they have started."""
    found = []
    try:
        for thread in os.listdir(f"/proc/{process}/task"):
            with open(f"/proc/{process}/task/{thread}/children") as children:
                for child in map(int, children.read().split()):
                    found += [child, *children_of(child)]
    except OSError:
        pass
    return found


class Cluster:
    def __init__(self, baton, logs):
        self.baton, self.logs = str(baton), logs
        # Not where sessions are: no agent may be in a directory that holds the store's files.
        self.directory = tempfile.mkdtemp(prefix="baton-agents-", dir="/var/tmp")
        self.processes = {}
        self.redis_port = free_port()
        self.ports = [free_port(), free_port()]
        self.environment = {
            name: value for name, value in os.environ.items() if not name.startswith("BATON_") and "_API_KEY" not in name
        }

    def __enter__(self):
        redis = ["redis-server", "--port", str(self.redis_port), "--bind", "127.0.0.1", "--save", ""]
        self.start("redis", [*redis, "--appendonly", "yes", "--dir", self.directory])
        self.until("Redis answers", lambda: self.redis("ping") == "PONG")
        keys = os.path.join(self.directory, "keys.json")
        subprocess.run([self.baton, "token", "keygen", "--file", keys], check=True, capture_output=True)
        for number, port in enumerate(self.ports):
            listen = ["--listen", f"127.0.0.1:{port}", "--keys", keys, "--admin-listen", "none"]
            self.start(f"gateway-{number}", [self.baton, "gateway", *self.store(), *listen])
        return self

    def __exit__(self, *_):
        for name in list(self.processes):
            self.end(name)
        shutil.rmtree(self.directory, ignore_errors=True)

    def store(self):
        return ["--store", f"redis://127.0.0.1:{self.redis_port}"]

    def start(self, name, command, environment=None):
        log = open(self.logs / f"{name}.log", "ab")
        environment = {**self.environment, **(environment or {})}
        self.processes[name] = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, cwd=self.directory
        )

    def end(self, name, with_signal=signal.SIGTERM):
        process = self.processes.pop(name, None)
        if process is None:
            return
        process.send_signal(with_signal)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def until(self, what, holds, patience=60):
        end = time.monotonic() + patience
        while not holds():
            if time.monotonic() > end:
                raise RuntimeError(f"waited for: {what}")
            time.sleep(0.05)

    def redis(self, *words):
        command = ["redis-cli", "-p", str(self.redis_port), *words]
        return subprocess.run(command, capture_output=True, text=True).stdout.strip()

    def start_workers(self, agent, environment, arguments):
        """`agent` is for `--agent`; both are up when this returns."""
        self.workers = {}
        for number in range(2):
            name = f"worker-{number}"
            self.start_worker(name, agent, environment, arguments)
            # One after the other: some agents set up their home at their first start, and not twice at once.
            self.until(f"workers run {agent}", lambda: self.registered(agent) == number + 1, 120)
        path = f"/acp/{agent}"
        return [f"http://127.0.0.1:{port}{path}" for port in self.ports]

    def start_worker(self, name, agent, environment, arguments):
        open(self.logs / f"{name}.log", "ab").close()
        self.started = (agent, environment, arguments)
        options = ["--agent", agent, "--agent-idle", REST, "--lease-ms", str(LEASE_MS)]
        options += ["--allow-mcp-stdio", "**", *arguments]
        self.start(name, [self.baton, "worker", *self.store(), *options], environment)

    def stop_workers(self):
        for name in [name for name in self.processes if name.startswith("worker")]:
            self.end(name)

    def registered(self, agent):
        for name in ("worker-0", "worker-1"):
            if name in self.processes and self.processes[name].poll() is not None:
                log = (self.logs / f"{name}.log").read_text(errors="replace")
                raise RuntimeError(f"a worker ended: {log[-1500:]}")
        import json

        connection = http.client.HTTPConnection("127.0.0.1", self.ports[0], timeout=10)
        try:
            connection.request("GET", "/v1/agents")
            agents = json.loads(connection.getresponse().read()).get("agents", [])
        except (OSError, ValueError):
            return 0
        finally:
            connection.close()
        return sum(one["workers"] for one in agents if one["name"] == agent)

    def holder(self, session):
        """The name of the worker that held the session last."""
        tag = session.split("-")[0]
        worker = self.redis("hget", f"baton:{{{tag}}}:s:{session}", "wk")
        for name in ("worker-0", "worker-1"):
            if worker and worker in (self.logs / f"{name}.log").read_text(errors="replace"):
                return name
        raise RuntimeError(f"no worker has the id {worker!r}")

    def agents_of(self, name):
        """The processes of all agents of a worker."""
        return children_of(self.processes[name].pid)

    def rest(self):
        """Until no agent runs any more."""
        names = ("worker-0", "worker-1")
        self.until("agents rest", lambda: not any(self.agents_of(name) for name in names))

    def kill(self, name):
        """kill -9, and another in its place. Nothing of its agents may be left."""
        left = self.agents_of(name)
        self.end(name, signal.SIGKILL)
        self.start_worker(name, *self.started)
        is_alive = lambda process: os.path.exists(f"/proc/{process}") and not is_zombie(process)
        self.until("a killed worker's agents end", lambda: not any(map(is_alive, left)))


def is_zombie(process):
    try:
        with open(f"/proc/{process}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0] == "Z"
    except (OSError, IndexError):
        return True
