// The frame: who is here, which page is open, and whether the figures still come.

import { button, el, field, heading, say } from "./dom.js";
import { enter, hasToken, leave, session } from "./api.js";
import { History } from "./history.js";
import { overview } from "./pages/overview.js";
import { tiers } from "./pages/tiers.js";
import { budgets } from "./pages/budgets.js";
import { upstreams } from "./pages/upstreams.js";
import { requests } from "./pages/requests.js";
import { keys } from "./pages/keys.js";
import { usage } from "./pages/usage.js";
import { configuration } from "./pages/configuration.js";

const PAGES = { overview, tiers, budgets, upstreams, requests, keys, usage, configuration };

const content = document.getElementById("content");
const nav = document.getElementById("pages");
const who = document.getElementById("who");
let history = null;
let close = () => {};

function route() {
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  return PAGES[name] ? [name, rest.map(decodeURIComponent)] : ["overview", []];
}

async function show() {
  if (!session.caller) return;
  const [name, rest] = route();
  close();
  close = () => {};
  for (const link of nav.children) {
    if (link.dataset.page === name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${PAGES[name].title} · Tiergate`;
  const place = el("div", { class: "page" });
  content.replaceChildren(place);
  try {
    let open = true;
    close = () => { open = false; };
    const end = await PAGES[name].show(place, { history, rest });
    if (open) close = () => end?.();
    else end?.();
  } catch (error) {
    place.append(failure(error));
  }
}

export function failure(error) {
  return el("div", { class: "failure", role: "alert" }, el("p", {}, error.message), button("Try again", show));
}

function frame() {
  nav.replaceChildren(...Object.entries(PAGES).map(([name, { title }]) => el("a", { href: `#/${name}`, "data-page": name }, title)));
  const dot = el("span", { class: "dot" });
  const state = el("span", { class: "state", role: "status" }, "Connecting");
  who.replaceChildren(el("span", { class: "live" }, dot, state),
    el("span", { class: "caller", title: "Whose token it is, and its role" }, session.caller.name, " · ", el("b", {}, session.caller.role)),
    hasToken() ? button("Log out", logOut, { class: "quiet" }) : "");
  history = new History();
  history.listen(({ state: now }) => {
    dot.className = `dot ${now}`;
    say(state, now === "live" ? "Live" : "No figures: trying again");
  });
  history.run();
}

function end() {
  close();
  close = () => {};
  history?.stop();
  history = null;
  leave();
  nav.replaceChildren();
  who.replaceChildren();
}

function logOut() {
  end();
  logIn();
}

session.lost = () => {
  end();
  logIn("The token is not accepted any more.");
};

function logIn(text = "") {
  document.title = "Log in · Tiergate";
  const input = el("input", { type: "password", name: "token", autocomplete: "current-password", required: true, spellcheck: "false" });
  const told = el("p", { class: "bad", role: "alert" }, text);
  const form = el("form", { class: "login card" }, heading("Log in"),
    el("p", {}, "With one of the gateway's admin tokens. It is kept in this tab alone, until it is closed."),
    field("Token", input), told, el("div", { class: "actions" }, el("button", { class: "main" }, "Log in")));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    say(told, "");
    try {
      await enter(input.value.trim());
      begin();
    } catch (error) {
      say(told, error.status === 401 ? "The gateway knows no such token." : error.message);
      input.select();
    }
  });
  content.replaceChildren(form);
  input.focus();
}

function begin() {
  frame();
  show();
}

async function start() {
  try {
    await enter();
    begin();
  } catch (error) {
    if (error.status === 401) logIn();
    else content.replaceChildren(el("div", { class: "failure", role: "alert" }, el("p", {}, error.message), button("Try again", start)));
  }
}

window.addEventListener("hashchange", show);
// The address names the page that is open, so that it cannot name a place on it too.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  content.focus();
});
start();
