// A document to read, change, remove or create. A change is written only over the version that was
// read: otherwise both versions are shown.

import { documentPath, failure, send } from "./api.js";
import { alarm, dangerous, fill, freshId, h, toast } from "./dom.js";
import { parse, print } from "./json.js";

// Two versions with more lines than this are shown without marks.
const COMPARED = 3000;

export class Editor {
  constructor({ changed, closed }) {
    this.changed = changed;
    this.title = h("h2", {});
    const id = freshId();
    this.input = h("textarea", {
      id,
      class: "source",
      spellcheck: "false",
      autocomplete: "off",
      "aria-label": "Document",
      input: () => {
        this.isAsked = false;
      },
    });
    this.note = h("div", { "aria-live": "polite" });
    this.body = h("div", { class: "body" });
    this.actions = h("footer", { class: "actions" });
    this.dialog = h(
      "dialog",
      {
        class: "editor",
        keydown: (event) => this.#keys(event),
        close: () => closed(),
        cancel: (event) => {
          event.preventDefault();
          this.#leave();
        },
      },
      h(
        "header",
        {},
        this.title,
        h("button", { type: "button", class: "quiet", click: () => this.#leave() }, "Close"),
      ),
      this.note,
      this.body,
      this.actions,
    );
    document.body.append(this.dialog);
  }

  get isOpen() {
    return this.dialog.open;
  }

  // Whether there is text that nobody has saved.
  get isChanged() {
    return this.dialog.open && this.before !== null && this.input.value !== this.before;
  }

  close() {
    this.before = null;
    if (this.dialog.open) this.dialog.close();
  }

  // Closes what has no changes, or was to be closed before.
  #leave() {
    if (!this.isChanged || this.isAsked) {
      this.close();
      return;
    }
    this.isAsked = true;
    fill(this.note, alarm(new Error("The changes are not saved. Close again to discard them.")));
  }

  // Opens the document of a key, which is JSON.
  async open(db, c, key) {
    if (this.dialog.open && this.key === key && this.db === db && this.c === c) return;
    Object.assign(this, { db, c, key, etag: null });
    this.#show(key);
    fill(this.body, h("p", { class: "empty" }, "Reading …"));
    fill(this.actions);
    try {
      const found = await this.#read();
      if (this.key !== key) return;
      if (!found) {
        fill(this.body, h("p", { class: "empty" }, "There is no document with this key."));
        return;
      }
      this.etag = found.etag;
      this.before = found.text;
      this.input.value = found.text;
      this.#edit();
    } catch (error) {
      fill(this.body, alarm(error));
    }
  }

  // Opens an empty document.
  create(db, c) {
    Object.assign(this, { db, c, key: null, etag: null });
    this.#show("new document");
    const bytes = crypto.getRandomValues(new Uint8Array(12));
    new DataView(bytes.buffer).setUint32(0, Date.now() / 1000);
    const digits = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
    this.input.value = `{\n  "_id": { "$oid": "${digits}" },\n  \n}`;
    this.before = this.input.value;
    this.#edit();
    const end = this.input.value.length - 2;
    this.input.setSelectionRange(end, end);
  }

  #show(title) {
    fill(this.title, h("span", { class: "muted" }, `${this.db} / ${this.c} / `), title);
    fill(this.note);
    this.before = null;
    this.isAsked = false;
    if (!this.dialog.open) this.dialog.showModal();
  }

  #edit() {
    fill(this.body, this.input);
    this.dialog.classList.remove("wide");
    fill(
      this.actions,
      h(
        "button",
        {
          type: "button",
          class: "primary",
          title: "Ctrl+Enter",
          click: () => this.#save(),
        },
        this.key === null ? "Create" : "Save",
      ),
      h("button", { type: "button", click: () => this.#leave() }, "Cancel"),
      h("span", { class: "space" }),
      this.key !== null && dangerous("Delete", "Delete it?", () => this.#remove()),
    );
    this.input.focus();
    this.input.setSelectionRange(0, 0);
    this.input.scrollTop = 0;
  }

  #keys(event) {
    const isSave = event.key === "Enter" || event.key === "s";
    if (isSave && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      if (this.input.isConnected) this.#save();
    }
  }

  #path() {
    return documentPath(this.db, this.c, this.key);
  }

  // Returns the document as it is, or null.
  async #read() {
    const { status, text, etag } = await send(this.#path());
    if (status === 404) return null;
    if (status !== 200) throw failure(status, text);
    return { text: print(parse(text), 2), etag };
  }

