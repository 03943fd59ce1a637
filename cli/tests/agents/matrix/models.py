"""A model server on loopback that speaks Anthropic Messages, OpenAI Chat, OpenAI Responses and Gemini, streaming or not.

It does what a marker in the last prompt says, and nothing by chance:

| marker | answer |
|---|---|
| SAY word | the word |
| USE-TOOL [["name", {arguments}], ...] | calls the first of these tools that the agent offers, then tells its result |
| SLOW n | n pieces of text, with a pause before each |
| RECALL | every word MARK-... of the conversation that it was sent |
| IMAGE | whether the conversation has an image |
"""

import json
import os
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MARKER = re.compile(r"\b(SAY|USE-TOOL|SLOW|RECALL|IMAGE)\b ?([^\n]*)")
# The last one is known to see images.
MODELS = ["fake-one", "fake-two", "gpt-4o"]
MARK = re.compile(r"MARK-[a-z0-9]+")
PAUSE = 0.15


class Conversation:
    """What an agent sent, whatever the format."""

    def __init__(self, model, stream):
        self.model = model
        self.stream = stream
        self.turns = []  # (role, text); role is user, assistant or tool
        self.tools = []
        self.namespaces = {}
        self.image = False
        self.wants_json = False

    def add(self, role, text):
        self.turns.append((role, text or ""))

    def answer(self):
        """("text", pieces, pause) or ("tool", name, arguments)."""
        if self.wants_json:
            return "text", [json.dumps({"reasoning": "none", "model_choice": "flash", "complexity_score": 1})], 0
        last, marker = -1, None
        for number, (role, text) in enumerate(self.turns):
            found = MARKER.findall(text) if role == "user" else []
            if found:
                last, marker = number, found[-1]
        if marker is None or (not self.tools and marker[0] in ("USE-TOOL", "SLOW")):
            return "text", ["A title"], 0
        results = [text for role, text in self.turns[last + 1 :] if role == "tool"]
        return self.obey(marker, results)

    def obey(self, marker, results):
        verb, rest = marker
        if results:
            return "text", ["TOOL-DONE " + " ".join(results)[:400]], 0
        if verb == "SAY":
            return "text", [rest.split()[0] if rest else ""], 0
        if verb == "SLOW":
            return "text", [f"tick-{number} " for number in range(int(rest.split()[0]))], PAUSE
        if verb == "IMAGE":
            return "text", ["IMAGE-SEEN" if self.image else "IMAGE-MISSING"], 0
        if verb == "RECALL":
            words = MARK.findall(" ".join(text for _, text in self.turns))
            return "text", ["RECALLED " + " ".join(dict.fromkeys(words))], 0
        wanted, _ = json.JSONDecoder().raw_decode(rest)
        for name, arguments in wanted:
            for offered in self.tools:
                if offered == name or (name.startswith("*") and offered.endswith(name[1:])):
                    return "tool", offered, arguments
        return "text", ["NO-SUCH-TOOL of " + " ".join(self.tools)], 0


