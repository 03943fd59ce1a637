"""Real processes: Baton, Redis. Each is stopped by whoever started it."""

import os
import socket
import subprocess
import time
import urllib.request
from contextlib import contextmanager

BATON = os.environ.get("BATON", "baton")
PATIENCE = 60


def baton(*arguments, **options):
    return subprocess.run(
        [BATON, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE, **options
    )


@contextmanager
def running(command, **options):
    process = subprocess.Popen(list(map(str, command)), **options)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def redis(config, tls=False):
    """A Redis with this configuration; yields its port."""
    # Somebody may take the port before Redis does. Then it ends, and another one is tried.
    for _ in range(10):
        port = free_port()
        ports = ["--port", 0, "--tls-port", port] if tls else ["--port", port]
        command = ["redis-server", config, *ports, "--bind", "127.0.0.1"]
        with running(command, stdout=subprocess.DEVNULL) as process:
            try:
                wait(process, lambda: socket.create_connection(("127.0.0.1", port)).close())
            except Ended:
                continue
            yield port
            return
    raise AssertionError("Redis does not start")


class Ended(Exception):
    """With which code."""


def wait(process, attempt):
    """Tries until it goes well, as long as the process lives."""
    end = time.monotonic() + PATIENCE
    while True:
        if process.poll() is not None:
            raise Ended(process.returncode)
        try:
            return attempt()
        except OSError:
            assert time.monotonic() < end, "it does not get ready"
            time.sleep(0.05)


def get(url):
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.read().decode()
