//! Every byte of every file is flipped once, one after another; in long runs every bit.

use super::victim::{Ending, dictionary_of};
use super::{Victim, frames, newest_segment, records};
use flagstone::internal::env::names::{CURRENT, FileKind};
use flagstone_testkit::{World, is_long, seed};

/// Flips the bytes of `name` that `wanted` lets through, one after another; `least` says of a place
/// which moment of history it may take the database back to. What damage to it must name is
/// `names`.
fn flip_all(
    victim: &Victim,
    (name, content): (&str, &[u8]),
    names: &[&str],
    wanted: impl Fn(usize) -> bool,
    least: impl Fn(usize) -> usize,
) {
    // Reading changes nothing, so one disk serves for all.
    let world = victim.damaged(&[]);
    let path = World::path(name);
    let mut refused = 0;
    for at in (0..content.len()).filter(|at| is_long() || wanted(*at)) {
        for bit in 0..8 {
            if !is_long() && bit != at % 8 {
                continue;
            }
            let mut flipped = content.to_vec();
            flipped[at] ^= 1 << bit;
            world.mem.put_content(&path, &flipped);
            let damage = format!("{name}: bit {bit} of byte {at}");
            refused += usize::from(victim.judge(&world, &damage, names, least(at)));
            let is_end = least(at) < victim.newest();
            if at % 97 == 0 || (is_end && at % 7 == 0) {
                let world = victim.damaged(&[(name, Some(&flipped))]);
                victim.judge_and_write(&world, &damage, names, least(at));
            }
        }
    }
    world.mem.put_content(&path, content);
    assert!(!victim.judge(&world, "none", &[], victim.newest()), "without damage");
    eprintln!("{name}: {} bytes, {refused} times refused", content.len());
}

fn victim(test: &str) -> Victim {
    Victim::new(seed(test, 21), Ending::Made)
}

#[test]
fn every_byte_of_a_table_is_right_or_refused() {
    let victim = victim("every_byte_of_a_table_is_right_or_refused");
    for (name, content) in victim.files(FileKind::Table) {
        flip_all(&victim, (&name, &content), &[&name], |_| true, |_| victim.newest());
    }
}

/// Each read decompresses a MiB, so that not every byte is flipped: those of the header of the
/// dictionary and of the end of the file are, and of the others one in 97; in long runs all.
#[test]
fn the_bytes_of_a_table_with_a_dictionary_are_right_or_refused() {
    let seed = seed("the_bytes_of_a_table_with_a_dictionary_are_right_or_refused", 21);
    let victim = Victim::with_dictionary(seed);
    let (name, content) = victim.files(FileKind::Table).pop().unwrap();
    let dictionary = dictionary_of(&content).unwrap();
    let wanted = |at: usize| {
        at.is_multiple_of(97)
            || (dictionary..dictionary + 32).contains(&at)
            || at + 200 > content.len()
    };
    flip_all(&victim, (&name, &content), &[&name], wanted, |_| victim.newest());
}

#[test]
fn every_byte_of_current_is_right_or_refused() {
    let victim = victim("every_byte_of_current_is_right_or_refused");
    let content = victim.image.content(&World::path(CURRENT)).unwrap();
    flip_all(&victim, (CURRENT, &content), &[CURRENT], |_| true, |_| victim.newest());
}

#[test]
fn every_byte_of_the_manifest_but_its_last_frame_is_right_or_refused() {
    let seed = seed("every_byte_of_the_manifest_but_its_last_frame_is_right_or_refused", 21);
    for ending in [Ending::Made, Ending::Flushed] {
        let victim = Victim::new(seed, ending);
        let (name, content) = victim.files(FileKind::Manifest).pop().unwrap();
        let last = *frames(&victim, &name).last().unwrap();
        // Without the last edit a table or segment of the edit before may be missing.
        let least = |at| if at < last { victim.newest() } else { 0 };
        flip_all(&victim, (&name, &content), &["00"], |_| true, least);
    }
}

#[test]
fn every_byte_of_the_log_but_its_last_record_is_right_or_refused() {
    let victim = victim("every_byte_of_the_log_but_its_last_record_is_right_or_refused");
    let (newest, _) = newest_segment(&victim);
    for (name, content) in victim.files(FileKind::Wal) {
        let records = records(&victim, &name);
        let used = records.last().map_or(200, |(range, _)| range.end + 40).min(content.len());
        let last = records.last().filter(|_| name == newest).map(|(range, _)| range.clone());
        let least = |at| match &last {
            Some(last) if last.contains(&at) => victim.newest() - 1,
            _ => victim.newest(),
        };
        // Behind its last record a segment is a megabyte of zeroes.
        let number = name.split('.').next().unwrap().to_owned();
        let world = victim.damaged(&[]);
        let mut refused = 0;
        for at in 0..used {
            for bit in 0..8 {
                if !is_long() && bit != at % 8 {
                    continue;
                }
                let mut flipped = content.clone();
                flipped[at] ^= 1 << bit;
                world.mem.put_content(&World::path(&name), &flipped);
                let damage = format!("{name}: bit {bit} of byte {at}");
                refused += usize::from(victim.judge(&world, &damage, &[&number], least(at)));
                if at % 41 == 0 || least(at) < victim.newest() {
                    let world = victim.damaged(&[(&name, Some(&flipped))]);
                    victim.judge_and_write(&world, &damage, &[&number], least(at));
                }
            }
        }
        eprintln!("{name}: {used} bytes, {refused} times refused");
    }
}
