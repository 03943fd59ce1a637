"""Clients of ACP: one over HTTP, one over the standard input and output of a process. Both collect all that they get."""

import http.client
import json
import subprocess
import threading
import time
from urllib.parse import urlsplit

PATIENCE = 60


class Failed(Exception):
    """The row does not hold, and why."""


class Peer:
    """What both have in common: requests with answers, questions, and what is said in the meantime."""

    def __init__(self, capabilities=None, files=None, name="agents-test"):
        self.capabilities, self.name = capabilities or {}, name
        self.terminals = 0
        self.files = files or {}
        self.written = {}
        self.messages = []
        self.asked = []  # requests of the agent, all of them
        self.open = []  # those that nobody has answered
        self.answers_questions = True
        self.arrived = threading.Condition()
        self.requests = 0
        self.closed = False

    def receive(self, message):
        with self.arrived:
            self.messages.append(message)
            if "method" in message and "id" in message:
                self.asked.append(message)
                self.open.append(message)
            self.arrived.notify_all()
        if "method" in message and "id" in message and self.answers_questions:
            threading.Thread(target=self.answer, args=(message,), daemon=True).start()

    def answer(self, request):
        """As an editor whose user agrees to everything."""
        method, params = request["method"], request.get("params", {})
        if method == "session/request_permission":
            options = params["options"]
            allow = [one for one in options if one["kind"] == "allow_once"] or options
            result = {"outcome": {"outcome": "selected", "optionId": allow[0]["optionId"]}}
        elif method == "fs/read_text_file":
            return self.respond(request, self.read_file(params["path"]))
        elif method == "fs/write_text_file":
            self.files[params["path"]] = self.written[params["path"]] = params["content"]
            result = {}
        else:
            return self.respond(request, self.answer_otherwise(method, params))
        self.respond(request, {"result": result})

    def read_file(self, path):
        """What is in the editor, else on the disk."""
        try:
            content = self.files[path] if path in self.files else open(path).read()
        except OSError:
            return {"error": {"code": -32002, "message": "Resource not found", "data": {"uri": path}}}
        return {"result": {"content": content}}

    def answer_otherwise(self, method, params):
        ended = {"exitCode": 0, "signal": None}
        results = {
            "terminal/create": {"terminalId": "terminal-1"},
            "terminal/output": {"output": "from-the-editor\n", "truncated": False, "exitStatus": ended},
            "terminal/wait_for_exit": ended,
            "terminal/release": {},
            "terminal/kill": {},
        }
        self.terminals += method == "terminal/create"
        if method in results and self.capabilities.get("terminal"):
            return {"result": results[method]}
        return {"error": {"code": -32603, "message": f"{method}: nothing of the kind here"}}

    def respond(self, request, outcome):
        with self.arrived:
            if request in self.open:
                self.open.remove(request)
        self.send({"jsonrpc": "2.0", "id": request["id"], **outcome})

    def start(self, method, params):
        with self.arrived:
            self.requests += 1
            number = self.requests
        self.send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    def wait(self, what, found, patience=PATIENCE):
        """Until `found` says something other than None."""
        end = time.monotonic() + patience
        with self.arrived:
            while (value := found()) is None:
                left = end - time.monotonic()
                if left <= 0 or self.closed:
                    raise Failed(f"waited for {what}; last: {json.dumps(self.messages[-1:])[:300]}")
                self.arrived.wait(left)
            return value

    def response(self, number, patience=PATIENCE):
        is_it = lambda message: message.get("id") == number and "method" not in message
        return self.wait(
            f"the answer to request {number}",
            lambda: next((message for message in self.messages if is_it(message)), None),
            patience,
        )

    def call(self, method, params, patience=PATIENCE):
        answer = self.response(self.start(method, params), patience)
        if "error" in answer:
            raise Failed(f"{method}: {json.dumps(answer['error'])[:400]}")
        return answer["result"]

    def initialize(self):
        info = {"name": self.name, "version": "1"}
        params = {"protocolVersion": 1, "clientCapabilities": self.capabilities, "clientInfo": info}
        self.initialized = self.call("initialize", params)
        return self.initialized

    def ask(self, session, text, more=()):
        """Begins a turn."""
        prompt = [{"type": "text", "text": text}, *more]
        return self.start("session/prompt", {"sessionId": session, "prompt": prompt})

    def turn(self, session, text, more=(), patience=PATIENCE):
        """What was said in a turn that ended well."""
        mark = len(self.messages)
        answer = self.response(self.ask(session, text, more), patience)
        if answer.get("result", {}).get("stopReason") != "end_turn":
            raise Failed(f"the turn ended with {json.dumps(answer)[:400]}; said: {self.said(session, mark)[:200]}")
        return self.said(session, mark)

    def updates(self, session, since=0):
        for message in self.messages[since:]:
            params = message.get("params") or {}
            if message.get("method") == "session/update" and params.get("sessionId") == session:
                yield params["update"]

    def said(self, session, since=0, kind="agent_message_chunk"):
        chunks = [update for update in self.updates(session, since) if update["sessionUpdate"] == kind]
        return "".join(chunk["content"].get("text", "") for chunk in chunks)

    def hears(self, session, word, since=0, patience=PATIENCE):
        said = lambda: True if word in self.said(session, since) else None
        self.wait(f"{word} in {self.said(session, since)[:100]!r}", said, patience)

    def question(self, method="session/request_permission", patience=PATIENCE):
        is_it = lambda request: request["method"] == method
        first = lambda: next(filter(is_it, self.open), None)
        return self.wait(f"a {method}", first, patience)


