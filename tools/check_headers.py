#!/usr/bin/env python3
"""Fails when a header cannot be included first, and alone.  quire.h must also be C.

Usage: tools/check_headers.py [repository root]
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

FLAGS = ["-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-x", "c++", "-"]
# Headers of kernels of one instruction set are only ever compiled for it (src/CMakeLists.txt).
ISA_FLAGS = {"avx512": ["-mavx2", "-mfma", "-mf16c", "-mavx512f", "-mavx512bw", "-mavx512dq",
                        "-mavx512vl"],
             "avx2": ["-mavx2", "-mfma", "-mf16c"]}


def vendor_includes(root: pathlib.Path):
    prefixes = [p for p in os.environ.get("CMAKE_PREFIX_PATH", "").split(":") if p]
    prefixes.append(str(root / ".deps" / "llama"))
    return [f"-isystem{p}/include" for p in prefixes if pathlib.Path(p, "include").is_dir()]


def check(root: pathlib.Path, header: pathlib.Path, includes):
    name = header.relative_to(root).as_posix().split("/", 1)[1]
    isa = next((flags for word, flags in ISA_FLAGS.items() if word in header.name), [])
    text = f'#include "{name}"\n#include "{name}"\n'
    runs = [[os.environ.get("CXX", "g++"), *isa, *includes, *FLAGS]]
    if header.name == "quire.h":
        runs.append([os.environ.get("CC", "gcc"), "-std=c11", "-fsyntax-only", "-Wall", "-Wextra",
                     "-Wpedantic", "-Werror", f"-I{root}/include", "-x", "c", "-"])
    for command in runs:
        done = subprocess.run(command, input=text, text=True, capture_output=True, check=False)
        if done.returncode != 0:
            return f"{header}: cannot be included alone\n{done.stderr}"
    return ""


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".").resolve()
    headers = sorted(p for top in ("include", "src") for p in (root / top).rglob("*.h"))
    vendors = vendor_includes(root)
    if not vendors:
        headers = [h for h in headers if "model" not in h.relative_to(root).parts]
    includes = [f"-I{root}/include", f"-I{root}/src", *vendors]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = [m for m in pool.map(lambda h: check(root, h, includes), headers) if m]
    print("".join(found), end="")
    print(f"{len(headers) - len(found)} of {len(headers)} headers stand alone")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
