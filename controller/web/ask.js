/* Calls of the controller's API. The admin key lives in this variable and nowhere else: it is
 * forgotten with the page. */

let adminKey = "";
export const setKey = (key) => { adminKey = key.trim(); };
export const hasKey = () => adminKey !== "";

async function answerOf(response) {
  let body;
  try {
    body = await response.json();
  } catch {
    throw new Error("the answer (HTTP " + response.status + ") is no JSON");
  }
  if (response.ok) return body;
  const error = new Error(body.error ? body.error.message : "HTTP " + response.status);
  error.status = response.status;
  throw error;
}

export async function ask(path, query) {
  const text = new URLSearchParams(query || {}).toString();
  return answerOf(await fetch(path + (text ? "?" + text : ""), { cache: "no-store" }));
}

export async function send(path, body) {
  const headers = { "Content-Type": "application/json" };
  if (adminKey) headers.Authorization = "Bearer " + adminKey;
  return answerOf(await fetch(path, { method: "POST", headers, body: JSON.stringify(body) }));
}
