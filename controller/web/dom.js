/* Building blocks of the page. Every text from outside goes through textContent; nothing here or
 * elsewhere parses markup. What did not change is not drawn again, so that focus and selection stay. */

export const byId = (id) => document.getElementById(id);

/* element("td", "text" or null, "class", child nodes or texts...) */
export function element(tag, text, className, ...children) {
  const node = document.createElement(tag);
  if (text != null) node.textContent = text;
  if (className) node.className = className;
  node.append(...children);
  return node;
}

export function button(label, onPress, className) {
  const node = element("button", label, className);
  node.type = "button";
  node.addEventListener("click", onPress);
  return node;
}

export const number = (v, digits) => (v == null ? "–" : Number(v).toFixed(digits));
export const count = (v) => (v == null ? "–" : Number(v).toLocaleString("en"));
export const percent = (v) => (v == null ? "–" : Number((100 * v).toFixed(v < 0.1 ? 1 : 0)) + "%");
export const evalue = (ln) => (ln == null ? "–" : ln > 14 ? "e^" + ln.toFixed(1)
  : ln < -9 ? "0.0001 or less" : Number(Math.exp(ln).toPrecision(3)).toString());
export const signed = (v, digits) => (v == null ? "–" : (v > 0 ? "+" : "") + Number(v).toFixed(digits));
export const plural = (n, noun) => count(n) + " " + noun + (n === 1 ? "" : "s");

export function milliseconds(v) {
  return v == null ? "–" : v < 10 ? v.toFixed(1) + " ms" : v < 10000 ? Math.round(v) + " ms"
    : (v / 1000).toFixed(1) + " s";
}

/* The time of today, else the date too. */
export function time(us) {
  const at = new Date(us / 1000);
  const isToday = at.toDateString() === new Date().toDateString();
  return isToday ? at.toLocaleTimeString() : at.toLocaleString();
}

export function ago(ms) {
  if (ms < 2000) return "now";
  const seconds = Math.round(ms / 1000);
  return seconds < 120 ? seconds + " s ago" : seconds < 7200 ? Math.round(seconds / 60) + " min ago"
    : Math.round(seconds / 3600) + " h ago";
}

export function paramText(v) {
  return v == null ? "not set" : typeof v === "object" ? JSON.stringify(v) : String(v);
}

export function paramsText(params) {
  return Object.entries(params || {}).map(([k, v]) => k + " " + paramText(v)).join(", ") || "none set";
}

const drawn = new WeakMap();

/* Calls build() only when data is another than last time; open <details> and the focus, found
 * again by data-key, survive it. build returns the new children. */
export function redraw(node, data, build) {
  const text = JSON.stringify(data);
  if (drawn.get(node) === text) return;
  drawn.set(node, text);
  const open = new Set([...node.querySelectorAll("details[open]")].map((d) => d.dataset.key));
  const known = new Set([...node.querySelectorAll("details")].map((d) => d.dataset.key));
  const focused = node.contains(document.activeElement)
    ? document.activeElement.closest("[data-key]")?.dataset.key : null;
  node.replaceChildren(...[build()].flat());
  for (const d of node.querySelectorAll("details")) if (known.has(d.dataset.key)) d.open = open.has(d.dataset.key);
  if (focused == null) return;
  const again = [...node.querySelectorAll("[data-key]")].find((n) => n.dataset.key === focused);
  if (again) (again.querySelector("summary") || again).focus();
}

/* Table rows. columns: [title, cell(row) -> text or node, class]; on a narrow screen each row is a
 * card and the title stands beside its cell. */
export function rows(columns, list, empty) {
  if (!list.length) return [element("caption", empty, "empty")];
  const head = element("tr");
  for (const [title, , kind] of columns) {
    const cell = element("th", title, kind);
    cell.scope = "col";
    head.append(cell);
  }
  const body = list.map((row) => {
    const line = element("tr");
    for (const [title, cell, kind] of columns) {
      const value = cell(row), td = element("td", null, kind);
      td.dataset.label = title;
      td.append(value instanceof Node ? value : String(value));
      line.append(td);
    }
    return line;
  });
  return [element("thead", null, null, head), element("tbody", null, null, ...body)];
}

export function table(id, columns, list, empty) {
  redraw(byId(id), list, () => rows(columns, list, empty));
}

/* Pairs of name and value. */
export function facts(pairs) {
  return element("dl", null, "facts", ...pairs.flatMap(([name, value]) => {
    const box = element("div", null, null, element("dt", name));
    const dd = element("dd");
    dd.append(value instanceof Node ? value : String(value));
    box.append(dd);
    return [box];
  }));
}
