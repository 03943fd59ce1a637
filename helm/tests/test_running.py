"""The chart's own settings, with real processes in place of Pods."""

import base64
import json
import subprocess
from contextlib import ExitStack

from chart import find, parse, template
from processes import BATON, get, redis, running, wait


def test_the_prompt_of_helm_test_is_answered(tmp_path):
    """Redis, gateway and worker as the defaults have them, and the script that `helm test` runs in its Pod. It plays
    the proxy, so that it is one that the gateway trusts, and has to say that its client came with https."""
    found = installed("--set", "gateway.trustProxy={127.0.0.1}")
    with ExitStack() as stack:
        cluster = Cluster(found, tmp_path, stack)
        done = cluster.test()
        assert done.returncode == 0, done.stdout + done.stderr
        assert "chunk 3 of 3" in done.stdout
        assert "everybody on this machine" not in cluster.log.read_text(), "keys are readable by others"


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


def installed(*arguments):
    done = template(*arguments)
    assert done.returncode == 0, done.stderr
    return parse(done.stdout)


class Cluster:
    """Takes containers as the chart describes them, and runs their commands here."""

    def __init__(self, found, directory, stack):
        self.found, self.directory = found, directory
        self.redis = stack.enter_context(redis(self.redis_config()))
        self.log = directory / "gateway.log"
        out = stack.enter_context(self.log.open("w"))
        gateway = stack.enter_context(running([BATON, "gateway"], env=self.env("baton-gateway"), stderr=out))
        self.address = wait(gateway, self.listens)
        wait(gateway, lambda: get(f"http://{self.address}/readyz"))
        stack.enter_context(
            running([BATON, "worker"], env=self.env("baton-worker-scripted"), stderr=subprocess.DEVNULL)
        )

    def redis_config(self):
        data = self.directory / "data"
        data.mkdir()
        config = find(self.found, "ConfigMap", "baton-redis")["data"]["redis.conf"].replace("/data", str(data))
        password = self.secret("baton-redis", "password")
        file = self.directory / "redis.conf"
        file.write_text(f"{config}requirepass {password}\n")
        return file

    def listens(self):
        """Where, as the gateway's log has it."""
        for line in self.log.read_text().splitlines():
            fields = json.loads(line).get("fields", {})
            if fields.get("message") == "gateway listens":
                return fields["address"]
        raise OSError("not yet")

    def secret(self, name, key):
        return base64.b64decode(find(self.found, "Secret", name)["data"][key]).decode()

    def env(self, deployment):
        spec = find(self.found, "Deployment", deployment)["spec"]["template"]["spec"]
        env = self.variables(spec["containers"][0])
        for volume in spec["volumes"]:
            self.mount(volume)
        here = {
            "BATON_LISTEN": "127.0.0.1:0",
            "BATON_ADMIN_LISTEN": "127.0.0.1:0",
        }
        for name in env.keys() & here.keys():
            env[name] = here[name]
        # Names and places of a cluster, as they are here.
        env["BATON_STORE"] = env["BATON_STORE"].replace("baton-redis:6379", f"127.0.0.1:{self.redis}")
        return {name: value.replace("/etc/baton", str(self.directory)) for name, value in env.items()}

    def variables(self, container):
        env = {}
        for variable in container["env"]:
            if "value" in variable:
                env[variable["name"]] = variable["value"]
            else:
                reference = variable["valueFrom"]["secretKeyRef"]
                env[variable["name"]] = self.secret(reference["name"], reference["key"])
        return env

    def mount(self, volume):
        """Writes a Secret where the kubelet would, with the rights that it would have."""
        if "secret" not in volume:
            return
        name, mode = volume["secret"]["secretName"], volume["secret"]["defaultMode"]
        place = self.directory / volume["name"]
        place.mkdir()
        entries = find(self.found, "Secret", name)["data"].keys()
        items = volume["secret"].get("items") or [{"key": key, "path": key} for key in entries]
        for item in items:
            file = place / item["path"]
            file.write_text(self.secret(name, item["key"]))
            file.chmod(mode)

    def test(self):
        container = find(self.found, "Pod", "baton-test")["spec"]["containers"][0]
        env = self.variables(container)
        assert env["URL"] == "http://baton-gateway:80/acp"
        # The test's own way to the Service, and by its name, which the gateway has to know.
        command = ["sh", "-ec", container["args"][0].replace("curl ", f"curl --connect-to ::{self.address} ", 1)]
        return subprocess.run(command, env={**env, "PATH": PATH}, capture_output=True, text=True, timeout=120)


PATH = "/usr/local/bin:/usr/bin:/bin"
