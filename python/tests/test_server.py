"""`flagstone serve` as applications use it: through a driver of MongoDB."""

from __future__ import annotations

import datetime
import decimal
import atexit
import os
import random
import re
import signal
import socket
import struct
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pymongo = pytest.importorskip("pymongo", reason="the driver pymongo is not installed")

import bson  # noqa: E402
from pymongo import MongoClient, errors  # noqa: E402

TOOL = os.environ.get("FLAGSTONE_TOOL")
pytestmark = pytest.mark.skipif(TOOL is None, reason="cargo xtask python builds the tool for it")


class Server:
    """A server in a process of its own."""

    def __init__(self, folder: Path, *words: str) -> None:
        assert TOOL is not None
        command = [TOOL, "serve", "db", "--listen", "127.0.0.1:0", *words]
        self.process = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
        # A test that fails leaves no server behind.
        atexit.register(self.process.kill)
        self.log: list[str] = []
        self.port = self._port()
        # What is logged later must not fill the pipe.
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _port(self) -> int:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(line)
            found = re.search(r"127\.0\.0\.1:(\d+)", line)
            if "listening" in line and found:
                return int(found.group(1))
        raise AssertionError("".join(self.log))

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.log.extend(self.process.stderr)

    def client(self, **options: Any) -> MongoClient[dict[str, Any]]:
        options.setdefault("serverSelectionTimeoutMS", 20_000)
        return MongoClient("127.0.0.1", self.port, **options)

    def stop(self, how: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(timeout=60)
        self.reader.join(timeout=10)
        return code


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path, "--keep", "64MiB")
    try:
        yield running
    finally:
        code = running.stop()
    assert code == 0, "".join(running.log)


def test_documents_come_back_as_they_were_sent(server: Server) -> None:
    with server.client(uuidRepresentation="standard") as client:
        things = client.shop.things
        document = {
            "_id": bson.ObjectId(),
            "int": 1,
            "long": bson.Int64(1),
            "double": 1.0,
            "decimal": bson.Decimal128(decimal.Decimal("1.10")),
            "text": "zażółć",
            "bytes": b"\x00\x01",
            "uuid": uuid.uuid4(),
            "date": datetime.datetime(2020, 1, 2, 3, 4, 5, 678000),
            "null": None,
            "nested": {"list": [1, {"a": []}], "regex": bson.Regex("^a", "i")},
            "timestamp": bson.Timestamp(1, 2),
            "min": bson.MinKey(),
            "max": bson.MaxKey(),
        }
        assert things.insert_one(document).inserted_id == document["_id"]
        found = things.find_one({"_id": document["_id"]})
        assert found == document
        assert found is not None and type(found["long"]) is bson.Int64
        assert list(found) == list(document)
        for key in (7, "seven", 7.5, bson.Int64(2**40), b"7", True, {"a": 1}, 1.0, None):
            client.shop.keys.replace_one({"_id": key}, {"key": True}, upsert=True)
            again = client.shop.keys.find_one({"_id": key})
            assert again is not None and again["_id"] == key and type(again["_id"]) is type(key)


def test_many_documents_are_read_in_batches(server: Server) -> None:
    with server.client() as client:
        numbers = client.db.numbers
        inserted = numbers.insert_many([{"_id": n, "n": n % 10} for n in range(5000)])
        assert len(inserted.inserted_ids) == 5000
        assert [d["_id"] for d in numbers.find().batch_size(7).limit(50)] == list(range(50))
        assert sum(1 for _ in numbers.find()) == 5000
        assert numbers.count_documents({"n": 3}) == 500
        assert numbers.estimated_document_count() == 5000
        assert sorted(numbers.distinct("n")) == list(range(10))
        newest = numbers.find({"n": 3}).sort("_id", -1).skip(1).limit(2)
        assert [d["_id"] for d in newest] == [4983, 4973]
        numbers.create_index([("n", 1), ("_id2", -1)], name="by_n")
        assert set(numbers.index_information()) == {"_id_", "by_n"}
        assert numbers.delete_many({"n": {"$lt": 9}}).deleted_count == 4500
        with pytest.raises(errors.BulkWriteError) as refused:
            numbers.insert_many([{"_id": 1}, {"_id": 9}, {"_id": 2}], ordered=False)
        assert refused.value.details["nInserted"] == 2
        assert refused.value.details["writeErrors"][0]["index"] == 1
        with pytest.raises(errors.DuplicateKeyError):
            numbers.insert_one({"_id": 9})


