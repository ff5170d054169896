// Charts of the last minutes. The newest value is at the right; the grid stands still.

import { h, fill } from "./dom.js";

/* global uPlot */

const HEIGHT = 148;

// A chart: `series` are [{ label, key, color }], `format` prints a value. `kind` is "lines",
// "stack" (areas on each other) or "log" (lines over powers of ten). `isSparse` leaves out the names
// of series that are 0 all the time.
export class Chart {
  constructor({ title, note, series, format, kind = "lines", total, isSparse }) {
    this.series = series;
    this.isSparse = isSparse;
    this.format = format;
    this.kind = kind;
    this.total = total;
    this.rows = [];
    this.span = 300;
    this.at = null;
    this.value = h("span", { class: "value" }, "–");
    this.texts = series.map(() => h("span", { class: "figure" }, "–"));
    this.marks = series.map((one, at) =>
      h(
        "span",
        { class: "mark" },
        h("i", { class: one.dash ? "dashed" : null, style: { "--color": `var(--${one.color})` } }),
        one.label,
        " ",
        this.texts[at],
      ),
    );
    this.place = h("div", { class: "plot" });
    this.element = h(
      "section",
      { class: "card chart", "aria-label": title },
      h("header", {}, h("h3", {}, title), this.value),
      h("div", { class: "marks" }, this.marks),
      this.place,
      note ? h("p", { class: "note" }, note) : null,
    );
    this.watch = new ResizeObserver(() => this.#resize());
    this.watch.observe(this.place);
  }

  // Draws these rows, of the last `span` seconds.
  draw(rows, span) {
    this.rows = rows;
    this.span = span;
    if (!this.plot && this.place.clientWidth > 0) this.#make();
    if (this.plot) {
      this.data = this.#columns();
      this.plot.setData(this.data, false);
      const now = rows.length > 0 ? rows.at(-1).time : Date.now() / 1000;
      this.plot.batch(() => {
        this.plot.setScale("x", { min: now - span, max: now });
        const [min, max] = this.#limits();
        this.plot.setScale("y", { min, max });
      });
    }
    this.#write();
  }

  // Draws with the colours of today's scheme.
  recolor() {
    this.plot?.destroy();
    this.plot = null;
    this.draw(this.rows, this.span);
  }

  end() {
    this.watch.disconnect();
    this.plot?.destroy();
    this.plot = null;
  }

  #resize() {
    if (this.place.clientWidth === 0) return;
    if (!this.plot) this.draw(this.rows, this.span);
    else if (this.plot.width !== this.place.clientWidth) {
      this.plot.setSize({ width: this.place.clientWidth, height: HEIGHT });
    }
  }

