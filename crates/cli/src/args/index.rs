//! Arguments of index.

use super::{CollectionArgs, MemoryArgs};
use crate::units;
use clap::{Args, Parser, Subcommand};
use std::time::Duration;

/// Create, list or drop indexes of a collection
#[derive(Args, Debug)]
pub(crate) struct IndexArgs {
    #[command(subcommand)]
    pub(crate) what: IndexCommand,
}

/// What to do with indexes.
#[derive(Debug, Subcommand)]
pub(crate) enum IndexCommand {
    Create(CreateIndexArgs),
    List(ListIndexesArgs),
    Drop(DropIndexArgs),
}

/// Create an index and fill it from the documents that are there
///
/// A field is a path, dotted or beginning with $: subreddit, '$.author.name'. A minus sorts it from
/// the highest to the lowest: -score. lower(PATH) and length(PATH) index text in lower case, and
/// the length of texts, arrays and maps. Of an array each element has an entry. Ctrl-C stops, and
/// removes what is there of the index.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!(
    "there is no such collection, or two documents have one value of a unique index"
))]
pub(crate) struct CreateIndexArgs {
    #[command(flatten)]
    pub(crate) collection: CollectionArgs,
    /// The name of the index
    #[arg(value_name = "NAME")]
    pub(crate) index: String,
    /// The fields, the most important one first
    #[arg(value_name = "FIELD", required = true, allow_hyphen_values = true)]
    pub(crate) fields: Vec<String>,
    #[command(flatten)]
    pub(crate) options: IndexOptions,
}

/// What an index is besides its fields.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct IndexOptions {
    /// No two documents may have the same values
    #[arg(long)]
    pub(crate) unique: bool,
    /// Leave out documents that have none of the fields
    #[arg(long)]
    pub(crate) sparse: bool,
    /// Only documents that match this filter, as '{"score":{"$gt":0}}'
    #[arg(long = "where", value_name = "FILTER")]
    pub(crate) filter: Option<String>,
    /// Documents expire this long after the date in the field, as in 7d: RFC 3339, or seconds since
    /// 1970
    #[arg(long, value_name = "TIME", value_parser = units::duration_of)]
    pub(crate) expire_after: Option<Duration>,
    /// The memory budget, as in 512MiB [default: a quarter of the machine's, 64 MiB to 4 GiB]
    #[arg(long, value_name = "BYTES", value_parser = flagstone::admin::parse_bytes)]
    pub(crate) memory: Option<u64>,
}

/// The options after the fields.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct After {
    #[command(flatten)]
    options: IndexOptions,
}

impl CreateIndexArgs {
    /// Returns the fields and the options. A field may begin with a minus, so the parser takes the
    /// options after the fields, and a `--` after them, for fields; here they are parsed. After a
    /// `--` there are fields alone.
    pub(crate) fn parts(&self) -> Result<(Vec<String>, IndexOptions), clap::Error> {
        let mut parts = self.fields.splitn(2, |text| text == "--");
        let (first, last) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        let is_option = |text: &String| text.starts_with("--");
        let fields = first.iter().position(is_option).unwrap_or(first.len());
        let (fields, after) = first.split_at(fields);
        let After { options: after } = After::try_parse_from(after)?;
        let fields = [fields, last].concat();
        let before = self.options.clone();
        let options = IndexOptions {
            unique: before.unique || after.unique,
            sparse: before.sparse || after.sparse,
            filter: after.filter.or(before.filter),
            expire_after: after.expire_after.or(before.expire_after),
            memory: after.memory.or(before.memory),
        };
        Ok((fields, options))
    }
}

/// List the indexes of a collection
#[derive(Args, Debug)]
#[command(after_help = exit_codes!("there is no such collection"))]
pub(crate) struct ListIndexesArgs {
    #[command(flatten)]
    pub(crate) collection: CollectionArgs,
    /// Print JSON, an index a line
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Remove an index
#[derive(Args, Debug)]
#[command(after_help = exit_codes!("there is no such collection or index"))]
pub(crate) struct DropIndexArgs {
    #[command(flatten)]
    pub(crate) collection: CollectionArgs,
    /// The name of the index
    #[arg(value_name = "NAME")]
    pub(crate) index: String,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Parser)]
    struct Create {
        #[command(flatten)]
        args: CreateIndexArgs,
    }

    #[test]
    #[allow(clippy::unwrap_used, reason = "test code")]
    fn options_are_before_or_after_fields_that_begin_with_a_minus() {
        let words = "create db c i --sparse $.a -$.b -c --unique --where {} --memory 1MiB";
        let Create { args } = Create::try_parse_from(words.split(' ')).unwrap();
        let (fields, options) = args.parts().unwrap();
        assert_eq!(fields, ["$.a", "-$.b", "-c"]);
        assert!(options.sparse && options.unique);
        assert_eq!((options.filter.as_deref(), options.memory), (Some("{}"), Some(1 << 20)));
        let Create { args } = Create::try_parse_from("create db c i a --uniqe".split(' ')).unwrap();
        assert!(args.parts().unwrap_err().to_string().contains("--uniqe"));
        for (words, expected) in [
            ("create db c i -- -$.a", "-$.a"),
            ("create db c i -- -a -b", "-a -b"),
            ("create db c i a -- -$.b c", "a -$.b c"),
            ("create db c i -a -- -b", "-a -b"),
            ("create db c i -a --unique -- -b", "-a -b"),
            ("create db c i --unique -- -a", "-a"),
        ] {
            let Create { args } = Create::try_parse_from(words.split(' ')).unwrap();
            let (fields, options) = args.parts().unwrap();
            assert_eq!(fields.join(" "), expected, "{words}");
            assert_eq!(options.unique, words.contains("unique"), "{words}");
        }
    }
}
