//! How a query is run, and why.

use super::rows::Work;
use crate::spill::Spilled;
use flagstone_doc::{Direction, Map, Value};
use std::fmt;

/// How a query is run, why, and, if it was run, what it has read:
/// [`Find::explain`](crate::Find::explain) returns it. Its text is for humans,
/// [`Explain::to_value`] for programs.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explain {
    /// The plan that was chosen, then the others, the cheapest first.
    pub plans: Vec<PlanInfo>,
    /// Whether the documents are sorted after they are found, because no plan has the order.
    pub sorts: bool,
    /// The direction of the primary key, if that is the order.
    pub(super) by_key: Option<Direction>,
    /// What happened, if the query was run.
    pub actual: Option<Actual>,
}

/// One way to find the documents.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PlanInfo {
    /// What is read: `scan of all documents`, `index "by_score"`.
    pub access: String,
    /// What is known of it: ranges, order, and why it was chosen or not.
    pub notes: Vec<String>,
    /// About how many documents it finds.
    pub rows: u64,
    /// The cost, in documents that a scan reads in the same time.
    pub cost: u64,
}

/// What a query has read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Actual {
    /// Results that were returned: documents, values or groups.
    pub rows: u64,
    /// Documents that matched the filter.
    pub matched: u64,
    /// Documents that were read.
    pub documents: u64,
    /// Entries of indexes that were read.
    pub entries: u64,
    /// Bytes that were written to spill files.
    pub spilled_bytes: u64,
    /// The runs that memory was full of.
    pub spilled_runs: u64,
}

impl Actual {
    pub(super) const fn new(rows: u64, work: Work, spilled: Spilled) -> Self {
        let Work { entries, documents, matched } = work;
        let Spilled { bytes, runs, .. } = spilled;
        Self { rows, matched, documents, entries, spilled_bytes: bytes, spilled_runs: runs }
    }
}

impl Explain {
    /// Returns the same as a value: a map with `plan`, `alternatives`, `sorts`, `order` and
    /// `actual`.
    pub fn to_value(&self) -> Value {
        let mut plans = self.plans.iter().map(PlanInfo::to_value);
        let mut map = Map::new();
        map.insert("plan", plans.next());
        map.insert("alternatives", plans.collect::<Value>());
        map.insert("sorts", self.sorts);
        map.insert("order", self.order());
        if let Some(actual) = &self.actual {
            map.insert("actual", actual.to_value());
        }
        Value::Map(map)
    }

    /// The order of the documents, for users.
    const fn order(&self) -> &'static str {
        match self.by_key {
            Some(Direction::Ascending) => "primary key",
            Some(Direction::Descending) => "primary key, descending",
            None if self.sorts => "sorted after reading",
            None => "as read",
        }
    }
}

impl PlanInfo {
    fn to_value(&self) -> Value {
        let mut map = Map::new();
        map.insert("access", self.access.as_str());
        map.insert("notes", self.notes.iter().map(String::as_str).collect::<Value>());
        map.insert("rows", self.rows);
        map.insert("cost", self.cost);
        Value::Map(map)
    }
}

impl Actual {
    fn to_value(self) -> Value {
        let mut map = Map::new();
        for (name, count) in self.fields() {
            map.insert(name, count);
        }
        Value::Map(map)
    }

    const fn fields(&self) -> [(&'static str, u64); 6] {
        [
            ("rows", self.rows),
            ("matched", self.matched),
            ("documents", self.documents),
            ("entries", self.entries),
            ("spilled_bytes", self.spilled_bytes),
            ("spilled_runs", self.spilled_runs),
        ]
    }
}

impl fmt::Display for Explain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, plan) in self.plans.iter().enumerate() {
            let mark = if i == 0 { "plan" } else { "not chosen" };
            writeln!(f, "{mark}: {} (rows ~{}, cost {})", plan.access, plan.rows, plan.cost)?;
            for note in &plan.notes {
                writeln!(f, "    {note}")?;
            }
        }
        writeln!(f, "order: {}", self.order())?;
        if let Some(actual) = &self.actual {
            let fields = actual.fields().map(|(name, count)| format!("{name} {count}"));
            writeln!(f, "actual: {}", fields.join(", "))?;
        }
        Ok(())
    }
}
