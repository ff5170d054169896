//! Packs the tables of counts that comments are drawn from. To be run when the tables change.
//!
//! ```text
//! cargo run --release -p flagstone-comments --example pack_tables -- FOLDER
//! ```
//! The folder holds `bigram_model.tsv` (a word as a JSON string, its count, how often a word
//! follows it, `successor:count ...`), `starts.json` (first words and counts), `subreddits.tsv`
//! (name, comments, t5 id or nothing) and `tail_words.txt` (a JSON string a line). The result is
//! `crates/comments/data/comments.tables.zst`; its layout is drawn in `src/unpack.rs`.

use std::collections::HashMap;
use std::path::Path;

type Anything<T> = Result<T, Box<dyn std::error::Error>>;

/// A subreddit that is not among the largest of 2012 gets one of these endings with this chance:
/// names of later years are longer.
const SUFFIX_SHARE_PERCENT: u64 = 55;
const SUFFIX_MIN_RANK: usize = 25;
const SUFFIXES: [&str; 14] = [
    "Memes",
    "_irl",
    "Advice",
    "Circlejerk",
    "UK",
    "Club",
    "Discussion",
    "India",
    "Game",
    "Online",
    "Pics",
    "Help",
    "Stories",
    "2",
];
const NAME_MAX: usize = 21;

fn main() -> Anything<()> {
    let folder = std::env::args().nth(1).ok_or("usage: pack_tables FOLDER_OF_TABLES")?;
    let read = |name: &str| {
        std::fs::read_to_string(Path::new(&folder).join(name)).map_err(|e| format!("{name}: {e}"))
    };
    let mut out = b"fsct\x01".to_vec();
    let words = pack_words(&read("bigram_model.tsv")?, &mut out)?;
    pack_starts(&read("starts.json")?, &words, &mut out)?;
    pack_subreddits(&read("subreddits.tsv")?, &mut out)?;
    let tail = read("tail_words.txt")?;
    let tail: Result<Vec<String>, _> = tail.lines().map(serde_json::from_str).collect();
    strings(&tail?, &mut out)?;
    let packed = zstd::encode_all(&out[..], 22)?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/comments.tables.zst");
    std::fs::write(&path, &packed)?;
    eprintln!("{} bytes packed into {}: {}", out.len(), packed.len(), path.display());
    Ok(())
}

fn pack_words(tsv: &str, out: &mut Vec<u8>) -> Anything<HashMap<String, u16>> {
    let (mut words, mut counts, mut totals) = (vec![], vec![], vec![]);
    let (mut lengths, mut low, mut high, mut pairs) = (vec![], vec![], vec![], vec![]);
    for line in tsv.lines() {
        let mut fields = line.split('\t');
        let mut field = || fields.next().ok_or("a line of bigram_model.tsv lacks a field");
        words.push(serde_json::from_str::<String>(field()?)?);
        counts.push(field()?.parse()?);
        totals.push(field()?.parse()?);
        let mut previous = 0_u64;
        let listed = field()?.split_whitespace();
        let start = low.len();
        for successor in listed {
            let (id, count) = successor.split_once(':').ok_or("a successor without a count")?;
            let [l, h] = id.parse::<u16>()?.to_le_bytes();
            let count: u64 = count.parse()?;
            let number = if low.len() == start { Some(count) } else { previous.checked_sub(count) };
            varint(number.ok_or("successors are not in the order of their counts")?, &mut pairs);
            previous = count;
            low.push(l);
            high.push(h);
        }
        lengths.push(u8::try_from(low.len() - start)?);
    }
    strings(&words, out)?;
    varints(&counts, out);
    varints(&totals, out);
    for plane in [lengths, low, high, pairs] {
        out.extend_from_slice(&plane);
    }
    Ok(words.into_iter().zip(0..).collect())
}

fn pack_starts(json: &str, words: &HashMap<String, u16>, out: &mut Vec<u8>) -> Anything<()> {
    let starts: Vec<(String, u64)> = serde_json::from_str(json)?;
    let id = |word: &String| words.get(word).copied().ok_or("a first word without statistics");
    let ids = starts.iter().map(|s| id(&s.0)).collect::<Result<Vec<u16>, _>>()?;
    varint(starts.len() as u64, out);
    out.extend(ids.iter().map(|id| id.to_le_bytes()[0]));
    out.extend(ids.iter().map(|id| id.to_le_bytes()[1]));
    varints(&starts.iter().map(|s| s.1).collect::<Vec<_>>(), out);
    Ok(())
}

fn pack_subreddits(tsv: &str, out: &mut Vec<u8>) -> Anything<()> {
    let (mut names, mut fullnames, mut sizes) = (vec![], vec![], vec![]);
    for (rank, line) in tsv.lines().enumerate() {
        let fields: Vec<&str> = line.split('\t').collect();
        let &[name, size, t5] = fields.as_slice() else {
            return Err(format!("subreddits.tsv, line {}: not three fields", rank + 1).into());
        };
        let draw = scramble(rank as u64);
        let mut name = name.to_owned();
        if rank >= SUFFIX_MIN_RANK && draw % 100 < SUFFIX_SHARE_PERCENT {
            name.push_str(SUFFIXES[(draw / 100 % SUFFIXES.len() as u64) as usize]);
            name.truncate(NAME_MAX);
        }
        names.push(name);
        fullnames.push(match t5 {
            "" => format!("t5_{}", base36(2_300_000 + rank as u64 * 977)),
            _ => t5.to_owned(),
        });
        sizes.push(size.parse()?);
    }
    strings(&names, out)?;
    strings(&fullnames, out)?;
    varints(&sizes, out);
    Ok(())
}

fn scramble(x: u64) -> u64 {
    let x = x.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    x ^ (x >> 32)
}

fn base36(mut value: u64) -> String {
    let mut digits = Vec::new();
    while value > 0 {
        digits.extend(char::from_digit((value % 36) as u32, 36));
        value /= 36;
    }
    digits.iter().rev().collect()
}

fn strings(list: &[String], out: &mut Vec<u8>) -> Anything<()> {
    varint(list.len() as u64, out);
    for string in list {
        out.push(u8::try_from(string.len())?);
    }
    for string in list {
        out.extend_from_slice(string.as_bytes());
    }
    Ok(())
}

fn varints(values: &[u64], out: &mut Vec<u8>) {
    for &value in values {
        varint(value, out);
    }
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 128 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}
