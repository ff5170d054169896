//! Estimates the gain of shapes: a map's list of names replaced by the number of a shape that
//! documents share.
//!
//! `cargo run --release -p flagstone-doc --example document_shapes FILE [FIELD] [COUNT]`
//!
//! Each line of FILE is a JSON document; FILE may be compressed (`.zst`). Only the names of a root
//! become a shape here, and only if their ids take one byte each. The shape's number takes two
//! bytes; inner maps keep their ids. A shape counts from its third document on, and there are at
//! most 4,096 shapes, as a real store would limit them.

#![allow(clippy::print_stdout, reason = "it is there to print")]

use flagstone_base::Compression;
use flagstone_doc::{JsonParser, Names, View};
use std::collections::HashMap;
use std::hint::black_box;
use std::io::{BufRead, BufReader, Error};
use std::time::Instant;

type Failure = Box<dyn std::error::Error>;

const SHAPES_MAX: usize = 4096;
const SEEN_BEFORE: u32 = 2;
/// The forms of a document's root, in its first byte: a map with ids of one byte, and one with a
/// shape.
const IDS_1: u8 = 3;
const SHAPE: u8 = 6;

fn cpu_nanos(since: &Instant) -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat.split(' ').next().and_then(|text| text.parse::<u64>().ok());
    nanos.map_or_else(|| since.elapsed().as_nanos() as f64, |nanos| nanos as f64)
}

/// Returns the median time of seven runs of `work`, in nanoseconds. The system counts CPU time in
/// ticks of some milliseconds, so each run repeats `work` for 0.3 s.
fn median(mut work: impl FnMut()) -> f64 {
    let wall = Instant::now();
    let mut times = Vec::new();
    let mut passes = 1;
    while times.len() < 7 {
        let start = cpu_nanos(&wall);
        (0..passes).for_each(|_| work());
        let took = cpu_nanos(&wall) - start;
        if took < 3e8 {
            passes = passes * 2 + 1;
        } else {
            times.push(took / f64::from(passes));
        }
    }
    times.sort_by(f64::total_cmp);
    times[3]
}

/// Returns the ids of the root's names, if they take one byte each, and the offset of their end.
fn ids(document: &[u8]) -> Option<(&[u8], usize)> {
    let (header, rest) = document.split_first()?;
    if header & 7 != IDS_1 {
        return None;
    }
    let (count, len) = match *rest {
        [n, ..] if n < 0x80 => (usize::from(n), 1),
        [low, high, ..] if high < 0x80 => (usize::from(low & 0x7F) | usize::from(high) << 7, 2),
        _ => return None,
    };
    Some((rest.get(len..len + count)?, 1 + len + count))
}

#[derive(Default)]
struct Shapes {
    known: HashMap<Vec<u8>, (u32, Option<u16>)>,
    made: usize,
}

impl Shapes {
    /// Appends the document with its root's names replaced by a shape; returns false if there is
    /// none.
    fn shaped(&mut self, document: &[u8], out: &mut Vec<u8>) -> bool {
        out.clear();
        let Some((names, end)) = ids(document) else { return false };
        let (seen, shape) = match self.known.get_mut(names) {
            Some(known) => known,
            None => self.known.entry(names.to_vec()).or_default(),
        };
        *seen += 1;
        if shape.is_none() && *seen > SEEN_BEFORE && self.made < SHAPES_MAX {
            *shape = u16::try_from(self.made).ok();
            self.made += 1;
        }
        let Some(shape) = shape else { return false };
        out.push(document[0] & !7 | SHAPE);
        out.extend_from_slice(&shape.to_le_bytes());
        out.extend_from_slice(&document[end..]);
        true
    }
}

fn read(path: &str, count: usize) -> Result<Vec<String>, Failure> {
    let file = std::fs::File::open(path)?;
    let lines: Box<dyn BufRead> = if path.ends_with(".zst") {
        Box::new(BufReader::new(zstd::Decoder::new(file)?))
    } else {
        Box::new(BufReader::new(file))
    };
    Ok(lines.lines().take(count).collect::<Result<_, _>>()?)
}

