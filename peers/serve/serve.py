"""The figures of `flagstone serve` beside other servers for MongoDB drivers: runs each in turn, in
rounds, and writes medians as tables and all figures as JSON. `cargo xtask serve-bench` builds what
it needs and runs it."""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import platform
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
MEMORY = "512MiB"
IDLE = 10_000
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
DESIGN = {  # What was planned: the least rate of flagstone, and of idle connections the most MB.
    "ping": None,
    "find": 60_000,
    "insert": 30_000,
    "insert-synced": 15_000,
    "update": 30_000,
    "insert-many": 250_000,
    "scan": 150_000,
    "mongodump": 200_000,
    "mongoexport": 60_000,
    "mongoimport": 40_000,
}
TITLES = {
    "fill": "insert of 1,000 a command, empty store",
    "ping": "ping",
    "find": "find by `_id`",
    "insert": "insert one",
    "insert-synced": "insert one, `j: true`",
    "update": "update one by `_id`",
    "insert-many": "insert of 1,000 a command",
    "scan": "pymongo: scan",
    "insert_many": "pymongo, 4 threads: insert_many of 1,000",
    "insert_one": "pymongo, 4 threads: insert_one",
    "find_one": "pymongo, 4 threads: find_one",
    "update_one": "pymongo, 4 threads: update_one",
    "mongodump": "mongodump",
    "mongoexport": "mongoexport",
    "mongoimport": "mongoimport",
    "http-load": "load of NDJSON by HTTP",
    "tool-load": "`flagstone load` of the same file",
}
RAW = ["ping", "find", "insert", "update", "insert-many"]
DRIVER = ["scan", "find_one", "update_one", "insert_one", "insert_many"]
TOOLS = ["mongodump", "mongoexport", "mongoimport"]


class Absent(Exception):
    """A row that a server does not have."""


@dataclass
class Peer:
    """A server, and how it is started on a directory and a port."""

    name: str
    command: Callable[[Path, int], list[str]]
    # Whether `j: true` makes it wait for the disk, as it is started here.
    syncs: bool = True


@dataclass
class Figures:
    """What was measured: by row and server one entry a round."""

    found: dict[str, dict[str, list[dict[str, Any]]]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def add(self, row: str, peer: str, measured: dict[str, Any]) -> None:
        self.found.setdefault(row, {}).setdefault(peer, []).append(measured)

    def note(self, text: str) -> None:
        if text not in self.notes:
            print(f"  {text}", flush=True)
            self.notes.append(text)

    def all_of(self, row: str, peer: str, name: str) -> list[float]:
        measured = self.found.get(row, {}).get(peer, [])
        return [each[name] for each in measured if each.get(name) is not None]

    def median(self, row: str, peer: str, name: str = "rate") -> float | None:
        values = self.all_of(row, peer, name)
        return statistics.median(values) if values else None


def cpu_seconds(pid: int) -> float:
    """The CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(load: Path, port: int, process: subprocess.Popen[bytes]) -> None:
    """Waits until a server answers commands: flagstone listens before."""
    ping = [str(load), f"127.0.0.1:{port}", "ping", "--connections", "1", "--seconds", "0.1"]
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise SystemExit(f"the server has ended with {process.returncode}")
        with contextlib.suppress(Absent):
            lines_of(ping)
            return
        time.sleep(0.05)
    raise SystemExit("the server does not answer")


def end(process: subprocess.Popen[Any], seconds: float) -> None:
    """Ends a process, at once if it does not end by itself."""
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextlib.contextmanager
def serving(peer: Peer, load: Path, folder: Path) -> Iterator[tuple[int, int]]:
    """Starts a server on an empty directory. Gives its port and its process."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    port = free_port()
    command = peer.command(folder, port)
    with folder.with_suffix(".log").open("wb") as log:
        # In a session of its own, so that Ctrl-C ends it from here, after what it serves.
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        try:
            wait_for(load, port, process)
            yield port, process.pid
        finally:
            end(process, 30)
            shutil.rmtree(folder, ignore_errors=True)


def lines_of(command: list[str], seconds: float = 600) -> str:
    """Runs a program and returns what it prints. It ends with this one."""
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        out, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as late:
        raise Absent(f"not done after {seconds:.0f} s") from late
    finally:
        if process.poll() is None:
            end(process, 5)
    if process.returncode != 0:
        said = (errors or out).strip().splitlines() or [""]
        # The line that says why. Times differ from round to round.
        why = next((line for line in said if "ailed" in line), said[-1])
        raise Absent(re.sub(r"^\d{4}-\d\d-\d\dT\S+\s+", "", why)[-300:])
    return out or errors


def json_of(command: list[str], seconds: float = 600) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lines_of(command, seconds).strip().splitlines()[-1])
    return found