def test_updates_and_find_one_and_update(server: Server) -> None:
    with server.client() as client:
        jobs = client.db.jobs
        jobs.insert_many([{"_id": n, "state": "new", "tries": 0} for n in range(20)])
        claimed: list[int] = []

        def work() -> None:
            while job := jobs.find_one_and_update(
                {"state": "new"},
                {"$set": {"state": "taken"}, "$inc": {"tries": 1}},
                sort=[("_id", 1)],
                return_document=pymongo.ReturnDocument.AFTER,
            ):
                assert job["tries"] == 1
                claimed.append(job["_id"])

        workers = [threading.Thread(target=work) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert sorted(claimed) == list(range(20))
        done = jobs.update_many({"_id": {"$gte": 10}}, {"$push": {"log": {"$each": [1, 2]}}})
        assert (done.matched_count, done.modified_count) == (10, 10)
        upserted = jobs.update_one({"_id": 99}, {"$set": {"a": 1}}, upsert=True)
        assert upserted.upserted_id == 99
        results = jobs.bulk_write(
            [
                pymongo.InsertOne({"_id": 100}),
                pymongo.UpdateOne({"_id": 100}, {"$inc": {"n": 5}}),
                pymongo.DeleteOne({"_id": 99}),
            ]
        )
        assert (results.inserted_count, results.modified_count, results.deleted_count) == (1, 1, 1)


def test_transactions(server: Server) -> None:
    with server.client() as client, client.start_session() as session:
        accounts = client.bank.accounts
        accounts.insert_many([{"_id": "a", "balance": 100}, {"_id": "b", "balance": 0}])

        def move(amount: int) -> None:
            accounts.update_one({"_id": "a"}, {"$inc": {"balance": -amount}}, session=session)
            accounts.update_one({"_id": "b"}, {"$inc": {"balance": amount}}, session=session)

        session.with_transaction(lambda _session: move(30))
        assert [d["balance"] for d in accounts.find().sort("_id", 1)] == [70, 30]
        with pytest.raises(ZeroDivisionError), session.start_transaction():
            move(10)
            assert accounts.find_one({"_id": "a"}) == {"_id": "a", "balance": 70}
            seen = accounts.find_one({"_id": "a"}, session=session)
            assert seen == {"_id": "a", "balance": 60}
            raise ZeroDivisionError
        assert [d["balance"] for d in accounts.find().sort("_id", 1)] == [70, 30]

        with pytest.raises(errors.OperationFailure) as refused, session.start_transaction():
            move(1)
            accounts.update_one({"_id": "a"}, {"$set": {"other": True}})
        assert refused.value.has_error_label("TransientTransactionError")

        def add(client: MongoClient[dict[str, Any]]) -> None:
            with client.start_session() as own:
                for _ in range(25):
                    own.with_transaction(
                        lambda tx: client.bank.accounts.update_one(
                            {"_id": "a"}, {"$inc": {"balance": 1}}, session=tx
                        )
                    )

        threads = [threading.Thread(target=add, args=(client,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert accounts.find_one({"_id": "a"}) == {"_id": "a", "balance": 170, "other": True}


def test_change_streams(server: Server) -> None:
    with server.client() as client:
        db = client.stream
        db.create_collection("c")
        with db.c.watch(full_document="updateLookup", max_await_time_ms=500) as stream:
            db.c.insert_one({"_id": 1, "n": 1})
            db.c.update_one({"_id": 1}, {"$set": {"n": 2}})
            db.c.delete_one({"_id": 1})
            events = [next(stream) for _ in range(3)]
        assert [e["operationType"] for e in events] == ["insert", "update", "delete"]
        assert events[1]["fullDocument"] == {"_id": 1, "n": 2}
        assert events[1]["updateDescription"]["updatedFields"] == {"n": 2}
        with db.watch(resume_after=events[0]["_id"], max_await_time_ms=500) as stream:
            assert next(stream)["operationType"] == "update"


def test_what_was_acknowledged_survives_a_kill(tmp_path: Path) -> None:
    server = Server(tmp_path, "--durability", "buffered")
    with server.client() as client:
        for n in range(500):
            client.db.c.insert_one({"_id": n})
        assert server.stop(signal.SIGKILL) != 0
    server = Server(tmp_path)
    with server.client() as client:
        assert client.db.c.count_documents({}) == 500
    assert server.stop() == 0


def test_users_may_do_what_their_roles_say(tmp_path: Path) -> None:
    assert TOOL is not None
    for name, role in [("ada", "root"), ("bob", "read")]:
        words = [TOOL, "user", "add", "db", name, "--role", role]
        subprocess.run(words, cwd=tmp_path, input=f"secret of {name}\n", text=True, check=True)
    server = Server(tmp_path)
    with server.client(username="ada", password="secret of ada") as client:
        client.db.c.insert_one({"_id": 1})
    with server.client(username="bob", password="secret of bob") as client:
        assert client.db.c.find_one() == {"_id": 1}
        with pytest.raises(errors.OperationFailure) as refused:
            client.db.c.insert_one({"_id": 2})
        assert refused.value.code == 13
    with (
        server.client(username="bob", password="wrong") as client,
        pytest.raises(errors.OperationFailure) as refused,
    ):
        client.db.c.find_one()
    assert refused.value.code == 18
    with server.client() as client, pytest.raises(errors.OperationFailure) as refused:
        client.db.c.find_one()
    assert refused.value.code == 13
    assert server.stop() == 0


def message(command: dict[str, Any]) -> bytes:
    """An OP_MSG."""
    body = struct.pack("<I", 0) + b"\0" + bson.encode(command)
    return struct.pack("<iiii", 16 + len(body), 1, 0, 2013) + body


def send(server: Server, request: bytes) -> dict[str, Any]:
    """Sends a message by a connection of its own, and returns the reply."""
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(request)
        received = b""
        while len(received) < 4 or len(received) < struct.unpack_from("<i", received)[0]:
            part = connection.recv(65536)
            assert part, "the connection has ended"
            received += part
    return bson.decode(received[21:])


def test_a_write_that_is_sent_again_happens_once(tmp_path: Path) -> None:
    """The connection, or the server, ends somewhere between the write and its reply."""
    rounds, lsid = 30, {"id": bson.Binary(uuid.uuid4().bytes, 4)}
    chance = random.Random(7)
    server = Server(tmp_path)
    for n in range(rounds):
        write = message(
            {
                "update": "c",
                "updates": [{"q": {"_id": 1}, "u": {"$inc": {"n": 1}}, "upsert": True}],
                "$db": "db",
                "lsid": lsid,
                "txnNumber": bson.Int64(n + 1),
            }
        )
        with socket.create_connection(("127.0.0.1", server.port)) as connection:
            connection.sendall(write)
            time.sleep(chance.random() * 0.004)
        if n % 3 == 0:
            server.stop(signal.SIGKILL)
            server = Server(tmp_path)
        for _again in range(2):
            told = send(server, write)
            while told.get("code") == 13436:  # It recovers: drivers try again, too.
                time.sleep(0.05)
                told = send(server, write)
            assert told["ok"] == 1 and told["n"] == 1, told
        with server.client() as client:
            found = client.db.c.find_one()
        assert found == {"_id": 1, "n": n + 1}
    assert server.stop() == 0
