// A table of the admin API that is read page by page, and anew when asked.

import { announce, button, el } from "../dom.js";

// `fetch(cursor)` gives {data, next}; `draw(rows)` the table of all rows so far.
export function paged(fetch, draw) {
  const shown = el("div", { "aria-live": "off" });
  const more = button("Show more", () => load(next), { hidden: true });
  let rows = [];
  let next = null;

  async function load(cursor) {
    more.disabled = true;
    try {
      const page = await fetch(cursor);
      rows = cursor === undefined ? page.data : [...rows, ...page.data];
      next = page.next;
      shown.replaceChildren(draw(rows));
      more.hidden = next === null;
    } finally {
      more.disabled = false;
    }
  }

  return { root: el("div", {}, shown, more), load: () => load(undefined) };
}

// What a press does may fail; it is told, and the button is back.
export function doing(act) {
  return async (event) => {
    const pressed = event.currentTarget;
    pressed.disabled = true;
    try {
      await act(event);
    } catch (error) {
      announce(error.message, "bad");
    } finally {
      pressed.disabled = false;
    }
  };
}

export const again = (load) => button("Refresh", doing(load), { class: "quiet" });
