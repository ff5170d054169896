//! All workloads: name, help, options, defaults and code of each. Arguments, headers of result
//! files and tables follow from that.

use super::comments::{Questions, builds, postings, writes};
use super::dequeue::dequeues;
use super::documents::{
    DocumentTrials, describe_get, describe_load, describe_update, run_gets, run_load, run_updates,
};
use super::fill::Asked;
use super::ingests::ingests_beside_writes;
use super::larger::{self, Larger};
use super::mix::{Mix, durability, durable_writers, run_mix};
use super::overwrite::overwrites;
use super::reads::{gets, sizes};
use super::scan::{full_scans, short_scans};
use super::sequential::run_sequential;
use super::transactions::transactions;
use super::ycsb::{Ycsb, run_ycsb};
use super::{Case, DataOptions, Options, Stage, Trials, ValueKind};
use crate::engine::Outcome;
use crate::options::{Routed, describe as describe_all};
use crate::record::{Described, Summary};

/// A workload: what runs, and what can be chosen.
pub struct Workload {
    /// The name in commands and in result files.
    pub name: &'static str,
    /// The help: one line, and optionally more text after an empty line.
    pub about: &'static str,
    /// The long names of the options that the workload has, in groups. The header shows them.
    takes: &'static [Names],
    /// Options that the header shows but the command refuses, because they have no effect here.
    refuses: Names,
    /// Options with other defaults than most workloads have.
    pub defaults: &'static [(&'static str, &'static str)],
    /// Adds facts to the header that are not options.
    tells: fn(&Options, &mut Described),
    run: Run,
}

type Names = &'static [&'static str];

