//! How tables are written: the options that a keyspace chooses, and what one table is built with.
//!
//! [`each_table_option`](crate::each_table_option) is the one place that names the options of a
//! keyspace's tables. Callers set them in `KeyspaceOptions` of the engine; the catalog stores them,
//! trees and builders read them, all in one [`TableOptions`].

use flagstone_base::fields::{FieldWriter, narrow};
use flagstone_base::{
    Compression, DatabaseId, Error, FileNumber, KeyspaceId, Malformed, Result, TreeId, Undecoded,
};
use std::fmt::{self, Display};
use std::ops::RangeInclusive;

/// Calls the macro `$then` with every option of a keyspace's tables: one line each, in the order of
/// the tags.
///
/// - The documentation is for users.
/// - The tag names the option on disk, among the fields of a keyspace: 12 to 62. An older flagstone
///   uses its default if the tag is even, and refuses the database if the tag is odd.
/// - The name is that of the field and of the setter, and the name in texts.
/// - Type, default and bounds: see `OptionValue`.
#[doc(hidden)]
#[macro_export]
macro_rules! each_table_option {
    ($then:ident) => {
        $then! {
            /// Compression of all levels but the deepest. Default: lz4, for speed, because these
            /// levels are rewritten soon.
            12 compression: $crate::Compression = $crate::Compression::Lz4, ();
            /// Compression of the deepest level, which holds most of the data and is rewritten
            /// seldom. Default: zstd 1, for space. Data that is written in the order of its keys
            /// is moved to that level as it is; a full compaction compresses it.
            14 bottom_compression: $crate::Compression = $crate::Compression::Zstd(1), ();
            /// Bytes of a block before compression, 1 KiB to 1 MiB. Default: 16 KiB. Larger blocks
            /// compress better, smaller blocks read less for one uncached get.
            16 block_bytes: usize = 16 << 10, 1 << 10..=1 << 20;
            /// Bits of filter for each key, 0 (no filter) to 20. Default: 10, so that about one
            /// absent key in a hundred costs a read.
            18 filter_bits: u8 = 10, 0..=20;
            /// Whether tables of the deepest level have a dictionary, if
            /// [`bottom_compression`](#structfield.bottom_compression) is zstd: up to 15 KiB of
            /// what their blocks have in common, stored once in each table. Their blocks are then
            /// shorter, a fourth of [`block_bytes`](#structfield.block_bytes) but at least 1 KiB,
            /// and compress about as well. An uncached get decompresses a fourth of the bytes.
            ///
            /// Default: true for new collections, else false. It is meant for values that are small
            /// and alike, such as documents.
            ///
            /// A table has a dictionary only if its entries take at least 1 MiB, and if a trial
            /// with its first entries takes at most a sixteenth more bytes than long blocks do.
            ///
            /// Cost: writing such a table takes about half as much CPU time again for compression,
            /// and sometimes 60 ms to train a dictionary, with 10 MiB of memory. Compactions hand a
            /// dictionary on while it does its work. An open table takes about 42 KiB more, and
            /// four times as much for its index (92 bytes for each `block_bytes`).
            20 bottom_dictionary: bool = false, ();
        }
    };
}

/// The tags of table options among the fields of a keyspace. The catalog's own fields have others.
const TAGS: RangeInclusive<u64> = 12..=62;

