#!/usr/bin/env python3
"""Goal: the unmodified `openai` package works against `quire serve`.
Method: starts the built program on a model and uses the client as its documentation does: chat, stream,
usage, several answers, logprobs, JSON, schemas, tools, errors, a cancelled stream.

    tools/setup clients
    .deps/openai/bin/python test/serve/openai_check.py MODEL.gguf [build/quire [FLAGS OF SERVE]]

Among the slow tests: test/cli/serve_client_slow_test.cc.
"""
import json
import re
import signal
import subprocess
import sys

import openai
import pydantic


class City(pydantic.BaseModel):  # bounded: a weak model fills what it may
    city: str = pydantic.Field(max_length=20)
    people: int = pydantic.Field(ge=0, le=100_000_000)


class Weather(pydantic.BaseModel):
    city: str


class Stop(pydantic.BaseModel):
    """Ends the conversation."""


ASK = [{"role": "system", "content": "Be brief."},
       {"role": "user", "content": "What is the capital of France?"}]
failed = []


def check(name: str, good: bool, said=""):
    print(f"{'ok    ' if good else 'FAILED'} {name}{'' if good else f': {said}'}", flush=True)
    if not good:
        failed.append(name)


def start(model: str, program: str, flags):
    server = subprocess.Popen([program, "serve", "-m", model, "--port", "0", "--temp", "0",
                               "--budget", "128MiB", "-q", *flags], stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        if found := re.search(r"at (http://\S+)", line):
            return server, found[1]
    raise SystemExit("the server did not start")


def check_chats(client):
    models = client.models.list().data
    check("models.list", len(models) == 1, models)
    check("models.retrieve", client.models.retrieve(models[0].id).id == models[0].id)
    whole = client.chat.completions.create(model=models[0].id, messages=ASK, max_tokens=32)
    text = whole.choices[0].message.content
    check("chat", bool(text) and whole.choices[0].finish_reason in ("stop", "length"), whole)
    check("usage", whole.usage.total_tokens ==
          whole.usage.prompt_tokens + whole.usage.completion_tokens, whole.usage)
    check("kv beside", whole.model_extra["kv"]["lossy"] is False, whole.model_extra)
    chunks = list(client.chat.completions.create(
        model="any", messages=ASK, max_completion_tokens=32, stream=True,
        stream_options={"include_usage": True}))
    said = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    check("stream", said == text, (said, text))
    usage = chunks[-1].usage  # of the same tokens; more of them were cached by now
    check("stream usage", not chunks[-1].choices and
          (usage.prompt_tokens, usage.completion_tokens) ==
          (whole.usage.prompt_tokens, whole.usage.completion_tokens), chunks[-1])
    check("role comes with the first text", chunks[0].choices[0].delta.role == "assistant" and
          bool(chunks[0].choices[0].delta.content), chunks[0])
    plain = list(client.chat.completions.create(model="any", messages=ASK, max_tokens=4, stream=True))
    check("no usage unasked", all(c.usage is None for c in plain), plain[-1])


def check_options(client):
    several = client.chat.completions.create(model="any", messages=ASK, max_tokens=8, n=3, seed=1,
                                             temperature=1.2)
    again = client.chat.completions.create(model="any", messages=ASK, max_tokens=8, n=3, seed=1,
                                           temperature=1.2)
    texts = [c.message.content for c in several.choices]
    check("n and seed", len(texts) == 3 and texts == [c.message.content for c in again.choices], texts)
    logged = client.chat.completions.create(model="any", messages=ASK, max_tokens=5, logprobs=True,
                                            top_logprobs=2)
    content = logged.choices[0].logprobs.content
    check("logprobs", 0 < len(content) <= 5 and all(
        t.logprob <= 0 and len(t.top_logprobs) == 2 and bytes(t.bytes).decode() == t.token
        for t in content), content)
    chunks = client.chat.completions.create(model="any", messages=ASK, max_tokens=5, logprobs=True,
                                            top_logprobs=2, stream=True)
    pieces = [t for c in chunks if c.choices and c.choices[0].logprobs
              for t in c.choices[0].logprobs.content]
    check("logprobs streamed", pieces == content, pieces)
    text = client.completions.create(model="any", prompt="Once upon a time", max_tokens=12, logprobs=1)
    check("completions", text.usage.completion_tokens <= 12 and len(text.choices[0].logprobs.tokens) ==
          text.usage.completion_tokens, text)
    formed = client.chat.completions.create(
        model="any", max_tokens=120, response_format={"type": "json_object"},
        messages=[{"role": "user", "content": "A JSON object with the fields name and age."}])
    check("json_object", formed.choices[0].finish_reason == "length" or
          isinstance(json.loads(formed.choices[0].message.content), dict), formed.choices[0])
    exact = client.chat.completions.create(model="any", messages=ASK, max_tokens=40,
                                           extra_body={"ignore_eos": True, "min_tokens": 40})
    check("exact length", exact.usage.completion_tokens == 40, exact.usage)
    stopped = client.completions.create(model="any", prompt="1, 2, 3, 4,", max_tokens=30, stop=["7"])
    check("stop", "7" not in stopped.choices[0].text, stopped)


def check_schema(client):
    schema = {"type": "object", "properties": {
        "city": {"type": "string", "maxLength": 20}, "people": {"type": "integer", "minimum": 0}},
        "required": ["city", "people"], "additionalProperties": False}
    options = {"model": "any", "messages": ASK, "max_tokens": 150, "response_format": {
        "type": "json_schema", "json_schema": {"name": "city", "strict": True, "schema": schema}}}
    whole = client.chat.completions.create(**options).choices[0]
    answer = json.loads(whole.message.content)
    check("json_schema", whole.finish_reason == "stop" and list(answer) == ["city", "people"] and
          isinstance(answer["people"], int), whole)
    chunks = list(client.chat.completions.create(stream=True, **options))
    said = "".join(c.choices[0].delta.content or "" for c in chunks)
    check("json_schema streamed", said == whole.message.content, said)
    parsed = client.chat.completions.parse(**{**options, "response_format": City})
    check("json_schema by the package's parse()", isinstance(parsed.choices[0].message.parsed, City), parsed)


# What one call is, whatever brought it.
def is_weather(name: str, arguments: str) -> bool:
    found = json.loads(arguments)
    return name == "Weather" and list(found) == ["city"] and isinstance(found["city"], str)


def check_tools(client):
    tools = [openai.pydantic_function_tool(Weather, description="The weather of a city, now")]
    options = {"model": "any", "max_tokens": 200, "tools": tools, "messages": [
        {"role": "user", "content": "What is the weather in Paris now?"}]}
    try:
        whole = client.chat.completions.create(**options)
    except openai.BadRequestError as error:  # the template of this model shows no tools
        return check("tools are refused by name", error.param == "tools", error)
    check("tools, auto", whole.choices[0].finish_reason in ("tool_calls", "stop"), whole)
    named = client.chat.completions.create(
        tool_choice={"type": "function", "function": {"name": "Weather"}}, **options).choices[0]
    call = named.message.tool_calls[0]
    check("a named tool", named.finish_reason == "tool_calls" and bool(call.id) and
          is_weather(call.function.name, call.function.arguments), named)
    check_tools_streamed(client, {**options, "tool_choice": "required", "parallel_tool_calls": False})
    check_choices_of_tools(client, options)
    options["messages"] += [named.message, {
        "role": "tool", "tool_call_id": call.id, "content": "sunny, 21 degrees"}]
    after = client.chat.completions.create(tool_choice="none", **options).choices[0]
    check("after the tool's answer", bool(after.message.content) and not after.message.tool_calls, after)
    print(f"       it said: {after.message.content!r}")


def check_tools_streamed(client, options):
    ids, name, arguments, finish = [], "", "", None
    for chunk in client.chat.completions.create(stream=True, **options):
        finish = chunk.choices[0].finish_reason or finish
        for piece in chunk.choices[0].delta.tool_calls or []:
            ids += [piece.id] if piece.id else []
            name += piece.function.name or ""
            arguments += piece.function.arguments or ""
    check("tools streamed", len(ids) == 1 and is_weather(name, arguments) and finish == "tool_calls",
          (ids, name, arguments, finish))
    with client.chat.completions.stream(**options) as stream:
        events = [event.type for event in stream]
        final = stream.get_final_completion().choices[0].message
    check("tools by the package's stream()", "tool_calls.function.arguments.done" in events and isinstance(
        final.tool_calls[0].function.parsed_arguments, Weather), (events, final))
    parsed = client.chat.completions.parse(**options).choices[0].message
    check("tools by the package's parse()", isinstance(
        parsed.tool_calls[0].function.parsed_arguments, Weather), parsed)


def check_choices_of_tools(client, options):
    none = client.chat.completions.create(tool_choice="none", **options).choices[0]
    check("tools, none", none.finish_reason != "tool_calls" and not none.message.tool_calls, none)
    two = {**options, "tools": options["tools"] + [openai.pydantic_function_tool(Stop)]}
    other = client.chat.completions.create(
        tool_choice={"type": "function", "function": {"name": "Stop"}}, **two).choices[0].message
    check("the other of two tools", [(c.function.name, json.loads(c.function.arguments))
                                     for c in other.tool_calls][0] == ("Stop", {}), other)
    loose = {"type": "function", "function": {"name": "Weather", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}}}}
    called = client.chat.completions.create(
        tool_choice="required", **{**options, "tools": [loose]}).choices[0]
    check("a tool that is not strict", called.finish_reason == "length" or all(
        isinstance(json.loads(c.function.arguments), dict) for c in called.message.tool_calls), called)
    for wrong in ({"type": "function"}, {"type": "function", "function": {"name": "a b"}},
                  {"type": "custom", "custom": {"name": "x"}}):
        try:
            client.chat.completions.create(**{**options, "tools": [wrong]})
            check("a wrong tool", False, wrong)
        except openai.BadRequestError as error:
            check("a wrong tool", (error.param or "").startswith("tools"), error)


