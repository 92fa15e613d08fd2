/* The page: asks the API, writes tables. Every text from outside goes through textContent. */
"use strict";

const POLL_MS = 1500;
const byId = (id) => document.getElementById(id);
let chosen = "";

function element(tag, text, className) {
  const node = document.createElement(tag);
  if (text != null) node.textContent = text;
  if (className) node.className = className;
  return node;
}

const number = (v, digits) => (v == null ? "–" : Number(v).toFixed(digits));
const count = (v) => (v == null ? "–" : Number(v).toLocaleString("en"));
const percent = (v) => (v == null ? "–" : (100 * v).toFixed(v < 0.1 ? 1 : 0) + "%");
const time = (us) => new Date(us / 1000).toLocaleTimeString();
const evalue = (ln) => (ln == null ? "–" : ln > 14 ? "e^" + ln.toFixed(1) : Math.exp(ln).toPrecision(3));

/* columns: [title, cell(row) -> text or node, class] */
function fillTable(id, columns, rows, empty) {
  const table = byId(id);
  if (!rows.length) {
    table.replaceChildren(element("caption", empty, "empty"));
    return;
  }
  const head = element("tr");
  for (const [title, , kind] of columns) head.append(element("th", title, kind));
  const body = rows.map((row) => {
    const line = element("tr");
    for (const [, cell, kind] of columns) {
      const value = cell(row), td = element("td", null, kind);
      td.append(value instanceof Node ? value : String(value));
      line.append(td);
    }
    return line;
  });
  table.replaceChildren(head, ...body);
}

function paramsText(params) {
  return Object.entries(params || {}).map(([k, v]) =>
    k + " " + (typeof v === "object" ? JSON.stringify(v) : v)).join(", ");
}

function showArms(route) {
  const rows = ["champion", "challenger"].filter((a) => route[a]).map((a) => ({ arm: a, ...route[a] }));
  const badges = [element("span", "policy " + route.policy, "badge"),
    element("span", "state " + route.state, "badge " + (route.is_paused ? "warn" : "good"))];
  if (route.experiment) badges.push(element("span", "experiment " + route.experiment, "badge challenger"));
  byId("phase").replaceChildren(...badges);
  fillTable("arms", [
    ["arm", (r) => element("span", r.arm, r.arm)], ["revision", (r) => r.revision, "number"],
    ["share", (r) => percent(r.share), "number"], ["scored", (r) => count(r.n), "number"],
    ["unscored", (r) => count(r.unscored), "number"], ["mean", (r) => number(r.mean, 3), "number"],
    ["95%", (r) => number(r.lower, 3) + " to " + number(r.upper, 3)],
    ["parameters", (r) => paramsText(r.params), "text"],
  ], rows, "no revision yet");
}

function toThreshold(test) {
  const bar = element("progress");
  bar.max = 1;
  bar.value = Math.max(0, Math.min(1, (test.log_e || 0) / test.log_threshold));
  return bar;
}

function showTests(route) {
  fillTable("tests", [
    ["test", (t) => t.test], ["e-value", (t) => evalue(t.log_e), "number"],
    ["needed", (t) => evalue(t.log_threshold), "number"], ["", toThreshold],
  ], route.tests, "no trial is running");
  fillTable("drift", [
    ["stratum", (d) => d.stratum || "all"], ["m0", (d) => (d.is_frozen ? number(d.m0, 3) : "calibrating")],
    ["statistic", (d) => evalue(d.log_statistic), "number"],
    ["alarm at", (d) => evalue(d.log_threshold), "number"],
    ["", (d) => element("span", d.is_alarmed ? "alarm" : "", "bad")],
  ], route.drift, "no scored output yet");
}

const ACTION_CLASS = { rollback: "bad", quarantine: "bad", alert: "warn", reject: "warn", hold: "warn",
  promote: "good" };

function showDecisions(list) {
  fillTable("decisions", [
    ["#", (d) => d.number, "number"], ["time", (d) => time(d.at_us)],
    ["action", (d) => element("span", d.action, ACTION_CLASS[d.action])],
    ["revision", (d) => d.from_revision + " → " + d.to_revision], ["by", (d) => d.actor],
    ["e-value", (d) => evalue(d.log_e), "number"], ["needed", (d) => evalue(d.log_threshold), "number"],
    ["rows C / A", (d) => count(d.n_champion) + " / " + count(d.n_challenger), "number"],
    ["effect", (d) => number(d.effect, 3), "number"], ["reason", (d) => d.reason || "", "text"],
  ], list.slice().reverse(), "no decision yet");
}

