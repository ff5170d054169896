//! Measures folds of many patches of one document, one by one and all at once, in CPU time of this
//! thread.
//!
//! `cargo run --release -p flagstone-doc --example patch_chain`

#![allow(clippy::print_stdout, reason = "it is there to print")]

use flagstone_doc::{Encoder, JsonParser, Names, Patch, Patcher, Value, doc};
use std::hint::black_box;
use std::time::Instant;

type Failure = Box<dyn std::error::Error>;

/// Returns the CPU seconds of this thread, or elapsed seconds where the system has no such count.
fn cpu_seconds(since: &Instant) -> f64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = stat.split(' ').next().and_then(|text| text.parse::<u64>().ok());
    nanos.map_or_else(|| since.elapsed().as_secs_f64(), |nanos| nanos as f64 / 1e9)
}

/// Returns the median time of three rounds, in microseconds.
fn median(mut round: impl FnMut()) -> f64 {
    let wall = Instant::now();
    let mut times: Vec<f64> = (0..3)
        .map(|_| {
            let mut passes = 1;
            loop {
                let start = cpu_seconds(&wall);
                (0..passes).for_each(|_| round());
                let took = cpu_seconds(&wall) - start;
                // The system counts CPU time in ticks of some milliseconds, so run for 0.2 s.
                if took > 0.2 {
                    return took / f64::from(passes);
                }
                passes *= 2;
            }
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[1] * 1e6
}

fn comment(names: &Names) -> Result<Vec<u8>, Failure> {
    let fields: Vec<String> = (0..40)
        .map(|n| match n % 4 {
            0 => format!(r#""field_{n}":null"#),
            1 => format!(r#""field_{n}":"some text of {n}""#),
            2 => format!(r#""field_{n}":{}"#, n * 40_000_000),
            _ => format!(r#""field_{n}":false"#),
        })
        .collect();
    let json = format!(r#"{{{},"n":1,"tags":[],"body":"{}"}}"#, fields.join(","), "b".repeat(300));
    let mut bytes = Vec::new();
    JsonParser::default().parse(json.as_bytes(), Some(names), &mut bytes)?;
    Ok(bytes)
}

fn with_array(len: usize, names: &Names) -> Result<Vec<u8>, Failure> {
    let tags: Value = (0..len).map(|n| format!("some tag or other {n}")).collect();
    let mut bytes = Vec::new();
    Encoder::new().encode(&doc!({ "n": 1, "tags": (tags) }), Some(names), &mut bytes)?;
    Ok(bytes)
}

fn main() -> Result<(), Failure> {
    let names = Names::new();
    let documents = [
        ("a comment", comment(&names)?),
        ("an array of 1,000 texts", with_array(1000, &names)?),
        ("an array of 100,000 texts", with_array(100_000, &names)?),
    ];
    let mut operands = [Vec::new(), Vec::new()];
    let mut encoder = Encoder::new();
    Patch::new().inc("n", 1).encode(&mut encoder, Some(&names), &mut operands[0])?;
    Patch::new().push("tags", "one more tag").encode(
        &mut encoder,
        Some(&names),
        &mut operands[1],
    )?;
    println!("| document | patches | one by one, us | decoded, us |");
    println!("|---|---|---|---|");
    for (what, base) in &documents {
        for count in [32, 64, 128, 512, 4096] {
            let patches: Vec<&[u8]> =
                operands.iter().cycle().take(count).map(Vec::as_slice).collect();
            let mut patcher = Patcher::new();
            let one_by_one = if base.len() * count > 2 << 30 {
                "(not run)".to_owned()
            } else {
                let time = median(|| {
                    let mut document = Some(base.clone());
                    for patch in &patches {
                        patcher.apply(patch, &mut document, Some(&names));
                    }
                    black_box(&document);
                });
                format!("{time:.1}")
            };
            let mut decoding = Patcher::new().with_one_by_one_max(0);
            let folded = median(|| {
                black_box(decoding.fold(Some(base), &patches, Some(&names)));
            });
            println!("| {what}, {} bytes | {count} | {one_by_one} | {folded:.1} |", base.len());
        }
    }
    Ok(())
}
