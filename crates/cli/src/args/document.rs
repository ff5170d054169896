//! Arguments of the commands on one document: get, put, delete, update.

use super::CollectionArgs;
use clap::Args;

/// Which document.
#[derive(Args, Debug)]
pub(crate) struct KeyArgs {
    #[command(flatten)]
    pub(crate) collection: CollectionArgs,
    /// The primary key: text as it stands
    #[arg(allow_hyphen_values = true)]
    pub(crate) key: String,
    /// KEY is a JSON value: 42, "text", [1,"a"]
    #[arg(long)]
    pub(crate) json_key: bool,
}

/// Print the document of a key
#[derive(Args, Debug)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    pub(crate) key: KeyArgs,
}

/// Set the document of a key; makes database and collection if they are missing
#[derive(Args, Debug)]
pub(crate) struct PutArgs {
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    /// The document; read from stdin when it is not given
    #[arg(allow_hyphen_values = true)]
    pub(crate) json: Option<String>,
}

/// Remove the document of a key
#[derive(Args, Debug)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) key: KeyArgs,
}

/// Set fields of a document, all of them in one atomic change
#[derive(Args, Debug)]
pub(crate) struct UpdateArgs {
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    /// A dotted path and its new value as JSON: score=7, meta.tags='["a"]'
    #[arg(required = true, value_name = "PATH=JSON", allow_hyphen_values = true)]
    pub(crate) changes: Vec<String>,
}