/// Returns the number of bytes that the documents take in compressed blocks.
fn stored(documents: &[Vec<u8>], compression: Compression, block_bytes: usize) -> usize {
    let (mut block, mut out, mut stored) = (Vec::new(), Vec::new(), 0);
    let mut close = |block: &mut Vec<u8>| {
        out.clear();
        stored += if compression.compress(block, &mut out) { out.len() } else { block.len() };
        block.clear();
    };
    for document in documents {
        block.extend_from_slice(document);
        if block.len() >= block_bytes {
            close(&mut block);
        }
    }
    close(&mut block);
    stored
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let path = args.first().ok_or(Error::other("usage: document_shapes FILE [FIELD] [COUNT]"))?;
    let field = args.get(1).map_or("score", String::as_str);
    let count = args.get(2).map_or(Ok(usize::MAX), |text| text.parse())?;
    let lines = read(path, count)?;
    let json: usize = lines.iter().map(|line| line.len() + 1).sum();
    let (names, mut parser) = (Names::new(), JsonParser::default());
    let mut by_ids = Vec::new();
    for line in &lines {
        let mut bytes = Vec::new();
        parser.parse(line.as_bytes(), Some(&names), &mut bytes)?;
        by_ids.push(bytes);
    }
    let (mut shapes, mut bytes, mut with_shape) = (Shapes::default(), Vec::new(), 0);
    let by_shape: Vec<Vec<u8>> = by_ids
        .iter()
        .map(|document| {
            let is_shaped = shapes.shaped(document, &mut bytes);
            with_shape += usize::from(is_shaped);
            if is_shaped { bytes.clone() } else { document.clone() }
        })
        .collect();
    println!(
        "{} documents, {} sequences of names, {} shapes, {:.1} % of documents have one",
        lines.len(),
        shapes.known.len(),
        shapes.made,
        100.0 * with_shape as f64 / lines.len() as f64
    );
    let sum = |documents: &[Vec<u8>]| documents.iter().map(Vec::len).sum::<usize>();
    println!("| bytes, % of JSON | ids | shapes | saved of ids, % |");
    println!("|---|---|---|---|");
    let row = |what: String, ids: usize, shaped: usize| {
        let share = |bytes: usize| 100.0 * bytes as f64 / json as f64;
        let saved = 100.0 * (1.0 - shaped as f64 / ids as f64);
        println!("| {what} | {:.2} | {:.2} | {saved:.1} |", share(ids), share(shaped));
    };
    row("raw".to_owned(), sum(&by_ids), sum(&by_shape));
    for compression in [Compression::Lz4, Compression::Zstd(1), Compression::Zstd(3)] {
        for block_bytes in [4 << 10, 16 << 10] {
            let stored = |documents| stored(documents, compression, block_bytes);
            let what = format!("{compression:?}, blocks of {} KiB", block_bytes >> 10);
            row(what, stored(&by_ids), stored(&by_shape));
        }
    }
    time(&lines, &by_ids, &names, field);
    Ok(())
}

/// Measures the parts of encoding and of finding a field that shapes would replace.
fn time(lines: &[String], by_ids: &[Vec<u8>], names: &Names, field: &str) {
    let each = |nanos: f64| nanos / lines.len() as f64;
    let (mut parser, mut out) = (JsonParser::default(), Vec::new());
    let parse = median(|| {
        for line in lines {
            out.clear();
            black_box(parser.parse(line.as_bytes(), Some(names), &mut out)).ok();
        }
    });
    let copy = median(|| {
        for document in by_ids {
            out.clear();
            if let Some((names, _)) = ids(document) {
                out.extend_from_slice(black_box(names));
            }
            black_box(&out);
        }
    });
    println!("parse and encode {:.1} ns, of which copying names {:.1} ns", each(parse), each(copy));
    let views = || by_ids.iter().filter_map(|bytes| View::of(bytes, Some(names)).ok());
    let get = median(|| {
        for view in views() {
            black_box(view.get(field)).ok();
        }
    });
    let id = names.id(field).and_then(|id| u8::try_from(id).ok()).unwrap_or_default();
    let find = median(|| {
        for document in by_ids {
            if let Some((names, _)) = ids(document) {
                black_box(memchr::memchr(black_box(id), names));
            }
        }
    });
    let look_up = median(|| {
        for _ in by_ids {
            black_box(names.id(black_box(field)));
        }
    });
    println!(
        "get {field:?} {:.1} ns; looking up its id {:.1} ns, finding that in the document {:.1} ns",
        each(get),
        each(look_up),
        each(find)
    );
}
