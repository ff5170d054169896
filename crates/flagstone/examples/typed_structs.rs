//! Rust structs in a collection: put, read, change, scan.
//!
//! `cargo run --example typed_structs`

#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use flagstone::{Database, Patch, Result};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Debug)]
struct Comment {
    author: String,
    body: String,
    score: i64,
    // Documents that were written before there was this field read as without tags.
    #[serde(default)]
    tags: Vec<String>,
    state: State,
}

#[derive(Serialize, Deserialize, Debug)]
enum State {
    Published,
    Removed { by: String },
}

/// A part of a comment. What it does not name is not decoded.
#[derive(Deserialize)]
struct Score<'a> {
    author: &'a str,
    score: i64,
}

fn main() -> Result<()> {
    let path = std::env::temp_dir().join(format!("flagstone-typed-structs-{}", std::process::id()));
    let db = Database::open(&path)?;
    let comments = db.collection("comments")?;

    let comment = Comment {
        author: "ada".into(),
        body: "An engine that weaves.".into(),
        score: 1,
        tags: vec![],
        state: State::Published,
    };
    comments.put_as("c1", &comment)?;

    // Several documents, together or not at all.
    let mut batch = db.batch();
    let removed = State::Removed { by: "moderator".into() };
    batch.put_as(&comments, "c2", &Comment { state: removed, score: -3, ..comment })?;
    batch.patch(&comments, "c1", &Patch::new().inc("score", 41).push("tags", "hot"))?;
    db.commit(batch)?;

    let found: Option<Comment> = comments.get_as("c1")?;
    println!("{found:?}");

    // JSON and structs are two ways to the same documents.
    comments.put_json("c3", r#"{"author":"grace","body":"","score":7,"state":"Published"}"#)?;
    for entry in comments.scan_all() {
        let (key, document) = entry?;
        let Score { author, score } = document.to()?;
        println!("{key}: {author} {score}");
    }

    // What does not fit is an error that says where.
    comments.put_json("c4", r#"{"author":"x","body":"","score":1.5,"state":"Published"}"#)?;
    if let Err(error) = comments.get_as::<Comment>("c4") {
        println!("{error}");
    }

    drop(comments);
    db.close()?;
    std::fs::remove_dir_all(&path).map_err(|error| flagstone::Error::io("remove", &path, error))
}
