//! What it costs to parse JSON, to read a document in place and to write JSON, beside other
//! parsers.
//!
//! `cargo bench -p flagstone-doc --bench json [-- FILTER]`. An iteration goes through 2,000
//! generated comments, or through the lines of the file that `FLAGSTONE_LINES` names. Read the
//! rates.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use flagstone_comments::Comments;
use flagstone_doc::{JsonMode, JsonOptions, JsonParser, Names, View, json, validate};
use std::sync::LazyLock;

fn main() {
    divan::main();
}

/// JSON documents and their binary forms.
struct Documents {
    lines: Vec<Vec<u8>>,
    bytes: usize,
    names: Names,
    binary: Vec<Vec<u8>>,
}

static DOCUMENTS: LazyLock<Documents> = LazyLock::new(|| {
    let mut text = Vec::new();
    match std::env::var_os("FLAGSTONE_LINES") {
        Some(file) => text = std::fs::read(file).unwrap(),
        None => Comments::new(1).write_lines(0..2_000, &mut text),
    }
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let lines: Vec<Vec<u8>> = lines.map(<[u8]>::to_vec).collect();
    let (names, mut parser) = (Names::new(), JsonParser::default());
    let parsed = lines.iter().map(|line| {
        let mut out = Vec::new();
        parser.parse(line, Some(&names), &mut out).unwrap();
        out
    });
    let binary = parsed.collect();
    Documents { bytes: lines.iter().map(Vec::len).sum(), lines, names, binary }
});

fn each_line(bencher: Bencher<'_, '_>, mut work: impl FnMut(&[u8])) {
    let all = &*DOCUMENTS;
    bencher
        .counter(ItemsCount::new(all.lines.len()))
        .counter(BytesCount::new(all.bytes))
        .bench_local(|| all.lines.iter().for_each(|line| work(line)));
}

fn each_document(bencher: Bencher<'_, '_>, mut work: impl FnMut(&View<'_>)) {
    let all = &*DOCUMENTS;
    bencher.counter(ItemsCount::new(all.binary.len())).bench_local(|| {
        for bytes in &all.binary {
            work(&View::of(bytes, Some(&all.names)).unwrap());
        }
    });
}

fn parse_with(bencher: Bencher<'_, '_>, names: Option<&Names>, mode: JsonMode) {
    let (mut parser, mut out) = (JsonParser::new(JsonOptions::new().mode(mode)), Vec::new());
    each_line(bencher, |line| {
        out.clear();
        parser.parse(line, names, &mut out).unwrap();
        black_box(&out);
    });
}

/// To the binary form, with the names of fields as ids.
#[divan::bench(sample_size = 1)]
fn parse(bencher: Bencher<'_, '_>) {
    parse_with(bencher, Some(&DOCUMENTS.names), JsonMode::Plain);
}

/// To the binary form, with the names of fields inside.
#[divan::bench(sample_size = 1)]
fn parse_self_contained(bencher: Bencher<'_, '_>) {
    parse_with(bencher, None, JsonMode::Plain);
}

/// To the binary form, with a look at each name: the documents have no form of Extended JSON.
#[divan::bench(sample_size = 1)]
fn parse_extended(bencher: Bencher<'_, '_>) {
    parse_with(bencher, Some(&DOCUMENTS.names), JsonMode::Extended);
}

#[divan::bench(sample_size = 1)]
fn parse_by_serde_json(bencher: Bencher<'_, '_>) {
    each_line(bencher, |line| {
        black_box(serde_json::from_slice::<serde_json::Value>(line).unwrap());
    });
}

#[divan::bench(sample_size = 1)]
fn parse_by_sonic_rs(bencher: Bencher<'_, '_>) {
    each_line(bencher, |line| {
        black_box(sonic_rs::from_slice::<sonic_rs::Value>(line).unwrap());
    });
}

#[divan::bench(sample_size = 1)]
fn read_one_field(bencher: Bencher<'_, '_>) {
    each_document(bencher, |view| {
        black_box(view.get("score").unwrap());
    });
}

#[divan::bench(sample_size = 1)]
fn validate_all(bencher: Bencher<'_, '_>) {
    let all = &*DOCUMENTS;
    bencher.counter(ItemsCount::new(all.binary.len())).bench_local(|| {
        for bytes in &all.binary {
            black_box(validate(bytes, Some(&all.names)).unwrap());
        }
    });
}

#[divan::bench(sample_size = 1)]
fn write_json(bencher: Bencher<'_, '_>) {
    let mut out = Vec::new();
    each_document(bencher, |view| {
        out.clear();
        json::append_json(view, &mut out).unwrap();
    });
}

#[divan::bench(sample_size = 1)]
fn write_extended(bencher: Bencher<'_, '_>) {
    let mut out = Vec::new();
    each_document(bencher, |view| {
        out.clear();
        json::append_json_as(view, JsonMode::Extended, &mut out).unwrap();
    });
}

#[divan::bench(sample_size = 1)]
fn decode_to_value(bencher: Bencher<'_, '_>) {
    each_document(bencher, |view| {
        black_box(view.to_value().unwrap());
    });
}
