#!/usr/bin/env python3
"""What policies keep of recorded q, k and v, from their formulas alone, in double precision.

Usage: test/oracles/kept.py >test/oracles/kept.txt     (NumPy; shares no code with the library)

A case is a policy spec, a quota, and how many of the recorded tokens are the prompt; the rest is an
answer, read row by row and reviewed every 16.  Per case one line a lane: the positions that stay.
"""
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).parent
SINKS, RECENT, BLOCK = 4, 8, 16
ROPE_BASE = 100_000  # of the recorded model, which turns neighbouring values as pairs

CASES = [  # spec, keep, prompt tokens
    *((spec, keep, 120) for keep in (30, 60)
      for spec in ("snapkv:window=16", "snapkv:window=8,pool=7", "h2o-age", "knorm", "keydiff",
                   "tova", "lagkv:chunk=16", "expected-attention",
                   "expected-attention:future=32,epsilon=0.02", "paged-eviction:scope=lane",
                   "paged-eviction:scope=layer", "paged-eviction:scope=sequence",
                   "snapkv-max7:window=16", "snapkv-max7:window=16,pool=3,heads=each",
                   "role-conditional:window=16", "role-conditional:key=0.2,window=16,heads=each",
                   "role-conditional:score=keydiff,key=0", "role-control:score=knorm",
                   "role-control:score=h2o-age,rule=ban-key",
                   "role-control:score=keydiff,rule=ban-delimiter")),
    *((spec, 48, 88)
      for spec in ("h2o-age", "knorm", "keydiff", "tova", "lagkv:chunk=8",
                   "expected-attention", "paged-eviction:scope=lane", "paged-eviction:scope=layer",
                   "paged-eviction:scope=sequence", "role-conditional:score=knorm,key=0.1",
                   "role-control:score=h2o-age,rule=fair")),
]

# Roles as test/cache/oracle_test.cc makes them up: prose, blank, delimiter, value, header, key.
PROSE, BLANK, DELIMITER, VALUE, HEADER, KEY = range(6)


