// The collections. Only those that can be seen are drawn, and counted.

import { command, names } from "./api.js";
import { bytes, count, h, freshId, short } from "./dom.js";
import { go, state } from "./state.js";

const ROW = 30;
const REFRESH = 10_000;
const COUNTED = 15_000;
const AT_ONCE = 3;

export class Sidebar {
  all = [];
  items = [];
  #facts = new Map();
  #drawn = new Map();
  #waiting = [];
  #asking = 0;
  #active = -1;
  #ids = freshId();

  constructor(create) {
    this.search = h("input", {
      type: "search",
      placeholder: "Filter collections",
      "aria-label": "Filter collections",
      autocomplete: "off",
      spellcheck: "false",
      input: () => this.#filter(),
      keydown: (event) => this.#leaveSearch(event),
    });
    this.rows = h("div", { class: "rows" });
    this.list = h(
      "div",
      {
        class: "list",
        role: "listbox",
        tabindex: 0,
        "aria-label": "Collections",
        scroll: () => this.#draw(),
        keydown: (event) => this.#move(event),
        focus: () => this.#show(Math.max(this.#active, 0)),
      },
      this.rows,
    );
    this.note = h("p", { class: "note" });
    this.home = h("a", { class: "home", href: "#" }, "Overview");
    this.element = h(
      "nav",
      { class: "sidebar", "aria-label": "Database" },
      this.home,
      h("div", { class: "search" }, this.search, h("kbd", { "aria-hidden": "true" }, "/")),
      this.note,
      this.list,
      h("footer", {}, h("button", { type: "button", click: create }, "New collection")),
    );
    new ResizeObserver(() => this.#draw()).observe(this.list);
  }

  // Reads the names again, now and every few seconds.
  async refresh() {
    clearTimeout(this.timer);
    try {
      this.all = await names();
      this.error = null;
    } catch (error) {
      this.error = error;
    }
    this.timer = setTimeout(() => this.refresh(), REFRESH);
    this.#filter();
  }

  stop() {
    clearTimeout(this.timer);
    this.all = [];
    this.#facts.clear();
    this.#filter();
  }

  // Counts a collection again that was changed, and adds it if it is new.
  changed(db, name) {
    this.#facts.delete(key(db, name));
    if (this.all.some((one) => one.db === db && one.name === name)) this.#draw();
    else this.refresh();
  }

  update({ db, c }) {
    this.chosen = db === undefined ? null : key(db, c);
    if (this.chosen === null) this.home.setAttribute("aria-current", "page");
    else this.home.removeAttribute("aria-current");
    this.#reveal();
    this.#draw();
  }

  focusSearch() {
    this.search.focus();
    this.search.select();
  }

  #filter() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = ({ db, name }) => {
      const text = `${db}.${name}`.toLowerCase();
      return words.every((word) => text.includes(word));
    };
    const found = this.all.filter(fits);
    this.items = [];
    for (const one of found) {
      if (this.items.at(-1)?.db !== one.db) this.items.push({ db: one.db, isHead: true });
      this.items.push(one);
    }
    this.#active = this.#chosenAt();
    const total = this.all.length;
    if (this.error) this.note.textContent = this.error.message;
    else if (total === 0) this.note.textContent = "There are no collections yet.";
    else if (found.length === 0) this.note.textContent = "No name has these words.";
    else {
      const some = found.length < total ? `${found.length} of ${total}` : total;
      this.note.textContent = `${some} collection${total === 1 ? "" : "s"}`;
    }
    this.#reveal();
    this.#draw();
  }

  #chosenAt() {
    return this.items.findIndex((one) => !one.isHead && key(one.db, one.name) === this.chosen);
  }

  // Scrolls to the collection that is shown, once.
  #reveal() {
    const at = this.#chosenAt();
    if (at < 0 || this.revealed === this.chosen) return;
    this.revealed = this.chosen;
    this.#active = at;
    this.#scrollTo(at);
  }

  #scrollTo(at) {
    const { list, rows } = this;
    rows.style.height = `${this.items.length * ROW}px`;
    const top = at * ROW;
    if (top < list.scrollTop + ROW) list.scrollTop = top - ROW;
    else if (top + 2 * ROW > list.scrollTop + list.clientHeight) {
      list.scrollTop = top + 2 * ROW - list.clientHeight;
    }
  }

  // Draws what can be seen. A row that stays is the same element, so that it can be pressed.
  #draw() {
    const { list, rows, items } = this;
    rows.style.height = `${items.length * ROW}px`;
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
    const last = Math.min(items.length, Math.ceil((list.scrollTop + list.clientHeight) / ROW) + 4);
    const before = this.#drawn;
    this.#drawn = new Map();
    const wanted = [];
    for (let at = first; at < last; at += 1) {
      const item = items[at];
      const id = `${at} ${key(item.db, item.name)}`;
      const row = before.get(id) ?? (item.isHead ? this.#head(item, at) : this.#row(item, at));
      this.#drawn.set(id, row);
      if (!item.isHead) this.#write(row, item, at, wanted);
    }
    for (const [id, row] of before) if (!this.#drawn.has(id)) row.remove();
    rows.append(...[...this.#drawn.values()].filter((row) => !row.isConnected));
    const isActive = this.#active >= first && this.#active < last;
    if (isActive) list.setAttribute("aria-activedescendant", `${this.#ids}-${this.#active}`);
    else list.removeAttribute("aria-activedescendant");
    // Not while the list is being scrolled.
    clearTimeout(this.pausing);
    this.pausing = setTimeout(() => this.#count(wanted), 120);
  }

  #head({ db }, at) {
    return h("div", { class: "db", role: "presentation", style: { top: `${at * ROW}px` } }, db);
  }

  #row({ db, name }, at) {
    return h(
      "div",
      {
        role: "option",
        id: `${this.#ids}-${at}`,
        title: `${db}.${name}`,
        style: { top: `${at * ROW}px` },
        click: () => this.#open(at),
      },
      h("span", {}, name),
      h("span", { class: "figure" }),
    );
  }

  #write(row, { db, name }, at, wanted) {
    const facts = this.#facts.get(key(db, name));
    if (!facts || performance.now() - facts.time > COUNTED) wanted.push({ db, name });
    row.classList.toggle("active", at === this.#active);
    row.setAttribute("aria-selected", String(key(db, name) === this.chosen));
    row.setAttribute("aria-setsize", this.items.length);
    row.setAttribute("aria-posinset", at + 1);
    row.lastElementChild.textContent = facts?.count === undefined ? "" : short(facts.count);
    row.title = facts?.text ? `${db}.${name}: ${facts.text}` : `${db}.${name}`;
  }

  #count(wanted) {
    this.#waiting = wanted;
    while (this.#asking < AT_ONCE && this.#waiting.length > 0)
      this.#countOne(this.#waiting.shift());
  }

  async #countOne({ db, name }) {
    this.#asking += 1;
    const id = key(db, name);
    // It is not asked for again meanwhile.
    const facts = { ...this.#facts.get(id), time: performance.now() };
    this.#facts.set(id, facts);
    try {
      const stats = await command(db, { collStats: name });
      const size = bytes(stats.size + stats.totalIndexSize);
      facts.count = stats.count;
      facts.text = `${count(stats.count)} documents, ${size}, indexes: ${stats.nindexes}`;
    } catch (error) {
      // The number stays as it was.
      facts.text = error.message;
    }
    this.#asking -= 1;
    if (this.#waiting.length > 0) this.#countOne(this.#waiting.shift());
    this.#draw();
  }

  #open(at) {
    const { db, name } = this.items[at];
    this.#active = at;
    go({ db, c: name });
  }

  #leaveSearch(event) {
    if (event.key === "ArrowDown" || event.key === "Enter") {
      event.preventDefault();
      const first = this.items.findIndex((item) => !item.isHead);
      if (first < 0) return;
      if (event.key === "Enter") this.#open(first);
      else {
        this.#active = first;
        this.list.focus();
      }
    } else if (event.key === "Escape" && this.search.value !== "") {
      event.preventDefault();
      this.search.value = "";
      this.#filter();
    }
  }

  #move(event) {
    const page = Math.max(1, Math.floor(this.list.clientHeight / ROW) - 1);
    const steps = {
      ArrowDown: 1,
      ArrowUp: -1,
      PageDown: page,
      PageUp: -page,
      Home: -Infinity,
      End: Infinity,
    };
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      if (this.items[this.#active] && !this.items[this.#active].isHead) this.#open(this.#active);
      return;
    }
    const step = steps[event.key];
    if (step === undefined || this.items.length === 0) return;
    event.preventDefault();
    if (event.key === "ArrowUp" && this.#active <= 1) {
      this.focusSearch();
      return;
    }
    this.#show(this.#active + step, step > 0 ? 1 : -1);
  }

  // Makes an item the active one, or the next one that is a collection.
  #show(at, way = 1) {
    const { items } = this;
    if (items.length === 0) return;
    at = Math.min(items.length - 1, Math.max(0, at));
    if (items[at].isHead) at += at === 0 || way > 0 ? 1 : -1;
    this.#active = Math.min(items.length - 1, Math.max(1, at));
    this.#scrollTo(this.#active);
    this.#draw();
  }
}

function key(db, name) {
  return JSON.stringify([db, name]);
}
