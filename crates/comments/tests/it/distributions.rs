//! The distributions of the comments are those of the month: sizes, compression, shares, counts.
//!
//! The figures are those of the prototype that was fitted to the month's published profile.

use std::collections::HashMap;
use std::sync::OnceLock;

use flagstone_comments::Comments;
use serde_json::Value;

const SAMPLE: u64 = 200_000;

/// Sizes of comments taken evenly from the whole month, in order.
fn sizes() -> &'static [usize] {
    static SIZES: OnceLock<Vec<usize>> = OnceLock::new();
    SIZES.get_or_init(|| {
        let comments = Comments::new(1);
        let half = |from: u64| {
            let mut line = Vec::new();
            let numbers = (from..SAMPLE).step_by(2).map(|k| k * (Comments::MONTH / SAMPLE));
            let size = numbers.map(|i| {
                line.clear();
                comments.write(i, &mut line);
                line.len()
            });
            size.collect::<Vec<usize>>()
        };
        let mut sizes = std::thread::scope(|scope| {
            let other = scope.spawn(|| half(1));
            let mut all = half(0);
            all.extend(other.join().unwrap());
            all
        });
        sizes.sort_unstable();
        sizes
    })
}

fn near(what: &str, got: f64, expected: f64, percent: f64) {
    let off = (got / expected - 1.0) * 100.0;
    println!("{what}: {got:.4}, expected {expected}, off by {off:+.2}%");
    assert!(off.abs() <= percent, "{what}: {got}, expected {expected} within {percent}%");
}

#[test]
fn sizes_have_the_percentiles_and_the_mean_of_the_month() {
    let sizes = sizes();
    near("mean", sizes.iter().sum::<usize>() as f64 / sizes.len() as f64, 1265.0, 2.0);
    for (percent, expected) in [
        (0.0, 923.0),
        (25.0, 1125.0),
        (50.0, 1184.0),
        (75.0, 1298.0),
        (90.0, 1518.0),
        (95.0, 1736.0),
        (99.0, 2514.0),
        (99.9, 4964.0),
    ] {
        let at = ((sizes.len() - 1) as f64 * percent / 100.0) as usize;
        near(&format!("p{percent}"), sizes[at] as f64, expected, 2.0);
    }
}

#[test]
fn independent_blocks_of_lines_compress_like_the_prototype() {
    let mut lines = Vec::new();
    Comments::new(1).generate(0..24_000, 2, &mut lines).unwrap();
    for (bytes, lz4, zstd1, zstd3) in
        [(4096, 2.38, 3.32, 3.38), (16_384, 3.34, 4.77, 4.88), (65_536, 3.90, 5.53, 5.76)]
    {
        let mut packed = [0; 3];
        for block in lines.chunks(bytes) {
            packed[0] += lz4::block::compress(block, None, false).unwrap().len();
            packed[1] += zstd::bulk::compress(block, 1).unwrap().len();
            packed[2] += zstd::bulk::compress(block, 3).unwrap().len();
        }
        let ratio = packed.map(|p| lines.len() as f64 / p as f64);
        near(&format!("{bytes} bytes, lz4"), ratio[0], lz4, 5.0);
        near(&format!("{bytes} bytes, zstd 1"), ratio[1], zstd1, 5.0);
        near(&format!("{bytes} bytes, zstd 3"), ratio[2], zstd3, 5.0);
    }
}

/// Counts over comments taken evenly from the month.
#[derive(Default)]
struct Counted {
    shares: HashMap<String, u32>,
    subreddits: HashMap<String, u32>,
    authors: HashMap<String, u32>,
    body_chars: usize,
}

impl Counted {
    fn new(count: u64) -> Self {
        let comments = Comments::new(1);
        let mut line = Vec::new();
        let mut counted = Self::default();
        for k in 0..count {
            line.clear();
            comments.write(k * (Comments::MONTH / count), &mut line);
            counted.count(&serde_json::from_slice(&line).unwrap());
        }
        counted
    }

