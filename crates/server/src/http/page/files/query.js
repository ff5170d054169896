// What the box for queries and that for pipelines have in common.

import { command } from "./api.js";
import { alarm, fill, h } from "./dom.js";
import { drawPlan } from "./explain.js";
import { parse } from "./json.js";
import { change } from "./state.js";

const FORMS = [
  ["table", "Table"],
  ["documents", "Documents"],
];

// Returns a document that was typed; nothing is an empty one.
export function typed(label, text, isList = false) {
  if (text.trim() === "") return isList ? [] : new Map();
  let value;
  try {
    value = parse(text);
  } catch (error) {
    throw new Error(`${label}: ${error.message}`);
  }
  if (isList ? Array.isArray(value) : value instanceof Map) return value;
  throw new Error(`${label}: expected ${isList ? "a list of stages [ .. ]" : "a document { .. }"}`);
}

// A box with fields and buttons, which `run` is submitted to, also by Ctrl and Enter; below it the
// plan and the results.
export function framed({ run, fields, actions, plan, results }) {
  const submit = (event) => {
    event.preventDefault();
    run();
  };
  const keydown = (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event);
  };
  return h(
    "div",
    {},
    h(
      "form",
      { class: "query card", submit, keydown },
      fields,
      h("div", { class: "actions" }, actions),
    ),
    plan.element,
    results,
  );
}

// The buttons that say how results are shown.
export function forms(chosen, choose) {
  const button = ([id, text]) =>
    h(
      "button",
      { type: "button", "aria-pressed": String(id === chosen), click: () => choose(id) },
      text,
    );
  return h("div", { class: "choices", role: "group", "aria-label": "Show as" }, FORMS.map(button));
}

// What both boxes have: a run that the next one cancels, its error, its results.
export class Runs {
  constructor(place) {
    this.place = place;
  }

  async run(work, draw) {
    this.cancel?.abort();
    this.cancel = new AbortController();
    const { signal } = this.cancel;
    const began = performance.now();
    this.place.setAttribute("aria-busy", "true");
    try {
      const result = await work(signal);
      if (signal.aborted) return;
      const took = (performance.now() - began) * 1000;
      // The row that has the focus keeps it when it is drawn again.
      const rows = () => [...this.place.querySelectorAll("tbody tr")];
      const at = rows().indexOf(document.activeElement?.closest("tr"));
      fill(this.place, draw(result, took));
      if (at >= 0) rows()[Math.min(at, rows().length - 1)]?.focus();
    } catch (error) {
      if (signal.aborted) return;
      fill(this.place, alarm(error));
    }
    this.place.removeAttribute("aria-busy");
  }

  end() {
    this.cancel?.abort();
    this.place.removeAttribute("aria-busy");
  }
}

// The plan of a command, below its box.
export class Plan {
  constructor(db) {
    this.db = db;
    this.element = h("div", { class: "plans" });
    this.runs = new Runs(this.element);
  }

  // Explains what `make` returns, a command.
  show(make) {
    const close = h(
      "button",
      { type: "button", class: "quiet", click: () => change({ plan: "" }) },
      "Close",
    );
    this.runs.run(
      (signal) => command(this.db, { explain: make(), verbosity: "executionStats" }, signal),
      (reply) =>
        h(
          "section",
          { class: "card", "aria-label": "Plan" },
          h("header", {}, h("h3", {}, "Plan"), close),
          drawPlan(reply),
        ),
    );
  }

  hide() {
    this.runs.end();
    fill(this.element);
  }
}