def rows(
    options: argparse.Namespace, peer: Peer, turn: int, port: int, pid: int
) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    """The rows of a server: a name, and what measures it."""
    address = f"127.0.0.1:{port}"
    common = ["--pid", str(pid), "--seconds", str(options.seconds)]
    documents = ["--documents", str(options.documents)]
    load = [str(options.load), address]

    def raw(work: str, *more: str) -> Callable[[], dict[str, Any]]:
        # Each work has identifiers of its own.
        seed = str(1 + turn * 100 + list(TITLES).index(work))
        return lambda: json_of([*load, work, *common, *documents, "--seed", seed, *more])

    def driver(work: str) -> Callable[[], dict[str, Any]]:
        script = [sys.executable, str(HERE / "drivers.py"), address, work]
        return lambda: json_of([*script, *common, *documents])

    # First: what other rows leave is given back meanwhile.
    idle = ["--pid", str(pid), "--connections", str(options.idle), "--seconds", "5"]
    yield "idle", lambda: json_of([*load, "idle", *idle])
    yield "fill", raw("fill")
    for work in RAW:
        yield work, raw(work)
    if options.has_driver:
        for work in DRIVER:
            yield work, driver(work)
    if options.mongo_tools is not None:
        for work in TOOLS:
            yield work, lambda work=work: tool(options, work, address, pid)  # type: ignore[misc]
    if peer.syncs:
        yield "insert-synced", raw("insert-synced")
    if peer.name == "flagstone":
        yield "http-load", lambda: http_load(options, port, pid)


def tool(options: argparse.Namespace, work: str, address: str, pid: int) -> dict[str, Any]:
    """A run of one of the tools of MongoDB over the documents of the fill, and what it took."""
    file = options.dir / "documents.json"
    command = [str(options.mongo_tools / work), "--host", address, "--db", "bench"]
    if work == "mongodump":
        dump = options.dir / "documents.dump"
        command += ["--collection", "documents", f"--archive={dump}"]
    elif work == "mongoexport":
        command += ["--collection", "documents", f"--out={file}"]
    else:
        command += ["--collection", "imported", "--drop", f"--file={file}"]
    began, cpu = time.perf_counter(), cpu_seconds(pid)
    said = lines_of(command)
    rate = options.documents / (time.perf_counter() - began)
    cpu = cpu_seconds(pid) - cpu
    if re.search(rf"\b{options.documents} (document|record)", said) is None:
        raise Absent(f"not all documents: {said.strip()[-300:]}")
    return {"rate": rate, "cpu_us": cpu * 1e6 / options.documents}


def ndjson(options: argparse.Namespace) -> Path:
    """A file of documents as the loader makes them, ten times as many."""
    file: Path = options.dir / "load.ndjson"
    if not file.exists():
        with file.open("w", encoding="utf-8") as out:
            for number in range(options.documents * 10):
                line = {
                    "id": f"{number:012}",
                    "name": f"customer {number}",
                    "score": number % 1000,
                    "balance": number * 0.25,
                    "active": number % 3 == 0,
                    "address": {"city": "Lima", "street": f"{number % 500} Long Street"},
                    "tags": ["Lima", "Oslo", "Kyiv"],
                    "note": "A customer since the first days, who likes short answers.",
                }
                out.write(json.dumps(line) + "\n")
    return file


def http_load(options: argparse.Namespace, port: int, pid: int) -> dict[str, Any]:
    """A load by HTTP of a file of lines of JSON."""
    file = ndjson(options)
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    headers = {"Content-Type": "application/x-ndjson", "Content-Length": str(file.stat().st_size)}
    began, cpu = time.perf_counter(), cpu_seconds(pid)
    try:
        with contextlib.closing(connection), file.open("rb") as body:
            connection.request("POST", "/v1/bench/loaded/load", body, headers)
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
    except OSError as error:
        raise Absent(str(error)) from error
    took, cpu = time.perf_counter() - began, cpu_seconds(pid) - cpu
    count = options.documents * 10
    if answer.status not in (200, 201) or str(count) not in text:
        raise Absent(f"HTTP {answer.status}: {text[-300:]}")
    return {"rate": count / took, "cpu_us": cpu * 1e6 / count}


