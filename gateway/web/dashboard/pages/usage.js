// The ledger's sums, by what requests have in common.

import { el, field, heading, table } from "../dom.js";
import { read } from "../api.js";
import { compact, known, microUsd, number } from "../words.js";
import { again, doing } from "./paged.js";

const BY = ["org", "key", "project", "model", "provider", "tier", "outcome", "user", "hour", "day", "month"];
const SPANS = { "24h": "24 hours", "7d": "7 days", "30d": "30 days", "": "all time" };

export const usage = {
  title: "Usage",
  async show(place) {
    const options = (words, chosen) => words.map(([value, text]) => el("option", { value, selected: value === chosen }, text));
    const by = el("select", { name: "by" }, options(BY.map((word) => [word, word]), "org"));
    const then = el("select", { name: "then" }, options([["", "nothing more"], ...BY.map((word) => [word, word])], ""));
    const since = el("select", { name: "since" }, options(Object.entries(SPANS), "24h"));
    const shown = el("div");
    const load = async () => {
      const names = [...new Set([by.value, then.value].filter(Boolean))];
      const rows = await read("usage", { by: names.join(","), since: since.value, limit: 1000 });
      shown.replaceChildren(sums(names, rows));
    };
    for (const select of [by, then, since]) select.addEventListener("change", doing(load));
    place.append(heading("Usage", "Of requests that have ended, from the ledger; times are UTC."),
      el("div", { class: "tools" }, field("By", by), field("and by", then), field("Of the last", since), again(load)), shown);
    await load();
  },
};

function sums(names, rows) {
  return table("Usage", [
    ...names.map((name) => [name[0].toUpperCase() + name.slice(1), (row) => row[name] ?? "none"]),
    ["Requests", (row) => number(row.requests), "number"],
    ["Tokens in", (row) => compact(row.input_tokens), "number"],
    ["cached", (row) => compact(row.cached_tokens), "number"],
    ["Tokens out", (row) => compact(row.output_tokens), "number"],
    ["Cost", (row) => cost(row), "number"],
    ["To providers", (row) => microUsd(row.own_cost_micro_usd), "number"],
  ], rows, "No request has ended in this time.");
}

const cost = (row) => (known(row.cost_micro_usd) ? microUsd(row.cost_micro_usd) : "unknown") + (row.estimated ? " *" : "");
