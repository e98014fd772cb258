// How each deployment is doing, and, for who may, a word on it: disable, enable, or forget its faults.

import { announce, badge, button, confirmed, el, heading, table } from "../dom.js";
import { change, may, read } from "../api.js";
import { Chart, follow } from "../charts.js";
import { number, perSecond } from "../words.js";
import { again, doing } from "./paged.js";

const MOODS = { well: "good", lowered: "warn", half_open: "warn", cooling: "bad", open: "bad", disabled: "calm" };
const DONE = { disable: "disabled", enable: "enabled", reset: "reset" };
const AGAIN_MS = 5000;

export const upstreams = {
  title: "Upstreams",
  async show(place, { history }) {
    const charts = [new Chart("Calls, by outcome", { read: (point) => point.rates.attempts, format: perSecond, colours: { ok: "--good" } }),
      new Chart("Calls, by provider", { read: (point) => point.rates.providers, format: perSecond }),
      new Chart("Slots in use, by provider", { read: (point) => point.sums("upstream_inflight", 0), format: number })];
    const shown = el("div");
    const load = async () => { shown.replaceChildren(draw(await read("upstreams"), load)); };
    place.append(heading("Upstreams", "Every deployment of the configuration, for all gateways on the store."), el("div", { class: "tools" }, again(load)), shown,
      el("div", { class: "charts" }, charts.map(({ root }) => root)));
    const end = follow(history, charts);
    try {
      await load();
    } catch (error) {
      end();
      throw error;
    }
    // A button that has the focus stays where it is.
    const timer = setInterval(() => shown.contains(document.activeElement) || load().catch((error) => announce(error.message, "bad")), AGAIN_MS);
    return () => {
      clearInterval(timer);
      end();
    };
  },
};

function draw(rows, load) {
  const columns = [
    ["Deployment", (row) => el("code", {}, row.deployment)],
    ["State", (row) => badge(row.state.replace("_", " "), MOODS[row.state])],
    ["Slots", (row) => (row.slots === null ? "no ceiling" : `${row.slots} of ${row.slots_declared ?? row.slots}`), "number"],
    ["Breaker", (row) => row.breaker.replace("_", " ")],
    ["Faults in a row", (row) => number(row.failures), "number"],
    ["Left alone until", (row) => until(row)],
  ];
  if (rows.some((row) => row.credentials.length > 1)) columns.push(["Credentials", (row) => row.credentials.map(told).join(", ")]);
  if (may("admin")) columns.push(["", (row) => actions(row, load)]);
  return table("Deployments", columns, rows, "The configuration has no deployment.");
}

function told({ name, state, until }) {
  return until === null ? `${name} ${state}` : `${name} ${state} until ${new Date(until).toLocaleTimeString("sv-SE")}`;
}

function until(row) {
  const instant = row.cooling_until ?? row.breaker_open_until;
  return instant && new Date(instant).toLocaleTimeString("sv-SE");
}

function actions(row, load) {
  const say = (action) => doing(async () => {
    if (action === "disable" && !(await confirmed("Disable deployment", `No gateway will ask ${row.deployment} until it is enabled again.`, "Disable"))) return;
    await change("upstreams", { action, deployments: [row.deployment] });
    announce(`${row.deployment} is ${DONE[action]}.`);
    await load();
  });
  const of = (word) => ({ "aria-label": `${word} ${row.deployment}` });
  return el("span", { class: "actions" }, row.disabled ? button("Enable", say("enable"), of("Enable")) : button("Disable", say("disable"), of("Disable")),
    button("Reset", say("reset"), { ...of("Reset"), title: "Forget its faults, cooldown and lowered slots" }));
}
