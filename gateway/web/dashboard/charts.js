// Lines over the last minutes, in the colours of the style sheet.

import { el } from "./dom.js";

const uPlot = window.uPlot;
const HEIGHT = 190;
const SPAN_S = 5 * 60;
const LEAST_S = 60;
const DARK = window.matchMedia("(prefers-color-scheme: dark)");
const hue = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// `read(point)` gives a Map of names and values; names come as they are seen, and keep their colour. One that is missing is `absent`.
export class Chart {
  constructor(title, { read, format, colours = {}, absent = 0 }) {
    Object.assign(this, { read, format, colours, absent, names: [], plot: null });
    this.canvas = el("div", { class: "canvas" });
    this.note = el("p", { class: "empty" }, "Waiting for the first figures…");
    this.root = el("figure", { class: "chart" }, el("figcaption", {}, title), this.note, this.canvas);
    this.observer = new ResizeObserver(() => this.plot?.setSize({ width: this.canvas.clientWidth, height: HEIGHT }));
    this.observer.observe(this.canvas);
    this.repaint = () => this.rebuild();
    DARK.addEventListener("change", this.repaint);
  }

  update(history) {
    const read = history.points.map((point) => (point ? this.read(point) : null));
    const before = this.names.length;
    for (const found of read) {
      for (const [name, value] of found ?? []) if (value && !this.names.includes(name)) this.names.push(name);
    }
    const end = history.latest?.s ?? Date.now() / 1000;
    const times = history.points.map((point, at) => point?.s ?? (history.points[at - 1]?.s ?? end) + 1);
    this.data = [times, ...this.names.map((name) => read.map((found) => (found ? (found.get(name) ?? this.absent) : null)))];
    this.quiet = read.some((found) => found?.size === 0 || found) && !this.names.length;
    this.note.hidden = this.names.length > 0;
    if (this.quiet && history.points.length > 3) this.note.textContent = "Nothing to draw in the last minutes.";
    if (before !== this.names.length) this.rebuild();
    else this.plot?.setData(this.data, false);
    // Not more than there is, so that a minute fills the chart too.
    const begin = Math.max(end - SPAN_S, Math.min(times[0] ?? end, end - LEAST_S));
    this.plot?.setScale("x", { min: begin, max: end });
    if ((this.plot?.cursor.left ?? 0) < 0) this.plot.setLegend({ idx: times.length - 1 }); // the newest, where nobody points
  }

  rebuild() {
    this.plot?.destroy();
    this.plot = null;
    if (!this.names.length || !this.canvas.clientWidth) return;
    const palette = Array.from({ length: 8 }, (_, at) => hue(`--line-${at + 1}`));
    const value = (_, figure) => (figure === null || figure === undefined ? "–" : this.format(figure));
    const axis = { stroke: hue("--muted"), grid: { stroke: hue("--grid"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    this.plot = new uPlot({
      width: this.canvas.clientWidth, height: HEIGHT, padding: [8, 26, 0, 0],
      cursor: { points: { size: 6 }, y: false }, legend: { live: true },
      scales: { x: { time: true }, y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [{ ...axis, space: 70, size: 26, values: (_, ticks) => ticks.map((s) => new Date(s * 1000).toTimeString().slice(0, 8)) },
        { ...axis, size: 62, values: (_, ticks) => ticks.map((figure) => this.format(figure)) }],
      series: [{ label: "Time", value: (_, s) => (s ? new Date(s * 1000).toTimeString().slice(0, 8) : "–") },
        ...this.names.map((name, at) => {
          const colour = this.colours[name] ? hue(this.colours[name]) : palette[at % palette.length];
          return { label: name, stroke: colour, width: 1.75, value, points: { show: false }, spanGaps: false };
        })],
    }, this.data, this.canvas);
  }

  destroy() {
    this.observer.disconnect();
    DARK.removeEventListener("change", this.repaint);
    this.plot?.destroy();
  }
}

export function tile(label) {
  const value = el("dd", {}, "–");
  const note = el("dd", { class: "note" }, "");
  return { root: el("div", { class: "tile" }, el("dt", {}, label), value, note), value, note };
}

// Shows charts and figures of the history for as long as a page is open.
export function follow(history, charts, update) {
  const draw = () => {
    charts.forEach((chart) => chart.update(history));
    if (history.latest) update?.(history.latest, history);
  };
  const silence = history.listen(draw);
  requestAnimationFrame(draw);
  return () => {
    silence();
    charts.forEach((chart) => chart.destroy());
  };
}
