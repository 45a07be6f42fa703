#!/usr/bin/env python3
"""Goal: an unmodified load tool, `aiperf`, measures `quire serve`.
Method: starts the built program on a model and lets aiperf load both endpoints, streamed and in
conversations, offline: its tokenizer is made of the model's own file.  Every request must be answered, with
exactly the tokens asked for, and the server must count a prompt as the tokenizer does.

    python3 -m venv /tmp/load_tool && /tmp/load_tool/bin/pip install -r test/serve/load_tool_check.txt
    /tmp/load_tool/bin/python test/serve/load_tool_check.py MODEL.gguf [build/quire]
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

from gguf import GGUFReader
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

ANSWER_TOKENS = 24
failed = []


def check(name: str, good: bool, said=""):
    print(f"{'ok    ' if good else 'FAILED'} {name}{'' if good else f': {said}'}", flush=True)
    if not good:
        failed.append(name)


def write_tokenizer(model: str, folder: pathlib.Path):
    """SmolLM2's: byte-level pairs, digits one by one (`tokenizer.ggml.pre` is smollm)."""
    fields = GGUFReader(model).fields

    def value(key):
        return fields[f"tokenizer.ggml.{key}"].contents()

    if (value("model"), value("pre")) != ("gpt2", "smollm"):
        raise SystemExit(f"{model}: this check knows SmolLM2's tokenizer only")
    tokens = value("tokens")
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)},
                                     [tuple(pair.split(" ")) for pair in value("merges")]))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True),
         pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    control = 3
    tokenizer.add_special_tokens([t for t, k in zip(tokens, value("token_type")) if k == control])
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": tokens[value("eos_token_id")]}))


def start(model: str, program: str):
    server = subprocess.Popen([program, "serve", "-m", model, "--port", "0", "--budget", "256MiB",
                               "--threads", "1", "--alias", "smollm2", "-q"], stderr=subprocess.PIPE, text=True)
    for line in server.stderr:
        if found := re.search(r"at (http://\S+)/v1", line):
            return server, found[1]
    raise SystemExit("the server did not start")


def aiperf(url: str, tokenizer: pathlib.Path, folder: pathlib.Path, *options: str):
    """Its summary, and a line of its records for every request."""
    command = ["aiperf", "profile", "-m", "smollm2", "--url", url, "--tokenizer", str(tokenizer),
               "--streaming", "--isl", "200", "--osl", str(ANSWER_TOKENS), "--extra-inputs", json.dumps({"ignore_eos": True, "temperature": 0}),
               "--random-seed", "1", "--ui", "none", "--artifact-dir", str(folder), *options]
    print("$", " ".join(command), flush=True)
    program = pathlib.Path(sys.executable).with_name("aiperf")
    done = subprocess.run([program, *command[1:]], text=True, capture_output=True, check=False,
                          env=os.environ | {"COLUMNS": "110"})
    print(done.stdout[-6000:], flush=True)
    if done.returncode != 0:
        print(done.stderr[-3000:])
        raise SystemExit(f"aiperf: exit status {done.returncode}")
    summary = json.loads(next(folder.rglob("profile_export_aiperf.json")).read_text())
    lines = next(folder.rglob("profile_export.jsonl")).read_text().splitlines()
    return summary, [json.loads(line) for line in lines]


def check_run(name: str, requests: int, found):
    summary, records = found
    check(f"{name}: all answered", summary["request_count"]["avg"] == requests and
          len(records) == requests and not any(r.get("error") for r in records), summary)
    lengths = {r["metrics"]["usage_completion_tokens"]["value"] for r in records}
    check(f"{name}: exact lengths", lengths == {ANSWER_TOKENS}, lengths)
    return records


def main() -> int:
    model, program = sys.argv[1], (sys.argv + ["build/quire"])[2]
    with tempfile.TemporaryDirectory(prefix="quire-load-") as name:
        folder = pathlib.Path(name)
        tokenizer = folder / "tokenizer"
        tokenizer.mkdir()
        write_tokenizer(model, tokenizer)
        server, url = start(model, program)
        try:
            records = check_run("completions", 16, aiperf(
                url, tokenizer, folder / "completions", "--endpoint-type", "completions",
                "--concurrency", "4", "--request-count", "16", "--use-legacy-max-tokens"))
            check("prompts are counted alike", all(
                r["metrics"]["usage_prompt_tokens"]["value"] ==
                r["metrics"]["input_sequence_length"]["value"] for r in records), records[0])
            check_run("chat", 16, aiperf(
                url, tokenizer, folder / "chat", "--endpoint-type", "chat", "--concurrency", "8",
                "--request-count", "16", "--goodput", "time_to_first_token:2000"))
            check_run("conversations", 12, aiperf(
                url, tokenizer, folder / "turns", "--endpoint-type", "chat", "--concurrency", "2",
                "--conversation-num", "4", "--conversation-turn-mean", "3"))
        finally:
            server.send_signal(signal.SIGTERM)
        check("goes down", server.wait(60) == 0, server.returncode)
    print(f"{len(failed)} failed")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
