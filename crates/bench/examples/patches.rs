//! Parts of documents: a patch as merge operand against a put, one path against a full decode.
//!
//! `cargo run --release -p flagstone-bench --example patches -- DIR [COUNT]`
//!
//! Rounds of the two sides alternate in one process over one database of comments; the figure of a side
//! is the median of its rounds. Compare the ratios: rates depend on what else the machine does.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring program")]

use flagstone::{Collection, Database, Document, Patch};
use flagstone_comments::Comments;
use std::path::Path;
use std::time::Instant;

const ROUNDS: usize = 7;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let Some(dir) = arguments.next() else {
        eprintln!("usage: patches DIR [COUNT]");
        std::process::exit(2);
    };
    let count: u64 = arguments.next().map_or(20_000, |count| count.parse().unwrap());
    let dir = Path::new(&dir);
    if dir.exists() {
        std::fs::remove_dir_all(dir).unwrap();
    }
    let db = Database::builder(dir).memory_budget(512 << 20).open().unwrap();
    let documents = db.collection("comments").unwrap();
    let comments = Comments::new(1);
    let made: Vec<(String, Document)> = (0..count)
        .map(|i| {
            let mut json = Vec::new();
            comments.write(i, &mut json);
            (comments.key(i).as_str().to_owned(), Document::from_json(&json).unwrap())
        })
        .collect();
    for (key, document) in &made {
        documents.put(key.as_str(), document).unwrap();
    }
    db.compact().unwrap();
    reads(&documents, &made);
    writes(&documents, &made);
    folds(&db, &documents, &made);
    db.close().unwrap();
    std::fs::remove_dir_all(dir).unwrap();
}

fn compare(what: [&str; 2], count: usize, sides: [&mut dyn FnMut(); 2]) {
    let mut rates = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        for at in [round % 2, 1 - round % 2] {
            let started = Instant::now();
            sides[at]();
            rates[at].push(count as f64 / started.elapsed().as_secs_f64());
        }
    }
    let [a, b] = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates[rates.len() / 2]
    });
    println!("{:<34} {:>9.0} /s", what[0], a);
    println!("{:<34} {:>9.0} /s   x {:.2}", what[1], b, b / a);
}

/// Cached gets, the same keys in the same drawn order.
fn reads(documents: &Collection, made: &[(String, Document)]) {
    let drawn: Vec<&str> = (0..made.len())
        .map(|i| made[i.wrapping_mul(2_654_435_761) % made.len()].0.as_str())
        .collect();
    let decode = || {
        for key in &drawn {
            std::hint::black_box(documents.get(*key).unwrap().unwrap().to_value());
        }
    };
    let get = || {
        for key in &drawn {
            std::hint::black_box(documents.get(*key).unwrap().unwrap().int("score"));
        }
    };
    let path = || {
        for key in &drawn {
            std::hint::black_box(documents.get_path(*key, "score").unwrap().unwrap());
        }
    };
    let count = drawn.len();
    compare(
        ["get, whole value decoded", "get_path, one of 44 fields"],
        count,
        [&mut { decode }, &mut { path }],
    );
    compare(
        ["get, checked, one field", "get_path, one of 44 fields"],
        count,
        [&mut { get }, &mut { path }],
    );
}

/// Blind patches against puts, and changes with a read against one another.
fn writes(documents: &Collection, made: &[(String, Document)]) {
    let patch = Patch::new().inc("score", 1);
    let count = made.len();
    let mut put = || {
        for (key, document) in made {
            documents.put(key.as_str(), document).unwrap();
        }
    };
    let mut merge = || {
        for (key, _) in made {
            documents.patch(key.as_str(), &patch).unwrap();
        }
    };
    compare(["put of a document", "patch, blind: inc score 1"], count, [&mut put, &mut merge]);
    let mut update = || {
        for (key, _) in made {
            documents.update(key.as_str(), |d| d.set("score", d.int("score") + 1)).unwrap();
        }
    };
    let mut apply = || {
        for (key, _) in made {
            documents.apply_patch(key.as_str(), &patch).unwrap();
        }
    };
    compare(
        ["update, decoded and encoded", "apply_patch, on the bytes"],
        count,
        [&mut update, &mut apply],
    );
}

/// What a get pays for operands that were not folded yet.
fn folds(db: &Database, documents: &Collection, made: &[(String, Document)]) {
    let get = || {
        let started = Instant::now();
        for (key, _) in made {
            std::hint::black_box(documents.get(key.as_str()).unwrap().unwrap());
        }
        started.elapsed().as_nanos() as f64 / made.len() as f64
    };
    for (key, document) in made {
        documents.put(key.as_str(), document).unwrap();
    }
    db.compact().unwrap();
    for (more, operands) in [(0, 0), (1, 1), (3, 4), (12, 16)] {
        for (key, _) in made {
            for _ in 0..more {
                documents.patch(key.as_str(), &Patch::new().inc("score", 1)).unwrap();
            }
        }
        get();
        println!("get over {operands:>2} operands                {:>9.0} ns", get());
    }
}
