#!/usr/bin/env python3
"""OpenVINO GenAI's side of tools/bench_peers: runs rows on request.

Usage: bench_peers_openvino.py MODEL.gguf THREADS     in the environment .deps/peers/openvino

Reads lines such as {"kind": "pp", "tokens": 512, "depth": 0, "batch": 1, "keep": 0} and answers each
with {"tok_s": 1850.2}; the first line it writes says what runs: {"version": ..., "devices": ...}.

One continuous-batching pipeline, f16 keys and values, prompts of exact length made of random words,
greedy, no end token, no prefix cache.  Its defaults otherwise, the precision of its matmuls
included.  Times are of its steps, taken here.  "keep": a second pipeline, whose own cache eviction
keeps so many tokens of a sequence: the first 32, the newest 128 and, between them, those of the
largest attention, divided by the steps that saw them (its defaults, but for the size of the whole).
"""
import json
import os
import random
import sys
import time

WORDS = ("time traveller machine future dimension night fire lamp wheel hill river forest white "
         "palace museum match shadow morning sun laboratory guest chair smoke garden").split()
CHUNK = 512      # prompt tokens of a step, as quire's
WARM_STEPS = 2   # untimed decode steps after a prompt
SINKS, RECENT = 32, 128  # of its eviction: what it keeps whatever their attention


class Engine:
    def __init__(self, model: str, threads: int):
        import numpy
        import openvino
        import openvino_genai as genai
        self.numpy, self.openvino, self.genai = numpy, openvino, genai
        self.model, self.threads = model, threads
        self.pipes = {}  # by what they keep
        self.use(0)
        self.random = random.Random(1)
        self.requests = 0

    def use(self, keep: int):
        """Tokens that a sequence keeps; 0: all."""
        if keep not in self.pipes:
            self.pipes[keep] = self.pipeline(keep)
        self.pipe = self.pipes[keep]

    def pipeline(self, keep: int):
        genai = self.genai
        config = genai.SchedulerConfig()
        config.cache_size = 2  # GiB
        config.max_num_batched_tokens = CHUNK
        config.max_num_seqs = 64
        config.dynamic_split_fuse = True
        config.enable_prefix_caching = False
        if keep:
            config.use_cache_eviction = True
            config.cache_eviction_config = genai.CacheEvictionConfig(
                SINKS, RECENT, keep, genai.AggregationMode.NORM_SUM)
        properties = {"INFERENCE_NUM_THREADS": self.threads, "KV_CACHE_PRECISION": "f16"}
        return genai.ContinuousBatchingPipeline(self.model, config, "CPU", properties, {})

    def prompt(self, tokens: int):
        text = " ".join(self.random.choice(WORDS) for _ in range(tokens))  # a word: 1 token or more
        ids = self.pipe.get_tokenizer().encode(text).input_ids.data[:, :tokens]
        assert ids.shape == (1, tokens), ids.shape
        return self.openvino.Tensor(self.numpy.ascontiguousarray(ids))

    def ask(self, tokens: int, new: int):
        config = self.genai.GenerationConfig()
        config.max_new_tokens = new
        config.ignore_eos = True
        config.do_sample = False
        config.apply_chat_template = False
        self.requests += 1
        return self.pipe.add_request(self.requests, self.prompt(tokens), config)

    def step(self, handles) -> tuple:
        """Seconds of a step, and which requests it gave a token."""
        start = time.perf_counter()
        self.pipe.step()
        seconds = time.perf_counter() - start
        return seconds, [sum(len(o.generated_ids) for o in h.read().values()) if h.can_read() else 0
                         for h in handles]

    def prefill(self, tokens: int) -> float:
        handle, seconds = self.ask(tokens, 1), 0.0
        while self.pipe.has_non_finished_requests():
            seconds += self.step([handle])[0]
        return tokens / seconds

    def decode(self, depth: int, tokens: int, batch: int) -> float:
        """From the first step on in which every sequence holds `depth` tokens and only decodes."""
        # While later prompts are read, earlier sequences generate: their prompts are shorter.
        before = [max(1, depth - (batch - 1 - i) * depth // CHUNK) for i in range(batch)]
        lead = batch * (depth // CHUNK + 2)
        handles = [self.ask(n, lead + WARM_STEPS + tokens) for n in before]
        given, times = [0] * batch, []
        while self.pipe.has_non_finished_requests():
            reading = 0 in given
            seconds, new = self.step(handles)
            if not reading and all(n == 1 for n in new):
                times.append(seconds)
            given = [a + b for a, b in zip(given, new)]
        timed = times[WARM_STEPS:WARM_STEPS + tokens]
        assert len(timed) == tokens, (len(times), tokens)
        return batch * tokens / sum(timed)


def main(model: str, threads: int):
    # What the libraries print must not end up between the answers.
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    engine = Engine(model, threads)
    core = engine.openvino.Core()
    print(json.dumps({"version": engine.genai.__version__,
                      "capabilities": core.get_property("CPU", "OPTIMIZATION_CAPABILITIES")}),
          file=answers)
    engine.prefill(CHUNK)
    engine.decode(64, 4, 1)
    for line in sys.stdin:
        row = json.loads(line)
        engine.use(row["keep"])
        rate = (engine.prefill(row["tokens"]) if row["kind"] == "pp" else
                engine.decode(row["depth"], row["tokens"], row["batch"]))
        print(json.dumps({"tok_s": rate}), file=answers)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