def tool_load(options: argparse.Namespace) -> dict[str, Any]:
    """The same load by the tool, without a server."""
    store = options.dir / "tool"
    shutil.rmtree(store, ignore_errors=True)
    file = ndjson(options)
    os.sync()
    began = time.perf_counter()
    command = [options.tool, "load", store, "bench.loaded", file, "--memory", MEMORY]
    lines_of([str(word) for word in command])
    took = time.perf_counter() - began
    shutil.rmtree(store, ignore_errors=True)
    return {"rate": options.documents * 10 / took}


def peers(options: argparse.Namespace, figures: Figures) -> list[Peer]:
    """The servers that are there."""

    def flagstone(folder: Path, port: int) -> list[str]:
        listen = ["--listen", f"127.0.0.1:{port}", "--max-connections", str(IDLE + 2000)]
        return [str(options.tool), "serve", str(folder / "db"), "--memory", MEMORY, *listen]

    def nx(folder: Path, port: int) -> list[str]:
        files = ["--pid-file", str(folder / "pid"), "--log-file", str(folder / "log")]
        listen = ["--host", "127.0.0.1", "--port", str(port)]
        return [str(options.nx), "--db", str(folder / "nx.db"), *listen, *files]

    def ferretdb(folder: Path, port: int) -> list[str]:
        return [str(options.ferretdb), f"127.0.0.1:{port}", str(folder)]

    known = [
        (Peer("flagstone", flagstone), options.tool, ""),
        (Peer("nx-27017", nx), options.nx, "it comes from Python's package index"),
        (Peer("FerretDB", ferretdb, False), options.ferretdb, "it is built with Go"),
    ]
    found = []
    for peer, program, why in known:
        if options.engines and peer.name not in options.engines:
            continue
        if program is None or not Path(program).exists():
            figures.note(f"{peer.name} was not there: {why}.")
            continue
        found.append(peer)
    if options.mongo_tools is None:
        figures.note(
            "mongodump, mongoexport and mongoimport were not there: --mongo-tools names their folder."
        )
    return found


def measure(options: argparse.Namespace, figures: Figures) -> list[Peer]:
    servers = peers(options, figures)
    for turn in range(options.rounds):
        print(f"round {turn + 1} of {options.rounds}", flush=True)
        for peer in servers if turn % 2 == 0 else reversed(servers):
            os.sync()
            folder = options.dir / peer.name
            with serving(peer, options.load, folder) as (port, pid):
                for row, work in rows(options, peer, turn, port, pid):
                    if options.rows and row not in (*options.rows, "fill"):
                        continue
                    try:
                        measured = work()
                    except Absent as absent:
                        figures.note(f"{peer.name}, {row}: {' '.join(str(absent).split())}")
                        if row == "fill":
                            break
                        continue
                    figures.add(row, peer.name, measured)
                    shown = ", ".join(f"{name} {value}" for name, value in measured.items())
                    print(f"  {peer.name}, {row}: {shown}", flush=True)
        if not (options.rows or options.engines):
            figures.add("tool-load", "flagstone", tool_load(options))
    return servers


