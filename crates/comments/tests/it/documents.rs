//! One comment is the same comment alone, in a run, on any thread, in any process; and it is JSON.

use std::collections::HashSet;
use std::io::{self, Write};

use flagstone_comments::Comments;
use serde_json::Value;

fn run(seed: u64, count: u64, threads: usize) -> Vec<u8> {
    let mut lines = Vec::new();
    let bytes = Comments::new(seed).generate(0..count, threads, &mut lines).unwrap();
    assert_eq!(bytes, lines.len() as u64);
    lines
}

#[test]
fn a_comment_alone_is_the_comment_of_a_run() {
    let comments = Comments::new(7);
    let lines = run(7, 3000, 1);
    let mut n = 0;
    for (i, line) in lines.split_inclusive(|&b| b == b'\n').enumerate() {
        let mut alone = Vec::new();
        comments.write(i as u64, &mut alone);
        alone.push(b'\n');
        assert_eq!(alone, line, "comment {i}");
        n += 1;
    }
    assert_eq!(n, 3000);
}

#[test]
fn threads_and_chunks_do_not_change_the_bytes() {
    let one = run(3, 5000, 1);
    for threads in [0, 2, 3, 8] {
        assert!(run(3, 5000, threads) == one, "{threads} threads");
    }
    let comments = Comments::new(3);
    let mut pieces = Vec::new();
    for (start, end) in [(0, 1), (1, 1), (1, 1700), (1700, 5000)] {
        comments.generate(start..end, 2, &mut pieces).unwrap();
    }
    assert!(pieces == one);
}

#[test]
fn every_line_is_json_in_ascii_with_its_fields_in_order() {
    let comments = Comments::new(5);
    let mut line = Vec::new();
    for k in 0..20_000 {
        let i = k * 9_973;
        line.clear();
        comments.write(i, &mut line);
        assert!(line.is_ascii() && !line.contains(&b'\n'));
        let comment: Value = serde_json::from_slice(&line).unwrap();
        let names: Vec<&String> = comment.as_object().unwrap().keys().collect();
        assert!(names.is_sorted() && (40..=FIELDS.len()).contains(&names.len()), "{names:?}");
        assert_eq!(comment["id"], comments.key(i).as_str());
        assert_eq!(comments.number(&comments.key(i)), Some(i));
        for name in names {
            assert!(FIELDS.contains(&name.as_str()), "{name}");
        }
    }
}

#[test]
fn fields_agree_with_each_other() {
    let comments = Comments::new(5);
    let mut line = Vec::new();
    for i in (0..Comments::MONTH).step_by(30_011) {
        line.clear();
        comments.write(i, &mut line);
        let c: Value = serde_json::from_slice(&line).unwrap();
        let text = |name: &str| c[name].as_str().unwrap();
        let link = text("link_id").strip_prefix("t3_").unwrap();
        let start = format!("/r/{}/comments/{link}/", text("subreddit"));
        assert!(text("permalink").starts_with(&start));
        assert!(text("permalink").ends_with(&format!("/{}/", text("id"))));
        assert_eq!(text("subreddit_name_prefixed"), format!("r/{}", text("subreddit")));
        assert_eq!(c["total_awards_received"], c["all_awardings"].as_array().unwrap().len());
        assert_eq!(c["author"] == "[deleted]", c["author_fullname"].is_null());
        assert_eq!(c["collapsed_reason"].is_null(), c["score"].as_i64().unwrap() > -5);
        assert!(!text("author").is_empty() && text("author").chars().count() <= 20);
    }
}

#[test]
fn ids_are_unique_and_ascend() {
    let comments = Comments::new(1);
    let mut previous = comments.key(0);
    for i in 1..100_000 {
        let key = comments.key(i);
        assert!(previous < key);
        previous = key;
    }
    let far: HashSet<_> = (0..50_000).map(|k| comments.key(k * 4_000)).collect();
    assert_eq!(far.len(), 50_000);
    assert_eq!(comments.key(200_000_000).len(), 7);
}

#[test]
fn another_seed_gives_other_comments_under_the_same_ids() {
    let (one, two) = (run(1, 100, 1), run(2, 100, 1));
    let lines = one.split(|&b| b == b'\n').zip(two.split(|&b| b == b'\n'));
    assert!(lines.take(100).all(|(a, b)| a != b));
    assert_eq!(Comments::new(1).key(9), Comments::new(2).key(9));
}

#[test]
fn the_comments_of_a_seed_never_change() {
    let lines = run(1, 2000, 2);
    let mut month = Vec::new();
    for i in (0..Comments::MONTH).step_by(200_003) {
        Comments::new(1).write(i, &mut month);
    }
    let got = [lines.len() as u64, fnv(&lines), month.len() as u64, fnv(&month)];
    assert_eq!(got, GOLDEN);
}

#[test]
fn a_writer_that_fails_ends_the_run_with_its_error() {
    struct Full(usize);
    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or(io::ErrorKind::StorageFull)?;
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    for threads in [1, 3] {
        let error = Comments::new(1).generate(0..20_000, threads, &mut Full(2)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}

fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3)
    })
}

/// All fields; some are absent from some comments.
const FIELDS: [&str; 47] = [
    "all_awardings",
    "associated_award",
    "author",
    "author_cakeday",
    "author_created_utc",
    "author_flair_background_color",
    "author_flair_css_class",
    "author_flair_richtext",
    "author_flair_template_id",
    "author_flair_text",
    "author_flair_text_color",
    "author_flair_type",
    "author_fullname",
    "author_patreon_flair",
    "author_premium",
    "awarders",
    "body",
    "can_gild",
    "can_mod_post",
    "collapsed",
    "collapsed_because_crowd_control",
    "collapsed_reason",
    "controversiality",
    "created_utc",
    "distinguished",
    "edited",
    "gilded",
    "gildings",
    "id",
    "is_submitter",
    "link_id",
    "locked",
    "no_follow",
    "parent_id",
    "permalink",
    "quarantined",
    "removal_reason",
    "retrieved_on",
    "score",
    "send_replies",
    "steward_reports",
    "stickied",
    "subreddit",
    "subreddit_id",
    "subreddit_name_prefixed",
    "subreddit_type",
    "total_awards_received",
];

/// Bytes and FNV-1a of the first comments of seed 1, and of comments from the whole month.
const GOLDEN: [u64; 4] =
    [2_461_066, 9_760_706_196_979_914_454, 910_195, 17_395_135_180_310_204_455];
