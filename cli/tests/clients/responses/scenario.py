"""The official client for Python, unmodified, against Baton's door for Open Responses.

    scenario.py BASE_URL      BASE_URL ends with /v1
"""

import asyncio
import sys

from openai import APIStatusError, AsyncOpenAI, OpenAI

# Every object and event is held against the client's own types.
client = OpenAI(
    base_url=sys.argv[1], api_key="bk_alice", max_retries=0, _strict_response_validation=True
)


def check(held, what):
    if not held:
        raise SystemExit(f"not so: {what}")


def refused(status, code, call):
    try:
        call()
    except APIStatusError as error:
        check(error.status_code == status and error.code == code, (error.status_code, error.body))
        return
    raise SystemExit(f"{code} was expected")


def words(chunks, prompt):
    return "".join(f"chunk {at} of {chunks}, prompt {prompt} " for at in range(1, chunks + 1))


def models():
    listed = [model.id for model in client.models.list()]
    check("scripted" in listed, listed)
    check(client.models.retrieve("scripted").id == "scripted", "one model")


def whole():
    response = client.responses.create(
        model="scripted",
        input=[{"role": "user", "content": [{"type": "input_text", "text": "/count 3"}]}],
        metadata={"topic": "counting"},
        temperature=0.5,
    )
    check(response.status == "completed", response.status)
    check(response.output_text == words(3, 1), response.output_text)
    check(response.metadata == {"topic": "counting"}, response.metadata)
    check(response.temperature == 0.5 and response.model == "scripted", response)
    again = client.responses.retrieve(response.id)
    check(again.output == response.output and again.id == response.id, "what is kept is the same")
    return response


def streamed():
    kinds, numbers, text, last = [], [], "", None
    with client.responses.create(model="scripted", input="/think\n/count 5 delay=5", stream=True) as events:
        for event in events:
            kinds.append(event.type)
            numbers.append(event.sequence_number)
            last = event
            if event.type == "response.output_text.delta":
                text += event.delta
    check(numbers == list(range(len(numbers))), numbers)
    check(kinds[:2] == ["response.created", "response.in_progress"], kinds)
    check(kinds[-1] == "response.completed", kinds)
    check("response.reasoning_summary_text.delta" in kinds, kinds)
    check(text == words(5, 1) == last.response.output_text, text)
    return last.response


def helper_of_the_client():
    with client.responses.stream(model="scripted", input="hello world") as stream:
        for _ in stream:
            pass
        final = stream.get_final_response()
    check(final.output_text == "hello world ", final.output_text)


def chain(first):
    second = client.responses.create(model="scripted", input="/count 1", previous_response_id=first.id)
    check(second.output_text == words(1, 2), second.output_text)
    check(second.previous_response_id == first.id, second.previous_response_id)
    third = client.responses.create(model="scripted", input="/count 1", previous_response_id=second.id)
    check(third.output_text == words(1, 3), third.output_text)
    # From the middle: as if the third had never been.
    other = client.responses.create(model="scripted", input="/count 1", previous_response_id=second.id)
    check(other.output_text == words(1, 3), other.output_text)
    return third


async def parallel(first):
    many = AsyncOpenAI(base_url=sys.argv[1], api_key="bk_alice", max_retries=0)
    ask = lambda: many.responses.create(  # noqa: E731
        model="scripted", input="/count 2", previous_response_id=first.id
    )
    texts = [response.output_text for response in await asyncio.gather(*[ask() for _ in range(20)])]
    check(texts == [words(2, 2)] * 20, texts)


def background():
    begun = client.responses.create(model="scripted", input="/count 20 delay=20", background=True)
    check(begun.status == "queued", begun.status)
    cursor, numbers, text = None, [], ""
    with client.responses.retrieve(begun.id, stream=True) as events:
        for event in events:
            numbers.append(event.sequence_number)
            cursor = event.sequence_number
            if event.type == "response.output_text.delta":
                text += event.delta
            if len(numbers) == 10:
                break
    with client.responses.retrieve(begun.id, stream=True, starting_after=cursor) as events:
        for event in events:
            numbers.append(event.sequence_number)
            if event.type == "response.output_text.delta":
                text += event.delta
    check(numbers == list(range(len(numbers))), numbers)
    check(text == words(20, 1), text)
    ended = client.responses.retrieve(begun.id)
    check(ended.status == "completed" and ended.output_text == text, ended)


def cancelled():
    begun = client.responses.create(model="scripted", input="/count 500 delay=50", background=True)
    ended = client.responses.cancel(begun.id)
    check(ended.status == "cancelled", ended.status)
    check(client.responses.retrieve(begun.id).status == "cancelled", "it stays cancelled")


def approvals():
    asked = client.responses.create(model="scripted", input="/permission")
    request = next(item for item in asked.output if item.type == "mcp_approval_request")
    told = client.responses.create(
        model="scripted",
        previous_response_id=asked.id,
        input=[{"type": "mcp_approval_response", "approval_request_id": request.id, "approve": True}],
    )
    check(told.output_text == "permission allow_once ", told.output_text)
    asked = client.responses.create(model="scripted", input="/permission")
    call = next(item for item in asked.output if item.type == "function_call")
    told = client.responses.create(
        model="scripted",
        previous_response_id=asked.id,
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "reject_once"}],
    )
    check(told.output_text == "permission reject_once ", told.output_text)


def functions():
    tool = {
        "type": "function",
        "name": "add",
        "description": "adds two numbers",
        "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
        "strict": True,
    }
    called = client.responses.create(model="scripted", input='/call functions add {"a": 1}', tools=[tool])
    call = next(item for item in called.output if item.type == "function_call")
    check(call.name == "add" and call.arguments == '{"a":1}', call)
    told = client.responses.create(
        model="scripted",
        previous_response_id=called.id,
        input=[{"type": "function_call_output", "call_id": call.call_id, "output": "2"}],
        tools=[tool],
    )
    check(told.output_text == "add says 2 ", told.output_text)


def kept(response):
    items = client.responses.input_items.list(response.id)
    text = items.data[0].content[0].text
    check(text == "/count 3", text)
    gone = client.responses.create(model="scripted", input="hello")
    client.responses.delete(gone.id)
    refused(404, "response_not_found", lambda: client.responses.retrieve(gone.id))


def failures():
    create = client.responses.create
    refused(404, "model_not_found", lambda: create(model="nobody", input="x"))
    refused(404, "previous_response_not_found",
            lambda: create(model="scripted", input="x", previous_response_id="resp_1"))
    refused(400, "invalid_value", lambda: create(model="scripted", input="x", temperature=9))
    failed = OpenAI(base_url=sys.argv[1], api_key="bk_alice").responses.create(model="scripted", input="/fail")
    check(failed.status == "failed" and failed.error.message, failed)
    limited = create(model="scripted", input="/stop max_tokens")
    check(limited.status == "incomplete", limited.status)
    check(limited.incomplete_details.reason == "max_output_tokens", limited)


models()
first = whole()
helper_of_the_client()
streamed()
chain(streamed())
asyncio.run(parallel(first))
background()
cancelled()
approvals()
functions()
kept(first)
failures()
print("scenario passed")
