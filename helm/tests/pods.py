"""Takes containers as the chart describes them, and says how to run them here."""

import base64

from chart import find


class Pods:
    def __init__(self, found, directory, secrets=None):
        """`secrets` are those that are not the chart's: name → entry → text."""
        self.found, self.directory, self.secrets = found, directory, secrets or {}

    def entries(self, secret):
        if secret in self.secrets:
            return self.secrets[secret]
        data = find(self.found, "Secret", secret)["data"]
        return {name: base64.b64decode(text).decode() for name, text in data.items()}

    def secret(self, name, key):
        return self.entries(name)[key]

    def env(self, deployment):
        """A container's variables, with its volumes mounted below the directory."""
        spec = find(self.found, "Deployment", deployment)["spec"]["template"]["spec"]
        for volume in spec["volumes"]:
            self.mount(volume)
        env = self.variables(spec["containers"][0])
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
        place.mkdir(exist_ok=True)
        items = volume["secret"].get("items") or [{"key": key, "path": key} for key in self.entries(name)]
        for item in items:
            file = place / item["path"]
            file.unlink(missing_ok=True)
            file.write_text(self.secret(name, item["key"]))
            file.chmod(mode)
