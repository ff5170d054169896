// What takes long: index builds, which the server tells, and loads, which this page sends.

import { address, failure, headers } from "./api.js";
import { alarm, bytes, count, fill, h } from "./dom.js";

const loads = new Set();

// Leaving the page would cut them.
addEventListener("beforeunload", (event) => {
  if ([...loads].some((load) => load.isRunning)) event.preventDefault();
});

// Draws a bar for each job of a namespace, or of all. A bar that is there stays, so that its button
// can be pressed.
export function drawJobs(place, builds, ns = null) {
  const all = [
    ...[...loads].map((load) => ({ ...load, key: `load ${load.id}` })),
    ...builds.map((build) => ({ ...build, key: `index ${build.ns} ${build.index}` })),
  ];
  const jobs = all.filter((job) => ns === null || job.ns === ns);
  const there = new Map([...place.children].map((bar) => [bar.dataset.job, bar]));
  const bars = jobs.map((job) => {
    const bar =
      there.get(job.key) ??
      h(
        "div",
        { class: "card job", "data-job": job.key },
        h("span", {}),
        h("progress", { "aria-label": job.index ?? job.name }),
        h("span", { class: "figure" }),
        h("button", { type: "button", click: job.end }),
        h("div", {}),
      );
    const write = job.index === undefined ? writeLoad : writeBuild;
    write(job, ...bar.children);
    return bar;
  });
  const isSame =
    bars.length === place.children.length && bars.every((bar, at) => bar === place.children[at]);
  if (!isSame) place.replaceChildren(...bars);
}

function writeBuild(build, title, progress, figure, button) {
  const reads = build.entriesWritten === 0;
  const [done, all] = reads
    ? [build.documents, build.documentsTotal]
    : [build.entriesWritten, build.entries];
  fill(title, "Building index ", h("strong", {}, build.index), ` of ${build.ns}`);
  progress.max = Math.max(all, 1);
  progress.value = Math.min(done, all);
  const what = reads ? "documents read" : "entries written";
  figure.textContent = all === 0 ? "begins" : `${count(done)} of about ${count(all)} ${what}`;
  button.hidden = true;
}

let last = 0;

function writeLoad(load, title, progress, figure, button, note) {
  const { name, ns, size, sent, line, isRunning, error } = load;
  const began = isRunning ? "Loading " : error ? "Could not load all of " : "Loaded ";
  fill(title, began, h("strong", {}, name), ` into ${ns}`);
  progress.max = size || 1;
  progress.value = sent;
  progress.hidden = !isRunning;
  const documents = line?.loaded ?? line?.documents;
  figure.textContent = [
    isRunning && `${bytes(sent)} of ${bytes(size)}`,
    documents !== undefined && `${count(documents)} documents`,
    line?.bad_documents > 0 && `${count(line.bad_documents)} left out`,
    line?.existing_documents > 0 && `${count(line.existing_documents)} exist`,
    !isRunning && line && `${line.seconds} s`,
    line && `${count(line.documents_per_second)} documents/s`,
  ]
    .filter(Boolean)
    .join(", ");
  button.textContent = isRunning ? "Cancel" : "Dismiss";
  if (error && note.childElementCount === 0) fill(note, alarm(error));
}

// Sends a file. `changed` is told of its progress and of its end.
export function startLoad({ db, c, file, parameters, changed }) {
  last += 1;
  const load = {
    id: String(last),
    name: file.name,
    ns: `${db}.${c}`,
    size: file.size,
    sent: 0,
    line: null,
    isRunning: true,
    error: null,
  };
  const request = new XMLHttpRequest();
  load.end = () => {
    if (load.isRunning) request.abort();
    else loads.delete(load);
    changed(false);
  };
  loads.add(load);
  const place = [db, c].map(encodeURIComponent).join("/");
  const url = address(`v1/${place}/load?${new URLSearchParams(parameters)}`);
  request.open("POST", url);
  for (const [field, text] of Object.entries(headers({ "Content-Type": kindOf(file.name) }))) {
    request.setRequestHeader(field, text);
  }
  request.upload.addEventListener("progress", ({ loaded }) => {
    load.sent = loaded;
    changed(false);
  });
  request.addEventListener("progress", () => {
    load.line = lastLine(request.responseText) ?? load.line;
    changed(false);
  });
  const finish = (error) => {
    load.isRunning = false;
    load.error = error;
    changed(true);
  };
  request.addEventListener("load", () => {
    const line = lastLine(request.responseText);
    if (line && ("loaded" in line || "$error" in line)) {
      load.line = line;
      const refused = line.$error;
      finish(refused ? failure(request.status, JSON.stringify(refused)) : null);
    } else finish(failure(request.status, request.responseText));
  });
  request.addEventListener("error", () =>
    finish(new Error("The connection to the server was lost.")),
  );
  request.addEventListener("abort", () => finish(new Error("It was cancelled.")));
  request.send(file);
  changed(false);
}

// Returns the last whole line of an answer that has documents.
function lastLine(text) {
  const lines = text.split("\n").slice(0, -1);
  try {
    return JSON.parse(lines.at(-1));
  } catch {
    return null;
  }
}

// The server sees by itself whether a file is compressed.
function kindOf(name) {
  const plain = name.toLowerCase().replace(/\.(?:gz|zst)$/, "");
  if (plain.endsWith(".csv")) return "text/csv";
  if (plain.endsWith(".tsv")) return "text/tab-separated-values";
  return "application/x-ndjson";
}
