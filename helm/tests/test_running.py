"""The chart's own settings, with real processes in place of Pods."""

import base64
import json
import subprocess
from contextlib import ExitStack

import pytest

import chart
from chart import SETS, find, objects, parse
from pods import Pods
from processes import BATON, baton, get, redis, running, wait


def test_the_prompt_of_helm_test_is_answered(tmp_path):
    """Redis, gateway and worker as the defaults have them, and the script that `helm test` runs in its Pod. It plays
    the proxy, so that it is one that the gateway trusts, and has to say that its client came with https."""
    found = installed()
    with ExitStack() as stack:
        cluster = Cluster(found, tmp_path, stack)
        done = cluster.test()
        assert done.returncode == 0, done.stdout + done.stderr
        assert "chunk 3 of 3" in done.stdout
        assert "everybody on this machine" not in cluster.log.read_text(), "keys are readable by others"


def test_the_bundled_redis_speaks_tls_if_it_has_a_certificate(tmp_path):
    found = installed("--set", "redis.tls.existingSecret=redis-tls")
    with ExitStack() as stack:
        certificate = certificate_of("localhost", tmp_path)
        cluster = Cluster(found, tmp_path, stack, {"redis-tls": certificate | {"ca.crt": certificate["tls.crt"]}})
        assert cluster.env("baton-worker-scripted")["BATON_STORE"].startswith("rediss://baton-worker:")
        done = cluster.test()
        assert done.returncode == 0, done.stdout + done.stderr


def test_helm_test_fails_with_a_wrong_key(tmp_path):
    found = installed()
    secret = find(found, "Secret", "baton-api-keys")
    with ExitStack() as stack:
        cluster = Cluster(found, tmp_path, stack)
        secret["data"]["key"] = base64.b64encode(b"bk_wrong").decode()
        done = cluster.test()
        assert done.returncode != 0
        assert "initialize opened no connection" in done.stdout


def test_helm_test_fails_with_another_answer(tmp_path):
    found = installed("--set", "test.expect=pineapple")
    with ExitStack() as stack:
        done = Cluster(found, tmp_path, stack).test()
        assert done.returncode != 0
        assert 'the answer has no "pineapple"' in done.stdout


@pytest.mark.parametrize("values", SETS)
def test_a_gateway_finds_no_fault_in_its_configuration(values, tmp_path):
    """It looks at all of it before it binds, and binds before it looks for Redis. The address is nobody's, so that
    there is no more to come after that."""
    pods = Pods(objects(values), tmp_path, secrets_of_yours(tmp_path))
    [name] = [it["metadata"]["name"] for it in pods.found if it["metadata"]["name"].endswith("-gateway") and it["kind"] == "Deployment"]
    env = pods.env(name)
    assert env["BATON_LISTEN"] == "0.0.0.0:8080"
    done = baton("gateway", env=env | {"BATON_LISTEN": "192.0.2.1:8080"})
    assert "cannot listen on 192.0.2.1:8080" in done.stderr, done.stderr
    assert done.returncode == 1


@pytest.mark.parametrize("values", SETS)
def test_a_worker_finds_no_fault_in_its_configuration(values, tmp_path):
    """The same; and it binds before it starts its agent, which is not installed here."""
    pods = Pods(objects(values), tmp_path, secrets_of_yours(tmp_path))
    names = [it["metadata"]["name"] for it in pods.found if it["kind"] == "Deployment" and "-worker-" in it["metadata"]["name"]]
    assert names
    for name in names:
        env = pods.env(name)
        assert env["BATON_PROBE_LISTEN"] == "0.0.0.0:8081"
        done = baton("worker", env=env | {"BATON_PROBE_LISTEN": "192.0.2.1:8081"})
        assert "cannot listen on 192.0.2.1:8081" in done.stderr, done.stderr
        assert done.returncode == 1


def test_a_worker_would_find_a_fault(tmp_path):
    pods = Pods(objects("minimal"), tmp_path)
    done = baton("worker", env=pods.env("baton-worker-scripted") | {"BATON_SLOTS": "none"})
    assert done.returncode == 64, done.stderr


def test_a_gateway_would_find_a_fault(tmp_path):
    pods = Pods(objects("minimal"), tmp_path)
    done = baton("gateway", env=pods.env("baton-gateway") | {"BATON_LISTEN": "192.0.2.1:8080", "BATON_TRUST_PROXY": ""})
    assert done.returncode == 64, done.stderr


