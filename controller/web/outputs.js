/* Outputs with what each check said. Their texts are hostile: shown as text, never as markup. */

import { byId, element, number, redraw, time } from "/dom.js";

const START = 110;

function checkChip(c) {
  const value = c.value == null || c.value === 0 || c.value === 1 ? "" : " " + number(c.value, 2);
  const tone = c.outcome === "fail" ? "bad" : c.outcome === "pass" ? "good" : "warn";
  return element("span", c.id + ": " + c.outcome + value + (c.reason ? " (" + c.reason + ")" : ""), "chip " + tone);
}

function card(s) {
  const item = element("details"), head = element("summary"), text = s.text ?? "(the text is no longer kept)";
  const tone = s.reward == null ? "warn" : s.reward < 0.5 ? "bad" : s.reward < 0.999 ? "" : "good";
  item.dataset.key = s.row;
  head.append(element("span", s.reward == null ? "unscored" : number(s.reward, 2), "chip reward " + tone),
    element("span", s.arm + ", revision " + s.revision, s.arm),
    element("span", text.replace(/\s+/g, " ").slice(0, START) + (text.length > START ? "…" : "") || "(empty)", "what"));
  const checks = element("p", null, "checks", ...(s.checks || []).map(checkChip));
  item.append(head, checks);
  if (s.reward == null && s.reason) item.append(element("p", "Not scored: " + s.reason, "note"));
  if (s.prompt) item.append(element("h3", "asked"), element("pre", s.prompt));
  item.append(element("h3", "answered, ended by " + s.finish_reason), element("pre", text || "(empty)"),
    element("p", time(s.created_us) + ", request " + s.request_id + ", engine " + s.engine + ", row " + s.row, "note"));
  return item;
}

export function showOutputs(id, list) {
  redraw(byId(id), list, () => (list.length ? list.map(card) : element("p", "No scored output yet.", "empty")));
}