def check_errors(client):
    def refused(name, kind, param, **options):
        try:
            client.chat.completions.create(model="any", messages=ASK, **options)
            check(name, False, "no error")
        except kind as error:
            check(name, error.param == param, error)
    refused("a wrong value", openai.BadRequestError, "temperature", temperature=-1)
    refused("an unknown field", openai.BadRequestError, "wish", extra_body={"wish": 1})
    refused("a schema that no grammar enforces", openai.BadRequestError, "response_format",
            response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": {"not": {}}}})
    refused("a choice of no tools", openai.BadRequestError, "tool_choice", tool_choice="required")
    try:
        client.completions.create(model="any", prompt="word " * 40000)
        check("a prompt too long", False, "no error")
    except openai.BadRequestError as error:
        check("a prompt too long", error.code == "context_length_exceeded" and
              error.body["n_prompt_tokens"] > error.body["n_ctx"], error)
    try:
        client.models.retrieve("no-such-model")
        check("an unknown model", False, "no error")
    except openai.NotFoundError as error:
        check("an unknown model", error.code == "model_not_found", error)
    with client.chat.completions.create(model="any", messages=ASK, max_tokens=2000, stream=True,
                                        extra_body={"ignore_eos": True}) as stream:
        next(iter(stream))
    check("after a cancelled stream", client.models.list().data[0].object == "model")


def main() -> int:
    model, program = sys.argv[1], (sys.argv + ["build/quire"])[2]
    server, url = start(model, program, sys.argv[3:])
    try:
        client = openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=900)
        check_chats(client)
        check_options(client)
        check_schema(client)
        check_tools(client)
        check_errors(client)
    finally:
        server.send_signal(signal.SIGTERM)
    check("goes down", server.wait(300) == 0, server.returncode)
    print(f"openai {openai.__version__}: {len(failed)} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
