"""What is made once: Baton can use it, an upgrade keeps it."""

import base64
import hashlib
import json

from api import cluster
from chart import find, objects, parse, template
from processes import baton

# Any that could be one.
SESSION = "000-" + "a" * 22

def opened(secret):
    return {name: base64.b64decode(data).decode() for name, data in secret["data"].items()}


def made():
    """New ones, since nothing is cached here."""
    done = template()
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
        done = template("--dry-run=server", "--kubeconfig", kubeconfig)
    assert done.returncode == 0, done.stderr
    again = parse(done.stdout)
    for secret in first:
        kept = find(again, "Secret", secret["metadata"]["name"])
        assert kept["data"] == secret["data"]
        assert kept["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_a_cluster_without_them_gets_new_ones(tmp_path):
    with cluster([], tmp_path) as kubeconfig:
        done = template("--dry-run=server", "--kubeconfig", kubeconfig)
    assert done.returncode == 0, done.stderr
    assert "keys.json" in find(parse(done.stdout), "Secret", "baton-keys")["data"]


def test_nothing_is_made_where_secrets_are_named():
    names = {it["metadata"]["name"] for it in objects("production") if it["kind"] == "Secret"}
    assert not names
