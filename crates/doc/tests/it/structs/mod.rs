//! Rust values as documents, by serde: forms, numbers, borrowing, limits, errors.

mod buffered;
mod errors;
mod forms;
mod numbers;
mod rounds;

use flagstone_doc::{Document, Names};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// Returns `value` as a JSON document, after checking that it reads back, with and without a table.
fn json_of<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) -> String {
    let document = comes_back(value);
    document.to_json().unwrap()
}

fn comes_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T) -> Document {
    let document = Document::from_serialize(value).unwrap();
    let checked = Document::from_bytes(document.as_bytes().to_vec(), None).unwrap();
    assert_eq!(&checked.to::<T>().unwrap(), value);
    let names = std::sync::Arc::new(Names::new());
    let mut bytes = Vec::new();
    let mut encoder = flagstone_doc::Encoder::new();
    let used = encoder.encode_serialize(value, Some(&names), &mut bytes).unwrap();
    assert!(used <= names.len());
    let by_id = Document::from_bytes(bytes, Some(names)).unwrap();
    assert_eq!(&by_id.to::<T>().unwrap(), value);
    assert_eq!(by_id, document);
    document
}

fn from_json<T: DeserializeOwned>(json: &str) -> T {
    Document::from_json(json).unwrap().to().unwrap()
}

fn refusal<T: DeserializeOwned + Debug>(json: &str) -> String {
    Document::from_json(json).unwrap().to::<T>().unwrap_err().to_string()
}
