"""What is rendered is what Kubernetes takes, and what was reviewed."""

import os
import re
import shutil
import subprocess

import jsonschema
import kubernetes_validate
import pytest
import yaml

from chart import CHART, PROJECT, SETS, TESTS, find, helm, objects, parse, rendered, template

# The oldest that Chart.yaml allows, and the newest there are schemas for.
KUBERNETES = ["1.30", "1.37"]


def test_the_eight_sets_are_there():
    assert SETS == [
        "gateway-api", "keda", "minimal", "no-ingress", "production", "redis-cluster", "redis-sentinel", "two-pools",
    ]


@pytest.mark.parametrize("values", SETS)
def test_helm_finds_no_fault(values):
    done = helm("lint", "--strict", CHART, "--values", TESTS / "values" / f"{values}.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_can_be_packaged(tmp_path):
    done = helm("package", CHART, "--destination", tmp_path)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("values", SETS)
@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_takes_it(values, version):
    """Kubernetes' own kinds by its schemas; those of others by the shapes kept here. No kind has neither."""
    for each in objects(values):
        try:
            kubernetes_validate.validate(each, version, strict=True)
        except kubernetes_validate.SchemaNotFoundError:
            shape = TESTS / "shapes" / f"{each['kind']}.yaml"
            jsonschema.validate(each, yaml.safe_load(shape.read_text()))


def test_the_experimental_field_is_where_it_belongs():
    done = template("--values", TESTS / "values" / "gateway-api.yaml", "--set", "gatewayApi.sessionRouting=sessionPersistence")
    assert done.returncode == 0, done.stderr
    route = find(parse(done.stdout), "HTTPRoute", "baton")
    jsonschema.validate(route, yaml.safe_load((TESTS / "shapes" / "HTTPRoute.yaml").read_text()))
    assert route["spec"]["rules"][0]["sessionPersistence"]["type"] == "Cookie"


@pytest.mark.parametrize("values", SETS)
def test_whoever_installs_it_is_told_what_to_do_next(values, tmp_path):
    """Helm shows the notes only when it installs, so they become an object in a copy of the chart."""
    copy = shutil.copytree(CHART, tmp_path / "baton")
    notes = (copy / "templates" / "NOTES.txt").read_text()
    wrapped = '{{ define "notes" }}' + notes + '{{ end }}\nkind: Notes\ntext: {{ include "notes" . | quote }}\n'
    (copy / "templates" / "notes.yaml").write_text(wrapped)
    done = helm("template", "baton", copy, "--values", TESTS / "values" / f"{values}.yaml")
    assert done.returncode == 0, done.stderr
    [notes] = [each["text"] for each in parse(done.stdout) if each["kind"] == "Notes"]
    assert "helm test" in notes and "path /acp" in notes


@pytest.mark.parametrize("values", SETS)
def test_every_object_has_a_name_of_its_own(values):
    names = [(each["kind"], each["metadata"]["name"]) for each in objects(values)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("values", SETS)
def test_it_is_what_was_reviewed(values):
    golden = TESTS / "golden" / f"{values}.yaml"
    now = without_chance(rendered(values))
    if os.environ.get("UPDATE_GOLDEN") == "1":
        golden.write_text(now)
    assert now == golden.read_text(), "UPDATE_GOLDEN=1 scripts/check-charts, then look at the difference"


def without_chance(text):
    """Secrets that are made are other ones every time; files of their own are reviewed where they are."""
    text = re.sub(r"(baton/users): [0-9a-f]{16}", r"\1: (files/users.acl)", text)
    documents = text.split("\n---\n")
    for at, document in enumerate(documents):
        if "\nkind: Secret\n" in document:
            documents[at] = re.sub(r"(?m)^(  [\w.-]+): [\w+/=]{20,}$", r"\1: (made)", document)
        if "helm.sh/hook: test" in document:
            documents[at] = re.sub(r"(?s)( +- )\|\n +# Run by `helm test`.*?\n( +env:)", r"\1(files/prompt.sh)\n\2", document)
        if "\n  baton.json: |" in document:
            documents[at] = document.split("\n  baton.json: |")[0] + "\n  baton.json: (files/dashboard.json)\n"
    return "\n---\n".join(documents)


def test_dockerfiles_are_clean():
    for file in sorted(PROJECT.glob("deploy/**/Dockerfile*")):
        done = subprocess.run(["hadolint", str(file)], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