def certificate_of(name, directory):
    """As a Secret of type kubernetes.io/tls has it."""
    key, certificate = directory / "key.pem", directory / "certificate.pem"
    make = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    names = ["-subj", f"/CN={name}", "-addext", f"subjectAltName=DNS:{name}", "-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run([*make, *names, "-keyout", key, "-out", certificate], check=True, capture_output=True, timeout=60)
    return {"tls.crt": certificate.read_text(), "tls.key": key.read_text()}


def secrets_of_yours(directory):
    """What the value sets expect to be in the cluster."""
    certificate = certificate_of("baton", directory)
    pem = certificate["tls.crt"]
    entry = json.loads(baton("token", "api-key", "--principal", "alice").stdout)["entry"]
    return {
        "baton-signing-keys": {"keys.json": baton("token", "keygen", "--alg", "eddsa").stdout},
        "baton-tls": certificate,
        "redis-tls": certificate | {"ca.crt": pem},
        "callers": {"keys.json": json.dumps({"keys": [entry]})},
        "ca-bundle": {"ca.crt": pem},
        "redis-ca": {"ca.crt": pem, "ca.pem": pem},
        "redis-url": {"url": "rediss://:password@redis:6379"},
        "redis-cluster": dict.fromkeys(
            ["url", "worker-url"], "rediss+cluster://user:password@redis-0:6379,redis-1:6379,redis-2:6379"
        ),
        "redis-sentinel": {"url": "redis+sentinel://:password@sentinel-0:26379,sentinel-1:26379/primary"},
        "collector": {"headers": "authorization=Bearer%20abc"},
        "anthropic": {"api-key": "sk-none"},
    }


def installed(*arguments):
    done = chart.installed(*arguments)
    assert done.returncode == 0, done.stderr
    return parse(done.stdout)


class Cluster:
    """Containers of the chart, run as processes."""

    def __init__(self, found, directory, stack, secrets=None):
        self.pods, self.directory = Pods(found, directory, secrets), directory
        self.redis = stack.enter_context(redis(self.redis_config(), tls=bool(secrets)))
        self.log = directory / "gateway.log"
        self.address = self.start("gateway", "baton-gateway", "gateway listens", stack)
        self.worker = self.start("worker", "baton-worker-scripted", "probes and metrics", stack)

    def env(self, deployment):
        """Places of a cluster, as they are here."""
        env = self.pods.env(deployment)
        env["BATON_STORE"] = env["BATON_STORE"].replace("baton-redis:6379", f"localhost:{self.redis}")
        here = dict.fromkeys(["BATON_LISTEN", "BATON_ADMIN_LISTEN", "BATON_PROBE_LISTEN"], "127.0.0.1:0")
        here["BATON_ADMIN_LISTEN"] = f"unix:{self.directory}/admin.sock"
        return env | {name: here[name] for name in env.keys() & here.keys()}

    def redis_config(self):
        data = self.directory / "data"
        data.mkdir()
        config = find(self.pods.found, "ConfigMap", "baton-redis")["data"]["redis.conf"].replace("/data", str(data))
        spec = find(self.pods.found, "StatefulSet", "baton-redis")["spec"]["template"]["spec"]
        for volume in spec["volumes"]:
            self.pods.mount(volume | {"name": f"redis-{volume['name']}"})
        file = self.directory / "redis.conf"
        config = config.replace("/etc/redis-", f"{self.directory}/redis-")
        # The port comes by the command line.
        file.write_text("".join(line for line in config.splitlines(True) if not line.startswith(("port ", "tls-port "))))
        return file

    def start(self, command, deployment, says, stack):
        """Waits as the kubelet does; where it listens."""
        log = self.directory / f"{command}.log"
        out = stack.enter_context(log.open("w"))
        process = stack.enter_context(running([BATON, command], env=self.env(deployment), stderr=out))
        address = wait(process, lambda: listens(log, says))
        container = find(self.pods.found, "Deployment", deployment)["spec"]["template"]["spec"]["containers"][0]
        for probe in ["startupProbe", "livenessProbe", "readinessProbe"]:
            path = container[probe]["httpGet"]["path"]
            wait(process, lambda: get(f"http://{address}{path}"))
        return address

    def test(self):
        container = find(self.pods.found, "Pod", "baton-test")["spec"]["containers"][0]
        env = self.pods.variables(container)
        assert env["URL"] == "http://baton-gateway:80/acp"
        # The test's own way to the Service, and by its name, which the gateway has to know.
        command = ["sh", "-ec", container["args"][0].replace("curl ", f"curl --connect-to ::{self.address} ", 1)]
        return subprocess.run(command, env={**env, "PATH": PATH}, capture_output=True, text=True, timeout=120)


def listens(log, says):
    """Where, as the log has it."""
    for line in log.read_text().splitlines():
        fields = json.loads(line).get("fields", {})
        if fields.get("message") == says:
            return fields["address"]
    raise OSError("not yet")


PATH = "/usr/local/bin:/usr/bin:/bin"
