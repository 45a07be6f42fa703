"""What the comparisons with other engines share: commands, messages, the commit, quantiles."""
import pathlib
import subprocess
import sys

import fetch

ROOT = pathlib.Path(__file__).resolve().parent.parent
PEERS = ROOT / ".deps" / "peers"
HISTORY = ROOT / "bench" / "history.jsonl"


class Failure(Exception):
    """One message for the person at the terminal."""


def note(text: str):
    print(text, file=sys.stderr, flush=True)


def output_of(command) -> str:
    done = subprocess.run([str(word) for word in command], cwd=ROOT, capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, errors="replace", check=False)
    if done.returncode != 0:
        raise Failure(f"{' '.join(str(w) for w in command)}: exit status {done.returncode}\n"
                      f"{done.stderr.strip()[-2000:]}")
    return done.stdout


def quantile(values, share: float) -> float:
    ordered = sorted(values)
    return ordered[round(share * (len(ordered) - 1))]


def commit() -> str:
    """Of what is measured; "+" when files differ from it."""
    name = output_of(["git", "rev-parse", "--short=12", "HEAD"]).strip()
    changed = output_of(["git", "status", "--porcelain", "--untracked-files=no"]).splitlines()
    ours = [line for line in changed if "bench/history.jsonl" not in line and "docs/" not in line]
    return name + ("+" if ours else "")


def set_up(names):
    """The files of the models, everything that measures them being there."""
    known = [name for name in names if name in fetch.MODELS]
    files = [fetch.MODELS_DIR / fetch.MODELS[name].file if name in fetch.MODELS
             else pathlib.Path(name).resolve() for name in names]
    for name, file in zip(names, files):
        if name not in known and not file.exists():
            raise Failure(f"there is no file {name}, and the names of models are "
                          f"{', '.join(fetch.MODELS)}")
    commands = [["tools/setup", "build"], ["tools/bench_peers_setup"],
                ["tools/build", "release", "quire"]]
    if known:
        commands.append(["tools/setup", "models", *known])
    for command in commands:
        if subprocess.run(command, cwd=ROOT, check=False).returncode != 0:
            raise Failure(f"{' '.join(command)} failed")
    return files
