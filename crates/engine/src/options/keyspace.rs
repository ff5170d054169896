//! The options of a keyspace: how its keys are spread, and how its tables are written.

use flagstone_base::{Compression, Error, Result};

/// How the keys of a keyspace are spread over partitions. Fixed at creation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Routing {
    /// By ranges of the hash of the key: 1 to 256 partitions. Even load for any keys; a scan merges
    /// all partitions.
    Hash(u16),
    /// By ranges of the key itself, given the ascending first keys of the second partition and those
    /// behind it (at most 255). A scan reads the partitions one after another.
    Range(Vec<Vec<u8>>),
}

impl Routing {
    /// The default: hash partitions, the next power of two of the processor's cores within 4..=32.
    pub(crate) fn by_cores() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::Hash(cores.next_power_of_two().clamp(4, 32) as u16)
    }

    /// How many partitions there are.
    pub fn partitions(&self) -> usize {
        match self {
            Self::Hash(partitions) => usize::from(*partitions),
            Self::Range(bounds) => bounds.len() + 1,
        }
    }

    fn check(&self) -> Result<()> {
        match self {
            Self::Hash(1..=256) => Ok(()),
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

/// The options of a keyspace. What is set counts when the keyspace is created, and is stored with it. A keyspace that
/// exists is opened only if every option that is set has the stored value; one that is not set is not compared.
///
/// ```
/// # use flagstone_engine::{KeyspaceOptions, Routing};
/// let options = KeyspaceOptions::new().routing(Routing::Hash(8)).block_bytes(4096);
/// assert_eq!(options.filter_bits, None, "not set: 10 for a new keyspace");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct KeyspaceOptions {
    /// How keys find their partition. Fixed at creation. Default: hash partitions, the next power of two of the
    /// processor's cores within 4..=32.
    pub routing: Option<Routing>,
    /// Compression of all levels but the deepest. Default: lz4, for speed, since these levels are rewritten soon.
    pub compression: Option<Compression>,
    /// Compression of the deepest level, which holds most of the data and is rewritten seldom. Default: zstd 1, for
    /// space. Tables that arrive in the order of their keys are moved there as they are, and get this compression by
    /// [`Database::compact`](crate::Engine::compact_with).
    pub bottom_compression: Option<Compression>,
    /// The size of a block in bytes before compression, 1 KiB to 1 MiB. Default: 16 KiB. Larger blocks compress better,
    /// smaller blocks read less for one uncached get.
    pub block_bytes: Option<usize>,
    /// Filter bits for each key, 0 (no filter) to 20. Default: 10, with which about one get of an absent key in a
    /// hundred costs a read.
    pub filter_bits: Option<u8>,
    /// The name of the fold that combines merge operands, registered with `Builder::fold` of crate flagstone. Fixed at
    /// creation. Default: none, and merges are refused; a collection gets the fold of `Collection::patch`.
    pub fold: Option<String>,
}

/// How tables are written where nothing is set.
pub(crate) struct TableDefaults;

impl TableDefaults {
    pub(crate) const COMPRESSION: Compression = Compression::Lz4;
    pub(crate) const BOTTOM_COMPRESSION: Compression = Compression::Zstd(1);
    pub(crate) const BLOCK_BYTES: usize = 16 << 10;
    pub(crate) const FILTER_BITS: u8 = 10;
}

impl KeyspaceOptions {
    /// No option is set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets [`KeyspaceOptions::routing`](#structfield.routing).
    #[must_use]
    pub fn routing(mut self, routing: Routing) -> Self {
        self.routing = Some(routing);
        self
    }

    /// Sets [`KeyspaceOptions::compression`](#structfield.compression).
    #[must_use]
    pub const fn compression(mut self, compression: Compression) -> Self {
        self.compression = Some(compression);
        self
    }

    /// Sets [`KeyspaceOptions::bottom_compression`](#structfield.bottom_compression).
    #[must_use]
    pub const fn bottom_compression(mut self, compression: Compression) -> Self {
        self.bottom_compression = Some(compression);
        self
    }

    /// Sets [`KeyspaceOptions::block_bytes`](#structfield.block_bytes).
    #[must_use]
    pub const fn block_bytes(mut self, bytes: usize) -> Self {
        self.block_bytes = Some(bytes);
        self
    }

    /// Sets [`KeyspaceOptions::filter_bits`](#structfield.filter_bits).
    #[must_use]
    pub const fn filter_bits(mut self, bits: u8) -> Self {
        self.filter_bits = Some(bits);
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
        self.routing.clone().unwrap_or_else(Routing::by_cores)
    }

    /// Refuses what is out of range.
    pub(crate) fn check(&self) -> Result<()> {
        self.routing.as_ref().map_or(Ok(()), Routing::check)?;
        if let Some(bytes) = self.block_bytes
            && !((1 << 10)..=(1 << 20)).contains(&bytes)
        {
            return Err(Error::invalid(format!(
                "blocks of {bytes} bytes: expected 1,024 to 1,048,576"
            )));
        }
        if let Some(bits) = self.filter_bits.filter(|bits| *bits > 20) {
            return Err(Error::invalid(format!("{bits} filter bits a key: expected 0 to 20")));
        }
        for compression in [self.compression, self.bottom_compression] {
            if let Some(Compression::Zstd(level)) = compression
                && !(1..=19).contains(&level)
            {
                return Err(Error::invalid(format!("zstd level {level}: expected 1 to 19")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
