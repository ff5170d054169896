//! What documents on Cassandra cost, beside statements that a program would send with the driver
//! itself: to the same nodes, in turn, several rounds. `cargo xtask cluster --bench` runs it.

#![allow(clippy::print_stdout, reason = "the table is what it is for")]

mod raw;

use flagstone::load::DocumentParser;
use flagstone::{Collection, DocumentMut, Error, Filter, Index, Json, Space, doc::JsonOptions};
use flagstone_cluster::{Cluster, Layout};
use flagstone_comments::Comments;
use flagstone_testkit::cassandra::{CommitLog, Nodes, Setup};
use raw::{Document, Raw};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// How many calls wait for answers at the same time.
const CALLERS: [u64; 2] = [1, 16];
/// The threads of a load, and the documents of each of its batches.
const LOADERS: u64 = 8;
const BATCH: u64 = 2_000;
/// The layouts of which scans by key are measured.
const LAYOUTS: [Layout; 4] =
    [Layout::Hash(16), Layout::Ranges(16), Layout::Hash(256), Layout::Ranges(256)];
/// The documents that a query returns, at most.
const FOUND: usize = 20;
/// The documents of a bucket that the driver gets at once.
const GROUP: usize = 200;

struct Options {
    nodes: u8,
    documents: u64,
    rounds: usize,
    seconds: f64,
}

/// What was measured of one kind of call.
struct Row {
    name: String,
    /// Calls or documents a second of a collection, one for each round.
    ours: Vec<f64>,
    /// Those of the driver's statements. Empty where a program would write the same code.
    raw: Vec<f64>,
    /// How many times longer a collection may take.
    planned: Option<f64>,
}

impl Row {
    /// Returns the median of how many times longer the collection takes.
    fn ratio(&self) -> Option<f64> {
        median(self.ours.iter().zip(&self.raw).map(|(ours, raw)| raw / ours).collect())
    }
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn main() -> Result<()> {
    let Some(options) = options(std::env::args().skip(1))? else { return Ok(()) };
    let Options { nodes: count, documents, rounds, seconds } = options;
    let commit_log = CommitLog::Periodic;
    let nodes = Nodes::start(Setup::of(count, commit_log));
    let cluster = Cluster::connect(&format!("cql://{}/figures?rf={count}", nodes.hosts()))?;
    let raw = Raw::connect(&nodes.hosts(), count)?;
    let bench = Bench { cluster: &cluster, raw: &raw, comments: Comments::new(1), options };
    let rows = bench.run()?;
    println!(
        "{count} of {count} nodes with each row, commitlog_sync periodic. {documents} comments, \
         {rounds} rounds of {seconds} s a row.\n"
    );
    println!("| a second | flagstone | statements | statements / flagstone | planned |");
    println!("|---|---|---|---|---|");
    for row in rows {
        let ratio = row.ratio().map_or_else(String::new, |ratio| format!("**{ratio:.2}**"));
        let planned = row.planned.map_or_else(String::new, |most| most.to_string());
        let [ours, raw] =
            [row.ours, row.raw].map(|all| median(all).map_or_else(String::new, shown));
        println!("| {} | {ours} | {raw} | {ratio} | {planned} |", row.name);
    }
    Ok(cluster.close()?)
}

/// Returns what the command line asks for; `None` if it asks for nothing, as `cargo test` does.
fn options(mut words: impl Iterator<Item = String>) -> Result<Option<Options>> {
    let mut options = Options { nodes: 1, documents: 50_000, rounds: 3, seconds: 3.0 };
    let mut is_bench = false;
    while let Some(word) = words.next() {
        if word == "--bench" {
            is_bench = true;
            continue;
        }
        let mut value = || words.next().ok_or_else(|| format!("{word} is without a value"));
        match word.as_str() {
            "--nodes" => options.nodes = value()?.parse()?,
            "--documents" => options.documents = value()?.parse()?,
            "--rounds" => options.rounds = value()?.parse()?,
            "--seconds" => options.seconds = value()?.parse()?,
            _ => {
                let known = "--nodes, --documents, --rounds and --seconds";
                return Err(format!("{word} is unknown: there are {known}").into());
            }
        }
    }
    Ok(is_bench.then_some(options))
}

fn shown(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

struct Bench<'b> {
    cluster: &'b Cluster,
    raw: &'b Raw,
    comments: Comments,
    options: Options,
}

impl Bench<'_> {
    fn run(&self) -> Result<Vec<Row>> {
        let plain = self.cluster.collection("plain")?;
        let indexed = self.cluster.collection("indexed")?;
        indexed.create_index("by_author", Index::on("author").then("score").descending())?;
        let mut rows = vec![self.load("load", &plain, false)?];
        rows.push(self.load("load with one index", &indexed, true)?);
        // Before puts make both sides different.
        rows.push(self.find(&indexed)?);
        for number in 0..self.options.documents {
            self.raw.put(&self.key(number), &self.text(number))?;
        }
        for callers in CALLERS {
            rows.push(self.get(&plain, callers)?);
        }
        rows.push(self.get_of_none(&plain)?);
        for callers in CALLERS {
            rows.push(self.put(&plain, callers)?);
        }
        for callers in CALLERS {
            rows.push(self.put_indexed(&indexed, callers)?);
        }
        for callers in CALLERS {
            rows.push(self.update(&plain, callers)?);
        }
        rows.push(self.delete(&self.cluster.collection("deleted")?)?);
        rows.push(self.count(&plain)?);
        rows.push(self.export(&plain)?);
        for layout in LAYOUTS {
            rows.push(self.scan(&plain, layout)?);
        }
        Ok(rows)
    }

