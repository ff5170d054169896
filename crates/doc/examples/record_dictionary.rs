//! Compares two ways to compress encoded documents: each document alone with a trained dictionary,
//! and blocks of documents. Reports stored bytes and the CPU time to store and to read a document.
//!
//! `cargo run --release -p flagstone-doc --example record_dictionary FILE [COUNT]`
//!
//! Each line of FILE is a JSON document; FILE may be compressed (`.zst`). Dictionaries are trained
//! on one document in 16 and measured on the others. Not included: keys, which blocks compress
//! too; the block cache, whose hits save a reader the work; checksums.

#![allow(clippy::print_stdout, reason = "it is there to print")]

use flagstone_base::{Compression, compress::decompress};
use flagstone_doc::{JsonParser, Names};
use std::hint::black_box;
use std::io::{BufRead, BufReader, Error};
use std::time::Instant;
use zstd::bulk::{Compressor, Decompressor};
use zstd::dict::{DecoderDictionary, EncoderDictionary};

type Failure = Box<dyn std::error::Error>;

/// The length of the constant that begins each zstd frame; a store need not keep it.
const MAGIC_LEN: usize = 4;
/// The approximate length of the header of a record, or of a block's entry in the index.
const FRAME_LEN: usize = 3;

struct Clock(Instant);

impl Clock {
    /// Returns CPU nanoseconds of this thread, or elapsed ones where the system has no such count.
    fn nanos(&self) -> f64 {
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let nanos = stat.split(' ').next().and_then(|text| text.parse::<u64>().ok());
        nanos.map_or_else(|| self.0.elapsed().as_nanos() as f64, |nanos| nanos as f64)
    }

    /// Returns the median time of five runs of `work`, in nanoseconds. The system counts CPU time
    /// in ticks of some milliseconds, so each run repeats `work` for 0.3 s.
    fn median(&self, mut work: impl FnMut() -> Result<(), Failure>) -> Result<f64, Failure> {
        let mut times = Vec::new();
        let mut passes = 1;
        while times.len() < 5 {
            let start = self.nanos();
            (0..passes).try_for_each(|_| work())?;
            let took = self.nanos() - start;
            if took < 3e8 {
                passes = passes * 2 + 1;
            } else {
                times.push(took / f64::from(passes));
            }
        }
        times.sort_by(f64::total_cmp);
        Ok(times[2])
    }
}

struct Documents {
    json_bytes: usize,
    raw_bytes: usize,
    trained_on: Vec<Vec<u8>>,
    measured: Vec<Vec<u8>>,
}

fn read(path: &str, count: usize) -> Result<Documents, Failure> {
    let file = std::fs::File::open(path)?;
    let lines: Box<dyn BufRead> = if path.ends_with(".zst") {
        Box::new(BufReader::new(zstd::Decoder::new(file)?))
    } else {
        Box::new(BufReader::new(file))
    };
    let (names, mut parser) = (Names::new(), JsonParser::default());
    let (mut trained_on, mut measured) = (Vec::new(), Vec::new());
    let (mut json_bytes, mut raw_bytes) = (0, 0);
    for (at, line) in lines.lines().take(count).enumerate() {
        let line = line?;
        let mut bytes = Vec::new();
        parser.parse(line.as_bytes(), Some(&names), &mut bytes)?;
        if at % 16 == 0 {
            trained_on.push(bytes);
        } else {
            json_bytes += line.len() + 1;
            raw_bytes += bytes.len();
            measured.push(bytes);
        }
    }
    Ok(Documents { json_bytes, raw_bytes, trained_on, measured })
}

struct Row {
    what: String,
    stored: usize,
    write_ns: f64,
    read_ns: f64,
}

/// Measures documents in blocks of at least `block_bytes`, each block compressed alone.
fn blocks(
    documents: &Documents,
    clock: &Clock,
    (compression, block_bytes): (Compression, usize),
) -> Result<Row, Failure> {
    let mut raw: Vec<Vec<u8>> = vec![Vec::new()];
    // The index of each document's block.
    let mut places = Vec::with_capacity(documents.measured.len());
    for document in &documents.measured {
        let current = raw.len() - 1;
        places.push(current);
        raw[current].extend_from_slice(document);
        if raw[current].len() >= block_bytes {
            raw.push(Vec::new());
        }
    }
    let mut packed: Vec<(bool, Vec<u8>)> = Vec::new();
    let write = clock.median(|| {
        packed.clear();
        for block in &raw {
            let mut out = Vec::with_capacity(block.len());
            let is_packed = compression.compress(block, &mut out);
            packed.push((is_packed, if is_packed { out } else { block.clone() }));
        }
        Ok(())
    })?;
    let mut reads = 0;
    let read = clock.median(|| {
        // Documents are read in an order other than that of the blocks.
        reads = 0;
        for at in (0..places.len()).step_by(97) {
            let block = places[at];
            let (is_packed, bytes) = &packed[block];
            if *is_packed {
                let mut unpacked = vec![0; raw[block].len()];
                decompress(compression.tag(), bytes, &mut unpacked)?;
                black_box(unpacked);
            } else {
                black_box(bytes.clone());
            }
            reads += 1;
        }
        Ok(())
    })?;
    Ok(Row {
        what: format!("{compression:?}, blocks of {} KiB", block_bytes >> 10),
        stored: packed.iter().map(|(_, bytes)| bytes.len() + FRAME_LEN).sum(),
        write_ns: write / documents.measured.len() as f64,
        read_ns: read / f64::from(reads),
    })
}

