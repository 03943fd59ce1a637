#!/usr/bin/env python3
"""An agent that looks for what is not its own. A prompt is JSON that says where to look; the answer is JSON
with all that it came away with, and what it could do in its own places.

    {"pids": […], "files": […], "folders": […], "write": […], "ports": […], "sockets": […], "own": […]}

Everything is tried by the agent, by a child, and by an orphan.
"""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import uuid

libc = ctypes.CDLL(None, use_errno=True)
loot = []


def attempt(what, deed):
    try:
        got = deed()
    except (OSError, ValueError):
        return
    if got:
        loot.append({"what": what, "got": repr(got)[:300]})


def read(path):
    with open(path, "rb") as file:
        return file.read(4096)


def memory_of(pid):
    """The first bytes of the first readable mapping."""
    with open(f"/proc/{pid}/maps") as maps:
        start = int(maps.readline().split("-")[0], 16)
    with open(f"/proc/{pid}/mem", "rb") as memory:
        memory.seek(start)
        return memory.read(64)


def attach_to(pid):
    if libc.ptrace(16, pid, None, None) != 0:  # PTRACE_ATTACH
        return None
    os.waitpid(pid, 0)
    libc.ptrace(17, pid, None, None)
    return "attached"


def read_vm(pid):
    class Vector(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    buffer = ctypes.create_string_buffer(64)
    here = Vector(ctypes.cast(buffer, ctypes.c_void_p), 64)
    there = Vector(0x400000, 64)
    done = libc.process_vm_readv(pid, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    # A bad address means that the process itself was open to us.
    return "readable" if done >= 0 or ctypes.get_errno() == 14 else None


def look_into(pid):
    for name in ("environ", "cmdline", "status", "maps", "auxv", "smaps", "io"):
        attempt(f"/proc/{pid}/{name}", lambda: read(f"/proc/{pid}/{name}"))
    for name in ("fd", "task"):
        attempt(f"/proc/{pid}/{name}", lambda: os.listdir(f"/proc/{pid}/{name}"))
    attempt(f"/proc/{pid}/root", lambda: os.listdir(f"/proc/{pid}/root/root"))
    attempt(f"memory of {pid}", lambda: memory_of(pid))
    attempt(f"ptrace {pid}", lambda: attach_to(pid))
    attempt(f"process_vm_readv {pid}", lambda: read_vm(pid))
    attempt(f"signal to {pid}", lambda: os.kill(pid, 0) is None and os.kill(pid, signal.SIGCONT) is None)


def strangers():
    """Processes in /proc that have not the folder in their environment that this agent alone was given."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if b"\nState:\tZ" in read(f"/proc/{pid}/status"):
                continue
            if os.environ["TMPDIR"].encode() in open(f"/proc/{pid}/environ", "rb").read():
                continue
        except (FileNotFoundError, ProcessLookupError):
            continue
        except OSError:
            pass
        found.append(pid)
    return found


def uncover(path):
    """What is beneath what was mounted there."""
    return libc.umount2(path.encode(), 2) == 0 and "uncovered"  # MNT_DETACH


def another_proc():
    mine = os.path.join(os.getcwd(), f"proc-{uuid.uuid4()}")
    os.mkdir(mine)
    try:
        return libc.mount(b"proc", mine.encode(), b"proc", 0, None) == 0 and "mounted"
    finally:
        os.rmdir(mine)


def ways_to(path):
    """Other names of the same file."""
    here = os.getcwd()
    yield path
    yield os.path.relpath(path, here)
    yield f"/proc/self/root{path}"
    yield f"/proc/self/cwd/{os.path.relpath(path, here)}"
    link = os.path.join(here, f"link-{uuid.uuid4()}")
    os.symlink(path, link)
    yield link
    folder = os.path.join(here, f"folder-{uuid.uuid4()}")
    os.symlink(os.path.dirname(path), folder)
    yield os.path.join(folder, os.path.basename(path))
    os.unlink(link)
    os.unlink(folder)


def hard_link(path):
    mine = os.path.join(os.getcwd(), f"hard-{uuid.uuid4()}")
    os.link(path, mine)
    return read(mine) or "linked"


def move_here(path):
    mine = os.path.join(os.getcwd(), f"moved-{uuid.uuid4()}")
    os.rename(path, mine)
    return "moved"


def move_there(path):
    mine = os.path.join(os.getcwd(), f"mine-{uuid.uuid4()}")
    os.mkdir(mine)
    try:
        os.rename(mine, os.path.join(path, "mine"))
    except OSError:
        os.rmdir(mine)
        raise
    return "moved"


def write(path):
    with open(path, "ab") as file:
        file.write(b"x")
    return "written"


def through_another_directory(path):
    """Relative, from a working directory outside."""
    before = os.getcwd()
    os.chdir(os.path.dirname(path))
    try:
        return read(os.path.basename(path))
    finally:
        os.chdir(before)


def connected(port):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as line:
        return f"connected to {line.getpeername()}"


def redis_keys(port):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as line:
        line.sendall(b"KEYS *\r\n")
        answer = line.recv(4096)
        return None if answer.startswith(b"-") else answer


def dialled(path):
    with socket.socket(socket.AF_UNIX) as line:
        line.connect("\0" + path[1:] if path.startswith("@") else path)
        return "connected"


def look(orders):
    for pid in orders.get("pids", []):
        look_into(pid)
    for path in orders.get("files", []):
        for way in ways_to(path):
            attempt(f"read {way}", lambda: read(way))
        attempt(f"link {path}", lambda: hard_link(path))
        attempt(f"read from outside {path}", lambda: through_another_directory(path))
        attempt(f"append to {path}", lambda: write(path))
        attempt(f"truncate {path}", lambda: os.truncate(path, 0) is None and "truncated")
        attempt(f"remove {path}", lambda: os.unlink(path) is None and "removed")
    for path in orders.get("folders", []):
        attempt(f"list {path}", lambda: os.listdir(path))
        attempt(f"walk {path}", lambda: [read(os.path.join(at, name)) for at, _, all in os.walk(path) for name in all])
        attempt(f"move {path}", lambda: move_here(path))
        attempt(f"move into {path}", lambda: move_there(path))
        attempt(f"make a file in {path}", lambda: write(os.path.join(path, f"made-{uuid.uuid4()}")))
    attempt("strangers in /proc", strangers)
    for path in ("/proc", "/proc/keys", "/proc/bus"):
        attempt(f"uncover {path}", lambda: uncover(path))
    attempt("another /proc", another_proc)
    for path in ("kcore", "kmsg", "kallsyms", "keys", "bus/pci/devices", "modules", "iomem"):
        attempt(f"/proc/{path}", lambda: read(f"/proc/{path}"))
    attempt("set a sysctl", lambda: write("/proc/sys/kernel/core_pattern"))
    for port in orders.get("ports", []):
        attempt(f"connect to {port}", lambda: connected(port))
    for port in orders.get("redis", []):
        attempt(f"ask Redis on {port}", lambda: redis_keys(port))
    for path in orders.get("sockets", []):
        attempt(f"connect to {path}", lambda: dialled(path))
    return loot


def by_others(orders):
    """The same once more, by a child, and by one whose parent is gone."""
    again = [sys.executable, os.path.abspath(__file__), "--look", json.dumps(orders)]
    child = subprocess.run(again, capture_output=True, text=True)
    orphan = subprocess.Popen(
        ["sh", "-c", '(setsid "$@" >orphan.json 2>orphan.err; echo done >orphan.done) & exit 0', "sh", *again]
    )
    orphan.wait()
    while not os.path.exists("orphan.done"):
        pass
    texts = [child.stdout, open("orphan.json").read()]
    for name in ("orphan.json", "orphan.err", "orphan.done"):
        os.unlink(name)
    return [found for text in texts for found in json.loads(text)]


def own(places):
    """What any agent may do, and did."""
    done = []
    for place in [*places, os.environ["TMPDIR"], os.environ["HOME"]]:
        path = os.path.join(place, f"own-{uuid.uuid4()}")
        with open(path, "w") as file:
            file.write("mine")
        os.rename(path, path + ".moved")
        os.mkdir(path)
        os.rename(path + ".moved", os.path.join(path, "inside"))
        done.append(read(os.path.join(path, "inside")).decode())
        subprocess.run(["rm", "-r", path], check=True)
    done.append(subprocess.run(["sh", "-c", "git --version; echo x >/dev/null; cat /etc/hosts >/dev/null && echo ok"],
                               capture_output=True, text=True).stdout.split()[-1])
    done.append(read("/proc/self/status").split()[0].decode())
    done.append(read("/proc/meminfo").split()[0].decode())
    return done


def say(session, text):
    content = {"type": "text", "text": text}
    params = {"sessionId": session, "update": {"sessionUpdate": "agent_message_chunk", "content": content}}
    print(json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": params}), flush=True)


def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": 1, "agentInfo": {"name": "hostile", "version": "1"}, "agentCapabilities": {}}
    if method == "session/new":
        return {"sessionId": str(uuid.uuid4())}
    if method == "session/prompt":
        loot.clear()
        orders = json.loads(params["prompt"][-1]["text"])
        # The guard, for those who have another parent as well.
        orders["pids"] = orders.get("pids", []) + [os.getppid()]
        report = {"loot": look(orders) + by_others(orders), "own": own(orders.get("own", []))}
        say(params["sessionId"], json.dumps(report))
        return {"stopReason": "end_turn"}
    return {}


if sys.argv[1:2] == ["--look"]:
    print(json.dumps(look(json.loads(sys.argv[2]))))
    sys.exit()

for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        result = answer(message["method"], message.get("params") or {})
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
