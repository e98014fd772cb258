// The admin API of the port that this page came from: the token goes with each request, and is kept in this tab alone.

const KEPT_AS = "tiergate-token";
const ROLES = ["viewer", "operator", "admin"];

export const session = { caller: null, lost: () => {} };

export class Problem extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export const may = (role) => session.caller !== null && ROLES.indexOf(session.caller.role) >= ROLES.indexOf(role);

function headers(changes) {
  const token = sessionStorage.getItem(KEPT_AS);
  return { ...(token && { authorization: `Bearer ${token}` }), ...(changes && { "content-type": "application/json" }) };
}

async function problem(response) {
  const told = await response.json().catch(() => ({}));
  const details = (told.detail ?? []).map((each) => `${(each.loc ?? []).join(".")}: ${each.msg}`).join("; ");
  return new Problem(response.status, told.error?.code ?? "", details || told.error?.message || `Status ${response.status}`);
}

async function answered(path, options = {}) {
  let response;
  try {
    response = await fetch(new URL(`admin/${path}`, document.baseURI), { ...options, cache: "no-store", credentials: "same-origin" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "unreachable", "The gateway cannot be reached.");
  }
  if (response.ok) return response;
  const found = await problem(response);
  if (response.status === 401 && session.caller) session.lost();
  throw found;
}

export async function read(path, parameters = {}) {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const query = given.length ? `?${new URLSearchParams(given)}` : "";
  return (await answered(path + query, { headers: headers(false) })).json();
}

export async function change(path, body, method = "POST") {
  const content = body === undefined ? {} : { body: JSON.stringify(body) };
  return (await answered(path, { method, headers: headers(true), ...content })).json();
}

// A token that is not written as one cannot be sent: it is none.
export async function enter(token) {
  if (token !== undefined) {
    if (!/^[\x21-\x7e]+$/.test(token)) throw new Problem(401, "", "This is no token: it has characters that a token cannot have.");
    sessionStorage.setItem(KEPT_AS, token);
  }
  try {
    session.caller = await read("caller");
  } catch (error) {
    if (error.status === 401) sessionStorage.removeItem(KEPT_AS);
    throw error;
  }
}

export function leave() {
  sessionStorage.removeItem(KEPT_AS);
  session.caller = null;
}

export const hasToken = () => sessionStorage.getItem(KEPT_AS) !== null;

// EventSource can send no header, hence fetch. Ends with an exception or with the stream.
export async function stream(signal, take) {
  const response = await answered("live", { headers: headers(false), signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (rest + value.replaceAll("\r", "")).split("\n\n");
    rest = events.pop();
    for (const event of events) {
      const data = event.split("\n").filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trim()).join("\n");
      if (data) take(JSON.parse(data));
    }
  }
}
