// Keys: all of them are shown, and those of the database are made, rotated, blocked and revoked by who may.

import { announce, badge, button, confirmed, dialog, el, field, heading, table } from "../dom.js";
import { change, may, read } from "../api.js";
import { moment } from "../words.js";
import { again, doing, paged } from "./paged.js";

const MOODS = { active: "good", blocked: "warn", expired: "calm", revoked: "bad", damaged: "bad" };
const DAY_MS = 86_400_000;
const path = (key, act) => `keys/${encodeURIComponent(key.id)}/${act}`;

export const keys = {
  title: "Keys",
  async show(place) {
    const state = el("select", { name: "state" }, ["", "active", "blocked", "expired", "revoked"].map((word) => el("option", { value: word }, word || "all states")));
    const org = el("input", { name: "org", placeholder: "every org", size: "14" });
    const page = paged((after) => read("keys", { limit: 100, after, state: state.value, org: org.value.trim() }), (rows) => draw(rows, page.load));
    const reload = doing(page.load);
    state.addEventListener("change", reload);
    org.addEventListener("change", reload);
    place.append(heading("Keys", "Those that the configuration file declares are changed there."),
      el("div", { class: "tools" }, field("State", state), field("Org", org), again(page.load),
        may("operator") && button("New key", () => create(page.load), { class: "main" })), page.root);
    await page.load();
  },
};

function draw(rows, load) {
  const columns = [
    ["Name", (key) => el("span", {}, key.name, el("small", {}, key.id === key.name ? "" : key.id))],
    ["Org", (key) => key.org],
    ["Plan", (key) => key.plan],
    ["State", (key) => badge(key.state, MOODS[key.state])],
    ["From", (key) => (key.source === "file" ? "file" : "database")],
    ["Ends", (key) => key.expires_unix_ms && moment(key.expires_unix_ms)],
    ["Used last", (key) => key.last_used_unix_ms && moment(key.last_used_unix_ms)],
  ];
  if (may("operator")) columns.push(["", (key) => actions(key, load)]);
  return table("Keys", columns, rows, "There is no such key.");
}

function actions(key, load) {
  if (key.source === "file" || key.state === "revoked") return "";
  const named = (word) => ({ "aria-label": `${word} ${key.name}` });
  const simple = (act, done) => doing(async () => {
    told(await change(path(key, act)), done);
    await load();
  });
  const block = key.state === "blocked" ? button("Unblock", simple("unblock", "unblocked"), named("Unblock")) : button("Block", simple("block", "blocked"), named("Block"));
  return el("span", { class: "actions" }, button("Rotate", () => rotate(key, load), named("Rotate")), block,
    button("Revoke", doing(async () => {
      if (!(await confirmed("Revoke key", `Nothing more begins with ${key.name}, for ever. What is under way goes on.`, "Revoke"))) return;
      told(await change(path(key, "revoke")), "revoked");
      await load();
    }), { ...named("Revoke"), class: "danger" }));
}

function told(key, done) {
  announce(`${key.name} is ${done}.${key.told ? "" : " Gateways learn of it within 30 s."}`);
}

// A form in a dialog that stays open, with what was wrong, until it is sent or closed.
function asking(title, word, fields, send) {
  const wrong = el("p", { class: "bad", role: "alert" });
  const form = el("form", { class: "fields" }, ...fields, wrong, el("div", { class: "actions" },
    button("Cancel", () => shown.close()), el("button", { class: "main" }, word)));
  const shown = dialog(title, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const pressed = form.querySelector("button.main");
    pressed.disabled = true;
    wrong.textContent = "";
    try {
      const done = await send(new FormData(form));
      shown.close();
      await done?.();
    } catch (error) {
      wrong.textContent = error.message;
    } finally {
      pressed.disabled = false;
    }
  });
}

function create(load) {
  asking("New key", "Make the key", [
    field("Name", el("input", { name: "name", required: true, autocomplete: "off" })),
    field("Org", el("input", { name: "org", value: "default", required: true, autocomplete: "off" })),
    field("Plan", el("input", { name: "plan", autocomplete: "off" }), "Empty: that of its org."),
    field("Ends in days", el("input", { name: "days", type: "number", min: "1", max: "36500" }), "Empty: never."),
    field("Definition", el("textarea", { name: "definition", rows: "3", spellcheck: "false", placeholder: '{"limits": {"rpm": 60}}' }), "JSON, as the configuration file would say it. Empty: nothing besides."),
  ], async (form) => {
    const made = await change("keys", {
      name: form.get("name").trim(), org: form.get("org").trim(), plan: form.get("plan").trim() || null,
      definition: parsed(form.get("definition")), expires_unix_ms: form.get("days") ? Date.now() + Number(form.get("days")) * DAY_MS : null,
    });
    return () => shownOnce(made, load);
  });
}

function parsed(text) {
  try {
    return text.trim() ? JSON.parse(text) : {};
  } catch (error) {
    throw new Error(`The definition is no JSON: ${error.message}`);
  }
}

function rotate(key, load) {
  asking(`Rotate ${key.name}`, "Make a new secret", [
    field("The secret before is good for hours more", el("input", { name: "hours", type: "number", min: "0", max: "8784", value: "24", required: true })),
  ], async (form) => {
    const made = await change(path(key, "rotate"), { overlap_ms: Math.round(Number(form.get("hours")) * 3_600_000) });
    return () => shownOnce(made, load);
  });
}

async function shownOnce(made, load) {
  const secret = el("code", { class: "secret", tabindex: "0" }, made.key);
  const copy = button("Copy", async () => {
    getSelection().selectAllChildren(secret);
    try {
      await navigator.clipboard.writeText(made.key);
      copy.textContent = "Copied";
    } catch {
      copy.textContent = "Selected: press Ctrl+C"; // no clipboard without https, or it is not allowed
    }
  }, { class: "main" });
  const shown = dialog("The key's secret", el("p", {}, `This is the secret of ${made.name}. It is shown this once, and kept nowhere.`), secret,
    el("div", { class: "actions" }, copy, button("Done", () => shown.close())));
  shown.addEventListener("cancel", (event) => event.preventDefault()); // not by a slip of Escape
  shown.addEventListener("close", () => secret.replaceChildren());
  await load();
}
