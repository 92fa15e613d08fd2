/* The one dialog: says what will happen, takes a reason and, when the controller has one, the admin
 * key; nothing is sent before it is confirmed, and a refusal is shown in it. */

import { hasKey, setKey } from "/ask.js";
import { byId } from "/dom.js";

let needsKey = false, confirmed = null;

export function expectKey(isNeeded) {
  needsKey = needsKey || isNeeded;
}

function showKeyField(isWrong) {
  byId("dialog-key-label").hidden = !needsKey || (hasKey() && !isWrong);
}

/* o: {title, about, body: nodes, go: label, isDanger, run() -> text for the news line} */
export function openDialog(o) {
  byId("dialog-title").textContent = o.title;
  byId("dialog-about").textContent = o.about;
  byId("dialog-body").replaceChildren(...(o.body || []));
  byId("dialog-go").textContent = o.go;
  byId("dialog-go").className = o.isDanger ? "primary danger" : "primary";
  byId("dialog-go").disabled = false;
  byId("dialog-error").hidden = true;
  byId("dialog-reason").value = "";
  byId("dialog-reason-label").hidden = !!o.hasNoReason;
  showKeyField(false);
  confirmed = o.run;
  byId("dialog").showModal();
}

function refuse(error) {
  if (error.status === 401) {
    needsKey = true;
    setKey("");
    byId("dialog-key").value = "";
    showKeyField(true);
    byId("dialog-key").focus();
  }
  byId("dialog-error").textContent = error.message;
  byId("dialog-error").hidden = false;
}

async function confirm(event, afterwards) {
  event.preventDefault();
  const go = byId("dialog-go");
  if (go.disabled) return;
  if (byId("dialog-key").value) setKey(byId("dialog-key").value);
  go.disabled = true;
  byId("dialog-error").hidden = true;
  try {
    const news = await confirmed(byId("dialog-reason").value.trim());
    byId("dialog-key").value = "";
    byId("dialog").close();
    byId("news").textContent = news;
    afterwards();
  } catch (error) {
    refuse(error);
  } finally {
    go.disabled = false;
  }
}

export function startDialog(afterwards) {
  byId("dialog-form").addEventListener("submit", (event) => confirm(event, afterwards));
  byId("dialog-cancel").addEventListener("click", () => byId("dialog").close());
}
