"""The figures of the Python package: runs every workload in rounds and writes medians as tables.

It needs a release build of the tool, of the wheel, and the packages of `requirements.txt` beside it:
`python bench/figures.py --tool ../target/release/flagstone --out ../docs/bench/python.md`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BUDGET_MIB = 512


class Runs:
    """Runs workloads and keeps what they measured."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.found: dict[tuple[str, str], list[float]] = {}

    def work(self, label: str, name: str, **arguments: Any) -> None:
        """Runs a workload in a process of its own, once all that was written is on disk: the first
        store of a round would be measured beside the writes of the last workload.
        """
        os.sync()
        command = [sys.executable, str(HERE / "work.py"), name, json.dumps(arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise SystemExit(f"{label}: {name} failed:\n{done.stderr[-3000:]}")
        result = json.loads(done.stdout.strip().splitlines()[-1])
        for measure, value in result.items():
            self.found.setdefault((label, measure), []).append(value)
        shown = ", ".join(f"{measure} {value:,.1f}" for measure, value in result.items())
        print(f"  {label}: {shown}", flush=True)

    def median(self, label: str, measure: str) -> float:
        return statistics.median(self.found[(label, measure)])

    def rates(self, label: str, measure: str) -> str:
        """The median, with the least and the greatest of the rounds."""
        found = self.found[(label, measure)]
        median = f"{statistics.median(found):,.0f}"
        return f"{median} ({min(found):,.0f} to {max(found):,.0f})"


def measure(runs: Runs, options: argparse.Namespace, comments: Path) -> None:
    folder = runs.folder
    for turn in range(options.rounds):
        print(f"round {turn + 1} of {options.rounds}", flush=True)
        for engine in ("flagstone", "sqlite3", "lmdb", "rocksdict"):
            store = folder / engine
            runs.work(
                engine, "key_value", engine=engine, folder=str(store), records=options.records
            )
            shutil.rmtree(store)
        tool, plain = folder / "tool", folder / "plain"
        for used in (tool, plain):
            shutil.rmtree(used, ignore_errors=True)
        os.sync()
        started = time.perf_counter()
        subprocess.run(
            [options.tool, "load", tool, "comments", comments, "--memory", f"{BUDGET_MIB}MiB"],
            check=True,
            capture_output=True,
        )
        rate = options.comments / (time.perf_counter() - started)
        runs.found.setdefault(("tool", "documents/s"), []).append(rate)
        print(f"  tool: documents/s {rate:,.1f}", flush=True)
        shutil.rmtree(tool)
        at = {"folder": str(plain), "file": str(comments)}
        runs.work("load", "load", **at)
        runs.work("get_json", "get_json", **at, records=min(options.comments, 100_000))
        runs.work("two columns", "two_columns", **at)
        runs.work("polars", "by_polars", **at)
        runs.work("DuckDB", "by_duckdb", **at)
        runs.work("read_json", "by_read_json", **at)
        shutil.rmtree(plain)
        runs.work("load with index", "load", **at, index=True)
        runs.work("polars, index", "by_polars", **at)
        runs.work("DuckDB, index", "by_duckdb", **at)
        shutil.rmtree(plain)


def report(runs: Runs, options: argparse.Namespace) -> str:
    """Returns the page."""
    lines = [
        "# Figures of the Python package",
        "",
        f"`python/bench/figures.py --comments {options.comments} --records {options.records}`: "
        f"medians of {options.rounds} rounds, and of rates the least and the greatest. Each "
        "workload has a process of its own.",
        "",
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, CPython "
        f"{platform.python_version()}, {', '.join(versions())}. Commit {options.commit}. Memory "
        f"budget {BUDGET_MIB} MiB; the other stores have as much where they can be told. No commit "
        "waits for the disk: it survives the process, not a power cut.",
        "",
        f"## Keys and values: {options.records:,} records of 1 KB, one thread",
        "",
        "Gets are those of keys in random order, after all were read once.",
        "",
        "| store | put/s | get/s |",
        "|---|---|---|",
    ]
    for engine in ("flagstone", "sqlite3", "lmdb", "rocksdict"):
        put, get = (runs.rates(engine, name) for name in ("put", "get"))
        lines.append(f"| {engine} | {put} | {get} |")
    lines += ["| *at least* | *80,000* | *700,000* |", ""]
    lines += [
        f"## Documents: {options.comments:,} comments, 1.2 KB of JSON each",
        "",
        "| what | documents/s | at least | peak MiB |",
        "|---|---|---|---|",
    ]
    rate = runs.median("tool", "documents/s")
    tool = runs.rates("tool", "documents/s")
    lines.append(f"| `flagstone load` of the tool | {tool} | | |")
    for label, text, least in (
        ("load", "`c.load`", f"{0.9 * rate:,.0f}"),
        ("get_json", "`c.get_json`, cached", "400,000"),
        ("two columns", "two columns into polars", "1,000,000"),
    ):
        found, peak = runs.rates(label, "documents/s"), runs.median(label, "peak MiB")
        lines.append(f"| {text} | {found} | {least} | {peak:,.0f} |")
    result = runs.median("two columns", "result MiB")
    lines += [
        "",
        f"The peak may be the budget, 200 MiB and the result: {BUDGET_MIB + 200} MiB; with two "
        f"columns {BUDGET_MIB + 200 + result:,.0f} MiB.",
        "",
        "## Count and mean score by subreddit, the first ten",
        "",
        "| by | seconds | times `read_json` | at least | peak MiB |",
        "|---|---|---|---|---|",
    ]
    base = runs.median("read_json", "seconds")
    checks = {value for (_, name), all in runs.found.items() if name == "check" for value in all}
    if len(checks) != 1:
        raise SystemExit(f"the answers differ: {sorted(checks)}")
    for label, text, least in (
        ("read_json", "DuckDB's `read_json` of the file", ""),
        ("polars", "polars, `flagstone.scan`", "3"),
        ("DuckDB", "DuckDB, `flagstone.connect`", "3"),
        ("polars, index", "polars, with an index on subreddit and score", "10"),
        ("DuckDB, index", "DuckDB, with the index", "10"),
    ):
        took, peak = (runs.median(label, name) for name in ("seconds", "peak MiB"))
        lines.append(f"| {text} | {took:.2f} | {base / took:.1f} | {least} | {peak:,.0f} |")
    return "\n".join(lines) + "\n"


def versions() -> list[str]:
    found = []
    for package in ("polars", "duckdb", "pyarrow", "lmdb", "rocksdict"):
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            raise SystemExit(f"{package} is not installed: see python/bench/requirements.txt")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--comments", type=int, default=3_000_000)
    parser.add_argument("--records", type=int, default=300_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tool", type=Path, required=True)
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--dir", type=Path)
    options = parser.parse_args()
    versions()
    with tempfile.TemporaryDirectory(dir=options.dir) as name:
        folder = Path(name)
        comments = folder / "comments.jsonl"
        subprocess.run(
            [options.tool, "generate", "comments", "--count", str(options.comments)]
            + ["--output", comments],
            check=True,
        )
        runs = Runs(folder)
        measure(runs, options, comments)
    page = report(runs, options)
    print(page)
    if options.out is not None:
        options.out.write_text(page)


if __name__ == "__main__":
    main()
