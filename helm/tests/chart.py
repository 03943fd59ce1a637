"""The chart, as helm renders it."""

import functools
import subprocess
from pathlib import Path

import yaml

TESTS = Path(__file__).parent
CHART = TESTS.parent / "baton"
PROJECT = TESTS.parents[1]
SETS = sorted(path.stem for path in (TESTS / "values").glob("*.yaml"))


def helm(*arguments, **options):
    """Runs helm; what it prints, and whether it was content."""
    return subprocess.run(
        ["helm", *map(str, arguments)], capture_output=True, text=True, timeout=60, **options
    )


def template(*arguments, **options):
    return helm("template", "baton", CHART, "--namespace", "apps", *arguments, **options)


def installed(*arguments, **options):
    """As `template`, with the one value that has no default."""
    return template("--set", "gateway.trustProxy={127.0.0.1}", *arguments, **options)


@functools.cache
def rendered(values):
    """One of the value sets, as text."""
    done = template("--values", TESTS / "values" / f"{values}.yaml")
    assert done.returncode == 0, done.stderr
    return done.stdout


def objects(values):
    return parse(rendered(values))


def parse(text):
    return [each for each in yaml.safe_load_all(text) if each]


def find(found, kind, name):
    """The one object of this kind and name."""
    [one] = [it for it in found if it["kind"] == kind and it["metadata"]["name"] == name]
    return one


def pod_specs(found):
    """All Pods, whoever makes them, by the object's name."""
    for each in found:
        if each["kind"] == "Pod":
            yield each["metadata"]["name"], each["spec"]
        elif "template" in each.get("spec", {}):
            yield each["metadata"]["name"], each["spec"]["template"]["spec"]