def shown(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(figures: Figures, servers: list[Peer]) -> list[str]:
    """The rates, and how they compare."""
    names = [peer.name for peer in servers]
    others = [name for name in names if name != "flagstone"]
    head = ["a second", *names]
    if others:
        head.append("flagstone / the better")
    head.append("planned")
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row, title in TITLES.items():
        if row not in figures.found:
            continue
        cells = [title]
        for name in names:
            values = figures.all_of(row, name, "rate")
            middle = figures.median(row, name)
            spread = ""
            if name == "flagstone" and len(values) > 1:
                spread = f" ({shown(min(values))}-{shown(max(values))})"
            cells.append(shown(middle) + spread)
        own = figures.median(row, "flagstone")
        rates = [rate for rate in (figures.median(row, name) for name in others) if rate]
        if others:
            cells.append(f"**{own / max(rates):.2f}**" if own and rates else "")
        planned = DESIGN.get(row)
        cells.append(f"{planned:,}" if planned else "")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def costs(figures: Figures, servers: list[Peer]) -> list[str]:
    """The CPU time of servers, and the latencies where they were measured."""
    names = [peer.name for peer in servers]
    head = ["µs", *names]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in [*RAW, "insert-synced", *DRIVER, *TOOLS, "http-load"]:
        if row not in figures.found:
            continue
        cells = [TITLES[row]]
        for name in names:
            both = (shown(figures.median(row, name, figure)) for figure in ("cpu_us", "p99_us"))
            cells.append("; ".join(filter(None, both)))
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def idle(figures: Figures, servers: list[Peer]) -> list[str]:
    lines = []
    for peer in servers:
        count = figures.median("idle", peer.name, "connections")
        more = figures.median("idle", peer.name, "more_bytes")
        if count is None or more is None:
            continue
        text = f"{peer.name}: {more / 1e6:,.0f} MB more for {count:,.0f} idle connections"
        lines.append(f"- {text}{' (planned: 250 MB in all)' if peer.name == 'flagstone' else ''}")
    return lines


def report(options: argparse.Namespace, figures: Figures, servers: list[Peer]) -> str:
    ratios = []
    find, ping = figures.median("find", "flagstone"), figures.median("ping", "flagstone")
    if find and ping:
        ratios.append(f"find / ping is {find / ping:.2f} (planned: 0.8)")
    by_http, by_tool = (figures.median(row, "flagstone") for row in ("http-load", "tool-load"))
    if by_http and by_tool:
        ratios.append(f"HTTP / tool is {by_http / by_tool:.2f} (planned: 0.7)")
    machine = f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores"
    rounds = f"One round of {options.seconds:g} s a row"
    if options.rounds > 1:
        rounds = f"Medians of {options.rounds} rounds of {options.seconds:g} s a row"
    lines = [
        f"{machine}. Commit {options.commit}. {rounds}, {options.documents:,} documents.",
        "",
        *table(figures, servers),
        "",
        *([f"{'; '.join(ratios)}.", ""] if ratios else []),
        "CPU time of the server for one operation or document; 99th percentile of the latency:",
        "",
        *costs(figures, servers),
        "",
        *idle(figures, servers),
        *(f"- {note}" for note in figures.notes),
    ]
    return "\n".join(lines).rstrip() + "\n"


def write(page: Path, text: str) -> None:
    before = page.read_text(encoding="utf-8")
    head, _, rest = before.partition(BEGIN)
    tail = rest.partition(END)[2]
    page.write_text(f"{head}{BEGIN}\n\n{text}\n{END}{tail}", encoding="utf-8")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="cargo xtask serve-bench")
    parser.add_argument("--tool", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--load", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--nx", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--ferretdb", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--mongo-tools", type=Path, help="the folder of mongodump and its kin")
    parser.add_argument("--commit", default="unknown", help=argparse.SUPPRESS)
    parser.add_argument("--page", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=3, help="rounds (3)")
    parser.add_argument("--seconds", type=float, default=5, help="seconds of a row (5)")
    parser.add_argument("--documents", type=int, default=50_000, help="documents (50000)")
    parser.add_argument("--idle", type=int, default=IDLE, help=f"idle connections ({IDLE})")
    parser.add_argument("--engines", type=lambda text: text.split(","), help="A,B,..: servers")
    parser.add_argument("--rows", type=lambda text: text.split(","), help="A,B,..: rows")
    parser.add_argument("--dir", type=Path, default="peers/serve-stores", help="where stores are")
    parser.add_argument("--out", type=Path, default="peers/serve-results.json", help="all figures")
    options = parser.parse_args()
    try:
        import pymongo  # noqa: F401

        options.has_driver = True
    except ImportError:
        options.has_driver = False
    return options


def main() -> None:
    options = parse()
    # Ctrl-C and SIGTERM both run what ends servers.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    parent = options.dir.resolve()
    parent.mkdir(parents=True, exist_ok=True)
    options.dir = Path(tempfile.mkdtemp(dir=parent))
    figures = Figures()
    if not options.has_driver:
        figures.note("pymongo was not there: it comes from Python's package index.")
    try:
        servers = measure(options, figures)
    except KeyboardInterrupt:
        sys.exit(130)
    finally:
        shutil.rmtree(options.dir, ignore_errors=True)
        with contextlib.suppress(OSError):
            # Only an empty directory is removed: it may have existed before.
            parent.rmdir()
    text = report(options, figures, servers)
    found = {"commit": options.commit, "notes": figures.notes, "rows": figures.found}
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(f"\n{text}")
    if options.page is not None:
        write(options.page, text)


if __name__ == "__main__":
    main()
