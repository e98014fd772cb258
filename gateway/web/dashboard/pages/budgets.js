// What is left of each budget, and which limits had no room of late.

import { badge, el, heading, table } from "../dom.js";
import { read } from "../api.js";
import { Chart, follow } from "../charts.js";
import { microUsd, moment, number, perSecond, percent } from "../words.js";
import { again, paged } from "./paged.js";

export const budgets = {
  title: "Budgets",
  async show(place, { history }) {
    const charts = [new Chart("Without room in a limit, by dimension", { read: (point) => point.rates.dimensions, format: perSecond }),
      new Chart("Spend by hour at the present rate", { read: (point) => scaled(point.rates.cost), format: (usd) => microUsd(usd * 1e6) })];
    const page = paged((after) => read("budgets", { limit: 100, after }), draw);
    place.append(heading("Limits and budgets", "Of orgs, projects and keys, as the store has them."), el("div", { class: "tools" }, again(page.load)),
      page.root, el("div", { class: "charts" }, charts.map(({ root }) => root)));
    const end = follow(history, charts);
    try {
      await page.load();
    } catch (error) {
      end();
      throw error;
    }
    return end;
  },
};

const scaled = (found) => found && new Map([...found].map(([, value]) => ["all orgs", value * 3600]));
const owner = (row) => [row.org, row.project && `project ${row.project}`, row.key_id && `key ${row.key_id}`].filter(Boolean).join(" · ");
const figure = (row, name) => (row.limit_tokens === null ? microUsd(row[`${name}_micro_usd`]) : `${number(row[`${name}_tokens`])} tokens`);

function draw(rows) {
  return table("Budgets", [
    ["Whose", owner],
    ["Period", (row) => row.period],
    ["Spent", (row) => figure(row, "spent"), "number"],
    ["Held", (row) => figure(row, "held"), "number"],
    ["Of", (row) => figure(row, "limit"), "number"],
    ["Share", (row) => meter(row)],
    ["Begins anew", (row) => (row.resets_at ? moment(row.resets_at > 1e11 ? row.resets_at : row.resets_at * 1000) : "never")],
  ], rows, "No budget is set: orgs, projects and keys spend as they like.");
}

function meter(row) {
  const full = row.share >= 1;
  const bar = el("meter", { min: "0", max: "1", low: "0", high: String(Math.min(row.alert, 0.999)), optimum: "0", value: String(Math.min(1, row.share)), "aria-label": "Share spent" });
  return el("span", { class: "share" }, bar, percent(row.share), full ? badge("used up", "bad") : row.share >= row.alert && badge("alert", "warn"));
}
