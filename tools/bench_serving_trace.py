"""What tools/bench_serving asks: workloads, their limits and lines, and the requests of a round.

A round's requests are a pure function of its number: every server is asked exactly the same.
Prompts are passages of the two novels in examples/, 1.29 tokens a word (SmolLM2), behind words of
their own, so that nothing is shared but what a workload says.
"""
import dataclasses
import pathlib
import random

TEXTS = ("the-time-machine.txt", "pride-and-prejudice.txt")
FOLDER = pathlib.Path(__file__).resolve().parent.parent / "examples"


@dataclasses.dataclass(frozen=True)
class Workload:
    """Limits in seconds, written down before the first run, as are the lines."""
    name: str
    about: str
    words: int               # of a prompt, of the last one of a session
    requests: dict           # in a run with so many clients
    answer_tokens: int = 32
    shared_words: int = 0    # the first of each prompt, the same in all
    turns: int = 1           # requests of a session; each repeats the one before it, and adds
    warm_up: int = 0         # requests before the clock starts
    limit_ttft: float = 10.0
    limit_tpot: float = 0.25
    to_llama: dict = dataclasses.field(default_factory=dict)  # least ratio, by clients; else 0.95


WORKLOADS = (
    Workload("short", "prompts of 80 tokens, answers of 64", 64, {1: 4, 4: 16, 16: 48, 64: 128},
             answer_tokens=64, limit_ttft=2.0, limit_tpot=0.1),
    Workload("cold", "prompts of 2k tokens that share nothing, answers of 32", 1580,
             {1: 4, 4: 8, 16: 32, 64: 64}, to_llama={16: 1.5}),
    Workload("shared", "prompts of 2k tokens, the first 1.5k the same and read before, answers of 32",
             1580, {1: 4, 4: 8, 16: 32, 64: 64}, shared_words=1200, warm_up=16, to_llama={16: 1.5}),
    Workload("agents", "sessions of 4 turns that send their history again, up to 2k tokens; the "
             "first 0.5k the same in all; answers of 32", 1580, {4: 16, 16: 64}, shared_words=400, turns=4),
)
# A look whether it all runs.
QUICK = (
    Workload("cold", "prompts of 0.5k tokens that share nothing, answers of 8", 400, {1: 2, 4: 8},
             answer_tokens=8),
    Workload("shared", "prompts of 0.5k tokens, the first 0.4k the same, answers of 8", 400,
             {1: 2, 4: 8}, answer_tokens=8, shared_words=300, warm_up=4),
    Workload("agents", "sessions of 2 turns, up to 0.5k tokens, answers of 8", 400, {4: 8},
             answer_tokens=8, shared_words=100, turns=2),
)
LEAST = 0.95              # of everything, to llama.cpp
OPENVINO_CLIENTS = 16     # the one load it is asked, and the least ratio to it there
TO_OPENVINO = 1.0


def paragraphs():
    lines = "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in TEXTS).splitlines()
    return [words for words in (line.split() for line in lines) if words]


class Passages:
    """Paragraphs in an order of its own, cut at a number of words."""

    def __init__(self, seed: str):
        self.random = random.Random(seed)
        self.paragraphs = paragraphs()

    def take(self, count: int) -> str:
        lines = []
        while count > 0:
            line = self.random.choice(self.paragraphs)[:count]
            count -= len(line)
            lines.append(" ".join(line))
        return "\n".join(lines)


def request(name: str, prompt: str, workload: Workload) -> dict:
    return {"name": name, "prompt": prompt, "answer_tokens": workload.answer_tokens}


def session(workload: Workload, name: str, shared: str):
    """One client's requests, in order.  What its history says was answered is the same for all."""
    passages = Passages(name)
    if workload.turns == 1:
        own = passages.take(workload.words - workload.shared_words)
        return [request(name, f"{shared}\n{name}: {own}" if shared else f"{name}: {own}", workload)]
    said = workload.answer_tokens * 3 // 4
    each = (workload.words - workload.shared_words) // workload.turns - said
    requests, history = [], f"{shared}\n{name}"
    for turn in range(workload.turns):
        history += f"\nUser: {passages.take(each)}\nAssistant:"
        requests.append(request(f"{name} turn {turn + 1}", history, workload))
        history += " " + passages.take(said)
    return requests


def shared_part(workload: Workload, turn: int) -> str:
    return Passages(f"{turn} {workload.name}").take(workload.shared_words)


def warm_up(workload: Workload, turn: int):
    """Sessions that are not counted."""
    shared = shared_part(workload, turn)
    return [session(workload, f"{turn} {workload.name} before {i}", shared)
            for i in range(workload.warm_up)]


def sessions(workload: Workload, turn: int, clients: int):
    """What `clients` clients send in a round, session by session."""
    shared = shared_part(workload, turn)
    return [session(workload, f"{turn} {workload.name} {clients} {i}", shared)
            for i in range(workload.requests[clients] // workload.turns)]