  // Of a stack, the upper areas are drawn first: each begins at 0, and hides what is below.
  #columns() {
    const columns = [this.rows.map((row) => row.time)];
    const sums = this.rows.map(() => 0);
    for (const { key } of this.series) {
      columns.push(
        this.rows.map((row, at) => {
          const value = row[key];
          if (value === undefined || value === null) return null;
          if (this.kind !== "stack") return value;
          sums[at] += value;
          return sums[at];
        }),
      );
    }
    if (this.kind === "stack") columns.splice(1, columns.length, ...columns.slice(1).reverse());
    return columns;
  }

  #limits() {
    const from = (this.rows.at(-1)?.time ?? 0) - this.span;
    let [least, most] = [Infinity, 0];
    for (let at = 0; at < this.rows.length; at += 1) {
      if (this.rows[at].time < from) continue;
      for (let column = 1; column < this.data.length; column += 1) {
        const value = this.data[column][at];
        if (value === null) continue;
        most = Math.max(most, value);
        if (value > 0) least = Math.min(least, value);
      }
    }
    if (this.kind === "log") {
      if (most === 0) return [10, 1000];
      const low = 10 ** Math.floor(Math.log10(Math.max(1, least)));
      return [low, Math.max(low * 10, 10 ** Math.ceil(Math.log10(most * 1.001)))];
    }
    const base = this.format.base ?? 10;
    return [0, roundUp(Math.max(most * 1.05, this.format.least ?? 1), base)];
  }

  #write() {
    const row = this.at === null ? this.rows.at(-1) : this.rows[this.at];
    const text = (value) => (value === undefined || value === null ? "–" : this.format(value));
    this.series.forEach(({ key }, at) => {
      this.texts[at].textContent = text(row?.[key]);
      if (this.isSparse) this.marks[at].hidden = !this.rows.some((one) => one[key] > 0);
    });
    const total = this.total === undefined ? this.series[0].key : this.total;
    this.value.textContent = total === null ? "" : text(row?.[total]);
  }

  #make() {
    const style = getComputedStyle(this.place);
    const color = (name) => style.getPropertyValue(`--${name}`).trim();
    const isStack = this.kind === "stack";
    const series = this.series.map((one) => ({
      label: one.label,
      stroke: color(one.color),
      fill: isStack ? color(`${one.color}-soft`) : undefined,
      width: isStack ? 1 : 1.5,
      dash: one.dash,
      points: { show: false },
    }));
    if (isStack) series.reverse();
    const font = `11px ${style.fontFamily}`;
    const axis = { stroke: color("muted"), font, ticks: { show: false }, gap: 4 };
    const grid = { stroke: color("grid"), width: 1 };
    this.plot = new uPlot(
      {
        width: this.place.clientWidth,
        height: HEIGHT,
        padding: [8, 16, 0, 0],
        legend: { show: false },
        cursor: {
          y: false,
          drag: { x: false, y: false },
          points: { size: 6 },
          sync: { key: "flagstone", setSeries: false },
        },
        scales: {
          x: { time: false, auto: false },
          y: { auto: false, distr: this.kind === "log" ? 3 : 1 },
        },
        series: [{}, ...series],
        axes: [
          {
            ...axis,
            size: 24,
            gap: 8,
            grid,
            splits: () => this.#times().map((back) => this.plot.scales.x.max - back),
            values: () => this.#times().map((back) => (back === 0 ? "now" : `−${past(back)}`)),
          },
          {
            ...axis,
            size: 58,
            grid,
            splits: (plot) => this.#heights(plot.scales.y),
            // Of a logarithmic scale uPlot would leave some out.
            filter: (_plot, splits) => splits,
            values: (_plot, splits) => splits.map((value) => this.format(value)),
          },
        ],
        hooks: {
          setCursor: [
            (plot) => {
              this.at = plot.cursor.idx ?? null;
              this.#write();
            },
          ],
        },
      },
      [[], ...this.series.map(() => [])],
      this.place,
    );
  }

  #times() {
    const parts = { 60: 6, 300: 5, 900: 3 }[this.span];
    return Array.from({ length: parts + 1 }, (_, n) => (this.span * (parts - n)) / parts);
  }

  #heights({ min, max }) {
    if (this.kind !== "log") return [0, 1, 2, 3, 4].map((n) => (max * n) / 4);
    const splits = [];
    for (let value = min; value <= max * 1.01; value *= 10) splits.push(value);
    return splits;
  }
}

// Returns the least number with a plain quarter that is not below this one.
function roundUp(value, base) {
  if (base === 1024) {
    const unit = 1024 ** Math.floor(Math.log(value) / Math.log(1024) + 1e-9);
    const within = value / unit;
    const step = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024].find((n) => n >= within - 1e-9);
    return unit * Math.max(step, unit === 1 ? 4 : 1);
  }
  const unit = 10 ** Math.floor(Math.log10(value));
  return unit * [1, 2, 4, 6, 8, 10].find((n) => n >= value / unit - 1e-9);
}

function past(seconds) {
  return seconds % 60 === 0 ? `${seconds / 60} min` : `${seconds} s`;
}

// A number with what it is of.
export function tile(label) {
  const value = h("strong", {}, "–");
  const note = h("small", {}, "\u00a0");
  const element = h("div", { class: "card tile" }, h("span", {}, label), value, note);
  const write = (text, more) => {
    if (value.textContent !== text) value.textContent = text;
    if (note.textContent !== more) fill(note, more);
  };
  return { element, write };
}
