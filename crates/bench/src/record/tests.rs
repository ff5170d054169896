//! What is written is read back; what is not a result file is refused with its file and line.

use super::*;
use serde_json::Value;
use std::fs;
use std::path::Path;

fn trial() -> Vec<Line> {
    let latency = Latency { count: 3, mean: 1.5, p50: 1.0, p99: 2.0, p999: 2.5, max: 3.25 };
    let row = RowLine {
        t: 1.0,
        dt: 1.0,
        ops: 3,
        latency: [(OpKind::Put, latency), (OpKind::Get, latency)].into(),
        deletes_found: Some(1),
        level_bytes: vec![1, 0, 1 << 40],
        disk_busy: Some(0.25),
        ..RowLine::default()
    };
    let event = EventLine {
        t: 0.5,
        until: 0.75,
        kind: EventKind::Compaction,
        bytes: 9,
        what: "line\nbreaks \"and\" quotes, é".into(),
    };
    let header = Header {
        format: FORMAT,
        workload: "put-heavy".into(),
        options: [("threads".to_owned(), Value::from(4))].into(),
        ..Header::default()
    };
    let summary = Summary {
        ops: 3,
        figures: [("close_s".to_owned(), 0.1)].into(),
        write_amplification: Some(2.5),
        ..Summary::default()
    };
    vec![
        Line::Header(header),
        Line::Row(row.clone()),
        Line::Event(event),
        Line::Row(row),
        Line::Summary(summary),
    ]
}

fn write(path: &Path, lines: &[Line]) {
    let mut writer = RecordWriter::create(path).unwrap();
    for line in lines {
        writer.line(line).unwrap();
    }
    writer.finish().unwrap();
}

/// A directory with the file `a.jsonl` of a trial.
fn written() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jsonl");
    write(&path, &trial());
    (dir, path)
}

#[test]
fn what_was_written_is_read_back() {
    let (_dir, path) = written();
    let read = read_file(&path).unwrap();
    let mut lines = vec![Line::Header(read.header)];
    lines.extend(read.rows.into_iter().map(Line::Row));
    lines.extend(read.events.into_iter().map(Line::Event));
    lines.push(Line::Summary(read.summary));
    let mut expected = trial();
    expected.swap(2, 3);
    assert_eq!(lines, expected);
}

#[test]
fn rows_become_csv_with_a_column_for_whatever_any_row_has() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jsonl");
    let mut lines = trial();
    let Line::Row(last) = &mut lines[3] else { panic!("a row") };
    (last.t, last.deletes_found) = (2.0, None);
    last.latency.remove(&OpKind::Put);
    write(&path, &lines);
    let csv = rows_as_csv(&read_file(&path).unwrap());
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 5);
    for (line, kind) in lines[..2].iter().zip(["header", "summary"]) {
        let value: Value = serde_json::from_str(line.strip_prefix("# ").unwrap()).unwrap();
        assert_eq!(value["type"], kind);
    }
    let cells = |line: usize| lines[line].split(',').collect::<Vec<_>>();
    let (columns, first, second) = (cells(2), cells(3), cells(4));
    assert_eq!(columns[..3], ["t", "dt", "ops"]);
    assert!(columns.len() == first.len() && columns.len() == second.len());
    let at = |name: &str| columns.iter().position(|column| *column == name).unwrap();
    for (name, in_first, in_second) in [
        ("t", "1.0", "2.0"),
        ("latency.put.p999", "2.5", ""),
        ("latency.get.max", "3.25", "3.25"),
        ("level_bytes.2", "1099511627776", "1099511627776"),
        ("deletes_found", "1", ""),
    ] {
        assert_eq!((first[at(name)], second[at(name)]), (in_first, in_second), "{name}");
    }
}

#[test]
fn events_become_csv_with_their_words_in_quotes() {
    let (_dir, path) = written();
    let csv = events_as_csv(&read_file(&path).unwrap());
    let event = "0.5,0.75,\"compaction\",9,\"line\nbreaks \"\"and\"\" quotes, é\"\n";
    assert_eq!(csv, format!("t,until,kind,bytes,what\n{event}"));
}

#[test]
fn the_form_of_a_line_stays_as_it_is() {
    let text = serde_json::to_string(&trial()[2]).unwrap();
    let golden = concat!(
        r#"{"type":"event","t":0.5,"until":0.75,"kind":"compaction","bytes":9,"#,
        r#""what":"line\nbreaks \"and\" quotes, é"}"#
    );
    assert_eq!(text, golden);
    let text = serde_json::to_string(&trial()[1]).unwrap();
    assert!(
        text.starts_with(r#"{"type":"row","t":1.0,"dt":1.0,"ops":3,"latency":{"put":{"count":3,"#)
    );
    // What was not measured is absent.
    assert!(!text.contains("cache_hits") && !text.contains("null"), "{text}");
}

#[test]
fn a_file_has_its_name_only_when_it_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jsonl");
    let mut writer = RecordWriter::create(&path).unwrap();
    writer.line(&trial()[0]).unwrap();
    assert!(!path.exists());
    assert_eq!(read_dir(dir.path()).unwrap(), []);
    drop(writer);
    write(&path, &trial());
    assert_eq!(read_dir(dir.path()).unwrap().len(), 1);
}

#[test]
fn folders_are_read_by_path_and_other_files_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("below")).unwrap();
    fs::write(dir.path().join("notes.txt"), "no result").unwrap();
    for name in ["b.jsonl", "below/c.jsonl", "a.jsonl"] {
        write(&dir.path().join(name), &trial());
    }
    let paths = read_dir(dir.path()).unwrap().into_iter().map(|trial| trial.path);
    let expected = ["a.jsonl", "b.jsonl", "below/c.jsonl"].map(|name| dir.path().join(name));
    assert_eq!(paths.collect::<Vec<_>>(), expected);
}

#[test]
fn what_is_no_result_is_refused_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.jsonl");
    let refused = |text: &str, expected: &str| {
        fs::write(&path, text).unwrap();
        let error = read_file(&path).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    refused("", "expected a header");
    write(&path, &trial());
    let text = fs::read_to_string(&path).unwrap();
    refused(&text[..text.len() - 5], "a.jsonl:5:");
    refused(&text.replacen("\"format\":1", "\"format\":99", 1), "format 99: expected 1");
    let without_summary: Vec<&str> = text.lines().take(4).collect();
    refused(&without_summary.join("\n"), "expected a summary");
}

#[test]
fn damaged_bytes_give_an_error_or_a_trial_and_nothing_else() {
    let (_dir, path) = written();
    let whole = fs::read(&path).unwrap();
    for at in (0..whole.len()).step_by(7) {
        for byte in [0, b'"', b'}', b'9', 0xFF] {
            let mut damaged = whole.clone();
            damaged[at] = byte;
            fs::write(&path, &damaged).unwrap();
            let _either = read_file(&path);
        }
    }
}