/// Measures documents that are each compressed alone.
fn records(
    documents: &Documents,
    clock: &Clock,
    (level, dictionary_bytes): (i32, usize),
) -> Result<Row, Failure> {
    let dictionary = match dictionary_bytes {
        0 => Vec::new(),
        bytes => zstd::dict::from_samples(&documents.trained_on, bytes)?,
    };
    let (for_writes, for_reads) =
        (EncoderDictionary::copy(&dictionary, level), DecoderDictionary::copy(&dictionary));
    let mut compressor = Compressor::with_prepared_dictionary(&for_writes)?;
    compressor.include_checksum(false)?;
    compressor.include_dictid(false)?;
    let mut decompressor = Decompressor::with_prepared_dictionary(&for_reads)?;
    let largest = documents.measured.iter().map(Vec::len).max().unwrap_or(0);
    let mut packed: Vec<Vec<u8>> = Vec::new();
    let write = clock.median(|| {
        packed.clear();
        let mut buffer = vec![0; zstd::zstd_safe::compress_bound(largest)];
        for document in &documents.measured {
            let len = compressor.compress_to_buffer(document, &mut buffer)?;
            let shrinks = len - MAGIC_LEN < document.len();
            packed.push(if shrinks { buffer[..len].to_vec() } else { Vec::new() });
        }
        Ok(())
    })?;
    let mut buffer = vec![0; largest];
    let mut reads = 0;
    let read = clock.median(|| {
        reads = 0;
        for at in (0..packed.len()).step_by(97) {
            if packed[at].is_empty() {
                buffer[..documents.measured[at].len()].copy_from_slice(&documents.measured[at]);
            } else {
                decompressor.decompress_to_buffer(&packed[at], &mut buffer[..])?;
            }
            black_box(&buffer);
            reads += 1;
        }
        Ok(())
    })?;
    let stored = packed.iter().zip(&documents.measured).map(|(packed, raw)| {
        FRAME_LEN + if packed.is_empty() { raw.len() } else { packed.len() - MAGIC_LEN }
    });
    Ok(Row {
        what: format!("zstd {level}, each document, dictionary of {} KiB", dictionary.len() >> 10),
        stored: stored.sum::<usize>() + dictionary.len(),
        write_ns: write / documents.measured.len() as f64,
        read_ns: read / f64::from(reads),
    })
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let path = args.first().ok_or(Error::other("usage: record_dictionary FILE [COUNT]"))?;
    let count = args.get(1).map_or(Ok(usize::MAX), |text| text.parse())?;
    let documents = read(path, count)?;
    let clock = Clock(Instant::now());
    let of_json = |bytes: usize| 100.0 * bytes as f64 / documents.json_bytes as f64;
    println!(
        "{} documents, {} bytes of JSON, encoded {:.1} %",
        documents.measured.len(),
        documents.json_bytes,
        of_json(documents.raw_bytes)
    );
    println!("| what | stored, % of JSON | ns to store a document | ns to read one |");
    println!("|---|---|---|---|");
    let print = |row: Row| {
        let Row { what, stored, write_ns, read_ns } = row;
        println!("| {what} | {:.2} | {write_ns:.0} | {read_ns:.0} |", of_json(stored));
    };
    for compression in [Compression::Lz4, Compression::Zstd(1), Compression::Zstd(3)] {
        for block_bytes in [4 << 10, 16 << 10] {
            print(blocks(&documents, &clock, (compression, block_bytes))?);
        }
    }
    for dictionary in [(1, 0), (1, 16 << 10), (1, 64 << 10), (3, 16 << 10), (3, 112 << 10)] {
        print(records(&documents, &clock, dictionary)?);
    }
    Ok(())
}
