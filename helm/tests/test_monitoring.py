"""Alerts and the dashboard: they can be loaded, they ask for what there is, and each alert is explained."""

import json
import re
import shutil
import subprocess

import pytest
import yaml

import metrics
from chart import CHART, PROJECT, TESTS, find, objects
from processes import BATON, get, running, wait

RULES = CHART / "files" / "rules.yaml"
DASHBOARD = json.loads((CHART / "files" / "dashboard.json").read_text())
ALERTS = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def panels():
    for panel in DASHBOARD["panels"]:
        for target in panel.get("targets", []):
            yield panel["title"], target["expr"]


def queries():
    for rule in ALERTS:
        yield rule["alert"], rule["expr"]
    yield from panels()
    for variable in DASHBOARD["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["name"], re.match(r"label_values\((.*), \w+\)", variable["definition"])[1]
    scaled = find(objects("keda"), "ScaledObject", "baton-worker-scripted")
    yield "ScaledObject", scaled["spec"]["triggers"][0]["metadata"]["query"]
    scaler = find(objects("production"), "HorizontalPodAutoscaler", "baton-gateway")
    [pods] = [it["pods"] for it in scaler["spec"]["metrics"] if it["type"] == "Pods"]
    yield "HorizontalPodAutoscaler", pods["metric"]["name"]


QUERIES = list(queries())


@pytest.mark.parametrize("place, query", QUERIES, ids=[place for place, _ in QUERIES])
def test_queries_ask_for_metrics_that_exist(place, query):
    known, used = metrics.series(), metrics.used(query)
    assert used, f"no metric in {query}"
    assert used <= known.keys() | metrics.OTHERS, place
    ours = used & known.keys()
    if ours:
        allowed = metrics.TARGET_LABELS.union(*(known[name] for name in ours))
        assert metrics.labels_used(query) <= allowed, place


def test_prometheus_can_read_every_query_of_the_dashboard(tmp_path):
    """Where nothing is there, nothing comes back, and a query that makes no sense is a fault."""
    asked = [{"expr": query.replace("$__rate_interval", "5m"), "eval_time": "10m", "exp_samples": []} for _, query in panels()]
    ask(asked, [], tmp_path)


def test_a_pool_is_scaled_by_who_waits_and_what_runs(tmp_path):
    """Two gateways tell the same queue, two workers have their own turns; others are others' affair."""
    scaled = find(objects("keda"), "ScaledObject", "baton-worker-scripted")["spec"]["triggers"][0]["metadata"]
    pool, other = 'namespace="apps",pool="scripted"', 'namespace="apps",pool="other"'
    series = {
        'baton_gateway_queue{namespace="apps",agent="scripted",pod="one"}': 5,
        'baton_gateway_queue{namespace="apps",agent="scripted",pod="two"}': 5,
        'baton_gateway_queue{namespace="apps",agent="other",pod="one"}': 70,
        f'baton_worker_turns_running{{{pool},pod="three"}}': 200,
        f'baton_worker_turns_running{{{pool},pod="four"}}': 100,
        f'baton_worker_turns_running{{{other},pod="five"}}': 7,
    }
    inputs = [{"series": name, "values": f"{value}x20"} for name, value in series.items()]
    ask([{"expr": scaled["query"], "eval_time": "10m", "exp_samples": [{"labels": "{}", "value": 305}]}], inputs, tmp_path)


def ask(asked, series, directory):
    """Has promtool compare answers with what is expected."""
    file = directory / "asked.yaml"
    test = {"interval": "1m", "input_series": series, "promql_expr_test": asked}
    file.write_text(yaml.safe_dump({"tests": [test]}))
    promtool("test", "rules", file)


def test_the_table_of_metrics_is_true(tmp_path):
    """Whatever a new Baton shows is in the table; what is in the table is in the code."""
    table = metrics.table()
    for name in table:
        assert metrics.stem(name) in metrics.registered(), name
    log = tmp_path / "log"
    command = [BATON, "serve", "--ephemeral", "--listen", "127.0.0.1:0"]
    with log.open("w") as out, running(command, stdout=out, stderr=out) as process:
        url = wait(process, lambda: listens(log))
        shown = set(re.findall(r"^(\w+)", wait(process, lambda: get(f"{url}/metrics")), re.M))
    assert shown, "no metrics at all"
    assert shown <= metrics.series().keys()


def listens(log):
    found = re.search(r"listens on (http://[\d.:]+)", log.read_text())
    if not found:
        raise OSError("not yet")
    return found[1]


def test_every_metric_is_on_the_dashboard():
    """Of a histogram its quantiles are enough."""
    shown = {name for _, query in panels() for name in metrics.used(query)}
    wanted = {name for name in metrics.series() if not re.search("_seconds_(sum|count)$", name)}
    assert wanted <= shown


def test_quantiles_lead_to_traces():
    """By the exemplars of one of them: those of the others are the same."""
    quantiles = [panel for panel in DASHBOARD["panels"] if "histogram_quantile" in str(panel.get("targets"))]
    assert quantiles
    for panel in quantiles:
        assert [target.get("exemplar", False) for target in panel["targets"]].count(True) == 1, panel["title"]


def test_prometheus_takes_the_rules(tmp_path):
    """Those of the file, and those of the rendered PrometheusRule."""
    rendered = tmp_path / "rendered.yaml"
    rendered.write_text(yaml.safe_dump(find(objects("production"), "PrometheusRule", "baton")["spec"]))
    assert yaml.safe_load(rendered.read_text()) == yaml.safe_load(RULES.read_text())
    for file in [RULES, rendered]:
        promtool("check", "rules", file)


def test_alerts_are_raised_when_they_should_and_only_then(tmp_path):
    shutil.copy(RULES, tmp_path / "rules.yaml")
    shutil.copy(TESTS / "alerts.yaml", tmp_path)
    promtool("test", "rules", tmp_path / "alerts.yaml")
    cases = (TESTS / "alerts.yaml").read_text()
    for rule in ALERTS:
        assert re.search(f'alertname="{rule["alert"]}"', cases), "never raised in alerts.yaml"
        assert f"alertname: {rule['alert']}," in cases, "never silent in alerts.yaml"


def test_every_alert_is_explained():
    page = (PROJECT / "docs" / "operate" / "alerts.md").read_text()
    explained = set(re.findall(r"^\| `(Baton\w+)` \|", page, re.M))
    assert explained == {rule["alert"] for rule in ALERTS}


def test_deploy_has_the_same_files():
    for name, source in [("grafana/baton.json", "dashboard.json"), ("prometheus/rules.yaml", "rules.yaml")]:
        assert (PROJECT / "deploy" / name).resolve() == CHART / "files" / source


def test_the_dashboard_has_no_panel_twice_or_on_another():
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))
    taken = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        assert place["x"] + place["w"] <= 24 and not cells & taken, panel["title"]
        taken |= cells


def promtool(*arguments):
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
