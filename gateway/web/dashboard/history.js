// The last quarter of an hour, a point a second: rates and quantiles made of two events each, gauges as they were told.

import { stream } from "./api.js";

const KEPT_S = 15 * 60;
const RATE_S = 10;
const QUANTILE_S = 30;
const GAP_S = 4;
const AGAIN_MS = 2000;

export class History {
  constructor() {
    this.points = [];
    this.state = "waiting";
    this.listeners = new Set();
    this.stopped = new AbortController();
  }

  get latest() {
    return this.points.at(-1) ?? null;
  }

  async run() {
    while (!this.stopped.signal.aborted) {
      try {
        await stream(this.stopped.signal, (event) => this.take(event));
      } catch (error) {
        if (this.stopped.signal.aborted || error.status === 401) return;
      }
      this.tell("lost");
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
    }
  }

  stop() {
    this.stopped.abort();
    this.listeners.clear();
  }

  listen(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  take(event) {
    const point = new Point(event);
    if (this.latest && point.s - this.latest.s > GAP_S) this.points.push(null);
    this.points.push(point);
    point.compare(this.before(point, RATE_S), this.before(point, QUANTILE_S));
    while (this.points.length && (this.points[0]?.s ?? 0) < point.s - KEPT_S) this.points.shift();
    this.tell("live");
  }

  // The oldest point without a gap since, at most so long ago.
  before(point, spanS) {
    let found = null;
    for (let at = this.points.length - 2; at >= 0 && this.points[at] && this.points[at].s >= point.s - spanS; at--) found = this.points[at];
    return found;
  }

  tell(state) {
    this.state = state;
    for (const listener of [...this.listeners]) listener(this);
  }
}

const add = (into, key, value) => into.set(key, (into.get(key) ?? 0) + value);

class Point {
  constructor(event) {
    this.s = event.unix_ms / 1000;
    this.workers = event.workers;
    this.series = event.series;
    this.base = null;
    this.wide = null;
  }

  compare(base, wide) {
    this.base = base && base.series;
    this.spanS = base ? this.s - base.s : 0;
    this.wide = wide && wide.series;
    this.rates = Object.fromEntries(Object.entries(RATES).map(([name, [series, label]]) => [name, this.rate(series, label)]));
    this.quantiles = Object.fromEntries(DISTRIBUTIONS.map((series) => [series, [0.5, 0.95].map((share) => this.quantile(series, share))]));
    // What was compared is not needed any more: each point would keep all before it.
    this.base = this.wide = null;
  }

  // Sums by one label's place; without one, of everything under "".
  sums(series, place) {
    const found = new Map();
    for (const row of this.series[series] ?? []) add(found, place === undefined ? "" : row[place], row.at(-1));
    return found;
  }

  sum(series) {
    return (this.series[series] ?? []).reduce((total, row) => total + row.at(-1), 0);
  }

  one(series) {
    return this.series[series]?.[0]?.at(-1) ?? null;
  }

  rate(series, place) {
    if (!this.base || this.spanS <= 0) return null;
    const found = new Map();
    const key = (row) => (place === undefined ? "" : row[place]);
    for (const row of this.series[series] ?? []) add(found, key(row), row.at(-1));
    for (const row of this.base[series] ?? []) add(found, key(row), -row.at(-1));
    return new Map([...found].map(([name, value]) => [name, Math.max(0, value) / this.spanS]));
  }

  // As Prometheus' histogram_quantile: linear within a bucket; null while nothing was measured.
  quantile(series, share) {
    if (!this.wide) return null;
    const before = new Map((this.wide[series] ?? []).map(([end, count]) => [end, count]));
    const buckets = (this.series[series] ?? [])
      .map(([end, count]) => [end === "+Inf" ? Infinity : Number(end), count - (before.get(end) ?? 0)])
      .sort(([one], [other]) => one - other);
    const all = buckets.at(-1)?.[1] ?? 0;
    if (!(all > 0)) return null;
    const rank = share * all;
    let low = 0;
    let under = 0;
    for (const [end, count] of buckets) {
      if (count >= rank) return end === Infinity ? low : low + ((end - low) * (rank - under)) / (count - under || 1);
      [low, under] = [end, count];
    }
    return low;
  }
}

// What is counted per second, and by which label of its rows.
const RATES = {
  outcomes: ["requests", 1], tiers: ["requests", 0], rejections: ["rejections", 0], dimensions: ["limit_refusals", 1],
  granted: ["grants", 0], downgraded: ["downgrades", 1], tokens: ["tokens", 0], cost: ["cost_usd", undefined],
  ownCost: ["own_cost_usd", undefined], attempts: ["attempts", 2], providers: ["attempts", 0],
};
const DISTRIBUTIONS = ["first_byte_s", "duration_s", "queue_wait_s"];
