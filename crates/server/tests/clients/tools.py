"""Round trips of MongoDB's tools for `cargo xtask clients`: what comes back is equal byte for byte."""

import os
import pathlib
import shutil
import subprocess
import sys
import time
import traceback

import bson
from bson import json_util
from pymongo import MongoClient

OPEN = os.environ["FLAGSTONE_OPEN"]
URI = f"mongodb://{OPEN}"
SECURE = f"mongodb://ada:secret@{os.environ['FLAGSTONE_SECURE']}/?ssl=true"
TLS = ["--ssl", "--sslCAFile", os.environ["FLAGSTONE_CA"]]
TOOLS = pathlib.Path(os.environ["FLAGSTONE_MONGO_TOOLS"])
SCRATCH = pathlib.Path(os.environ["FLAGSTONE_SCRATCH"])

with open(os.environ["FLAGSTONE_CASES"], encoding="utf-8") as file:
    TYPES = json_util.loads(file.read(), json_options=json_util.CANONICAL_JSON_OPTIONS)["types"]


def tool(name, *words, fails=False):
    """Runs a tool and returns what it says."""
    command = [str(TOOLS / name), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode != 0) == fails, f"{name} {words}: {done.stderr[-800:]}"
    return done.stdout + done.stderr


def equal(found, expected):
    assert found == expected, f"expected {expected!r:.300}, found {found!r:.300}"


def documents():
    """Every type in one document each, as value and as _id, then many small ones."""
    # As _id, 1, 1.0 and the long 1 are one key; a pattern, a list and a reference are none.
    without = {"int64", "double", "regex", "list", "db-ref"}
    for n, (name, value) in enumerate(TYPES.items()):
        yield {"_id": 1000 + n, "name": name, "value": value, "list": [value, {"in": value}]}
        if name not in without:
            yield {"_id": value, "name": name}
    yield {"_id": "all", **TYPES}
    for n in range(5000):
        yield {"_id": f"row {n:05}", "n": n, "text": "x" * (n % 300)}


def fill(db):
    db.client.drop_database(db.name)
    db.things.insert_many(documents())
    db.things.create_index([("n", 1), ("text", -1)], name="by_n")
    db.things.create_index("name", sparse=True)
    db["with.dots"].insert_many({"_id": n} for n in range(10))
    db.create_collection("empty")


def same_collections(a, b):
    equal(sorted(a.list_collection_names()), sorted(b.list_collection_names()))
    for name in a.list_collection_names():
        raw = bson.codec_options.CodecOptions(bson.raw_bson.RawBSONDocument)
        rows = [
            [row.raw for row in db.get_collection(name, raw).find().sort("_id", 1)] for db in (a, b)
        ]
        equal(len(rows[1]), len(rows[0]))
        assert rows[0] == rows[1], f"{name} is not the same"
        equal(a[name].index_information(), b[name].index_information())


def dump(client):
    source, copy = client.dumped, client.restored
    fill(source)
    client.drop_database("restored")
    folder = SCRATCH / "dump"
    tool("mongodump", "--uri", URI, "--db", "dumped", "--out", folder)
    tool("mongorestore", "--uri", URI, "--nsFrom", "dumped.*", "--nsTo", "restored.*", folder)
    same_collections(source, copy)
    again = SCRATCH / "again"
    tool("mongodump", "--uri", URI, "--db", "restored", "--out", again)
    for file in (folder / "dumped").glob("*.bson"):
        equal((again / "restored" / file.name).read_bytes(), file.read_bytes())
    # A file that no server has written: its documents come back as they were.
    crafted = SCRATCH / "crafted" / "crafted"
    crafted.mkdir(parents=True)
    content = b"".join(bson.encode(d) for d in sorted(documents(), key=lambda d: str(d["_id"])))
    (crafted / "things.bson").write_bytes(content)
    tool("mongorestore", "--uri", URI, "--drop", crafted.parent)
    tool("mongodump", "--uri", URI, "--db", "crafted", "--out", SCRATCH / "back")
    back = bson.decode_file_iter(open(SCRATCH / "back" / "crafted" / "things.bson", "rb"), raw_options())
    wanted = bson.decode_iter(content, raw_options())
    equal(sorted(d.raw for d in back), sorted(d.raw for d in wanted))
    said = tool("mongorestore", "--uri", URI, crafted.parent, "--stopOnError", fails=True)
    assert "E11000" in said, said
    tool("bsondump", "--quiet", SCRATCH / "back" / "crafted" / "things.bson")


def raw_options():
    return bson.codec_options.CodecOptions(bson.raw_bson.RawBSONDocument)


def archive(client):
    with MongoClient(SECURE, tlsCAFile=os.environ["FLAGSTONE_CA"]) as secure:
        fill(secure.archived)
        file = SCRATCH / "archive.gz"
        tool("mongodump", "--uri", SECURE, *TLS, "--db", "archived", f"--archive={file}", "--gzip", "--numParallelCollections", 2)
        tool("mongorestore", "--uri", SECURE, *TLS, f"--archive={file}", "--gzip", "--drop", "--nsFrom", "archived.*", "--nsTo", "second.*", "--numInsertionWorkersPerCollection", 4)
        same_collections(secure.archived, secure.second)
        said = tool("mongodump", "--uri", SECURE.replace("secret", "wrong"), *TLS, "--out", SCRATCH / "no", fails=True)
        assert "auth" in said.lower(), said