function showRevisions(list) {
  const state = (r) => (r.is_champion ? element("span", "champion", "champion")
    : r.is_challenger ? element("span", "on trial", "challenger")
    : r.is_quarantined ? element("span", "quarantined", "bad") : "");
  fillTable("revisions", [
    ["revision", (r) => r.number, "number"], ["parent", (r) => r.parent || "–", "number"], ["", state],
    ["by", (r) => r.author], ["time", (r) => time(r.created_us)],
    ["parameters", (r) => paramsText(r.params), "text"], ["reason", (r) => r.reason || "", "text"],
  ], list.slice().reverse(), "no revision yet");
}

function worstCard(score, isOpen) {
  const card = element("details"), head = element("summary");
  const tone = score.reward == null ? "warn" : score.reward < 0.5 ? "bad" : "";
  card.open = isOpen;
  card.dataset.row = score.row;
  head.append(element("span", score.reward == null ? "unscored" : number(score.reward, 2), tone),
    " " + score.arm + ", revision " + score.revision + ", " + score.finish_reason + ": " +
    (score.text || "").slice(0, 100));
  card.append(head);
  for (const c of score.checks)
    card.append(element("span", c.id + " " + c.outcome + (c.value == null ? "" : " " + number(c.value, 2)) +
      (c.reason ? " (" + c.reason + ")" : ""), "badge " + (c.outcome === "fail" ? "bad" : c.outcome === "pass" ? "good" : "warn")));
  if (score.prompt) card.append(element("pre", "prompt: " + score.prompt));
  card.append(element("pre", score.text || "(empty)"));
  return card;
}

function showWorst(list) {
  const open = new Set([...byId("worst").querySelectorAll("details[open]")].map((d) => d.dataset.row));
  const cards = list.map((s) => worstCard(s, open.has(String(s.row))));
  byId("worst").replaceChildren(...(cards.length ? cards : [element("p", "no score yet", "empty")]));
}

function showEngines(list, desired) {
  const applied = (e) => element("span", e.desired_version + " of " + desired,
    e.desired_version === desired ? "good" : "warn");
  fillTable("engines", [
    ["engine", (e) => e.engine], ["model", (e) => e.model],
    ["seen", (e) => element("span", number(e.age_ms / 1000, 1) + " s ago", e.is_stale ? "bad" : "")],
    ["applied", applied, "number"], ["running", (e) => e.running, "number"],
    ["waiting", (e) => e.waiting, "number"], ["tok/s", (e) => number(e.tokens_per_second, 1), "number"],
    ["KV used", (e) => percent(e.kv_usage), "number"], ["outbox", (e) => count(e.outbox_rows), "number"],
    ["dropped", (e) => element("span", count(e.outbox_dropped), e.outbox_dropped ? "bad" : ""), "number"],
  ], list, "no engine has reported yet");
}

function showRoutes(routes) {
  const select = byId("route"), names = routes.map((r) => r.route);
  if (!names.includes(chosen)) chosen = names[0] || "";
  if ([...select.options].map((o) => o.value).join() !== names.join())
    select.replaceChildren(...names.map((n) => { const o = element("option", n); o.value = n; return o; }));
  select.value = chosen;
}

async function ask(path) {
  const answer = await fetch(path, { cache: "no-store" });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.error ? body.error.message : "HTTP " + answer.status);
  return body;
}

async function refresh() {
  const status = await ask("/api/status");
  showRoutes(status.routes);
  const q = "route=" + encodeURIComponent(chosen);
  const [decisions, revisions, worst, series] = await Promise.all([
    ask("/api/decisions?limit=30&" + q), ask("/api/revisions?limit=20&" + q),
    ask("/api/scores?order=worst&limit=8&" + q), ask("/api/series?" + q)]);
  const route = status.routes.find((r) => r.route === chosen);
  byId("summary").textContent = count(status.outputs) + " outputs, " + count(status.scores) + " scores (" +
    count(status.unscored) + " unscored), " + count(status.decisions) + " decisions";
  if (route) { showArms(route); showTests(route); }
  showDecisions(decisions.decisions);
  showRevisions(revisions.revisions);
  showWorst(worst.scores);
  showEngines(status.engines, status.desired_version);
  drawReward(series.rewards || []);
  drawEvalues(series.evalues || [], route ? route.tests : []);
}

async function poll() {
  try {
    await refresh();
    byId("problem").hidden = true;
  } catch (error) {
    byId("problem").textContent = "The controller does not answer: " + error.message;
    byId("problem").hidden = false;
  }
  setTimeout(poll, POLL_MS);
}

byId("route").addEventListener("change", (event) => { chosen = event.target.value; });
poll();
