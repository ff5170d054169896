//! Documents of flagstone as Arrow record batches, filled from their stored bytes: no document is
//! decoded. And record batches as documents: [`load()`].
//!
//! ```no_run
//! use flagstone::{Json, Space};
//! let db = flagstone::Database::open("data")?;
//! let comments = db.collection("comments")?;
//! comments.put("a", Json(r#"{"author":"x","score":1}"#))?;
//!
//! use flagstone_arrow::{Column, Columns, Stream, StreamOptions};
//! let columns = Columns::new([Column::key("key"), Column::path("author", "$.author")?])?;
//! let columns = columns.inferred(&comments.find("{}"), 1000)?;
//! let mut stream = Stream::new(&columns, &comments.find("{}"), StreamOptions::default())?;
//! let batch = stream.next().expect("there is one")?;
//! assert_eq!(batch.num_rows(), 1);
//! # Ok::<(), flagstone::Error>(())
//! ```
//! Modules are listed from the ground up.

mod kind;

mod digits;

mod infer;

mod column;

mod fill;

mod batch;

mod parallel;

mod stream;

mod import;
mod interface;

mod cast;
mod cells;

mod load;

#[cfg(test)]
mod hostile;

#[cfg(test)]
mod load_stories;

pub use column::{Column, Columns, KeyColumn};
pub use fill::OnMismatch;
pub use interface::{batch_of, check_same, schema_of};
pub use kind::{Kind, PRECISION_128, PRECISION_MAX};
pub use load::{LoadMode, LoadOptions, LoadWatcher, Loaded, check, load};
pub use stream::{Stream, StreamOptions};
