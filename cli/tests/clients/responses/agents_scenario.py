"""The official library for agents, unmodified: a model that is one of Baton's agents.

    agents_scenario.py BASE_URL
"""

import asyncio
import sys

from agents import Agent, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI

set_tracing_disabled(True)
client = AsyncOpenAI(base_url=sys.argv[1], api_key="bk_alice", max_retries=0)


@function_tool
def add(a: int, b: int) -> str:
    """Adds two numbers."""
    return str(a + b)


agent = Agent(name="counter", model=OpenAIResponsesModel(model="scripted", openai_client=client))


async def main():
    first = await Runner.run(agent, "/count 2")
    assert first.final_output == "chunk 1 of 2, prompt 1 chunk 2 of 2, prompt 1 ", first.final_output
    second = await Runner.run(agent, "/count 1", previous_response_id=first.last_response_id)
    assert second.final_output == "chunk 1 of 1, prompt 2 ", second.final_output
    # The library calls the function itself, and keeps the conversation, too.
    adding = Agent(name="adder", model=agent.model, tools=[add])
    summed = await Runner.run(adding, '/call functions add {"a": 1, "b": 2}')
    assert summed.final_output == "add says 3 ", summed.final_output
    streamed = Runner.run_streamed(agent, "hello world")
    text = ""
    async for event in streamed.stream_events():
        if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
            text += event.data.delta
    assert text == streamed.final_output == "hello world ", text


asyncio.run(main())
print("scenario passed")
