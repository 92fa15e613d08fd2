/* Decisions and revisions on one line of time, newest first; each opens to its numbers and to what
 * it changed in the parameters. */

import { byId, count, element, evalue, facts, number, paramText, percent, plural, redraw, rows, signed, time } from "/dom.js";

const TONE = { rollback: "bad", quarantine: "bad", alert: "warn", reject: "warn", hold: "warn", promote: "good", canary: "challenger" };

/* [[name, old, new]] of what differs between two sets of parameters. */
export function diff(from, to) {
  const names = [...new Set([...Object.keys(from || {}), ...Object.keys(to || {})])].sort();
  return names.filter((k) => JSON.stringify((from || {})[k]) !== JSON.stringify((to || {})[k]))
    .map((k) => [k, (from || {})[k], (to || {})[k]]);
}

function diffTable(from, to, names) {
  const changes = diff(from, to);
  if (!changes.length) return element("p", "The parameters are the same.", "note");
  return element("table", null, "diff", ...rows([
    ["parameter", (c) => c[0]], [names[0], (c) => element("del", paramText(c[1]))],
    [names[1], (c) => element("ins", paramText(c[2]))]], changes, ""));
}

/* What the law says, and what the person wrote who made it act. */
function reasonOf(d) {
  const said = d.detail && d.detail.event_reason;
  return [d.reason, said && said !== d.reason ? "“" + said + "”" : ""].filter(Boolean).join(" ");
}

function decisionBody(d, known) {
  const pairs = [["decided by", d.actor], ["test", d.test || "none"]];
  if (d.log_e != null) pairs.push(["e-value", evalue(d.log_e)], ["needed", evalue(d.log_threshold)]);
  if (d.n_champion || d.n_challenger)
    pairs.push(["scored, champion", count(d.n_champion)], ["scored, challenger", count(d.n_challenger)],
      ["mean, champion", number(d.mean_champion, 3)], ["mean, challenger", number(d.mean_challenger, 3)],
      ["difference", signed(d.effect, 3) + (d.detail && d.detail.effect_lower != null ? " (95%: " +
        signed(d.detail.effect_lower, 3) + " to " + signed(d.detail.effect_upper, 3) + ")" : "")],
      ["blocks", count(d.n_blocks)]);
  if (d.last_row) pairs.push(["rows", count(d.first_row) + " to " + count(d.last_row)]);
  if (d.detail && d.detail.share != null) pairs.push(["share", percent(d.detail.share)]);
  const from = known.get(d.from_revision), to = known.get(d.to_revision);
  const body = [facts(pairs)];
  if (from && to && d.from_revision !== d.to_revision)
    body.push(diffTable(from.params, to.params, ["revision " + d.from_revision, "revision " + d.to_revision]));
  const chain = element("p", "sealed " + (d.hash || "").slice(0, 16) + "…, after " +
    ((d.previous_hash || "").slice(0, 16) || "nothing"), "note hash");
  body.push(chain);
  return body;
}

function decisionItem(d, known) {
  const item = element("details"), head = element("summary");
  item.dataset.key = "d" + d.number;
  const where = d.from_revision && d.to_revision && d.from_revision !== d.to_revision
    ? "revision " + d.from_revision + " → " + d.to_revision : "revision " + (d.to_revision || d.from_revision);
  head.append(element("time", time(d.at_us)), element("span", d.action, "chip " + (TONE[d.action] || "")),
    element("span", "decision " + d.number + ", " + where + (reasonOf(d) ? ": " + reasonOf(d) : ""), "what"));
  item.append(head, ...decisionBody(d, known));
  return item;
}

function revisionItem(r, known) {
  const item = element("details"), head = element("summary");
  item.dataset.key = "r" + r.number;
  head.append(element("time", time(r.created_us)), element("span", "revision " + r.number, "chip revision"),
    element("span", "by " + r.author + (r.reason ? ": " + r.reason : ""), "what"));
  if (r.is_champion) head.append(element("span", "champion", "chip champion"));
  if (r.is_challenger) head.append(element("span", "on trial", "chip challenger"));
  if (r.is_quarantined) head.append(element("span", "quarantined", "chip bad"));
  const parent = known.get(r.parent);
  item.append(head, r.parent && parent ? diffTable(parent.params, r.params, ["revision " + r.parent, "revision " + r.number])
    : diffTable({}, r.params, ["before", "revision " + r.number]));
  return item;
}

export function showTimeline(node, decisions, revisions, limit) {
  const known = new Map(revisions.map((r) => [r.number, r]));
  const items = [...decisions.map((d) => ({ at: d.at_us, order: 1, make: () => decisionItem(d, known) })),
    ...revisions.map((r) => ({ at: r.created_us, order: 0, make: () => revisionItem(r, known) }))]
    .sort((a, b) => b.at - a.at || b.order - a.order).slice(0, limit);
  redraw(node, [decisions, revisions, limit], () => (items.length ? items.map((i) => i.make())
    : element("p", "Nothing has been decided yet.", "empty")));
}

export function showHistory(decisions, revisions, limit) {
  showTimeline(byId("history"), decisions, revisions, Infinity);
  byId("older").hidden = decisions.length < limit && revisions.length < limit;
  byId("history-count").textContent = plural(decisions.length, "decision") + ", " + plural(revisions.length, "revision");
}
