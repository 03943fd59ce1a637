#!/usr/bin/env python3
"""An agent for tests that heeds what its client has announced, and keeps a login in its HOME.

Usage: clientele.py [--login]
--login: sessions are for those who have logged in.

It tells what it was told of its client (client), asks for what this can do (read, link, output), asks somebody first (ask, then
what follows), and says who is logged in (whoami).
"""

import json
import os
import pathlib
import sys
import threading
import uuid

writing = threading.Lock()
waiting = {}
introduced = {}
home = pathlib.Path(os.environ.get("HOME", "/nonexistent"))
login = home / ".clientele"


def write(message):
    with writing:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def say(session, text):
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    write({"method": "session/update", "params": {"sessionId": session, "update": update}})


def ask(method, params):
    name = str(uuid.uuid4())
    waiting[name] = answer = {"came": threading.Event()}
    write({"id": name, "method": method, "params": params})
    answer["came"].wait()
    message = answer["message"]
    return message.get("result") or message.get("error")


def can(*path):
    found = introduced.get("clientCapabilities") or {}
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    return found not in (None, False)


def obey(session, verb, rest):
    if verb == "client":
        say(session, json.dumps(introduced))
    elif verb == "pid":
        say(session, str(os.getpid()))
    elif verb == "whoami":
        say(session, json.dumps({"home": str(home), "login": login.read_text() if login.exists() else None}))
    elif verb == "open":
        try:
            say(session, pathlib.Path(rest).read_text())
        except OSError as error:
            say(session, error.strerror)
    elif verb == "read":
        if can("fs", "readTextFile"):
            say(session, json.dumps(ask("fs/read_text_file", {"sessionId": session, "path": "/tmp/x"})))
        else:
            say(session, "cannot read")
    elif verb == "link":
        if can("elicitation", "url"):
            asked = {"sessionId": session, "mode": "url", "message": "Look", "elicitationId": "1", "url": "https://example.com"}
            say(session, json.dumps(ask("elicitation/create", asked)))
        else:
            say(session, "cannot link")
    elif verb == "output":
        say(session, "shown" if can("_meta", "terminal_output") else "not shown")
    elif verb == "ask":
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
        call = {"toolCallId": "1", "title": "Something"}
        ask("session/request_permission", {"sessionId": session, "toolCall": call, "options": options})
    else:
        say(session, f"{verb} {rest}".strip())


def prompt(request, params):
    session = params["sessionId"]
    for line in params["prompt"][-1].get("text", "").splitlines():
        verb, _, rest = line.partition(" ")
        obey(session, verb, rest)
    write({"id": request, "result": {"stopReason": "end_turn"}})


def methods():
    found = [{"id": "key", "name": "Key", "description": "Any key"}]
    if can("auth", "terminal") or can("_meta", "terminal-auth"):
        found.append({"id": "shell", "name": "Shell", "type": "terminal", "args": ["login"], "env": {}})
    return found


def answer(method, params):
    if method == "initialize":
        introduced.update(params)
        capabilities = {"auth": {"logout": {}}, "providers": {}, "loadSession": False}
        info = {"name": "clientele", "version": "1"}
        return {
            "protocolVersion": 1, "agentInfo": info, "agentCapabilities": capabilities, "authMethods": methods(),
        }, None
    if method == "session/new":
        if "--login" in sys.argv and not login.exists():
            return None, {"code": -32000, "message": "Authentication required"}
        return {"sessionId": str(uuid.uuid4())}, None
    if method == "authenticate":
        if params.get("methodId") != "key":
            return None, {"code": -32602, "message": "no such method"}
        login.write_text(json.dumps(params))
        return {}, None
    if method == "logout":
        login.unlink(missing_ok=True)
        return {}, None
    if method == "providers/list":
        return {"providers": [], "_meta": {"home": str(home)}}, None
    return None, {"code": -32601, "message": f"no method {method}"}


for line in sys.stdin:
    message = json.loads(line)
    method, request, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method is None:
        waiting[request]["message"] = message
        waiting[request]["came"].set()
    elif method == "session/prompt":
        threading.Thread(target=prompt, args=(request, params), daemon=True).start()
    elif request is not None:
        result, error = answer(method, params)
        write({"id": request, **({"error": error} if error else {"result": result})})
os._exit(0)