def query(client):
    fill(client.dumped)
    folder = SCRATCH / "query"
    words = ["--uri", URI, "--db", "dumped", "--collection", "things", "--out", folder]
    tool("mongodump", *words, "--query", '{"n": {"$lt": 10}}')
    found = list(bson.decode_file_iter(open(folder / "dumped" / "things.bson", "rb")))
    equal(sorted(row["n"] for row in found), list(range(10)))
    tool("mongodump", "--uri", URI, "--out", SCRATCH / "whole")
    assert (SCRATCH / "whole" / "dumped" / "things.bson").exists()


def export(client):
    fill(client.dumped)
    client.drop_database("imported")
    words = ["--uri", URI, "--jsonFormat=canonical", "--sort", '{"_id": 1}', "--quiet"]
    first, second = SCRATCH / "first.json", SCRATCH / "second.json"
    tool("mongoexport", *words, "--db", "dumped", "--collection", "things", "--out", first)
    equal(len(first.read_text().splitlines()), client.dumped.things.count_documents({}))
    tool("mongoimport", "--uri", URI, "--db", "imported", "--collection", "things", "--file", first)
    client.imported.things.create_index([("n", 1), ("text", -1)], name="by_n")
    client.imported.things.create_index("name", sparse=True)
    client.dumped.drop_collection("with.dots")
    client.dumped.drop_collection("empty")
    same_collections(client.dumped, client.imported)
    tool("mongoexport", *words, "--db", "imported", "--collection", "things", "--out", second)
    equal(second.read_bytes(), first.read_bytes())
    some = tool("mongoexport", "--uri", URI, "--db", "dumped", "--collection", "things", "--quiet", "--query", '{"n": {"$gte": 4990}}', "--fields", "n", "--type", "csv")
    equal(sorted(map(int, some.split()[1:])), list(range(4990, 5000)))


def load(client):
    client.drop_database("imported")
    db, file = client.imported, SCRATCH / "rows.csv"
    file.write_text("name.string(),age.int32(),born.date(2006-01-02),money.decimal()\nada,36,1815-12-10,1.10\nbob,7,2020-01-02,2\n")
    words = ["--uri", URI, "--db", "imported", "--collection", "people"]
    tool("mongoimport", *words, "--type", "csv", "--headerline", "--columnsHaveTypes", "--file", file)
    ada = db.people.find_one({"name": "ada"})
    equal((ada["age"], ada["born"].year, str(ada["money"])), (36, 1815, "1.10"))
    file.write_text('{"name": "ada", "age": 37}\n{"name": "cyd", "age": 1}\n')
    tool("mongoimport", *words, "--mode", "upsert", "--upsertFields", "name", "--file", file)
    equal((db.people.count_documents({}), db.people.find_one({"name": "ada"})["age"]), (3, 37))
    file.write_text('{"name": "ada", "more": 1}\n')
    tool("mongoimport", *words, "--mode", "merge", "--upsertFields", "name", "--file", file)
    ada = db.people.find_one({"name": "ada"})
    equal((ada["age"], ada["more"]), (37, 1))
    file.write_text('{"name": "cyd"}\n')
    tool("mongoimport", *words, "--mode", "delete", "--upsertFields", "name", "--file", file)
    equal(db.people.count_documents({}), 2)
    file.write_text('[{"_id": 1}, {"_id": 1}, {"_id": 2}]')
    said = tool("mongoimport", *words, "--jsonArray", "--drop", "--file", file)
    assert "E11000" in said, said
    equal(db.people.count_documents({}), 2)
    file.write_text('{"_id": 3}\n{"_id": \n')
    tool("mongoimport", *words, "--file", file, fails=True)


def files(client):
    client.drop_database("files")
    content = bytes(range(256)) * 3000
    (SCRATCH / "film.bin").write_bytes(content)
    words = ["--uri", f"{URI}/files", "--quiet"]
    tool("mongofiles", *words, "--local", SCRATCH / "film.bin", "put", "film.bin")
    assert "film.bin" in tool("mongofiles", *words, "list")
    tool("mongofiles", *words, "--local", SCRATCH / "got.bin", "get", "film.bin")
    equal((SCRATCH / "got.bin").read_bytes(), content)
    tool("mongofiles", *words, "delete", "film.bin")
    equal(client.files["fs.chunks"].count_documents({}), 0)


def stat(client):
    said = tool("mongostat", "--uri", URI, "--rowcount", 2, "--json", 1)
    assert '"insert"' in said, said


STEPS = {
    "dump": dump,
    "archive": archive,
    "query": query,
    "export": export,
    "import": load,
    "files": files,
    "stat": stat,
}


def main():
    failed = 0
    wanted = sys.argv[1:]
    with MongoClient(URI) as client:
        for name, step in STEPS.items():
            if wanted and name not in wanted:
                continue
            try:
                step(client)
                print(f"ok {name}", flush=True)
            except Exception as error:
                failed += 1
                where = traceback.extract_tb(error.__traceback__)
                lines = [entry.lineno for entry in where if entry.filename == __file__]
                text = f"{type(error).__name__}: {error}".replace("\n", " ")
                print(f"FAILED {name}: line {lines[-1]}: {text[:900]}", flush=True)
    sys.exit(failed > 0)


main()
