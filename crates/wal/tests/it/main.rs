//! Tests of the log from outside, on disks in memory that crash and fail.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "helpers of tests"
)]

mod basic;
mod crash;
mod damage;
mod fault;
mod group;
mod keep;

use flagstone_base::{DatabaseId, FileNumber, Result, SeqNo};
use flagstone_env::names::{FileKind, Name, parse, path};
use flagstone_env::{Disk, MemDisk, Random, SeededRandom};
use flagstone_wal::{
    Listed, Log, LogOptions, Lsn, NewRecord, RecordKind, Recovered, SegmentInfo, payload_checksum,
    read,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub(crate) const ID: DatabaseId = DatabaseId([7; 16]);
pub(crate) const BATCH: RecordKind = RecordKind(1);
pub(crate) const SMALL: LogOptions = LogOptions { segment_bytes: 8 << 10, spares: 2, keep: None };

pub(crate) fn dir() -> &'static Path {
    Path::new("/db")
}

pub(crate) fn file(number: u64) -> PathBuf {
    path(dir(), FileKind::Wal, FileNumber(number))
}

pub(crate) fn mem() -> MemDisk {
    let disk = MemDisk::default();
    disk.create_dir(dir()).unwrap();
    disk
}

/// The seed of a random test: from the environment, or `default`. It is printed, so that a failed
/// run can be repeated.
pub(crate) fn seed(default: u64) -> u64 {
    let seed = std::env::var("FLAGSTONE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = seed.unwrap_or(default);
    println!("FLAGSTONE_SEED={seed}");
    seed
}

pub(crate) struct Dice(SeededRandom);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SeededRandom::new(seed))
    }

    pub(crate) fn below(&self, n: u64) -> u64 {
        self.0.next_u64() % n
    }
}

/// The payload that is logged for a SeqNo. It depends only on the SeqNo; some are longer than a
/// segment.
pub(crate) fn payload(seqno: u64) -> Vec<u8> {
    let dice = Dice::new(seqno);
    let len = match dice.below(20) {
        0 => 0,
        1 => 3000 + dice.below(6000),
        2..6 => 300 + dice.below(1000),
        _ => dice.below(120),
    };
    let mut bytes = seqno.to_le_bytes().to_vec();
    bytes.extend((0..len).map(|_| dice.below(256) as u8));
    bytes
}

/// Lists files for the log in advance, as the manifest does. A disk may refuse to create some.
pub(crate) fn list_more(log: &Log) {
    if log.wants_files()
        && let Ok(files) = log.make_files()
    {
        log.list_files(&files);
    }
}

/// Releases segments as a flush does, when everything at or below `seqno` is in tables.
pub(crate) fn release_through(log: &Log, seqno: u64) -> Result<usize> {
    let segments = log.segments();
    let is_needed = |segment: &&SegmentInfo| segment.last_seqno() > Some(SeqNo::new(seqno));
    let from = segments.iter().find(is_needed).or(segments.last());
    from.map_or(Ok(0), |from| log.release_before(from.number))
}

/// Returns whether the payload of a SeqNo is shared with the log. Long ones are, as a whole or from
/// some byte on.
pub(crate) fn is_shared(seqno: u64) -> bool {
    payload(seqno).len() >= 300
}

pub(crate) fn enqueue(log: &Log, seqno: u64) -> Result<Lsn> {
    list_more(log);
    let mut payload = payload(seqno);
    let payload_checksum = payload_checksum(&payload);
    let copied = if seqno.is_multiple_of(2) { payload.len() / 2 } else { 0 };
    let shared = is_shared(seqno).then(|| Arc::new(payload.split_off(copied)));
    log.enqueue_together(&[NewRecord {
        kind: BATCH,
        first_seqno: SeqNo::new(seqno),
        count: 1,
        payload: &payload,
        shared: shared.as_ref(),
        payload_checksum,
    }])
}

/// The list of all files of the log that are there, so that none is missing.
pub(crate) fn all_files(disk: &dyn Disk, from: Option<u64>) -> Listed {
    let numbers = disk.list(dir()).unwrap_or_default();
    let numbers = numbers.iter().filter_map(|name| match parse(name) {
        Name::Numbered(FileKind::Wal, number) => Some(number),
        _ => None,
    });
    Listed { from: from.map(FileNumber), files: numbers.collect(), newest_kept: None }
}

/// Reads the log and checks that each record is the one that was enqueued.
pub(crate) fn recover(disk: &dyn Disk, from: Option<u64>) -> Result<(Recovered, Vec<u64>)> {
    recover_listed(disk, &all_files(disk, from))
}

/// As [`recover`], for a log with this list of files.
pub(crate) fn recover_listed(disk: &dyn Disk, listed: &Listed) -> Result<(Recovered, Vec<u64>)> {
    let mut seqnos = Vec::new();
    let recovered = read(disk, dir(), ID, listed, &mut |record| {
        assert_eq!(record.payload, payload(record.first_seqno.get()), "{}", record.first_seqno);
        seqnos.push(record.first_seqno.get());
        Ok(())
    })?;
    assert_eq!(recovered.records, seqnos.len() as u64);
    Ok((recovered, seqnos))
}

pub(crate) fn create(
    disk: Arc<dyn Disk>,
    options: LogOptions,
    recovered: &Recovered,
) -> Result<Log> {
    let random = Arc::new(SeededRandom::new(recovered.next_number.0));
    Log::create(disk, dir(), ID, random, options, recovered)
}

/// Opens the log of a disk for writing after the records that it holds.
pub(crate) fn open(disk: &MemDisk, options: LogOptions) -> Log {
    let recovered = recover(disk, None).unwrap().0;
    create(Arc::new(disk.clone()), options, &recovered).unwrap()
}
