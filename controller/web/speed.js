/* How fast: percentiles of the last outputs, and what the engines say of themselves. */

import { byId, count, facts, milliseconds, number, percent, redraw } from "/dom.js";
import { draw, line } from "/charts.js";

const three = (m) => milliseconds(m.p50) + " / " + milliseconds(m.p90) + " / " + milliseconds(m.p99);

export function showSpeed(load, engines) {
  const here = engines.filter((e) => !e.is_stale);
  const sum = (key) => here.reduce((total, e) => total + (e[key] || 0), 0);
  const kv = here.length ? Math.max(...here.map((e) => e.kv_usage || 0)) : null;
  const pairs = [
    ["tokens/s now", number(sum("tokens_per_second"), 0)],
    ["running", count(sum("running"))], ["waiting", count(sum("waiting"))],
    ["KV cache in use", percent(kv)], ["prompt found in the prefix cache", percent(load.prefix_hit_ratio)],
    ["first token: p50 / p90 / p99", three(load.ttft_ms)], ["whole answer: p50 / p90 / p99", three(load.e2e_ms)],
    ["wait in the queue: p50 / p90 / p99", three(load.queue_ms)],
  ];
  redraw(byId("speed"), pairs, () => facts(pairs));
  const at = (key) => load.slices.filter((s) => s[key] != null).map((s) => ({ x: s.at_us / 1000, y: s[key] }));
  draw({ id: "latency-chart", y: "ms, whole answer", range: { beginAtZero: true } },
    [line("p50", at("e2e_p50_ms"), "--champion"), line("p99", at("e2e_p99_ms"), "--challenger")]);
  draw({ id: "rate-chart", y: "tokens/s", range: { beginAtZero: true } },
    [line("tokens/s of this route", at("tokens_per_second"), "--good", { fill: "origin" })]);
}
