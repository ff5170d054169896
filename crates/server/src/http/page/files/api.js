// Calls the server.

import { print, parse } from "./json.js";

const ROOT = new URL("../", import.meta.url);

// What a request failed with: the message is the server's own.
class Failed extends Error {
  constructor(message, { status = 0, name = "" } = {}) {
    super(message);
    this.status = status;
    this.codeName = name;
  }
}

// The credentials of the user who has logged in. They live as long as the page.
let authorization = null;
let user = null;
let askedToLogIn = () => {};

export function onLoginNeeded(listener) {
  askedToLogIn = listener;
}

export function loggedIn() {
  return user;
}

export function logIn(name, password) {
  const bytes = new TextEncoder().encode(`${name}:${password}`);
  authorization = `Basic ${btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""))}`;
  user = name;
}

export function logOut() {
  authorization = null;
  user = null;
}

export function address(path) {
  return new URL(path, ROOT);
}

export function headers(more = {}) {
  return authorization ? { ...more, Authorization: authorization } : more;
}

// Returns the error that an answer is.
export function failure(status, text) {
  let reply;
  try {
    reply = JSON.parse(text);
  } catch {
    return new Failed(text.trim() || `the server answered with status ${status}`, { status });
  }
  const first = reply.writeErrors?.[0];
  const message = first?.errmsg ?? reply.errmsg ?? `the server answered with status ${status}`;
  return new Failed(message, { status, name: reply.codeName ?? "" });
}

// Sends a request. The browser adds no credentials and asks for none: the page does.
export async function send(path, { method = "GET", body, fields = {}, signal } = {}) {
  let response;
  try {
    const options = { method, body, signal, headers: headers(fields), credentials: "omit" };
    response = await fetch(address(path), { ...options, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failed("The server cannot be reached. Is flagstone serve running?");
  }
  const text = await response.text();
  if (response.status === 401) askedToLogIn(authorization !== null);
  return { status: response.status, text, etag: response.headers.get("ETag") };
}

async function run(db, command, signal) {
  const body = print({ db, command });
  const { status, text } = await send("v1/command", { method: "POST", body, signal });
  if (status !== 200) throw failure(status, text);
  return text;
}

// Runs a command. The reply has JavaScript's own objects and numbers.
export async function command(db, command, signal) {
  return JSON.parse(await run(db, command, signal));
}

// Runs a command whose reply has documents: maps, with exact numbers.
export async function documents(db, command, signal) {
  return parse(await run(db, command, signal));
}

export function documentPath(db, collection, key) {
  return `v1/${[db, collection, key].map(encodeURIComponent).join("/")}`;
}

// Returns the names of all collections, by database.
export async function names() {
  const { databases } = await command("admin", { listDatabases: 1, nameOnly: true });
  const all = databases.map(async ({ name: db }) => {
    // The number of a cursor has 64 bits.
    const names = [];
    const list = { listCollections: 1, nameOnly: true };
    let cursor = (await documents(db, list)).get("cursor");
    names.push(...cursor.get("firstBatch"));
    while (print(cursor.get("id")) !== "0") {
      const getMore = { getMore: cursor.get("id"), collection: "$cmd.listCollections" };
      cursor = (await documents(db, getMore)).get("cursor");
      names.push(...cursor.get("nextBatch"));
    }
    return names.map((one) => ({ db, name: one.get("name") }));
  });
  return (await Promise.all(all)).flat();
}
