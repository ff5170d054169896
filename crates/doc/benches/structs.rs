//! What structs cost: straight to and from documents by serde, beside the way through JSON text.
//!
//! `cargo bench -p flagstone-doc --features serde --bench structs [-- FILTER]`. An iteration goes
//! through 2,000 generated comments. Read the rates.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use flagstone_comments::Comments;
use flagstone_doc::json::append_json;
use flagstone_doc::{Encoder, JsonParser, Names, View};
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;

fn main() {
    divan::main();
}

const COUNT: usize = 2_000;

#[derive(Serialize, Deserialize)]
struct Comment {
    author: String,
    author_flair_text: Option<String>,
    author_fullname: Option<String>,
    body: String,
    can_gild: bool,
    collapsed: bool,
    controversiality: i64,
    created_utc: i64,
    distinguished: Option<String>,
    edited: Edited,
    gilded: i64,
    id: String,
    is_submitter: bool,
    link_id: String,
    locked: bool,
    no_follow: bool,
    parent_id: String,
    permalink: String,
    quarantined: bool,
    retrieved_on: i64,
    score: i64,
    send_replies: bool,
    stickied: bool,
    subreddit: String,
    subreddit_id: String,
    subreddit_name_prefixed: String,
    subreddit_type: String,
    total_awards_received: i64,
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Edited {
    No(bool),
    At(f64),
}

#[derive(Deserialize)]
struct Part<'a> {
    author: &'a str,
    score: i64,
    body: &'a str,
}

/// The same comments as structs and as documents.
struct All {
    comments: Vec<Comment>,
    names: Names,
    documents: Vec<Vec<u8>>,
}

static ALL: LazyLock<All> = LazyLock::new(|| {
    let (generator, mut line) = (Comments::new(1), Vec::new());
    let comments = (0..COUNT as u64).map(|i| {
        line.clear();
        generator.write(i, &mut line);
        serde_json::from_slice(&line).unwrap()
    });
    let comments: Vec<Comment> = comments.collect();
    let (names, mut encoder) = (Names::new(), Encoder::new());
    let documents = comments.iter().map(|comment| {
        let mut out = Vec::new();
        encoder.encode_serialize(comment, Some(&names), &mut out).unwrap();
        out
    });
    let documents = documents.collect();
    All { comments, names, documents }
});

fn each_comment(bencher: Bencher<'_, '_>, mut work: impl FnMut(&Comment)) {
    let all = ALL.comments.iter();
    bencher.counter(ItemsCount::new(COUNT)).bench_local(|| all.clone().for_each(&mut work));
}

fn each_document(bencher: Bencher<'_, '_>, mut work: impl FnMut(&View<'_>)) {
    let all = &*ALL;
    bencher.counter(ItemsCount::new(COUNT)).bench_local(|| {
        for bytes in &all.documents {
            work(&View::of(bytes, Some(&all.names)).unwrap());
        }
    });
}

#[divan::bench(sample_size = 1)]
fn write(bencher: Bencher<'_, '_>) {
    let (mut encoder, mut out) = (Encoder::new(), Vec::new());
    each_comment(bencher, |comment| {
        out.clear();
        encoder.encode_serialize(comment, Some(&ALL.names), &mut out).unwrap();
        black_box(&out);
    });
}

#[divan::bench(sample_size = 1)]
fn write_through_json(bencher: Bencher<'_, '_>) {
    let (mut parser, mut json, mut out) = (JsonParser::default(), Vec::new(), Vec::new());
    each_comment(bencher, |comment| {
        json.clear();
        out.clear();
        serde_json::to_writer(&mut json, comment).unwrap();
        parser.parse(&json, Some(&ALL.names), &mut out).unwrap();
        black_box(&out);
    });
}

#[divan::bench(sample_size = 1)]
fn read(bencher: Bencher<'_, '_>) {
    each_document(bencher, |view| {
        black_box(view.to::<Comment>().unwrap());
    });
}

#[divan::bench(sample_size = 1)]
fn read_through_json(bencher: Bencher<'_, '_>) {
    let mut json = Vec::new();
    each_document(bencher, |view| {
        json.clear();
        append_json(view, &mut json).unwrap();
        black_box(serde_json::from_slice::<Comment>(&json).unwrap());
    });
}

#[divan::bench(sample_size = 1)]
fn read_three_fields(bencher: Bencher<'_, '_>) {
    each_document(bencher, |view| {
        let part = view.to::<Part<'_>>().unwrap();
        black_box((part.author, part.score, part.body));
    });
}
