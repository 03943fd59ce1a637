#!/usr/bin/env python3
"""An agent for tests, written against the protocol and nothing else. It does what each line of a prompt
says, and much of that no good agent would do.

Usage: actor.py [--keep DIR] [--ability load|resume]... [--start VERB] [--name NAME] [--lost FILE] [--quiet] [--replay WHEN]
--keep: where sessions are remembered, for agents that can bring them back.
--start: what it does before anything else (mute, exit, noise, slow, status).
--name: what every session is called.
--lost: modes and values that this agent does not know, one per line, if there is such a file.
--replay: it tells what was said also when a session is resumed: in-time, late (behind its answer), or with the next prompt.
--quiet: it does not say what is set when a session is brought back.

Each process begins with mode one, model small and effort low, whatever was set before.
"""

import argparse
import json
import os
import pathlib
import socket
import subprocess
import sys
import threading
import time
import uuid

options = argparse.ArgumentParser()
options.add_argument("--keep", type=pathlib.Path)
options.add_argument("--ability", action="append", default=[])
options.add_argument("--start", default="")
options.add_argument("--name")
options.add_argument("--lost", type=pathlib.Path)
options.add_argument("--quiet", action="store_true")
options.add_argument("--replay", default="")
options = options.parse_args()

writing = threading.Lock()
waiting = {}
postscripts = []
received = []
sessions = {}
cancelled = threading.Event()
progress = threading.Event()
settings = {}
untold = {}
kept = []


def write(*messages):
    with writing:
        sys.stdout.write("".join(json.dumps(message) + "\n" for message in messages))
        sys.stdout.flush()


def about(session, update):
    params = {"sessionId": session, "update": update}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def update(session, update):
    write(about(session, update))


def words(text, kind="agent_message_chunk"):
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}}


def say(session, text, kind="agent_message_chunk"):
    update(session, words(text, kind))


def ask(method, params):
    """Waits for the client's answer, result or error."""
    name = str(uuid.uuid4())
    waiting[name] = answer = {"came": threading.Event()}
    write({"jsonrpc": "2.0", "id": name, "method": method, "params": params})
    answer["came"].wait()
    return answer["message"]


