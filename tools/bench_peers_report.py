"""docs/results/speed.md and its plot, from the records of bench/history.jsonl."""
import json
import pathlib
import subprocess

NAMES = {"libllama": "libllama", "llama_native": "llama.cpp, native", "openvino": "OpenVINO GenAI"}
LINES = {"llama": "llama.cpp", "openvino": "OpenVINO", "own full cache": "own full cache"}


class Failure(Exception):
    """One message for the person at the terminal."""


def rate(tok_s: float) -> str:
    return f"{tok_s:.1f}" if tok_s < 100 else f"{tok_s:,.0f}"


def lines(row) -> str:
    """What the row should reach, and whether it does, by its median."""
    said = [f"{LINES[name]} {line['ratio']:.2f} of {line['least']:g} "
            + ("met" if line["ratio"] >= line["least"] else "**missed**")
            for name, line in row["lines"].items()]
    return "; ".join(said) or "-"


def mark(row) -> str:
    return (" *" if row["repeated"] else "") + (" !" if row["spread"] > 0.10 else "")


def table(record) -> str:
    """Of one record, as Markdown."""
    engines = [name for name in NAMES if any(name in row["peers"] for row in record["rows"])]
    head = ["tokens a second", "quire"]
    for name in engines:
        head += [NAMES[name], "ratio (p10)"]
    head += ["of read", "lines"]
    out = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in record["rows"]:
        cells = [row["about"], rate(row["tok_s"]) + mark(row)]
        for name in engines:
            peer = row["peers"].get(name)
            cells += [rate(peer["tok_s"]), f"{peer['ratio']:.2f} ({peer['ratio_p10']:.2f})"
                      ] if peer else ["-", "-"]
        cells += [f"{row['bandwidth_share']:.0%}", lines(row)]
        out.append("| " + " | ".join(cells) + " |")
    return "\n".join(out)


def section(record) -> str:
    machine, model = record["machine"], record["model"]
    peaks = ", ".join(f"{name} {peak / 1e9:,.0f} G/s"
                      for name, peak in machine["peak_operations_s"].items())
    about = [f"{record['date'][:10]}, commit {record['commit']}; {machine['cpu']}, "
             f"{machine['cores']} cores, {machine['threads']} threads; reads "
             f"{machine['read_bytes_s'] / 1e9:.1f} GB/s, {peaks}; load before "
             f"{record['load_before']:g}; medians of {record['rounds']} rounds."]
    about += ["", *(f"* {NAMES[name]}: {text}" for name, text in record["peers"].items())]
    return f"## {model['file']}\n\n" + "\n".join(about) + "\n\n" + table(record) + "\n"


HEAD = """# Speed

Written by `tools/bench_peers` (`make bench-peers`) from the last record of each model in `bench/history.jsonl`. In every round each engine does
each row once, another one first; a ratio is taken per round: quire to the engine beside it, the median, and the 10th percentile in
brackets. All keep keys and values in f16. Where a row says what is kept, quire evicts with h2o, OpenVINO GenAI, if it is in the row,
with its own cache eviction, and llama.cpp, which has none, keeps all. "Of read" is the share of the read bandwidth measured that the row's least traffic makes.
A line is the ratio that was set as the goal before: to llama.cpp, the better of its two builds counts. A * marks a row measured twice because quire's
own times spread over 10 %, a ! one that still does: the machine was not idle, and its figures say little. Attention alone, rooflines, divergence and
another model are in speed-notes.md.
"""


def write(root: pathlib.Path, history: pathlib.Path):
    if not history.exists():
        raise Failure(f"there is no {history.relative_to(root)} yet")
    latest = {}
    for text in history.read_text(encoding="utf-8").splitlines():
        record = json.loads(text)
        if "bench" in record:  # of another comparison
            continue
        latest[record["model"]["file"]] = record
    if not latest:
        raise Failure(f"{history.relative_to(root)} has no record of speed")
    folder = root / "docs" / "results"
    folder.mkdir(parents=True, exist_ok=True)
    parts = [HEAD]
    for file, record in sorted(latest.items(), key=lambda item: "SmolLM2" not in item[0]):
        plot = f"speed-{file.split('-')[0].lower()}.svg"
        done = subprocess.run([root / ".deps/peers/plot/bin/python",
                               root / "tools/bench_peers_plot.py", folder / plot],
                              input=json.dumps(record), text=True, capture_output=True, check=False)
        if done.returncode != 0:
            raise Failure(f"the plot failed: {done.stderr.strip()[-500:]}")
        parts.append(section(record) + f"\n![{file}: tokens a second by depth]({plot})\n")
    (folder / "speed.md").write_text("\n".join(parts), encoding="utf-8")
