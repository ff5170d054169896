//! Documents to put.

/// A document in a JSON text, to be put into a [`Collection`](crate::Collection). Numbers are kept
/// exactly.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// use flagstone::{Json, Space};
/// let prices = db.collection("prices")?;
/// prices.put("lamp", Json(r#"{"price":1.10}"#))?;
/// let lamp = prices.get("lamp")?.expect("it was put");
/// assert_eq!(lamp.to_json().unwrap(), r#"{"price":1.10}"#);
/// # Ok::<(), flagstone::Error>(())
/// ```
///
/// A put returns InvalidInput with line and column if the text is not JSON.
#[derive(Clone, Copy, Debug)]
pub struct Json<T>(
    /// The text: `&str`, `String`, bytes.
    pub T,
);

/// A Rust value that serde writes as a document, to be put into a
/// [`Collection`](crate::Collection). The result is a document like any other: JSON functions,
/// patches and other types read and change it.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// # let db = flagstone::Database::open(dir.path())?;
/// # #[cfg(feature = "serde")] {
/// use flagstone::{As, Patch, Space};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// struct Comment {
///     author: String,
///     score: i64,
///     #[serde(default)]
///     tags: Vec<String>,
/// }
///
/// let comments = db.collection("comments")?;
/// comments.put("evn2i5p", As(&Comment { author: "x".into(), score: 1, tags: vec![] }))?;
/// comments.patch("evn2i5p", &Patch::new().inc("score", 1).push("tags", "hot"))?;
/// let comment: Comment = comments.get_as("evn2i5p")?.expect("it was put");
/// assert_eq!((comment.score, comment.tags), (2, vec!["hot".to_owned()]));
/// # }
/// # Ok::<(), flagstone::Error>(())
/// ```
///
/// A put returns InvalidInput with the path of a part that no document can hold: a field twice,
/// nesting beyond 512. Nothing is written then.
#[derive(Clone, Copy, Debug)]
pub struct As<T>(
    /// The value, or a reference to it.
    pub T,
);
