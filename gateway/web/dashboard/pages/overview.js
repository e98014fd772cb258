// How it goes now: traffic, time to the first content, what is refused, what it costs, and whether the ledger keeps up.

import { el, heading, say } from "../dom.js";
import { Chart, follow, tile } from "../charts.js";
import { bytes, compact, number, perSecond, percent, seconds, usd } from "../words.js";

const total = (found) => (found ? [...found.values()].reduce((sum, value) => sum + value, 0) : null);
export const OUTCOMES = { ok: "--good", cancelled: "--muted", rejected: "--warn", client_error: "--line-4", timeout: "--line-2", upstream_error: "--bad", interrupted: "--line-5" };

function share(point) {
  const all = total(point.rates.outcomes);
  return all ? 1 - (point.rates.outcomes.get("ok") ?? 0) / all : null;
}

export function pair(point, series) {
  const [half, most] = point.quantiles[series];
  return half === null ? new Map() : new Map([["half below", half], ["95 % below", most]]);
}

const TILES = {
  Requests: (point) => [perSecond(total(point.rates.outcomes)), `${number(point.sum("inflight"))} in flight`],
  "Not served": (point) => [percent(share(point)), "refused, failed or left, last 10 s"],
  "First content": (point) => [seconds(point.quantiles.first_byte_s[1]), "95 % of streams below, last 30 s"],
  Queue: (point) => [number(point.sum("queued")), "waiting now"],
  Tokens: (point) => [known(total(point.rates.tokens)), "in and out"],
  Spend: (point) => [perHour(point.rates.cost), `${perHour(point.rates.ownCost)} to providers`],
  Ledger: (point) => [number(point.one("ledger_events")), `events to store, ${bytes(point.sum("spool_bytes"))} on disk`],
  Upstreams: (point) => upstreamsOf(point),
  Workers: (point) => [`${point.workers.filter(Boolean).length} of ${point.workers.length}`, workersNote(point)],
};

const known = (value) => (value === null ? "–" : `${compact(value)}/s`);
const perHour = (found) => (found ? `${usd(total(found) * 3600)}/h` : "–");

function upstreamsOf(point) {
  const found = point.series.upstream_available ?? [];
  return [found.length ? `${found.filter((row) => row.at(-1) > 0).length} of ${found.length}` : "–", "provider and model, can be asked"];
}

function workersNote(point) {
  const store = point.one("redis_up") === 0 ? "one serves without its store" : "with their store";
  return `${store}; configuration ${point.one("generation") ?? "–"}`;
}

export const overview = {
  title: "Overview",
  show(place, { history }) {
    const tiles = Object.entries(TILES).map(([label, read]) => ({ ...tile(label), read }));
    const alarm = el("p", { class: "alarm", role: "alert", hidden: true });
    const charts = [
      new Chart("Requests that ended, by outcome", { read: (point) => point.rates.outcomes, format: perSecond, colours: OUTCOMES }),
      new Chart("Time to the first content of streams", { read: (point) => pair(point, "first_byte_s"), format: seconds, absent: null }),
      new Chart("In flight, by tier", { read: (point) => point.sums("inflight", 0), format: number }),
      new Chart("Refused, by reason", { read: (point) => point.rates.rejections, format: perSecond }),
      new Chart("Duration of requests", { read: (point) => pair(point, "duration_s"), format: seconds, absent: null }),
      new Chart("Tokens", { read: (point) => point.rates.tokens, format: (value) => `${compact(value)}/s` }),
    ];
    place.append(heading("Overview", "All workers of this gateway, once a second; the charts show the last five minutes."), alarm,
      el("dl", { class: "tiles" }, tiles.map(({ root }) => root)), el("div", { class: "charts" }, charts.map(({ root }) => root)));
    return follow(history, charts, (point) => {
      for (const { value, note, read } of tiles) {
        const [now, more] = read(point);
        say(value, now);
        say(note, more);
      }
      const wrong = alarms(point);
      alarm.hidden = !wrong.length;
      say(alarm, wrong.join(" "));
    });
  },
};

function alarms(point) {
  const down = point.workers.filter((up) => !up).length;
  return [
    down && `Workers that do not answer: ${down} of ${point.workers.length}.`,
    point.one("redis_up") === 0 && "A worker serves without its store.",
    point.one("reload_ok") === 0 && "The latest configuration file could not be used: see Configuration.",
    point.one("workers_behind") > 0 && "A worker goes by an earlier configuration.",
  ].filter(Boolean);
}
