/* Experiments: arms compared with their intervals, pairs with their evidence; a new one is planned
 * first, so that one knows how long it will take before it starts. */

import { send } from "/ask.js";
import { expectKey, openDialog } from "/dialog.js";
import { button, byId, count, element, evalue, facts, number, paramsText, percent, plural, redraw, rows, signed, time } from "/dom.js";

const SVG = "http://www.w3.org/2000/svg";
const OUTCOMES = { running: ["challenger", "running"], winner: ["good", "a winner"], better: ["good", "better than the champion"],
  no_verdict: ["warn", "no verdict"], stopped: ["", "stopped"] };

export function duration(seconds) {
  if (seconds == null) return "not within the time allowed";
  return seconds < 120 ? Math.round(seconds) + " s" : seconds < 7200 ? Math.round(seconds / 60) + " min"
    : seconds < 172800 ? (seconds / 3600).toFixed(1) + " h" : (seconds / 86400).toFixed(1) + " days";
}

/* The interval of an arm's mean on a line from 0 to 1, with the mean as a dot. */
function interval(arm) {
  const svg = document.createElementNS(SVG, "svg");
  const put = (tag, values) => {
    const node = document.createElementNS(SVG, tag);
    for (const [k, v] of Object.entries(values)) node.setAttribute(k, v);
    svg.append(node);
  };
  svg.setAttribute("viewBox", "0 0 200 16");
  svg.setAttribute("class", "interval " + arm.state);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", number(arm.lower, 3) + " to " + number(arm.upper, 3));
  put("line", { x1: 0, x2: 200, y1: 8, y2: 8, class: "axis" });
  if (arm.lower != null) put("line", { x1: 200 * arm.lower, x2: Math.max(200 * arm.upper, 200 * arm.lower + 1), y1: 8, y2: 8, class: "range" });
  if (arm.mean != null) put("circle", { cx: 200 * arm.mean, cy: 8, r: 4 });
  return svg;
}

function armsTable(x) {
  const champion = x.arms.length ? x.arms[0].revision : 0;
  const state = (a) => (a.revision === x.winner ? element("span", x.outcome === "better" ? "better" : "winner", "chip good")
    : a.state !== "in" ? element("span", a.state, "chip bad") : a.revision === x.leader ? element("span", "leads", "chip champion") : "");
  return element("table", null, null, ...rows([
    ["revision", (a) => a.revision + (a.revision === champion ? ", the champion" : "")], ["", state],
    ["share", (a) => percent(a.share), "number"], ["scored", (a) => count(a.n), "number"],
    ["unscored", (a) => count(a.unscored), "number"], ["mean reward", (a) => number(a.mean, 3), "number"],
    ["95%, at any time", interval], ["best with probability", (a) => percent(a.probability_best), "number"],
    ["parameters", (a) => paramsText(a.params), "text"],
  ], x.arms, "no arms"));
}

function pairsTable(x) {
  const towards = (p) => {
    const bar = element("meter");
    bar.value = Math.max(0, Math.min(1, Math.max(p.log_e_a, p.log_e_b) / x.log_threshold));
    return bar;
  };
  const says = (p) => (p.log_e_a >= x.log_threshold ? p.a + " is better" : p.log_e_b >= x.log_threshold ? p.b + " is better" : "open");
  return element("table", null, null, ...rows([
    ["revisions", (p) => p.a + " and " + p.b], ["difference", (p) => signed(p.effect, 3), "number"],
    ["95%, at any time", (p) => signed(p.lower, 3) + " to " + signed(p.upper, 3), "number"],
    ["compared", (p) => count(p.comparisons), "number"], ["first better (e-value)", (p) => evalue(p.log_e_a), "number"],
    ["second better", (p) => evalue(p.log_e_b), "number"], ["decides at", () => evalue(x.log_threshold), "number"],
    ["", towards], ["says", says],
  ], x.pairs, "no pairs"));
}

function item(x, isNewest) {
  const [tone, text] = OUTCOMES[x.outcome] || ["", x.outcome];
  const node = element("details"), head = element("summary");
  node.dataset.key = x.id;
  node.open = isNewest;
  head.append(element("time", time(x.started_us)), element("span", text, "chip " + tone),
    element("span", x.id + (x.arms ? ": " + plural(x.arms.length, "arm") : "") + (x.reason ? ", " + x.reason : ""), "what"));
  node.append(head);
  if (!x.arms) return node;
  const pairs = element("details", null, "more", element("summary", "Pair by pair"), pairsTable(x));
  pairs.dataset.key = x.id + " pairs";
  const split = x.is_split_broken ? element("span", "broken: rows of an arm may be lost", "chip bad") : "as promised";
  node.append(facts([["scored", count(x.scored)], ["running for", duration(x.seconds)], ["law", x.plan.law],
    ["if an arm wins", x.plan.on_win], ["at most", duration(x.plan.max_seconds)], ["split", split]]), armsTable(x), pairs);
  return node;
}

