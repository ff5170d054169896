//! The page of a full folder, of a poor one, and of a hostile one.

use super::fixture;
use flagstone_bench::record::{read_dir, read_file};
use flagstone_bench::report::{DocumentSizes, Report};
use std::path::Path;

/// The report of a folder that `fill` made. `FLAGSTONE_REPORT_DIR` names a folder to keep it all
/// in, to be looked at.
fn report(fill: fn(&Path)) -> Report {
    let dir = tempfile::tempdir().unwrap();
    fill(dir.path());
    let lines: String = (0..1000).map(|at| "x".repeat(400 + at) + "\n").collect();
    let sizes = DocumentSizes::of_lines(lines.as_bytes()).unwrap();
    Report::new(&read_dir(dir.path()).unwrap(), Some(&sizes))
}

/// Everything between two marks, wherever they stand.
fn between<'a>(text: &'a str, start: &str, end: &str) -> Vec<&'a str> {
    let parts = text.split(start).skip(1);
    parts.map(|part| part.split(end).next().unwrap()).collect()
}

#[test]
fn a_full_folder_shows_every_figure() {
    let report = report(fixture::full);
    let ids: Vec<&str> = report.figures().iter().map(|figure| figure.id.as_str()).collect();
    for id in [
        "best",
        "by-threads",
        "by-partitions",
        "size-rate",
        "engines",
        "latency",
        "load",
        "load-time",
        "documents",
        "time-get",
        "time-update-get-put",
        "time-update-merge",
        "document-sizes",
        "durability",
        "ycsb",
        "run-balanced-flagstone-16-partitions-16-threads-none",
    ] {
        assert_eq!(ids.iter().filter(|found| **found == id).count(), 1, "{id} in {ids:?}");
    }
    let html = report.html();
    assert!(!html.contains("Not measured"), "every section has something");
    for id in &ids {
        assert_eq!(html.matches(&format!("<figure id=\"figure-{id}\">")).count(), 1, "{id}");
    }
    keep(&report);
}

#[test]
fn figures_tell_what_they_are_for() {
    let report = report(fixture::full);
    let html = report.html();
    let svg = |id: &str| {
        let figures = report.figures();
        figures.iter().find(|figure| figure.id == id).unwrap_or_else(|| panic!("{id}")).svg.clone()
    };
    let run = svg("run-balanced-flagstone-16-partitions-16-threads-none");
    for word in ["The whole run", "Around the slowest interval: ", "size on disk (right)"] {
        assert!(run.contains(word), "{word}");
    }
    let long = svg("run-balanced-flagstone-16-partitions-16-threads-none-4");
    let tips = between(&long, "<title>writers stopped: ", " to ");
    assert!(!tips.is_empty() && tips.iter().all(|from| from.parse::<f64>().is_ok()), "{tips:?}");
    for word in ["flushes", "compactions"] {
        assert!(long.contains(&format!("<title>{word}: ")), "{word}");
    }
    assert!(svg("best").contains("% against 1 partition"));
    assert!(svg("load-time").contains("smoothed"));
    let states = between(&html, "State at the start (", ")");
    assert!(states.iter().any(|cells| cells.contains("get, 4 partitions")), "{states:?}");
    assert!(html.contains("1,000 documents, mean 900 bytes"));
}

/// Writes page and pictures where `FLAGSTONE_REPORT_DIR` says, if it says so.
fn keep(report: &Report) {
    let Some(dir) = std::env::var_os("FLAGSTONE_REPORT_DIR") else { return };
    std::fs::write(Path::new(&dir).join("report.html"), report.html()).unwrap();
    #[cfg(feature = "png")]
    {
        let painter = flagstone_bench::report::Painter::new();
        let mut runs = 0;
        for figure in report.figures() {
            runs += u32::from(figure.id.starts_with("run-"));
            if !figure.id.starts_with("run-")
                || runs % 40 == 1
                || figure.id.ends_with("16-threads-none-4")
            {
                let png = painter.png(figure, 1380).unwrap();
                std::fs::write(Path::new(&dir).join(format!("{}.png", figure.id)), png).unwrap();
            }
        }
    }
}

#[test]
fn the_page_refers_to_nothing_outside() {
    let html = report(fixture::full).html();
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
    let html = report(fixture::full).html();
    assert!(html.contains("A &lt;quick&gt; processor &amp; more"));
    assert!(!html.contains("<quick>"));
}

#[test]
fn what_was_not_measured_is_said_in_a_line() {
    let dir = tempfile::tempdir().unwrap();
    let empty = Report::new(&[], None);
    assert!(empty.figures().is_empty());
    assert!(empty.html().contains("Not measured: flagstone-bench matrix"));
    fixture::one(dir.path());
    let trials = read_dir(dir.path()).unwrap();
    let report = Report::new(&trials, None);
    let html = report.html();
    assert!(
        html.contains("<figure id=\"figure-best\">") && html.contains("<section id=\"trials\">")
    );
    assert!(html.contains("Not measured: flagstone-bench report DIR --documents"));
}

#[test]
fn numbers_no_engine_gives_do_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    fixture::one(dir.path());
    let mut trial = read_file(&dir.path().join("one.jsonl")).unwrap();
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

#[test]
fn sizes_of_documents_come_from_their_lines_without_any_trial() {
    let lines: String = (0..1000).map(|at| "x".repeat(400 + at) + "\n").collect();
    let sizes = DocumentSizes::of_lines(lines.as_bytes()).unwrap();
    let report = Report::new(&[], Some(&sizes));
    let ids: Vec<&str> = report.figures().iter().map(|figure| figure.id.as_str()).collect();
    assert_eq!(ids, ["document-sizes"]);
    assert!(report.html().contains("1,000 documents, mean 900 bytes"), "{}", report.html());
}

#[cfg(feature = "png")]
#[test]
fn figures_become_pictures() {
    let dir = tempfile::tempdir().unwrap();
    fixture::one(dir.path());
    let report = Report::new(&read_dir(dir.path()).unwrap(), None);
    let painter = flagstone_bench::report::Painter::new();
    for figure in report.figures() {
        let png = painter.png(figure, 460).unwrap();
        assert_eq!(&png[1..4], b"PNG", "{}", figure.id);
        assert_eq!(png[16..20], 460u32.to_be_bytes(), "{}", figure.id);
    }
}