    /// Returns the text of a comment.
    fn text(&self, number: u64) -> String {
        let mut line = Vec::new();
        self.comments.write(number, &mut line);
        String::from_utf8_lossy(line.trim_ascii_end()).into_owned()
    }

    fn key(&self, number: u64) -> String {
        self.comments.key(number).as_str().to_owned()
    }

    /// The key of a document that is there.
    fn any(&self, number: u64) -> String {
        self.key(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) % self.options.documents)
    }

    fn document(&self, number: u64, has_index: bool) -> Document {
        let (key, text) = (self.key(number), self.text(number));
        let entry = if has_index { entry(text.as_bytes()) } else { String::new() };
        Document { key, text, entry }
    }

    /// Loads all documents, by batches without an order, as a load of the tool does.
    fn load(&self, name: &str, into: &Collection, has_index: bool) -> Result<Row> {
        let all = self.options.documents;
        let (mut ours, mut raw) = (Vec::new(), Vec::new());
        for _round in 0..self.options.rounds {
            into.clear()?;
            let start = Instant::now();
            self.fill(into, all)?;
            ours.push(all as f64 / start.elapsed().as_secs_f64());
            self.raw.clear()?;
            let start = Instant::now();
            in_parts(all, |from, to| {
                let mut buckets: HashMap<i32, Vec<Document>> = HashMap::new();
                for number in from..to {
                    let document = self.document(number, has_index);
                    let bucket = buckets.entry(raw::bucket(&document.key)).or_default();
                    bucket.push(document);
                }
                buckets
                    .values()
                    .flat_map(|bucket| bucket.chunks(GROUP))
                    .try_for_each(|group| self.raw.load(group))
            })?;
            raw.push(all as f64 / start.elapsed().as_secs_f64());
        }
        Ok(Row { name: name.into(), ours, raw, planned: None })
    }

    fn fill(&self, into: &Collection, count: u64) -> Result<()> {
        in_parts(count, |from, to| {
            let scratch = self.cluster.scratch()?;
            let mut batch = scratch.batch();
            let mut parser = DocumentParser::new(into, JsonOptions::new());
            for number in from..to {
                let put = parser.put(&mut batch, self.text(number).as_bytes(), "id");
                put.map_err(|refused| format!("a comment is refused: {refused:?}"))?;
            }
            Ok(scratch.commit(batch)?)
        })
    }

    /// Removes the documents that match a filter: a tenth of them all.
    fn delete(&self, of: &Collection) -> Result<Row> {
        let (count, mut ours) = (self.options.documents / 10, Vec::new());
        for _round in 0..self.options.rounds {
            self.fill(of, count)?;
            let start = Instant::now();
            let removed = of.delete_many("{}").run()?.modified;
            ours.push(removed as f64 / start.elapsed().as_secs_f64());
        }
        Ok(Row { name: "delete by filter".into(), ours, raw: Vec::new(), planned: None })
    }

    fn get(&self, from: &Collection, callers: u64) -> Result<Row> {
        self.row(
            (format!("get{}", at_once(callers)), callers, Some(1.3)),
            |number| {
                let document = from.get(self.any(number))?;
                document.map(drop).ok_or_else(|| "a comment is missing".into())
            },
            |number| {
                let is_there = self.raw.get(&self.any(number))?;
                is_there.then_some(()).ok_or_else(|| "a comment is missing".into())
            },
        )
    }

    /// Gets keys that no document has.
    fn get_of_none(&self, from: &Collection) -> Result<Row> {
        let key = |number: u64| self.key(number % self.options.documents) + "none";
        let none = |is_there: bool| {
            (!is_there).then_some(()).ok_or_else(|| "no comment has this key".into())
        };
        self.row(
            ("get of no document".into(), 1, None),
            |number| none(from.get(key(number))?.is_some()),
            |number| none(self.raw.get(&key(number))?),
        )
    }

    fn put(&self, into: &Collection, callers: u64) -> Result<Row> {
        let text = |number: u64| self.text(number + self.options.documents);
        self.row(
            (format!("put{}", at_once(callers)), callers, Some(1.3)),
            |number| Ok(into.put(self.any(number), Json(text(number)))?),
            |number| self.raw.put(&self.any(number), &text(number)),
        )
    }

    fn put_indexed(&self, into: &Collection, callers: u64) -> Result<Row> {
        let text = |number: u64| self.text(number + self.options.documents);
        self.row(
            (format!("put with one index{}", at_once(callers)), callers, Some(1.5)),
            |number| Ok(into.put(self.any(number), Json(text(number)))?),
            |number| {
                let text = text(number);
                let entry_of_new = entry(text.as_bytes());
                let document = Document { key: self.any(number), text, entry: entry_of_new };
                self.raw.put_indexed(&document, entry)
            },
        )
    }

    fn update(&self, of: &Collection, callers: u64) -> Result<Row> {
        self.row(
            (format!("update{}", at_once(callers)), callers, None),
            |number| {
                let increment = |comment: &mut DocumentMut| comment.inc("score", 1);
                let updated: std::result::Result<_, Error> = of.update(self.any(number), increment);
                Ok(updated.map(drop)?)
            },
            // The work on the text is left out: only the statements are compared.
            |number| self.raw.update(&self.any(number), <[u8]>::to_vec),
        )
    }

    fn find(&self, from: &Collection) -> Result<Row> {
        let mut authors = Vec::new();
        for number in 0..100 {
            let document = from.get(self.any(number))?.ok_or("a comment is missing")?;
            let author = document.get("author").ok_or("a comment has no author")?;
            // The text of a comment writes the others as escapes, and so do the driver's entries.
            authors.extend(author.as_str().filter(|author| author.is_ascii()).map(str::to_owned));
        }
        let author = |number: u64| &authors[(number % authors.len() as u64) as usize];
        let found = |count: usize| (count > 0).then_some(()).ok_or_else(|| "nothing".into());
        self.row(
            ("find by index, sort, limit 20".into(), 1, None),
            |number| {
                let filter = Filter::field("author").eq(author(number).as_str());
                let mut cursor = from.find(filter).sort("-score").limit(FOUND as u64).run()?;
                let mut count = 0;
                while cursor.advance()? {
                    count += 1;
                }
                found(count)
            },
            |number| found(self.raw.find(author(number), FOUND)?),
        )
    }

    /// Scans the collection in another layout, which it keeps.
    fn scan(&self, of: &Collection, layout: Layout) -> Result<Row> {
        let done = self.cluster.rebalance("plain", layout, |_| ControlFlow::Continue(()))?;
        assert!(done.is_continue());
        self.own(&format!("scan of 100 by key, {layout}"), 1.0, |number| {
            for row in of.scan(self.any(number)..).take(100) {
                row?;
            }
            Ok(())
        })
    }

    fn count(&self, of: &Collection) -> Result<Row> {
        let documents = self.options.documents as f64;
        self.own("count, documents", documents, |_| Ok(of.count().map(drop)?))
    }

    fn export(&self, of: &Collection) -> Result<Row> {
        let (mut ours, mut raw) = (Vec::new(), Vec::new());
        for _round in 0..self.options.rounds {
            let (start, mut count) = (Instant::now(), 0_u64);
            let mut cursor = of.find("{}").run()?;
            while cursor.advance()? {
                count += 1;
            }
            ours.push(count as f64 / start.elapsed().as_secs_f64());
            let start = Instant::now();
            let count = self.raw.export()?;
            raw.push(count as f64 / start.elapsed().as_secs_f64());
        }
        Ok(Row { name: "export".into(), ours, raw, planned: None })
    }

    /// Measures a call of a collection and the same by statements, in turn.
    fn row(
        &self,
        (name, callers, planned): (String, u64, Option<f64>),
        ours: impl Fn(u64) -> Result<()> + Sync,
        raw: impl Fn(u64) -> Result<()> + Sync,
    ) -> Result<Row> {
        let mut row = Row { name, ours: Vec::new(), raw: Vec::new(), planned };
        self.raw.await_compactions()?;
        for _round in 0..self.options.rounds {
            row.ours.push(self.measured(callers, &ours)?);
            row.raw.push(self.measured(callers, &raw)?);
        }
        Ok(row)
    }

    /// Measures a call of a collection alone; each counts as `weight`.
    fn own(&self, name: &str, weight: f64, call: impl Fn(u64) -> Result<()> + Sync) -> Result<Row> {
        self.raw.await_compactions()?;
        let round = |_| self.measured(1, &call).map(|calls| calls * weight);
        let ours = (0..self.options.rounds).map(round).collect::<Result<_>>()?;
        Ok(Row { name: name.into(), ours, raw: Vec::new(), planned: None })
    }

    /// Calls until the time is over. Returns the calls a second.
    fn measured(&self, callers: u64, call: &(impl Fn(u64) -> Result<()> + Sync)) -> Result<f64> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let (start, is_over) = (Instant::now(), AtomicBool::new(false));
        let calls = AtomicU64::new(0);
        together(callers, || {
            while !is_over.load(Ordering::Relaxed) {
                call(NUMBER.fetch_add(1, Ordering::Relaxed))?;
                calls.fetch_add(1, Ordering::Relaxed);
                if start.elapsed() >= Duration::from_secs_f64(self.options.seconds) {
                    is_over.store(true, Ordering::Relaxed);
                }
            }
            Ok(())
        })?;
        Ok(calls.into_inner() as f64 / start.elapsed().as_secs_f64())
    }
}

