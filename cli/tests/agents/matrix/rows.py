"""The rows of the matrix: each opens sessions of its own and returns a note, or raises `Failed` or `NotApplicable`."""

import json
import os
import tempfile
from pathlib import Path

from agents import CACHE, ECHO
from cut_proxy import CutProxy
from peers import Failed, HttpPeer, ProcessPeer

# A red square of 8 x 8 pixels.
IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAEklEQVR4nGP4z8CAFWEXHbQSACj/P8Fu7N9hAAAAAElFTkSuQmCC"


class NotApplicable(Exception):
    """The agent cannot do that, and why."""


class Stage:
    """An agent behind two gateways and two workers."""

    def __init__(self, cluster, urls, product, model, baton):
        self.cluster, self.urls, self.product, self.model, self.baton = cluster, urls, product, model, baton
        self.work = Path(cluster.directory).parent / (Path(cluster.directory).name + "-work")
        self.marks = iter(range(10**6))

    def mark(self):
        return f"MARK-{self.product.name.replace('-', '')}{next(self.marks)}x"

    def directory(self):
        self.work.mkdir(exist_ok=True)
        return tempfile.mkdtemp(dir=self.work)

    def peer(self, gateway=0, **more):
        return HttpPeer(self.urls[gateway], **more)

    def session(self, peer, servers=()):
        cwd = self.directory()
        result = peer.call("session/new", {"cwd": cwd, "mcpServers": list(servers)}, 120)
        return result["sessionId"], cwd, result

    def load(self, peer, session, cwd, servers=(), method="session/load"):
        return peer.call(method, {"sessionId": session, "cwd": cwd, "mcpServers": list(servers)}, 120)

    def tools(self):
        product = self.product
        return getattr(product, "tools", None) or [product.tool]

    def servers(self):
        node = CACHE / "node/node_modules/node/bin/node"
        script = CACHE / "mcp/node_modules/@modelcontextprotocol/server-everything/dist/index.js"
        return [{"name": "everything", "command": str(node), "args": [str(script), "stdio"], "env": []}]

    def own_servers(self):
        """Agents without a tool of their own that asks use one of a server."""
        return self.servers() if self.tools() == [ECHO] else ()


def recalls(peer, session, words):
    said = peer.turn(session, "RECALL")
    missing = [word for word in words if word not in said]
    if missing:
        raise Failed(f"the model was not sent {missing}: {said[:300]}")
    return said


def text_turn(stage):
    peer = stage.peer()
    session, _, _ = stage.session(peer)
    said = peer.turn(session, "SAY pong-1", patience=90)
    if "pong-1" not in said:
        raise Failed(f"said {said[:200]!r}")


def tool_with_a_question(stage):
    """The client that asked is gone when the question comes; another one, at the other gateway, answers it."""
    first = stage.peer()
    first.answers_questions = False
    servers = stage.own_servers()
    session, cwd, _ = stage.session(first, servers)
    number = first.ask(session, "USE-TOOL " + json.dumps(stage.tools()))
    try:
        first.question(patience=45)
    except Failed:
        answer = next((one for one in first.messages if one.get("id") == number and "method" not in one), None)
        if answer and "TOOL-DONE" in first.said(session):
            raise NotApplicable("runs its tools without asking") from None
        raise Failed(f"asked nothing; {json.dumps(answer)[:200]}; said {first.said(session)[:300]!r}") from None
    first.vanish()
    second = stage.peer(1)
    stage.load(second, session, cwd, servers)
    second.hears(session, "TOOL-DONE")
    said = second.said(session).split("TOOL-DONE", 1)[1]
    if "made-by-tool" not in said and "hi-there" not in said:
        raise Failed(f"the tool did not run: {said[-300:]!r}")
    asked = [request for request in second.asked if request["method"] == "session/request_permission"]
    if len(asked) != 1:
        raise Failed(f"the second client was asked {len(asked)} times")
    if "pong-2" not in second.turn(session, "SAY pong-2"):
        raise Failed("the next turn said something else")


