// The page: who is logged in, what is shown, and the keys that work everywhere.

import { command, loggedIn, logIn, logOut, onLoginNeeded } from "./api.js";
import { CollectionView } from "./collection.js";
import { Editor } from "./document.js";
import { alarm, fill, freshId, h, seconds } from "./dom.js";
import { Overview } from "./overview.js";
import { Sampler } from "./sampler.js";
import { Sidebar } from "./sidebar.js";
import { change, go, onState, state } from "./state.js";

const KEYS = [
  ["/", "filter the collections"],
  ["g", "overview"],
  ["n", "new document"],
  ["Ctrl Enter", "find, run, save"],
  ["↑ ↓ Enter", "choose a collection or a document"],
  ["← →", "change the tab"],
  ["Esc", "close"],
  ["?", "these keys"],
];

const sampler = new Sampler();
const sidebar = new Sidebar(() => newCollection());
const editor = new Editor({
  changed: () => view?.again?.(),
  closed: () => change({ doc: "" }, { replace: true }),
});
const main = h("main", {});
const banner = h("div", { class: "banner", role: "status" });
const server = h("span", { class: "server figure" });
const who = h("span", {});
const menu = h(
  "button",
  {
    type: "button",
    class: "menu",
    "aria-expanded": "false",
    "aria-label": "Collections",
    click: () => setMenu(!document.body.classList.contains("open")),
  },
  "☰",
);

let view = null;
let shownKey = null;

function setMenu(open) {
  document.body.classList.toggle("open", open);
  menu.setAttribute("aria-expanded", String(open));
}

function show(now) {
  const has = now.db !== undefined && now.c !== undefined;
  const key = has ? JSON.stringify([now.db, now.c]) : "overview";
  if (key !== shownKey) {
    view?.end();
    const given = {
      db: now.db,
      c: now.c,
      sampler,
      editor,
      changed: (db, c) => sidebar.changed(db, c),
      dropped: () => {
        sidebar.refresh();
        go({});
      },
    };
    view = has ? new CollectionView(given) : new Overview(sampler);
    const isFirst = shownKey === null;
    shownKey = key;
    document.title = has ? `${now.db}.${now.c} · flagstone` : "flagstone";
    fill(main, view.element);
    main.scrollTop = 0;
    setMenu(false);
    // Whoever reads the page aloud hears what is shown now; the list keeps the focus.
    if (!isFirst && !sidebar.element.contains(document.activeElement))
      main.querySelector("h1").focus();
  }
  sidebar.update(now);
  view.update(now);
  if (has && now.doc !== undefined) editor.open(now.db, now.c, now.doc);
  else if (editor.isOpen && editor.key !== null && !editor.isChanged) editor.close();
}

function drawState() {
  const { status, error } = sampler;
  if (error && error.status !== 401) fill(banner, alarm(error), h("span", {}, "Trying again …"));
  else fill(banner);
  document.body.classList.toggle("away", error !== null);
  if (status) {
    fill(
      server,
      h("i", { class: "light" }),
      location.host,
      h("span", { class: "muted" }, ` flagstone ${status.storageEngine.version}`),
    );
    server.title = `${status.host}, process ${status.pid}, up ${seconds(status.uptime)}`;
  }
}

function frame() {
  fill(
    document.body,
    h(
      "a",
      {
        class: "skip",
        href: "#",
        click: (event) => {
          event.preventDefault();
          main.querySelector("h1")?.focus();
        },
      },
      "Skip to the content",
    ),
    h(
      "header",
      { class: "top" },
      menu,
      h(
        "a",
        { class: "mark", href: "#" },
        h("img", { src: "page/icon.svg", alt: "" }),
        "flagstone",
      ),
      server,
      h("span", { class: "space" }),
      who,
      h("button", { type: "button", class: "quiet", click: showKeys }, "Keys ", h("kbd", {}, "?")),
    ),
    banner,
    h("div", { class: "parts" }, sidebar.element, main),
    editor.dialog,
    keys,
    login,
    creation,
  );
}

// The keys.

const keys = h(
  "dialog",
  { class: "small" },
  h("h2", {}, "Keys"),
  h(
    "dl",
    {},
    KEYS.map(([key, what]) => [
      h(
        "dt",
        {},
        key.split(" ").map((one) => h("kbd", {}, one)),
      ),
      h("dd", {}, what),
    ]),
  ),
  h(
    "p",
    { class: "note" },
    "Charts are drawn by ",
    h("a", { href: "page/uplot.LICENSE" }, "uPlot"),
    ", © Leon Sorokin, MIT.",
  ),
  h(
    "footer",
    { class: "actions" },
    h("button", { type: "button", autofocus: true, click: () => keys.close() }, "Close"),
  ),
);

