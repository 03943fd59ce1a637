"""How Pods run: what they may do, what they may reach, how they stop."""

import ipaddress

import pytest

from chart import SETS, TESTS, find, objects, parse, pod_specs, rendered, template

NOBODY = {"drop": ["ALL"]}


@pytest.mark.parametrize("values", SETS)
def test_every_pod_keeps_to_the_restricted_standard(values):
    for name, spec in pod_specs(objects(values)):
        pod = spec["securityContext"]
        assert pod["runAsNonRoot"] is True and pod["runAsUser"] > 0, name
        assert pod["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert spec["automountServiceAccountToken"] is False, name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys(), name
        kinds = {kind for volume in spec.get("volumes", []) for kind in volume if kind != "name"}
        assert kinds <= {"secret", "configMap", "emptyDir"}, name
        for container in spec["containers"]:
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False, name
            assert security["readOnlyRootFilesystem"] is True, name
            assert security["capabilities"] == NOBODY, name


@pytest.mark.parametrize("values", SETS)
def test_secrets_come_from_secrets(values):
    """No password in a variable, and no key that everybody in the Pod can read: Baton warns of those."""
    for name, spec in pod_specs(objects(values)):
        for volume in spec.get("volumes", []):
            if "secret" in volume:
                assert volume["secret"]["defaultMode"] == 0o440, name
        for container in spec["containers"]:
            for variable in container.get("env", []):
                if variable["name"] in {"BATON_STORE", "CREDENTIAL", "OTEL_EXPORTER_OTLP_HEADERS"}:
                    assert "secretKeyRef" in variable["valueFrom"], name


@pytest.mark.parametrize("values", SETS)
def test_a_gateway_gets_the_time_it_takes_to_drain(values):
    for name, spec in pod_specs(objects(values)):
        for container in spec["containers"]:
            if container["name"] != "gateway":
                continue
            grace = int(variable(container, "BATON_GRACE_MS")) / 1000
            pause = container["lifecycle"]["preStop"]["sleep"]["seconds"]
            assert spec["terminationGracePeriodSeconds"] >= pause + grace + 2, name


@pytest.mark.parametrize("values", SETS)
def test_selectors_find_the_pods_they_are_for(values):
    found = objects(values)
    pods = [it["spec"]["template"]["metadata"]["labels"] for it in found if "template" in it.get("spec", {})]
    for each in found:
        wanted = {
            "Service": lambda spec: spec["selector"],
            "PodDisruptionBudget": lambda spec: spec["selector"]["matchLabels"],
            "NetworkPolicy": lambda spec: spec["podSelector"]["matchLabels"],
        }.get(each["kind"])
        if wanted:
            chosen = [labels for labels in pods if wanted(each["spec"]).items() <= labels.items()]
            assert len(chosen) == 1, f"{each['kind']} {each['metadata']['name']}"


def test_a_gateway_reaches_redis_dns_and_the_collector_alone():
    policy = find(objects("production"), "NetworkPolicy", "baton-gateway")["spec"]
    reached = [(port["port"], to_namespace(rule)) for rule in policy["egress"] for port in rule["ports"]]
    assert reached == [
        (53, "kube-system"), (53, "kube-system"), (6379, "redis"), (4317, "observability"),
        # The issuer's keys; networkPolicy.jwksTo would narrow it.
        (443, None),
    ]
    assert policy["policyTypes"] == ["Ingress", "Egress"]


def test_by_itself_a_worker_reaches_no_more_than_that():
    policy = find(objects("minimal"), "NetworkPolicy", "baton-worker-scripted")["spec"]
    assert [port["port"] for rule in policy["egress"] for port in rule["ports"]] == [53, 53, 6379]
    policy = find(objects("two-pools"), "NetworkPolicy", "baton-worker-gemini")["spec"]
    assert policy["egress"][-1]["ports"][0]["port"] == 443


def test_public_ports_lead_to_public_addresses_alone():
    policy = find(objects("two-pools"), "NetworkPolicy", "baton-worker-claude")["spec"]
    rule = policy["egress"][-1]
    assert rule["ports"] == [{"port": 443, "protocol": "TCP"}]
    four, six = [it["ipBlock"] for it in rule["to"]]

    def reached(block, address):
        inside = [ipaddress.ip_address(address) in ipaddress.ip_network(it) for it in [block["cidr"], *block["except"]]]
        return inside[0] and not any(inside[1:])

    for address in ["10.1.2.3", "172.31.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "127.0.0.1", "0.0.0.0", "255.255.255.255"]:
        assert not reached(four, address), address
    for address in ["::1", "fd00::1", "fe80::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "fd00:ec2::254"]:
        assert not reached(six, address), address
    assert reached(four, "93.184.216.34") and reached(six, "2606:2800::1")


def test_by_default_nobody_but_helm_test_reaches_a_gateway_and_nobody_a_worker():
    found = objects("minimal")
    [rule] = find(found, "NetworkPolicy", "baton-gateway")["spec"]["ingress"]
    [peer] = rule["from"]
    assert peer["podSelector"]["matchLabels"]["app.kubernetes.io/component"] == "test"
    assert find(found, "NetworkPolicy", "baton-worker-scripted")["spec"]["ingress"] == []


def test_nobody_reaches_more_of_a_worker_than_its_metrics():
    policy = find(objects("production"), "NetworkPolicy", "baton-worker-scripted")["spec"]
    [rule] = policy["ingress"]
    assert rule["ports"] == [{"port": "probes", "protocol": "TCP"}]
    assert "monitoring" in str(rule["from"]) and "nginx" not in str(rule["from"])


@pytest.mark.parametrize("values", SETS)
def test_a_worker_gets_the_time_it_takes(values):
    """To start its agent, and to end turns that cannot be moved."""
    workers = [(name, spec) for name, spec in pod_specs(objects(values)) if "-worker-" in name]
    assert workers
    for name, spec in workers:
        [container] = spec["containers"]
        starts = container["startupProbe"]
        patience = starts["periodSeconds"] * starts["failureThreshold"]
        assert patience >= int(variable(container, "BATON_AGENT_START_TIMEOUT").removesuffix("s")) + 60, name
        grace = int(variable(container, "BATON_GRACE_MS")) / 1000
        assert spec["terminationGracePeriodSeconds"] >= grace + 15, name


@pytest.mark.parametrize("values", SETS)
def test_probes_ask_where_the_container_listens(values):
    for name, spec in pod_specs(objects(values)):
        for container in spec["containers"]:
            ports = {port["name"]: str(port["containerPort"]) for port in container.get("ports", [])}
            listens = {"gateway": "BATON_LISTEN", "worker": "BATON_PROBE_LISTEN"}.get(container["name"])
            if not listens:
                continue
            probes = {kind: container[f"{kind}Probe"]["httpGet"] for kind in ["startup", "liveness", "readiness"]}
            assert {ports[get["port"]] for get in probes.values()} == {variable(container, listens).rsplit(":", 1)[1]}, name
            assert probes["liveness"]["path"] == "/healthz" and probes["readiness"]["path"] == "/readyz", name


def test_gateways_and_workers_are_one_job_and_pools_are_kept_apart():
    found = objects("production")
    gateways = find(found, "ServiceMonitor", "baton")["spec"]
    workers = find(found, "PodMonitor", "baton-worker")["spec"]
    service = find(found, "Service", "baton-gateway")["metadata"]["labels"]
    pods = find(found, "Deployment", "baton-worker-scripted")["spec"]["template"]
    assert service[gateways["jobLabel"]] == pods["metadata"]["labels"][workers["jobLabel"]] == "baton"
    assert workers["selector"]["matchLabels"].items() <= pods["metadata"]["labels"].items()
    [endpoint] = workers["podMetricsEndpoints"]
    assert endpoint["port"] in {port["name"] for port in pods["spec"]["containers"][0]["ports"]}
    [rule] = endpoint["relabelings"]
    assert rule == {"sourceLabels": ["__meta_kubernetes_pod_label_baton_pool"], "targetLabel": "pool"}
    assert pods["metadata"]["labels"]["baton/pool"] == "scripted"


def test_a_pool_is_scaled_by_what_it_has_to_do():
    """By its own queue and turns, and by three quarters of its slots unless somebody says otherwise."""
    values = ["--set-json", 'workers.pools={"a":{"slots":8},"b":{"slots":8,"keda":{"threshold":2}}}']
    done = template("--values", TESTS / "values" / "keda.yaml", *values)
    assert done.returncode == 0, done.stderr
    for pool, threshold in [("a", "6"), ("b", "2"), ("scripted", "192")]:
        [trigger, _] = find(parse(done.stdout), "ScaledObject", f"baton-worker-{pool}")["spec"]["triggers"]
        asked = trigger["metadata"]
        assert asked["threshold"] == threshold
        assert f'baton_gateway_queue{{namespace="apps",agent="{pool}"}}' in asked["query"]
        assert f'baton_worker_turns_running{{namespace="apps",pool="{pool}"}}' in asked["query"]
        assert asked["ignoreNullValues"] == "false"


def test_each_pool_has_an_agent_an_image_and_a_secret_of_its_own():
    found = objects("two-pools")
    workers = {it["metadata"]["name"] for it in found if it["kind"] == "Deployment"} - {"baton-gateway"}
    assert workers == {"baton-worker-claude", "baton-worker-gemini"}
    claude = find(found, "Deployment", "baton-worker-claude")["spec"]["template"]["spec"]["containers"][0]
    assert variable(claude, "BATON_AGENT") == "stdio:claude-agent-acp"
    assert variable(claude, "BATON_AGENT_NAME") == "claude"
    # From `defaults`, and from the chart's.
    assert variable(claude, "BATON_SLOTS") == "16" and variable(claude, "BATON_LEASE_MS") == "10000"
    assert "gemini" not in str(claude) and "anthropic" in str(claude)


def test_metrics_and_probes_stay_inside():
    for values, kind in [("production", "Ingress"), ("gateway-api", "HTTPRoute")]:
        text = str([it for it in objects(values) if it["kind"] == kind])
        assert "/acp" in text and "/v1" in text
        assert "/metrics" not in text and "/healthz" not in text and "'/'" not in text


def test_a_session_finds_its_gateway():
    ingress = find(objects("production"), "Ingress", "baton")["metadata"]["annotations"]
    assert "$http_acp_session_id" in ingress["nginx.ingress.kubernetes.io/upstream-hash-by"]
    assert ingress["nginx.ingress.kubernetes.io/proxy-buffering"] == "off"
    policy = find(objects("gateway-api"), "BackendTrafficPolicy", "baton")["spec"]["loadBalancer"]
    assert policy["consistentHash"]["header"]["name"] == "Acp-Session-Id"


def test_no_value_is_printed_as_a_float():
    """Large numbers become 1.2e+06 if a template does not watch out."""
    for values in SETS:
        assert "e+0" not in rendered(values), values


def variable(container, name):
    [one] = [it for it in container["env"] if it["name"] == name]
    return one["value"]


def to_namespace(rule):
    for peer in rule.get("to", []):
        return peer["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"]
    return None
