#!/usr/bin/env python3
"""An agent for the chaos runs: says exactly what it was asked to say, so that every word can be told from every
other. Knows two lines of the scripted agent, `/count N [delay=MS] [size=BYTES]` and `/permission`, and passes
over all others. Keeps nothing.

Usage: counter.py WORKER
WORKER: the name of the worker that started it. It is in every chunk, so that those who read know who held the turn.
"""

import json
import os
import sys
import threading
import uuid

worker = sys.argv[1]
writing = threading.Lock()
waiting = {}
cancelled = threading.Event()


def write(message):
    with writing:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


def say(session, text):
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    write({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}})


def count(session, words):
    chunks, options = int(words[0]), dict(word.split("=") for word in words[1:])
    for number in range(1, chunks + 1):
        # A process may be the session's third: it does not know how many prompts there were. The number of chunks is
        # the prompt's name.
        text = f"chunk {number} of {chunks}, prompt {chunks} by {worker} "
        say(session, text.ljust(int(options.get("size", 0)), "."))
        if number < chunks and cancelled.wait(int(options.get("delay", 0)) / 1000):
            return


def permission(session):
    name = str(uuid.uuid4())
    answer = waiting[name] = {"came": threading.Event()}
    kinds = ["allow_once", "allow_always", "reject_once"]
    params = {
        "sessionId": session,
        "toolCall": {"toolCallId": name, "title": "Something"},
        "options": [{"optionId": kind, "name": kind, "kind": kind} for kind in kinds],
    }
    write({"jsonrpc": "2.0", "id": name, "method": "session/request_permission", "params": params})
    answer["came"].wait()
    outcome = answer["message"].get("result", {}).get("outcome", {})
    if "optionId" in outcome:
        say(session, f"permission {outcome['optionId']} ")
    else:
        cancelled.set()


def prompt(request, params):
    for line in params["prompt"][-1]["text"].splitlines():
        verb, *words = line.split(maxsplit=1) if line.startswith("/think") else line.split()
        if cancelled.is_set():
            break
        if verb == "/count":
            count(params["sessionId"], words)
        elif verb == "/permission":
            permission(params["sessionId"])
    reason = "cancelled" if cancelled.is_set() else "end_turn"
    write({"jsonrpc": "2.0", "id": request, "result": {"stopReason": reason}})


def answer(method, params):
    if method == "initialize":
        return {"protocolVersion": 1, "agentInfo": {"name": "counter", "version": "1"}, "agentCapabilities": {}}
    if method == "session/new":
        return {"sessionId": str(uuid.uuid4())}
    return None


for line in sys.stdin:
    message = json.loads(line)
    method, request, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method is None:
        waiting[request]["message"] = message
        waiting[request]["came"].set()
    elif method == "session/prompt":
        cancelled.clear()
        threading.Thread(target=prompt, args=(request, params), daemon=True).start()
    elif method == "session/cancel":
        cancelled.set()
    elif request is not None:
        result = answer(method, params)
        unknown = {"error": {"code": -32601, "message": f"no method {method}"}}
        write({"jsonrpc": "2.0", "id": request, **({"result": result} if result else unknown)})
os._exit(0)
