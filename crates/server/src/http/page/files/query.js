// Finds documents, runs pipelines, and explains queries.

import { command, documents } from "./api.js";
import { alarm, announce, append, box, count, fill, freshId, h, micros } from "./dom.js";
import { drawPlan } from "./explain.js";
import { parse, print } from "./json.js";
import { drawRows } from "./rows.js";
import { change } from "./state.js";

const LIMIT = 20;
const LIMIT_MAX = 1000;
const FIELDS = [
  ["filter", "Filter", "{ score: { $gte: 10 } }"],
  ["sort", "Sort", "{ score: -1 }"],
  ["fields", "Projection", "{ title: 1 }"],
];
const STAGES = [
  ["$match", "{ $match: { } }"],
  ["$group", '{ $group: { _id: "$field", n: { $sum: 1 } } }'],
  ["$sort", "{ $sort: { n: -1 } }"],
  ["$limit", "{ $limit: 20 }"],
  ["$project", "{ $project: { field: 1 } }"],
  ["$unwind", '{ $unwind: "$field" }'],
];
const PIPELINE = "[\n  { $group: { _id: null, n: { $sum: 1 } } }\n]";

// Returns a document that was typed; nothing is an empty one.
function typed(label, text, isList = false) {
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

// Runs when Ctrl and Enter are pressed.
function onSubmit(run) {
  return (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      run();
    }
  };
}

function choice(options, chosen, choose) {
  return h(
    "div",
    { class: "choices", role: "group", "aria-label": "Show as" },
    options.map(([id, text]) =>
      h(
        "button",
        {
          type: "button",
          "aria-pressed": String(id === chosen),
          click: () => choose(id),
        },
        text,
      ),
    ),
  );
}

const AS = [
  ["table", "Table"],
  ["documents", "Documents"],
];

