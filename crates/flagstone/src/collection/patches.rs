//! Patches of the documents of a collection.

use super::handle::Collection;
use super::patch_if::{AnyPatch, Patched};
use super::update;
use crate::args::Key;
use crate::write::Destination;
use flagstone_base::Result;
use flagstone_doc::Patch;

/// Patches.
impl Collection {
    /// Changes the document of `key` by `patch` without reading it. Costs as much as a put: the
    /// patch is written, and applied when the document is read or compacted.
    ///
    /// **A patch that does not apply changes nothing, and this call does not report it.** That is
    /// the case if there is no document and the patch is not an upsert, if it adds to something
    /// that is not a number, or if one of its conditions does not hold.
    /// [`KeyspaceStats::operands_refused`](crate::report::KeyspaceStats::operands_refused) counts
    /// such patches. [`Collection::patch_if`] reads first and tells what the patch met.
    ///
    /// [`Options::document_bytes_max`](crate::Options::document_bytes_max) limits the patch, not
    /// the document that results: the document is not read now, and what was acknowledged is never
    /// dropped later. Beyond 512 MiB a patch does not apply. A collection with another fold, or
    /// none, reads and writes the document instead, and so does one after its first expiry.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Json, Patch, Space};
    /// let comments = db.collection("comments")?;
    /// comments.put("evn2i5p", Json(r#"{"author":"x","score":1.10}"#))?;
    /// comments.patch("evn2i5p", &Patch::new().inc("score", 1).push("tags", "hot"))?;
    /// let document = comments.get("evn2i5p")?.expect("it was put");
    /// assert_eq!(document.to_json().unwrap(), r#"{"author":"x","score":2.10,"tags":["hot"]}"#);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// With [`Patch::upsert_from`] it changes a default document where there is none, and sets it.
    /// So of many callers at once one creates the document:
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Patch, Space, doc};
    /// let pages = db.collection("pages")?;
    /// let new = doc!({ "title": "untitled", "visits": 0 });
    /// let visit = Patch::new().inc("visits", 1).upsert_from(new);
    /// for _ in 0..3 {
    ///     pages.patch("/index.html", &visit)?;
    /// }
    /// let page = pages.get("/index.html")?.expect("it was made");
    /// assert_eq!(page.to_json().unwrap(), r#"{"title":"untitled","visits":3}"#);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput for a patch that no document could take (without changes, or adding something
    /// that is not a number), one over the limit of documents, or one that the fold of an older
    /// collection does not know (see [`Collection::upgrade`]); else as
    /// [`Space::put`](crate::Space::put).
    pub fn patch(&self, key: impl Key<Self>, patch: &Patch) -> Result<()> {
        update::patch(&self.0, Destination::Database, key.key_bytes()?.as_ref(), patch)
    }

    /// Reads the document of `key`, changes it by `patch` and writes it, and tells what the patch
    /// met. No other write of the key comes between.
    ///
    /// `patch` is a `&Patch`, a `&JsonPatch` (RFC 6902) or a `&MergePatch` (RFC 7396). Where
    /// possible the bytes of the document are changed without decoding them. If the patch does not
    /// apply, nothing is written; [`Patched::applied`] makes an error of that.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Json, Patch, Patched, Space};
    /// let pages = db.collection("pages")?;
    /// pages.put("a", Json(r#"{"visits":1,"title":"A"}"#))?;
    /// let visit = Patch::new().inc("visits", 1);
    /// assert_eq!(pages.patch_if("a", &visit)?, Patched::Changed);
    /// assert_eq!(pages.patch_if("b", &visit)?, Patched::NoDocument);
    /// let wrong = pages.patch_if("a", &Patch::new().inc("title", 1))?;
    /// assert!(!wrong.is_applied() && wrong.to_string().contains("inc title 1 does not apply"));
    /// let once = Patch::new().if_missing("seen").set("seen", true);
    /// assert_eq!(pages.patch_if("a", &once)?, Patched::Changed);
    /// assert!(matches!(pages.patch_if("a", &once)?, Patched::ConditionFailed(_)));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// A JSON Patch, whose `test` is a condition:
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Json, JsonPatch, Patched, Space};
    /// let tasks = db.collection("tasks")?;
    /// tasks.put(1, Json(r#"{"state":"open","tags":["a"]}"#))?;
    /// let close = JsonPatch::parse(
    ///     r#"[{ "op": "test", "path": "/state", "value": "open" },
    ///         { "op": "replace", "path": "/state", "value": "done" },
    ///         { "op": "add", "path": "/tags/0", "value": "b" }]"#,
    /// )?;
    /// assert_eq!(tasks.patch_if(1, &close)?, Patched::Changed);
    /// let task = tasks.get(1)?.expect("it was put");
    /// assert_eq!(task.to_json().unwrap(), r#"{"state":"done","tags":["b","a"]}"#);
    /// assert!(matches!(tasks.patch_if(1, &close)?, Patched::ConditionFailed(_)));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// A JSON Merge Patch, which may be an [upsert](flagstone_doc::MergePatch::upsert):
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Json, MergePatch, Patched, Space};
    /// let users = db.collection("users")?;
    /// users.put("ada", Json(r#"{"name":"Ada","mail":"a@b.c","tags":["x"]}"#))?;
    /// let patch = MergePatch::parse(r#"{"mail":null,"address":{"city":"Oslo"}}"#)?;
    /// assert_eq!(users.patch_if("ada", &patch)?, Patched::Changed);
    /// let ada = users.get("ada")?.expect("it was put");
    /// let merged = r#"{"name":"Ada","tags":["x"],"address":{"city":"Oslo"}}"#;
    /// assert_eq!(ada.to_json().unwrap(), merged);
    /// assert_eq!(users.patch_if("bob", &patch)?, Patched::NoDocument);
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput for a patch that no document could take; else as
    /// [`Space::put`](crate::Space::put).
    pub fn patch_if(&self, key: impl Key<Self>, patch: impl AnyPatch) -> Result<Patched> {
        patch.write(&self.0, Destination::Database, key.key_bytes()?.as_ref())
    }

    /// Lets the collection store all patches that this version of flagstone knows as merge
    /// operands: makes `patch/2` its fold, by one edit of the manifest, synced when this returns.
    /// Returns false if that is its fold already, as it is of every new collection.
    ///
    /// A collection that an older flagstone created stays readable for it, until it is upgraded.
    /// [`Collection::patch`] and batches refuse patches that its fold does not know: array changes
    /// other than `push`, conditions, and upserts with a default document.
    /// [`Collection::patch_if`] writes the whole document, so it takes every patch.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// let users = db.collection("users")?;
    /// assert!(!users.upgrade()?);                                 // a new collection needs none
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// InvalidInput for a collection with a fold of your own; Io, OutOfSpace, Poisoned, Closed.
    pub fn upgrade(&self) -> Result<bool> {
        update::upgrade(&self.0)
    }
}
