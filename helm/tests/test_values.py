"""Values: each is explained, each that is wrong is refused, each variable they become is one that Baton knows."""

import json
import re

import pytest
import yaml

from chart import CHART, PROJECT, SETS, TESTS, objects, pod_specs, template

REFUSED = yaml.safe_load((TESTS / "refused.yaml").read_text())


@pytest.mark.parametrize("case", REFUSED, ids=[case["says"] for case in REFUSED])
def test_what_is_wrong_is_refused(case, tmp_path):
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump(case["values"]))
    done = template("--values", file)
    assert done.returncode != 0, "it was taken"
    assert case["says"] in done.stderr


def test_all_faults_are_told_at_once():
    done = template("--set", "auth.mode=none,gateway.defaultAgent=nobody,redis.enabled=false")
    for fault in ["auth.mode", "gateway.defaultAgent", "store.external"]:
        assert fault in done.stderr


def test_every_value_has_a_comment():
    lines = (CHART / "values.yaml").read_text().splitlines()
    bare = []
    for at, line in enumerate(lines):
        leaf = re.match(r"\s*[\w./-]+: +\S", line)
        if leaf and not lines[at - 1].lstrip().startswith("#"):
            bare.append(f"{at + 1}: {line}")
    assert not bare


def test_the_schema_knows_every_value_and_nothing_else():
    """Whatever has a default is in the schema, and whatever is in the schema has a default."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    differences = []
    compare(schema, schema, values, "", differences)
    assert not differences


def compare(schema, at, values, path, differences):
    if "$ref" in at:
        at = schema["definitions"][at["$ref"].rsplit("/", 1)[1]]
    if "properties" not in at or not isinstance(values, dict):
        return
    assert at["additionalProperties"] is False, path
    # `global` is Helm's, and containers need no limit on everything.
    free = path.endswith("resources")
    for name in at["properties"].keys() ^ values.keys():
        if name != "global" and not free:
            differences.append(f"{path}.{name}")
    for name in at["properties"].keys() & values.keys():
        compare(schema, at["properties"][name], values[name], f"{path}.{name}", differences)


@pytest.mark.parametrize("values", SETS)
def test_every_variable_is_one_that_baton_knows(values):
    pages = [PROJECT / "docs" / "reference" / name for name in ("options.md", "option-details.md")]
    known = {name for page in pages for name in re.findall(r"`(BATON_[A-Z_]+)`", page.read_text())}
    for _, spec in pod_specs(objects(values)):
        for container in spec["containers"]:
            ours = {it["name"] for it in container.get("env", []) if it["name"].startswith("BATON_")}
            assert ours <= known
