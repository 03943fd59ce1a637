"""What each product needs to talk to the model server, and the names of its tools. Everything else is the same for all."""

import json
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[4]
CACHE = PROJECT / "target/agents-test"
ECHO = ["*echo", {"message": "hi-there"}]


def write(file, text):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text if isinstance(text, str) else json.dumps(text))


class Product:
    name = ""
    version_of = ""  # package, for the table
    environment = {}
    arguments = []
    tool = None  # asks for permission, and leaves a trace in its result
    reads = None  # reads a file
    writes = None  # writes a file
    asks = True
    # Reasons for what it cannot do, by row; everything that is not here is run.
    cannot = {}

    def __init__(self, model, home):
        self.model, self.home = model, home
        self.folder = CACHE / self.name

    def bins(self):
        return [self.folder / "node_modules/.bin", CACHE / "node/node_modules/node/bin"]

    def prepare(self):
        """Writes files into its home, and returns its variables."""
        return {}

    def versions(self):
        found = []
        for package in self.version_of.split():
            data = json.loads((self.folder / "node_modules" / package / "package.json").read_text())
            found.append(f"{package.rsplit('/')[-1]} {data['version']}")
        return ", ".join(found)


class Claude(Product):
    name = "claude"
    version_of = "@agentclientprotocol/claude-agent-acp"

    def prepare(self):
        self.tool = ["Bash", {"command": "touch made-by-tool && echo made-by-tool", "description": "Echo"}]
        self.reads = lambda path: ["Read", {"file_path": path}]
        self.writes = lambda path, text: ["Write", {"file_path": path, "content": text}]
        return {
            "ANTHROPIC_BASE_URL": self.model.url,
            "ANTHROPIC_API_KEY": "sk-ant-api03-fake",
            "ENABLE_TOOL_SEARCH": "false",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        }


class Codex(Product):
    name = "codex"
    version_of = "@agentclientprotocol/codex-acp @openai/codex"

    def prepare(self):
        provider = {
            "name": "fake",
            "base_url": f"{self.model.url}/v1",
            "wire_api": "responses",
            "env_key": "OPENAI_API_KEY",
            "supports_websockets": False,
        }
        lines = [f"{key} = {json.dumps(value)}" for key, value in provider.items()]
        config = ['model = "fake-one"', 'model_provider = "fake"', "[features]", "enable_request_compression = false"]
        write(self.home / ".codex/config.toml", "\n".join([*config, "[model_providers.fake]", *lines]) + "\n")
        command = {"cmd": "touch made-by-tool && echo made-by-tool", "sandbox_permissions": "require_escalated", "justification": "a test"}
        older = {**command, "command": ["bash", "-lc", command["cmd"]]}
        self.tools = [["exec_command", command], ["shell_command", {**command, "command": command["cmd"]}], ["shell", older]]
        self.reads = lambda path: ["exec_command", {"cmd": f"cat {path}"}]
        self.writes = lambda path, text: ["exec_command", {"cmd": f"echo {text} > {path}"}]
        return {
            "OPENAI_API_KEY": "sk-fake",
            "DEFAULT_AUTH_REQUEST": json.dumps({"methodId": "api-key"}),
            "NO_BROWSER": "1",
            # The default has a model judge what is asked, and no user.
            "INITIAL_AGENT_MODE": "workspace-write",
        }


class Gemini(Product):
    name = "gemini"
    version_of = "@google/gemini-cli"
    # Its shell tool opens a terminal.
    arguments = ["--agent-sandbox-write", "/dev/ptmx,/dev/pts"]

    def prepare(self):
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
            "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
            "privacy": {"usageStatisticsEnabled": False},
        }
        write(self.home / ".gemini/settings.json", settings)
        self.tool = ["run_shell_command", {"command": "touch made-by-tool && echo made-by-tool", "description": "Echo"}]
        self.reads = lambda path: ["read_file", {"file_path": path}]
        self.writes = lambda path, text: ["write_file", {"file_path": path, "content": text}]
        return {"GEMINI_API_KEY": "fake", "GOOGLE_GEMINI_BASE_URL": self.model.url}


class Qwen(Gemini):
    name = "qwen"
    version_of = "@qwen-code/qwen-code"

    def prepare(self):
        super().prepare()
        providers = [
            {"id": model, "name": model, "envKey": "OPENAI_API_KEY", "baseUrl": f"{self.model.url}/v1"}
            for model in ("fake-one", "fake-two")
        ]
        settings = {
            "security": {"auth": {"selectedType": "openai"}},
            "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
            "privacy": {"usageStatisticsEnabled": False},
            "modelProviders": {"openai": providers},
        }
        write(self.home / ".qwen/settings.json", settings)
        self.tool = ["run_shell_command", {"command": "touch made-by-tool && echo made-by-tool", "is_background": False}]
        return {"OPENAI_API_KEY": "fake", "OPENAI_BASE_URL": f"{self.model.url}/v1", "OPENAI_MODEL": "fake-one"}