def cancel(stage):
    peer = stage.peer()
    session, _, _ = stage.session(peer, stage.own_servers())
    number = peer.ask(session, "SLOW 300")
    peer.hears(session, "tick-2")
    peer.send({"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session}})
    answer = peer.response(number)
    if answer.get("result", {}).get("stopReason") != "cancelled":
        raise Failed(f"ended with {json.dumps(answer)[:300]}")
    if "pong-3" not in peer.turn(session, "SAY pong-3"):
        raise Failed("the next turn said something else")


def load(stage):
    first = stage.peer()
    mark = stage.mark()
    session, cwd, _ = stage.session(first)
    first.turn(session, f"SAY pong-4 {mark}")
    first.vanish()
    second = stage.peer(1)
    stage.load(second, session, cwd)
    if second.said(session).count("pong-4") != 1:
        raise Failed(f"replayed {second.said(session)[:300]!r}")
    if second.said(session, kind="user_message_chunk").count(mark) != 1:
        raise Failed("the prompt was not replayed once")
    recalls(second, session, [mark])


def fork(stage):
    peer = stage.peer()
    mark, later, own = stage.mark(), stage.mark(), stage.mark()
    session, cwd, _ = stage.session(peer)
    peer.turn(session, f"SAY pong-5 {mark}")
    child = stage.load(peer, session, cwd, method="session/fork")["sessionId"]
    peer.turn(session, f"SAY pong-6 {later}")
    peer.turn(child, f"SAY pong-7 {own}")
    said = recalls(peer, child, [mark, own])
    if later in said:
        raise Failed("the fork knows what was said in its parent later")
    if own in recalls(peer, session, [mark, later]):
        raise Failed("the parent knows what was said in its fork")


def idle_rest(stage):
    """The process is stopped, another one goes on, and the history is still what was said."""
    peer = stage.peer()
    first, second = stage.mark(), stage.mark()
    session, cwd, _ = stage.session(peer)
    peer.turn(session, f"SAY pong-8 {first}")
    stage.cluster.rest()
    peer.turn(session, f"SAY pong-9 {second}")
    recalls(peer, session, [first, second])
    reader = stage.peer(1)
    stage.load(reader, session, cwd)
    for word, kind in ((first, "user_message_chunk"), ("pong-8", "agent_message_chunk"), (second, "user_message_chunk")):
        count = reader.said(session, kind=kind).count(word)
        # RECALL says the marks once more, and is not of the user.
        if count != 1:
            raise Failed(f"{word} is {count} times in the history")


def worker_killed_and_failed(stage):
    peer = stage.peer()
    mark = stage.mark()
    session, _, _ = stage.session(peer, stage.own_servers())
    peer.turn(session, f"SAY pong-10 {mark}")
    number = peer.ask(session, "SLOW 400")
    peer.hears(session, "tick-2")
    stage.cluster.kill(stage.cluster.holder(session))
    error = peer.response(number).get("error", {})
    if error.get("code") != 5005:
        raise Failed(f"ended with {json.dumps(error)[:300]}")
    recalls(peer, session, [mark])


def worker_killed_and_resumed(stage):
    peer = stage.peer()
    mark = stage.mark()
    session, _, _ = stage.session(peer, stage.own_servers())
    peer.turn(session, f"SAY pong-11 {mark}")
    number = peer.ask(session, "SLOW 60")
    peer.hears(session, "tick-5")
    stage.cluster.kill(stage.cluster.holder(session))
    answer = peer.response(number, 120)
    if answer.get("result", {}).get("stopReason") != "end_turn" or "tick-59" not in peer.said(session):
        raise Failed(f"ended with {json.dumps(answer)[:300]}; said {peer.said(session)[-100:]!r}")
    recalls(peer, session, [mark])


def values_of(option):
    """The values of an option that are not in effect; those that the model server serves come first."""
    flat = [one for group in option["options"] for one in group.get("options", [group])]
    values = [one["value"] for one in flat if one["value"] != option["currentValue"]]
    return sorted(values, key=lambda value: "fake-two" not in value)


def choices(opened):
    """Another mode and another model of what a new session offers: the request that sets it, and its value."""
    mode = model = None
    for option in opened.get("configOptions") or []:
        category = option.get("category")
        if category in ("mode", "model") and option.get("type", "select") == "select" and values_of(option):
            value = values_of(option)[0]
            request = ("session/set_config_option", {"configId": option["id"], "value": value}, value)
            mode, model = (request, model) if category == "mode" else (mode, request)
    modes, models = opened.get("modes") or {}, opened.get("models") or {}
    others = [one["id"] for one in modes.get("availableModes", []) if one["id"] != modes.get("currentModeId")]
    # The stricter one: it is what may not be lost.
    others.sort(key=lambda name: ("plan" not in name.lower(), "read" not in name.lower()))
    if others:
        mode = ("session/set_mode", {"modeId": others[0]}, others[0])
    others = [one["modelId"] for one in models.get("availableModels", []) if one["modelId"] != models.get("currentModelId")]
    others.sort(key=lambda value: "fake-two" not in value)
    if others and not model:
        model = ("session/set_model", {"modelId": others[0]}, others[0])
    return mode, model


def shown(answer):
    """Mode and model of a session, as a client that loads it is told."""
    told = {option.get("category"): option["currentValue"] for option in answer.get("configOptions") or []}
    modes = answer.get("modes") or {}
    return modes.get("currentModeId", told.get("mode")), told.get("model")


def mode_and_model(stage):
    """Both are chosen, the process rests, and another has them: the model server sees the model, a client both."""
    peer = stage.peer()
    session, cwd, opened = stage.session(peer)
    mode, model = choices(opened)
    if not mode and not model:
        raise NotApplicable("offers neither modes nor models")
    for method, params, _ in filter(None, (mode, model)):
        peer.call(method, {"sessionId": session, **params})
    before = served_model(stage, peer, session)
    stage.cluster.rest()
    since = len(peer.messages)
    after = served_model(stage, peer, session)
    if before != after:
        raise Failed(f"the model was {before} and is {after}")
    changed = [one for one in peer.updates(session, since) if one["sessionUpdate"] == "current_mode_update"]
    if mode and any(one["currentModeId"] != mode[2] for one in changed):
        raise Failed(f"the mode {mode[2]} became {changed}")
    has_mode, has_model = shown(stage.load(stage.peer(1), session, cwd))
    if mode and has_mode != mode[2]:
        raise Failed(f"the mode is {has_mode}, and {mode[2]} was chosen")
    if model and has_model not in (None, model[2]):
        raise Failed(f"the model is {has_model}, and {model[2]} was chosen")
    return f"mode {mode[2] if mode else 'n/a'}, model {model[2] if model else 'n/a'}, served {after}"


def served_model(stage, peer, session):
    mark = stage.mark()
    peer.turn(session, f"SAY pong-12 {mark}")
    model = stage.model.model_of(mark)
    if model is None:
        raise Failed("the model server was asked nothing")
    return model


def without_baton(stage, text, more=(), servers=()):
    """What the agent itself says to the same prompt."""
    peer = ProcessPeer(stage.command, environment=stage.environment, cwd=stage.directory())
    try:
        session, _, _ = stage.session(peer, servers)
        return peer.turn(session, text, more)
    finally:
        peer.end()


def image(stage):
    peer = stage.peer()
    able = peer.initialized["agentCapabilities"].get("promptCapabilities", {}).get("image")
    if not able:
        raise NotApplicable("takes no images")
    picture = [{"type": "image", "mimeType": "image/png", "data": IMAGE}]
    session, _, _ = stage.session(peer)
    said = peer.turn(session, "IMAGE", picture)
    if "IMAGE-SEEN" in said:
        return
    if "IMAGE-SEEN" in without_baton(stage, "IMAGE", picture):
        raise Failed(f"the model saw none: {said[:200]!r}")
    raise NotApplicable("sends this model no images, without Baton neither")


def mcp_server(stage):
    peer = stage.peer()
    session, _, _ = stage.session(peer, stage.servers())
    text = "USE-TOOL " + json.dumps([ECHO])
    said = peer.turn(session, text)
    if "TOOL-DONE" in said and "hi-there" in said:
        return
    if "TOOL-DONE" in without_baton(stage, text, servers=stage.servers()):
        raise Failed(f"said {said[:300]!r}")
    raise NotApplicable("offers its model no tools of MCP servers, without Baton neither")


FILES = {"fs": {"readTextFile": True, "writeTextFile": True}}
# As the two editors say what they can do.
ZED = {
    **FILES,
    "terminal": True,
    "auth": {"terminal": True},
    "elicitation": {"form": {}, "url": {}},
    "_meta": {"terminal_output": True, "terminal-auth": True},
}
JETBRAINS = {**FILES, "terminal": True, "_meta": {"terminal_output": False}}


def behind_and_itself(stage, try_it, **able):
    """What an editor sees of an agent behind `baton connect`, and of the same agent without Baton: one that leaves an
    editor alone there cannot do it, and it is not Baton's fault."""
    seen = []
    for command, environment in (
        ([stage.baton, "connect", stage.urls[0]], stage.cluster.environment),
        (stage.command, stage.environment),
    ):
        peer = ProcessPeer(command, environment=environment, cwd=stage.directory(), files={}, **able)
        try:
            session, cwd, _ = stage.session(peer, stage.own_servers())
            seen.append(try_it(peer, session, cwd))
        finally:
            peer.end()
        if all(seen[0].values()):
            return seen[0], None
    return tuple(seen)


def compared(stage, what, try_it, **able):
    behind, itself = behind_and_itself(stage, try_it, **able)
    works = [name for name, seen in behind.items() if seen]
    if itself is None:
        return ", ".join(works)
    lost = [name for name, seen in itself.items() if seen and not behind[name]]
    if lost:
        raise Failed(f"{', '.join(lost)}: without Baton, and not behind it")
    if not works:
        raise NotApplicable(f"{what}, without Baton neither")
    return f"only {', '.join(works)}, as without Baton"


def editors_files(stage):
    def try_it(peer, session, cwd):
        path, other = os.path.join(cwd, "open.txt"), os.path.join(cwd, "other.txt")
        Path(path).write_text("on-disk\n")
        Path(other).write_text("on-disk\n")
        peer.files[path] = "unsaved-text\n"
        read = peer.turn(session, "USE-TOOL " + json.dumps([stage.product.reads(path)]))
        peer.turn(session, "USE-TOOL " + json.dumps([stage.product.writes(other, "from-agent")]))
        return {"reads": "unsaved-text" in read, "writes": "from-agent" in peer.written.get(other, "")}

    return compared(stage, "asks no editor for files", try_it, capabilities=FILES)


def editors_terminal(stage):
    """The editor's terminal runs nothing: it says what a command would have said, and the agent tells the model."""

    def try_it(peer, session, cwd):
        said = peer.turn(session, "USE-TOOL " + json.dumps(stage.tools()))
        return {"runs commands": peer.terminals > 0 and "from-the-editor" in said}

    return compared(stage, "asks no editor for a terminal", try_it, capabilities=JETBRAINS, name="JetBrains.IntelliJ IDEA")


def zeds_capabilities(stage):
    """Agents show the output of commands in a way of Zed's if it says so in `_meta`."""

    def try_it(peer, session, cwd):
        peer.turn(session, "USE-TOOL " + json.dumps(stage.tools()))
        return {"terminal output": "terminal_output" in json.dumps(list(peer.updates(session)))}

    return compared(stage, "shows Zed nothing else", try_it, capabilities={**ZED, "terminal": False}, name="zed")


def terminal_login(stage):
    """Each caller logs in for itself here, so its editor is offered what the agent offers."""

    def is_offered(command, environment):
        peer = ProcessPeer(command, environment=environment, cwd=stage.directory(), capabilities=ZED, name="zed")
        try:
            return "terminal" in json.dumps(peer.initialized.get("authMethods", []))
        finally:
            peer.end()

    if is_offered([stage.baton, "connect", stage.urls[0]], stage.cluster.environment):
        return
    if is_offered(stage.command, stage.environment):
        raise Failed("offered without Baton, and not behind it")
    raise NotApplicable("offers editors no login in a terminal, without Baton neither")


def editor_is_away(stage):
    """The editor's network is cut while its user thinks, as when a laptop sleeps."""
    proxy = CutProxy(int(stage.urls[0].split(":")[2].split("/")[0]))
    url = stage.urls[0].replace(stage.urls[0].split(":")[2].split("/")[0], str(proxy.port))
    peer = ProcessPeer([stage.baton, "connect", url], environment=stage.cluster.environment, capabilities=FILES, name="zed")
    peer.answers_questions = False
    try:
        session, _, _ = stage.session(peer, stage.own_servers())
        number = peer.ask(session, "USE-TOOL " + json.dumps(stage.tools()))
        try:
            question = peer.question(patience=60)
        except Failed:
            raise NotApplicable("runs its tools without asking") from None
        proxy.cut()
        proxy.refused.wait(30)
        proxy.heal()
        peer.answer(question)
        answer = peer.response(number, 90)
        if answer.get("result", {}).get("stopReason") != "end_turn" or "TOOL-DONE" not in peer.said(session):
            raise Failed(f"ended with {json.dumps(answer)[:300]}")
        # Some agents ask editors for other things, too.
        asked = [request for request in peer.asked if request["method"] == question["method"]]
        if len(asked) != 1:
            raise Failed(f"the editor was asked {len(asked)} times")
        if peer.said(session).count("TOOL-DONE") != 1:
            raise Failed("the editor was told something twice")
    finally:
        peer.end()
        proxy.cut()


# Name, what has to happen, and how it is tried.
FAIL = [
    ("text turn", "a prompt is answered", text_turn),
    (
        "question, another client answers",
        "a tool asks for permission after its client was cut off; a client at the other gateway loads the session, is asked once and agrees; the tool runs",
        tool_with_a_question,
    ),
    ("cancel", "a turn ends as cancelled in the middle of its text, and the next one works", cancel),
    ("load", "a second client at the other gateway is shown the conversation once; the model is sent all of it with the next prompt", load),
    ("fork", "child and parent go on; the model is sent the common part and not what the other one said", fork),
    ("idle rest", "the process is stopped; another one goes on, with everything in its place and nothing twice", idle_rest),
    (
        "mode and model after a rest",
        "both are chosen before the process is stopped; the next one runs with them, as the model server and a client see",
        mode_and_model,
    ),
    ("image", "an image in a prompt reaches the model", image),
    ("MCP server (stdio)", "the model calls a tool of a server that the client names", mcp_server),
    (
        "editor: files",
        "an editor behind `baton connect` has a file with text that is not saved: the agent reads that, and writes a file through the editor",
        editors_files,
    ),
    ("editor: terminals", "an agent that runs its commands in JetBrains' terminal does so behind `baton connect`", editors_terminal),
    ("editor: Zed's `_meta`", "an agent that shows the output of commands otherwise for Zed does so behind `baton connect`", zeds_capabilities),
    (
        "editor away in a question",
        "the network of `baton connect` is cut while its user is asked; the answer that is given afterwards counts once",
        editor_is_away,
    ),
    ("worker killed, `fail`", "`kill -9` in the middle of a turn: error 5005, nothing of the agent is left, the next prompt goes on at a worker", worker_killed_and_failed),
]
RESUME = [
    ("worker killed, `resume`", "the same with `--on-crash resume`: the other worker asks the agent again, and the turn ends well", worker_killed_and_resumed)
]
# With `--agent-auth caller`.
LOGIN = [
    ("editor: login in a terminal", "with `--agent-auth caller`, an agent that offers Zed a login in a terminal does so behind `baton connect`", terminal_login)
]
