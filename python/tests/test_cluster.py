"""Collections of a cluster. `FLAGSTONE_CLUSTER=cql://127.0.0.1:9042` names one for the tests, whose
keyspaces are new; the package must have been built with the feature `cluster`."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import flagstone
import pytest

ADDRESS = os.environ.get("FLAGSTONE_CLUSTER")
needs_cluster = pytest.mark.skipif(ADDRESS is None, reason="FLAGSTONE_CLUSTER names no cluster")


@pytest.fixture
def cluster() -> Iterator[flagstone.Database]:
    with flagstone.open(f"{ADDRESS}/python_{uuid.uuid4().hex[:12]}?rf=1") as database:
        yield database


def test_a_package_without_clusters_says_how_to_get_one() -> None:
    # Nobody listens there. A package with clusters says that.
    with pytest.raises((flagstone.Unsupported, flagstone.Unavailable)) as refused:
        flagstone.open("cql://ada:secret@127.0.0.1:1/k")
    assert "secret" not in str(refused.value)
    if isinstance(refused.value, flagstone.Unsupported):
        assert "cql://127.0.0.1:1/k: this package was built without clusters" in str(refused.value)
        assert "--features cluster" in str(refused.value)


def test_options_of_a_directory_are_refused() -> None:
    address, refusal = "cql://127.0.0.1:1/k", "is for a directory, not for a cluster"
    with pytest.raises(flagstone.InvalidInput, match=refusal):
        flagstone.open(address, memory="64MiB")
    with pytest.raises(flagstone.InvalidInput, match=refusal):
        flagstone.open(address, read_only=True)
    with pytest.raises(flagstone.InvalidInput, match=refusal):
        flagstone.open(address, create=False)
    assert not Path("cql:").exists()


@needs_cluster
def test_documents_are_written_and_read_by_the_same_methods(cluster: flagstone.Database) -> None:
    c = cluster.collection("people")
    c["ada"] = {"n": 1, "born": 1815}
    assert c["ada"]["n"] == 1 and "bob" not in c and c.get("bob") is None
    assert c.update("ada", inc={"n": 2}) and c["ada"] == {"n": 3, "born": 1815}
    c.update({f"p{n}": {"n": n} for n in range(300)})
    assert len(c) == 301 and c.get_json("p7") == '{"n":7}'
    assert list(c.keys(prefix="p29")) == ["p29", *[f"p29{n}" for n in range(10)]]
    assert c.pop("p0") == {"n": 0} and c.pop("p0", None) is None
    with pytest.raises(KeyError):
        del c["p0"]
    assert c.setdefault("p0", {"n": -1}) == {"n": -1}
    assert c.setdefault("p0", {"n": -2}) == {"n": -1}
    c.insert("new", {"n": 5})
    with pytest.raises(flagstone.Duplicate, match="has a document of the key"):
        c.insert("new", {"n": 6})
    c.put("short", {"n": 7}, expires=timedelta(hours=1))
    assert c.expiry("short") is not None and c.expiry("new") is None
    first = c.popitem()
    assert first == ("ada", {"n": 3, "born": 1815})
    c.create_index("by_n", "n")
    found = [key for key, _ in c.find({"n": {"$gte": 297}}, sort="-n")]
    assert found == ["p299", "p298", "p297"]
    assert c.find({"n": {"$lt": 10}}).count() == 12
    c.clear()
    assert len(c) == 0 and not c
    with pytest.raises(KeyError, match="no document is left"):
        c.popitem()


@needs_cluster
def test_files_and_arrow_streams_go_in_and_out(
    cluster: flagstone.Database, tmp_path: Path
) -> None:
    pa = pytest.importorskip("pyarrow")
    c = cluster.collection("comments")
    lines = tmp_path / "in.jsonl"
    lines.write_text("".join(f'{{"id":"k{n}","n":{n}}}\n' for n in range(2_000)))
    assert c.load(lines)["documents"] == 2_000
    table = pa.table(c.find({"n": {"$gte": 1_000}}).arrow())
    assert sorted(table["n"].to_pylist()) == list(range(1_000, 2_000))
    copy = cluster.collection("copy")
    assert copy.load_arrow(c) == {"documents": 2_000, "existing": 0}
    assert copy["k1999"]["n"] == 1_999
    more = pa.table({"id": ["k1", "x1", "x2"], "n": [-1, -1, -1]})
    assert copy.load_arrow(more, mode="insert") == {"documents": 2, "existing": 1}
    assert copy["k1"]["n"] == 1 and len(copy) == 2_002
    assert copy.load_arrow(more, mode="merge")["documents"] == 3
    assert copy["k1"]["n"] == -1


@needs_cluster
def test_what_a_cluster_cannot_do_names_what_can(cluster: flagstone.Database) -> None:
    c = cluster.collection("c")
    refused: list[Callable[[], Any]] = [
        lambda: cluster.keyspace("kv"),
        lambda: cluster.collection("d", hash_partitions=3),
        cluster.batch,
        cluster.transaction,
        cluster.snapshot,
        cluster.changes,
        c.changes,
        cluster.flush,
        cluster.sync,
        cluster.compact,
        cluster.verify,
        lambda: cluster.backup("b"),
        lambda: cluster.rename("c", "d"),
        lambda: c.create_index("u", "u", unique=True),
    ]
    for call in refused:
        with pytest.raises(flagstone.Unsupported, match="needs an embedded database"):
            call()
    assert cluster.keyspaces() == {"c": "documents"}
    assert cluster.stats()["copies"] == {"datacenter1": 1}
    assert "python_" in str(cluster.path) and not cluster.read_only
    with pytest.raises(KeyError):
        cluster.collection("e", create=False)
    assert cluster.drop("c") and not cluster.drop("c")
    cluster.close()
    assert cluster.closed
    with pytest.raises(flagstone.Closed):
        len(c)
