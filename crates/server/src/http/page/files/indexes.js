// The indexes of a collection: their size, and how far their builds are.

import { command } from "./api.js";
import { alarm, box, bytes, dangerous, fill, freshId, h, toast } from "./dom.js";
import { drawJobs } from "./jobs.js";
import { parse, print } from "./json.js";

export class Indexes {
  constructor({ db, c, sampler, changed }) {
    Object.assign(this, { db, c, changed });
    const [keys, unique] = [freshId(), freshId()];
    this.keys = box({ id: keys, placeholder: "{ author: 1, score: -1 }" });
    this.unique = h("input", { type: "checkbox", id: unique });
    this.note = h("div", { "aria-live": "polite" });
    this.jobs = h("div", { class: "jobs" });
    this.list = h("div", { class: "results" });
    this.button = h("button", { type: "submit", class: "primary" }, "Create index");
    this.element = h(
      "div",
      {},
      h(
        "form",
        {
          class: "query card",
          submit: (event) => {
            event.preventDefault();
            this.#create();
          },
        },
        h("div", { class: "field pipeline" }, h("label", { for: keys }, "Fields"), this.keys),
        h(
          "div",
          { class: "actions" },
          this.button,
          h("label", { class: "check", for: unique }, this.unique, "Unique"),
        ),
      ),
      this.note,
      this.jobs,
      this.list,
    );
    this.unlisten = sampler.listen(() => {
      drawJobs(this.jobs, sampler.status?.flagstone.indexBuilds ?? [], `${db}.${c}`);
    });
  }

  update() {
    this.again();
  }

  end() {
    this.unlisten();
  }

  async again() {
    try {
      const [{ cursor }, stats] = await Promise.all([
        command(this.db, { listIndexes: this.c }),
        command(this.db, { collStats: this.c }),
      ]);
      fill(
        this.list,
        h(
          "div",
          { class: "table" },
          h(
            "table",
            {},
            h(
              "thead",
              {},
              h(
                "tr",
                {},
                ["Name", "Fields", "Size", "", ""].map((text) => h("th", { scope: "col" }, text)),
              ),
            ),
            h(
              "tbody",
              {},
              cursor.firstBatch.map((index) => this.#row(index, stats)),
            ),
          ),
        ),
      );
    } catch (error) {
      fill(this.list, alarm(error));
    }
  }

  #row(index, { indexSizes }) {
    const size = indexSizes[index.name];
    const is = [
      index.name === "_id_" && "primary key",
      index.unique && "unique",
      index.sparse && "sparse",
      index.expireAfterSeconds !== undefined && `expires after ${index.expireAfterSeconds} s`,
      index.partialFilterExpression && `only ${print(index.partialFilterExpression)}`,
    ]
      .filter(Boolean)
      .join(", ");
    const drop =
      index.name === "_id_" ? null : dangerous("Drop", "Drop it?", () => this.#drop(index.name));
    return h(
      "tr",
      {},
      h("td", {}, index.name),
      h(
        "td",
        { class: "inner" },
        Object.entries(index.key)
          .map(([field, way]) => `${field} ${way < 0 ? "↓" : "↑"}`)
          .join(", "),
      ),
      h("td", { class: "number" }, size === undefined ? "" : bytes(size)),
      h("td", {}, is),
      h("td", { class: "act" }, drop),
    );
  }

  async #create() {
    fill(this.note);
    this.button.disabled = true;
    this.button.textContent = "Building …";
    try {
      const keys = parse(this.keys.value);
      if (!(keys instanceof Map) || keys.size === 0) {
        throw new Error("Fields: expected a document such as { author: 1 }");
      }
      const name = [...keys].map(([field, way]) => `${field}_${print(way)}`).join("_");
      const index = { key: keys, name };
      if (this.unique.checked) index.unique = true;
      await command(this.db, { createIndexes: this.c, indexes: [index] });
      toast(`Index ${name} is complete.`);
      this.keys.value = "";
      this.changed();
    } catch (error) {
      fill(this.note, alarm(error));
    }
    this.button.disabled = false;
    this.button.textContent = "Create index";
    this.again();
  }

  async #drop(name) {
    fill(this.note);
    try {
      await command(this.db, { dropIndexes: this.c, index: name });
      toast(`Index ${name} is dropped.`);
      this.changed();
    } catch (error) {
      fill(this.note, alarm(error));
    }
    this.again();
  }
}
