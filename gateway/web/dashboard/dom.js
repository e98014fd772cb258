// Elements out of words. Text is always a text node: nothing that comes from data is ever read as markup.

export function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (key in made && typeof value === "boolean") made[key] = value;
    else made.setAttribute(key, value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export function button(label, act, attributes = {}) {
  return el("button", { type: "button", onclick: act, ...attributes }, label);
}

export function badge(word, mood = "calm") {
  return el("span", { class: `badge ${mood}` }, word);
}

// Columns are [heading, cell of a row, "number"?]; a cell is a text or an element.
export function table(caption, columns, rows, empty = "Nothing here yet.") {
  if (!rows.length) return el("p", { class: "empty" }, empty);
  const head = columns.map(([heading, , kind]) => el("th", { scope: "col", class: kind }, heading));
  const body = rows.map((row) => el("tr", {}, columns.map(([, cell, kind]) => el("td", { class: kind }, cell(row) ?? "–"))));
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    el("table", {}, el("caption", { class: "unseen" }, caption), el("thead", {}, el("tr", {}, head)), el("tbody", {}, body)));
}

// Only where it has changed, so that a screen reader and a selection are left alone.
export function say(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function heading(title, note) {
  return el("div", { class: "heading" }, el("h1", {}, title), note && el("p", {}, note));
}

export function field(label, input, note) {
  return el("label", { class: "field" }, el("span", {}, label), input, note && el("small", {}, note));
}

let notices;

export function announce(text, mood = "calm") {
  notices ??= document.body.appendChild(el("div", { class: "notices", role: "status", "aria-live": "polite" }));
  const notice = el("p", { class: `notice ${mood}` }, text);
  notices.append(notice);
  setTimeout(() => notice.remove(), mood === "bad" ? 12_000 : 5_000);
}

export function dialog(title, ...content) {
  const id = `title-${title.toLowerCase().replace(/\W+/g, "-")}`;
  const made = el("dialog", { "aria-labelledby": id }, el("h2", { id }, title), ...content);
  made.addEventListener("close", () => made.remove());
  document.body.append(made);
  made.showModal();
  return made;
}

export function confirmed(title, text, word) {
  return new Promise((resolve) => {
    const shown = dialog(title, el("p", {}, text), el("div", { class: "actions" },
      button("Cancel", () => shown.close("no")),
      button(word, () => shown.close("yes"), { class: "danger" })));
    shown.addEventListener("close", () => resolve(shown.returnValue === "yes"));
  });
}
