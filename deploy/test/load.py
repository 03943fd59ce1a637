"""Turns by k6 while something happens: the script `rollout`, whose clients send what was cut off again, with its cursor."""

import json
import socket
import subprocess
import urllib.request
from pathlib import Path

from engine import PATIENCE, wait

RUN = Path(__file__).resolve().parents[2] / "loadtests" / "k6" / "run"
CLIENTS = 8
# Longer than everything takes; it is stopped when that is done.
SECONDS = 1200


class Load:
    def __init__(self, env, directory):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.api = f"127.0.0.1:{probe.getsockname()[1]}"
        self.env = {**env, "CLIENTS": str(CLIENTS), "DURATION": str(SECONDS)}
        self.log = directory / "rollout.log"

    def __enter__(self):
        with self.log.open("w") as log:
            self.k6 = subprocess.Popen([RUN, "rollout", "--address", self.api], env=self.env, stdout=log, stderr=log)
        return self

    def __exit__(self, *_):
        self.k6.terminate()
        self.k6.wait(PATIENCE)

    def is_under_way(self):
        """Every client has a connection and a session, and has spoken."""
        wait("k6 answers", lambda: self.figures() is not None)
        self.goes_on()

    def notices_nothing(self, what, act):
        again = self.during(what, act)
        assert again == 0, f"{what}: {again} requests had to be sent again; see {self.log}"

    def recovers(self, what, act):
        """Requests may be cut off, if their clients get all they asked for when they send them again."""
        self.during(what, act)

    def during(self, what, act):
        """Does it, waits for some turns more, and returns how many requests were not answered at once. A turn that fails, lacks an
        event or has one twice is never good."""
        before = self.figures()
        act()
        self.goes_on()
        after = self.figures()
        good, again = (after[name] - before[name] for name in ["turns_good", "sent_again"])
        print(f"{what}: {good} good turns, {again} requests sent again", flush=True)
        for name in ["turns_wrong", "requests_refused"]:
            assert after[name] == 0, f"{what}: {name} is {after[name]}; see {self.log}"
        return again

    def goes_on(self):
        """Until about two more turns of every client are done: one that was under way, one that began later."""
        enough = self.figures()["turns_good"] + 2 * CLIENTS
        wait("turns are answered", lambda: self.figures()["turns_good"] >= enough)

    def figures(self):
        """The script's counters so far. What has not happened yet is 0."""
        assert self.k6.poll() is None, f"k6 has ended; see {self.log}"
        try:
            with urllib.request.urlopen(f"http://{self.api}/v1/metrics", timeout=PATIENCE) as answer:
                metrics = json.load(answer)["data"]
        except OSError:
            return None
        counts = {metric["id"]: metric["attributes"]["sample"].get("count", 0) for metric in metrics}
        return {name: int(counts.get(name, 0)) for name in ["turns_good", "turns_wrong", "requests_refused", "sent_again"]}