    fn count(&mut self, comment: &Value) {
        for (name, value) in comment.as_object().unwrap() {
            *self.shares.entry(name.clone()).or_default() += 1;
            if matches!(value, Value::Null | Value::Bool(_)) {
                *self.shares.entry(format!("{name}={value}")).or_default() += 1;
            }
        }
        let text = |name: &str| comment[name].as_str().unwrap_or_default().to_owned();
        *self.subreddits.entry(text("subreddit")).or_default() += 1;
        *self.authors.entry(text("author")).or_default() += 1;
        self.body_chars += text("body").chars().count();
        for (name, holds) in [
            ("body removed", ["[removed]", "[deleted]"].contains(&&*text("body"))),
            ("top level", text("parent_id").starts_with("t3_")),
            ("score=1", comment["score"] == 1),
            ("score<0", comment["score"].as_i64().unwrap() < 0),
            ("score>20", comment["score"].as_i64().unwrap() > 20),
            ("edited", comment["edited"] != false),
            ("richtext", comment["author_flair_type"] == "richtext"),
        ] {
            *self.shares.entry(name.to_owned()).or_default() += u32::from(holds);
        }
    }
}

#[test]
fn fields_are_null_true_or_absent_as_often_as_in_the_month() {
    let count = 60_000_u32;
    let counted = Counted::new(count.into());
    for (name, share) in SHARES {
        let got = f64::from(*counted.shares.get(name).unwrap_or(&0)) / f64::from(count);
        let deviation = (share * (1.0 - share) / f64::from(count)).sqrt();
        println!("{name}: {got:.5}, expected {share}");
        assert!((got - share).abs() <= 4.5 * deviation + 1e-9, "{name}: {got}, not {share}");
    }
    let share = |of: &HashMap<String, u32>, name: &str| f64::from(of[name]) / f64::from(count);
    near("AskReddit", share(&counted.subreddits, "AskReddit"), ASK_REDDIT, 8.0);
    near("subreddits", counted.subreddits.len() as f64, SUBREDDITS, 3.0);
    near("AutoModerator", share(&counted.authors, "AutoModerator"), AUTOMODERATOR, 8.0);
    near("authors", counted.authors.len() as f64, AUTHORS, 2.0);
    near("mean body", counted.body_chars as f64 / f64::from(count), BODY_CHARS, 3.0);
}

/// Shares of comments in 600,000 of the prototype, taken evenly from the month.
const SHARES: [(&str, f64); 41] = [
    ("author_cakeday", 0.00315),
    ("author_cakeday=true", 0.00315),
    ("author_created_utc=null", 0.29912),
    ("author_flair_background_color=null", 0.79085),
    ("author_flair_css_class=null", 0.84597),
    ("author_flair_richtext", 0.90545),
    ("author_flair_template_id=null", 0.85059),
    ("author_flair_text=null", 0.78013),
    ("author_flair_text_color=null", 0.69814),
    ("author_flair_type", 0.90545),
    ("author_fullname=null", 0.09455),
    ("author_patreon_flair", 0.90545),
    ("author_patreon_flair=false", 0.90545),
    ("author_premium", 0.20456),
    ("author_premium=false", 0.19169),
    ("author_premium=true", 0.01287),
    ("body removed", 0.06784),
    ("can_gild=false", 0.04210),
    ("can_gild=true", 0.95790),
    ("collapsed=false", 0.94466),
    ("collapsed=true", 0.05534),
    ("collapsed_because_crowd_control", 0.67000),
    ("collapsed_because_crowd_control=null", 0.67000),
    ("collapsed_reason=null", 0.99465),
    ("distinguished=null", 0.98253),
    ("edited=false", 0.97211),
    ("is_submitter=false", 0.90783),
    ("is_submitter=true", 0.09217),
    ("locked=false", 0.99263),
    ("locked=true", 0.00737),
    ("no_follow=false", 0.20131),
    ("no_follow=true", 0.79869),
    ("richtext", 0.13667),
    ("score<0", 0.03800),
    ("score=1", 0.47756),
    ("score>20", 0.05088),
    ("send_replies=false", 0.02034),
    ("send_replies=true", 0.97966),
    ("stickied=false", 0.98835),
    ("stickied=true", 0.01165),
    ("top level", 0.46744),
];
/// The same for the largest subreddit and the automatic moderator; distinct names in 60,000.
const ASK_REDDIT: f64 = 0.0749;
const AUTOMODERATOR: f64 = 0.014_505;
const SUBREDDITS: f64 = 4561.0;
const AUTHORS: f64 = 48_673.0;
const BODY_CHARS: f64 = 155.1;
