// JSON with exact numbers and fields in their order. JavaScript's own numbers have 53 bits, and its
// objects reorder fields such as "10", so documents are maps here, and numbers keep their text.

class Num {
  constructor(text) {
    this.text = text;
  }
}

const SPACE = /[ \t\r\n]*/y;
const STRING = /"(?:[^"\\\u0000-\u001f]|\\.)*"/y;
const QUOTED = /'(?:[^'\\\u0000-\u001f]|\\.)*'/y;
const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const WORD = /[A-Za-z_$][\w$]*/y;
const DOTTED = /[A-Za-z_$][\w$.]*/y;

// Parses JSON: maps as Map, numbers as Num. What people type may also have names without quotes,
// text in single quotes, a last comma, ObjectId("..") and ISODate("..").
export function parse(text) {
  let at = 0;
  const fail = (expected) => {
    const line = text.slice(0, at).split("\n");
    const found = at < text.length ? JSON.stringify(text.slice(at, at + 12)) : "the end";
    throw new SyntaxError(
      `line ${line.length}, column ${line.at(-1).length + 1}: expected ${expected}, found ${found}`,
    );
  };
  const take = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text);
    if (!found) return undefined;
    at = pattern.lastIndex;
    return found[0];
  };
  const space = () => take(SPACE);
  const eat = (mark) => {
    space();
    if (text[at] !== mark) return false;
    at += 1;
    return true;
  };
  const string = () => {
    const start = at;
    const found = take(STRING);
    if (found !== undefined) {
      try {
        return JSON.parse(found);
      } catch {
        at = start;
        fail("text with the escapes of JSON");
      }
    }
    const quoted = take(QUOTED);
    if (quoted === undefined) return undefined;
    const inside = quoted.slice(1, -1).replace(/\\'|"/g, (it) => (it === '"' ? '\\"' : "'"));
    try {
      return JSON.parse(`"${inside}"`);
    } catch {
      at = start;
      return fail("text with the escapes of JSON");
    }
  };
  const name = () => {
    const found = string() ?? take(DOTTED);
    return found === undefined ? fail("the name of a field") : found;
  };
  const call = (word) => {
    space();
    const argument = string();
    if (argument === undefined) fail("text in quotes");
    if (!eat(")")) fail(")");
    return new Map([[word === "ObjectId" ? "$oid" : "$date", argument]]);
  };
  const value = () => {
    space();
    if (eat("{")) {
      const map = new Map();
      while (!eat("}")) {
        space();
        const key = name();
        if (map.has(key)) fail(`another name than ${JSON.stringify(key)}, which is there already`);
        if (!eat(":")) fail(":");
        map.set(key, value());
        if (!eat(",") && (space(), text[at] !== "}")) fail(", or }");
      }
      return map;
    }
    if (eat("[")) {
      const list = [];
      while (!eat("]")) {
        list.push(value());
        if (!eat(",") && (space(), text[at] !== "]")) fail(", or ]");
      }
      return list;
    }
    const quoted = string();
    if (quoted !== undefined) return quoted;
    const number = take(NUMBER);
    if (number !== undefined) return new Num(number);
    const start = at;
    const word = take(WORD);
    if (word === "true" || word === "false") return word === "true";
    if (word === "null") return null;
    if ((word === "ObjectId" || word === "ISODate") && eat("(")) return call(word);
    at = start;
    return fail("a value");
  };
  const parsed = value();
  space();
  if (at < text.length) fail("the end");
  return parsed;
}

// Prints a value: also plain objects and numbers, of which commands are made.
export function print(value, indent = 0, depth = 0) {
  if (value instanceof Num) return value.text;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const isList = Array.isArray(value);
  const fields = isList ? value : value instanceof Map ? [...value] : Object.entries(value);
  const [open, close] = isList ? "[]" : "{}";
  if (fields.length === 0) return open + close;
  const texts = fields.map((field) => {
    if (isList) return print(field, indent, depth + 1);
    const text = print(field[1], indent, depth + 1);
    return `${JSON.stringify(field[0])}:${indent ? " " : ""}${text}`;
  });
  if (!indent) return open + texts.join(",") + close;
  const inner = "\n" + " ".repeat(indent * (depth + 1));
  const outer = "\n" + " ".repeat(indent * depth);
  return open + inner + texts.join("," + inner) + outer + close;
}

// What a value is, and its text in one line: for cells.
export function shown(value, most = 160) {
  const cut = (text) => (text.length > most ? `${text.slice(0, most)}…` : text);
  if (value === undefined) return { kind: "absent", text: "" };
  if (value === null) return { kind: "null", text: "null" };
  if (value instanceof Num) return { kind: "number", text: value.text };
  if (typeof value === "string") return { kind: "text", text: cut(value) };
  if (typeof value === "boolean") return { kind: "bool", text: String(value) };
  if (value instanceof Map && value.size === 1) {
    const [name, inner] = [...value][0];
    if (name === "$oid" || name === "$uuid") return { kind: "id", text: String(inner) };
    if (name === "$date" && typeof inner === "string") return { kind: "date", text: inner };
    if (name.startsWith("$number")) return { kind: "number", text: String(inner) };
  }
  return { kind: "inner", text: cut(brief(value, most)) };
}

// Prints the beginning of a value: a document can have megabytes.
function brief(value, most) {
  if (value === null || typeof value !== "object" || value instanceof Num) {
    const text = typeof value === "string" ? value.slice(0, most) : value;
    return print(text);
  }
  const isList = Array.isArray(value);
  let text = isList ? "[" : "{";
  let first = true;
  for (const field of value) {
    if (text.length > most) return `${text} …`;
    text += first ? "" : ", ";
    first = false;
    text += isList ? brief(field, most) : `${field[0]}: ${brief(field[1], most)}`;
  }
  return text + (isList ? "]" : "}");
}
