/* An operator's hand: each button opens a dialog, each dialog sends one change. */

import { send } from "/ask.js";
import { expectKey, openDialog } from "/dialog.js";
import { button, element, byId, paramText, redraw, time } from "/dom.js";

/* Sends one change and says what became of it. */
function change(path, body, done) {
  return async (reason) => {
    const answer = await send(path, { ...body(), reason, author: "dashboard" });
    return done + " (decision " + answer.decision + ")";
  };
}

function simple(route, name, title, about, done, isDanger) {
  return () => openDialog({ title, about, go: title, isDanger,
    run: change("/api/" + name, () => ({ route: route.route }), done) });
}

function rollback(route, revisions) {
  const select = element("select"), label = element("label", "Back to ", null, select);
  const running = route.challenger ? route.challenger.revision : 0, champion = route.champion.revision;
  const first = element("option", running ? "revision " + champion + ", the champion: ends the trial" : "the champion before this one");
  first.value = "0";
  select.append(first);
  for (const r of revisions.slice().reverse()) {
    if (r.number === running || r.number === champion) continue;
    const option = element("option", "revision " + r.number + " by " + r.author + (r.is_quarantined ? ", quarantined" : ""));
    option.value = String(r.number);
    select.append(option);
  }
  openDialog({ title: "Roll back", go: "Roll back", isDanger: true, body: [label],
    about: running ? "Revision " + running + " ends, is quarantined, and the revision below serves everything again."
      : "An earlier revision serves everything again, at once and without a trial.",
    run: change("/api/rollback", () => ({ route: route.route, to: Number(select.value) }), "Rolled back") });
}

function knobInput(k, value) {
  const input = element("input");
  input.type = "number";
  input.min = k.min;
  input.max = k.max;
  input.step = k.is_integer ? 1 : "any";
  input.value = value == null ? "" : value;
  input.name = k.name;
  return element("label", k.name, null, input, element("small", k.help + " " + k.min + " to " + k.max + "."));
}

function changesOf(form, champion) {
  const changes = {};
  for (const input of form.querySelectorAll("input[type=number]")) {
    if (input.value !== "" && Number(input.value) !== champion[input.name]) changes[input.name] = Number(input.value);
  }
  return changes;
}

function push(route, params) {
  const champion = params.champion.params || {}, now = element("input"), summary = element("p", null, "changes");
  now.type = "checkbox";
  const knobs = element("div", null, "knobs", ...params.knobs.map((k) => knobInput(k, champion[k.name])));
  const tell = () => {
    const names = Object.entries(changesOf(knobs, champion));
    summary.textContent = names.length ? "Changes: " + names.map(([k, v]) => k + " " + paramText(champion[k]) + " → " + v).join(", ")
      : "Nothing is changed yet.";
    byId("dialog-go").disabled = !names.length;
  };
  knobs.addEventListener("input", tell);
  openDialog({ title: "Push a change", go: "Start the trial", body: [knobs,
    element("label", null, "check", now, element("span", "most of the traffic at once; a small share stays on the old revision as the control")), summary],
    about: "A new revision on trial against revision " + params.champion.number + "; it is promoted or rolled back by its rewards. An empty field is not set.",
    run: change("/api/params", () => ({ route: route.route, params: changesOf(knobs, champion), now: now.checked }), "The trial runs") });
  tell();
}

/* The kill switch: a line on every view while it is on, with the way back. */
export function showKillSwitch(k) {
  const box = byId("kill-switch");
  box.hidden = !k.is_on;
  redraw(box, k, () => {
    const off = button("Resume all routes…", () => openDialog({ title: "Resume all routes", go: "Resume all",
      about: "The routes that the kill switch paused go on and may start trials; one that was paused by itself stays paused.",
      run: change("/api/resume", () => ({ all: true }), "All routes go on") }));
    off.dataset.key = "resume-all";
    return [element("span", "All routes are paused since " + time(k.since_us) + " by " + k.actor + (k.reason ? ": " + k.reason : "") + ". "), off];
  });
}

function pauseAll() {
  openDialog({ title: "Pause all routes", go: "Pause all", isDanger: true,
    about: "The kill switch: on every route a running trial or experiment ends, everyone gets the champion, nothing is decided, also after a restart, until you resume all.",
    run: change("/api/pause", () => ({ all: true }), "All routes are paused") });
}

export function showSteering(route, params, revisions, isKilled) {
  expectKey(!!params.needs_key);
  const shown = [route.route, route.is_paused, route.champion?.revision, route.challenger?.revision, params, revisions, isKilled];
  redraw(byId("steer"), shown, () => {
    const key = (node, name) => { node.dataset.key = name; return node; };
    const list = [];
    if (route.champion && !isKilled) list.push(key(button("Push a change…", () => push(route, params), "primary"), "push"));
    if (route.challenger)
      list.push(key(button("Promote…", simple(route, "promote", "Promote", "Revision " + route.challenger.revision +
        " serves everything from now on, without waiting for its test.", "Promoted")), "promote"),
      key(button("Stop trial…", simple(route, "stop", "Stop the trial", "The champion, revision " + route.champion.revision +
        ", serves everything; the revision on trial may be tried again.", "Trial ended")), "stop"));
    if (route.champion) list.push(key(button("Roll back…", () => rollback(route, revisions), "danger"), "rollback"));
    if (isKilled) return list;
    list.push(route.is_paused
      ? key(button("Resume…", simple(route, "resume", "Resume", "The route's law goes on and may start trials.", "Goes on")), "pause")
      : key(button("Pause…", simple(route, "pause", "Pause", "A running trial ends, everyone gets the champion, nothing is decided until you resume.", "Paused")), "pause"));
    list.push(key(button("Kill switch…", pauseAll, "danger"), "pause-all"));
    return list;
  });
}

const ENGINE_COMMANDS = [
  ["drain", "Drain", "takes no new requests; those in flight go on"],
  ["resume", "Resume", "takes requests again"],
  ["flush_cache", "Flush cache", "forgets prefixes that no request holds"],
];

export function engineButtons(engine) {
  const box = element("span", null, "buttons");
  for (const [command, title, about] of ENGINE_COMMANDS) {
    const b = button(title + "…", () => openDialog({ title: title + " " + engine.engine, go: title, hasNoReason: true,
      about: "The engine " + about + ".", isDanger: command === "drain",
      run: async () => engine.engine + ": " + (await send("/api/engine", { engine: engine.engine, command })).message }));
    b.dataset.key = command + " " + engine.engine;
    box.append(b);
  }
  return box;
}
