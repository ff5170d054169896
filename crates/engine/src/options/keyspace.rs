//! The options of a keyspace: how its keys are spread, and how its tables are written.

use flagstone_base::{Error, Result};
use flagstone_sst::TableOptions;

/// How the keys of a keyspace are spread over partitions. Fixed at creation.
///
/// ```
/// # use flagstone_engine::Routing;
/// let by_letter = Routing::Range(vec![b"h".to_vec(), b"q".to_vec()]);    // ..h, h..q, q..
/// assert_eq!((by_letter.partitions(), Routing::Hash(8).partitions()), (3, 8));
/// assert_eq!(Routing::Auto.partitions(), 1);                  // until it splits
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Routing {
    /// By ranges of the hash of the key, 1 to 256 partitions. The load is even for any keys; a scan
    /// merges all partitions. Large ones split, too.
    Hash(u16),
    /// By ranges of the key itself, given the ascending first keys of the second and all later
    /// partitions (at most 255). A scan reads the partitions one after another.
    ///
    /// Partitions split when they have grown or when their writers contend, and merge while they
    /// are small: [`Options::split_bytes`](crate::Options::split_bytes). The bounds given here
    /// stay.
    Range(Vec<Vec<u8>>),
    /// By ranges of the key whose bounds are found while the keyspace grows: one tree at first. The
    /// same as [`Routing::Range`] without bounds, as which it is stored. The default.
    Auto,
}

impl Routing {
    /// The number of partitions of a new keyspace.
    pub fn partitions(&self) -> usize {
        match self {
            Self::Hash(partitions) => usize::from(*partitions),
            Self::Range(bounds) => bounds.len() + 1,
            Self::Auto => 1,
        }
    }

    /// This routing as the catalog stores it.
    pub(crate) fn stored(self) -> Self {
        match self {
            Self::Auto => Self::Range(Vec::new()),
            stored => stored,
        }
    }

    pub(crate) fn check(&self) -> Result<()> {
        match self {
            Self::Hash(1..=256) | Self::Auto => Ok(()),
            Self::Hash(n) => Err(Error::invalid(format!("{n} hash partitions: expected 1 to 256"))),
            Self::Range(bounds) if bounds.len() > 255 => {
                Err(Error::invalid(format!("{} range bounds: expected at most 255", bounds.len())))
            }
            Self::Range(bounds) => {
                for bound in bounds {
                    flagstone_base::key::check_key(bound)?;
                }
                if bounds.is_sorted_by(|a, b| a < b) {
                    Ok(())
                } else {
                    Err(Error::invalid("range bounds must ascend, each above the one before"))
                }
            }
        }
    }
}

/// How many partitions keep all cores busy: the next power of two of their number within 4..=32.
pub(crate) fn partitions_by_cores() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    cores.next_power_of_two().clamp(4, 32)
}

