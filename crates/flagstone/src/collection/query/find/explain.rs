//! Explains queries.

use super::builder::Find;
use crate::collection::query::ask::{Ask, Need};
use crate::collection::query::explain::{Actual, Explain};
use crate::collection::query::group::Group;
use crate::collection::query::plan::Chooser;
use flagstone_base::Result;

/// Explaining.
impl Find<'_> {
    /// Says how the query would be run, and why. Runs nothing.
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
        self.explained(&self.ask(self.need(self.spec.after.is_some())))
    }

    /// As [`Find::explain`], for the groups of [`Find::group`], whose fields an index may have.
    ///
    /// # Errors
    /// As [`Find::group`].
    pub fn explain_group(&self, group: &Group) -> Result<Explain> {
        self.check()?;
        self.check_no_token("groups")?;
        group.check()?;
        self.explained(&Ask::new(Need::Any, group.wanted()))
    }

    pub(super) fn explained(&self, ask: &Ask) -> Result<Explain> {
        let source = self.source();
        if let Some(token) = &self.spec.after {
            token.check(self.spec.hash(&self.stored), source.history(&self.stored))?;
        }
        let source = source.probing();
        let chooser = Chooser::new(&self.stored, &source, &self.spec, ask);
        let choice = chooser.explaining().choose()?;
        let sorts = self.spec.sort.is_some() && !choice.has_order();
        Ok(Explain { plans: choice.plans, sorts, actual: None })
    }

    /// Runs the query to its end, and says how, and what it has read.
    ///
    /// # Errors
    /// As [`Find::run`].
    pub fn explain_analyze(&self) -> Result<Explain> {
        let explain = self.explain()?;
        let mut cursor = self.run()?;
        let mut rows = 0;
        while cursor.advance()? {
            rows += 1;
        }
        let actual = Actual::new(rows, cursor.rows().work(), cursor.rows().spilled());
        Ok(Explain { actual: Some(actual), ..explain })
    }

    /// As [`Find::explain_analyze`], for the groups of [`Find::group`].
    ///
    /// # Errors
    /// As [`Find::group`].
    pub fn explain_analyze_group(&self, group: &Group) -> Result<Explain> {
        let explain = self.explain_group(group)?;
        let mut groups = self.group(group)?;
        let mut rows = 0;
        for group in &mut groups {
            group?;
            rows += 1;
        }
        let actual = Actual::new(rows, groups.work(), groups.spilled());
        Ok(Explain { actual: Some(actual), ..explain })
    }
}
