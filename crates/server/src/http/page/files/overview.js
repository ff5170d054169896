// The server now and in the last minutes.

import { Chart, tile } from "./charts.js";
import { h, fill, bytes, count, micros, seconds, short } from "./dom.js";
import { drawJobs } from "./jobs.js";
import { change, state } from "./state.js";

const SPANS = [
  ["60", "1 min"],
  ["300", "5 min"],
  ["900", "15 min"],
];

const perSecond = (n) => `${short(n)}/s`;
const bytesPerSecond = (n) => `${bytes(n)}/s`;
const millis = (n) => micros(n * 1000);
const size = (n) => bytes(n);
bytesPerSecond.base = 1024;
bytesPerSecond.least = 1024;
size.base = 1024;
size.least = 1024;
perSecond.least = 4;
millis.least = 10;

const CHARTS = [
  {
    title: "Operations",
    kind: "stack",
    format: perSecond,
    total: "operations",
    series: [
      { label: "query", key: "query", color: "c1" },
      { label: "getMore", key: "getmore", color: "c6" },
      { label: "insert", key: "insert", color: "c2" },
      { label: "update", key: "update", color: "c3" },
      { label: "delete", key: "delete", color: "c5" },
    ],
  },
  {
    title: "Latency",
    kind: "log",
    format: micros,
    total: null,
    series: [
      { label: "read median", key: "reads50", color: "c1" },
      { label: "p99", key: "reads99", color: "c1", dash: [4, 3] },
      { label: "write median", key: "writes50", color: "c2" },
      { label: "p99", key: "writes99", color: "c2", dash: [4, 3] },
    ],
  },
  {
    title: "Stalls",
    format: millis,
    series: [{ label: "writers stopped or slowed, each second", key: "stalled", color: "c5" }],
  },
  {
    title: "Memory",
    kind: "stack",
    format: size,
    total: "resident",
    series: [
      { label: "memtables", key: "memtables", color: "c2" },
      { label: "block cache", key: "cache", color: "c1" },
      { label: "indexes, filters, scans", key: "pinned", color: "c4" },
    ],
  },
  {
    title: "Tables by level",
    kind: "stack",
    format: size,
    total: "tables",
    isSparse: true,
    series: [0, 1, 2, 3, 4, 5, 6].map((level) => ({
      label: `L${level}${level === 6 ? "+" : ""}`,
      key: `level${level}`,
      color: `c${level + 1}`,
    })),
  },
  {
    title: "Log",
    format: bytesPerSecond,
    series: [{ label: "written", key: "logWritten", color: "c3" }],
  },
  {
    title: "Syncs of the log",
    format: perSecond,
    series: [{ label: "syncs", key: "syncs", color: "c4" }],
  },
  {
    title: "Background writes",
    kind: "stack",
    format: bytesPerSecond,
    total: null,
    series: [
      { label: "flushes", key: "flushed", color: "c2" },
      { label: "compactions", key: "compacted", color: "c3" },
    ],
  },
  {
    title: "Blocks read",
    kind: "stack",
    format: perSecond,
    total: null,
    series: [
      { label: "from the cache", key: "hits", color: "c1" },
      { label: "from files", key: "misses", color: "c5" },
    ],
  },
];

export class Overview {
  constructor(sampler) {
    this.sampler = sampler;
    this.charts = CHARTS.map((options) => new Chart(options));
    this.tiles = {
      operations: tile("Operations"),
      reads: tile("Read latency, p99"),
      writes: tile("Write latency, p99"),
      memory: tile("Memory"),
      disk: tile("Tables"),
      connections: tile("Connections"),
    };
    this.jobs = h("div", { class: "jobs" });
    this.spans = h("div", { class: "choices", role: "group", "aria-label": "Time" });
    this.pause = h(
      "button",
      {
        type: "button",
        "aria-pressed": "false",
        click: () => sampler.pause(!sampler.paused),
      },
      "Pause",
    );
    this.element = h(
      "div",
      { class: "view" },
      h(
        "header",
        { class: "head" },
        h("h1", { tabindex: -1 }, "Overview"),
        h("div", { class: "actions" }, this.spans, this.pause),
      ),
      h(
        "div",
        { class: "tiles" },
        Object.values(this.tiles).map((one) => one.element),
      ),
      this.jobs,
      h(
        "div",
        { class: "charts" },
        this.charts.map((chart) => chart.element),
      ),
    );
    this.#unlisten = sampler.listen(() => this.#draw());
    this.#scheme.addEventListener("change", this.#recolor);
  }

  #unlisten;
  #scheme = matchMedia("(prefers-color-scheme: dark)");
  #recolor = () => this.charts.forEach((chart) => chart.recolor());

  update({ span }) {
    this.span = Number(SPANS.find(([id]) => id === span)?.[0] ?? 60);
    fill(
      this.spans,
      SPANS.map(([id, text]) =>
        h(
          "button",
          {
            type: "button",
            "aria-pressed": String(Number(id) === this.span),
            click: () => {
              change({ span: id }, { replace: true });
              [...this.spans.children].find((one) => one.textContent === text)?.focus();
            },
          },
          text,
        ),
      ),
    );
    this.#draw();
  }

  end() {
    this.#unlisten();
    this.#scheme.removeEventListener("change", this.#recolor);
    this.charts.forEach((chart) => chart.end());
  }

  #draw() {
    const { sampler } = this;
    this.pause.setAttribute("aria-pressed", String(sampler.paused));
    this.pause.textContent = sampler.paused ? "Go on" : "Pause";
    const rows = sampler.rows.slice(-(this.span + 2));
    this.charts.forEach((chart) => chart.draw(rows, this.span));
    const row = rows.at(-1);
    const { status } = sampler;
    if (!row || !status) return;
    const engine = status.flagstone;
    const of = (value, format) => (value === undefined || value === null ? "–" : format(value));
    this.tiles.operations.write(
      of(row.operations, perSecond),
      of(row.failed, (n) => `${perSecond(n)} failed`),
    );
    this.tiles.reads.write(of(row.reads99, micros), `median ${of(row.reads50, micros)}`);
    this.tiles.writes.write(of(row.writes99, micros), `median ${of(row.writes50, micros)}`);
    this.tiles.memory.write(of(row.resident, bytes), `budget ${bytes(engine.memoryBudget)}`);
    const tables = engine.levels.reduce((sum, level) => sum + level.tables, 0);
    this.tiles.disk.write(
      of(row.tables, bytes),
      `${count(tables)} files, log ${bytes(engine.logBytes)}`,
    );
    this.tiles.connections.write(of(row.connections, count), `up ${seconds(status.uptime)}`);
    drawJobs(this.jobs, engine.indexBuilds);
  }
}
