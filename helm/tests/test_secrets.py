"""What is made once: Baton can use it, an upgrade keeps it."""

import base64
import hashlib
import json
import re

from api import cluster
from chart import CHART, PROJECT, find, installed, objects, parse
from processes import baton

# Any that could be one.
SESSION = "000-" + "a" * 22

def opened(secret):
    return {name: base64.b64decode(data).decode() for name, data in secret["data"].items()}


def made():
    """New ones, since nothing is cached here."""
    done = installed()
    assert done.returncode == 0, done.stderr
    return parse(done.stdout)


def test_baton_signs_and_verifies_with_the_key_that_is_made(tmp_path):
    keys = tmp_path / "keys.json"
    keys.write_text(opened(find(made(), "Secret", "baton-keys"))["keys.json"])
    keys.chmod(0o440)
    minted = baton("token", "mint", "--keys", keys, "--session", SESSION)
    assert minted.returncode == 0, minted.stderr
    verified = baton("token", "verify", "--keys", keys, input=minted.stdout)
    assert verified.returncode == 0, verified.stderr


def test_the_key_that_is_made_is_like_those_of_keygen(tmp_path):
    [ours] = json.loads(opened(find(made(), "Secret", "baton-keys"))["keys.json"])["keys"]
    [theirs] = json.loads(baton("token", "keygen").stdout)["keys"]
    assert ours.keys() == theirs.keys()
    assert [len(ours[name]) for name in sorted(ours)] == [len(theirs[name]) for name in sorted(theirs)]
    assert len(base64.urlsafe_b64decode(ours["k"] + "=")) == 32


def test_each_installation_gets_other_secrets():
    one, other = made(), made()
    for name in ["baton-keys", "baton-api-keys", "baton-redis"]:
        assert find(one, "Secret", name)["data"] != find(other, "Secret", name)["data"]


def test_gateways_get_the_hash_of_the_first_key_alone():
    found = made()
    secret = opened(find(found, "Secret", "baton-api-keys"))
    [entry] = json.loads(secret["keys.json"])["keys"]
    assert entry["sha256"] == hashlib.sha256(secret["key"].encode()).hexdigest()
    spec = find(found, "Deployment", "baton-gateway")["spec"]["template"]["spec"]
    [volume] = [it for it in spec["volumes"] if it["name"] == "api-keys"]
    assert [it["key"] for it in volume["secret"]["items"]] == ["keys.json"]


def test_an_upgrade_keeps_what_is_there(tmp_path):
    """Rendered against a cluster that has the Secrets of a first installation, one of them with a key added since."""
    first = [it for it in made() if it["kind"] == "Secret"]
    assert len(first) == 3
    for secret in first:
        secret["metadata"]["namespace"] = "apps"
    find(first, "Secret", "baton-keys")["data"]["next.json"] = base64.b64encode(b"{}").decode()
    with cluster(first, tmp_path) as kubeconfig:
        done = installed("--dry-run=server", "--kubeconfig", kubeconfig)
    assert done.returncode == 0, done.stderr
    again = parse(done.stdout)
    for secret in first:
        kept = find(again, "Secret", secret["metadata"]["name"])
        assert kept["data"] == secret["data"]
        assert kept["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_a_cluster_without_them_gets_new_ones(tmp_path):
    with cluster([], tmp_path) as kubeconfig:
        done = installed("--dry-run=server", "--kubeconfig", kubeconfig)
    assert done.returncode == 0, done.stderr
    assert "keys.json" in find(parse(done.stdout), "Secret", "baton-keys")["data"]


def test_nothing_is_made_where_secrets_are_named():
    names = {it["metadata"]["name"] for it in objects("production") if it["kind"] == "Secret"}
    assert not names


def test_redis_has_the_users_that_baton_itself_would_make(tmp_path):
    """Rules, users and URLs are those of `baton store users`; only the passwords differ."""
    secret = opened(find(made(), "Secret", "baton-redis"))
    done = baton("store", "users", "--dir", tmp_path, "--at", "redis://baton-redis:6379")
    assert done.returncode == 0, done.stderr
    ours, theirs = secret["users.acl"], (tmp_path / "redis" / "users.acl").read_text()
    hashes = re.compile("#[0-9a-f]{64} ")
    assert hashes.sub("# ", ours).strip() == hashes.sub("# ", theirs).strip()
    for role in ["gateway", "worker", "admin"]:
        password = secret[f"{role}-password"]
        assert f"user baton-{role} on #{hashlib.sha256(password.encode()).hexdigest()} " in ours
        url = (tmp_path / role / "url").read_text().strip()
        assert secret[f"{role}-url"] == re.sub(":[^:@]+@", f":{password}@", url)
    assert (CHART / "files" / "users.acl").read_text() == (PROJECT / "deploy" / "redis" / "users.acl").read_text()


def test_a_redis_of_an_earlier_version_gets_users(tmp_path):
    """It had one password, which is of no use any more; its other data stays."""
    old = find(made(), "Secret", "baton-redis")
    old["metadata"]["namespace"] = "apps"
    old["data"] = {"password": "b2xk", "url": "b2xk", "worker-password": base64.b64encode(b"kept").decode()}
    with cluster([old], tmp_path) as kubeconfig:
        done = installed("--dry-run=server", "--kubeconfig", kubeconfig)
    assert done.returncode == 0, done.stderr
    secret = opened(find(parse(done.stdout), "Secret", "baton-redis"))
    assert secret["worker-password"] == "kept" and len(secret["gateway-password"]) == 40
    assert hashlib.sha256(b"kept").hexdigest() in secret["users.acl"]


def test_each_pod_gets_its_own_login_alone():
    for values, name in [("minimal", "baton-redis"), ("redis-cluster", "redis-cluster")]:
        found = objects(values)
        keys = {}
        for deployment in ["baton-gateway", "baton-worker-scripted"]:
            spec = find(found, "Deployment", deployment)["spec"]["template"]["spec"]
            [variable] = [it for it in spec["containers"][0]["env"] if it["name"] == "BATON_STORE"]
            reference = variable["valueFrom"]["secretKeyRef"]
            assert reference["name"] == name
            keys[deployment] = reference["key"]
            assert not [it for it in spec["volumes"] if it.get("secret", {}).get("secretName") == name]
        assert keys["baton-gateway"] != keys["baton-worker-scripted"]
