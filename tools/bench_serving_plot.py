#!/usr/bin/env python3
"""The plot of docs/results/serving.md: one record on stdin, an SVG file out.

Usage: bench_serving_plot.py FILE.svg      in the environment .deps/peers/plot
"""
import json
import sys

import matplotlib
matplotlib.use("svg")
matplotlib.rcParams.update({"svg.hashsalt": "quire", "font.size": 9, "axes.spines.top": False,
                            "axes.spines.right": False, "svg.fonttype": "none"})
from matplotlib import pyplot  # noqa: E402  (after the backend)

STYLES = (("quire", "quire", "#0b6e4f"), ("llama", "llama.cpp", "#6f6f6f"),
          ("openvino", "OpenVINO GenAI", "#d1782c"))


def bars(axes, rows, key):
    shown = [s for s in STYLES if any(s[0] in row["engines"] for row in rows)]
    width = 0.8 / len(shown)
    for number, (engine, label, colour) in enumerate(shown):
        places = [i + (number - (len(shown) - 1) / 2) * width for i in range(len(rows))]
        axes.bar(places, [row["engines"].get(engine, {}).get(key) or 0 for row in rows],
                 width * 0.92, label=label, color=colour)
    axes.set_xticks(range(len(rows)), [str(row["clients"]) for row in rows])


def main(target: str):
    record = json.load(sys.stdin)
    names = list(record["workloads"])
    figure, axes = pyplot.subplots(2, len(names), figsize=(2.75 * len(names), 5), squeeze=False)
    for column, name in enumerate(names):
        rows = [row for row in record["rows"] if row["workload"] == name]
        bars(axes[0][column], rows, "tok_s")
        bars(axes[1][column], rows, "ttft_p50")
        axes[0][column].set_title(name)
        axes[1][column].set_xlabel("clients")
    axes[0][0].set_ylabel("tokens a second")
    axes[1][0].set_ylabel("TTFT, median, s")
    found = {}
    for one in axes.flat:
        found |= dict(zip(*reversed(one.get_legend_handles_labels())))
    figure.legend(found.values(), found.keys(), frameon=False, ncols=len(found), loc="lower center")
    figure.suptitle(f"{record['model']['file']}, {record['machine']['threads']} threads, "
                    f"{record['machine']['cpu']}, {record['date'][:10]}", fontsize=9)
    figure.tight_layout(rect=(0, 0.06, 1, 1))
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main(sys.argv[1])
