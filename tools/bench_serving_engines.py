"""The servers of tools/bench_serving: how each is started, asked and ended."""
import json
import pathlib
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import bench_serving_client as client
from bench_run import PEERS, ROOT, Failure, output_of

SLOTS = 16
SLOT_TOKENS = 2304           # 2k of prompt and an answer, in whole blocks of 256
KV_TOKENS = SLOTS * SLOT_TOKENS
OPENVINO_BLOCK = 32          # tokens of a block of its CPU plugin
NAMES = {"quire": "quire", "llama": "llama.cpp", "openvino": "OpenVINO GenAI"}
# Of llama-server: a sixteenth of the cache for each slot, or all of it for whoever needs it.
LLAMA_SETTINGS = {"divided": [], "unified": ["--kv-unified"]}
PATIENCE = 120               # seconds to start and to stop


def kv_bytes(model: pathlib.Path) -> int:
    """Of every server's cache: what KV_TOKENS take in f16."""
    shape = json.loads(output_of([ROOT / "build" / "quire", "inspect", "-m", model, "--json"]))
    return KV_TOKENS * shape["cache"]["bytes_per_token"]


def command(engine: str, setting: str, model: pathlib.Path, threads: int, cache_bytes: int):
    if engine == "quire":
        return [ROOT / "build" / "quire", "serve", "-m", model, "--budget", str(cache_bytes),
                "--threads", str(threads), "-q"]
    if engine == "llama":
        # What it would keep beside its cache, in up to 8 GiB of its own, is off: equal bytes.
        return [PEERS / "llama" / "llama-server", "-m", model, "-c", str(KV_TOKENS), "-fa", "on",
                "-np", str(SLOTS), "-t", str(threads), "--cache-ram", "0", *LLAMA_SETTINGS[setting]]
    return [PEERS / "openvino" / "bin" / "python", ROOT / "tools" / "bench_serving_openvino.py",
            model, str(threads), str(KV_TOKENS // OPENVINO_BLOCK)]


def published(words) -> str:
    """A command line as others would write it."""
    return " ".join(pathlib.Path(w).name if "/" in str(w) else str(w) for w in words)


def peak_bytes(pid: int) -> int:
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def end(process):
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def last_words(log: pathlib.Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()[-5:]
    return "\n".join(lines + [f"(all of it: {log})"])


class HttpServer:
    def __init__(self, words, log: pathlib.Path):
        self.log, self.name = log, pathlib.Path(words[0]).name
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        with open(log, "w", encoding="utf-8") as out:
            self.process = subprocess.Popen(
                [str(w) for w in [*words, "--host", "127.0.0.1", "--port", self.port]], cwd=ROOT,
                stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        try:
            self.wait()
        except BaseException:
            end(self.process)
            raise

    def wait(self):
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise Failure(f"{self.name} ended: {last_words(self.log)}")
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5):
                    return
            except (OSError, urllib.error.HTTPError):
                time.sleep(0.1)
        raise Failure(f"{self.name} did not start in {PATIENCE} s: {last_words(self.log)}")

    def ask(self, sessions, clients: int, progress):
        found = client.run(self.port, sessions, clients, progress)
        if self.process.poll() is not None:
            raise Failure(f"{self.name} ended: {last_words(self.log)}")
        return found

    def peak(self) -> int:
        return peak_bytes(self.process.pid)

    def close(self):
        end(self.process)


class OpenVino:
    """Its pipeline has no server; a worker runs the same closed loop around its steps."""

    def __init__(self, words, log: pathlib.Path):
        self.log = log
        with open(log, "w", encoding="utf-8") as out:
            self.process = subprocess.Popen([str(w) for w in words], cwd=ROOT, text=True, bufsize=1,
                                            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=out)
        self.version = self.answer()["version"]

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            raise Failure(f"OpenVINO GenAI ended: {last_words(self.log)}")
        return json.loads(line)

    def ask(self, sessions, clients: int, progress):
        self.process.stdin.write(json.dumps({"sessions": sessions, "clients": clients}) + "\n")
        total = sum(len(session) for session in sessions)
        while True:
            said = self.answer()
            if "answers" in said:
                return said
            progress(said["done"], total)

    def peak(self) -> int:
        return peak_bytes(self.process.pid)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def measure(engine: str, words, loads, warm_up, progress) -> dict:
    """One life of a server: after the warm-up each load (clients, sessions) in turn."""
    log = PEERS / f"serving-{engine}.log"
    server = OpenVino(words, log) if engine == "openvino" else HttpServer(words, log)
    try:
        if warm_up:
            server.ask(warm_up, len(warm_up), lambda done, total: None)
        found = {"loads": {}}
        for clients, sessions in loads:
            found["loads"][str(clients)] = server.ask(
                sessions, clients, lambda done, total, c=clients: progress(c, done, total))
        found["peak_bytes"] = server.peak()
        return found
    finally:
        server.close()
