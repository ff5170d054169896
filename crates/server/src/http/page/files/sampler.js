// Asks the server once a second for its counters, and keeps what they were.

import { command } from "./api.js";

const STEP = 1000;
// A quarter of an hour.
const KEPT = 900;
// Latencies are those of the operations of this many seconds, so that few of them make a line, too.
const WINDOW = 5;
const OPERATIONS = ["insert", "query", "getmore", "update", "delete"];
const KINDS = ["reads", "writes", "commands"];

export class Sampler {
  // Rows, the oldest first. A row without values is a second without an answer.
  rows = [];
  status = null;
  error = null;
  paused = false;
  #listeners = new Set();
  #before = [];
  #timer = null;

  listen(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  start() {
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#ask();
  }

  stop() {
    clearTimeout(this.#timer);
    this.#timer = null;
    this.#before = [];
  }

  // Keeps asking, but adds nothing to what is drawn.
  pause(paused) {
    this.paused = paused;
    this.#tell();
  }

  async #ask() {
    const began = performance.now();
    const timer = setTimeout(() => {}, 0);
    this.#timer = timer;
    const status = { serverStatus: 1, opLatencies: { histograms: true } };
    let [reply, failed] = [null, null];
    try {
      reply = await command("admin", status);
    } catch (error) {
      failed = error;
    }
    // It was stopped or started again meanwhile.
    if (this.#timer !== timer) return;
    if (failed) this.#miss(failed);
    else this.#add(reply);
    if (failed?.status === 401) return;
    const wait = Math.max(100, STEP - (performance.now() - began));
    this.#timer = setTimeout(() => this.#ask(), wait);
  }

  #miss(error) {
    this.error = error;
    this.#before = [];
    this.#push({ time: Date.now() / 1000 });
  }

  #add(status) {
    const last = this.#before.at(-1);
    // A server that has begun again counts from 0.
    if (last && status.uptimeMillis < last.uptimeMillis) this.#before = [];
    this.status = status;
    this.error = null;
    this.#before.push(status);
    if (this.#before.length > WINDOW + 1) this.#before.shift();
    this.#push(rowOf(this.#before));
  }

  #push(row) {
    if (!this.paused) {
      this.rows.push(row);
      if (this.rows.length > KEPT + 2) this.rows.shift();
    }
    this.#tell();
  }

  #tell() {
    for (const listener of this.#listeners) listener(this);
  }
}

// Returns what is drawn of the last of these replies.
function rowOf(replies) {
  const now = replies.at(-1);
  const before = replies.at(-2);
  const engine = now.flagstone;
  const known =
    engine.memtableBytes + engine.cacheBytes + engine.cachePinnedBytes + engine.scanBytes;
  const row = {
    time: Date.now() / 1000,
    resident: now.mem ? now.mem.resident * 2 ** 20 : known,
    memtables: engine.memtableBytes,
    cache: engine.cacheBytes,
    pinned: engine.cachePinnedBytes + engine.scanBytes,
    budget: engine.memoryBudget,
    log: engine.logBytes,
    tables: engine.levels.reduce((sum, level) => sum + level.bytes, 0),
    connections: now.connections?.current,
  };
  for (let level = 0; level < 7; level += 1) row[`level${level}`] = 0;
  for (const { level, bytes } of engine.levels) row[`level${Math.min(level, 6)}`] += bytes;
  if (!before) return row;
  const seconds = Math.max(0.05, (now.uptimeMillis - before.uptimeMillis) / 1000);
  const old = before.flagstone;
  const rate = (name) => Math.max(0, engine[name] - old[name]) / seconds;
  for (const name of OPERATIONS) {
    row[name] = Math.max(0, now.opcounters[name] - before.opcounters[name]) / seconds;
  }
  row.operations = OPERATIONS.reduce((sum, name) => sum + row[name], 0);
  row.commands = Math.max(0, now.opcounters.command - before.opcounters.command) / seconds;
  row.failed = (now.metrics.commands.failed - before.metrics.commands.failed) / seconds;
  // Milliseconds of all writers a second.
  row.stalled = rate("stalledMillis");
  row.logWritten = rate("logBytesWritten");
  row.syncs = rate("logSyncs");
  row.flushed = rate("flushBytesWritten");
  row.compacted = rate("compactionBytesWritten");
  const [hits, misses] = [rate("cacheHits"), rate("cacheMisses")];
  row.hits = hits;
  row.misses = misses;
  for (const kind of KINDS) {
    const counts = differences(replies[0].opLatencies[kind], now.opLatencies[kind]);
    row[`${kind}50`] = quantile(counts, 0.5);
    row[`${kind}99`] = quantile(counts, 0.99);
  }
  return row;
}

// Returns how often each duration came in between.
function differences(before, now) {
  const old = new Map(before.histogram.map(({ micros, count }) => [micros, count]));
  const all = now.histogram.map(({ micros, count }) => [micros, count - (old.get(micros) ?? 0)]);
  return all.filter(([, count]) => count > 0);
}

// Returns the duration below which this part of them is, in microseconds; null without any.
function quantile(counts, part) {
  const all = counts.reduce((sum, [, count]) => sum + count, 0);
  if (all === 0) return null;
  let left = part * all;
  for (const [micros, count] of counts) {
    if (left <= count) return micros + (above(micros) - micros) * (left / count);
    left -= count;
  }
  return above(counts.at(-1)[0]);
}

// Each power of two has four buckets. Returns where the next one begins.
function above(micros) {
  if (micros < 4) return micros + 1;
  return micros + 2 ** (Math.floor(Math.log2(micros)) - 2);
}
