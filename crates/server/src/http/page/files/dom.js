// Elements and texts. All that comes from documents becomes text, never markup.

// Makes an element. Of its properties, functions are listeners, `style` has CSS properties, true
// and false are attributes without a value, and null is left out.
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value);
    else if (name === "style") {
      for (const [property, text] of Object.entries(value))
        element.style.setProperty(property, text);
    } else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

export function append(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
}

export function fill(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

let last = 0;

export function freshId() {
  last += 1;
  return `e${last}`;
}

const COUNT = new Intl.NumberFormat("en-US");

export function count(n) {
  return COUNT.format(n);
}

// A number with three digits and a unit: 1.23 k.
export function short(n) {
  for (const [unit, size] of [
    ["G", 1e9],
    ["M", 1e6],
    ["k", 1e3],
  ]) {
    if (n >= size * 0.9995) return `${digits(n / size)} ${unit}`;
  }
  return digits(n);
}

export function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (n >= 999.5 && at < units.length - 1) {
    n /= 1024;
    at += 1;
  }
  return `${at === 0 ? Math.round(n) : digits(n)} ${units[at]}`;
}

export function micros(n) {
  if (n === 0) return "0";
  if (n < 999.5) return `${digits(n)} µs`;
  if (n < 999_500) return `${digits(n / 1e3)} ms`;
  return `${digits(n / 1e6)} s`;
}

export function seconds(n) {
  const [days, hours, minutes] = [n / 86400, (n / 3600) % 24, (n / 60) % 60].map(Math.floor);
  if (days > 0) return `${days} d ${hours} h`;
  if (hours > 0) return `${hours} h ${minutes} min`;
  if (minutes > 0) return `${minutes} min ${Math.floor(n % 60)} s`;
  return `${Math.floor(n)} s`;
}

function digits(n) {
  if (n === 0) return "0";
  if (n >= 99.95) return n.toFixed(0);
  if (n >= 9.995) return n.toFixed(1).replace(/\.0$/, "");
  return n.toFixed(2).replace(/\.?0+$/, "");
}

const toasts = h("div", { class: "toasts", role: "status", "aria-live": "polite" });

// Says for a moment that something was done.
export function toast(text) {
  if (!toasts.isConnected) document.body.append(toasts);
  const note = h("div", { class: "toast" }, text);
  toasts.append(note);
  setTimeout(() => note.remove(), 4000);
}

const spoken = h("div", { class: "spoken", role: "status" });

// Tells those who hear the page what is drawn now.
export function announce(text) {
  if (!spoken.isConnected) document.body.append(spoken);
  spoken.textContent = text;
}

// What went wrong, in the server's words.
export function alarm(error) {
  const name = error.codeName ? h("strong", {}, error.codeName) : null;
  return h("div", { class: "alarm", role: "alert" }, name, h("span", {}, error.message));
}

// A button that asks again before it acts.
export function dangerous(label, again, act) {
  let asked = false;
  const button = h("button", { type: "button", class: "danger" }, label);
  const reset = () => {
    asked = false;
    button.textContent = label;
    button.classList.remove("asked");
  };
  button.addEventListener("click", () => {
    if (asked) {
      reset();
      act();
      return;
    }
    asked = true;
    button.textContent = again;
    button.classList.add("asked");
  });
  button.addEventListener("blur", reset);
  return button;
}

// A box for JSON that grows with its text.
export function box(properties) {
  const area = h("textarea", {
    spellcheck: "false",
    autocomplete: "off",
    autocapitalize: "off",
    rows: 1,
    ...properties,
  });
  const least = Number(properties.rows ?? 1);
  const fit = () => {
    const lines = area.value.split("\n").length;
    area.rows = Math.min(18, Math.max(least, lines));
  };
  area.addEventListener("input", fit);
  area.fit = fit;
  return area;
}

// Tabs: the arrow keys move between them.
export function tabs(label, items, chosen, choose) {
  const buttons = items.map(([id, text]) => {
    const isChosen = id === chosen;
    return h(
      "button",
      {
        type: "button",
        role: "tab",
        "aria-selected": String(isChosen),
        tabindex: isChosen ? 0 : -1,
        "data-tab": id,
        click: () => choose(id),
      },
      text,
    );
  });
  const move = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const at = buttons.indexOf(document.activeElement);
    const next = buttons[(at + step + buttons.length) % buttons.length];
    next.focus();
    choose(next.dataset.tab);
  };
  return h("div", { class: "tabs", role: "tablist", "aria-label": label, keydown: move }, buttons);
}
