//! Compares our JSON parser to others, for a file of JSON lines (may be `.zst`). The parsers take
//! turns; the result is the median of the CPU time of this thread.
//!
//! `cargo run --release -p flagstone-doc --example parse_speed FILE [ROUNDS] [ours|serde|sonic]`

#![allow(clippy::print_stdout, reason = "it is there to print")]

use flagstone_doc::{JsonParser, Names};
use std::hint::black_box;
use std::io::{Error, Read};
use std::time::Instant;

/// Passes over all documents in each round.
const PASSES: u32 = 3;

type Failure = Box<dyn std::error::Error>;
type Pass<'a> = Box<dyn FnMut() -> Result<(), Failure> + 'a>;

fn read(path: &str) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path)?;
    if path.ends_with(".zst") {
        zstd::Decoder::new(file)?.read_to_end(&mut bytes)?;
    } else {
        std::io::BufReader::new(file).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

/// Returns the CPU seconds of this thread, or elapsed seconds where the system has no such count.
fn cpu_seconds(since: &Instant) -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat.split(' ').next().and_then(|text| text.parse::<u64>().ok());
    nanos.map_or_else(|| since.elapsed().as_secs_f64(), |nanos| nanos as f64 / 1e9)
}

fn ours<'a>(lines: &'a [&'a [u8]], with_names: bool) -> Pass<'a> {
    let (names, mut parser, mut out) = (Names::new(), JsonParser::default(), Vec::new());
    Box::new(move || {
        for line in lines {
            out.clear();
            parser.parse(line, with_names.then_some(&names), &mut out)?;
            black_box(&out);
        }
        Ok(())
    })
}

fn serde<'a>(lines: &'a [&'a [u8]]) -> Pass<'a> {
    Box::new(move || {
        for line in lines {
            black_box(serde_json::from_slice::<serde_json::Value>(line)?);
        }
        Ok(())
    })
}

fn sonic<'a>(lines: &'a [&'a [u8]]) -> Pass<'a> {
    Box::new(move || {
        for line in lines {
            black_box(sonic_rs::from_slice::<sonic_rs::Value>(line)?);
        }
        Ok(())
    })
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let usage = "usage: parse_speed FILE [ROUNDS] [ours|serde|sonic]";
    let text = read(args.first().ok_or(Error::other(usage))?)?;
    let rounds: usize = args.get(1).map_or(Ok(5), |text| text.parse())?;
    let only = args.get(2).map_or("", String::as_str);
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').filter(|l| !l.is_empty()).collect();
    let bytes: usize = lines.iter().map(|line| line.len()).sum();
    println!("{} documents, {bytes} bytes of JSON, {rounds} rounds", lines.len());
    let mut passes = [
        ("ours, to the binary form", ours(&lines, true)),
        ("ours, self-contained", ours(&lines, false)),
        ("serde_json, to a Value", serde(&lines)),
        ("sonic-rs, to a Value", sonic(&lines)),
    ]
    .map(|(what, pass)| (what, pass, Vec::new()));
    let wall = Instant::now();
    for _ in 0..rounds {
        for (what, pass, seconds) in &mut passes {
            if !what.starts_with(only) {
                continue;
            }
            // The system counts CPU time in ticks of some milliseconds: make several passes.
            let start = cpu_seconds(&wall);
            (0..PASSES).try_for_each(|_| pass())?;
            seconds.push((cpu_seconds(&wall) - start) / f64::from(PASSES));
        }
    }
    for (what, _, seconds) in &mut passes {
        seconds.sort_by(f64::total_cmp);
        let Some(median) = seconds.get(seconds.len() / 2) else { continue };
        println!(
            "{what:<26} {:>6.0} MB/s of JSON {:>8.1} ns a document (fastest {:.1})",
            bytes as f64 / median / 1e6,
            median * 1e9 / lines.len() as f64,
            seconds[0] * 1e9 / lines.len() as f64,
        );
    }
    Ok(())
}
