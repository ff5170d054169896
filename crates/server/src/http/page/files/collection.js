// A collection: its facts, and what can be done with it.

import { command } from "./api.js";
import { alarm, bytes, count, fill, h, tabs } from "./dom.js";
import { dropper } from "./drop.js";
import { Find } from "./find.js";
import { Indexes } from "./indexes.js";
import { Load } from "./load.js";
import { Pipeline } from "./pipeline.js";
import { change, go } from "./state.js";

const TABS = [
  ["find", "Documents", Find],
  ["pipeline", "Aggregate", Pipeline],
  ["indexes", "Indexes", Indexes],
  ["load", "Load", Load],
];
const REFRESH = 5000;

export class CollectionView {
  constructor({ db, c, sampler, editor, changed, dropped }) {
    Object.assign(this, { db, c });
    const open = (key) => change({ doc: key });
    this.changed = () => {
      changed(db, c);
      this.#facts();
    };
    this.given = {
      db,
      c,
      sampler,
      open,
      create: () => editor.create(db, c),
      changed: this.changed,
    };
    this.facts = h("p", { class: "facts" }, "\u00a0");
    const drop = dropper(db, c, dropped);
    this.tabs = h("div", {});
    this.place = h("div", {});
    this.element = h(
      "div",
      { class: "view" },
      h(
        "header",
        { class: "head" },
        h("h1", { tabindex: -1 }, h("span", { class: "muted" }, `${db} / `), c),
        h("div", { class: "actions" }, this.facts, drop.button),
      ),
      drop.dialog,
      this.tabs,
      this.place,
    );
    this.#facts();
  }

  update(state) {
    const [id, , Part] = TABS.find(([tab]) => tab === state.tab) ?? TABS[0];
    if (id !== this.tab) {
      const hadFocus = this.tabs.contains(document.activeElement);
      this.part?.end();
      this.tab = id;
      this.part = new Part(this.given);
      fill(
        this.tabs,
        tabs("Parts of the collection", TABS, id, (to) => {
          go({ db: this.db, c: this.c, tab: to === "find" ? "" : to });
        }),
      );
      fill(this.place, this.part.element);
      if (hadFocus) this.tabs.querySelector('[aria-selected="true"]').focus();
    }
    // The document lies over the rest.
    const { doc: _doc, ...rest } = state;
    const text = JSON.stringify(rest);
    if (text !== this.shown || this.part.isAsked) this.part.update(state);
    this.shown = text;
  }

  // Reads again what a write has changed.
  again() {
    this.part?.again();
    this.changed();
  }

  end() {
    clearTimeout(this.timer);
    this.hasEnded = true;
    this.part?.end();
  }

  async #facts() {
    clearTimeout(this.timer);
    try {
      const stats = await command(this.db, { collStats: this.c });
      const size = stats.size + stats.totalIndexSize;
      const fact = (figure, unit) => h("span", {}, h("strong", { class: "figure" }, figure), unit);
      fill(
        this.facts,
        fact(count(stats.count), stats.count === 1 ? " document" : " documents"),
        fact(bytes(size), " stored"),
        fact(bytes(stats.avgObjSize), " a document"),
        fact(count(stats.nindexes), stats.nindexes === 1 ? " index" : " indexes"),
      );
    } catch (error) {
      fill(this.facts, alarm(error));
    }
    if (!this.hasEnded) this.timer = setTimeout(() => this.#facts(), REFRESH);
  }
}