def permission(session):
    options = [
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
        {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]
    call = {"toolCallId": "1", "title": "Something"}
    return ask("session/request_permission", {"sessionId": session, "toolCall": call, "options": options})


def remember(session):
    if options.keep:
        (options.keep / session).write_text(json.dumps(sessions[session]))


def lost():
    return options.lost.read_text().split() if options.lost and options.lost.exists() else []


def values(*names):
    return [{"value": name, "name": name.title()} for name in names if name not in lost()]


def config_options(session):
    now = settings[session]
    return [
        {"id": "effort", "name": "Effort", "category": "thought_level", "type": "select",
         "currentValue": now["effort"], "options": values("low", "high")},
        {"id": "reach", "name": "Reach", "type": "select",
         "currentValue": now["reach"], "options": values("everything", "nothing")},
    ]


def shown(session):
    """As a session begins in this process, or goes on."""
    begin = {"mode": "one", "model": "small", "effort": "low", "reach": "everything"}
    now = settings.setdefault(session, begin)
    modes = [{"id": name, "name": name.title()} for name in ("one", "two", "three") if name not in lost()]
    models = [{"modelId": name, "name": name.title()} for name in ("small", "large[low]") if name not in lost()]
    return {
        "modes": {"currentModeId": now["mode"], "availableModes": modes},
        "models": {"currentModelId": now["model"], "availableModels": models},
        "configOptions": config_options(session),
    }


def set_value(session, name, value):
    """An error, or nothing."""
    known = {"mode": ("one", "two", "three"), "model": ("small", "large[low]"), "effort": ("low", "high")}
    known["reach"] = ("everything", "nothing")
    # It knows best.
    value = "nothing" if value == "hardly-anything" else value
    if value in lost() or value not in known.get(name, ()):
        return {"code": -32602, "message": f"no such {name}: {value}"}
    shown(session)
    settings[session][name] = value
    # Another model begins with little effort.
    if name == "model":
        settings[session]["effort"] = "low"


def administer(path):
    """Revokes everything, at the administrators' socket."""
    body = '{"principal":"anonymous"}'
    head = f"POST /revocations HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
    try:
        with socket.socket(socket.AF_UNIX) as admin:
            admin.connect(path)
            admin.sendall(f"{head}\r\n\r\n{body}".encode())
            return admin.recv(4096).decode().splitlines()[0]
    except OSError as error:
        return error.strerror


def obey(session, words):
    """Returns a stop reason, or nothing if the turn goes on."""
    verb, *rest = words
    if verb == "say":
        say(session, " ".join(rest))
    elif verb == "postscript":
        # Right behind the answer, in the same write.
        postscripts.append(" ".join(rest))
    elif verb == "count":
        most, pause = int(rest[0]), float(rest[1]) / 1000 if len(rest) > 1 else 0
        for number in range(1, most + 1):
            if cancelled.is_set():
                return "cancelled"
            say(session, f"{number} ")
            time.sleep(pause)
    elif verb == "settings":
        say(session, json.dumps(settings[session]))
    elif verb == "switch":
        # Of its own accord.
        set_value(session, "mode", rest[0])
        update(session, {"sessionUpdate": "current_mode_update", "currentModeId": rest[0]})
    elif verb == "told":
        # Every line, as it came.
        say(session, json.dumps(received))
    elif verb == "recall":
        say(session, json.dumps(sessions[session]))
    elif verb == "ask":
        answer = permission(session)
        say(session, json.dumps(answer.get("result") or answer.get("error")))
    elif verb == "server":
        progress.clear()
        answer = ask("mcp/message", {"serverId": rest[0], "requestId": "r-1", "method": "tools/list", "params": {}})
        progress.wait()
        say(session, json.dumps(answer["result"]))
    elif verb == "later":
        # When nobody has asked for anything.
        def later():
            time.sleep(0.1)
            say(session, "later ")
            answer = permission(session)
            say(session, json.dumps(answer.get("result") or answer.get("error")))

        threading.Thread(target=later, daemon=True).start()
    elif verb == "admin":
        say(session, administer(rest[0]))
    elif verb == "admin-orphan":
        # By one whose parent has ended.
        reading, writing = os.pipe()
        if os.fork() == 0:
            if os.fork() == 0:
                time.sleep(0.3)
                os.write(writing, administer(rest[0]).encode())
            os._exit(0)
        os.wait()
        say(session, os.read(reading, 4096).decode())
    elif verb == "pid":
        say(session, str(os.getpid()))
    elif verb == "where":
        say(session, os.getcwd())
    elif verb == "environment":
        say(session, json.dumps(sorted(os.environ)))
    elif verb == "open":
        try:
            files = [open("/dev/null") for _ in range(int(rest[0]))]
            say(session, f"opened {len(files)}")
        except OSError as error:
            say(session, error.strerror)
    elif verb == "fill":
        try:
            say(session, f"filled {len(bytearray(int(rest[0]) << 20)) >> 20}")
        except MemoryError:
            say(session, "no memory")
    elif verb == "keep":
        # As large agents do.
        kept.append(bytearray(int(rest[0]) << 20))
        say(session, "kept")
    elif verb == "mode":
        update(session, {"sessionUpdate": "current_mode_update", "currentModeId": rest[0]})
    elif verb == "options":
        choice = {"value": "a", "name": "A", "description": "x" * int(rest[0])}
        option = {"id": "o", "name": "O", "type": "select", "currentValue": "a", "options": [choice]}
        update(session, {"sessionUpdate": "config_option_update", "configOptions": [option]})
    elif verb == "bind":
        update(session, {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": "bound"},
            "_meta": {"baton/bind": {rest[0]: rest[1]}},
        })
    elif verb == "stderr":
        print(" ".join(rest), file=sys.stderr, flush=True)
    elif verb == "extend":
        write({"jsonrpc": "2.0", "method": "_test/told", "params": {"sessionId": session, "big": 9007199254740993}})
    elif verb == "garbage":
        for _ in range(int(rest[0])):
            sys.stdout.write("\x00\xff not JSON {\n")
        sys.stdout.flush()
    elif verb == "long":
        for _ in range(int(rest[0])):
            sys.stdout.write("x" * (1 << 20))
        sys.stdout.write("\n")
        sys.stdout.flush()
    elif verb == "deaf":
        time.sleep(3600)
    elif verb == "unknown":
        write({"jsonrpc": "2.0", "id": 123456789, "result": {}})
        write({"jsonrpc": "2.0", "id": "nobody", "error": {"code": 1, "message": "x"}})
    elif verb == "foreign":
        say(rest[0], "from another")
        twice = f'{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","sessionId":"{rest[0]}"}}}}'
        sys.stdout.write(twice + "\n")
        say(session, json.dumps(permission(rest[0]).get("error")))
    elif verb == "exit":
        sys.stdout.flush()
        os._exit(int(rest[0]))
    elif verb == "children":
        child = "import os,time,signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.setsid(); time.sleep(3600)"
        near = subprocess.Popen(["sleep", "3600"], stdout=subprocess.DEVNULL)
        # Its parent ends at once, so it is nobody's child here any more.
        far = subprocess.run(
            ["sh", "-c", f'{sys.executable} -c "{child}" >/dev/null 2>&1 & echo $!'], capture_output=True, text=True
        )
        say(session, f"{os.getpid()} {near.pid} {far.stdout.strip()}")
    else:
        say(session, " ".join(words))


def replay(session, told):
    """What was said, in pieces of its own."""
    for texts in told:
        for piece in texts[-1].split(" "):
            say(session, piece + " ", "user_message_chunk")
        update(session, {"sessionUpdate": "tool_call", "toolCallId": "old", "title": "Of long ago"})
        for line in texts[-1].splitlines():
            verb, *rest = line.split()
            if verb == "say":
                say(session, " ".join(rest))


def prompt(request, params):
    session = params["sessionId"]
    replay(session, untold.pop(session, []))
    texts = [block.get("text", "") for block in params["prompt"]]
    sessions[session].append(texts)
    remember(session)
    reason = None
    for line in texts[-1].splitlines():
        reason = reason or obey(session, line.split())
    result = {"stopReason": reason or "end_turn"}
    if "_meta" in params:
        result["_meta"] = params["_meta"]
    answer = {"jsonrpc": "2.0", "id": request, "result": result}
    behind = [about(session, words(text)) for text in postscripts]
    postscripts.clear()
    write(answer, *behind)


def bring_back(params):
    kept = options.keep / params["sessionId"]
    if not kept.exists():
        return None
    sessions[params["sessionId"]] = json.loads(kept.read_text())
    return sessions[params["sessionId"]]


def answer(method, request, params):
    result, error = None, None
    if method == "initialize":
        capabilities = {
            "loadSession": "load" in options.ability,
            "sessionCapabilities": {},
            "mcpCapabilities": {"acp": True},
        }
        if "resume" in options.ability:
            capabilities["sessionCapabilities"]["resume"] = {}
        result = {
            "protocolVersion": 1,
            "agentInfo": {"name": "actor", "version": "1"},
            "agentCapabilities": capabilities,
            "authMethods": [],
            "_meta": {"client": params.get("clientCapabilities")},
        }
    elif method == "session/new":
        if params["cwd"] == "/refused":
            error = {"code": -32000, "message": "Authentication required", "data": {"how": "log in"}}
        elif params["cwd"] == "/silence":
            return
        else:
            session = options.name or "actor-" + str(uuid.uuid4())
            sessions[session] = []
            remember(session)
            commands = [{"name": "help", "description": "Helps"}]
            update(session, {"sessionUpdate": "available_commands_update", "availableCommands": commands})
            result = {"sessionId": session, **shown(session), "_meta": {"own": True}}
    elif method in ("session/load", "session/resume"):
        told = bring_back(params)
        if told is None:
            error = {"code": -32002, "message": "no such session"}
        else:
            if options.replay == "in-time":
                replay(params["sessionId"], told)
            elif options.replay:
                untold[params["sessionId"]] = list(told)
            else:
                for texts in told if method == "session/load" else []:
                    say(params["sessionId"], texts[-1], "user_message_chunk")
                    say(params["sessionId"], "replayed")
            now = shown(params["sessionId"])
            result = {} if options.quiet else now
    elif method == "session/set_mode":
        result, error = {}, set_value(params["sessionId"], "mode", params["modeId"])
    elif method == "session/set_model":
        result, error = {}, set_value(params["sessionId"], "model", params["modelId"])
    elif method == "session/set_config_option":
        error = set_value(params["sessionId"], params["configId"], params["value"])
        result = {"configOptions": config_options(params["sessionId"])}
    elif method == "mcp/message":
        if request is None and params["requestId"] == "r-1":
            progress.set()
    elif method == "_test/echo":
        result = params
    else:
        error = {"code": -32601, "message": f"no method {method}"}
    if request is not None:
        write({"jsonrpc": "2.0", "id": request, **({"error": error} if error else {"result": result})})
    if options.replay == "late":
        for session in list(untold):
            replay(session, untold.pop(session))


if options.start == "mute":
    time.sleep(3600)
elif options.start == "exit":
    print("there is no licence", file=sys.stderr, flush=True)
    sys.exit(3)
elif options.start == "status":
    # About itself, not about a session.
    write({"jsonrpc": "2.0", "method": "_auth/status_update", "params": {"loggedIn": True}})
elif options.start == "slow":
    time.sleep(1)
elif options.start == "noise":
    print("Starting up…", flush=True)

for line in sys.stdin:
    received.append(line)
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
    else:
        answer(method, request, params)
os._exit(0)
