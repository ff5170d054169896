//! Reports: the page of a full folder, of a poor one, and of a hostile one; and the command.
//!
//! The folder holds result files that an earlier program wrote (see their headers for which): later
//! programs must be able to read them.

use crate::run::Place;
use flagstone_bench::record::{EventKind, EventLine, RowLine, Trial, read_dir, read_file};
use flagstone_bench::report::{DocumentSizes, Report};
use std::path::{Path, PathBuf};

/// The folder of the files.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/results")
}

/// One of them.
fn one(name: &str) -> Trial {
    read_file(&folder().join(name).with_extension("jsonl")).unwrap()
}

/// All of them, mixes as if another engine had been measured, and runs of ten minutes: enough for
/// every figure of a report.
fn full() -> Vec<Trial> {
    let mut trials = read_dir(&folder()).unwrap();
    let mut peers: Vec<Trial> = trials.clone();
    peers.retain(|trial| trial.header.workload == "balanced");
    for peer in &mut peers {
        peer.header.engine = "rocksdb".into();
        peer.summary.ops_per_s *= 0.5;
    }
    trials.extend(peers);
    for trial in trials.iter_mut().filter(|trial| trial.header.workload == "load") {
        *trial = lasting_long(trial.clone());
    }
    trials.push(lasting_long(one("balanced-flagstone-p2-t2")));
    trials.extend(["hash", "auto"].map(|routing| {
        let mut trial = one("balanced-flagstone-p2-t2");
        trial.header.workload = "short-scan".into();
        trial.header.options.insert("routing".into(), routing.into());
        trial
    }));
    trials
}

/// The trial as if it had run for ten minutes: a row a second, its events all over them, and a stop
/// of writers after 450 seconds.
fn lasting_long(mut trial: Trial) -> Trial {
    let row = |second: u32| RowLine {
        t: f64::from(second),
        dt: 1.0,
        ops: if second == 451 { 10 } else { 50_000 + u64::from(second * 7919 % 20_000) },
        ..trial.rows[0].clone()
    };
    trial.rows = (1..=600).map(row).collect();
    for event in &mut trial.events {
        (event.t, event.until) = (event.t * 600.0, event.until * 600.0);
    }
    let (t, until, kind) = (450.0, 450.9, EventKind::Stall);
    trial.events.push(EventLine { t, until, kind, bytes: 0, what: "Memory".into() });
    trial
}

/// The report of trials, and of documents of 400 bytes and more.
fn report(trials: &[Trial]) -> Report {
    let lines: String = (0..1000).map(|at| "x".repeat(400 + at) + "\n").collect();
    let sizes = DocumentSizes::of_lines(lines.as_bytes()).unwrap();
    Report::new(trials, Some(&sizes))
}

/// Everything between two marks, wherever they stand.
fn between<'a>(text: &'a str, start: &str, end: &str) -> Vec<&'a str> {
    let parts = text.split(start).skip(1);
    parts.map(|part| part.split(end).next().unwrap()).collect()
}

#[test]
fn sizes_of_documents_come_from_their_lines_without_any_trial() {
    let report = report(&[]);
    let ids: Vec<&str> = report.figures().iter().map(|figure| figure.id.as_str()).collect();
    assert_eq!(ids, ["document-sizes"]);
    assert!(report.html().contains("1,000 documents, mean 900 bytes"), "{}", report.html());
}

#[test]
fn a_full_folder_shows_every_figure() {
    let report = report(&full());
    let ids: Vec<&str> = report.figures().iter().map(|figure| figure.id.as_str()).collect();
    for id in [
        "best",
        "by-threads",
        "by-partitions",
        "routings",
        "size-rate",
        "engines",
        "latency",
        "load",
        "load-time",
        "documents",
        "time-get-whole",
        "time-update-get-put",
        "time-update-merge",
        "document-sizes",
        "durability",
        "ycsb",
        "run-balanced-flagstone-2-partitions-2-threads-buffered",
    ] {
        assert_eq!(ids.iter().filter(|found| **found == id).count(), 1, "{id} in {ids:?}");
    }
    let html = report.html();
    assert!(!html.contains("Not measured"), "every section has something");
    for id in &ids {
        assert_eq!(html.matches(&format!("<figure id=\"figure-{id}\">")).count(), 1, "{id}");
    }
}

#[test]
fn figures_tell_what_they_are_for() {
    let report = report(&full());
    let html = report.html();
    let svg = |id: &str| {
        let figures = report.figures();
        figures.iter().find(|figure| figure.id == id).unwrap_or_else(|| panic!("{id}")).svg.clone()
    };
    let run = svg("run-balanced-flagstone-2-partitions-2-threads-buffered");
    for word in
        ["The whole run", "Around the slowest interval: 420 to 480 s", "size on disk (right)"]
    {
        assert!(run.contains(word), "{word}");
    }
    let tips = between(&run, "<title>writers stopped: ", " to ");
    assert!(!tips.is_empty() && tips.iter().all(|from| from.parse::<f64>().is_ok()), "{tips:?}");
    for word in ["flushes", "compactions"] {
        assert!(run.contains(&format!("<title>{word}: ")), "{word}");
    }
    assert!(svg("best").contains("% against 1 partition"));
    assert!(svg("load-time").contains("smoothed"));
    assert!(html.contains("State at the start (get (whole), 2 partitions"));
}