enum Run {
    /// Each trial creates a store of its own.
    Alone(fn(&Case<'_>) -> Outcome<Summary>),
    /// Trials that differ in threads, or in how, work on one store.
    Together(fn(&Case<'_>) -> Outcome<Box<dyn Trials>>),
}

const STORE: Names = &[
    "partitions",
    "routing",
    "split-bytes",
    "memory",
    "memtable-bytes",
    "block-bytes",
    "filter-bits",
    "direct-reads",
    "space-amplification-max",
    "entry-checks",
    "durability",
];
const ENTRIES: Names = &["key-size", "key-order", "value-size", "values", "seed"];
const MIX: Names = &["key-space", "known-keys", "telling-deletes"];
const TIME: Names = &["threads", "seconds", "operations", "interval", "closing-sync"];

/// The fields that most workloads share.
const FILLED: Workload = Workload {
    name: "",
    about: "",
    takes: &[&["records"], ENTRIES, STORE, TIME],
    refuses: &[],
    defaults: &[],
    tells: |_, _| {},
    run: Run::Alone(|case| gets(case, Asked::Present)),
};
const EMPTY: Workload = Workload { takes: &[MIX, ENTRIES, STORE, TIME], ..FILLED };
const GETS: Workload = Workload {
    takes: &[&["records", "as-written"], ENTRIES, STORE, TIME],
    refuses: &["closing-sync"],
    defaults: &[("threads", "2"), ("records", "350000")],
    ..FILLED
};
const COMMENTS: Names = &["seed"];
const DOCUMENTS: Names = &["partitions", "routing", "memory", "comments", "seed", "collection"];

type RunCase = fn(&Case<'_>) -> Outcome<Summary>;

const fn mix(name: &'static str, about: &'static str, run: RunCase) -> Workload {
    Workload { name, about, run: Run::Alone(run), ..EMPTY }
}

const fn ycsb(name: &'static str, about: &'static str, run: RunCase) -> Workload {
    Workload { name, about, defaults: &[("value-size", "1000")], run: Run::Alone(run), ..FILLED }
}

/// All workloads, in the order of the help.
pub const WORKLOADS: &[Workload] = &[
    mix(
        "put-heavy",
        "90 puts, 5 deletes, 5 gets in a hundred, over random keys, from an empty store",
        |case| run_mix(Mix::PUT_HEAVY, case, |_, _, _| Ok(())),
    ),
    mix(
        "get-heavy",
        "10 puts, 5 deletes, 85 gets in a hundred, over random keys, from an empty store",
        |case| run_mix(Mix::GET_HEAVY, case, |_, _, _| Ok(())),
    ),
    mix(
        "delete-heavy",
        "45 puts, 45 deletes, 10 gets in a hundred, over random keys, from an empty store",
        |case| run_mix(Mix::DELETE_HEAVY, case, |_, _, _| Ok(())),
    ),
    mix(
        "balanced",
        "33 puts, 33 deletes, 34 gets in a hundred, over random keys, from an empty store",
        |case| run_mix(Mix::BALANCED, case, |_, _, _| Ok(())),
    ),
    ycsb("ycsb-a", "YCSB A: 50 reads, 50 updates, zipfian", |case| run_ycsb(case, Ycsb::A)),
    ycsb("ycsb-b", "YCSB B: 95 reads, 5 updates, zipfian", |case| run_ycsb(case, Ycsb::B)),
    Workload {
        refuses: &["closing-sync"],
        ..ycsb("ycsb-c", "YCSB C: reads, zipfian", |case| run_ycsb(case, Ycsb::C))
    },
    ycsb("ycsb-d", "YCSB D: 95 reads of the latest records, 5 inserts", |case| {
        run_ycsb(case, Ycsb::D)
    }),
    ycsb("ycsb-e", "YCSB E: 95 scans of 1 to 100 records, 5 inserts", |case| {
        run_ycsb(case, Ycsb::E)
    }),
    ycsb("ycsb-f", "YCSB F: 50 reads, 50 read-modify-writes, zipfian", |case| {
        run_ycsb(case, Ycsb::F)
    }),
    Workload {
        name: "durability",
        about: "Put-heavy under every durability, and the change against the first",
        defaults: &[
            ("partitions", "1,4,16"),
            ("durability", "none,buffered,interval:10ms,interval:100ms,interval:1000ms,group,each"),
        ],
        run: Run::Alone(durability),
        ..EMPTY
    },
    Workload {
        name: "durable-writers",
        about: "Threads that put small values and wait for the device, and how many share a sync",
        refuses: &["known-keys", "telling-deletes"],
        defaults: &[("threads", "1,8,32"), ("value-size", "128"), ("durability", "group")],
        run: Run::Alone(durable_writers),
        ..EMPTY
    },
    Workload {
        name: "sequential",
        about: "A million small puts in the order of a counter, random gets, a compaction, random \
                gets: one thread\n\n\
                Closes and reopens between puts and gets, and checks every value.",
        takes: &[&["puts", "gets", "value-size", "values", "seed", "threads", "interval"], STORE],
        refuses: &["threads"],
        defaults: &[
            ("threads", "1"),
            ("partitions", "1"),
            ("values", "zeros,random"),
            ("value-size", "128"),
            ("memtable-bytes", "4MiB"),
        ],
        run: Run::Alone(run_sequential),
        ..EMPTY
    },
    Workload {
        name: "cached-get",
        about: "Gets of records that are all in memory: compacted, and read once before\n\n\
                350,000 records of 1 KiB fit the cache; a million are twice as much as the default \
                memory.",
        ..GETS
    },
    Workload {
        name: "absent-get",
        about: "Gets of keys that never were, over a compacted store",
        run: Run::Alone(|case| gets(case, Asked::Absent)),
        ..GETS
    },
    Workload {
        name: "larger",
        about: "Gets over a store larger than its memory, without the page cache, compared with \
                the device alone\n\n\
                Every file is synced and dropped from the page cache before a trial and every \
                50 ms during it. Gets that the engine's cache serves are not counted: `of_device` \
                is the rate of cache misses divided by the rate at which the device alone reads \
                blocks of the mean stored size; `device_read_bytes_per_miss` shows that the misses \
                were read from the device.",
        takes: &[&["times", "device-seconds", "records", "page-cache"], ENTRIES, STORE, TIME],
        refuses: &["records", "closing-sync"],
        defaults: &[("threads", "1,32"), ("block-bytes", "4KiB,16KiB")],
        tells: larger::describe,
        run: Run::Together(Larger::begin),
    },
    Workload {
        name: "sizes",
        about: "Rates of puts and gets over stores of several sizes",
        takes: &[&["records", "size"], ENTRIES, STORE, TIME],
        refuses: &["records"],
        defaults: &[("threads", "2"), ("size", "1GB,4GB,16GB")],
        tells: |options, told| {
            told.insert("records".into(), (options.size / options.data.entry_bytes()).into());
        },
        run: Run::Alone(sizes),
    },
    Workload {
        name: "full-scan",
        about: "Scans of a whole store of small entries: an operation is an entry",
        takes: &[&["records", "rounds", "threads", "interval", "closing-sync"], ENTRIES, STORE],
        refuses: &["closing-sync"],
        defaults: &[("threads", "1"), ("records", "10000000"), ("value-size", "16")],
        run: Run::Alone(full_scans),
        ..FILLED
    },
    Workload {
        name: "short-scan",
        about: "Scans of 50 entries and inserts, half and half",
        takes: &[&["records", "limit", "distribution", "as-written"], ENTRIES, STORE, TIME],
        defaults: &[("threads", "2")],
        run: Run::Alone(short_scans),
        ..FILLED
    },
    Workload {
        name: "overwrite",
        about: "Records that are replaced again and again, and the space that the store takes \
                compared with its live bytes",
        takes: &[&["records", "pattern"], ENTRIES, STORE, TIME],
        defaults: &[("records", "500000")],
        run: Run::Alone(overwrites),
        ..FILLED
    },
    Workload {
        name: "dequeue",
        about: "A queue whose first entry is taken and removed until it is empty or the time is \
                over\n\n\
                An operation is an entry that was removed.",
        takes: &[&["records", "take", "snapshot"], ENTRIES, STORE, TIME],
        refuses: &["closing-sync"],
        defaults: &[("threads", "1,4"), ("records", "1000,32000,1000000"), ("value-size", "100")],
        run: Run::Alone(dequeues),
        ..FILLED
    },
    Workload {
        name: "transactions",
        about: "Transactions that read four records and write two of them, tried again after each \
                conflict\n\n\
                The store is compacted, and each record read once before. An operation is a \
                transaction, with all its tries.",
        takes: &[&["records", "isolation", "distribution"], ENTRIES, STORE, TIME],
        defaults: &[
            ("threads", "2,16"),
            ("records", "350000"),
            ("isolation", "snapshot,serializable"),
            ("distribution", "uniform,zipfian"),
        ],
        run: Run::Alone(transactions),
        ..FILLED
    },
    Workload {
        name: "ingest-beside-writes",
        about: "Puts alone, then beside three ingests into the same keyspace: what writers feel\n\n\
                Records are replaced for the length of a trial, and then as long as the ingests \
                take.",
        takes: &[&["records", "ingest-records"], ENTRIES, STORE, TIME],
        refuses: &["operations"],
        defaults: &[("threads", "2")],
        run: Run::Alone(ingests_beside_writes),
        ..FILLED
    },
    Workload {
        name: "load",
        about: "Documents from JSON to stored, to the end of flushing; then, apart, compacted\n\n\
                Without files, comments are generated while they are loaded, which takes time of \
                the same cores.",
        takes: &[
            &["files", "key", "compact", "readers", "parsers", "writers"],
            DOCUMENTS,
            &["durability", "block-bytes", "threads", "interval", "input"],
        ],
        refuses: &["threads"],
        defaults: &[("comments", "1000000")],
        tells: describe_load,
        run: Run::Alone(run_load),
    },
    Workload {
        name: "get",
        about: "Gets of documents by keys of a sample, on a checkpoint of a loaded, compacted \
                database",
        takes: &[
            &["db", "keys", "json-key", "sample", "cold", "path", "decode", "how"],
            DOCUMENTS,
            TIME,
        ],
        refuses: &["keep", "how"],
        defaults: &[("threads", "2")],
        tells: describe_get,
        run: Run::Together(|case| DocumentTrials::begin(case, run_gets)),
    },
    Workload {
        name: "update",
        about: "Increments the score of documents by keys of a sample, on a checkpoint of a \
                loaded, compacted database",
        takes: &[&["db", "keys", "json-key", "sample", "cold", "how"], DOCUMENTS, TIME],
        refuses: &["keep"],
        defaults: &[("threads", "2")],
        tells: describe_update,
        run: Run::Together(|case| DocumentTrials::begin(case, run_updates)),
    },
    Workload {
        name: "ask",
        about: "Queries over comments with two indexes, each result checked\n\n\
                An operation is a query; `rows_per_s` counts the documents or rows that it \
                returns.",
        takes: &[&["comments", "question"], COMMENTS, STORE, TIME],
        refuses: &["closing-sync"],
        defaults: &[("threads", "2"), ("question", "key,rare,popular,covered,best,groups")],
        run: Run::Together(Questions::begin),
        ..FILLED
    },
    Workload {
        name: "index-write",
        about: "Inserts or replacements of comments, one by one, with none or several indexes",
        takes: &[&["comments", "indexes", "replace"], COMMENTS, STORE, TIME],
        defaults: &[("threads", "2"), ("indexes", "0,1,4"), ("comments", "100000")],
        run: Run::Alone(writes),
        ..FILLED
    },
    Workload {
        name: "index-build",
        about: "The creation of an index over comments while writers insert more",
        takes: &[&["comments"], COMMENTS, STORE, TIME],
        defaults: &[("threads", "1")],
        run: Run::Alone(builds),
        ..FILLED
    },
    Workload {
        name: "postings",
        about: "Keys with any number of values: the ids of comments by author, or by subreddit\n\n\
                Entries are put one by one, flushed and compacted. Then an operation reads all \
                values of a key; each key is as likely as any other.",
        takes: &[&["comments", "by"], COMMENTS, STORE, TIME],
        refuses: &["closing-sync"],
        defaults: &[("threads", "2"), ("comments", "1000000"), ("by", "author,subreddit")],
        run: Run::Alone(postings),
        ..FILLED
    },
];

impl Workload {
    /// The workload with this name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        WORKLOADS.iter().find(|workload| workload.name == name)
    }

    /// Returns whether the workload is of documents, which only flagstone has.
    pub fn is_of_documents(&self) -> bool {
        self.takes.contains(&DOCUMENTS)
    }

    /// Returns whether the workload uses the argument with this long name.
    pub fn takes(&self, name: &str) -> bool {
        self.tells_of(name) && !self.refuses.contains(&name)
    }

    /// Returns whether the option, one that all commands have, has no effect in this workload.
    pub fn refuses(&self, name: &str) -> bool {
        self.refuses.contains(&name)
    }

    fn tells_of(&self, name: &str) -> bool {
        self.takes.iter().any(|names| names.contains(&name))
    }

    /// Refuses values of options that the workload cannot use. The error is a text for users.
    pub fn check(&self, options: &Options) -> Result<(), String> {
        let DataOptions { value_bytes, values, .. } = options.data;
        if value_bytes > 16 << 20 {
            return Err(format!("values of {value_bytes} bytes: expected at most 16 MiB"));
        }
        if self.name == "sequential" && ![ValueKind::Zeros, ValueKind::Random].contains(&values) {
            return Err("sequential takes --values zeros and random".into());
        }
        if self.name.starts_with("ycsb") && value_bytes < 16 {
            return Err("values of less than 16 bytes have no room for a version".into());
        }
        Ok(())
    }

    /// Returns the options of a trial by their long names, for the header.
    pub fn describe(&self, options: &Options) -> Described {
        let mut told = describe_all(options);
        (self.tells)(options, &mut told);
        if options.store.routing == Routed::Auto {
            // At first.
            told.insert("partitions".into(), 1.into());
        }
        if told.contains_key("operations") {
            told.remove("seconds");
        }
        told.retain(|name, _| self.tells_of(name));
        told
    }

    /// Returns a trial with these options, or the error of [`Self::check`].
    pub fn case<'a>(&self, options: &'a Options, stage: Stage<'a>) -> Outcome<Case<'a>> {
        self.check(options)?;
        Ok(Case { workload: self.name, options, told: self.describe(options), stage })
    }

    /// Runs one trial. A wrong answer of the engine ends it.
    pub fn run(&self, options: &Options, stage: Stage<'_>) -> Outcome<Summary> {
        let mut trials = Series::of(self);
        let done = trials.run(&self.case(options, stage)?);
        trials.end(stage.keep)?;
        done
    }
}

/// Trials of a workload, one after another.
pub struct Series<'w> {
    workload: &'w Workload,
    /// The store of the last trials, and their options.
    store: Option<(Options, Box<dyn Trials>)>,
}

impl<'w> Series<'w> {
    pub const fn of(workload: &'w Workload) -> Self {
        Self { workload, store: None }
    }

    /// Runs a trial, on the store of the previous trial if the options of the store are the same.
    pub fn run(&mut self, case: &Case<'_>) -> Outcome<Summary> {
        let workload = self.workload;
        let begin = match &workload.run {
            Run::Alone(run) => return run(case),
            Run::Together(begin) => begin,
        };
        let mut of = case.options.clone();
        (of.pace.threads, of.documents.how) = (1, Default::default());
        of.documents.question = Default::default();
        if self.store.as_ref().is_none_or(|(before, _)| *before != of) {
            let keep = false;
            self.end(keep)?;
            self.store = Some((of, begin(case)?));
        }
        match &mut self.store {
            Some((_, trials)) => trials.run(case),
            None => Err("there is no store".into()),
        }
    }

    /// Closes the last store, and removes it unless it is to be kept.
    pub fn end(&mut self, keep: bool) -> Outcome<()> {
        self.store.take().map_or(Ok(()), |(_, trials)| trials.end(keep))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_show_the_options_that_a_workload_takes() {
        let told = |name: &str| Workload::by_name(name).unwrap().describe(&Options::default());
        let balanced = told("balanced");
        assert_eq!(
            (&balanced["key-space"], &balanced["key-size"]),
            (&100_000_000.into(), &16.into())
        );
        assert_eq!((&balanced["values"], &balanced["interval"]), (&"random".into(), &1.0.into()));
        assert_eq!(balanced["known-keys"], 0.5);
        assert!(!balanced.contains_key("records") && !balanced.contains_key("sample"));
        let filled = told("cached-get");
        assert!(filled.contains_key("records") && !filled.contains_key("key-space"));
        // The header of a read-only workload says that nothing was synced; the option itself is
        // refused.
        assert_eq!(filled["closing-sync"], false);
        assert!(!Workload::by_name("cached-get").unwrap().takes("closing-sync"));
        assert!(!told("full-scan").contains_key("seconds"));
        let mut auto = Options::default();
        auto.store.routing = Routed::Auto;
        let auto = Workload::by_name("balanced").unwrap().describe(&auto);
        assert_eq!((&auto["routing"], &auto["partitions"]), (&"auto".into(), &1.into()));
        assert_eq!(told("load")["input"], "300000 comments of seed 1");
    }
}
