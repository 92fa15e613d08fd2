/* One route, live: what it does now, its arms, rewards, tests, drift. */

import { byId, count, element, evalue, facts, number, paramsText, percent, plural, redraw, signed, table } from "/dom.js";
import { colour, draw, line, seeThrough } from "/charts.js";

const interval = (a) => (a.lower == null ? "–" : number(a.lower, 3) + " to " + number(a.upper, 3));
const STATES = {
  stable: "Stable", proposed: "About to try a change", canary: "Trial running", safe: "Paused", experiment: "Experiment running",
};

function sentence(r) {
  const c = r.champion, a = r.challenger;
  if (!c) return "No revision yet.";
  const now = c.n ? "its mean reward is " + number(c.mean, 3) + " over " + plural(c.n, "scored output") : "nothing of it is scored yet";
  if (r.is_paused) return "Revision " + c.revision + " serves everything and nothing is decided until someone resumes it; " + now + ".";
  if (r.state === "experiment") return "Several revisions are compared with revision " + c.revision + " on this route; see Experiments.";
  if (!a) return "Revision " + c.revision + " serves everything; " + now + ".";
  const effect = r.effect == null || !r.n_blocks ? "too early to say anything about the difference"
    : "difference so far " + signed(r.effect, 3) + " (95%: " + signed(r.effect_lower, 3) + " to " + signed(r.effect_upper, 3) + ")";
  return "Revision " + a.revision + " gets " + percent(a.share) + " of the requests, revision " + c.revision +
    " the rest; " + effect + ".";
}

/* The steps of the ramp; the one in force is marked. A share outside of them was set by hand. */
function ramp(r) {
  const share = r.challenger ? r.challenger.share : 0;
  const steps = [...(r.ramp || [])];
  if (r.challenger && !steps.some((s) => Math.abs(s - share) < 1e-6)) steps.push(share);
  const list = element("ol", null, "ramp");
  for (const s of steps) {
    const item = element("li", percent(s));
    if (r.challenger && Math.abs(s - share) < 1e-6) {
      item.className = "now";
      item.setAttribute("aria-current", "step");
    } else if (r.challenger && s < share) item.className = "done";
    list.append(item);
  }
  return list;
}

function showState(r) {
  const seen = [r.state, r.is_paused, r.policy, r.experiment, r.champion, r.challenger, r.effect, r.n_blocks, r.held, r.late, r.missing];
  redraw(byId("state"), seen, () => {
    const head = element("p", null, "headline", element("span", STATES[r.state] || r.state,
      "chip " + (r.is_paused ? "warn" : r.challenger || r.state === "experiment" ? "challenger" : "good")), " ", sentence(r));
    const pairs = [["policy", r.policy], ["ramp of a trial", ramp(r)]];
    if (r.challenger) pairs.push(["experiment", r.experiment], ["blocks compared", count(r.n_blocks)]);
    pairs.push(["waiting for a score", count(r.held)], ["late", count(r.late)], ["never scored", count(r.missing)]);
    return [head, facts(pairs)];
  });
}

function showArms(r, experiment) {
  const list = experiment ? experiment.arms.map((a) => ({ ...a, arm: a.name }))
    : ["champion", "challenger"].filter((a) => r[a]).map((a) => ({ arm: a, ...r[a] }));
  table("arms", [
    ["arm", (x) => element("span", x.arm, x.arm)], ["revision", (x) => x.revision, "number"],
    ["share", (x) => percent(x.share), "number"], ["scored", (x) => count(x.n), "number"],
    ["unscored", (x) => count(x.unscored), "number"], ["mean reward", (x) => number(x.mean, 3), "number"],
    ["95%, at any time", interval, "number"], ["parameters", (x) => paramsText(x.params), "text"],
  ], list, "no revision yet");
}

const TESTS = { rollback: "worse: roll back", non_inferior: "not worse", superior: "better",
  non_inferior_filled: "not worse, unscored at their worst", superior_filled: "better, unscored at their worst",
  rollback_filled: "worse, unscored at their best", non_inferior_set_b: "not worse by the second check set",
  non_inferior_length: "not worse, length taken out", superior_length: "better, length taken out" };
const testName = (t) => TESTS[t] || t.replace(/^guardrail_/, "guardrail: ").replace(/^duel_/, "beaten by another arm: ").replaceAll("_", " ");

/* Where reaching the threshold is bad news the bar turns yellow, then red. */
function towards(t, isBad) {
  const bar = element("meter");
  const part = t.log_e == null ? 0 : t.log_e / t.log_threshold;
  bar.min = 0;
  bar.max = 1;
  bar.value = Math.max(0, Math.min(1, part));
  if (isBad) [bar.low, bar.high, bar.optimum] = [0.5, 0.8, 0];
  bar.title = percent(Math.max(0, part)) + " of the way, on the logarithmic scale";
  return bar;
}

