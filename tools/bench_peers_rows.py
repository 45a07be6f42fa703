"""What tools/bench_peers measures, and the ratios it should reach."""
import dataclasses


@dataclasses.dataclass(frozen=True)
class Row:
    test: str                # as `quire bench --tests` takes it
    about: str
    kind: str                # pp, tg
    tokens: int
    depth: int = 0
    batch: int = 1
    keep: int = 0            # quire with h2o, OpenVINO GenAI with its own; llama.cpp keeps all
    requantized: str = ""    # of this type instead of the model's own
    to_llama: float = 1.0    # the least ratio to the better of both llama.cpp builds
    to_openvino: float = 0   # and to OpenVINO GenAI; 0: not compared
    to_own_full: float = 0   # and to quire's row at the same depth that keeps all

    @property
    def name(self) -> str:
        return self.test + (f" ({self.requantized})" if self.requantized else "")


# SmolLM2-135M Q4_1, 2 threads, f16 keys and values.
SMOLLM2 = (
    Row("pp512", "prefill 512", "pp", 512, to_llama=4.0, to_openvino=1.0),
    Row("pp4096", "prefill 4096", "pp", 4096, to_llama=4.0, to_openvino=0.9),
    Row("tg32@d128", "decode 1 at depth 128", "tg", 32, 128, to_llama=1.0, to_openvino=1.25),
    Row("tg32@d4096", "decode 1 at depth 4096", "tg", 32, 4096, to_llama=1.6, to_openvino=1.2),
    Row("tg32@d8000", "decode 1 at depth 8000", "tg", 32, 8000, to_llama=2.0, to_openvino=1.2),
    Row("tg32@d8000+keep1024", "the same, h2o keeps 1024", "tg", 32, 8000, keep=1024,
        to_llama=2.5, to_own_full=1.5),
    Row("tg16x16@d2048", "decode 16 at depth 2048", "tg", 16, 2048, batch=16, to_llama=3.5,
        to_openvino=0.9),
    Row("tg16x16@d2100+keep512", "decode 16 at depth 2100, both keep 512", "tg", 16, 2100, batch=16,
        keep=512, to_llama=3.5, to_openvino=1.5),
    Row("pp512", "prefill 512, Q4_0 file", "pp", 512, requantized="Q4_0", to_llama=1.5),
)
# Any other model: not slower than llama.cpp.
OTHER = tuple(dataclasses.replace(row, to_llama=1.0, to_openvino=0, to_own_full=0)
              for row in SMOLLM2 if not row.requantized)
QUICK = ("pp512", "tg32@d128")


def rows_of(model_file: str, quick: bool, tests=()):
    rows = SMOLLM2 if model_file.startswith("SmolLM2-135M") else OTHER
    wanted = tests or (QUICK if quick else ())
    return tuple(r for r in rows
                 if not wanted or (r.test in wanted and not r.requantized))


def groups_of(rows):
    """Rows whose depth is read once for all of them: one process of quire each."""
    groups = []
    for row in rows:
        if row.keep and groups and groups[-1][0].depth == row.depth:
            groups[-1].append(row)
        else:
            groups.append([row])
    return groups
