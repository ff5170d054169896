//! Compares serde directly to and from documents with the way through JSON text. The ways take
//! turns; the results are medians of the CPU time of this thread.
//!
//! `cargo run --release -p flagstone-doc --features serde --example struct_speed FILE [ROUNDS]`
//!
//! FILE holds comments as JSON lines and may be compressed (`.zst`).

#![allow(clippy::print_stdout, reason = "it is there to print")]

use flagstone_doc::json::append_json;
use flagstone_doc::{Encoder, JsonParser, Names, View};
use serde::{Deserialize, Serialize};
use std::hint::black_box;
use std::io::{Error, Read};
use std::time::Instant;

type Failure = Box<dyn std::error::Error>;
type Pass<'a> = Box<dyn FnMut() -> Result<(), Failure> + 'a>;

/// Passes over all documents in each round.
const PASSES: u32 = 3;

#[derive(Serialize, Deserialize)]
struct Comment {
    id: String,
    name: String,
    fullname: String,
    author: String,
    author_flair_text: Option<String>,
    body: String,
    created_utc: f64,
    controversiality: i64,
    score: i64,
    ups: i64,
    downs: i64,
    gilded: i64,
    archived: bool,
    stickied: bool,
    is_submitter: bool,
    edited: Edited,
    distinguished: Option<String>,
    likes: Option<bool>,
    link_id: String,
    link_author: String,
    link_title: String,
    link_url: String,
    link_permalink: String,
    permalink: String,
    parent_id: String,
    num_comments: i64,
    subreddit_type: String,
    #[serde(rename = "subreddit.display_name_prefixed")]
    subreddit: String,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Edited {
    No(bool),
    At(f64),
}

#[derive(Deserialize)]
struct Part<'a> {
    author: &'a str,
    score: i64,
    body: &'a str,
}

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

fn write_straight<'a>(comments: &'a [Comment], names: &'a Names) -> Pass<'a> {
    let (mut encoder, mut out) = (Encoder::new(), Vec::new());
    Box::new(move || {
        for comment in comments {
            out.clear();
            encoder.encode_serialize(comment, Some(names), &mut out)?;
            black_box(&out);
        }
        Ok(())
    })
}

fn write_by_json<'a>(comments: &'a [Comment], names: &'a Names) -> Pass<'a> {
    let (mut parser, mut json, mut out) = (JsonParser::default(), Vec::new(), Vec::new());
    Box::new(move || {
        for comment in comments {
            json.clear();
            out.clear();
            serde_json::to_writer(&mut json, comment)?;
            parser.parse(&json, Some(names), &mut out)?;
            black_box(&out);
        }
        Ok(())
    })
}

fn read_straight<'a>(documents: &'a [Vec<u8>], names: &'a Names) -> Pass<'a> {
    Box::new(move || {
        for bytes in documents {
            black_box(View::of(bytes, Some(names))?.to::<Comment>()?);
        }
        Ok(())
    })
}

fn read_by_json<'a>(documents: &'a [Vec<u8>], names: &'a Names) -> Pass<'a> {
    let mut json = Vec::new();
    Box::new(move || {
        for bytes in documents {
            json.clear();
            append_json(&View::of(bytes, Some(names))?, &mut json)?;
            black_box(serde_json::from_slice::<Comment>(&json)?);
        }
        Ok(())
    })
}

fn read_a_part<'a>(documents: &'a [Vec<u8>], names: &'a Names) -> Pass<'a> {
    Box::new(move || {
        for bytes in documents {
            let part = View::of(bytes, Some(names))?.to::<Part<'_>>()?;
            black_box((part.author, part.score, part.body));
        }
        Ok(())
    })
}

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let text = read(args.first().ok_or(Error::other("usage: struct_speed FILE [ROUNDS]"))?)?;
    let rounds: usize = args.get(1).map_or(Ok(9), |text| text.parse())?;
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let comments: Vec<Comment> = lines.map(serde_json::from_slice).collect::<Result<_, _>>()?;
    let (names, mut encoder) = (Names::new(), Encoder::new());
    let mut documents = Vec::new();
    for comment in &comments {
        let mut out = Vec::new();
        encoder.encode_serialize(comment, Some(&names), &mut out)?;
        documents.push(out);
    }
    println!("{} comments, {rounds} rounds", comments.len());
    let mut passes = [
        ("write, straight", write_straight(&comments, &names)),
        ("write, by JSON text", write_by_json(&comments, &names)),
        ("read, straight", read_straight(&documents, &names)),
        ("read, by JSON text", read_by_json(&documents, &names)),
        ("read three fields, borrowed", read_a_part(&documents, &names)),
    ]
    .map(|(what, pass)| (what, pass, Vec::new()));
    let wall = Instant::now();
    for _ in 0..rounds {
        for (_, pass, seconds) in &mut passes {
            let start = cpu_seconds(&wall);
            (0..PASSES).try_for_each(|_| pass())?;
            seconds.push((cpu_seconds(&wall) - start) / f64::from(PASSES));
        }
    }
    for (what, _, seconds) in &mut passes {
        seconds.sort_by(f64::total_cmp);
        let each = |seconds: f64| seconds * 1e9 / comments.len() as f64;
        let (median, fastest) = (each(seconds[seconds.len() / 2]), each(seconds[0]));
        println!("{what:<28} {median:>8.0} ns a document (fastest {fastest:.0})");
    }
    Ok(())
}
