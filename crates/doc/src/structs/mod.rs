//! Rust values as documents, by serde: written directly to the binary form and read directly from
//! it, without JSON or a [`Value`] in between.
//!
//! ```
//! use flagstone_doc::Document;
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Serialize, Deserialize)]
//! struct Comment<'a> {
//!     author: &'a str,
//!     score: u64,
//!     #[serde(default)]
//!     tags: Vec<&'a str>,
//! }
//!
//! let document = Document::from_serialize(&Comment { author: "x", score: 7, tags: vec!["a"] })?;
//! assert_eq!(document.to_json()?, r#"{"author":"x","score":7,"tags":["a"]}"#);
//! let document = Document::from_json(r#"{"author":"y","score":1e3}"#)?;
//! let comment: Comment = document.to()?;
//! assert_eq!((comment.author, comment.score, comment.tags.len()), ("y", 1000, 0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! `docs/guide/serde.md` has the rules and the limits.

pub mod adapt;

mod compound;
mod error;
mod key;
mod number;
mod parts;
mod private;
mod read;
mod special;
mod value;
mod write;

use crate::encode::Encoder;
use crate::names::Names;
use crate::value::Value;
use crate::view::View;
use error::FailureAtPath;
use flagstone_base::Result;
use read::Reader;
use serde::de::{Deserialize, DeserializeOwned};
use serde::ser::Serialize;
use write::{Put, ValueTarget, WriteState};

impl Encoder {
    /// Appends a Rust value as a document, as [`Encoder::encode`] does with a document value. With
    /// `names`, the fields of structs are stored as ids of that table and new names are defined in
    /// it. The keys of Rust maps are data and are stored in the document.
    ///
    /// Returns one more than the highest name id used, or 0 if none is used. The definitions of all
    /// ids below it must be logged before the document.
    ///
    /// # Errors
    /// InvalidInput, with the path, if the value refuses to be serialized, is nested deeper than
    /// [`DEPTH_MAX`](crate::DEPTH_MAX), has a field twice, or exceeds 512 MiB. Nothing is appended
    /// then.
    pub fn encode_serialize<T: Serialize + ?Sized>(
        &mut self,
        value: &T,
        names: Option<&Names>,
        out: &mut Vec<u8>,
    ) -> Result<u32> {
        self.builder.start(names);
        let start = out.len();
        let mut run = WriteState { encoder: self, names, text: Vec::new(), root: None };
        let written = value.serialize(Put { run: &mut run, place: ValueTarget::ROOT });
        let root = run.root;
        let finished = written.and_then(|()| {
            let finished = run.builder().finish(root, out);
            finished.map_err(|error| run.refused(error))
        });
        finished.map_err(|failure| {
            out.truncate(start);
            self.builder.rest();
            failure.into_error()
        })
    }
}

impl<'a> View<'a> {
    /// Reads the value of the view as a Rust value, which may borrow from the bytes.
    ///
    /// ```
    /// use flagstone_doc::Document;
    /// let document = Document::from_json(r#"{"author":{"name":"ada","age":36},"body":"long"}"#)?;
    /// #[derive(serde::Deserialize)]
    /// struct Author<'a> { name: &'a str }
    /// let author: Author<'_> = document.get("author").expect("it has one").to()?;
    /// assert_eq!(author.name, "ada");                             // borrowed; `age` was skipped
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput with the path of the part that does not fit the type:
    /// ``stats.votes.3: invalid value: integer `300`, expected u8``. Corruption if the bytes read
    /// are malformed.
    pub fn to<T: Deserialize<'a>>(&self) -> Result<T> {
        T::deserialize(Reader::new(*self, 0)).map_err(FailureAtPath::into_error)
    }
}

impl Value {
    /// Converts a Rust value to a document value.
    ///
    /// ```
    /// use flagstone_doc::{Value, doc};
    /// #[derive(serde::Serialize, serde::Deserialize, PartialEq, Debug)]
    /// struct Point { x: i32, y: Option<i32> }
    /// let value = Value::from_serialize(&Point { x: 3, y: None })?;
    /// assert_eq!(value, doc!({ "x": 3, "y": null }));
    /// let point: Point = value.to()?;
    /// assert_eq!(point, Point { x: 3, y: None });
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`Encoder::encode_serialize`].
    pub fn from_serialize<T: Serialize + ?Sized>(value: &T) -> Result<Self> {
        let mut bytes = Vec::new();
        Encoder::new().encode_serialize(value, None, &mut bytes)?;
        Ok(root_of(&bytes).to_value().unwrap_or_default())
    }

    /// Converts the value to a Rust value that borrows nothing.
    ///
    /// ```
    /// use flagstone_doc::doc;
    /// let (name, votes): (String, Vec<u8>) = doc!(["ada", [7, 255]]).to()?;
    /// assert_eq!((name.as_str(), votes), ("ada", vec![7, 255]));
    /// let error = doc!(["ada", [7, 256]]).to::<(String, Vec<u8>)>().unwrap_err();
    /// assert_eq!(error.to_string(), "1.1: invalid value: integer `256`, expected u8");
    /// # Ok::<(), flagstone_base::Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`View::to`]; InvalidInput if the value is nested too deep.
    pub fn to<T: DeserializeOwned>(&self) -> Result<T> {
        let mut bytes = Vec::new();
        Encoder::new().encode(self, None, &mut bytes)?;
        root_of(&bytes).to()
    }
}

/// Returns the root of a document that an encoder has just written: the fallback is never used.
fn root_of(bytes: &[u8]) -> View<'_> {
    View::of(bytes, None).unwrap_or(View::NULL)
}
