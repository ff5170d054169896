// Results: a table, or documents as JSON.

import { h, count } from "./dom.js";
import { print, shown } from "./json.js";

const COLUMNS = 30;
// The most text of a document that is drawn at once.
const TEXT = 20_000;

// Draws documents. `open`, if it is there, is called with the _id of the one that is chosen.
export function drawRows(documents, { as, open }) {
  if (documents.length === 0) return h("p", { class: "empty" }, "No documents.");
  const canOpen = (document) => open && document instanceof Map && document.has("_id");
  const act = (document) => () => open(print(document.get("_id")));
  return as === "documents"
    ? h(
        "div",
        { class: "documents" },
        documents.map((document) => asText(document, canOpen(document) ? act(document) : null)),
      )
    : asTable(documents, (document) => (canOpen(document) ? act(document) : null));
}

function asTable(documents, opener) {
  const names = new Set();
  for (const document of documents) for (const name of document.keys()) names.add(name);
  const columns = [...names].slice(0, COLUMNS);
  const left = names.size - columns.length;
  const isNumber = (name) => documents.some((one) => shown(one.get(name)).kind === "number");
  const head = h(
    "tr",
    {},
    columns.map((name) => h("th", { scope: "col", class: isNumber(name) ? "number" : null }, name)),
  );
  const body = documents.map((document, at) => {
    const open = opener(document);
    const cells = columns.map((name) => {
      const { kind, text } = shown(document.get(name));
      return h("td", { class: kind, title: text.length > 40 ? text : null }, text);
    });
    return h(
      "tr",
      {
        tabindex: open ? (at === 0 ? 0 : -1) : null,
        click: open,
        class: open ? "opens" : null,
      },
      cells,
    );
  });
  const table = h("table", {}, h("thead", {}, head), h("tbody", { keydown: move }, body));
  return h(
    "div",
    {},
    h("div", { class: "table" }, table),
    left > 0 ? h("p", { class: "note" }, `${count(left)} more fields: see Documents.`) : null,
  );
}

// The arrow keys move between rows.
function move(event) {
  const row = event.target.closest("tr");
  if (event.key === "Enter") {
    event.preventDefault();
    row.click();
    return;
  }
  const next = {
    ArrowDown: row.nextElementSibling,
    ArrowUp: row.previousElementSibling,
    Home: row.parentElement.firstElementChild,
    End: row.parentElement.lastElementChild,
  }[event.key];
  if (!next) return;
  event.preventDefault();
  row.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

function asText(document, open) {
  const text = print(document, 2);
  const place = h("pre", {}, colored(text.slice(0, TEXT)));
  const left = text.length - TEXT;
  const more =
    left > 0 &&
    h(
      "button",
      {
        type: "button",
        class: "quiet",
        click: () => {
          place.replaceChildren(text);
          more.remove();
        },
      },
      `Show ${count(left)} more characters`,
    );
  const edit = open && h("button", { type: "button", click: open }, "Edit");
  return h("article", { class: "card document" }, place, h("footer", {}, more, edit));
}

const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|(-?\d[\d.eE+-]*)|(true|false|null)/g;

// JSON in colours: texts in elements, never markup.
function colored(text) {
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(TOKEN)) {
    const [all, quoted, colon, number] = found;
    parts.push(text.slice(at, found.index));
    at = found.index + all.length;
    if (quoted === undefined) {
      parts.push(h("span", { class: number === undefined ? "bool" : "number" }, all));
    } else {
      parts.push(h("span", { class: colon === undefined ? "text" : "name" }, quoted), colon ?? "");
    }
  }
  parts.push(text.slice(at));
  return parts;
}