macro_rules! define {
    ($($(#[$doc:meta])* $tag:literal $name:ident: $type:ty = $default:expr, $bounds:expr;)*) => {
        /// The options of a keyspace. What is set applies when the keyspace is created, and is
        /// stored with it. An existing keyspace is opened only if every option that is set has the
        /// stored value; options that are not set are not compared.
        ///
        /// ```
        /// # use flagstone_base::Compression;
        /// # use flagstone_engine::{KeyspaceOptions, Routing};
        /// // Counters that are read at random: small blocks, no work for their compression.
        /// let counters = KeyspaceOptions::new()
        ///     .routing(Routing::Hash(8))
        ///     .block_bytes(4096)
        ///     .compression(Compression::None)
        ///     .bottom_compression(Compression::Lz4)
        ///     .fold("add-i64/1");
        /// assert_eq!(counters.filter_bits, None, "not set: 10 for a new keyspace");
        ///
        /// // A journal that is only scanned: no filters, and what its values share stored once.
        /// let journal = KeyspaceOptions::new().filter_bits(0).bottom_dictionary(true);
        /// assert_eq!((journal.filter_bits, journal.bottom_dictionary), (Some(0), Some(true)));
        /// ```
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct KeyspaceOptions {
            /// How keys find their partition. Fixed at creation. Default: [`Routing::Auto`], ranges
            /// of the key that split and merge by themselves.
            pub routing: Option<Routing>,
            $($(#[$doc])* pub $name: Option<$type>,)*
            /// The name of the fold that combines merge operands, registered with `Builder::fold`
            /// of crate flagstone. Fixed at creation. Default: none, and merges are refused; a
            /// collection gets the fold of `Collection::patch`.
            pub fold: Option<String>,
        }

        /// Setters and comparison of the options of tables.
        impl KeyspaceOptions {
            $(
                #[doc = concat!(
                    "Sets [`KeyspaceOptions::", stringify!($name), "`](#structfield.",
                    stringify!($name), ")."
                )]
                #[must_use]
                pub const fn $name(mut self, $name: $type) -> Self {
                    self.$name = Some($name);
                    self
                }
            )*

            /// Returns `tables` with the options replaced that are set here.
            pub(crate) fn over(&self, tables: TableOptions) -> TableOptions {
                TableOptions { $($name: self.$name.unwrap_or(tables.$name),)* }
            }

            /// Returns the first option that is set here and differs in `tables`, as two texts: its
            /// value in `tables`, and the one set here.
            pub(crate) fn difference(&self, tables: &TableOptions) -> Option<(String, String)> {
                $(
                    if let Some(set) = self.$name && set != tables.$name {
                        let text = |value: $type| format!("{} {value}", stringify!($name));
                        return Some((text(tables.$name), text(set)));
                    }
                )*
                None
            }

            /// Sets all options of tables.
            pub(crate) fn tables(self, tables: TableOptions) -> Self {
                Self { $($name: Some(tables.$name),)* ..self }
            }
        }
    };
}

flagstone_sst::each_table_option!(define);

impl KeyspaceOptions {
    /// Returns options of which none is set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`KeyspaceOptions::routing`](#structfield.routing).
    #[must_use]
    pub fn routing(mut self, routing: Routing) -> Self {
        self.routing = Some(routing);
        self
    }

    /// Sets [`KeyspaceOptions::fold`](#structfield.fold).
    #[must_use]
    pub fn fold(mut self, name: impl Into<String>) -> Self {
        self.fold = Some(name.into());
        self
    }

    /// The routing of a new keyspace.
    pub(crate) fn routing_of_new(&self) -> Routing {
        self.routing.clone().unwrap_or(Routing::Auto).stored()
    }

    /// Refuses values that are out of range.
    pub(crate) fn check(&self) -> Result<()> {
        self.routing.as_ref().map_or(Ok(()), Routing::check)?;
        self.over(TableOptions::default()).check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone_base::Compression;

    #[test]
    fn keyspace_options_out_of_range_are_refused() {
        let refused = |options: KeyspaceOptions| {
            assert!(options.check().is_err(), "{options:?}");
        };
        let new = KeyspaceOptions::new;
        let cut_at = |bounds: &[&[u8]]| {
            new().routing(Routing::Range(bounds.iter().map(|bound| bound.to_vec()).collect()))
        };
        assert!(new().check().is_ok());
        refused(new().routing(Routing::Hash(0)));
        refused(new().routing(Routing::Hash(257)));
        refused(cut_at(&[b"b", b"a"]));
        refused(cut_at(&[b"a", b"a"]));
        refused(cut_at(&[b""]));
        refused(new().block_bytes(100));
        refused(new().filter_bits(21));
        refused(new().compression(Compression::Zstd(0)));
        refused(new().bottom_compression(Compression::Zstd(20)));
    }
    #[test]
    fn what_is_set_replaces_and_what_differs_is_named() {
        let set = KeyspaceOptions::new().filter_bits(3);
        let tables = set.over(TableOptions::default());
        assert_eq!(tables, TableOptions { filter_bits: 3, ..TableOptions::default() });
        assert_eq!(set.difference(&tables), None);
        let texts = ("filter_bits 10".to_owned(), "filter_bits 3".to_owned());
        assert_eq!(set.difference(&TableOptions::default()), Some(texts));
        let all = KeyspaceOptions::new().tables(tables);
        assert_eq!((all.filter_bits, all.block_bytes), (Some(3), Some(16 << 10)));
        assert_eq!(all.over(TableOptions::default()), tables);
    }
}
