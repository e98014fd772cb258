// What each tier gets: who asked for it, who was granted it, who waits for it, and who was moved below it.

import { el, heading, table } from "../dom.js";
import { Chart, follow } from "../charts.js";
import { number, perSecond, seconds } from "../words.js";
import { pair } from "./overview.js";

export const tiers = {
  title: "Tiers",
  show(place, { history }) {
    const charts = [
      new Chart("Requests that ended, by tier", { read: (point) => point.rates.tiers, format: perSecond }),
      new Chart("Granted an upstream, by tier", { read: (point) => point.rates.granted, format: perSecond }),
      new Chart("Waiting for a busy model, by tier", { read: (point) => point.sums("queued", 0), format: number }),
      new Chart("Time in the queue of those that waited", { read: (point) => pair(point, "queue_wait_s"), format: seconds, absent: null }),
      new Chart("Served below the tier they named, by the tier that served", { read: (point) => point.rates.downgraded, format: perSecond }),
      new Chart("Without room in a limit, by dimension", { read: (point) => point.rates.dimensions, format: perSecond }),
    ];
    const now = el("div");
    place.append(heading("Tiers and queue"), now, el("div", { class: "charts" }, charts.map(({ root }) => root)));
    return follow(history, charts, (point) => now.replaceChildren(standing(point)));
  },
};

function standing(point) {
  const names = new Set(["inflight", "queued", "requests"].flatMap((series) => [...point.sums(series, 0)].filter(([, value]) => value).map(([name]) => name)));
  const one = (found, tier, word) => word(found?.get(tier) ?? 0);
  return table("Tiers now", [
    ["Tier", (tier) => tier],
    ["Ended", (tier) => one(point.rates.tiers, tier, perSecond), "number"],
    ["Granted", (tier) => one(point.rates.granted, tier, perSecond), "number"],
    ["In flight", (tier) => one(point.sums("inflight", 0), tier, number), "number"],
    ["Waiting", (tier) => one(point.sums("queued", 0), tier, number), "number"],
    ["Ended since the start", (tier) => one(point.sums("requests", 0), tier, number), "number"],
  ], [...names].sort(), "No request has come yet.");
}
