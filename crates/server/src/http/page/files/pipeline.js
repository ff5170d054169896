// Runs pipelines, and explains them.

import { command, documents } from "./api.js";
import { alarm, announce, append, box, count, fill, freshId, h, micros } from "./dom.js";
import { parse, print } from "./json.js";
import { Plan, Runs, forms, framed, typed } from "./query.js";
import { drawRows } from "./rows.js";
import { change } from "./state.js";

const STAGES = [
  ["$match", "{ $match: { } }"],
  ["$group", '{ $group: { _id: "$field", n: { $sum: 1 } } }'],
  ["$sort", "{ $sort: { n: -1 } }"],
  ["$limit", "{ $limit: 20 }"],
  ["$project", "{ $project: { field: 1 } }"],
  ["$unwind", '{ $unwind: "$field" }'],
];
// The rows that are asked for at a time.
const BATCH = 100;
const PIPELINE = "[\n  { $group: { _id: null, n: { $sum: 1 } } }\n]";

export class Pipeline {
  constructor({ db, c }) {
    Object.assign(this, { db, c });
    const id = freshId();
    this.input = box({ id, rows: 5, placeholder: PIPELINE });
    this.results = h("div", { class: "results" });
    this.plan = new Plan(db);
    this.runs = new Runs(this.results);
    const label = h("label", { for: id }, "Pipeline");
    this.element = framed({
      run: () => this.#start(),
      fields: h("div", { class: "field pipeline" }, label, this.input),
      actions: [
        h("button", { type: "submit", class: "primary", title: "Ctrl+Enter" }, "Run"),
        h("button", { type: "button", click: () => this.#explain() }, "Explain"),
        h("span", { class: "muted" }, "Add a stage:"),
        STAGES.map(([name, text]) =>
          h("button", { type: "button", class: "chip", click: () => this.#add(text) }, name),
        ),
      ],
      plan: this.plan,
      results: this.results,
    });
  }

  update(state) {
    const isSame = !this.isAsked && state.pipeline === this.state?.pipeline;
    this.state = state;
    if (state.plan && state.pipeline) this.plan.show(() => this.#command());
    else this.plan.hide();
    if (isSame && this.rows) {
      // It is drawn otherwise, and not run again: it may write.
      fill(this.results, this.#draw());
      return;
    }
    this.rows = null;
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
    this.plan.hide();
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
    change({ pipeline: this.input.value.trim(), plan: "" });
  }

  #explain() {
    change({ pipeline: this.input.value.trim(), plan: "1" });
  }

  #command() {
    const pipeline = typed("Pipeline", this.state.pipeline, true);
    return { aggregate: this.c, pipeline, cursor: { batchSize: BATCH } };
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
        const reply = await documents(this.db, this.#command(), signal);
        const cursor = reply.get("cursor");
        this.cursor = cursor.get("id");
        return cursor.get("firstBatch");
      },
      (rows, took) => {
        Object.assign(this, { rows, took });
        return this.#draw();
      },
    );
  }

  #draw() {
    const { rows, took } = this;
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
        const getMore = { getMore: this.cursor, collection: this.c, batchSize: BATCH };
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
        forms(as, (to) => change({ as: to === "table" ? "" : to })),
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
