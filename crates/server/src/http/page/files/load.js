// Loads a file into a collection.

import { alarm, fill, freshId, h } from "./dom.js";
import { drawJobs, startLoad } from "./jobs.js";

const MODES = [
  ["upsert", "are replaced"],
  ["insert", "stay as they are"],
  ["merge", "get the fields merged in"],
];

export class Load {
  constructor({ db, c, changed }) {
    Object.assign(this, { db, c, changed });
    const [file, key, mode, extended, bad] = [1, 2, 3, 4, 5].map(freshId);
    this.file = h("input", { id: file, type: "file" });
    this.key = h("input", { id: key, placeholder: "id", spellcheck: "false", autocomplete: "off" });
    this.mode = h(
      "select",
      { id: mode },
      MODES.map(([value, text]) => h("option", { value }, text)),
    );
    this.extended = h("input", { id: extended, type: "checkbox" });
    this.bad = h("input", { id: bad, type: "checkbox" });
    this.note = h("div", { "aria-live": "polite" });
    this.jobs = h("div", { class: "jobs" });
    this.element = h(
      "div",
      {},
      h(
        "form",
        {
          class: "load query card",
          submit: (event) => {
            event.preventDefault();
            this.#start();
          },
        },
        h("div", { class: "field" }, h("label", { for: file }, "File"), this.file),
        h("div", { class: "field" }, h("label", { for: key }, "Primary key"), this.key),
        h("div", { class: "field" }, h("label", { for: mode }, "Documents that exist"), this.mode),
        h(
          "p",
          { class: "note" },
          "JSON lines, a JSON array, CSV or TSV; plain, gzip or zstd. The ",
          "primary key is a field, several with commas between them, or auto for a new key.",
        ),
        h(
          "div",
          { class: "actions" },
          h("button", { type: "submit", class: "primary" }, "Load"),
          h("label", { class: "check", for: extended }, this.extended, "Extended JSON"),
          h("label", { class: "check", for: bad }, this.bad, "Leave out what cannot be loaded"),
        ),
      ),
      this.note,
      this.jobs,
    );
  }

  update() {
    drawJobs(this.jobs, [], `${this.db}.${this.c}`);
  }

  end() {}

  again() {}

  #start() {
    const file = this.file.files[0];
    if (!file) {
      fill(this.note, alarm(new Error("Choose a file.")));
      this.file.focus();
      return;
    }
    fill(this.note);
    const parameters = { mode: this.mode.value };
    if (this.key.value.trim() !== "") parameters.key = this.key.value.trim();
    if (this.extended.checked) parameters["extended-json"] = "true";
    if (this.bad.checked) parameters["bad-lines"] = "skip";
    const changed = (hasEnded) => {
      this.update();
      if (hasEnded) this.changed();
    };
    startLoad({ db: this.db, c: this.c, file, parameters, changed });
  }
}
