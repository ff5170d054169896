//! Arguments of the commands on one document: get, put, delete, update.

use super::{CollectionArgs, JsonArgs, MemoryArgs};
use crate::units::{self, Expiry};
use clap::Args;

/// Which document.
#[derive(Args, Debug)]
pub(crate) struct KeyArgs {
    #[command(flatten)]
    pub(crate) collection: CollectionArgs,
    /// The primary key, as plain text
    #[arg(allow_hyphen_values = true)]
    pub(crate) key: String,
    /// KEY is a JSON value: 42, "text", [1,"a"]
    #[arg(long)]
    pub(crate) json_key: bool,
    #[command(flatten)]
    pub(crate) json_mode: JsonArgs,
}

/// Print the document of a key
///
/// On a terminal it is printed on several lines, in a pipe on one.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!("there is no such document, collection or path"))]
pub(crate) struct GetArgs {
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    /// Print only what is at this path, one value a line: a dotted path (author.name, tags.0), a
    /// JSON Pointer (/author/name) or a JSONPath ('$.items[?@.price < 10].name'). May be given more
    /// than once
    #[arg(long = "path", value_name = "PATH")]
    pub(crate) paths: Vec<String>,
    /// Print the expiry instead of the document: a time as in 2026-12-31T00:00:00Z, or `never`
    #[arg(long, conflicts_with_all = ["paths", "pretty", "compact"])]
    pub(crate) expires: bool,
    /// Print on several lines, indented, in a pipe as well
    #[arg(long, conflicts_with = "compact")]
    pub(crate) pretty: bool,
    /// Print on one line, on a terminal as well
    #[arg(long)]
    pub(crate) compact: bool,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Set the document of a key; creates database and collection if they are missing
#[derive(Args, Debug)]
#[command(after_help = exit_codes!("another document has the value of a unique index"))]
pub(crate) struct PutArgs {
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    /// The document; read from stdin when it is not given
    #[arg(allow_hyphen_values = true)]
    pub(crate) json: Option<String>,
    /// When the document expires: after a duration (90s, 15m, 2h, 7d, 2w) or at a time
    /// (2026-12-31T00:00:00Z). Updates keep the expiry, a later put removes it
    #[arg(long, value_name = "WHEN", value_parser = units::expiry)]
    pub(crate) expires: Option<Expiry>,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Which document, or which documents.
#[derive(Args, Debug)]
pub(crate) struct TargetArgs {
    #[command(flatten)]
    pub(crate) collection: CollectionArgs,
    /// The primary key, as plain text
    #[arg(allow_hyphen_values = true, required_unless_present = "filter")]
    pub(crate) key: Option<String>,
    /// KEY is a JSON value: 42, "text", [1,"a"]
    #[arg(long, conflicts_with = "filter")]
    pub(crate) json_key: bool,
    #[command(flatten)]
    pub(crate) json_mode: JsonArgs,
    /// Instead of KEY: all documents that match this filter, as that of find. Each is changed by
    /// itself; Ctrl-C stops between two. KEY and --where together are refused. On a terminal the
    /// command asks before it changes all documents of a collection
    #[arg(long = "where", value_name = "FILTER")]
    pub(crate) filter: Option<String>,
    /// With --where, do not ask
    #[arg(long, short, requires = "filter")]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// Remove the document of a key, or all that match a filter
#[derive(Args, Debug)]
#[command(after_help = exit_codes!(
    "there is no such document or collection, or the answer was not yes"
))]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
}

