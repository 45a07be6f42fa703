#!/usr/bin/env python3
"""OpenVINO GenAI's side of tools/bench_serving: a closed loop around its continuous batching.

Usage: bench_serving_openvino.py MODEL.gguf THREADS BLOCKS     in the environment .deps/peers/openvino

Its first line says what runs: {"version": ...}.  Then each line it reads, {"sessions": [[request,
...], ...], "clients": 16}, is answered with {"done": n} now and then, and at last with {"seconds":
s, "answers": [...]}, both as tools/bench_serving_client.py has them.  Greedy, no end token, f16
keys and values in exactly BLOCKS blocks of 32 tokens, prefix caching on, 512 tokens a step; else its
defaults, the precision of its products included.  There is no HTTP between: that favours it.
"""
import json
import os
import sys
import time

CHUNK = 512  # tokens of a step, as quire's


class Engine:
    def __init__(self, model: str, threads: int, blocks: int):
        import openvino_genai as genai
        self.genai, self.version = genai, genai.__version__
        config = genai.SchedulerConfig()
        config.num_kv_blocks = blocks
        config.max_num_batched_tokens = CHUNK
        config.dynamic_split_fuse = True
        config.enable_prefix_caching = True
        properties = {"INFERENCE_NUM_THREADS": threads, "KV_CACHE_PRECISION": "f16"}
        self.pipe = genai.ContinuousBatchingPipeline(model, config, "CPU", properties, {})
        self.tokenizer = self.pipe.get_tokenizer()
        self.count = 0

    def add(self, request):
        config = self.genai.GenerationConfig()
        config.max_new_tokens = request["answer_tokens"]
        config.ignore_eos = True
        config.do_sample = False
        config.apply_chat_template = False
        tokens = self.tokenizer.encode(request["prompt"]).input_ids
        self.count += 1
        return self.pipe.add_request(self.count, tokens, config), tokens.shape[1]


class Client:
    """Sends the requests of session after session, each when the one before it is answered."""

    def __init__(self, engine: Engine, sessions):
        self.engine, self.sessions = engine, sessions
        self.session, self.handle = iter(()), None

    def go_on(self) -> bool:
        """Sends the next request; false: there is none."""
        request = next(self.session, None)
        if request is None:
            self.session = iter(next(self.sessions, ()))
            request = next(self.session, None)
        if request is None:
            return False
        self.start, self.tokens = time.perf_counter(), []
        self.wanted = request["answer_tokens"]
        self.answer = {"name": request["name"], "text": "", "cached": 0}
        self.handle, self.answer["prompt_tokens"] = self.engine.add(request)
        return True

    def take(self):
        """What the last step gave; the answer, when it is whole."""
        while self.handle.can_read():
            for output in self.handle.read().values():
                self.tokens += output.generated_ids
        now = time.perf_counter() - self.start
        if self.tokens:
            self.answer.setdefault("ttft", now)
        if self.handle.get_status() == self.engine.genai.GenerationStatus.RUNNING:
            return None
        self.answer["tokens"], self.answer["ended"] = len(self.tokens), now
        if len(self.tokens) != self.wanted:
            self.answer["error"] = f"{len(self.tokens)} tokens of {self.wanted}"
        self.answer["text"] = self.engine.tokenizer.decode(self.tokens)
        return self.answer


def closed_loop(engine: Engine, sessions, clients: int, progress) -> dict:
    answers, rest = [], iter(sessions)
    start = time.perf_counter()
    busy = [c for c in (Client(engine, rest) for _ in range(clients)) if c.go_on()]
    while busy:
        engine.pipe.step()
        for client in list(busy):
            answer = client.take()
            if answer is None:
                continue
            answers.append(answer)
            progress(len(answers))
            if not client.go_on():
                busy.remove(client)
    return {"seconds": time.perf_counter() - start, "answers": answers}


def main(model: str, threads: int, blocks: int):
    # What the libraries print must not end up between the answers.
    lines = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    engine = Engine(model, threads, blocks)
    print(json.dumps({"version": engine.version}), file=lines)
    for line in sys.stdin:
        load = json.loads(line)
        found = closed_loop(engine, load["sessions"], load["clients"],
                            lambda done: print(json.dumps({"done": done}), file=lines))
        print(json.dumps(found), file=lines)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
