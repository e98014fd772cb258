// The configuration that is in force, what became of the latest file, and what deserves a look.

import { el, heading } from "../dom.js";
import { read } from "../api.js";
import { moment } from "../words.js";
import { again } from "./paged.js";

export const configuration = {
  title: "Configuration",
  async show(place) {
    const shown = el("div");
    const load = async () => { shown.replaceChildren(...told(await read("config"))); };
    place.append(heading("Configuration", "With every default, and without a secret."), el("div", { class: "tools" }, again(load)), shown);
    await load();
  },
};

function list(title, lines, mood) {
  return lines.length ? el("section", { class: `card ${mood}` }, el("h2", {}, title), el("ul", {}, lines.map((line) => el("li", {}, line)))) : "";
}

function told(found) {
  const facts = { Generation: String(found.generation), File: found.path, "In force since": moment(found.since_unix_ms), "Read last": moment(found.read_unix_ms), Hash: found.hash };
  const behind = Object.entries(found.behind).map(([worker, why]) => `${worker}: ${why}`);
  return [
    list("The latest file cannot be used", found.errors, "bad"),
    list("Workers that go by an earlier one", behind, "bad"),
    list("Waits for a restart", found.waiting, "warn"),
    list("Deserves a look", found.findings, "warn"),
    el("dl", { class: "facts card" }, Object.entries(facts).map(([name, value]) => [el("dt", {}, name), el("dd", {}, el("code", {}, value))])),
    ...Object.entries(found.document).map(([name, section]) => el("details", { class: "card" }, el("summary", {}, name), el("pre", { tabindex: "0" }, JSON.stringify(section, null, 2)))),
  ];
}
