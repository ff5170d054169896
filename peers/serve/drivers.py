"""One row by pymongo: `drivers.py ADDRESS WORK --pid N` prints documents a second, and the CPU time
of the server for each, as a line of JSON."""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pymongo
import pymongo.errors
from bson import ObjectId

from serve import cpu_seconds

THREADS = 4
MANY = 1000


def key(number: int) -> ObjectId:
    """The identifier that the loader has given to its documents."""
    return ObjectId(bytes.fromhex("66500000") + bytes(4) + number.to_bytes(4, "big"))


def document(number: int) -> dict[str, Any]:
    """A document as the loader makes them."""
    return {
        "name": f"customer {number}",
        "score": number % 1000,
        "balance": number * 0.25,
        "active": number % 3 == 0,
        "address": {"city": "Lima", "street": f"{number % 500} Long Street"},
        "tags": ["Lima", "Oslo", "Kyiv"],
        "note": "A customer since the first days, who likes short answers.",
    }


def steps(work: str, database: Any, documents: int, thread: int) -> Callable[[int], int]:
    """Returns what one thread does again and again: given the number of the step it returns how
    many documents it was."""

    def scan(_step: int) -> int:
        found = sum(1 for _ in database.documents.find())
        assert found == documents, f"{found} of {documents} documents"
        return found

    def insert_many(step: int) -> int:
        made = [document(number) for number in range(step * MANY, (step + 1) * MANY)]
        return len(database.by_driver_many.insert_many(made).inserted_ids)

    def insert_one(step: int) -> int:
        return int(database.by_driver.insert_one(document(step)).acknowledged)

    def chosen(step: int) -> ObjectId:
        return key((step * 7919 + thread * 12007) % documents)

    def find_one(step: int) -> int:
        assert database.documents.find_one({"_id": chosen(step)}) is not None
        return 1

    def update_one(step: int) -> int:
        changed = database.documents.update_one({"_id": chosen(step)}, {"$inc": {"score": 1}})
        assert changed.matched_count == 1
        return 1

    found: Callable[[int], int] = locals()[work]
    return found


def numbers() -> Iterator[int]:
    number = 0
    while True:
        yield number
        number += 1


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("work", choices=["scan", *(f"{w}_{n}" for w, n in WORKS)])
    parser.add_argument("--pid", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--documents", type=int, default=50_000)
    options = parser.parse_args()
    client: Any = pymongo.MongoClient(f"mongodb://{options.address}")
    database = client.bench
    # Connections are made, and collections are there, before the clock starts.
    client.admin.command("ping")
    threads = 1 if options.work == "scan" else THREADS
    counts, errors = [0] * threads, []
    began, cpu = time.perf_counter(), cpu_seconds(options.pid)

    def run(thread: int) -> None:
        try:
            step = steps(options.work, database, options.documents, thread)
            for number in numbers():
                counts[thread] += step(number)
                if time.perf_counter() - began >= options.seconds:
                    break
        except (pymongo.errors.PyMongoError, AssertionError) as error:
            # The main thread fails with it.
            errors.append(error)

    running = [threading.Thread(target=run, args=(thread,)) for thread in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    seconds, cpu = time.perf_counter() - began, cpu_seconds(options.pid) - cpu
    if errors:
        raise errors[0]
    print(json.dumps({"rate": sum(counts) / seconds, "cpu_us": cpu * 1e6 / sum(counts)}))


WORKS = [("insert", "many"), ("insert", "one"), ("find", "one"), ("update", "one")]

if __name__ == "__main__":
    main()
