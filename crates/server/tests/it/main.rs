//! Tests of the public interface.

#![allow(clippy::unwrap_used, clippy::panic, reason = "test code")]

mod access;
mod bad_bson;
mod commands;
mod corpus;
mod golden;
#[cfg(unix)]
mod http;
mod messages;
mod model;
#[cfg(unix)]
mod net;
mod oracle;

use flagstone::internal::document::{Names, validate};
use flagstone_server::bson::{BsonError, BsonReader, BsonWriter};
use flagstone_testkit::Rng;
use std::path::PathBuf;

/// Reads BSON to a document in the binary form, with names inside and with names as ids, which must
/// write the same BSON.
fn read(bson: &[u8]) -> Result<Vec<u8>, BsonError> {
    let names = Names::new();
    let (mut own, mut by_ids) = (Vec::new(), Vec::new());
    let mut reader = BsonReader::new();
    let read = reader.read(bson, None, &mut own);
    assert_eq!(reader.read(bson, Some(&names), &mut by_ids).err(), read.clone().err());
    read?;
    validate(&own, None).unwrap();
    let view = validate(&by_ids, Some(&names)).unwrap();
    let mut out = Vec::new();
    BsonWriter::new(&mut out).document(&view).unwrap();
    assert_eq!(out, written(&own).unwrap());
    Ok(own)
}

/// Writes a self-contained document as BSON.
fn written(document: &[u8]) -> Result<Vec<u8>, BsonError> {
    let mut out = b"before".to_vec();
    let put = BsonWriter::new(&mut out).document(&validate(document, None).unwrap());
    assert!(put.is_ok() || out == b"before");
    put.map(|()| out.split_off(6))
}

/// Returns the JSON of a self-contained document.
fn json(document: &[u8]) -> String {
    let document = flagstone::Document::from_bytes(document.to_vec(), None).unwrap();
    document.to_json_as(flagstone::doc::JsonMode::Extended).unwrap()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// Returns a folder that tests share with other projects: that of an environment variable, or
/// `shared/FOLDER` above here.
fn shared(name: &str, folder: &str) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(name) {
        return Some(path.into());
    }
    let here = std::env::current_dir().ok()?;
    here.ancestors().map(|dir| dir.join("shared").join(folder)).find(|dir| dir.is_dir())
}

/// Returns random numbers for `test`, whose seed `FLAGSTONE_SEED` sets.
fn random(test: &str) -> Rng {
    Rng::new(flagstone_testkit::seed(test, 1))
}

/// Damages `bytes` at a few places.
fn mutate(random: &mut Rng, bytes: &mut Vec<u8>) {
    for _ in 0..=random.index(3) {
        let at = random.index(bytes.len().max(1));
        match random.index(6) {
            0 if !bytes.is_empty() => bytes[at] = random.index(256) as u8,
            1 if !bytes.is_empty() => bytes[at] ^= 1 << random.index(8),
            2 if !bytes.is_empty() => bytes[at] = *random.pick(&[0, 1, 0x7F, 0x80, 0xFF]),
            3 => bytes.truncate(at),
            4 => bytes.insert(at, random.index(256) as u8),
            _ if !bytes.is_empty() => drop(bytes.remove(at)),
            _ => {}
        }
    }
}
