// What is shown, as the part of the address after #: links can be shared, and Back goes back.

const listeners = new Set();

export function state() {
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
}

// Shows something else. What is empty is left out of the address.
export function go(next, { replace = false } = {}) {
  const fields = Object.entries(next).filter(([, value]) => value !== "" && value !== undefined);
  const hash = `#${new URLSearchParams(fields)}`;
  if (hash === (location.hash || "#")) {
    tell();
    return;
  }
  if (replace) history.replaceState(null, "", hash);
  else history.pushState(null, "", hash);
  tell();
}

// Changes a part of what is shown.
export function change(fields, options) {
  go({ ...state(), ...fields }, options);
}

export function onState(listener) {
  listeners.add(listener);
}

function tell() {
  const now = state();
  for (const listener of listeners) listener(now);
}

addEventListener("hashchange", tell);
