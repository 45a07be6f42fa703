"""docs/results/serving.md and its plot, from the last serving record of bench/history.jsonl."""
import json
import pathlib
import subprocess

from bench_run import Failure
from bench_serving_engines import NAMES

WHAT = {"tok_s": "tokens/s", "goodput": "goodput", "ttft_p50": "TTFT p50", "ttft_p95": "TTFT p95",
        "tpot_p50": "TPOT p50", "tpot_p95": "TPOT p95"}


def seconds(value) -> str:
    return "-" if value is None else f"{value:.2f} s" if value < 10 else f"{value:.1f} s"


def milliseconds(value) -> str:
    return "-" if value is None else f"{value * 1e3:.0f} ms"


def rate(value) -> str:
    return "-" if value is None else f"{value:,.0f}"


def ratio(row, engine: str, key: str) -> str:
    found = row["ratios"].get(engine, {}).get(key)
    return "-" if found is None else f"{found:.2f}"


def said(line) -> str:
    met = "met" if line["ratio"] >= line["least"] else "**missed**"
    return f"{NAMES[line['to']]} {WHAT[line['what']]} {line['ratio']:.2f} of {line['least']:g} {met}"


def lines(row) -> str:
    """The lines of tokens a second, and of the others those that were missed."""
    main = [said(line) for line in row["lines"] if line["what"] == "tok_s"]
    missed = [said(line) for line in row["lines"]
              if line["what"] != "tok_s" and line["ratio"] < line["least"]]
    kept = sum(1 for line in row["lines"] if line["what"] != "tok_s") - len(missed)
    return "; ".join(main + missed + ([f"{kept} others met"] if kept else [])) or "-"


def cells(row, engine: str):
    found = row["engines"][engine]
    failed = f" ({found['failed']} failed)" if found["failed"] else ""
    against = "" if engine == "quire" else ratio(row, engine, "tok_s")
    least = row["ratios"].get(engine, {}).get("tok_s_least")
    if least is not None and engine != "quire":
        against += f" ({least:.2f})"
    return [NAMES[engine] + failed, rate(found.get("tok_s")), against,
            f"{found.get('goodput', 0):.2f}", seconds(found.get("ttft_p50")),
            seconds(found.get("ttft_p95")), milliseconds(found.get("tpot_p50")),
            milliseconds(found.get("tpot_p95")), f"{found.get('cached', 0):.0%}",
            lines(row) if engine == "quire" else ""]


def table(rows) -> str:
    head = ["clients", "server", "tokens/s", "quire to it (least)", "goodput", "TTFT p50", "p95",
            "TPOT p50", "p95", "cached", "lines"]
    out = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in rows:
        for engine in row["engines"]:
            first = str(row["clients"]) if engine == "quire" else ""
            out.append("| " + " | ".join([first, *cells(row, engine)]) + " |")
    return "\n".join(out)


def tables(record) -> str:
    parts = []
    for name, about in record["workloads"].items():
        rows = [row for row in record["rows"] if row["workload"] == name]
        prompt = max(row["engines"]["quire"].get("prompt_tokens", 0) for row in rows)
        alike = [share for row in rows for to, share in row["alike"].items() if to == "llama"]
        parts.append(f"### {name}: {about['about']}\n\nLimits of goodput: first token in "
                     f"{about['limit_ttft']:g} s, then {about['limit_tpot'] * 1e3:g} ms a token. "
                     f"Mean prompt: {prompt:,} tokens. llama.cpp's setting: "
                     f"{record['settings'][name]}. Of its answers' texts quire's are the same for "
                     f"the first {sum(alike) / len(alike):.0%}, on average.\n\n{table(rows)}\n")
    errors = {f"* {NAMES[engine]}: {error}" for row in record["rows"]
              for engine, found in row["engines"].items() for error in found["errors"]}
    if errors:
        parts.append("### What failed\n\n" + "\n".join(sorted(errors)) + "\n")
    return "\n".join(parts)


HEAD = """# Serving

Written by `tools/bench_serving` (`make bench-serving`) from the last such record in `bench/history.jsonl`. Clients in a closed loop send the same requests
to `quire serve`, to llama.cpp's server (native, clang, AMX) and, 16 at a time, to OpenVINO GenAI's continuous batching, which has no HTTP around it here.
All have the same model, threads and bytes of keys and values in f16, and keep prefixes as they do by default. Each workload of each round starts every
server anew, another one first. Answers are greedy and of fixed length. Tokens/s counts tokens of prompts, cached or not, and of answers, over the whole
run; it is the median of the rounds, as is goodput: answers a second within the limits, which were written down before the first run (`tools/bench_serving_trace.py`).
TTFT and TPOT are quantiles of all answers of all rounds. A ratio says how much better quire is: rates round by round, the median, and the least round in
brackets. "Cached" is the share of prompt tokens that the server says it did not compute (OpenVINO GenAI does not say). Lines were set before: total tokens/s to
llama.cpp 1.5 at 16 clients with 2k-token prompts, everything else 0.95; to OpenVINO GenAI 1.0 at 16 clients. What load tools say, and what was looked at by hand,
is in serving-notes.md.
"""


def section(record) -> str:
    machine = record["machine"]
    said_first = (f"{record['date'][:10]}, commit {record['commit']}; {machine['cpu']}, "
                  f"{machine['cores']} cores, {machine['threads']} threads; load before "
                  f"{record['load_before']:g}; {record['rounds']} rounds; llama.cpp of "
                  f"{record['source']}. Keys and values: {record['kv_tokens']:,} tokens, "
                  f"{record['kv_bytes']:,} bytes.")
    commands = "\n".join(f"{words}    # {name}" for name, words in record["commands"].items())
    peaks = ", ".join(f"{NAMES[name]} {value / 2**20:,.0f} MiB"
                      for name, value in record["peak_bytes"].items())
    trials = ", ".join(f"{name.removeprefix('trial ')} {value:,.0f}"
                       for name, value in record["trials"].items())
    return (f"## {record['model']['file']}\n\n{said_first}\n\n```\n{commands}\n```\n\n"
            f"Most memory of a process: {peaks}. llama.cpp's two settings, tried first at 16 clients "
            f"(tokens/s): {trials}.\n\n{tables(record)}")


def write(root: pathlib.Path, history: pathlib.Path):
    texts = history.read_text(encoding="utf-8").splitlines() if history.exists() else []
    records = [r for r in map(json.loads, texts) if r.get("bench") == "serving"]
    if not records:
        raise Failure(f"{history.relative_to(root)} has no serving record yet")
    folder = root / "docs" / "results"
    done = subprocess.run([root / ".deps/peers/plot/bin/python",
                           root / "tools/bench_serving_plot.py", folder / "serving.svg"],
                          input=json.dumps(records[-1]), text=True, capture_output=True, check=False)
    if done.returncode != 0:
        raise Failure(f"the plot failed: {done.stderr.strip()[-500:]}")
    picture = "\n![Tokens a second and time to first token by clients](serving.svg)\n"
    (folder / "serving.md").write_text(f"{HEAD}\n{section(records[-1])}{picture}", encoding="utf-8")
