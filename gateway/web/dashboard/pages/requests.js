// The requests of the last hour, and of one of them all that was decided about it.

import { badge, button, el, heading, table } from "../dom.js";
import { read } from "../api.js";
import { clock, compact, known, moment, ms, usd } from "../words.js";
import { again, paged } from "./paged.js";

const mood = (trace) => ({ ok: "good", cancelled: "calm" }[trace.outcome] ?? (trace.status === 429 ? "warn" : "bad"));
const asked = (trace) => trace.models_requested.filter(Boolean).join(", ");

export const requests = {
  title: "Requests",
  async show(place, { rest: [id] }) {
    if (id) await trail(place, id);
    else await list(place);
  },
};

async function list(place) {
  const page = paged((before) => read("requests", { limit: 100, before }), draw);
  const input = el("input", { name: "id", placeholder: "x-request-id", "aria-label": "Request id", size: "38", spellcheck: "false" });
  const form = el("form", { class: "tools" }, input, el("button", {}, "Find"), again(page.load));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (input.value.trim()) location.hash = `#/requests/${encodeURIComponent(input.value.trim())}`;
  });
  place.append(heading("Requests", "Of the last hour, at any gateway of the store, refused ones included; the newest first."), form, page.root);
  await page.load();
}

function draw(rows) {
  return table("Requests", [
    ["Began", (trace) => el("a", { href: `#/requests/${trace.request_id}`, "aria-label": `Request ${trace.request_id}` }, clock(trace.started_unix_ms))],
    ["Outcome", (trace) => badge(trace.error_code ? `${trace.status} ${trace.error_code}` : trace.outcome, mood(trace))],
    ["Key", (trace) => trace.key],
    ["Asked for", asked],
    ["Served by", (trace) => trace.deployment],
    ["Tier", (trace) => tier(trace)],
    ["Tried", (trace) => String(trace.attempts.length), "number"],
    ["Queue", (trace) => ms(trace.queued_ms), "number"],
    ["First content", (trace) => ms(trace.ttft_ms), "number"],
    ["Whole", (trace) => ms(trace.duration_ms), "number"],
    ["Tokens", (trace) => `${compact(trace.input_tokens)} / ${compact(trace.output_tokens)}`, "number"],
  ], rows, "No request has ended within the last hour.");
}

const tier = ({ tier_requested: named, tier_served: served }) => (named && served && named !== served ? `${named} → ${served}` : (served ?? named));

async function trail(place, id) {
  place.append(el("p", {}, el("a", { href: "#/requests" }, "← All requests")), heading(`Request ${id}`));
  const trace = await read(`requests/${encodeURIComponent(id)}`);
  const facts = {
    Outcome: badge(trace.error_code ? `${trace.status} ${trace.error_code}` : trace.outcome, mood(trace)),
    Began: moment(trace.started_unix_ms), Route: `${trace.route}${trace.stream ? ", streamed" : ""}`,
    "Client's id": trace.client_request_id, Key: trace.key && `${trace.key} (${trace.key_id})`,
    Org: [trace.org, trace.project].filter(Boolean).join(" · "), "Asked for": asked(trace), "Served by": trace.deployment, Tier: tier(trace),
    Queue: ms(trace.queued_ms), "First content": ms(trace.ttft_ms), Whole: ms(trace.duration_ms),
    Tokens: `${trace.input_tokens} in (${trace.cached_tokens} cached), ${trace.output_tokens} out (${trace.reasoning_tokens} reasoning)${trace.estimated ? ", estimated" : ""}`,
    Cost: known(trace.cost_nano_usd) ? usd(trace.cost_nano_usd / 1e9) : null, Retry: trace.retry_refused ? "no retry was left in the budget of retries" : null,
    Limited: trace.limited && JSON.stringify(trace.limited),
  };
  place.append(el("dl", { class: "facts card" }, Object.entries(facts).filter(([, value]) => value).map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
    el("h2", {}, "What was tried"), attempts(trace.attempts));
  const whole = el("pre", { tabindex: "0", hidden: true }, JSON.stringify(trace, null, 2));
  place.append(button("Show all of it", (event) => {
    whole.hidden = !whole.hidden;
    event.currentTarget.textContent = whole.hidden ? "Show all of it" : "Hide it";
  }), whole);
}

// Columns are whatever an attempt tells.
function attempts(found) {
  const names = [...new Set(found.flatMap((attempt) => Object.keys(attempt).filter((name) => known(attempt[name]) && attempt[name] !== "")))];
  const word = (value) => (typeof value === "object" ? JSON.stringify(value) : String(value));
  const number = new Map([["", (attempt) => String(found.indexOf(attempt) + 1)]]);
  const columns = [...number, ...names.map((name) => [name.replaceAll("_", " "), (attempt) => (known(attempt[name]) ? word(attempt[name]) : null)])];
  return table("Attempts", columns, found, "No deployment was tried.");
}