#[test]
fn the_page_refers_to_nothing_outside() {
    let html = report(&full()).html();
    let namespace = "xmlns=\"http://www.w3.org/2000/svg\"";
    let rest = html.replace(namespace, "");
    for word in ["http:", "https:", "//", "<script", "<link", "<img", "url(", "@import", "src="] {
        assert!(!rest.contains(word), "{word}");
    }
    let links = between(&rest, "href=\"", "\"");
    assert!(!links.is_empty() && links.iter().all(|link| link.starts_with('#')), "{links:?}");
    for link in links {
        assert!(html.contains(&format!("<section id=\"{}\">", &link[1..])), "{link}");
    }
}

#[test]
fn text_of_a_result_file_is_escaped() {
    let mut trial = one("balanced-flagstone-p1-t1");
    trial.header.machine.cpu = "A <quick> processor & more".into();
    let html = report(&[trial]).html();
    assert!(html.contains("A &lt;quick&gt; processor &amp; more"));
    assert!(!html.contains("<quick>"));
}

#[test]
fn what_was_not_measured_is_said_in_a_line() {
    let empty = Report::new(&[], None);
    assert!(empty.figures().is_empty());
    assert!(empty.html().contains("Not measured: flagstone-bench put-heavy"));
    let report = Report::new(&[one("get-heavy-flagstone-p1-t1")], None);
    let html = report.html();
    assert!(
        html.contains("<figure id=\"figure-best\">") && html.contains("<section id=\"trials\">")
    );
    assert!(html.contains("Not measured: flagstone-bench report DIR --documents"));
}

#[test]
fn numbers_no_engine_gives_do_no_harm() {
    let mut trial = one("get-heavy-flagstone-p1-t1");
    let wild = [0.0, -1.0, 1e300, f64::MIN_POSITIVE, f64::NAN, f64::INFINITY];
    for value in wild {
        trial.summary.ops_per_s = value;
        trial.summary.seconds = value;
        trial.summary.disk_bytes = u64::MAX;
        trial.rows = vec![trial.rows[0].clone(); 6];
        for row in &mut trial.rows {
            (row.t, row.dt, row.ops) = (value, value, u64::MAX);
        }
        let html = Report::new(std::slice::from_ref(&trial), None).html();
        for word in ["=\"NaN", "=\"inf", "=\"-inf", "MNaN", "LNaN", "Linf"] {
            assert!(!html.contains(word), "{value}: {word}");
        }
    }
}

const SMALL: &str = "--memory 16MiB --interval 0.05 --value-size 100 --operations 2000";

#[test]
fn a_page_and_pictures_are_made_of_results() {
    let place = Place::new();
    for threads in [1, 2] {
        place.ok(&format!("balanced --threads {threads} --out r {SMALL}"));
    }
    let mut comments = std::fs::File::create(place.path("comments.jsonl")).unwrap();
    flagstone_comments::Comments::new(1).generate(0..100, 1, &mut comments).unwrap();
    let pictures = if cfg!(feature = "png") { "--png pictures --png-width 460" } else { "" };
    place.ok(&format!("report r --out page.html {pictures} --documents comments.jsonl"));
    let html = place.read("page.html");
    for figure in ["best", "by-threads", "size-rate", "latency", "document-sizes"] {
        assert!(html.contains(&format!("<figure id=\"figure-{figure}\">")), "{figure}");
    }
    let drawn = between(&html, "<figure id=\"figure-", "\"");
    for figure in drawn.into_iter().filter(|_| cfg!(feature = "png")) {
        let png = std::fs::read(place.path(&format!("pictures/{figure}.png"))).unwrap();
        assert!(png.starts_with(b"\x89PNG"), "{figure}");
        assert_eq!(png[16..20], 460u32.to_be_bytes(), "{figure}");
    }
    place.ok("report r --csv tables");
    let table = place.read("tables/balanced-flagstone-p1-t2.csv");
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("# {\"type\":\"header\"") && lines[2].starts_with("t,dt,ops,"));
    let puts = lines[2].split(',').position(|name| name == "latency.put.count").unwrap();
    let sum: u64 =
        lines[3..].iter().filter_map(|l| l.split(',').nth(puts)?.parse::<u64>().ok()).sum();
    assert!(lines.len() > 3 && (500..800).contains(&sum), "{sum} of 2,000 operations are puts");
    let events = place.read("tables/balanced-flagstone-p1-t2.events.csv");
    assert!(events.starts_with("t,until,kind,bytes,what\n"), "{events}");
    assert!(place.read("r/report.html").starts_with("<!doctype html>"));
}

#[test]
fn what_is_no_result_is_refused() {
    let place = Place::new();
    place.fails("report nowhere", 3, "cannot read nowhere");
    std::fs::create_dir(place.path("empty")).unwrap();
    place.fails("report empty", 2, "no result files");
    std::fs::write(place.path("empty/x.jsonl"), "{\"a\":1}\n").unwrap();
    place.fails("report empty", 3, "x.jsonl:1");
}