def role_of(position):
    return (position * position + position // 3) % 6



def recorded():
    """[layer] -> (q [T, Hq, d], k [T, Hkv, d], v [T, Hkv, d]), as stored (f16) in f64."""
    data = (HERE / "smollm2.qkv").read_bytes()
    head, body = data.split(b"\n", 1)
    words = head.decode().split()
    n = {words[i]: int(words[i + 1]) for i in range(2, len(words), 2)}
    values = np.frombuffer(body, dtype="<f2").astype(np.float64)
    layers, at = [], 0
    for _ in range(n["layers"]):
        parts = []
        for heads in (n["query_heads"], n["kv_heads"], n["kv_heads"]):
            size = n["tokens"] * heads * n["size"]
            parts.append(values[at:at + size].reshape(n["tokens"], heads, n["size"]))
            at += size
        layers.append(tuple(parts))
    return layers, n


def attention(q, keys):
    """Weights [heads, keys] of one row's queries [heads, d]."""
    logits = q @ keys.T / np.sqrt(q.shape[-1])
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


class Lane:
    def __init__(self, q, k, v):
        self.q, self.k, self.v = q, k, v  # [T, group, d], [T, d], [T, d]
        self.live = np.zeros(0, dtype=int)
        self.sums = np.zeros(0)  # of all rows, mean over the group
        self.rows = []           # the weights of each row, over the lane of then
        self.heads = []          # likewise of each query head

    def read(self, position):
        """One row: it attends to the lane and to itself."""
        self.live = np.append(self.live, position)
        self.heads.append(attention(self.q[position], self.k[self.live]))
        weights = self.heads[-1].mean(axis=0)
        self.sums = np.append(self.sums, 0.0) + weights
        self.rows.append(weights)

    def retain(self, kept):
        self.live, self.sums = self.live[kept], self.sums[kept]


def option(spec, name, default):
    for pair in spec.partition(":")[2].split(","):
        if pair.startswith(name + "="):
            return pair.partition("=")[2]
    return default


def softmax(x):
    e = np.exp(x - x.max())
    return e / e.sum()


def expected_weights(q, k, first, future):
    """Softmax weights [keys] of the mean of exp(score) over Gaussian queries like those of one head
    at positions SINKS, SINKS + 1 ... (q [rows, d], rotated), at positions first ... + future - 1."""
    d = q.shape[1]
    frequency = ROPE_BASE ** (-2 * np.arange(d // 2) / d)
    pairs = q[:, 0::2] + 1j * q[:, 1::2]
    pairs *= np.exp(-1j * np.outer(SINKS + np.arange(len(q)), frequency))
    pairs *= np.exp(1j * np.outer(first + np.arange(future), frequency)).mean(axis=0)
    turned = np.stack([pairs.real, pairs.imag], axis=2).reshape(len(q), d)
    covariance = np.cov(turned, rowvar=False, bias=True)
    spread = np.einsum("ki,ij,kj->k", k, covariance, k)
    return softmax(k @ turned.mean(axis=0) / np.sqrt(d) + spread / (2 * d))


def score_of(spec, lane, prompt):
    """One number per entry of the lane; infinity: kept before all others, newest first."""
    name, n = spec.partition(":")[0], len(lane.live)
    k, v = lane.k[lane.live], lane.v[lane.live]
    norm_k, norm_v = np.linalg.norm(k, axis=1), np.linalg.norm(v, axis=1)
    answering = lane.live[-1] >= prompt
    if name == "h2o-age":
        return lane.sums / (lane.live[-1] - lane.live + 1)
    if name == "knorm":
        return -norm_k
    if name == "keydiff":
        mean = (k / norm_k[:, None]).mean(axis=0)
        return -(k @ mean) / (norm_k * np.linalg.norm(mean))
    if name == "tova":
        score = lane.rows[-1].copy()
        score[-1] = score.max() + 1
        return score
    if name == "snapkv":
        window, pool = int(option(spec, "window", 64)), int(option(spec, "pool", 5))
        padded = [np.pad(row, (0, n - len(row))) for row in lane.rows[-window:]]
        raw = np.mean(padded, axis=0)[:n - window]
        reach = pool // 2  # the neighbours that exist, no padding
        pooled = [raw[max(0, i - reach):i + reach + 1].mean() for i in range(len(raw))]
        return np.append(pooled, np.full(window, np.inf))
    if name == "snapkv-max7":
        window, reach = int(option(spec, "window", 64)), int(option(spec, "pool", 7)) // 2
        heads = lane.heads[-window:]
        if option(spec, "heads", "mean") == "mean":
            heads = [h.mean(axis=0, keepdims=True) for h in heads]
        sums = sum(np.pad(h, ((0, 0), (0, n - h.shape[1]))) for h in heads)
        pooled = np.pad(sums, ((0, 0), (reach, reach)))
        near = [[head[i:i + 2 * reach + 1].max() for i in range(n)] for head in pooled]
        return np.mean(near, axis=0)
    if name == "lagkv":
        chunk = int(option(spec, "chunk", 128))
        score = np.ones(n)
        for begin in range(SINKS, n - 2 * chunk + 1, chunk):
            parts = []
            for x in (k, v):
                now, then = x[begin:begin + chunk], x[begin + chunk:begin + 2 * chunk]
                low, high = then.min(axis=0), then.max(axis=0)
                width = np.where(high > low, high - low, 1.0)
                scaled = np.where(high > low, (now - low) / width, 0.0)
                parts.append(softmax(scaled.std(axis=1, ddof=1)))
            rank = np.argsort(np.argsort(np.mean(parts, axis=0), kind="stable"), kind="stable")
            score[begin:begin + chunk] = rank / chunk
        return score
    if name == "expected-attention":
        future, epsilon = int(option(spec, "future", 512)), float(option(spec, "epsilon", 0))
        shares = [expected_weights(lane.q[SINKS:prompt, g], k[SINKS:], lane.live[-1] + 1, future)
                  for g in range(lane.q.shape[1])]
        return np.append(np.full(SINKS, np.inf), (np.mean(shares, axis=0) + epsilon) * norm_v[SINKS:])
    if name == "paged-eviction":
        score = norm_v / (norm_k + 1e-6)
        if not answering:
            return score
        blocks = np.arange(n) // BLOCK
        means = np.array([score[blocks == b].mean() for b in range(blocks[-1] + 1)])
        score = means[blocks]
        score[blocks <= (SINKS - 1) // BLOCK] = np.inf
        score[blocks >= (n - RECENT) // BLOCK] = np.inf
        return score
    raise ValueError(name)


def chosen(score, keep):
    n = len(score)
    order = sorted(range(SINKS, n - RECENT), key=lambda i: (score[i], i), reverse=True)
    best = order[:keep - SINKS - RECENT]
    if len(order) > len(best):
        gap = score[best[-1]] - score[order[len(best)]]
        if 0 < gap < 1e-6 * abs(score[best[-1]]):
            print(f"too close to tell: {gap}", file=sys.stderr)
    return np.array(sorted([*range(SINKS), *best, *range(n - RECENT, n)]))


def quotas(weights, sizes, entries):
    """Entries of each role: largest remainders, again without the roles that are used up."""
    order = [VALUE, KEY, DELIMITER, PROSE, BLANK, HEADER]  # the paper's
    granted = [0] * 6
    while (left := entries - sum(granted)) > 0:
        open_roles = [r for r in order if weights[r] > 0 and granted[r] < sizes[r]]
        if not open_roles:
            break
        total = sum(weights[r] for r in open_roles)
        target = {r: weights[r] / total * left for r in open_roles}
        quota = {r: int(target[r]) for r in open_roles}
        by_rest = sorted(open_roles, key=lambda r: (quota[r] - target[r], -weights[r]))
        for i in range(left - sum(quota.values())):
            quota[by_rest[i]] += 1
        for r in open_roles:
            granted[r] += min(quota[r], sizes[r] - granted[r])
    return granted


def chosen_by_role(spec, score, keep, live, prompt):
    n, roles = len(live), [role_of(p) for p in live]
    recent = min(max(RECENT, int(sum(live >= prompt))), keep - SINKS)
    if spec.startswith("role-conditional"):
        a = float(option(spec, "key", 0.02))
        weights = {VALUE: .70 - a, KEY: a, DELIMITER: .20, PROSE: .05, BLANK: .05, HEADER: 0}
    elif option(spec, "rule", "fair") == "fair":
        weights = {r: roles.count(r) for r in range(6)}
    else:
        banned = {"ban-key": KEY, "ban-delimiter": DELIMITER}[option(spec, "rule", "")]
        roles = [PROSE if r == banned else VALUE for r in roles]
        weights = {r: float(r == VALUE) for r in range(6)}
    middle = sorted(range(SINKS, n - recent), key=lambda i: (-score[i], i))
    left = quotas(weights, [sum(roles[i] == r for i in middle) for r in range(6)],
                  keep - SINKS - recent)
    assert sum(left) == keep - SINKS - recent
    kept = [*range(SINKS), *range(n - recent, n)]
    for i in middle:
        if left[roles[i]] > 0:
            left[roles[i]] -= 1
            kept.append(i)
    return np.array(sorted(kept))


def review(spec, lanes, keep, prompt):
    """lanes: [layer][head].  Shared decisions are means over heads, then over layers."""
    scope = option(spec, "scope", "layer" if spec.startswith("tova") else "lane")
    by_role = spec.startswith("role-")
    base = option(spec, "score", "snapkv-max7") + ":" + spec.partition(":")[2] if by_role else spec
    scores = [[score_of(base, lane, prompt) for lane in layer] for layer in lanes]
    if scope != "lane":
        scores = [[np.mean(layer, axis=0)] * len(layer) for layer in scores]
    if scope == "sequence":
        mean = np.mean([layer[0] for layer in scores], axis=0)
        scores = [[mean] * len(layer) for layer in scores]
    for layer, layer_scores in zip(lanes, scores):
        for lane, score in zip(layer, layer_scores):
            if len(lane.live) > keep and by_role:
                lane.retain(chosen_by_role(spec, score, keep, lane.live, prompt))
            elif len(lane.live) > keep:
                lane.retain(chosen(score, keep))


def main():
    layers, n = recorded()
    group = n["query_heads"] // n["kv_heads"]
    print("# Positions that stay, a line a lane: layer head: positions.  Computed by "
          "test/oracles/kept.py from test/oracles/smollm2.qkv.")
    for spec, keep, prompt in CASES:
        lanes = [[Lane(q[:, h * group:(h + 1) * group], k[:, h], v[:, h])
                  for h in range(n["kv_heads"])] for q, k, v in layers]
        for position in range(n["tokens"]):
            for layer in lanes:
                for lane in layer:
                    lane.read(position)
            answered = position + 1 - prompt
            if answered >= 0 and answered % 16 == 0:
                review(spec, lanes, keep, prompt)
        full = spec + ("," if ":" in spec else ":") + f"sinks={SINKS},recent={RECENT}"
        print(f"case {full} keep {keep} prompt {prompt}")
        for l, layer in enumerate(lanes):
            for h, lane in enumerate(layer):
                print(f"{l} {h}:", *lane.live)


if __name__ == "__main__":
    main()
