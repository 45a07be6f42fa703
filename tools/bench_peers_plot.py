#!/usr/bin/env python3
"""The plot of docs/results/speed.md: one record on stdin, an SVG file out.

Usage: bench_peers_plot.py FILE.svg      in the environment .deps/peers/plot
"""
import json
import sys

import matplotlib
matplotlib.use("svg")
matplotlib.rcParams.update({"svg.hashsalt": "quire", "font.size": 9, "axes.spines.top": False,
                            "axes.spines.right": False, "svg.fonttype": "none"})
from matplotlib import pyplot  # noqa: E402  (after the backend)

STYLES = (("quire", "quire", "#0b6e4f"), ("libllama", "libllama", "#b7b7b7"),
          ("llama_native", "llama.cpp, native", "#6f6f6f"),
          ("openvino", "OpenVINO GenAI", "#d1782c"))


def tok_s(row, engine):
    return row["tok_s"] if engine == "quire" else row["peers"].get(engine, {}).get("tok_s")


def bars(axes, rows, labels, title):
    shown = [s for s in STYLES if any(tok_s(row, s[0]) for row in rows)]
    width = 0.8 / len(shown)
    for number, (engine, label, colour) in enumerate(shown):
        places = [i + (number - (len(shown) - 1) / 2) * width for i in range(len(rows))]
        axes.bar(places, [tok_s(row, engine) or 0 for row in rows], width * 0.92, label=label,
                 color=colour)
    axes.set_xticks(range(len(rows)), labels)
    axes.set_title(title)


def depths(axes, rows, machine):
    for engine, label, colour in STYLES:
        points = [(row["depth"], tok_s(row, engine)) for row in rows if tok_s(row, engine)]
        if points:
            axes.plot(*zip(*points), marker="o", label=label, color=colour)
    axes.plot([row["depth"] for row in rows],
              [machine["read_bytes_s"] / row["bytes_per_token"] for row in rows], "--",
              color="#3a6ea5", linewidth=1, label="limit: memory reads")
    axes.set_xlabel("tokens held before")
    axes.set_title("decode, one sequence")


def main(target: str):
    record = json.load(sys.stdin)
    rows = [row for row in record["rows"] if "(" not in row["test"]]
    plain = [row for row in rows if "+keep" not in row["test"]]
    prefill = [row for row in plain if row["test"].startswith("pp")]
    single = [row for row in plain if row["test"].startswith("tg") and row["batch"] == 1]
    other = [row for row in rows if row["batch"] > 1 or "+keep" in row["test"]]
    figure, (left, middle, right) = pyplot.subplots(1, 3, figsize=(11, 3.4))
    bars(left, prefill, [row["test"][2:] for row in prefill], "prefill, tokens")
    depths(middle, single, record["machine"])
    bars(right, other, [f"{row['batch']} at {row['depth']}" +
                        (f",\n{row['test'].split('+keep')[1]} kept" if "+keep" in row["test"] else "")
                        for row in other], "decode, other")
    for axes in (left, middle, right):
        axes.set_ylim(bottom=0)
    left.set_ylabel("tokens a second")
    lines, labels = middle.get_legend_handles_labels()
    figure.legend(lines, labels, frameon=False, ncols=len(labels), loc="lower center")
    figure.suptitle(f"{record['model']['file']}, {record['machine']['threads']} threads, "
                    f"{record['machine']['cpu']}, {record['date'][:10]}", fontsize=9)
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main(sys.argv[1])
