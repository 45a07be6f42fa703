#!/usr/bin/env python3
"""Fails when clang++ refuses a file of the engine or the program, or warns about one.

The rooms up to the cache are built with clang++ by the preset core-clang, the model by the preset
fuzz; here the others are read only (-fsyntax-only), with the flags of the build directory.
Usage: tools/check_clang.py [BUILD DIRECTORY]     build/release unless given
"""
import concurrent.futures
import json
import os
import pathlib
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = tuple(ROOT / "src" / room for room in ("", "engine", "serve", "cli"))


def commands(build: pathlib.Path):
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["file"])
        if path.parent in FOLDERS:
            words = shlex.split(entry["command"])
            first = next(i for i, word in enumerate(words) if word.startswith("-"))
            output = words.index("-o")
            flags = words[first:output] + words[output + 2:]
            # clang 14 has coroutines and does not say so (src/CMakeLists.txt).
            command = ["clang++", "-fsyntax-only", "-Wno-unknown-warning-option",
                       "-D__cpp_impl_coroutine=201902L", *flags]
            yield path, command, entry["directory"]


def complaint(job) -> str:
    path, command, directory = job
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    said = done.stderr.strip()
    return f"{path.relative_to(ROOT)}\n{said}" if done.returncode != 0 or said else ""


def main(build: pathlib.Path) -> int:
    jobs = list(commands(build))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [text for text in pool.map(complaint, jobs) if text]
    print("\n".join(found + [f"clang++: {len(jobs)} files, {len(found)} with complaints"]))
    return int(bool(found) or not jobs)


if __name__ == "__main__":
    given = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "release"
    sys.exit(main(given.resolve()))