  async #save() {
    fill(this.note);
    let document;
    try {
      document = parse(this.input.value);
      if (!(document instanceof Map)) throw new Error("expected a document { .. }");
      if (this.key === null && !document.has("_id")) throw new Error("expected a field _id");
    } catch (error) {
      fill(this.note, alarm(error));
      this.input.focus();
      return;
    }
    const isNew = this.key === null;
    const key = isNew ? print(document.get("_id")) : this.key;
    const condition =
      isNew || this.etag === null ? { "If-None-Match": "*" } : { "If-Match": this.etag };
    await this.#write("PUT", key, print(document), condition, isNew ? "Created" : "Saved");
  }

  async #remove() {
    fill(this.note);
    await this.#write("DELETE", this.key, undefined, { "If-Match": this.etag }, "Deleted");
  }

  async #write(method, key, body, condition, done) {
    const fields = {
      ...condition,
      ...(body === undefined ? {} : { "Content-Type": "application/json" }),
    };
    this.dialog.setAttribute("aria-busy", "true");
    try {
      const path = documentPath(this.db, this.c, key);
      const { status, text } = await send(path, { method, body, fields });
      if (status === 412) {
        if (this.key === null) throw new Error(`there is a document with the key ${key} already`);
        await this.#conflict(method);
        return;
      }
      if (status >= 300) throw failure(status, text);
      toast(`${done}.`);
      this.close();
      this.changed();
    } catch (error) {
      fill(this.note, alarm(error));
    } finally {
      this.dialog.removeAttribute("aria-busy");
    }
  }

  // Another write came first: shows its version beside this one.
  async #conflict(method) {
    const theirs = await this.#read();
    const mine = this.input.value;
    const isDelete = method === "DELETE";
    const text =
      theirs === null
        ? "Somebody has deleted this document since you opened it."
        : "Somebody has changed this document since you opened it.";
    fill(
      this.note,
      h(
        "div",
        { class: "alarm conflict", role: "alert" },
        h("strong", {}, "Conflict"),
        h("span", {}, text),
      ),
    );
    const [left, right] = compare(isDelete ? "" : tidy(mine), theirs?.text ?? "");
    this.dialog.classList.add("wide");
    const pane = (title, lines, mark) =>
      h(
        "section",
        {},
        h("h3", {}, title),
        h(
          "pre",
          { tabindex: 0, class: mark },
          lines.map(({ line, isOwn }) =>
            h("span", { class: isOwn ? "line own" : "line" }, `${line}\n`),
          ),
        ),
      );
    fill(
      this.body,
      h(
        "div",
        { class: "versions" },
        pane("Your version", left, "mine"),
        pane("The version on the server", right, "theirs"),
      ),
    );
    follow(...this.body.querySelectorAll("pre"));
    const overwrite = h(
      "button",
      {
        type: "button",
        class: "primary",
        click: () => {
          this.etag = theirs?.etag ?? null;
          if (isDelete) this.#remove();
          else this.#save();
        },
      },
      isDelete ? "Delete anyway" : theirs ? "Write my version" : "Create it again",
    );
    const take =
      theirs &&
      h(
        "button",
        {
          type: "button",
          click: () => {
            this.etag = theirs.etag;
            this.input.value = theirs.text;
            this.before = theirs.text;
            fill(this.note);
            this.#edit();
          },
        },
        "Take the server's version",
      );
    const goOn =
      theirs &&
      !isDelete &&
      h(
        "button",
        {
          type: "button",
          click: () => {
            this.etag = theirs.etag;
            fill(this.note);
            this.#edit();
          },
        },
        "Edit mine",
      );
    const isGone = isDelete && theirs === null;
    fill(
      this.actions,
      isGone ? null : overwrite,
      take,
      goOn,
      h("button", { type: "button", click: () => this.#leave() }, isGone ? "Close" : "Cancel"),
    );
    this.actions.querySelector("button:last-child").focus();
  }
}

// Scrolls two versions together, from where they first differ.
function follow(...panes) {
  for (const [pane, other] of [panes, [...panes].reverse()]) {
    pane.addEventListener("scroll", () => {
      if (Math.abs(other.scrollTop - pane.scrollTop) > 1) other.scrollTop = pane.scrollTop;
    });
  }
  const tops = panes.map((pane) => pane.querySelector(".own")?.offsetTop ?? Infinity);
  const first = Math.min(...tops.map((top, at) => top - panes[at].offsetTop));
  if (Number.isFinite(first)) for (const pane of panes) pane.scrollTop = first - 54;
}

function tidy(text) {
  try {
    return print(parse(text), 2);
  } catch {
    return text;
  }
}

// Returns the lines of both texts, and which of them the other one does not have.
function compare(left, right) {
  const [a, b] = [left.split("\n"), right.split("\n")];
  let start = 0;
  while (start < Math.min(a.length, b.length) && a[start] === b[start]) start += 1;
  let end = 0;
  const most = Math.min(a.length, b.length) - start;
  while (end < most && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const [inA, inB] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  const common =
    inA.length > COMPARED || inB.length > COMPARED ? [new Set(), new Set()] : longest(inA, inB);
  const marked = (lines, inner, kept) =>
    lines.map((line, at) => {
      const within = at - start;
      return { line, isOwn: within >= 0 && within < inner.length && !kept.has(within) };
    });
  return [marked(a, inA, common[0]), marked(b, inB, common[1])];
}

// Returns where the longest common part of two lists of lines lies in each.
function longest(a, b) {
  const width = b.length + 1;
  const lengths = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      const at = i * width + j;
      lengths[at] =
        a[i] === b[j]
          ? lengths[at + width + 1] + 1
          : Math.max(lengths[at + width], lengths[at + 1]);
    }
  }
  const [inA, inB] = [new Set(), new Set()];
  let [i, j] = [0, 0];
  while (i < a.length && j < b.length) {
    const at = i * width + j;
    if (a[i] === b[j]) {
      inA.add(i);
      inB.add(j);
      i += 1;
      j += 1;
    } else if (lengths[at + width] >= lengths[at + 1]) i += 1;
    else j += 1;
  }
  return [inA, inB];
}