function showTests(r) {
  byId("tests-card").hidden = !r.challenger && !r.tests.length;
  table("tests", [
    ["test", (t) => testName(t.test)], ["evidence (e-value)", (t) => evalue(t.log_e), "number"],
    ["decides at", (t) => evalue(t.log_threshold), "number"],
    ["", (t) => towards(t, /^(rollback|guardrail_|duel_)/.test(t.test))],
  ], r.tests, "no trial is running");
  table("drift", [
    ["traffic", (d) => d.stratum || "all"],
    ["level watched", (d) => (d.is_frozen ? number(d.m0, 3) : "still calibrating"), "number"],
    ["evidence of a fall", (d) => evalue(d.log_statistic), "number"],
    ["alarm at", (d) => evalue(d.log_threshold), "number"],
    ["", (d) => (d.is_alarmed ? element("span", "alarm", "chip bad") : d.is_frozen ? towards({ log_e: d.log_statistic, log_threshold: d.log_threshold }, true) : "")],
  ], r.drift, "no scored output yet");
}

/* A gap (NaN) where another revision took the arm's place, so that no line joins the two. */
function armPoints(points, arm, value) {
  const out = [];
  let revision = null;
  for (const p of points.filter((q) => q[arm])) {
    const x = p.at_us / 1000;
    if (revision !== null && p[arm].revision !== revision) out.push({ x, y: NaN });
    revision = p[arm].revision;
    out.push({ x, y: value(p[arm]) });
  }
  return out;
}

/* The mean of several arms together has no interval: the table has each one's. */
function armLines(points, arm, name, isOne) {
  const bound = { borderWidth: 0, isBound: true, backgroundColor: seeThrough(colour("--" + arm), 0.15) };
  return [
    line(name + ", mean slice by slice", armPoints(points, arm, (a) => a.mean), "--" + arm,
      { pointRadius: 2 }),
    ...(isOne ? [line("", armPoints(points, arm, (a) => a.lower), "--" + arm, { ...bound, fill: false }),
      line("", armPoints(points, arm, (a) => a.upper), "--" + arm, { ...bound, fill: "-1" })] : []),
  ];
}

const MARK_COLOUR = { rollback: "--bad", promote: "--good", alert: "--warn" };

/* What changed who serves, for the charts; a revision where it was made. */
function marksOf(decisions, revisions) {
  return [...decisions.filter((d) => ["promote", "rollback", "expire", "alert", "hold"].includes(d.action))
    .map((d) => ({ x: d.at_us / 1000, label: d.action, colour: MARK_COLOUR[d.action] || "--soft" })),
  ...revisions.map((r) => ({ x: r.created_us / 1000, label: "revision " + r.number, colour: "--soft" }))]
    .sort((a, b) => a.x - b.x);
}

const TEST_COLOURS = ["--bad", "--champion", "--good", "--challenger", "--warn", "--violet", "--teal", "--soft", "--ink"];

/* Each test as a share of what it needs, so that one line at 1 is the threshold of all. */
function drawTests(all, marks) {
  const last = all.length ? all[all.length - 1].experiment : "";
  const points = all.filter((p) => p.experiment === last);
  const names = Object.keys(points.length ? points[points.length - 1].tests : {}).filter((n) => !n.endsWith("_filled"));
  const part = (p, name) => Math.max(-1, p.tests[name] / p.needed[name]);
  const sets = names.map((name, i) => line(testName(name),
    points.filter((p) => p.tests[name] != null && p.needed && p.needed[name]).map((p) => ({ x: p.at_us / 1000, y: part(p, name) })),
    TEST_COLOURS[i % TEST_COLOURS.length]));
  if (points.length > 1)
    sets.push(line("decides here", [{ x: points[0].at_us / 1000, y: 1 }, { x: points[points.length - 1].at_us / 1000, y: 1 }],
      "--ink", { borderDash: [6, 4], borderWidth: 1 }));
  draw({ id: "evalue-chart", y: "share of the threshold (ln)", range: { suggestedMin: -0.2, suggestedMax: 1.1 } }, sets, marks);
}

export function showRoute(r, series, decisions, revisions, experiment) {
  showState(r);
  showArms(r, experiment);
  showTests(r);
  const points = series.rewards || [], marks = marksOf(decisions, revisions);
  draw({ id: "reward-chart", y: "reward", range: { min: 0, max: 1 } },
    [...armLines(points, "champion", "champion", true),
      ...armLines(points, "challenger", experiment ? "other arms together" : "challenger", !experiment)], marks);
  drawTests(series.evalues || [], marks);
}
