//! The command line.

use crate::cells::{Cell, Scale, Setup, all, select};
use crate::engines::{Choice, KINDS};
use flagstone::admin::parse_bytes;
use std::path::PathBuf;

/// The text of `help`.
pub(crate) const HELP: &str = "\
Runs the workloads of flagstone over flagstone, RocksDB, fjall, LMDB, redb and SQLite: one process
per trial, in a fresh directory that is removed afterwards. Writes result files, prints medians.

  flagstone-peers [run] [OPTIONS]
  flagstone-peers table DIR     the table of the result files in DIR
  flagstone-peers list          cells, groups of cells, engines and their variants

  --engines A,B,..   engines, each as NAME or NAME:VARIANT [default: those of the cell]
  --cells A,B,..     cells or groups of them [default: all]
  --rounds N         rounds of each cell; every second one in reverse order [default: 3]
  --seconds S        seconds of a trial; sustained trials take six times as long,
                     trials of garbage three times
                     [default: 20, those of the group headline 60]
  --memory BYTES     memtables and caches of an engine: 512MiB, 1GiB [default: 512MiB]
  --partitions N     hash partitions of flagstone [default: a range of keys that splits]
  --seed N           the seed of keys and values [default: 1]
  --scale full|quick the size of filled stores: a million entries, or a tenth [default: full]
  --out DIR          result files: DIR/CELL/ENGINE-ROUND.jsonl [default: peers-results]
  --dir DIR          parent folder of stores, on the disk to be measured [default: peers-stores]
  --resume           keeps result files of this program with the same options and skips these
                     trials, instead of removing the files

Exit code: 0 all trials ran, 1 a trial failed, 2 the command line is wrong.";

/// The command that the command line asks for.
pub(crate) enum Command {
    /// Prints the help.
    Help,
    /// Prints the cells and engines.
    List,
    /// Runs trials, then prints the table.
    Run(Options),
    /// Runs one trial in this process.
    Child(Options),
    /// Prints the table of the result files in a directory.
    Table(PathBuf),
}

/// The options of trials.
#[derive(Clone)]
pub(crate) struct Options {
    /// The engines; if empty, those of each cell.
    pub(crate) engines: Vec<Choice>,
    /// The cells to run.
    pub(crate) cells: Vec<Cell>,
    /// The number of rounds of each cell; for a single trial, the number of its round.
    pub(crate) rounds: usize,
    /// The seconds of a trial; if not set, those of each cell.
    pub(crate) seconds: Option<f64>,
    /// The bytes of memory for memtables and caches.
    pub(crate) memory_bytes: u64,
    /// The number of hash partitions, for engines that have them; if not set, ranges of keys that
    /// split.
    pub(crate) partitions: Option<u16>,
    /// The seed of keys and values.
    pub(crate) seed: u64,
    /// The sizes of filled stores.
    pub(crate) scale: Scale,
    /// The directory of result files.
    pub(crate) out: PathBuf,
    /// The directory in which stores are created.
    pub(crate) dir: PathBuf,
    /// Whether trials with a result file are skipped.
    pub(crate) resume: bool,
}

/// Parses the words of the command line.
///
/// # Errors
/// A text that says what is wrong with the words.
pub(crate) fn parse(words: &[String]) -> Result<Command, String> {
    match words.first().map(String::as_str) {
        Some("help" | "--help" | "-h") => Ok(Command::Help),
        Some("list") => Ok(Command::List),
        Some("table") => match words {
            [_, dir] => Ok(Command::Table(dir.into())),
            _ => Err("table: expected one directory".into()),
        },
        Some("trial") => options(&words[1..]).map(Command::Child),
        Some("run") => options(&words[1..]).map(Command::Run),
        _ => options(words).map(Command::Run),
    }
}

fn options(words: &[String]) -> Result<Options, String> {
    let mut options = Options {
        engines: Vec::new(),
        cells: all(),
        rounds: 3,
        seconds: None,
        memory_bytes: 512 << 20,
        partitions: None,
        seed: 1,
        scale: Scale::FULL,
        out: "peers-results".into(),
        dir: "peers-stores".into(),
        resume: false,
    };
    let mut words = words.iter();
    while let Some(name) = words.next() {
        if name == "--resume" {
            options.resume = true;
            continue;
        }
        if !name.starts_with("--") {
            return Err(format!("unknown command or word: {name}"));
        }
        let value = words.next().ok_or_else(|| format!("{name}: expected a value"))?;
        let wrong = |what: &str| format!("{name} {value}: expected {what}");
        match name.as_str() {
            "--engines" => {
                options.engines = value.split(',').map(str::parse).collect::<Result<_, _>>()?;
            }
            "--cells" => {
                let names: Vec<String> = value.split(',').map(str::to_owned).collect();
                options.cells = select(&names)?;
            }
            "--rounds" => {
                options.rounds = value.parse().map_err(|_| wrong("a number"))?;
            }
            "--seconds" => {
                let seconds = value.parse().ok().filter(|seconds| (0.1..=1e6).contains(seconds));
                options.seconds = Some(seconds.ok_or_else(|| wrong("0.1 to 1000000"))?);
            }
            "--memory" => {
                let bytes = parse_bytes(value).ok().filter(|bytes| *bytes >= 16 << 20);
                options.memory_bytes = bytes.ok_or_else(|| wrong("16MiB or more"))?;
            }
            "--partitions" => {
                let count = value.parse().ok().filter(|count| (1..=256).contains(count));
                options.partitions = Some(count.ok_or_else(|| wrong("1 to 256"))?);
            }
            "--seed" => options.seed = value.parse().map_err(|_| wrong("a number"))?,
            "--scale" => {
                options.scale = match value.as_str() {
                    "full" => Scale::FULL,
                    "quick" => Scale::QUICK,
                    _ => return Err(wrong("`full` or `quick`")),
                };
            }
            "--out" => options.out = value.into(),
            "--dir" => options.dir = value.into(),
            _ => return Err(format!("unknown option: {name}")),
        }
    }
    Ok(options)
}