class Opencode(Product):
    name = "opencode"
    version_of = "opencode-ai"

    def prepare(self):
        attachments = {"attachment": True, "modalities": {"input": ["text", "image"], "output": ["text"]}}
        config = {
            "model": "fake/fake-one",
            "small_model": "fake/fake-one",
            "autoupdate": False,
            "share": "disabled",
            "permission": {"bash": "ask", "edit": "ask"},
            "provider": {
                "fake": {
                    "npm": "@ai-sdk/openai-compatible",
                    "name": "Fake",
                    "options": {"baseURL": f"{self.model.url}/v1", "apiKey": "fake"},
                    "models": {name: {"name": name, **attachments} for name in ("fake-one", "fake-two")},
                }
            },
        }
        self.tool = ["bash", {"command": "touch made-by-tool && echo made-by-tool", "description": "Echo"}]
        self.reads = lambda path: ["read", {"filePath": path}]
        self.writes = lambda path, text: ["write", {"filePath": path, "content": text}]
        return {
            "OPENCODE_CONFIG_CONTENT": json.dumps(config),
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
        }


class Goose(Product):
    name = "goose"
    version_of = "@aaif/goose-binary-linux-x64"

    def bins(self):
        # The package has it by another name.
        link = self.folder / "bin/goose"
        link.parent.mkdir(exist_ok=True)
        if not link.is_symlink():
            link.symlink_to("../node_modules/@aaif/goose-binary-linux-x64/bin/goose")
        return [link.parent, CACHE / "node/node_modules/node/bin"]

    def prepare(self):
        self.tools = [["*shell", {"command": "touch made-by-tool && echo made-by-tool"}]]
        self.reads = lambda path: ["*read", {"path": path}]
        self.writes = lambda path, text: ["*write", {"path": path, "content": text}]
        return {
            "GOOSE_PROVIDER": "openai",
            "GOOSE_MODEL": "gpt-4o",
            "GOOSE_MODE": "approve",
            "GOOSE_DISABLE_KEYRING": "1",
            "OPENAI_HOST": self.model.url,
            "OPENAI_API_KEY": "fake",
        }


class Copilot(Product):
    name = "copilot"
    version_of = "@github/copilot"

    def prepare(self):
        self.tool = ["bash", {"command": "touch made-by-tool && echo made-by-tool", "description": "Echo", "mode": "sync", "initial_wait": 10}]
        self.reads = lambda path: ["view", {"path": path}]
        self.writes = lambda path, text: ["create", {"path": path, "file_text": text}]
        return {
            "COPILOT_PROVIDER_BASE_URL": f"{self.model.url}/v1",
            "COPILOT_PROVIDER_API_KEY": "fake",
            "COPILOT_MODEL": "fake-one",
        }


class Pi(Product):
    name = "pi"
    version_of = "pi-acp @earendil-works/pi-coding-agent"

    def prepare(self):
        models = [{"id": name, "name": name, "input": ["text", "image"]} for name in ("fake-one", "fake-two")]
        provider = {"baseUrl": f"{self.model.url}/v1", "api": "openai-completions", "apiKey": "fake", "models": models}
        write(self.home / ".pi/agent/models.json", {"providers": {"fake": provider}})
        settings = {"defaultProvider": "fake", "defaultModel": "fake-one", "quietStartup": True}
        write(self.home / ".pi/agent/settings.json", settings)
        self.tool = ["bash", {"command": "touch made-by-tool && echo made-by-tool"}]
        self.reads = lambda path: ["read", {"path": path}]
        self.writes = lambda path, text: ["write", {"path": path, "content": text}]
        return {}


class FastAgent(Product):
    name = "fast-agent"

    def bins(self):
        return [self.folder / "venv/bin", CACHE / "node/node_modules/node/bin"]

    def versions(self):
        [found] = self.folder.glob("venv/lib/python*/site-packages/fast_agent_mcp-*.dist-info")
        return found.name.removesuffix(".dist-info").replace("fast_agent_mcp-", "fast-agent-mcp ")

    def prepare(self):
        self.tools = [ECHO]
        self.reads = lambda path: ["*read_text_file", {"path": path}]
        self.writes = lambda path, text: ["*write_text_file", {"path": path, "content": text}]
        return {
            "FAST_AGENT_MODEL": "openai.gpt-4o",
            "OPENAI_API_KEY": "fake",
            "OPENAI_BASE_URL": f"{self.model.url}/v1",
            "GENERIC_API_KEY": "fake",
            "GENERIC_BASE_URL": f"{self.model.url}/v1",
            "GENERIC__BASE_URL": f"{self.model.url}/v1",
        }


ALL = {product.name: product for product in (Opencode, Codex, Gemini, Claude, FastAgent, Goose, Qwen, Pi, Copilot)}
