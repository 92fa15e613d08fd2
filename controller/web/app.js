/* The page's turn: which view, which route, what to ask for; every second and a half while it is
 * looked at. */

import { ask } from "/ask.js";
import { startDialog } from "/dialog.js";
import { byId, count, element, plural } from "/dom.js";
import { showEngines } from "/engines.js";
import { showExperiments } from "/experiments.js";
import { showOutputs } from "/outputs.js";
import { showRoute } from "/route.js";
import { showSpeed } from "/speed.js";
import { showKillSwitch, showSteering } from "/steer.js";
import { showHistory, showTimeline } from "/timeline.js";

const POLL_MS = 1500, VIEWS = ["live", "outputs", "history", "experiments", "engines"];
let chosen = new URLSearchParams(location.search).get("route") || "", view = "live", historyLimit = 50;
let order = "worst", hours = "0", timer = 0, isAsking = false, isAgain = false;

function showRoutes(routes) {
  const select = byId("route"), names = routes.map((r) => r.route);
  if (!names.includes(chosen)) chosen = names[0] || "";
  if ([...select.options].map((o) => o.value).join() !== names.join())
    select.replaceChildren(...names.map((n) => { const o = element("option", n); o.value = n; return o; }));
  select.value = chosen;
  byId("route-label").hidden = names.length < 2;
}

function showSummary(s) {
  byId("summary").textContent = plural(s.outputs, "output") + ", " + count(s.unscored) + " unscored, " +
    plural(s.decisions, "decision");
}

/* What each view asks for beside the status, and what it does with the answers. */
const VIEW_OF = {
  live: async (status, route, q) => {
    const [series, decisions, revisions, params, load] = await Promise.all([ask("/api/series", { ...q, hours }),
      ask("/api/decisions", { ...q, limit: 30 }), ask("/api/revisions", { ...q, limit: 50 }), ask("/api/params", q),
      ask("/api/load", q)]);
    if (!route) return;
    const experiment = route.state === "experiment" ? await ask("/v1/experiments/" + route.experiment) : null;
    showSteering(route, params, revisions.revisions, status.kill_switch.is_on);
    showRoute(route, series, decisions.decisions, revisions.revisions, experiment);
    showSpeed(load, status.engines);
    showTimeline(byId("latest"), decisions.decisions, revisions.revisions, 5);
  },
  outputs: async (status, route, q) => {
    const answer = await ask("/api/scores", { ...q, limit: 30, order });
    showOutputs("outputs-list", order === "worst" ? answer.scores : answer.scores.slice().reverse());
  },
  history: async (status, route, q) => {
    const [decisions, revisions] = await Promise.all([ask("/api/decisions", { ...q, limit: historyLimit }),
      ask("/api/revisions", { ...q, limit: historyLimit })]);
    showHistory(decisions.decisions, revisions.revisions, historyLimit);
  },
  experiments: async (status, route, q) => {
    const [{ experiments }, params] = await Promise.all([ask("/v1/experiments", { ...q, limit: 20 }), ask("/api/params", q)]);
    const list = await Promise.all(experiments.reverse()
      .map(async (e, i) => (i < 5 ? { ...e, ...await ask("/v1/experiments/" + encodeURIComponent(e.id)).catch(() => ({})) } : e)));
    if (route) showExperiments(list, route, params);
  },
  engines: async (status, route) => showEngines(status.engines, status.desired_version, route),
};

async function refresh() {
  const status = await ask("/api/status");
  showRoutes(status.routes);
  showSummary(status);
  showKillSwitch(status.kill_switch);
  await VIEW_OF[view](status, status.routes.find((r) => r.route === chosen), { route: chosen });
}

/* One at a time; a wish in between is answered right after. */
async function turn() {
  clearTimeout(timer);
  if (isAsking) {
    isAgain = true;
    return;
  }
  isAsking = true;
  isAgain = false;
  try {
    await refresh();
    byId("problem").hidden = true;
  } catch (error) {
    byId("problem").textContent = error instanceof TypeError
      ? "The controller does not answer; what you see is old. This page tries again by itself." : error.message;
    byId("problem").hidden = false;
  }
  isAsking = false;
  document.body.setAttribute("aria-busy", "false");
  timer = setTimeout(turn, isAgain ? 0 : document.hidden ? 10 * POLL_MS : POLL_MS);
}

function showView() {
  const wanted = location.hash.slice(1);
  view = VIEWS.includes(wanted) ? wanted : "live";
  for (const name of VIEWS) byId("view-" + name).hidden = name !== view;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.hash === "#" + view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  turn();
}

byId("route").addEventListener("change", (event) => { chosen = event.target.value; turn(); });
for (const choice of document.querySelectorAll("input[name=order]"))
  choice.addEventListener("change", () => { order = choice.value; turn(); });
byId("range").addEventListener("change", (event) => { hours = event.target.value; turn(); });
byId("older").addEventListener("click", () => { historyLimit = Math.min(1000, historyLimit * 4); turn(); });
addEventListener("hashchange", showView);
document.addEventListener("visibilitychange", () => { if (!document.hidden) turn(); });
startDialog(turn);
showView();