// What both boxes have: a run that the next one cancels, its error, its results.
class Runs {
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
  }
}

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
    this.plan = h("div", { class: "plans" });
    this.runs = new Runs(this.results);
    this.plans = new Runs(this.plan);
    this.element = h(
      "div",
      {},
      h(
        "form",
        {
          class: "query card",
          submit: (event) => {
            event.preventDefault();
            this.#run();
          },
          keydown: onSubmit(() => this.#run()),
        },
        rows,
        h("div", { class: "field limit" }, h("label", { for: id }, "Limit"), this.inputs.limit),
        h(
          "div",
          { class: "actions" },
          h("button", { type: "submit", class: "primary", title: "Ctrl+Enter" }, "Find"),
          h("button", { type: "button", click: () => this.#run({ plan: "1" }) }, "Explain"),
          h("button", { type: "button", click: () => this.#reset() }, "Clear"),
          h("span", { class: "space" }),
          h("button", { type: "button", click: create }, "New document"),
        ),
      ),
      this.plan,
      this.results,
    );
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
    if (state.plan) this.#explain();
    else {
      this.plans.end();
      fill(this.plan);
    }
  }

  end() {
    this.runs.end();
    this.plans.end();
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
    const find = { find: this.c, limit, singleBatch: true, batchSize: limit };
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
        const reply = await documents(this.db, this.#command(), signal);
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
      choice(AS, as, (id) => change({ as: id === "table" ? "" : id })),
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

  #explain() {
    this.plans.run(
      async (signal) => {
        const { limit, ...find } = this.#command();
        delete find.singleBatch;
        delete find.batchSize;
        const explain = { explain: { ...find, limit }, verbosity: "executionStats" };
        return command(this.db, explain, signal);
      },
      (reply) =>
        h(
          "section",
          { class: "card", "aria-label": "Plan" },
          h(
            "header",
            {},
            h("h3", {}, "Plan"),
            h(
              "button",
              {
                type: "button",
                class: "quiet",
                click: () => change({ plan: "" }),
              },
              "Close",
            ),
          ),
          drawPlan(reply, this.#numbers()),
        ),
    );
  }
}

export class Pipeline {
  constructor({ db, c }) {
    Object.assign(this, { db, c });
    const id = freshId();
    this.input = box({ id, rows: 5, placeholder: PIPELINE });
    this.results = h("div", { class: "results" });
    this.runs = new Runs(this.results);
    this.element = h(
      "div",
      {},
      h(
        "form",
        {
          class: "query card",
          submit: (event) => {
            event.preventDefault();
            this.#start();
          },
          keydown: onSubmit(() => this.#start()),
        },
        h("div", { class: "field pipeline" }, h("label", { for: id }, "Pipeline"), this.input),
        h(
          "div",
          { class: "actions" },
          h("button", { type: "submit", class: "primary", title: "Ctrl+Enter" }, "Run"),
          h("span", { class: "muted" }, "Add a stage:"),
          STAGES.map(([name, text]) =>
            h(
              "button",
              {
                type: "button",
                class: "chip",
                click: () => this.#add(text),
              },
              name,
            ),
          ),
        ),
      ),
      this.results,
    );
  }

  update(state) {
    this.state = state;
    this.input.value = state.pipeline ?? "";
    this.input.fit();
    if (!state.pipeline) {
      this.runs.end();
      fill(
        this.results,
        h(
          "p",
          { class: "empty" },
          "A pipeline is a list of stages: each takes the documents of the one before.",
        ),
      );
    } else if (writes(state.pipeline) && !this.isAsked) {
      // Whoever follows a link has not asked for it to write.
      fill(this.results, h("p", { class: "empty" }, "This pipeline writes. Run starts it."));
    } else this.#run();
    this.isAsked = false;
  }

  end() {
    this.runs.end();
    this.#leave();
  }

  // Ends the cursor of the results that nobody reads on. If that fails, the server does so later.
  #leave() {
    if (this.cursor && !isEnd(this.cursor)) {
      const kill = { killCursors: this.c, cursors: [this.cursor] };
      command(this.db, kill).catch(() => {});
    }
    this.cursor = null;
  }

  again() {}

  #start() {
    this.isAsked = true;
    change({ pipeline: this.input.value.trim() });
  }

  #add(stage) {
    const text = this.input.value.trimEnd();
    const inside = text.replace(/\]$/, "").trimEnd();
    const start = text === "" ? "[" : inside;
    const comma = start.endsWith("[") || start.endsWith(",") ? "" : ",";
    this.input.value = `${start}${comma}\n  ${stage}\n]`;
    this.input.fit();
    this.input.focus();
    const end = this.input.value.length - 2;
    this.input.setSelectionRange(end, end);
  }

  #run() {
    this.#leave();
    this.runs.run(
      async (signal) => {
        const pipeline = typed("Pipeline", this.state.pipeline, true);
        const aggregate = { aggregate: this.c, pipeline, cursor: { batchSize: 100 } };
        const reply = await documents(this.db, aggregate, signal);
        const cursor = reply.get("cursor");
        this.cursor = cursor.get("id");
        return cursor.get("firstBatch");
      },
      (rows, took) => this.#draw(rows, took),
    );
  }

  #draw(rows, took) {
    const as = this.state.as ?? "table";
    const place = h("div", {}, drawRows(rows, { as }));
    const text = h("span", { class: "figure" });
    const more = h("button", { type: "button", click: () => next() }, "More");
    const write = () => {
      const rest = isEnd(this.cursor) ? "" : ", and there are more";
      text.textContent = `${count(rows.length)} row${rows.length === 1 ? "" : "s"}${rest}`;
      announce(text.textContent);
      more.hidden = isEnd(this.cursor);
      more.disabled = false;
    };
    const next = async () => {
      more.disabled = true;
      try {
        const getMore = { getMore: this.cursor, collection: this.c, batchSize: 100 };
        const cursor = (await documents(this.db, getMore)).get("cursor");
        rows.push(...cursor.get("nextBatch"));
        this.cursor = cursor.get("id");
        fill(place, drawRows(rows, { as }));
      } catch (error) {
        append(this.results, [alarm(error)]);
      }
      write();
    };
    write();
    return [
      h(
        "div",
        { class: "bar" },
        text,
        more,
        h("span", { class: "muted figure" }, micros(took)),
        h("span", { class: "space" }),
        choice(AS, as, (to) => {
          this.isAsked = true;
          change({ as: to === "table" ? "" : to });
        }),
      ),
      place,
    ];
  }
}

// Returns whether a pipeline has a stage that writes.
function writes(text) {
  const has = (value) => {
    if (value instanceof Map) {
      return value.has("$out") || value.has("$merge") || [...value.values()].some(has);
    }
    return Array.isArray(value) && value.some(has);
  };
  try {
    return has(parse(text));
  } catch {
    return false;
  }
}

function isEnd(id) {
  return print(id) === "0";
}
