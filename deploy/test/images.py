"""Baton's image, and those that the compose files name."""

import re
import subprocess
from contextlib import contextmanager
from pathlib import Path

import stand_in
from engine import output

PROJECT = Path(__file__).resolve().parents[2]
BATON = "baton:deploy-test"
LIMIT = 40_000_000


@contextmanager
def ready(docker, files):
    """Everything that these compose files want is there; what was made for the test is removed again."""
    made = [BATON]
    try:
        build(docker)
        looks_right(docker)
        for image in sorted(set().union(*map(named_in, files))):
            if not docker.has(image) and not pulled(docker, image):
                print(f"{image} cannot be pulled: this machine's programs stand in for it", flush=True)
                made.append(image)
                stand_in.make(docker, image)
        yield
    finally:
        for image in filter(docker.has, made):
            docker("image", "rm", "--force", image)


def named_in(file):
    """Images by their names; Baton's own is a variable."""
    return set(re.findall(r"^ +image: (\w\S+)$", file.read_text(), re.MULTILINE))


def build(docker):
    """From source with a Rust image, where there is one; else from what is built here by the same script."""
    base = argument("RUST")
    binary = "source" if docker.has(base) or pulled(docker, base) else "prebuilt"
    print(f"building the image: {binary}", flush=True)
    if binary == "prebuilt":
        subprocess.run([PROJECT / "deploy" / "build", PROJECT / "target" / "image"], check=True)
    # By the host's network, since an engine of our own has no bridge to build on.
    options = ["--network", "host", "--build-arg", f"BINARY={binary}"]
    docker("build", *options, "--tag", BATON, "--file", PROJECT / "deploy" / "Dockerfile", PROJECT)


def argument(name):
    """The default of a build argument."""
    lines = (PROJECT / "deploy" / "Dockerfile").read_text().splitlines()
    return next(line.split("=", 1)[1] for line in lines if line.startswith(f"ARG {name}="))


def looks_right(docker):
    image = docker.inspect(BATON)
    size = image["Size"]
    print(f"the image has {size / 1e6:.1f} MB", flush=True)
    assert size < LIMIT, f"{size} bytes are too many"
    assert image["Config"]["User"] == "65532:65532", image["Config"]["User"]
    confined = ["--rm", "--read-only", "--cap-drop", "ALL", "--network", "none"]
    assert docker("run", *confined, BATON, "--version").startswith("baton "), "it does not run"


def pulled(docker, image):
    try:
        output([docker.program, "pull", "--quiet", image], env=docker.env, timeout=300)
    except (RuntimeError, subprocess.TimeoutExpired):
        return False
    return True