def texts(content):
    """The text of a string or of a list of parts."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        content = [content]
    found = []
    for part in content or []:
        if isinstance(part, str):
            found.append(part)
        elif isinstance(part, dict):
            inner = part.get("text") or part.get("content") or part.get("output") or ""
            found.append(inner if isinstance(inner, str) else texts(inner))
    return "\n".join(found)


def of_anthropic(body):
    conversation = Conversation(body.get("model"), body.get("stream"))
    conversation.tools = [tool["name"] for tool in body.get("tools", []) if "input_schema" in tool]
    for message in body.get("messages", []):
        content = message["content"]
        if isinstance(content, str):
            conversation.add(message["role"], content)
            continue
        for part in content:
            if part["type"] == "tool_result":
                conversation.add("tool", texts(part.get("content")))
            elif part["type"] == "image":
                conversation.image = True
            elif part["type"] == "text":
                conversation.add(message["role"], part["text"])
    return conversation


def of_chat(body):
    conversation = Conversation(body.get("model"), body.get("stream"))
    conversation.tools = [tool["function"]["name"] for tool in body.get("tools") or [] if "function" in tool]
    kind = (body.get("response_format") or {}).get("type", "")
    conversation.wants_json = kind.startswith("json")
    for message in body.get("messages", []):
        role, content = message["role"], message.get("content")
        conversation.image |= '"image_url"' in json.dumps(content)
        if role in ("user", "assistant", "tool"):
            conversation.add(role, texts(content))
    return conversation


def of_responses(body):
    conversation = Conversation(body.get("model"), body.get("stream"))
    for tool in body.get("tools") or []:
        for inner in tool.get("tools", [tool]):
            name = inner.get("name") or inner["type"]
            conversation.tools.append(name)
            if tool["type"] == "namespace":
                conversation.namespaces[name] = tool["name"]
    items = body.get("input", [])
    if isinstance(items, str):
        items = [{"type": "message", "role": "user", "content": items}]
    for item in items:
        kind = item.get("type", "message")
        if kind == "message" and item["role"] in ("user", "assistant"):
            conversation.add(item["role"], texts(item["content"]))
            conversation.image |= "input_image" in json.dumps(item["content"])
        elif kind.endswith("_output"):
            conversation.add("tool", texts(item.get("output")))
    return conversation


def of_gemini(body, model, stream):
    conversation = Conversation(model, stream)
    for tool in body.get("tools") or []:
        conversation.tools += [one["name"] for one in tool.get("functionDeclarations") or []]
    config = body.get("generationConfig") or {}
    conversation.wants_json = config.get("responseMimeType") == "application/json"
    for content in body.get("contents", []):
        for part in content.get("parts", []):
            conversation.image |= "inlineData" in part
            if "functionResponse" in part:
                conversation.add("tool", json.dumps(part["functionResponse"].get("response")))
            elif "text" in part:
                conversation.add("user" if content.get("role") == "user" else "assistant", part["text"])
    return conversation


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        models = [{"id": name, "object": "model", "name": name, "display_name": name, "type": "model"} for name in MODELS]
        self.reply({"object": "list", "data": models, "models": [], "has_more": False})

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def body(self):
        if self.headers.get("Transfer-Encoding", "").lower() == "chunked":
            data = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self.headers.get("Content-Encoding") in ("zstd", "gzip"):
            raise ValueError("bodies are expected as they are")
        try:
            return json.loads(data or b"{}")
        except ValueError:
            return {}

    def do_POST(self):
        path, body = self.path.split("?")[0], self.body()
        self.server.body = body
        try:
            if path.endswith("/count_tokens"):
                return self.reply({"input_tokens": 10})
            if path.endswith(":countTokens"):
                return self.reply({"totalTokens": 10})
            if path.endswith("/messages"):
                return self.respond(of_anthropic(body), Anthropic)
            if path.endswith("/chat/completions"):
                return self.respond(of_chat(body), Chat)
            if path.endswith("/responses"):
                return self.respond(of_responses(body), Responses)
            found = re.search(r"/models/([^:/]+):(streamG|g)enerateContent$", path)
            if found:
                stream = found[2] == "streamG"
                return self.respond(of_gemini(body, found[1], stream), Gemini)
            self.server.note({"unknown": path})
            self.reply({}, 404)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def reply(self, document, status=200):
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def respond(self, conversation, dialect):
        answer = conversation.answer()
        if self.server.bodies:
            self.server.bodies.write(json.dumps(self.server.body) + "\n")
        self.server.note(
            {
                "dialect": dialect.__name__,
                "model": conversation.model,
                "tools": conversation.tools,
                "image": conversation.image,
                "marks": MARK.findall(" ".join(text for _, text in conversation.turns)),
                "turns": [[role, text[-300:]] for role, text in conversation.turns[-6:]],
                "answer": answer,
            }
        )
        writer = dialect(conversation.model)
        writer.namespaces = conversation.namespaces
        if not conversation.stream:
            return self.reply(writer.whole(answer))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        for event in writer.events(answer):
            name = f"event: {event['type']}\n" if "type" in event else ""
            self.wfile.write(f"{name}data: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()
        if dialect is Chat:
            self.wfile.write(b"data: [DONE]\n\n")


def pieces(answer):
    for piece in answer[1]:
        if answer[2]:
            time.sleep(answer[2])
        yield piece


COUNT = iter(range(1, 10**9))


class Anthropic:
    def __init__(self, model):
        self.message = {
            "id": f"msg_{next(COUNT)}",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 5},
        }

    def block(self, answer):
        if answer[0] == "text":
            return {"type": "text", "text": ""}
        return {"type": "tool_use", "id": f"toolu_{next(COUNT)}", "name": answer[1], "input": {}}

    def whole(self, answer):
        block, reason = self.block(answer), "end_turn"
        if answer[0] == "text":
            block["text"] = "".join(answer[1])
        else:
            block["input"], reason = answer[2], "tool_use"
        return {**self.message, "content": [block], "stop_reason": reason}

    def events(self, answer):
        yield {"type": "message_start", "message": self.message}
        yield {"type": "content_block_start", "index": 0, "content_block": self.block(answer)}
        if answer[0] == "text":
            deltas = ({"type": "text_delta", "text": piece} for piece in pieces(answer))
        else:
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(answer[2])}]
        for delta in deltas:
            yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        reason = "end_turn" if answer[0] == "text" else "tool_use"
        yield {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": 5},
        }
        yield {"type": "message_stop"}


USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


class Chat:
    def __init__(self, model):
        self.head = {"id": f"chat-{next(COUNT)}", "created": 1, "model": model}

    def call(self, answer):
        function = {"name": answer[1], "arguments": json.dumps(answer[2])}
        return {"id": f"call_{next(COUNT)}", "type": "function", "function": function}

    def whole(self, answer):
        message, reason = {"role": "assistant", "content": None}, "stop"
        if answer[0] == "text":
            message["content"] = "".join(answer[1])
        else:
            message["tool_calls"], reason = [self.call(answer)], "tool_calls"
        choice = {"index": 0, "message": message, "finish_reason": reason}
        return {**self.head, "object": "chat.completion", "choices": [choice], "usage": USAGE}

    def chunk(self, delta, reason=None):
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {**self.head, "object": "chat.completion.chunk", "choices": [choice]}

    def events(self, answer):
        yield self.chunk({"role": "assistant", "content": ""})
        if answer[0] == "text":
            for piece in pieces(answer):
                yield self.chunk({"content": piece})
            yield {**self.chunk({}, "stop"), "usage": USAGE}
        else:
            yield self.chunk({"tool_calls": [{"index": 0, **self.call(answer)}]})
            yield {**self.chunk({}, "tool_calls"), "usage": USAGE}


class Responses:
    def __init__(self, model):
        self.response = {
            "id": f"resp_{next(COUNT)}",
            "object": "response",
            "created_at": 1,
            "status": "in_progress",
            "model": model,
            "output": [],
            "parallel_tool_calls": False,
            "tool_choice": "auto",
            "tools": [],
        }
        self.usage = {
            "input_tokens": 10,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 5,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 15,
        }

    def item(self, answer, text):
        if answer[0] == "text":
            part = {"type": "output_text", "text": text, "annotations": []}
            return {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
        arguments = json.dumps(answer[2])
        return {
            "id": f"fc_{next(COUNT)}",
            "type": "function_call",
            "status": "completed",
            "call_id": f"call_{next(COUNT)}",
            "name": answer[1],
            "arguments": arguments,
            **({"namespace": self.namespaces[answer[1]]} if answer[1] in self.namespaces else {}),
        }

    def whole(self, answer):
        item = self.item(answer, "".join(answer[1]) if answer[0] == "text" else "")
        return {**self.response, "status": "completed", "output": [item], "usage": self.usage}

    def events(self, answer):
        numbers = iter(range(10**6))
        numbered = lambda event: {**event, "sequence_number": next(numbers)}
        yield numbered({"type": "response.created", "response": self.response})
        if answer[0] == "text":
            message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
            yield numbered({"type": "response.output_item.added", "output_index": 0, "item": message})
            place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
            part = {"type": "output_text", "text": "", "annotations": []}
            yield numbered({"type": "response.content_part.added", **place, "part": part})
            text = ""
            for piece in pieces(answer):
                text += piece
                yield numbered({"type": "response.output_text.delta", **place, "delta": piece})
            yield numbered({"type": "response.output_text.done", **place, "text": text})
            yield numbered({"type": "response.content_part.done", **place, "part": {**part, "text": text}})
            item = self.item(answer, text)
        else:
            item = self.item(answer, "")
            begun = {**item, "status": "in_progress", "arguments": ""}
            yield numbered({"type": "response.output_item.added", "output_index": 0, "item": begun})
            place = {"item_id": item["id"], "output_index": 0}
            yield numbered({"type": "response.function_call_arguments.delta", **place, "delta": item["arguments"]})
            yield numbered({"type": "response.function_call_arguments.done", **place, "arguments": item["arguments"]})
        yield numbered({"type": "response.output_item.done", "output_index": 0, "item": item})
        whole = {**self.response, "status": "completed", "output": [item], "usage": self.usage}
        yield numbered({"type": "response.completed", "response": whole})


class Gemini:
    def __init__(self, model):
        self.model = model

    def chunk(self, part, reason=None):
        candidate = {"index": 0, "content": {"role": "model", "parts": [part]}}
        if reason:
            candidate["finishReason"] = reason
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": self.model}

    def whole(self, answer):
        if answer[0] == "text":
            return self.chunk({"text": "".join(answer[1])}, "STOP")
        return self.chunk({"functionCall": {"name": answer[1], "args": answer[2]}}, "STOP")

    def events(self, answer):
        if answer[0] == "text":
            for piece in pieces(answer):
                yield self.chunk({"text": piece})
            yield self.chunk({"text": ""}, "STOP")
        else:
            yield self.whole(answer)


class ModelServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, log):
        super().__init__(("127.0.0.1", 0), Handler)
        self.seen = []
        self.log = open(log, "a", buffering=1)
        # Whole requests, for whoever teaches it another agent's format.
        self.bodies = open(f"{log}.bodies", "a", buffering=1) if "AGENTS_TEST_BODIES" in os.environ else None
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"

    def note(self, request):
        self.seen.append(request)
        self.log.write(json.dumps(request) + "\n")

    def model_of(self, mark):
        """The model that was last asked about this mark. Agents ask others for titles, and offer those no tools."""
        asked = [one for one in self.seen if mark in one.get("marks", [])]
        asked = [one for one in asked if one["tools"]] or asked
        return asked[-1]["model"] if asked else None

    def handle_error(self, *_):
        pass
