#!/usr/bin/env python3
"""Fails when a document shows code that is not in examples/, or names a file that is not there.

A ```cpp block must be consecutive lines of a program in examples/, which the tests compile and run.
Usage: tools/check_docs.py [repository root]
"""
import pathlib
import re
import sys
import textwrap

PATH = re.compile(r"`((?:src|test|tools|docs|include|examples|cmake|fuzz|bench)/[\w./-]+)`|"
                  r"\]\(((?!https?:)[^)#]+)\)")
BLOCK = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"^```cpp\n(.*?)^```", re.DOTALL | re.MULTILINE)


def plain(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().splitlines())


def problems(root: pathlib.Path):
    programs = [plain(p.read_text()) for p in (root / "examples").glob("*.c*") if p.is_file()]
    for page in [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("examples/*.md")]:
        text = page.read_text()
        for code in CODE.findall(text):
            if not any(plain(code) in program for program in programs):
                yield f"{page}: in no program of examples/:\n{textwrap.indent(code, '  ')}"
        for named, linked in PATH.findall(BLOCK.sub("", text)):
            base = root if named else page.parent
            if not (base / (named or linked)).exists() and "NAME" not in named:
                yield f"{page}: there is no {named or linked}"


if __name__ == "__main__":
    found = list(problems(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")))
    print("\n".join(found + [f"documents: {len(found)} problems"]))
    sys.exit(bool(found))
