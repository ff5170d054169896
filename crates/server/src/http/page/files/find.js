// Finds documents, and explains queries.

import { command, documents } from "./api.js";
import { alarm, announce, box, count, fill, freshId, h, micros } from "./dom.js";
import { Plan, Runs, forms, framed, typed } from "./query.js";
import { drawRows } from "./rows.js";
import { change } from "./state.js";

const LIMIT = 20;
const LIMIT_MAX = 1000;
const FIELDS = [
  ["filter", "Filter", "{ score: { $gte: 10 } }"],
  ["sort", "Sort", "{ score: -1 }"],
  ["fields", "Projection", "{ title: 1 }"],
];

export class Find {
  constructor({ db, c, open, create }) {
    Object.assign(this, { db, c, open });
    this.inputs = {};
    const rows = FIELDS.map(([name, label, hint]) => {
      const id = freshId();
      this.inputs[name] = box({ id, placeholder: hint });
      return h(
        "div",
        { class: `field ${name}` },
        h("label", { for: id }, label),
        this.inputs[name],
      );
    });
    const id = freshId();
    this.inputs.limit = h("input", {
      id,
      type: "number",
      min: 1,
      max: LIMIT_MAX,
      placeholder: LIMIT,
      inputmode: "numeric",
    });
    this.results = h("div", { class: "results" });
    this.plan = new Plan(db);
    this.runs = new Runs(this.results);
    const limit = h("label", { for: id }, "Limit");
    this.element = framed({
      run: () => this.#run(),
      fields: [rows, h("div", { class: "field limit" }, limit, this.inputs.limit)],
      actions: [
        h("button", { type: "submit", class: "primary", title: "Ctrl+Enter" }, "Find"),
        h("button", { type: "button", click: () => this.#run({ plan: "1" }) }, "Explain"),
        h("button", { type: "button", click: () => this.#reset() }, "Clear"),
        h("span", { class: "space" }),
        h("button", { type: "button", click: create }, "New document"),
      ],
      plan: this.plan,
      results: this.results,
    });
  }

  // Shows what the address says.
  update(state) {
    for (const [name] of FIELDS) {
      this.inputs[name].value = state[name] ?? "";
      this.inputs[name].fit();
    }
    this.inputs.limit.value = state.limit ?? "";
    this.state = state;
    this.#find();
    if (state.plan) this.plan.show(() => this.#command());
    else this.plan.hide();
  }

  end() {
    this.runs.end();
    this.plan.hide();
  }

  again() {
    this.#find();
  }

  #typed() {
    const fields = FIELDS.map(([name]) => [name, this.inputs[name].value.trim()]);
    return { ...Object.fromEntries(fields), limit: this.inputs.limit.value, skip: "" };
  }

  #run({ plan = "" } = {}) {
    change({ ...this.#typed(), plan });
  }

  #reset() {
    change({ filter: "", sort: "", fields: "", limit: "", skip: "", plan: "" });
    this.inputs.filter.focus();
  }

  #numbers() {
    const whole = (text, otherwise, most) => {
      const n = Math.floor(Number(text));
      return Number.isFinite(n) && n > 0 ? Math.min(n, most) : otherwise;
    };
    const limit = whole(this.state.limit, LIMIT, LIMIT_MAX);
    return { limit, skip: whole(this.state.skip, 0, Number.MAX_SAFE_INTEGER) };
  }

  #command() {
    const { limit, skip } = this.#numbers();
    const find = { find: this.c, limit };
    find.filter = typed("Filter", this.state.filter ?? "");
    const sort = typed("Sort", this.state.sort ?? "");
    const fields = typed("Projection", this.state.fields ?? "");
    if (sort.size > 0) find.sort = sort;
    if (fields.size > 0) find.projection = fields;
    if (skip > 0) find.skip = skip;
    return find;
  }

  #find() {
    const { limit, skip } = this.#numbers();
    this.runs.run(
      async (signal) => {
        const find = { ...this.#command(), singleBatch: true, batchSize: limit };
        const reply = await documents(this.db, find, signal);
        return reply.get("cursor").get("firstBatch");
      },
      (found, took) => this.#draw(found, { took, limit, skip }),
    );
  }

  #draw(found, { took, limit, skip }) {
    const as = this.state.as ?? "table";
    const range =
      found.length === 0
        ? "No documents"
        : `Documents ${count(skip + 1)} to ${count(skip + found.length)}`;
    announce(range);
    const total = h("button", { type: "button", class: "quiet" }, "Count all");
    total.addEventListener("click", () => this.#count(total));
    const step = (to) => () => change({ ...this.#typed(), skip: to > 0 ? String(to) : "" });
    const bar = h(
      "div",
      { class: "bar" },
      h("span", { class: "figure" }, range),
      total,
      h("span", { class: "muted figure" }, micros(took)),
      h("span", { class: "space" }),
      h(
        "button",
        {
          type: "button",
          disabled: skip === 0,
          click: step(Math.max(0, skip - limit)),
        },
        "Previous",
      ),
      h(
        "button",
        {
          type: "button",
          disabled: found.length < limit,
          click: step(skip + limit),
        },
        "Next",
      ),
      forms(as, (id) => change({ as: id === "table" ? "" : id })),
    );
    if (found.length === 0) {
      const isAll = !this.state.filter;
      const text =
        isAll && skip === 0
          ? "The collection is empty. Add a document, or load a file."
          : "No document matches.";
      return [bar, h("p", { class: "empty" }, text)];
    }
    return [bar, drawRows(found, { as, open: this.open })];
  }

  async #count(button) {
    button.disabled = true;
    button.textContent = "Counting …";
    try {
      const query = typed("Filter", this.state.filter ?? "");
      const { n } = await command(this.db, { count: this.c, query });
      button.textContent = `of ${count(n)}`;
    } catch (error) {
      this.results.prepend(alarm(error));
      button.textContent = "Count all";
      button.disabled = false;
    }
  }
}
