/* The engines: alive or not, and which revision each of them serves. */

import { ago, count, element, number, percent, table } from "/dom.js";
import { engineButtons } from "/steer.js";

/* An engine that applied the newest desired state serves the route's arms; another serves older ones. */
function serves(engine, desired, route) {
  if (engine.desired_version !== desired)
    return element("span", "version " + engine.desired_version + ", wanted " + desired, "chip warn");
  const arms = ["champion", "challenger"].filter((a) => route && route[a]).map((a) => route[a].revision);
  return element("span", "revision " + (arms.join(" and ") || "–") + " (version " + desired + ")", "good");
}

export function showEngines(list, desired, route) {
  const seen = list.map((e) => ({ ...e, age_ms: e.is_stale ? Math.round(e.age_ms / 5000) * 5000 : 0 }));
  table("engines", [
    ["engine", (e) => e.engine], ["model", (e) => e.model],
    ["heard", (e) => (e.is_stale ? element("span", ago(e.age_ms), "chip bad") : "now")],
    ["serves", (e) => serves(e, desired, route)], ["running", (e) => count(e.running), "number"],
    ["waiting", (e) => count(e.waiting), "number"], ["tokens/s", (e) => number(e.tokens_per_second, 1), "number"],
    ["KV used", (e) => percent(e.kv_usage), "number"], ["not yet committed", (e) => count(e.outbox_rows), "number"],
    ["dropped", (e) => (e.outbox_dropped ? element("span", count(e.outbox_dropped), "chip bad") : "0"), "number"],
    ["", (e) => engineButtons(e)],
  ], seen, "No engine has reported yet.");
}
