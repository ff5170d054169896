//! Reports of result files: a page, pictures, and what is refused.

use crate::run::Place;

const SMALL: &str = "--memory 16MiB --interval 0.05 --value-size 100 --operations 2000";

#[test]
fn a_page_and_pictures_are_made_of_results() {
    let place = Place::new();
    for threads in [1, 2] {
        place.ok(&format!("bench balanced --threads {threads} --out r {SMALL}"));
    }
    place.ok("generate comments --count 100 --output comments.jsonl");
    place.ok("bench report r --out page.html --png pictures --documents comments.jsonl");
    let html = place.read("page.html");
    for figure in ["best", "by-threads", "size-rate", "latency", "document-sizes"] {
        assert!(html.contains(&format!("<figure id=\"figure-{figure}\">")), "{figure}");
        let png = std::fs::read(place.path(&format!("pictures/{figure}.png"))).unwrap();
        assert!(png.starts_with(b"\x89PNG"), "{figure}");
    }
    place.ok("bench report r");
    assert!(place.read("r/report.html").starts_with("<!doctype html>"));
}

#[test]
fn what_is_no_result_is_refused() {
    let place = Place::new();
    place.fails("bench report nowhere", 3, "cannot read nowhere");
    std::fs::create_dir(place.path("empty")).unwrap();
    place.fails("bench report empty", 2, "no result files");
    std::fs::write(place.path("empty/x.jsonl"), "{\"a\":1}\n").unwrap();
    place.fails("bench report empty", 3, "x.jsonl:1");
}
