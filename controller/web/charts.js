/* Two charts on Chart.js. Colours come from the style sheet, so that light and dark both work. */
"use strict";

const charts = { reward: null, evalue: null };

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function seeThrough(hex, alpha) {
  const n = parseInt(hex.slice(1), 16);
  return `rgba(${n >> 16}, ${(n >> 8) & 255}, ${n & 255}, ${alpha})`;
}

function axes(yTitle, extra) {
  const grid = { color: colour("--line") }, ticks = { color: colour("--soft") };
  return {
    x: { type: "linear", grid, ticks, title: { display: true, text: extra.x, color: colour("--soft") } },
    y: { grid, ticks, title: { display: true, text: yTitle, color: colour("--soft") }, ...extra.y },
  };
}

function makeChart(id, yTitle, extra) {
  return new Chart(document.getElementById(id), {
    type: "line",
    data: { datasets: [] },
    options: {
      animation: false, responsive: true, maintainAspectRatio: false, parsing: false,
      interaction: { mode: "nearest", intersect: false },
      scales: axes(yTitle, extra),
      plugins: { legend: { labels: { color: colour("--ink"),
        filter: (item) => !item.text.startsWith("_") } } },
    },
  });
}

/* A gap (NaN) where another revision took the arm's place, so that no line joins the two. */
function armPoints(points, arm, value) {
  const out = [];
  let revision = null;
  for (const p of points.filter((q) => q[arm])) {
    if (revision !== null && p[arm].revision !== revision) out.push({ x: p.last_row, y: NaN });
    revision = p[arm].revision;
    out.push({ x: p.last_row, y: value(p[arm]) });
  }
  return out;
}

function armDatasets(points, arm) {
  const line = colour("--" + arm);
  const at = (f) => armPoints(points, arm, f);
  const bound = { borderWidth: 0, pointRadius: 0, backgroundColor: seeThrough(line, 0.13) };
  return [
    { label: arm, data: at((a) => a.mean), borderColor: line, backgroundColor: line, borderWidth: 1.5,
      pointRadius: 2, tension: 0 },
    { ...bound, label: "_lower " + arm, data: at((a) => a.lower), fill: false },
    { ...bound, label: "_upper " + arm, data: at((a) => a.upper), fill: "-1" },
  ];
}

function drawReward(points) {
  if (!charts.reward)
    charts.reward = makeChart("reward-chart", "reward", { x: "row", y: { min: 0, max: 1 } });
  charts.reward.data.datasets = [...armDatasets(points, "champion"), ...armDatasets(points, "challenger")];
  charts.reward.update();
}

const SHOWN_TESTS = ["rollback", "non_inferior", "superior"];

/* The running trial, else the last one. */
function drawEvalues(all, tests) {
  const last = all.length ? all[all.length - 1].experiment : "";
  const points = all.filter((p) => p.experiment === last);
  if (!charts.evalue)
    charts.evalue = makeChart("evalue-chart", "ln e-value", { x: "seconds ago", y: {} });
  const names = SHOWN_TESTS;
  const lines = ["--bad", "--champion", "--good"];
  const now = points.length ? points[points.length - 1].at_us : 0;
  const x = (p) => (p.at_us - now) / 1e6;
  const sets = names.map((name, i) => ({
    label: name, borderColor: colour(lines[i % lines.length]), backgroundColor: colour(lines[i % lines.length]),
    borderWidth: 1.5, pointRadius: 1,
    data: points.filter((p) => p.tests[name] != null).map((p) => ({ x: x(p), y: p.tests[name] })),
  }));
  const rollback = tests.find((t) => t.test === "rollback");
  if (rollback && points.length)
    sets.push({ label: "threshold of rollback", borderColor: colour("--bad"), borderDash: [6, 4],
      borderWidth: 1, pointRadius: 0, data: [{ x: x(points[0]), y: rollback.log_threshold },
        { x: 0, y: rollback.log_threshold }] });
  charts.evalue.data.datasets = sets;
  charts.evalue.update();
}

function forgetCharts() {
  for (const name of Object.keys(charts)) {
    if (charts[name]) charts[name].destroy();
    charts[name] = null;
  }
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", forgetCharts);
