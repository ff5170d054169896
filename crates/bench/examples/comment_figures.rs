//! Measures comments: sizes, compression of blocks of lines, and how fast they are made.
//!
//! ```text
//! cargo run --release -p flagstone-bench --example comment_figures -- spread 200000
//! cargo run --release -p flagstone-bench --example comment_figures -- run 200000
//! cargo run --release -p flagstone-bench --example comment_figures -- file LINES.jsonl
//! cargo run --release -p flagstone-bench --example comment_figures -- speed 1000000
//! ```
//! `spread` takes comments evenly from the whole month, `run` the first ones. Of a sample from a
//! file only the lines count: so real comments, or another generator's, can be laid beside ours.

use std::io::Write;
use std::time::Instant;

use flagstone_bench::Comments;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mode, argument] = &arguments[..] else {
        return Err("usage: comment_figures spread|run|speed COUNT, or file PATH".into());
    };
    let start = Instant::now();
    let comments = Comments::new(1);
    eprintln!("tables ready after {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    let mut lines = Vec::new();
    match mode.as_str() {
        "file" => lines = std::fs::read(argument)?,
        "run" => comments.write_lines(0..argument.parse()?, &mut lines),
        "spread" => {
            let count: u64 = argument.parse()?;
            for k in 0..count {
                comments.write(k * (Comments::MONTH / count), &mut lines);
                lines.push(b'\n');
            }
        }
        "speed" => return speed(comments, argument.parse()?),
        _ => return Err(format!("no such mode: {mode}").into()),
    }
    figures(&lines)
}

fn speed(comments: Comments, count: u64) -> Result<(), Box<dyn std::error::Error>> {
    for threads in [1, 2, 4] {
        let start = Instant::now();
        let bytes = comments.generate(0..count, threads, &mut std::io::sink())?;
        let seconds = start.elapsed().as_secs_f64();
        let (mb, documents) = (bytes as f64 / 1e6 / seconds, count as f64 / seconds);
        writeln!(std::io::stdout(), "{threads} threads: {mb:.0} MB/s, {documents:.0} comments/s")?;
    }
    let start = Instant::now();
    let sum = (0..count).fold(0, |sum, i| sum + usize::from(comments.key(i)[6]));
    let ns = start.elapsed().as_secs_f64() * 1e9 / count as f64;
    writeln!(std::io::stdout(), "keys: {ns:.1} ns each (sum {sum})")?;
    Ok(())
}

fn figures(lines: &[u8]) -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout();
    let mut sizes: Vec<usize> = Vec::new();
    for line in lines.split(|&b| b == b'\n').filter(|l| !l.is_empty()) {
        sizes.push(line.len());
    }
    sizes.sort_unstable();
    let n = sizes.len();
    write!(out, "{n} comments, mean {:.1}", sizes.iter().sum::<usize>() as f64 / n as f64)?;
    for p in [0.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 100.0] {
        write!(out, ", p{p} {}", sizes[((n - 1) as f64 * p / 100.0) as usize])?;
    }
    writeln!(out)?;
    for block_bytes in [4096, 16_384, 65_536] {
        let (mut raw, mut packed) = (0, [0; 3]);
        for block in lines.chunks(block_bytes) {
            raw += block.len();
            packed[0] += lz4_flex::block::compress(block).len();
            packed[1] += zstd::bulk::compress(block, 1)?.len();
            packed[2] += zstd::bulk::compress(block, 3)?.len();
        }
        let [lz4, zstd1, zstd3] = packed.map(|p| raw as f64 / p as f64);
        writeln!(out, "{block_bytes}: lz4 {lz4:.2}, zstd 1 {zstd1:.2}, zstd 3 {zstd3:.2}")?;
    }
    Ok(())
}