macro_rules! define {
    ($($(#[$doc:meta])* $tag:literal $name:ident: $type:ty = $default:expr, $bounds:expr;)*) => {
        /// How the tables of a keyspace are written. All options may change later: they apply to
        /// new tables.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct TableOptions {
            $($(#[$doc])* pub $name: $type,)*
        }

        impl Default for TableOptions {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl TableOptions {
            /// Refuses options out of their bounds.
            ///
            /// # Errors
            /// InvalidInput, which names option, value and bounds.
            pub fn check(&self) -> Result<()> {
                $(OptionValue::check(&self.$name, stringify!($name), &$bounds)?;)*
                Ok(())
            }

            /// Appends the fields of all options.
            pub fn encode(&self, fields: &mut FieldWriter<'_>) {
                $(OptionValue::encode(&self.$name, $tag, fields);)*
            }

            /// Sets the option with this tag. Returns false if there is none.
            ///
            /// # Errors
            /// A field that is malformed, or that only a newer flagstone knows.
            pub fn set(&mut self, tag: u64, field: &[u8]) -> Result<bool, Undecoded> {
                match tag {
                    $($tag => self.$name = OptionValue::decode(field)?,)*
                    _ => return Ok(false),
                }
                Ok(true)
            }
        }

        /// For example `block_bytes 16384, filter_bits 10`.
        impl Display for TableOptions {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let texts = [$(format!("{} {}", stringify!($name), self.$name)),*];
                f.write_str(&texts.join(", "))
            }
        }

        /// The tag of every option.
        const EACH_TAG: &[u64] = &[$($tag),*];
    };
}

each_table_option!(define);

const _: () = {
    let mut at = 0;
    while at < EACH_TAG.len() {
        assert!(*TAGS.start() <= EACH_TAG[at] && EACH_TAG[at] <= *TAGS.end(), "a tag out of range");
        assert!(at == 0 || EACH_TAG[at - 1] < EACH_TAG[at], "tags of table options rise");
        at += 1;
    }
};

/// What the type of an option can do.
trait OptionValue: Sized {
    /// What limits a value; `()` where the type itself does.
    type Bounds;

    /// Refuses a value of option `name` out of its bounds.
    fn check(&self, name: &str, bounds: &Self::Bounds) -> Result<()>;

    /// Appends the field.
    fn encode(&self, tag: u64, fields: &mut FieldWriter<'_>);

    /// Decodes the bytes of the field.
    fn decode(field: &[u8]) -> Result<Self, Undecoded>;
}

macro_rules! number_option {
    ($($type:ty)*) => {$(
        impl OptionValue for $type {
            type Bounds = RangeInclusive<Self>;

            fn check(&self, name: &str, bounds: &RangeInclusive<Self>) -> Result<()> {
                if bounds.contains(self) {
                    return Ok(());
                }
                let (least, most) = (bounds.start(), bounds.end());
                Err(Error::invalid(format!("{name} is {self}: expected {least} to {most}")))
            }

            fn encode(&self, tag: u64, fields: &mut FieldWriter<'_>) {
                fields.number(tag, *self as u64);
            }

            fn decode(field: &[u8]) -> Result<Self, Undecoded> {
                Ok(narrow(field)?)
            }
        }
    )*};
}

number_option!(u8 usize);

impl OptionValue for bool {
    type Bounds = ();

    fn check(&self, _name: &str, (): &()) -> Result<()> {
        Ok(())
    }

    /// Appends the field if the option is on: off is the default of all.
    fn encode(&self, tag: u64, fields: &mut FieldWriter<'_>) {
        fields.number_unless_zero(tag, u64::from(*self));
    }

    fn decode(field: &[u8]) -> Result<Self, Undecoded> {
        match narrow::<u8>(field)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed { at: 0, expected: "0 or 1" }.into()),
        }
    }
}

impl OptionValue for Compression {
    type Bounds = ();

    fn check(&self, name: &str, (): &()) -> Result<()> {
        match self {
            Self::Zstd(level) if !(1..=19).contains(level) => {
                Err(Error::invalid(format!("{name} is zstd {level}: expected level 1 to 19")))
            }
            _ => Ok(()),
        }
    }

    fn encode(&self, tag: u64, fields: &mut FieldWriter<'_>) {
        fields.bytes(tag, &self.setting());
    }

    fn decode(field: &[u8]) -> Result<Self, Undecoded> {
        let number = field.first().map_or(0, |kind| u64::from(*kind));
        Self::of_setting(field)?.ok_or(Undecoded::Newer { at: 0, what: "compression", number })
    }
}

/// The block sizes that a builder accepts. In smaller blocks the columns outweigh the entries; with
/// larger blocks a cache miss reads too much.
const BLOCK_BYTES_RANGE: RangeInclusive<usize> = 64..=(1 << 20);
/// The largest `index_part_blocks` that [`BuilderOptions`] accepts: larger parts would defeat the
/// purpose of parts.
pub(crate) const INDEX_PART_BLOCKS_MAX: usize = 1024;

/// How one table is built. All options may differ between the tables of one tree.
#[derive(Clone, Copy, Debug)]
pub struct BuilderOptions {
    /// The options of the keyspace. The builder accepts blocks of 64 bytes and filters of 32 bits.
    /// A block ends at `block_bytes`; one large entry may exceed that. A block that does not shrink
    /// by an eighth is stored uncompressed.
    pub tables: TableOptions,
    /// Whether the table is for the deepest level, which has a compression of its own.
    pub is_bottom: bool,
    /// The hash seed of the keyspace. The filter and the fingerprints of blocks depend on it.
    pub hash_seed: u64,
    /// The part of a key that goes into the filter.
    pub filter_key: FilterKey,
    /// The number of data blocks that one part of the index covers, 1 to 1,024. Default 256: a part
    /// takes less than a page of 4 KiB in the file and 6 KB in memory, and a table of 32 MiB has
    /// eight parts.
    pub index_part_blocks: usize,
    /// The raw bytes of the first blocks by which a dictionary is chosen. A smaller table has none.
    /// Default 1 MiB. The builder holds them in memory.
    pub dictionary_sample_bytes: usize,
    /// The keyspace of the table. The table records it for repair; nothing else uses it.
    pub keyspace: KeyspaceId,
    /// The keyspace that owns that of the table, or 0. The table records it for repair, too.
    pub owner: KeyspaceId,
    /// The tree of the table. The table records it for repair; nothing else uses it.
    pub tree: TreeId,
    /// Whether the builder compares every entry of a finished block with its check; see
    /// [`TableBuilder::add_checked`].
    ///
    /// [`TableBuilder::add_checked`]: crate::TableBuilder::add_checked
    pub entry_checks: bool,
}

impl Default for BuilderOptions {
    fn default() -> Self {
        Self {
            tables: TableOptions::default(),
            is_bottom: false,
            hash_seed: 0,
            filter_key: FilterKey::WHOLE,
            index_part_blocks: 256,
            dictionary_sample_bytes: 1 << 20,
            keyspace: KeyspaceId(0),
            owner: KeyspaceId(0),
            tree: TreeId(0),
            entry_checks: true,
        }
    }
}

impl From<TableOptions> for BuilderOptions {
    /// Everything else has its default.
    fn from(tables: TableOptions) -> Self {
        Self { tables, ..Self::default() }
    }
}

impl BuilderOptions {
    /// The compression of the table's data blocks.
    pub(crate) const fn compression(&self) -> Compression {
        if self.is_bottom { self.tables.bottom_compression } else { self.tables.compression }
    }

    /// The level of zstd, if the table may have a dictionary.
    pub(crate) const fn dictionary_level(&self) -> Option<u8> {
        match self.compression() {
            Compression::Zstd(level) if self.is_bottom && self.tables.bottom_dictionary => {
                Some(level)
            }
            _ => None,
        }
    }

    /// Refuses options that the format or the builder cannot take.
    pub(crate) fn check(&self) -> Result<()> {
        let TableOptions { block_bytes, filter_bits, .. } = self.tables;
        OptionValue::check(&block_bytes, "block_bytes", &BLOCK_BYTES_RANGE)?;
        OptionValue::check(&filter_bits, "filter_bits", &(0..=32))?;
        let parts = 1..=INDEX_PART_BLOCKS_MAX;
        OptionValue::check(&self.index_part_blocks, "index_part_blocks", &parts)
    }
}

/// The part of a key that goes into the filter, and the number under which a table records that
/// choice.
#[derive(Clone, Copy, Debug)]
pub struct FilterKey {
    /// 0 for the whole key. For any other number, the reader of the table must use the same
    /// function under the same number.
    pub id: u8,
    /// Returns the part of a key that goes into the filter.
    pub extract: fn(&[u8]) -> &[u8],
}

impl FilterKey {
    /// The filter holds whole keys.
    pub const WHOLE: Self = Self { id: 0, extract: |key| key };
}

/// The identity of a table. The checksum of every block covers it, so a swapped file is detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableIdent {
    /// The database that the table belongs to.
    pub database: DatabaseId,
    /// The file number, which is also in the name of the file.
    pub number: FileNumber,
    /// A nonzero number drawn at random for each table: two copies of one database may give the
    /// same file number to different tables. 0 in tables of an older flagstone.
    pub salt: u32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone_base::fields::FieldReader;

    const OTHERS: TableOptions = TableOptions {
        compression: Compression::Zstd(19),
        bottom_compression: Compression::None,
        block_bytes: 1024,
        filter_bits: 0,
        bottom_dictionary: true,
    };

    fn encoded(options: TableOptions) -> Vec<u8> {
        let mut bytes = Vec::new();
        options.encode(&mut FieldWriter::new(&mut bytes));
        bytes
    }

    #[test]
    fn options_have_these_bytes_and_come_back() {
        let golden = [12, 2, 1, 0, 14, 2, 2, 1, 16, 3, 0x80, 0x80, 1, 18, 1, 10];
        assert_eq!(encoded(TableOptions::default()), golden);
        for options in [TableOptions::default(), OTHERS] {
            let mut read = TableOptions::default();
            let fields = FieldReader::of("field");
            fields.read(&encoded(options), |tag, field| read.set(tag, field)).unwrap();
            assert_eq!(read, options);
        }
    }

    #[test]
    fn a_field_that_does_not_fit_is_refused_and_an_unknown_compression_is_named() {
        let set = |tag, field: &[u8]| TableOptions::default().set(tag, field);
        assert_eq!(set(62, &[1]), Ok(false));
        assert!(matches!(set(18, &[0x80, 2]), Err(Undecoded::Malformed(_))));
        assert!(matches!(set(16, &[1, 1]), Err(Undecoded::Malformed(_))));
        assert!(matches!(set(20, &[2]), Err(Undecoded::Malformed(_))));
        let newer = Undecoded::Newer { at: 0, what: "compression", number: 9 };
        assert_eq!(set(12, &[9, 1, 4]), Err(newer));
    }

    #[test]
    fn options_out_of_bounds_are_refused_by_name() {
        let refused = |options: TableOptions| options.check().unwrap_err().to_string();
        assert!(TableOptions::default().check().is_ok() && OTHERS.check().is_ok());
        let text = refused(TableOptions { block_bytes: 1023, ..OTHERS });
        assert_eq!(text, "block_bytes is 1023: expected 1024 to 1048576");
        let text = refused(TableOptions { filter_bits: 21, ..OTHERS });
        assert_eq!(text, "filter_bits is 21: expected 0 to 20");
        let text = refused(TableOptions { bottom_compression: Compression::Zstd(20), ..OTHERS });
        assert_eq!(text, "bottom_compression is zstd 20: expected level 1 to 19");
    }

    #[test]
    fn they_show_as_names_and_values() {
        let text = "compression lz4, bottom_compression zstd 1, block_bytes 16384, \
                    filter_bits 10, bottom_dictionary false";
        assert_eq!(TableOptions::default().to_string(), text);
    }
}