const GRID = { temperature: "0.3, 0.6, 0.9", top_p: "", max_new_tokens: "" };

function choice(label, values) {
  const select = element("select");
  for (const [value, text] of values) {
    const option = element("option", text);
    option.value = value;
    select.append(option);
  }
  return [select, element("label", label, null, select)];
}

function gridOf(box) {
  const matrix = {};
  for (const input of box.querySelectorAll("input")) {
    const values = input.value.split(/[\s,;]+/).filter(Boolean).map(Number);
    if (values.some((v) => !Number.isFinite(v))) throw new Error(input.name + ": numbers, with commas between them");
    if (values.length) matrix[input.name] = values;
  }
  if (!Object.keys(matrix).length) throw new Error("no value to try: fill in at least one field");
  return matrix;
}

function planText(p) {
  const arms = plural(p.arms.length, "arm") + ", the champion first: " + p.arms.map(paramsText).join(" | ");
  const when = p.outputs_median == null ? "Most simulated runs find no winner in the time allowed."
    : "Expected: half of such experiments are decided within " + plural(Math.round(p.outputs_median), "output") + " (" +
      (p.seconds_median == null ? "the rate of requests is not known yet" : duration(p.seconds_median)) + ")" +
      (p.outputs_p90 == null ? "." : ", 9 of 10 within " + count(Math.round(p.outputs_p90)) + ".");
  return [element("p", when, "changes"), element("p", arms, "note")];
}

function startDialog(route, params) {
  const champion = params.champion.params || {};
  const grid = element("div", null, "knobs", ...params.knobs.filter((k) => k.name in GRID || champion[k.name] != null).map((k) => {
    const input = element("input");
    input.name = k.name;
    input.value = GRID[k.name] || "";
    return element("label", k.name, null, input);
  }));
  const [law, lawLabel] = choice("How requests are shared", [["elimination", "equal shares, beaten arms are dropped"],
    ["top_two", "more to those that look best"], ["slices", "taking turns in time (knobs of the engine)"]]);
  const [win, winLabel] = choice("If an arm wins", [["canary", "it goes on trial against the champion"],
    ["promote", "it serves everything at once"], ["report", "only say so"]]);
  const shown = element("div");
  const body = () => ({ route: route.route, matrix: gridOf(grid), law: law.value, on_win: win.value });
  const plan = button("Show the plan", async () => {
    try {
      shown.replaceChildren(...planText(await send("/v1/experiments/plan", body())));
      byId("dialog-go").disabled = false;
    } catch (error) {
      shown.replaceChildren(element("p", error.message, "bad"));
    }
  });
  const forget = () => { byId("dialog-go").disabled = true; shown.replaceChildren(); };
  for (const node of [grid, law, win]) node.addEventListener("input", forget);
  openDialog({ title: "Start an experiment", go: "Start it", body: [grid, lawLabel, winLabel, element("div", null, "buttons", plan), shown],
    about: "Values to try, with commas between them; every combination is an arm beside the champion. Look at the plan first.",
    run: async (reason) => "Experiment " + (await send("/v1/experiments", { ...body(), reason, author: "dashboard" })).experiment + " runs" });
  byId("dialog-go").disabled = true;
}

function stopDialog(route) {
  openDialog({ title: "Stop the experiment", go: "Stop it", isDanger: true, about: "It ends without a winner; the champion serves everything.",
    run: async (reason) => "Stopped (decision " + (await send("/v1/experiments/stop", { route: route.route, reason, author: "dashboard" })).decision + ")" });
}

export function showExperiments(list, route, params) {
  expectKey(!!params.needs_key);
  const isRunning = list.some((x) => x.outcome === "running");
  redraw(byId("experiment-buttons"), [isRunning, route.route, params], () => {
    const b = isRunning ? button("Stop the experiment…", () => stopDialog(route), "danger")
      : button("Start an experiment…", () => startDialog(route, params), "primary");
    b.dataset.key = "experiment";
    return b;
  });
  redraw(byId("experiments"), list.map((x) => ({ ...x, seconds: Math.round(x.seconds / 5) })), () => (list.length
    ? list.map((x, i) => item(x, i === 0)) : element("p", "No experiment has been started on this route.", "empty")));
}
