//! Parquet and Arrow files, in a build with the feature `parquet`. Another build knows them by name
//! and says how to get one.

#[cfg(feature = "parquet")]
mod source;

#[cfg(feature = "parquet")]
mod read;
#[cfg(feature = "parquet")]
mod write;

#[cfg(feature = "parquet")]
pub(super) use self::{read::load, write::export};

use super::export::packing_of;
use crate::args::FormatArg;
#[cfg(not(feature = "parquet"))]
use crate::args::{ExportArgs, LoadArgs};
use crate::failure::Failure;
use std::path::Path;

/// A format whose files hold columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ColumnarFormat {
    Parquet,
    Arrow,
}

impl ColumnarFormat {
    /// Returns the form that `--type` names, or else the end of the file's name.
    pub(super) fn of(format: Option<FormatArg>, path: Option<&Path>) -> Option<Self> {
        match format {
            Some(FormatArg::Parquet) => return Some(Self::Parquet),
            Some(FormatArg::Arrow) => return Some(Self::Arrow),
            Some(FormatArg::Json | FormatArg::Csv | FormatArg::Tsv) => return None,
            None => {}
        }
        let end = path?.extension()?.to_str()?.to_lowercase();
        match end.as_str() {
            "parquet" => Some(Self::Parquet),
            "arrow" | "arrows" | "feather" => Some(Self::Arrow),
            _ => None,
        }
    }

    /// Refuses a name such as `x.parquet.gz`, which was taken for one of JSON, compressed.
    pub(super) fn check_name(format: Option<FormatArg>, path: &Path) -> Result<(), Failure> {
        let form = if packing_of(path).is_some() {
            Self::of(format, path.file_stem().map(Path::new))
        } else {
            None
        };
        match form {
            Some(form) => Err(Failure::Usage(format!(
                "{}: expected a file of {form:?} that is not compressed as a whole: its parts are; \
                 --type says what it is if the name does not",
                path.display()
            ))),
            None => Ok(()),
        }
    }
}

/// Refuses an export.
#[cfg(not(feature = "parquet"))]
pub(super) fn export(_: &ExportArgs, _: ColumnarFormat) -> Result<(), Failure> {
    Err(left_out())
}

/// Refuses a load.
#[cfg(not(feature = "parquet"))]
pub(super) fn load(_: &LoadArgs) -> Result<(), Failure> {
    Err(left_out())
}

#[cfg(not(feature = "parquet"))]
fn left_out() -> Failure {
    let text = "this flagstone was built without Parquet and Arrow, which take 38 \
                more crates; with them: cargo install --path crates/cli --features parquet";
    Failure::Usage(text.to_owned())
}
