#!/usr/bin/env python3
"""Starts Redis, a gateway and a worker, measures a caller alone, then while others attack, and says
what became of it. Exit status 1 if a promise is broken.

usage: siege.py --baton PATH [--seconds 60] [--quiet 30]"""

import argparse
import asyncio
import hashlib
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from wire import Caller, Target, Wire

HERE = pathlib.Path(__file__).parent
# The bodies that one sends use up what it may send, so whoever floods is another caller.
KEYS = {name: f"bk_siege_{name}" for name in ["quiet", "bodies", "floods", "stranger"]}
# What each caller may take. An operator who lets strangers in sets these.
LIMITS = ["--limit-requests", "100", "--limit-bytes", "2000000", "--limit-streams", "100",
          "--limit-sessions", "200", "--limit-turns", "10"]
INFLIGHT = 256 << 20
# The promises.
RATIO = 5
BOUND = INFLIGHT + (128 << 20)
PACE = 0.2
ROLES = ["bodies", "floods", "stranger"]
NICE = "5"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Processes:
    """What is started here ends here."""

    def __init__(self, folder):
        self.folder = folder
        self.all = []

    def start(self, name, command, **more):
        log = open(self.folder / f"{name}.log", "wb")
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, **more)
        self.all.append(process)
        return process

    def stop(self):
        for process in reversed(self.all):
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()


def answers(url):
    try:
        with urllib.request.urlopen(url, timeout=1) as answer:
            return answer.status == 200
    except OSError:
        return False


def wait_until(what, is_so):
    for _ in range(300):
        if is_so():
            return
        time.sleep(0.1)
    raise SystemExit(f"siege: gave up waiting: {what}")


def start(baton, processes):
    """A port, and the processes whose memory is bounded."""
    folder = processes.folder
    redis, port = free_port(), free_port()
    processes.start("redis", ["redis-server", "--port", str(redis), "--bind", "127.0.0.1", "--save", "",
                              "--appendonly", "yes", "--dir", str(folder)])
    keys = folder / "keys.json"
    keys.write_bytes(subprocess.run([baton, "token", "keygen"], check=True, capture_output=True).stdout)
    keys.chmod(0o600)
    callers = folder / "api-keys.json"
    entries = [{"principal": name, "sha256": hashlib.sha256(key.encode()).hexdigest()} for name, key in KEYS.items() if name != "stranger"]
    callers.write_text(json.dumps({"keys": entries}))
    callers.chmod(0o600)
    store = f"redis://127.0.0.1:{redis}"
    wait_until("Redis", lambda: socket.socket().connect_ex(("127.0.0.1", redis)) == 0)
    gateway = processes.start("gateway", [
        baton, "gateway", "--store", store, "--listen", f"127.0.0.1:{port}", "--keys", str(keys), "--auth", "keys",
        "--auth-keys", str(callers), "--max-inflight-bytes", str(INFLIGHT), *LIMITS])
    worker = processes.start("worker", [baton, "worker", "--store", store])
    wait_until("the gateway", lambda: answers(f"http://127.0.0.1:{port}/readyz"))
    return port, {"gateway": gateway, "worker": worker}


def memory(process):
    for line in open(f"/proc/{process.pid}/status"):
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) << 10
    return 0


async def watch(processes, most):
    while True:
        for name, process in processes.items():
            most[name] = max(most[name], memory(process))
        await asyncio.sleep(0.25)


async def ready(port):
    """A worker makes itself known when it has connected."""
    for _ in range(100):
        try:
            return await Caller(Target(port, KEYS["quiet"])).initialize()
        except Exception:
            await asyncio.sleep(0.1)
    raise SystemExit("siege: no agent was registered")


async def work(port, caller, session, until):
    """Turns at a steady pace, every other one on a connection of its own. Times, and what went wrong."""
    times, refused = [], []
    turns = 0
    while time.perf_counter() < until:
        began = time.perf_counter()
        turns += 1
        wire = Wire(Target(port, KEYS["quiet"])) if turns % 2 else None
        try:
            times.append(await caller.turn(session, wire=wire))
        except Exception as error:
            refused.append(f"{type(error).__name__}: {error}")
        finally:
            if wire:
                wire.close()
        await asyncio.sleep(max(0, PACE - (time.perf_counter() - began)))
    return times, refused


def percentile(times, share):
    return sorted(times)[min(len(times) - 1, int(len(times) * share))] * 1000


async def run(arguments, processes):
    port, served = start(arguments.baton, processes)
    caller = await ready(port)
    session = await caller.new_session()
    for _ in range(10):
        await caller.turn(session)
    most = {name: 0 for name in served}
    watching = asyncio.create_task(watch(served, most))
    quiet, refused_quiet = await work(port, caller, session, time.perf_counter() + arguments.quiet)
    # Attackers have machines of their own: here they get what the others leave of this one.
    attacks = [await asyncio.create_subprocess_exec(
        "nice", "-n", NICE, sys.executable, str(HERE / "attack.py"), role, str(port), KEYS[role],
        str(arguments.seconds), session, stdout=subprocess.PIPE) for role in ROLES]
    siege, refused = await work(port, caller, session, time.perf_counter() + arguments.seconds)
    attempts = {}
    for attack in attacks:
        tried = json.loads((await attack.communicate())[0] or b"{}")
        if not tried:
            raise SystemExit("siege: an attack did not take place")
        attempts.update(tried)
    after, refused_after = await work(port, caller, session, time.perf_counter() + 5)
    watching.cancel()
    return quiet, siege, after, refused_quiet + refused + refused_after, most, attempts


def report(arguments, quiet, siege, after, refused, most, attempts):
    ratio = percentile(siege, 0.99) / percentile(quiet, 0.99) if siege else float("inf")
    print(f"\n{arguments.seconds:.0f} s, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}\n")
    print("| the other caller's turns | number | p50 ms | p99 ms |\n|---|---|---|---|")
    for name, times in [("quiet", quiet), ("under siege", siege), ("after it", after)]:
        print(f"| {name} | {len(times)} | {percentile(times, 0.5):.1f} | {percentile(times, 0.99):.1f} |")
    print("\n| promise | limit | seen | |\n|---|---|---|---|")
    rows = [("p99 under siege to quiet", f"{RATIO} ×", f"{ratio:.1f} ×", ratio <= RATIO),
            ("refused to the other caller", "0", str(len(refused)), not refused)]
    for name, seen in most.items():
        rows.append((f"memory of the {name} (RSS)", f"{BOUND >> 20} MiB", f"{seen >> 20} MiB", seen <= BOUND))
    for name, limit, seen, kept in rows:
        print(f"| {name} | {limit} | {seen} | {'kept' if kept else 'BROKEN'} |")
    print("\n| attack, and how it was answered | times |\n|---|---|")
    for name, times in attempts.items():
        print(f"| {name} | {times} |")
    for fault in refused[:10]:
        print(f"refused: {fault}", file=sys.stderr)
    return 0 if all(kept for *_, kept in rows) else 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--baton", required=True)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--quiet", type=float, default=30)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        processes = Processes(pathlib.Path(folder))
        try:
            outcome = asyncio.run(asyncio.wait_for(run(arguments, processes), arguments.seconds + arguments.quiet + 120))
        finally:
            processes.stop()
    sys.exit(report(arguments, *outcome))


if __name__ == "__main__":
    main()