function showKeys() {
  if (!keys.open) keys.showModal();
}

addEventListener("keydown", (event) => {
  const isTyping = event.target.matches?.("input, textarea, select");
  const isPlain = !event.ctrlKey && !event.metaKey && !event.altKey;
  if (isTyping || !isPlain || document.querySelector("dialog[open]")) return;
  const act = {
    "/": () => {
      setMenu(true);
      sidebar.focusSearch();
    },
    "?": showKeys,
    g: () => go({}),
    n: () => {
      const { db, c } = state();
      if (db !== undefined && c !== undefined) editor.create(db, c);
    },
  }[event.key];
  if (!act) return;
  event.preventDefault();
  act();
});

addEventListener("beforeunload", (event) => {
  if (editor.isChanged) event.preventDefault();
});

// The login.

let isNeeded = false;
const ids = [freshId(), freshId(), freshId(), freshId()];
const name = h("input", {
  id: ids[0],
  autocomplete: "username",
  required: true,
  spellcheck: "false",
});
const password = h("input", { id: ids[1], type: "password", autocomplete: "current-password" });
const loginNote = h("div", { "aria-live": "polite" });
// A browser lets nobody be held by a dialog: it is opened again.
const login = h(
  "dialog",
  { class: "small", close: () => isNeeded && login.showModal() },
  h(
    "form",
    { submit: tryLogin },
    h("h2", {}, "Log in"),
    h("p", { class: "note" }, location.host),
    loginNote,
    h("div", { class: "field" }, h("label", { for: ids[0] }, "User"), name),
    h("div", { class: "field" }, h("label", { for: ids[1] }, "Password"), password),
    location.protocol === "http:" && !isOwnMachine()
      ? h("p", { class: "note" }, "This connection is not encrypted: others may read the password.")
      : null,
    h("footer", { class: "actions" }, h("button", { type: "submit", class: "primary" }, "Log in")),
  ),
);

function isOwnMachine() {
  return /^(?:localhost|127\.\d+\.\d+\.\d+|\[::1\])$/.test(location.hostname);
}

async function tryLogin(event) {
  event.preventDefault();
  logIn(name.value, password.value);
  try {
    await command("admin", { ping: 1 });
  } catch (error) {
    logOut();
    fill(loginNote, alarm(error));
    password.focus();
    password.select();
    return;
  }
  password.value = "";
  isNeeded = false;
  document.body.classList.remove("locked");
  login.close();
  start();
}

onLoginNeeded(() => {
  if (login.open) return;
  logOut();
  sampler.stop();
  sidebar.stop();
  fill(loginNote);
  fill(who);
  isNeeded = true;
  document.body.classList.add("locked");
  login.showModal();
  name.focus();
});

// A new collection.

const database = h("input", {
  id: ids[2],
  required: true,
  spellcheck: "false",
  autocomplete: "off",
});
const collection = h("input", {
  id: ids[3],
  required: true,
  spellcheck: "false",
  autocomplete: "off",
});
const creationNote = h("div", { "aria-live": "polite" });
const creation = h(
  "dialog",
  { class: "small" },
  h(
    "form",
    { submit: tryCreate },
    h("h2", {}, "New collection"),
    creationNote,
    h("div", { class: "field" }, h("label", { for: ids[2] }, "Database"), database),
    h("div", { class: "field" }, h("label", { for: ids[3] }, "Collection"), collection),
    h(
      "footer",
      { class: "actions" },
      h("button", { type: "submit", class: "primary" }, "Create"),
      h("button", { type: "button", click: () => creation.close() }, "Cancel"),
    ),
  ),
);

function newCollection() {
  fill(creationNote);
  database.value = state().db ?? "main";
  collection.value = "";
  creation.showModal();
  (database.value === "" ? database : collection).focus();
}

async function tryCreate(event) {
  event.preventDefault();
  try {
    await command(database.value, { create: collection.value });
    creation.close();
    await sidebar.refresh();
    go({ db: database.value, c: collection.value });
  } catch (error) {
    fill(creationNote, alarm(error));
  }
}

function start() {
  const user = loggedIn();
  fill(
    who,
    user === null
      ? null
      : [
          h("span", { class: "muted" }, user),
          " ",
          h(
            "button",
            {
              type: "button",
              class: "quiet",
              click: () => {
                logOut();
                location.reload();
              },
            },
            "Log out",
          ),
        ],
  );
  sampler.start();
  sidebar.refresh();
  shownKey = null;
  show(state());
}

frame();
sampler.listen(drawState);
onState(show);
start();
