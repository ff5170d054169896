//! Measures parsing, reading one field and writing JSON, for a file of JSON lines (may be `.zst`).
//!
//! `cargo run --release -p flagstone-doc --example json_speed FILE [FIELD] [SECONDS]`

#![allow(clippy::print_stdout, reason = "it is there to print")]

use flagstone_doc::{JsonParser, Names, View, json, validate};
use std::io::{Error, Read};
use std::time::Instant;

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

/// Runs `pass` over all documents for about `seconds` and prints the speed.
fn measure(what: &str, bytes: usize, documents: usize, seconds: f64, mut pass: impl FnMut()) {
    pass();
    let start = Instant::now();
    let mut passes = 0;
    while passes == 0 || start.elapsed().as_secs_f64() < seconds {
        pass();
        passes += 1;
    }
    let each = start.elapsed().as_secs_f64() / f64::from(passes);
    println!(
        "{what:<28} {:>8.0} MB/s of JSON {:>9.1} ns a document",
        bytes as f64 / each / 1e6,
        each * 1e9 / documents as f64
    );
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let path = args.first().ok_or(Error::other("usage: json_speed FILE [FIELD] [SECONDS]"))?;
    let field = args.get(1).map_or("score", String::as_str);
    let seconds = args.get(2).map_or(Ok(2.0), |text| text.parse())?;
    let text = read(path)?;
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').filter(|l| !l.is_empty()).collect();
    let bytes: usize = lines.iter().map(|line| line.len()).sum();
    let names = Names::new();
    let mut parser = JsonParser::default();
    let mut documents = Vec::new();
    for line in &lines {
        let mut out = Vec::new();
        parser.parse(line, Some(&names), &mut out)?;
        documents.push(out);
    }
    let packed: usize = documents.iter().map(Vec::len).sum();
    let share = 100.0 * packed as f64 / bytes as f64;
    println!("{} documents, {bytes} bytes of JSON, {packed} binary ({share:.1}%)", lines.len());
    let mut out = Vec::new();
    let views = || documents.iter().filter_map(|bytes| View::of(bytes, Some(&names)).ok());
    measure("parse to binary, ids", bytes, lines.len(), seconds, || {
        for line in &lines {
            out.clear();
            let parsed = parser.parse(line, Some(&names), &mut out);
            assert!(parsed.is_ok(), "a line that parsed before");
        }
    });
    let mut inline = JsonParser::default();
    measure("parse to binary, inline", bytes, lines.len(), seconds, || {
        for line in &lines {
            out.clear();
            let parsed = inline.parse(line, None, &mut out);
            assert!(parsed.is_ok(), "a line that parsed before");
        }
    });
    let mut found = 0;
    measure("view a field", bytes, lines.len(), seconds, || {
        found = views().filter(|view| matches!(view.get(field), Ok(Some(_)))).count();
    });
    println!("  {field:?} found in {found}");
    measure("validate", bytes, lines.len(), seconds, || {
        let valid = documents.iter().filter(|bytes| validate(bytes, Some(&names)).is_ok()).count();
        assert_eq!(valid, documents.len(), "every document is valid");
    });
    measure("to JSON", bytes, lines.len(), seconds, || {
        for view in views() {
            out.clear();
            assert!(json::append_json(&view, &mut out).is_ok(), "a document from JSON");
        }
    });
    measure("to a value", bytes, lines.len(), seconds, || {
        for view in views() {
            assert!(view.to_value().is_ok(), "a valid document");
        }
    });
    Ok(())
}
