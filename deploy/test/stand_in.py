"""Images that stand in for those of a registry that cannot be reached: the same programs, as they are installed here, at the
same places, for the same users, without a shell. What is different: their versions, and the scripts that official images start
programs by."""

import io
import shutil
import subprocess
import tarfile
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
ENVOY = PROJECT / "cli" / "tests" / "balancers" / ".venv" / "lib"


def make(docker, image):
    process = subprocess.Popen(
        [docker.program, "import", "--change", "ENV PATH=/usr/bin", "-", image],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=docker.env,
    )
    with process.stdin, tarfile.open(fileobj=process.stdin, mode="w|") as tar:
        fill(tar, image.split(":")[0].split("/")[-1])
    if process.wait() != 0:
        raise RuntimeError(f"cannot import a stand-in for {image}")


def fill(tar, kind):
    programs = {
        "redis": ["redis-server", "redis-cli"],
        "nginx": ["nginx"],
        "haproxy": ["haproxy"],
        "envoy": [next(ENVOY.glob("python*/site-packages/envoy/_bin/envoy"), "envoy")],
    }
    directory(tar, "tmp", mode=0o1777)
    if kind == "redis":
        directory(tar, "data", owner=999)
    if kind == "nginx":
        # Where Debian's looks for what others have in /var/cache.
        directory(tar, "var/cache/nginx")
        link = entry("var/lib/nginx", tarfile.SYMTYPE, 0o777)
        link.linkname = "/var/cache/nginx"
        tar.addfile(link)
    libraries = set()
    for program in programs[kind]:
        path = shutil.which(program)
        if not path:
            raise RuntimeError(f"{program} is missing: run make setup first")
        add(tar, path, f"usr/bin/{Path(path).name}")
        libraries |= needed_by(path)
    for library in sorted(libraries):
        add(tar, library, library.lstrip("/"))


def needed_by(program):
    printed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return {word for word in printed.split() if word.startswith("/")}


def add(tar, path, name):
    content = Path(path).read_bytes()
    info = entry(name, tarfile.REGTYPE, 0o755)
    info.size = len(content)
    tar.addfile(info, io.BytesIO(content))


def directory(tar, name, owner=0, mode=0o755):
    info = entry(name, tarfile.DIRTYPE, mode)
    info.uid = info.gid = owner
    tar.addfile(info)


def entry(name, kind, mode):
    info = tarfile.TarInfo(name)
    info.type, info.mode = kind, mode
    return info
