"""From what clients saw to the rows of tools/bench_serving.  Pure."""
import os
import statistics

from bench_run import quantile
from bench_serving_trace import LEAST, OPENVINO_CLIENTS, TO_OPENVINO

# Of a row's numbers: whether more is better.
COMPARED = {"tok_s": True, "goodput": True, "ttft_p50": False, "ttft_p95": False,
            "tpot_p50": False, "tpot_p95": False}


def answered(load):
    return [answer for answer in load["answers"] if "error" not in answer]


def tpot(answer):
    """Seconds a token after the first; of one token there is none."""
    return ((answer["ended"] - answer["ttft"]) / (answer["tokens"] - 1)
            if answer["tokens"] > 1 else None)


def good(answer, workload) -> bool:
    pace = tpot(answer)
    return answer["ttft"] <= workload.limit_ttft and (pace is None or pace <= workload.limit_tpot)


def tokens_per_second(load) -> float:
    """Of prompts and answers, wherever their keys and values came from."""
    return sum(a["prompt_tokens"] + a["tokens"] for a in answered(load)) / load["seconds"]


def goodput(load, workload) -> float:
    """Answers a second that met both limits."""
    return sum(good(a, workload) for a in answered(load)) / load["seconds"]


def engine_row(loads, workload) -> dict:
    """Of one server's rounds: rates are medians of rounds, times quantiles of all answers."""
    answers = [answer for load in loads for answer in answered(load)]
    row = {"answers": len(answers),
           "failed": sum(len(load["answers"]) for load in loads) - len(answers),
           "errors": sorted({a["error"] for load in loads for a in load["answers"]
                             if "error" in a})[:3]}
    if not answers:
        return row
    rates = [tokens_per_second(load) for load in loads]
    paces = [pace for pace in map(tpot, answers) if pace is not None]
    prompt = sum(a["prompt_tokens"] for a in answers)
    row |= {"tok_s": round(statistics.median(rates), 1),
            "tok_s_least": round(min(rates), 1),
            "goodput": round(statistics.median(goodput(load, workload) for load in loads), 4),
            "prompt_tokens": round(prompt / len(answers)),
            "cached": round(sum(a["cached"] for a in answers) / prompt, 4)}
    for name, values in (("ttft", [a["ttft"] for a in answers]), ("tpot", paces)):
        if values:
            row |= {f"{name}_p50": round(quantile(values, 0.5), 4),
                    f"{name}_p95": round(quantile(values, 0.95), 4)}
    return row


def alike(ours, theirs) -> float:
    """How much of an answer's text is the same from its start on, on average."""
    texts = {a["name"]: a["text"] for load in theirs for a in answered(load)}
    shares = [len(os.path.commonprefix((a["text"], texts[a["name"]]))) /
              max(1, len(a["text"]), len(texts[a["name"]]))
              for load in ours for a in answered(load) if a["name"] in texts]
    return round(statistics.mean(shares), 3) if shares else 0.0


def ratios(ours, theirs, own_loads, their_loads) -> dict:
    """quire to the other, 2 being twice as good: rates round by round, times of all answers."""
    found = {}
    for key, more in COMPARED.items():
        if key == "tok_s" and ours.get(key) and theirs.get(key):
            rounds = [tokens_per_second(a) / tokens_per_second(b)
                      for a, b in zip(own_loads, their_loads)]
            found[key], found["tok_s_least"] = round(statistics.median(rounds), 3), round(min(rounds), 3)
        elif ours.get(key) and theirs.get(key):
            found[key] = round(ours[key] / theirs[key] if more else theirs[key] / ours[key], 3)
        elif key == "goodput" and theirs.get(key):
            found[key] = 0.0  # the other met the limits, quire did not
    return found


def lines_of(row, workload) -> list:
    """What was set as the goal before, and what came of it."""
    clients, found = row["clients"], []
    if "llama" in row["ratios"]:
        least = workload.to_llama.get(clients, LEAST)
        found.append({"to": "llama", "what": "tok_s", "least": least,
                      "ratio": row["ratios"]["llama"].get("tok_s", 0.0)})
        found += [{"to": "llama", "what": what, "least": LEAST, "ratio": row["ratios"]["llama"][what]}
                  for what in COMPARED if what != "tok_s" and what in row["ratios"]["llama"]]
    if "openvino" in row["ratios"] and clients == OPENVINO_CLIENTS:
        found.append({"to": "openvino", "what": "tok_s", "least": TO_OPENVINO,
                      "ratio": row["ratios"]["openvino"].get("tok_s", 0.0)})
    return found


def row_of(workload, clients: int, loads) -> dict:
    """Of one load: {engine: its rounds} -> the numbers of all, their ratios, the lines."""
    engines = {name: engine_row(rounds, workload) for name, rounds in loads.items()}
    others = [name for name in engines if name != "quire"]
    row = {"workload": workload.name, "clients": clients,
           "requests": workload.requests[clients], "engines": engines,
           "ratios": {name: ratios(engines["quire"], engines[name], loads["quire"], loads[name])
                      for name in others},
           "alike": {name: alike(loads["quire"], loads[name]) for name in others}}
    row["lines"] = lines_of(row, workload)
    return row