impl Options {
    /// Returns the command line of a trial of one cell over one engine, for a process of its own.
    pub(crate) fn trial_words(&self, cell: &Cell, engine: &Choice, round: usize) -> Vec<String> {
        let scale = if self.scale == Scale::QUICK { "quick" } else { "full" };
        let words = [
            ("--cells", cell.name.clone()),
            ("--engines", engine.to_string()),
            ("--rounds", round.to_string()),
            ("--seconds", self.seconds_of(cell).to_string()),
            ("--memory", self.memory_bytes.to_string()),
            ("--seed", self.seed.to_string()),
            ("--scale", scale.to_owned()),
            ("--out", self.out.display().to_string()),
            ("--dir", self.dir.display().to_string()),
        ];
        let partitions = self.partitions.map(|count| ("--partitions", count.to_string()));
        let pairs =
            words.into_iter().chain(partitions).flat_map(|(name, value)| [name.to_owned(), value]);
        std::iter::once("trial".to_owned()).chain(pairs).collect()
    }

    /// Returns the seconds of a trial of this cell.
    pub(crate) fn seconds_of(&self, cell: &Cell) -> f64 {
        self.seconds.unwrap_or(if cell.is_headline() { 60.0 } else { 20.0 })
    }

    /// Returns a cell with its options.
    pub(crate) fn setup<'c>(&self, cell: &'c Cell) -> Setup<'c> {
        Setup {
            cell,
            seconds: self.seconds_of(cell),
            memory_bytes: self.memory_bytes,
            scale: self.scale,
            partitions: self.partitions,
            seed: self.seed,
        }
    }

    /// Returns the path of the result file of a trial.
    pub(crate) fn result_file(&self, cell: &Cell, engine: &Choice, round: usize) -> PathBuf {
        let engine = engine.to_string().replace(':', "-");
        self.out.join(&cell.name).join(format!("{engine}-{round}.jsonl"))
    }
}

/// Prints cells and engines.
pub(crate) fn list() {
    println!("Cells (groups; engines):");
    for cell in all() {
        println!("  {:28} ({}; {})", cell.name, cell.groups.join(", "), cell.engines.join(", "));
    }
    println!("\nEngines and their variants, which may be joined by `+`:");
    for kind in KINDS {
        println!("  {}", kind.name);
        for (name, what) in kind.variants {
            println!("    {}:{name:12} {what}", kind.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn a_trial_s_words_say_what_the_options_said() {
        let asked = "run --cells durable-32 --engines fjall:blobs,redb --seconds 1.5 \
                     --memory 64MiB --scale quick --seed 7 --partitions 2 --out o --dir d";
        let Ok(Command::Run(options)) = parse(&words(asked)) else { panic!("not a run") };
        assert_eq!(options.memory_bytes, 64 << 20);
        let trial = options.trial_words(&options.cells[0], &options.engines[0], 2);
        let Ok(Command::Child(again)) = parse(&trial) else { panic!("not a trial") };
        assert_eq!(again.cells[0].name, "durable-32");
        assert_eq!(again.engines[0].to_string(), "fjall:blobs");
        assert_eq!((again.rounds, again.seconds, again.seed), (2, Some(1.5), 7));
        assert_eq!((again.memory_bytes, again.partitions), (64 << 20, Some(2)));
        assert_eq!(again.scale, Scale::QUICK);
        let file = again.result_file(&again.cells[0], &again.engines[0], 2);
        assert_eq!(file, PathBuf::from("o/durable-32/fjall-blobs-2.jsonl"));
    }

    #[test]
    fn headline_cells_take_a_minute_unless_told_otherwise() {
        let seconds = |asked: &str| {
            let Ok(Command::Run(options)) = parse(&words(asked)) else { panic!("not a run") };
            options.cells.iter().map(|cell| options.seconds_of(cell)).collect::<Vec<_>>()
        };
        assert_eq!(
            seconds("--cells put-heavy-4,put-heavy-4-sustained,durable-1"),
            [60.0, 20.0, 20.0]
        );
        assert_eq!(seconds("--cells put-heavy-4,fill --seconds 3"), [3.0, 3.0]);
    }

    #[test]
    fn what_cannot_be_is_refused_by_name() {
        for wrong in [
            "walk",
            "--engines oracle",
            "--cells nothing",
            "--seconds",
            "--seconds 0",
            "--memory 1TB",
            "--memory 1MiB",
            "--partitions 0",
            "--scale huge",
            "--what what",
        ] {
            let refused = parse(&words(wrong)).err().unwrap_or_else(|| panic!("{wrong}"));
            let word = wrong.split(' ').find(|word| !word.starts_with("--")).unwrap_or(wrong);
            assert!(refused.contains(word), "{wrong}: {refused}");
        }
    }
}
