"""What scripts/deploy-test runs once everything is installed. Arguments are balancers; without any it is all of them."""

import shutil
import signal
import sys
import tempfile
from pathlib import Path

import images
from engine import engine
from stack import FILES, Stack


def main(balancers):
    unknown = set(balancers) - set(FILES)
    if unknown:
        sys.exit(f"{', '.join(sorted(unknown))}: the balancers are {', '.join(FILES)}")
    # Whoever stops it has everything taken down first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    directory = Path(tempfile.mkdtemp(prefix="baton-deploy-"))
    with engine(directory) as docker, images.ready(docker, [file for name in balancers for file in FILES[name]]):
        for name in balancers:
            print(f"\n== {name}", flush=True)
            try_behind(docker, name, directory)
    shutil.rmtree(directory)
    print("\nall is well")


def try_behind(docker, balancer, directory):
    with Stack(docker, balancer, directory) as stack:
        stack.is_confined()
        stack.carries()
        stack.plays_with_official_clients()
        stack.smoke()
        stack.restarts_under_load()
    stack.left_nothing()


if __name__ == "__main__":
    main(sys.argv[1:] or list(FILES))
