//! Arguments of report.

use clap::Args;
use std::path::PathBuf;

/// Draw what result files tell: one HTML page that needs nothing beside it, pictures, CSV
///
/// Trials that repeat each other become their median, and their spread is shown. Figures for which
/// nothing was measured are left out with a line that says what would make them.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReportArgs {
    /// The folder of the result files; folders below it count
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The page [default: report.html in DIR]
    #[arg(long, value_name = "FILE.html")]
    pub(crate) out: Option<PathBuf>,
    /// Write each figure as a PNG file into this folder, too; it is made if there is none
    #[arg(long, value_name = "DIR")]
    pub(crate) png: Option<PathBuf>,
    /// Pixels of a picture's width
    #[arg(long, value_name = "N", default_value_t = 1400, requires = "png", value_parser = clap::value_parser!(u32).range(100..=8000))]
    pub(crate) png_width: u32,
    /// Write the rows of each trial as a CSV file into this folder, too, under the name of its result file
    #[arg(long, value_name = "DIR")]
    pub(crate) csv: Option<PathBuf>,
    /// JSON lines, uncompressed: shows how large these documents are
    #[arg(long, value_name = "FILE.jsonl")]
    pub(crate) documents: Option<PathBuf>,
}
