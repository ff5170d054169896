//! Whole files and whole parts of them: removed, cut, doubled, zeroed, replaced by an older self or
//! by another of their kind; blocks, frames and records in each other's place.

use super::Victim;
use super::victim::Ending;
use super::{check_error, frames, newest_segment, options, records};
use flagstone::Space;
use flagstone::internal::env::names::{CURRENT, FileKind, Name, parse};
use flagstone_testkit::{World, seed};
use std::path::Path;

/// Any numbered file: without one of them, or with an older one, it is another that does not fit.
const ANY: &[&str] = &["00", CURRENT];

fn victim(test: &str) -> Victim {
    Victim::new(seed(test, 22), Ending::Made)
}

/// The one with every feature, and the one with a dictionary.
fn victims(test: &str) -> [Victim; 2] {
    [victim(test), Victim::with_dictionary(seed(test, 22))]
}

/// How far back damage to `name` from byte `from` on may take the database.
fn least(victim: &Victim, name: &str, from: usize) -> usize {
    match parse(name) {
        Name::Numbered(FileKind::Manifest, _) => 0,
        Name::Numbered(FileKind::Wal, _) if newest_segment(victim).0 == name => {
            let lost =
                records(victim, name).into_iter().filter(|(r, batch)| *batch && r.end > from);
            victim.newest() - lost.count()
        }
        _ => victim.newest(),
    }
}

fn every_file(victim: &Victim) -> Vec<(String, Vec<u8>)> {
    let mut files = World::on(victim.image.clone(), 1).contents();
    files.retain(|(name, _)| !matches!(parse(name), Name::Lock | Name::Temporary));
    files
}

/// A file of the log in which no segment was begun says nothing.
fn holds_something(victim: &Victim, name: &str) -> bool {
    let is_log = matches!(parse(name), Name::Numbered(FileKind::Wal, _));
    !is_log || !records(victim, name).is_empty()
}

#[test]
fn a_removed_file_is_missed() {
    for victim in victims("a_removed_file_is_missed") {
        for (name, _) in every_file(&victim) {
            let (world, damage) = (victim.damaged(&[(&name, None)]), format!("{name}: removed"));
            let refused = victim.judge(&world, &damage, ANY, victim.newest());
            assert!(refused, "{damage}");
            let world = victim.damaged(&[(&name, None)]);
            victim.judge_and_write(&world, &damage, ANY, victim.newest());
        }
    }
}

#[test]
fn a_cut_file_is_missed_but_at_the_two_ends() {
    for victim in victims("a_cut_file_is_missed_but_at_the_two_ends") {
        for (name, content) in every_file(&victim) {
            let used = content.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
            if used == 0 {
                continue;
            }
            let lens =
                [0, 1, 64, 100, 512, used / 3, used / 2, used * 3 / 4, used - 1, used, used + 1];
            for len in lens.into_iter().filter(|len| *len < content.len()) {
                let damage = format!("{name}: cut to {len} of {used} bytes");
                let world = victim.damaged(&[(&name, Some(&content[..len]))]);
                let least = least(&victim, &name, len);
                victim.judge_and_write(&world, &damage, ANY, least);
            }
        }
    }
}

#[test]
fn a_doubled_file_is_right_or_refused() {
    for victim in victims("a_doubled_file_is_right_or_refused") {
        for (name, content) in every_file(&victim) {
            let doubled = [&content[..], &content[..]].concat();
            let world = victim.damaged(&[(&name, Some(&doubled))]);
            victim.judge_and_write(&world, &format!("{name}: doubled"), ANY, victim.newest());
        }
    }
}

#[test]
fn a_sector_that_is_lost_is_missed_but_at_the_two_ends() {
    for victim in victims("a_sector_that_is_lost_is_missed_but_at_the_two_ends") {
        for (name, content) in every_file(&victim) {
            let used = content.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
            for start in (0..used).step_by(512) {
                let end = (start + 512).min(content.len());
                let is_last = match parse(&name) {
                    Name::Numbered(FileKind::Manifest, _) => {
                        end > *frames(&victim, &name).last().unwrap()
                    }
                    _ => end > records(&victim, &name).last().map_or(0, |(range, _)| range.start),
                };
                let mut damaged = content.clone();
                damaged[start..end].fill(0);
                let least = if is_last { least(&victim, &name, start) } else { victim.newest() };
                let world = victim.damaged(&[(&name, Some(&damaged))]);
                victim.judge_and_write(&world, &format!("{name}: zeroes from {start}"), ANY, least);
            }
        }
    }
}

#[test]
fn an_older_self_of_a_file_is_missed_but_of_the_two_ends() {
    let victim = victim("an_older_self_of_a_file_is_missed_but_of_the_two_ends");
    let mut replaced = 0;
    for (name, content) in every_file(&victim) {
        let olds = victim.past.iter().filter(|(old, past)| *old == name && *past != content);
        for (_, old) in olds {
            let same = old.iter().zip(&content).take_while(|(a, b)| a == b).count();
            let (least, damage) = (least(&victim, &name, same), format!("{name}: an older self"));
            let world = victim.damaged(&[(&name, Some(old))]);
            victim.judge_and_write(&world, &damage, ANY, least);
            replaced += 1;
        }
    }
    // CURRENT, the manifest, two segments at least.
    assert!(replaced >= 4, "{replaced}");
}

