"""Which metrics there are: the tables in docs/reference/metrics.md, which tests compare with the code and a running Baton."""

import re

from chart import PROJECT

# What others export that run beside Baton; the dashboard says which of them a panel needs.
OTHERS = {
    "redis_memory_used_bytes", "redis_memory_max_bytes", "redis_commands_processed_total",  # redis_exporter
    "kube_deployment_spec_replicas",  # kube-state-metrics
    "container_cpu_usage_seconds_total", "container_memory_working_set_bytes",  # cAdvisor
    "ALERTS",
}
# Prometheus adds these itself.
TARGET_LABELS = {"job", "instance", "namespace", "pod", "le"}
# The chart has it added to workers.
TARGET_LABELS |= {"pool"}
ROW = re.compile(r"^\| `(baton_\w+)(?:\{([\w, ]+)\})?` \| (\w+) \|", re.M)


def table():
    """Name → (labels, type), as documented."""
    text = (PROJECT / "docs" / "reference" / "metrics.md").read_text()
    rows = {name: (set(re.findall(r"\w+", labels)), kind) for name, labels, kind in ROW.findall(text)}
    assert rows, "no table of metrics was found"
    return rows


def series():
    """Names that can be asked for → their labels."""
    names = {}
    for name, (labels, kind) in table().items():
        for suffix in ["_bucket", "_sum", "_count"] if kind == "histogram" else [""]:
            names[name + suffix] = labels
    return names


def registered():
    """Names as the code gives them to its registries, without prefix and suffix."""
    found = set()
    for file in [*PROJECT.glob("*/src/**/metrics*.rs"), PROJECT / "cli" / "src" / "meters.rs"]:
        found |= set(re.findall(r'"([a-z_]+)"', file.read_text()))
    return found


def stem(name):
    return re.sub(r"_(total|seconds|info)$", "", re.sub(r"^baton_((gateway|worker|store|audit)_)?", "", name))


def used(query):
    """Metrics in a query: words that are neither functions, labels, nor part of a string or range."""
    bare = re.sub(r'"[^"]*"', "", query)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", bare)
    bare = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)", "", bare)
    words = re.findall(r"[a-zA-Z_:][\w:]*(?!\w*\s*\()\b", bare)
    return {word for word in words if word not in {"and", "or", "unless", "bool", "offset"}}


def labels_used(query):
    """Labels by which a query selects or groups."""
    grouped = re.findall(r"\bby\s*\(([^)]*)\)", query)
    selected = re.findall(r"(\w+)\s*(?:=~|!~|!=|=)\s*\"", query)
    return set(selected) | {name.strip() for group in grouped for name in group.split(",")}
