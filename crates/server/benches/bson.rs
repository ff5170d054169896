//! What it costs to read and to write BSON, beside the same for a document that is encoded from a
//! value, and JSON.
//!
//! `cargo bench -p flagstone-server --bench bson [-- FILTER]`. An iteration goes through 2,000
//! generated comments. Read the rates.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use flagstone::internal::document::{Encoder, Names};
use flagstone::{Value, View};
use flagstone_comments::Comments;
use flagstone_server::bson::{BsonReader, BsonWriter};
use std::sync::LazyLock;

fn main() {
    divan::main();
}

struct Documents {
    names: Names,
    values: Vec<Value>,
    binary: Vec<Vec<u8>>,
    bson: Vec<Vec<u8>>,
}

static DOCUMENTS: LazyLock<Documents> = LazyLock::new(|| {
    let mut text = Vec::new();
    Comments::new(1).write_lines(0..2_000, &mut text);
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let values: Vec<Value> = lines.map(|line| flagstone::doc::json::parse(line).unwrap()).collect();
    let (names, mut encoder) = (Names::new(), Encoder::new());
    let encoded = values.iter().map(|value| {
        let mut out = Vec::new();
        encoder.encode(value, Some(&names), &mut out).unwrap();
        out
    });
    let binary: Vec<Vec<u8>> = encoded.collect();
    let written = binary.iter().map(|bytes| {
        let mut out = Vec::new();
        BsonWriter::new(&mut out).document(&View::of(bytes, Some(&names)).unwrap()).unwrap();
        out
    });
    Documents { bson: written.collect(), names, values, binary }
});

fn each<'a, T>(bencher: Bencher<'_, '_>, all: &'a [T], mut work: impl FnMut(&'a T)) {
    let bytes: usize = DOCUMENTS.bson.iter().map(Vec::len).sum();
    bencher
        .counter(ItemsCount::new(all.len()))
        .counter(BytesCount::new(bytes))
        .bench_local(|| all.iter().for_each(&mut work));
}

/// BSON to the binary form, with the names of fields as ids.
#[divan::bench(sample_size = 1)]
fn read(bencher: Bencher<'_, '_>) {
    let (mut reader, mut out) = (BsonReader::new(), Vec::new());
    each(bencher, &DOCUMENTS.bson, |bson| {
        out.clear();
        reader.read(bson, Some(&DOCUMENTS.names), &mut out).unwrap();
        black_box(&out);
    });
}

/// The binary form to BSON.
#[divan::bench(sample_size = 1)]
fn write(bencher: Bencher<'_, '_>) {
    let mut out = Vec::new();
    each(bencher, &DOCUMENTS.binary, |bytes| {
        out.clear();
        let view = View::of(bytes, Some(&DOCUMENTS.names)).unwrap();
        BsonWriter::new(&mut out).document(&view).unwrap();
        black_box(&out);
    });
}

/// A value in memory to the binary form.
#[divan::bench(sample_size = 1)]
fn encode_value(bencher: Bencher<'_, '_>) {
    let (mut encoder, mut out) = (Encoder::new(), Vec::new());
    each(bencher, &DOCUMENTS.values, |value| {
        out.clear();
        encoder.encode(value, Some(&DOCUMENTS.names), &mut out).unwrap();
        black_box(&out);
    });
}

/// The binary form to JSON.
#[divan::bench(sample_size = 1)]
fn write_json(bencher: Bencher<'_, '_>) {
    let mut out = Vec::new();
    each(bencher, &DOCUMENTS.binary, |bytes| {
        out.clear();
        let view = View::of(bytes, Some(&DOCUMENTS.names)).unwrap();
        flagstone::doc::json::append_json(&view, &mut out).unwrap();
        black_box(&out);
    });
}

/// BSON to a tree of the official crate.
#[divan::bench(sample_size = 1)]
fn read_by_the_crate_bson(bencher: Bencher<'_, '_>) {
    each(bencher, &DOCUMENTS.bson, |bson| {
        black_box(bson::Document::from_reader(&bson[..]).unwrap());
    });
}