class HttpPeer(Peer):
    """A connection to a gateway. Everything comes on its one stream."""

    def __init__(self, url, **more):
        super().__init__(**more)
        parts = urlsplit(url)
        self.address, self.path = (parts.hostname, parts.port), parts.path
        self.token = None
        self.initialize()
        self.stream = http.client.HTTPConnection(*self.address)
        headers = {"Accept": "text/event-stream", "Acp-Connection-Id": self.token}
        self.stream.request("GET", self.path, headers=headers)
        response = self.stream.getresponse()
        threading.Thread(target=self.read, args=(response,), daemon=True).start()

    def read(self, response):
        data = []
        try:
            for line in response:
                line = line.decode().rstrip("\n")
                if line.startswith("data:"):
                    data.append(line[5:].strip())
                elif not line and data:
                    text, data = "\n".join(data), []
                    if text:
                        self.receive(json.loads(text))
        except (OSError, ValueError, AttributeError, http.client.HTTPException):
            pass
        with self.arrived:
            self.closed = True
            self.arrived.notify_all()

    def send(self, message):
        connection = http.client.HTTPConnection(*self.address, timeout=PATIENCE)
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Acp-Connection-Id"] = self.token
        session = (message.get("params") or {}).get("sessionId")
        if session:
            headers["Acp-Session-Id"] = session
        connection.request("POST", self.path, json.dumps(message), headers)
        response = connection.getresponse()
        body = response.read()
        if response.status not in (200, 202):
            raise Failed(f"HTTP {response.status}: {body[:200]}")
        if self.token is None:
            self.token = response.headers["Acp-Connection-Id"]
            self.receive(json.loads(body))
        connection.close()

    def vanish(self):
        """As a client that is killed: its stream ends, and it says nothing."""
        self.answers_questions = False
        self.closed = True
        if self.stream.sock:
            self.stream.sock.shutdown(2)


class ProcessPeer(Peer):
    """An agent on standard input and output: `baton connect`, or a product itself."""

    def __init__(self, command, environment=None, cwd=None, **more):
        super().__init__(**more)
        self.process = subprocess.Popen(
            command, env=environment, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        threading.Thread(target=self.read, daemon=True).start()
        self.initialize()

    def read(self):
        for line in self.process.stdout:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            self.receive(message)
        with self.arrived:
            self.closed = True
            self.arrived.notify_all()

    def send(self, message):
        with self.arrived:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
