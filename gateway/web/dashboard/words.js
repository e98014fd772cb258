// Figures and instants as people read them.

const NUMBER = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });

export const known = (value) => value !== null && value !== undefined && !Number.isNaN(value);
export const number = (value) => (known(value) ? (Math.abs(value) >= 1000 ? WHOLE : NUMBER).format(value) : "–");
export const compact = (value) => (known(value) ? COMPACT.format(value) : "–");
export const percent = (share) => (known(share) ? `${NUMBER.format(share * 100)} %` : "–");
export const perSecond = (value) => (known(value) ? `${number(value)}/s` : "–");

export function seconds(value) {
  if (!known(value)) return "–";
  if (value < 1) return `${number(value * 1000)} ms`;
  return value < 120 ? `${number(value)} s` : `${number(value / 60)} min`;
}

export const ms = (value) => (known(value) ? seconds(value / 1000) : "–");

export function usd(value) {
  if (!known(value)) return "–";
  const digits = value && Math.abs(value) < 1 ? { maximumSignificantDigits: 3 } : { minimumFractionDigits: 2, maximumFractionDigits: 2 };
  return `$${new Intl.NumberFormat("en", digits).format(value)}`;
}

export const microUsd = (value) => (known(value) ? usd(value / 1e6) : "–");

export function bytes(value) {
  if (!known(value)) return "–";
  const power = value < 1024 ? 0 : Math.min(3, Math.floor(Math.log2(value) / 10));
  return `${number(value / 1024 ** power)} ${["B", "KiB", "MiB", "GiB"][power]}`;
}

export const clock = (unixMs) => (known(unixMs) ? new Date(unixMs).toLocaleTimeString("sv-SE") : "–");

export function moment(unixMs) {
  if (!known(unixMs)) return "–";
  return new Date(unixMs).toLocaleString("sv-SE", { dateStyle: "short", timeStyle: "medium" });
}
