//! Explains queries.

use super::builder::Find;
use crate::collection::query::ask::{Ask, Need};
use crate::collection::query::explain::{Actual, Explain};
use crate::collection::query::group::Group;
use crate::collection::query::plan::Chooser;
use flagstone_base::Result;
use flagstone_doc::FieldPath;

/// Explaining.
impl Find<'_> {
    /// Makes [`Find::explain`] and its variants run the query to its end, too, and say what it has
    /// read.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Json, Space};
    /// let comments = db.collection("comments")?;
    /// comments.put("a", Json(r#"{"score":7}"#))?;
    /// comments.put("b", Json(r#"{"score":2}"#))?;
    /// let explain = comments.find(r#"{"score":{"$gt":5}}"#).analyze().explain()?;
    /// let actual = explain.actual.expect("it was run");
    /// assert_eq!((actual.rows, actual.documents), (1, 2));
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    pub const fn analyze(mut self) -> Self {
        self.analyzes = true;
        self
    }

    /// Says how the query would be run, and why. Runs nothing without [`Find::analyze`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// # let comments = db.collection("comments")?;
    /// let explain = comments.find(r#"{"score":{"$gt":5}}"#).sort("-score").explain()?;
    /// assert_eq!(explain.plans[0].access, "scan of all documents");
    /// assert!(explain.sorts && explain.actual.is_none());
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Find::run`].
    pub fn explain(&self) -> Result<Explain> {
        self.check()?;
        let explain = self.explained(&self.ask(self.need()))?;
        self.analyzed(explain, || {
            let (mut cursor, mut rows) = (self.run()?, 0);
            while cursor.advance()? {
                rows += 1;
            }
            Ok(Actual::new(rows, cursor.rows().work(), cursor.rows().spilled()))
        })
    }

    /// As [`Find::explain`], for the groups of [`Find::group`], whose fields an index may have.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = flagstone::Database::open(dir.path())?;
    /// use flagstone::{Group, Index, Space, doc};
    /// let posts = db.collection("posts")?;
    /// posts.put(1, doc!({ "author": "x", "body": "long" }))?;
    /// posts.create_index("authors", Index::on("author"))?;
    /// let explain = posts.find("{}").analyze().explain_group(&Group::by("author").count("n"))?;
    /// let actual = explain.actual.expect("it was run");
    /// assert_eq!((actual.entries, actual.documents), (1, 0));     // the index has all it needs
    /// # Ok::<(), flagstone::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Find::group`].
    pub fn explain_group(&self, group: &Group) -> Result<Explain> {
        self.check_group(group)?;
        let explain = self.explained(&Ask::new(Need::Any, group.wanted()))?;
        self.analyzed(explain, || {
            let (mut groups, mut rows) = (self.group(group)?, 0);
            for group in &mut groups {
                group?;
                rows += 1;
            }
            Ok(Actual::new(rows, groups.work(), groups.spilled()))
        })
    }

    /// See [`crate::internal::explain_values`].
    pub(crate) fn explain_values(&self, paths: &[FieldPath]) -> Result<Explain> {
        self.check()?;
        let explain = self.explained(&self.ask_values(paths))?;
        self.analyzed(explain, || {
            let (mut values, mut rows) = (self.values(paths)?, 0);
            while values.advance()? {
                rows += 1;
            }
            let found = values.rows();
            Ok(Actual::new(rows, found.work(), found.spilled()))
        })
    }

    fn explained(&self, ask: &Ask) -> Result<Explain> {
        let source = self.source()?;
        if let Some(token) = &self.spec.after {
            token.check(self.spec.hash(&self.stored), source.history(&self.stored)?)?;
        }
        let source = source.probing();
        let chooser = Chooser::new(&self.stored, &source, &self.spec, ask);
        let choice = chooser.explaining().choose()?;
        let sorts = self.spec.by_fields().is_some() && !choice.has_order();
        let (plans, by_key) = (choice.plans, ask.need.by_key());
        Ok(Explain { plans, sorts, by_key, actual: None })
    }

    /// Adds to `explain` what `run` has read, if that is asked for.
    fn analyzed(&self, explain: Explain, run: impl FnOnce() -> Result<Actual>) -> Result<Explain> {
        let actual = if self.analyzes { Some(run()?) } else { None };
        Ok(Explain { actual, ..explain })
    }
}
