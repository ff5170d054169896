//! Reports of result files: a page, pictures, and what is refused.

use crate::run::Place;

const SMALL: &str = "--memory 16MiB --interval 0.05 --value-size 100 --operations 2000";

#[test]
fn a_page_and_pictures_are_made_of_results() {
    let place = Place::new();
    for threads in [1, 2] {
        place.ok(&format!("balanced --threads {threads} --out r {SMALL}"));
    }
    let mut comments = std::fs::File::create(place.path("comments.jsonl")).unwrap();
    flagstone_comments::Comments::new(1).generate(0..100, 1, &mut comments).unwrap();
    place.ok("report r --out page.html --png pictures --documents comments.jsonl");
    let html = place.read("page.html");
    for figure in ["best", "by-threads", "size-rate", "latency", "document-sizes"] {
        assert!(html.contains(&format!("<figure id=\"figure-{figure}\">")), "{figure}");
        let png = std::fs::read(place.path(&format!("pictures/{figure}.png"))).unwrap();
        assert!(png.starts_with(b"\x89PNG"), "{figure}");
    }
    place.ok("report r --csv tables");
    let table = place.read("tables/balanced-flagstone-p4-t2.csv");
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].starts_with("# {\"type\":\"header\"") && lines[2].starts_with("t,dt,ops,"));
    let puts = lines[2].split(',').position(|name| name == "latency.put.count").unwrap();
    let sum: u64 =
        lines[3..].iter().filter_map(|l| l.split(',').nth(puts)?.parse::<u64>().ok()).sum();
    assert!(lines.len() > 3 && (500..800).contains(&sum), "{sum} of 2,000 operations are puts");
    let events = place.read("tables/balanced-flagstone-p4-t2.events.csv");
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