/// Change a document, or all that match a filter; changes to each document are atomic
///
/// Values are JSON: score=7, name='"x"', meta.tags='["a"]'. Conditions are tested on the document
/// as it is; then fields are set, and the other changes follow in the order of their list below.
/// With --where all arguments after COLLECTION are changes.
#[derive(Args, Debug)]
#[command(after_help = exit_codes!(
    "there is no such document or collection, it does not meet a condition, another one has the \
     value of a unique index, or the answer was not yes"
))]
pub(crate) struct UpdateArgs {
    #[command(flatten)]
    pub(crate) target: TargetArgs,
    /// Set the value at a dotted path; missing maps on the path are created
    #[arg(value_name = "PATH=JSON", required_unless_present_any = CHANGES)]
    pub(crate) changes: Vec<String>,
    /// Remove the value at the path
    #[arg(long, value_name = "PATH")]
    pub(crate) unset: Vec<String>,
    /// Add to the number at the path, exactly
    #[arg(long, value_name = "PATH=NUMBER")]
    pub(crate) inc: Vec<String>,
    /// Multiply the number at the path, exactly
    #[arg(long, value_name = "PATH=NUMBER")]
    pub(crate) mul: Vec<String>,
    /// Give the field at the path another name
    #[arg(long, value_name = "PATH=NAME")]
    pub(crate) rename: Vec<String>,
    /// Append to the array at the path
    #[arg(long, value_name = "PATH=JSON")]
    pub(crate) push: Vec<String>,
    /// Set the value at the path if the new one is less
    #[arg(long, value_name = "PATH=JSON")]
    pub(crate) min: Vec<String>,
    /// Set the value at the path if the new one is greater
    #[arg(long, value_name = "PATH=JSON")]
    pub(crate) max: Vec<String>,
    /// Append to the array at the path unless it has an equal element
    #[arg(long, value_name = "PATH=JSON")]
    pub(crate) add_to_set: Vec<String>,
    /// Remove all equal elements from the array at the path
    #[arg(long, value_name = "PATH=JSON")]
    pub(crate) pull: Vec<String>,
    /// Remove the first element of the array at the path
    #[arg(long, value_name = "PATH")]
    pub(crate) pop_first: Vec<String>,
    /// Remove the last element of the array at the path
    #[arg(long, value_name = "PATH")]
    pub(crate) pop_last: Vec<String>,
    /// Insert into the array at the path, as in tags=0:"x"; -1 is before the last element
    #[arg(long, value_name = "PATH=POSITION:JSON")]
    pub(crate) push_at: Vec<String>,
    #[command(flatten)]
    pub(crate) conditions: ConditionArgs,
    /// Begin with an empty document when there is none; with --update and --where, with the values
    /// that FILTER requires, when none matches
    #[arg(long)]
    pub(crate) upsert: bool,
    /// Begin with this document when there is none
    #[arg(long, value_name = "JSON", conflicts_with = "upsert")]
    pub(crate) default: Option<String>,
    /// Do the operations of a JSON Patch (RFC 6902); `-` reads it from stdin
    #[arg(long, value_name = "JSON", conflicts_with_all = ["merge_patch", "upsert", "blind"])]
    pub(crate) json_patch: Option<String>,
    /// Merge a JSON Merge Patch (RFC 7396); `-` reads it from stdin
    #[arg(long, value_name = "JSON", conflicts_with = "blind")]
    pub(crate) merge_patch: Option<String>,
    /// Apply an update of MongoDB: a document of operators, as in
    /// '{"$push":{"tags":{"$each":[1],"$slice":-9}}}'; an array of stages; or, with KEY only, a
    /// document that replaces the old one. `-` reads it from stdin. The update sees the key as _id;
    /// FILTER calls it $key. With --where, `$` in a path is the element by which a document matches
    #[arg(
        long,
        value_name = "JSON",
        conflicts_with_all = ["json_patch", "merge_patch", "default", "blind"]
    )]
    pub(crate) update: Option<String>,
    /// The filters for `$[x]` in the paths of --update, as an array: '[{"x.n":{"$gt":1}}]'; not
    /// with stages
    #[arg(long, value_name = "JSON", requires = "update")]
    pub(crate) array_filters: Option<String>,
    /// With --where, count the documents that a change or a condition does not apply to, and
    /// continue
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Do not read the document: a missing one, or changes that do not apply, are no error
    #[arg(long)]
    pub(crate) blind: bool,
}

impl UpdateArgs {
    /// Returns the arguments of the form PATH=JSON.
    pub(crate) fn values(&mut self) -> impl Iterator<Item = &mut String> {
        let of = &mut self.conditions;
        let lists = [
            &mut self.changes,
            &mut self.push,
            &mut self.min,
            &mut self.max,
            &mut self.add_to_set,
            &mut self.pull,
            &mut of.if_eq,
            &mut of.if_ne,
            &mut of.if_lt,
            &mut of.if_lte,
            &mut of.if_gt,
            &mut of.if_gte,
        ];
        lists.into_iter().flatten()
    }
}

/// The arguments of `update` of which there must be one.
const CHANGES: [&str; 17] = [
    "filter",
    "unset",
    "inc",
    "mul",
    "rename",
    "push",
    "min",
    "max",
    "add_to_set",
    "pull",
    "pop_first",
    "pop_last",
    "push_at",
    "default",
    "json_patch",
    "merge_patch",
    "update",
];

/// The heading of conditions in the help.
const CONDITIONS: &str = "Conditions";

/// Conditions of an update.
#[derive(Args, Debug)]
pub(crate) struct ConditionArgs {
    /// Change nothing unless there is a value at the path
    #[arg(long, value_name = "PATH", help_heading = CONDITIONS)]
    pub(crate) if_exists: Vec<String>,
    /// Change nothing if there is a value at the path
    #[arg(long, value_name = "PATH", help_heading = CONDITIONS)]
    pub(crate) if_missing: Vec<String>,
    /// Change nothing unless the value at the path is equal
    #[arg(long, value_name = "PATH=JSON", help_heading = CONDITIONS)]
    pub(crate) if_eq: Vec<String>,
    /// Change nothing if the value at the path is equal
    #[arg(long, value_name = "PATH=JSON", help_heading = CONDITIONS)]
    pub(crate) if_ne: Vec<String>,
    /// Change nothing unless the value at the path is less
    #[arg(long, value_name = "PATH=JSON", help_heading = CONDITIONS)]
    pub(crate) if_lt: Vec<String>,
    /// Change nothing unless the value at the path is less or equal
    #[arg(long, value_name = "PATH=JSON", help_heading = CONDITIONS)]
    pub(crate) if_lte: Vec<String>,
    /// Change nothing unless the value at the path is greater
    #[arg(long, value_name = "PATH=JSON", help_heading = CONDITIONS)]
    pub(crate) if_gt: Vec<String>,
    /// Change nothing unless the value at the path is greater or equal
    #[arg(long, value_name = "PATH=JSON", help_heading = CONDITIONS)]
    pub(crate) if_gte: Vec<String>,
}
