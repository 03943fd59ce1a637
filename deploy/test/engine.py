"""The Docker engine: the one that runs or, where none does, one of our own that ends with the test."""

import json
import os
import shutil
import subprocess
import time
from contextlib import contextmanager

PATIENCE = 60


class Docker:
    def __init__(self, program, host=None):
        self.program = program
        self.env = {**os.environ, "DOCKER_BUILDKIT": "1"}
        if host:
            self.env["DOCKER_HOST"] = host
        plugin = subprocess.run([program, "compose", "version"], capture_output=True, env=self.env)
        self.compose = [program, "compose"] if plugin.returncode == 0 else ["docker-compose"]

    def __call__(self, *arguments, **options):
        """Runs a command of docker and returns what it prints."""
        return output([self.program, *arguments], env=self.env, **options)

    def has(self, image):
        return subprocess.run([self.program, "image", "inspect", image], capture_output=True, env=self.env).returncode == 0

    def inspect(self, what):
        return json.loads(self("inspect", what))[0]


def output(command, **options):
    """What a command prints. If it fails, what it said is part of the error."""
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout


def wait(what, attempt):
    """Until it is true; then what it is."""
    end = time.monotonic() + PATIENCE
    while True:
        found = attempt()
        if found:
            return found
        if time.monotonic() > end:
            raise RuntimeError(f"waited {PATIENCE} s for: {what}")
        time.sleep(0.1)


@contextmanager
def engine(directory):
    if subprocess.run(["docker", "info"], capture_output=True).returncode == 0:
        yield Docker("docker")
        return
    # The client of the engine's own package: others may want plugins that are not there.
    docker = Docker("/usr/bin/docker", host=f"unix://{directory}/docker.sock")
    # Without rules for packets and a default bridge it runs in most sandboxes. Published ports are then carried by a process of
    # the engine's.
    options = ["--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver", "overlay2"]
    places = ["--data-root", directory / "data", "--exec-root", directory / "exec", "--pidfile", directory / "docker.pid"]
    with (directory / "engine.log").open("w") as log:
        command = ["dockerd", "--host", docker.env["DOCKER_HOST"], *places, *options]
        process = subprocess.Popen(list(map(str, command)), stdout=log, stderr=log, start_new_session=True)
        try:
            wait("the engine", lambda: process.poll() is None and answers(docker))
            yield docker
        finally:
            process.terminate()
            process.wait(PATIENCE)
            # Its log stays, if something went wrong.
            for place in ["data", "exec"]:
                shutil.rmtree(directory / place, ignore_errors=True)


def answers(docker):
    return subprocess.run([docker.program, "info"], capture_output=True, env=docker.env).returncode == 0
