//! An engine by its name: `rocksdb`, or `rocksdb:universal` for one of its variants.

use super::{fjall, flagstone, lmdb, redb, sqlite};
use flagstone_bench::engine::{Engine, Outcome};
use flagstone_bench::options::StoreOptions;
use std::fmt;
use std::str::FromStr;

/// A store that this program can open.
pub(crate) struct Kind {
    /// The name on the command line and in result files.
    pub(crate) name: &'static str,
    /// Other ways of tuning the engine: the name, and what it changes. They were measured to choose
    /// the tuning without a variant.
    pub(crate) variants: &'static [(&'static str, &'static str)],
    /// The variant for cells that only read, if the engine can divide its memory for them alone.
    for_reads: Option<&'static str>,
    open: fn(&str, &StoreOptions) -> Outcome<Box<dyn Engine>>,
}

/// All engines, flagstone first.
pub(crate) const KINDS: &[Kind] = &[
    Kind {
        name: "flagstone",
        variants: flagstone::VARIANTS,
        for_reads: None,
        open: flagstone::open,
    },
    #[cfg(feature = "rocksdb")]
    Kind {
        name: "rocksdb",
        variants: super::rocksdb::VARIANTS,
        for_reads: None,
        open: |variant, options| super::rocksdb::open(variant, options),
    },
    Kind { name: "fjall", variants: fjall::VARIANTS, for_reads: Some("reads"), open: fjall::open },
    Kind { name: "redb", variants: &[], for_reads: None, open: |_, options| redb::open(options) },
    Kind { name: "lmdb", variants: lmdb::VARIANTS, for_reads: None, open: lmdb::open },
    Kind { name: "sqlite", variants: sqlite::VARIANTS, for_reads: None, open: sqlite::open },
];

/// An engine, and how it is tuned.
#[derive(Clone)]
pub(crate) struct Choice {
    kind: usize,
    variant: String,
}

impl Choice {
    /// Opens a store; `only_reads` tells whether the cell only reads.
    pub(crate) fn open(
        &self,
        options: &StoreOptions,
        only_reads: bool,
    ) -> Outcome<Box<dyn Engine>> {
        let kind = &KINDS[self.kind];
        let added = kind.for_reads.filter(|_| only_reads);
        let variant = added.map(|added| format!("{}+{added}", self.variant));
        (kind.open)(variant.as_deref().unwrap_or(&self.variant), options)
    }
}

impl PartialEq for Choice {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind && self.variant == other.variant
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(KINDS[self.kind].name)?;
        if !self.variant.is_empty() {
            write!(f, ":{}", self.variant)?;
        }
        Ok(())
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, variant) = text.split_once(':').unwrap_or((text, ""));
        let kind = KINDS.iter().position(|kind| kind.name == name).ok_or_else(|| {
            let names: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
            format!("unknown engine `{name}`: expected one of {}", names.join(", "))
        })?;
        // Variants add up: `rocksdb:16k+universal`.
        for part in variant.split('+').filter(|part| !part.is_empty()) {
            if !KINDS[kind].variants.iter().any(|(known, _)| *known == part) {
                return Err(format!("`{name}` has no variant `{part}`"));
            }
        }
        Ok(Self { kind, variant: variant.to_owned() })
    }
}

/// Returns whether the variant `name` is among those asked for.
pub(crate) fn has(variant: &str, name: &str) -> bool {
    variant.split('+').any(|part| part == name)
}
