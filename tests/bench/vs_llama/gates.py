"""The table of issue 3: what each figure must reach. A ratio is of medians over all rounds."""

from dataclasses import dataclass
from statistics import median

FAST_PROBE_GB_S = 37  # above this the memory is in its fast regime, decode is bound by both


@dataclass(frozen=True)
class Gate:
    figure: int
    key: str
    what: str
    kind: str  # more, less: ours over rival and the reverse; most: ratio at most; limit: of ours
    gate: float
    aim: float
    unit: str


LLAMA = (
    Gate(1, "decode_2t", "decode, batch 1, 2 threads", "more", 2.3, 3, "tok/s"),
    Gate(1, "decode_1t", "decode, batch 1, 1 thread", "more", 2.2, 2.6, "tok/s"),
    Gate(2, "prefill_512", "prefill 512", "more", 5.5, 8, "tok/s"),
    Gate(2, "prefill_64", "prefill 64", "more", 6.5, 9, "tok/s"),
    Gate(3, "batch_4", "decode, 4 streams", "more", 4, 6, "tok/s"),
    Gate(3, "batch_8", "decode, 8 streams", "more", 4.5, 6, "tok/s"),
    Gate(3, "batch_16", "decode, 16 streams", "more", 4.5, 6, "tok/s"),
    Gate(3, "batch_32", "decode, 32 streams", "more", 4.5, 6, "tok/s"),
    Gate(3, "shared_16", "decode, 16 streams, 400 shared", "more", 4.5, 6, "tok/s"),
    Gate(4, "cold_ttft_p95_ms", "16 clients cold, TTFT p95", "less", 15, 40, "ms"),
    Gate(4, "warm_ttft_p95_ms", "16 clients warm, TTFT p95", "less", 5, 8, "ms"),
    Gate(4, "warm_tok_s", "16 clients warm, aggregate", "more", 4.5, 7, "tok/s"),
    Gate(5, "worst_gap_ms", "worst gap while prompts arrive", "limit", 100, 50, "ms"),
    Gate(6, "logprobs_ms", "5 logprobs, cost per token", "limit", 0.2, 0.05, "ms"),
    Gate(6, "neighbour_kept", "decode kept beside a busy process", "floor", 0.4, 0.5, ""),
    Gate(6, "memory_1_mb", "resident, 1 slot", "most", 1.0, 0.85, "MB"),
    Gate(6, "memory_16_mb", "resident, 16 slots of 1024", "most", 0.9, 0.6, "MB"),
    Gate(6, "start_s", "start to healthy", "most", 1.0, 0.6, "s"),
    Gate(6, "idle_cpu_ms_s", "processor time while idle", "limit", 0.5, 0.5, "ms/s"),
    Gate(7, "big_decode", "1.1B decode", "more", 2.1, 3, "tok/s"),
    Gate(7, "big_prefill", "1.1B prefill 256", "more", 5.5, 7, "tok/s"),
)
# Against the rival's Q4_0 file: ahead is enough, and is stated.
BEST_FORMAT = tuple(Gate(8, g.key, "against Q4_0: " + g.what, g.kind, 1.0, 1.5, g.unit)
                    for g in LLAMA if g.figure <= 4)
# Against ik_llama.cpp on the same file: single stream.
IK = tuple(Gate(8, g.key, "against ik_llama.cpp: " + g.what, g.kind, 1.3, 1.5, g.unit)
           for g in LLAMA if g.figure <= 2)


def spread(values):
    return (f"{median(values):.4g}" if len(values) < 2 else
            f"{median(values):.4g} ({min(values):.4g}-{max(values):.4g})")


def value_of(gate, ours, rival):
    """(number to judge, text of it)."""
    mine = median(ours)
    if gate.kind in ("limit", "floor"):
        return mine, f"{mine:.3g}"
    ratio = mine / median(rival)
    ratio = 1 / ratio if gate.kind == "less" else ratio
    return ratio, f"{ratio:.2f}x"


def is_met(gate, value, bar):
    return value <= bar if gate.kind in ("limit", "most") else value >= bar


def row(gate, ours, rival):
    """What was asked for and not measured is not met."""
    is_there = bool(ours) and (bool(rival) or gate.kind in ("limit", "floor"))
    value, text = value_of(gate, ours, rival) if is_there else (None, "not measured")
    return {"figure": gate.figure, "key": gate.key, "what": gate.what, "unit": gate.unit,
            "ours": ours, "rival": rival, "value": value, "text": text, "kind": gate.kind,
            "gate": gate.gate, "aim": gate.aim, "met": is_there and is_met(gate, value, gate.gate),
            "aim_met": is_there and is_met(gate, value, gate.aim)}


def share_of_probe(ours, sizes, probes):
    """Decode reads every weight once a token: its share of what the probe read beside it. `sizes`:
    bytes of the weights, which llama-bench tells. The best probe counts: other load lowers it."""
    r = {"figure": 1, "key": "decode_share", "unit": "", "what": "decode, share of the probe",
         "ours": [], "rival": [], "value": None, "text": "not measured", "kind": "floor",
         "gate": 0.85, "aim": 0.95, "met": False, "aim_met": False}
    if ours and sizes and probes:
        probe = max(probes)
        r["ours"] = [v * median(sizes) / 1e9 / probe for v in ours]
        value = median(r["ours"])
        r["what"] += f"'s {probe:.1f} GB/s"
        r["gate"] = 0.60 if probe > FAST_PROBE_GB_S else 0.85
        r |= {"value": value, "text": f"{value:.2f}", "met": value >= r["gate"],
              "aim_met": value >= r["aim"]}
    return r


def judge(values, probes, figures, with_ik):
    """Rows of the gates of `figures`. values: engine -> key -> list."""
    ours = values["ours"]

    def rows_of(table, rival):
        return [row(g, ours.get(g.key, []), values[rival].get(g.key, []))
                for g in table if g.figure in figures]

    rows = rows_of(LLAMA, "rival")
    if 1 in figures:
        rows.insert(1, share_of_probe(ours["decode_2t"], values["rival"]["model_bytes"], probes))
    rows += rows_of(BEST_FORMAT, "best")
    return rows + rows_of(IK, "ik") if with_ik else rows


def print_rows(rows):
    print(f"{'#':>2} {'figure':50} {'ours':>27} {'rival':>27} {'result':>12} {'gate':>6} {'aim':>6}")
    for r in rows:
        mark = "aim" if r["aim_met"] else "met" if r["met"] else "SHORT"
        unit = f", {r['unit']}" if r["unit"] else ""
        print(f"{r['figure']:>2} {r['what'] + unit:50} {spread(r['ours']) if r['ours'] else '-':>27} "
              f"{spread(r['rival']) if r['rival'] else '-':>27} {r['text']:>12} {r['gate']:>6g} "
              f"{r['aim']:>6g} {mark}")
