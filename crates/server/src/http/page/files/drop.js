// Drops a collection, once its name was typed.

import { command } from "./api.js";
import { alarm, fill, freshId, h, toast } from "./dom.js";

// Makes the button, and the dialog that it opens. `dropped` is called when the collection is gone.
export function dropper(db, c, dropped) {
  const id = freshId();
  const note = h("div", { "aria-live": "polite" });
  const typed = h("input", {
    id,
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    input: () => {
      drop.disabled = typed.value !== c;
    },
  });
  const drop = h("button", { type: "submit", class: "danger", disabled: true }, "Drop collection");
  const act = async (event) => {
    event.preventDefault();
    if (typed.value !== c) return;
    drop.disabled = true;
    try {
      await command(db, { drop: c });
      dialog.close();
      toast(`${db}.${c} is dropped.`);
      dropped();
    } catch (error) {
      fill(note, alarm(error));
      drop.disabled = false;
    }
  };
  const title = freshId();
  const dialog = h(
    "dialog",
    { class: "small", "aria-labelledby": title },
    h(
      "form",
      { submit: act },
      h("h2", { id: title }, "Drop collection"),
      h(
        "p",
        { class: "note" },
        "All documents and indexes of ",
        h("strong", {}, `${db}.${c}`),
        " are removed. They cannot be brought back.",
      ),
      note,
      h(
        "div",
        { class: "field" },
        h("label", { for: id }, "Type the collection\u2019s name"),
        typed,
      ),
      h(
        "footer",
        { class: "actions" },
        drop,
        h("button", { type: "button", click: () => dialog.close() }, "Cancel"),
      ),
    ),
  );
  const ask = () => {
    fill(note);
    typed.value = "";
    drop.disabled = true;
    dialog.showModal();
    typed.focus();
  };
  const button = h("button", { type: "button", class: "danger", click: ask }, "Drop \u2026");
  return { button, dialog };
}