#[test]
fn two_files_of_a_kind_in_each_others_place_are_told_apart() {
    let victim = victim("two_files_of_a_kind_in_each_others_place_are_told_apart");
    for kind in [FileKind::Table, FileKind::Wal] {
        let files = victim.files(kind);
        for (at, (one, first)) in files.iter().enumerate() {
            for (other, second) in &files[at + 1..] {
                let is_log = matches!(kind, FileKind::Wal);
                if first == second {
                    continue;
                }
                let changes = [(one.as_str(), Some(&second[..])), (other, Some(&first[..]))];
                let (world, damage) = (victim.damaged(&changes), format!("{one} and {other}"));
                let refused = victim.judge(&world, &damage, &[one, other], victim.newest());
                assert!(refused || is_log && !holds_something(&victim, one), "{damage}");
            }
        }
    }
}

/// The parts of a file that could be mistaken for one another, from offset to offset.
fn parts(victim: &Victim, name: &str, len: usize) -> Vec<std::ops::Range<usize>> {
    let starts: Vec<usize> = match parse(name) {
        Name::Numbered(FileKind::Manifest, _) => frames(victim, name),
        Name::Numbered(FileKind::Wal, _) => {
            return records(victim, name).into_iter().map(|(range, _)| range).collect();
        }
        _ => {
            let mut text = String::new();
            flagstone::internal::inspect::file_on(&victim.image, &World::path(name), &mut text)
                .unwrap();
            // `section NAME 230+20`, `block    0 64+85 from apple`
            let place = |line: &str| {
                let is_part = line.starts_with("section") || line.starts_with("block");
                let (at, len) = line.split_whitespace().find_map(|word| word.split_once('+'))?;
                let (at, len): (usize, usize) = (at.parse().ok()?, len.parse().ok()?);
                is_part.then_some(at..at + len)
            };
            let mut parts: Vec<_> = text.lines().filter_map(place).collect();
            parts.sort_by_key(|part| part.start);
            return parts;
        }
    };
    let ends = starts[1..].iter().copied().chain([len]);
    starts.iter().copied().zip(ends).map(|(start, end)| start..end).collect()
}

#[test]
fn two_parts_of_a_file_in_each_others_place_are_told_apart() {
    let mut swapped = 0;
    for victim in victims("two_parts_of_a_file_in_each_others_place_are_told_apart") {
        for (name, content) in every_file(&victim).into_iter().filter(|(name, _)| name != CURRENT) {
            let used = content.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1);
            let parts = parts(&victim, &name, used);
            for (at, one) in parts.iter().enumerate() {
                for other in parts[at + 1..]
                    .iter()
                    // Of the blocks of a large table each with its neighbours.
                    .take(if parts.len() > 40 { 3 } else { parts.len() })
                    .filter(|other| content[one.clone()] != content[(*other).clone()])
                {
                    let mut damaged = content[..one.start].to_vec();
                    damaged.extend_from_slice(&content[other.clone()]);
                    damaged.extend_from_slice(&content[one.end..other.start]);
                    damaged.extend_from_slice(&content[one.clone()]);
                    damaged.extend_from_slice(&content[other.end..]);
                    assert_eq!(damaged.len(), content.len());
                    let is_end = *other == *parts.last().unwrap();
                    let least =
                        if is_end { least(&victim, &name, one.start) } else { victim.newest() };
                    let (world, damage) = (
                        victim.damaged(&[(&name, Some(&damaged))]),
                        format!("{name}: {one:?} and {other:?}"),
                    );
                    let refused = victim.judge(&world, &damage, ANY, least);
                    assert!(refused || least < victim.newest(), "{damage}");
                    swapped += 1;
                }
            }
        }
    }
    assert!(swapped > 50, "{swapped}");
}

#[test]
fn a_table_of_a_copy_with_the_same_number_is_told_apart() {
    let world = World::new(23);
    let session = world.open(&options()).unwrap();
    let kv = session.db.space("k").options(crate::support::hashed(1)).keyspace().unwrap();
    kv.put("a", "0").unwrap();
    session.db.checkpoint("/copy").unwrap();
    let (environment, _executor) = world.environment();
    let builder = flagstone::Database::builder("/copy").options(options());
    let copy = builder.environment(environment).open().unwrap();
    let copied = copy.space("k").options(crate::support::hashed(1)).keyspace().unwrap();
    for round in 0..20 {
        kv.put("a", format!("mine {round:03}")).unwrap();
        copied.put("a", format!("copy {round:03}")).unwrap();
        session.db.flush().unwrap();
        copy.flush().unwrap();
    }
    let mut found = 0;
    for (name, content) in world.contents() {
        let Ok(other) = world.mem.content(&Path::new("/copy").join(&name)) else { continue };
        let is_table = matches!(parse(&name), Name::Numbered(FileKind::Table, _));
        if !is_table || other == content || other.len() != content.len() {
            continue;
        }
        let mem = world.mem.kill();
        mem.put_content(&World::path(&name), &other);
        let damaged = World::on(mem, 5).open(&options()).unwrap();
        // A get may find what it wants in a newer table.
        let error = damaged.db.verify().unwrap_err();
        check_error(&error, &name, &[&name]);
        found += 1;
    }
    assert!(found > 0, "the two never wrote tables of one number and length");
}
