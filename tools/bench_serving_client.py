"""A closed loop of clients at an OpenAI server, over plain sockets: tools/bench_serving's load.

Each client takes the next session and sends its requests one after another, each on a connection
of its own, streamed, greedy and of a fixed length.  Times are taken here: to the first text, and
to the event that says why the answer ended.
"""
import asyncio
import json
import time

PATIENCE = 900  # seconds of one request


def body_of(request) -> bytes:
    return json.dumps({"prompt": request["prompt"], "max_tokens": request["answer_tokens"],
                       "temperature": 0, "seed": 1, "ignore_eos": True, "stream": True,
                       "stream_options": {"include_usage": True}}).encode()


async def lines_of(reader):
    """The lines of a reply's body, whether or not it comes in chunks."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    status = int(head.split(" ", 2)[1])
    chunked = "transfer-encoding: chunked" in head.lower()
    rest = b""
    while True:
        if chunked:
            size = int((await reader.readline()).split(b";")[0] or b"0", 16)
            piece = (await reader.readexactly(size + 2))[:-2]
        else:
            piece = await reader.read(65536)
        if not piece:
            break
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield status, line.strip()
    if rest:
        yield status, rest.strip()


async def read_answer(reader, start: float, answer):
    async for status, line in lines_of(reader):
        if status != 200 or line.startswith(b"error:"):
            answer["error"] = f"status {status}: {line.decode(errors='replace')[:300]}"
            return
        if not line.startswith(b"data: {"):
            continue
        event, now = json.loads(line[6:]), time.perf_counter() - start
        if "error" in event:
            answer["error"] = str(event["error"])[:300]
            return
        for choice in event.get("choices", ()):
            if choice.get("text"):
                answer.setdefault("ttft", now)
                answer["text"] += choice["text"]
            if choice.get("finish_reason"):
                answer["ended"], answer["finish"] = now, choice["finish_reason"]
        if usage := event.get("usage"):
            answer["prompt_tokens"] = usage["prompt_tokens"]
            answer["tokens"] = usage["completion_tokens"]
            answer["cached"] = (usage.get("prompt_tokens_details") or {}).get("cached_tokens", 0)


def check(request, answer):
    """An answer without its times, its usage or its length counts as failed."""
    if "error" in answer:
        return
    missing = [key for key in ("ended", "tokens") if key not in answer]
    if missing:
        answer["error"] = f"the stream ended without {', '.join(missing)}"
    elif answer["tokens"] != request["answer_tokens"] or answer["finish"] != "length":
        answer["error"] = (f"{answer['tokens']} tokens of {request['answer_tokens']}, "
                           f"finish_reason {answer['finish']}")
    else:
        answer.setdefault("ttft", answer["ended"])  # of tokens that are no text


async def ask(port: int, request) -> dict:
    answer, body = {"name": request["name"], "text": ""}, body_of(request)
    start = time.perf_counter()
    try:
        async with asyncio.timeout(PATIENCE):
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
            try:
                writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                             b"Content-Type: application/json\r\nConnection: close\r\n"
                             b"Content-Length: %d\r\n\r\n" % len(body) + body)
                await read_answer(reader, start, answer)
            finally:
                writer.close()
    except (OSError, EOFError, ValueError, KeyError) as error:
        answer["error"] = f"{type(error).__name__}: {error}"
    check(request, answer)
    return answer


async def closed_loop(port: int, sessions, clients: int, progress) -> dict:
    answers, waiting = [], iter(sessions)
    total = sum(len(session) for session in sessions)

    async def client():
        for session in waiting:
            for request in session:
                answers.append(await ask(port, request))
                progress(len(answers), total)

    start = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return {"seconds": time.perf_counter() - start, "answers": answers}


def run(port: int, sessions, clients: int, progress=lambda done, total: None) -> dict:
    return asyncio.run(closed_loop(port, sessions, clients, progress))