/// Runs `work` in several threads, and returns the first error.
fn together(threads: u64, work: impl Fn() -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(&work)).collect();
        let joined = threads.into_iter().map(|thread| thread.join());
        let done = |joined: std::thread::Result<Result<()>>| {
            joined.unwrap_or_else(|_panic| Err("a thread panicked".into()))
        };
        // All are joined before the first error is returned.
        joined.map(done).collect::<Vec<_>>().into_iter().collect()
    })
}

/// Calls `work` with the parts of `0..all`, in several threads.
fn in_parts(all: u64, work: impl Fn(u64, u64) -> Result<()> + Sync) -> Result<()> {
    let next = AtomicU64::new(0);
    together(LOADERS, || {
        loop {
            let from = next.fetch_add(BATCH, Ordering::Relaxed);
            if from >= all {
                return Ok(());
            }
            work(from, all.min(from + BATCH))?;
        }
    })
}

/// Returns the key of the entry of a comment: its author, its score and its id.
fn entry(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    // The last one: awards, which come first, have identifiers of their own.
    let field = |name: &str, end: char| {
        let from = text.rfind(name).map_or(text.len(), |place| place + name.len());
        text[from..].split(end).next().unwrap_or_default()
    };
    let (author, id) = (field("\"author\":\"", '"'), field("\"id\":\"", '"'));
    format!("{author}\0{}\0{id}", field("\"score\":", ','))
}

fn at_once(callers: u64) -> String {
    if callers == 1 { String::new() } else { format!(", {callers} at once") }
}
