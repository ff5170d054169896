//! The steps that query the collection. Every plan must find what the filter means.

use super::ask::{FilterSpec, Order, Pages, Rank};
use super::document::{Fields, fields_of};
use super::indexes::{Built, SPECS};
use super::life::{self, Check};
use super::model::{DOCUMENTS, Entries, Key};
use super::run::Run;
use super::step::{Which, place_of};
use super::summary::Summary;
use flagstone::query::Hint;
use flagstone::{Document, Error, Find, Result, Value};

const PAGES_MAX: usize = 4;

/// Returns the keys and fields of what a query has found.
fn found(entries: impl Iterator<Item = Result<(Value, Document)>>) -> Result<Vec<(Key, Fields)>> {
    entries
        .map(|entry| {
            let (key, document) = entry?;
            let key = key.as_i64().and_then(|key| Key::try_from(key).ok());
            Ok((key.unwrap_or(Key::MAX), life::fields_of(&document.to_value())))
        })
        .collect()
}

/// Returns whether a plan that a hint asks for does not fit the query.
fn is_unfit(error: &Error) -> bool {
    let text = error.to_string();
    text.starts_with("the hint names index") || text.starts_with("the hint asks for")
}

/// Returns the documents among `entries` that match.
pub(super) fn matching(entries: Entries, ask: &FilterSpec) -> Vec<(Key, Fields)> {
    let entries = entries.into_iter().map(|(key, bytes)| (key, fields_of(&bytes)));
    entries.filter(|(_, fields)| ask.holds(fields)).collect()
}

impl Run {
    /// Returns no hint, and one for each plan there is.
    fn hints(&self) -> Vec<Option<Hint>> {
        let ready = (0..SPECS.len()).filter(|at| self.oracle.indexes[*at] == Built::Ready);
        let indexes = ready.map(|at| Some(Hint::index(SPECS[at].name)));
        let others = [None, Some(Hint::Scan), Some(Hint::Union), Some(Hint::Intersection)];
        others.into_iter().chain(indexes).collect()
    }

    /// Runs a query by every plan.
    pub(super) fn find(
        &mut self,
        ask: &FilterSpec,
        order: Option<Order>,
        limit: u64,
        snapshot: Option<Which>,
    ) -> Check {
        self.by_every_plan(ask, snapshot, |find, expected| {
            let find = if limit % 2 == 1 { find.memory(1) } else { find };
            compare(&find, expected, order, limit)
        })
    }

    /// Sums up what a query finds by every plan.
    pub(super) fn summarize(
        &mut self,
        ask: &FilterSpec,
        summary: &Summary,
        snapshot: Option<Which>,
    ) -> Check {
        self.by_every_plan(ask, snapshot, |find, expected| {
            let documents: Vec<&Fields> = expected.iter().map(|(_, fields)| fields).collect();
            summary.compare(&find, &documents)
        })
    }

    /// Compares a query of now, or of a snapshot, by every plan with the documents that match.
    fn by_every_plan(
        &mut self,
        ask: &FilterSpec,
        snapshot: Option<Which>,
        compare: impl Fn(Find<'_>, &[(Key, Fields)]) -> Result<Check>,
    ) -> Check {
        if self.oracle.has_doubt() {
            return Ok(());
        }
        let ask = ask.dated(self.oracle.moment);
        let Some(collection) = self.collection()? else { return Ok(()) };
        let Some(life) = &self.life else { return Ok(()) };
        let taken = snapshot.and_then(|which| place_of(life.snapshots.len(), which));
        let taken = taken.map(|at| &life.snapshots[at]);
        let taken = taken.filter(|t| t.generations[DOCUMENTS] == life.generations[DOCUMENTS]);
        let entries = match taken {
            None => self.oracle.entries(DOCUMENTS),
            Some(taken) => taken.state.entries(DOCUMENTS, taken.moment),
        };
        let expected = matching(entries, &ask);
        let mut answers = Vec::new();
        for hint in self.hints() {
            let find = match taken {
                None => collection.find(ask.filter()),
                Some(taken) => taken.snapshot.find(&collection, ask.filter()),
            };
            let find = if let Some(hint) = &hint { find.hint(hint.clone()) } else { find };
            answers.push((hint, compare(find, &expected)));
        }
        for (hint, answer) in answers {
            match answer {
                Ok(Ok(())) => {}
                Ok(Err(what)) => return Err(format!("{} by {hint:?}: {what}", ask.filter())),
                Err(error) if hint.is_some() && is_unfit(&error) => {}
                Err(error) => self.excuse(&error)?,
            }
        }
        Ok(())
    }

    /// Reads the first page of a query.
    pub(super) fn page(&mut self, ask: &FilterSpec, order: Order, length: u64) -> Check {
        if self.oracle.has_doubt() {
            return Ok(());
        }
        self.read_page(ask.dated(self.oracle.moment), order, None, length)
    }

    /// Reads the next page of a query.
    pub(super) fn next_page(&mut self, which: Which, length: u64) -> Check {
        let Some(at) = place_of(self.pages.len(), which) else { return Ok(()) };
        if self.oracle.has_doubt() {
            return Ok(());
        }
        let pages = self.pages.remove(at);
        self.read_page(pages.ask.clone(), pages.order, Some(pages), length)
    }

    fn read_page(
        &mut self,
        ask: FilterSpec,
        order: Order,
        before: Option<Pages>,
        length: u64,
    ) -> Check {
        let Some(collection) = self.collection()? else { return Ok(()) };
        let find = collection.find(ask.filter()).sort(&order.text());
        let find = match &before {
            Some(before) => {
                let token = before.token.parse().map_err(|error| format!("a token: {error}"))?;
                find.after(&token)
            }
            None => find,
        };
        let page = match find.page(length) {
            Ok(page) => page,
            Err(error) => {
                let was_dropped = before.is_some_and(|b| b.dropped < self.dropped_indexes);
                let text = error.to_string();
                let is_refusal = text.starts_with("the token is");
                return if was_dropped && is_refusal { Ok(()) } else { self.excuse(&error) };
            }
        };
        let rows = found(page.documents.into_iter().map(Ok));
        let Some(rows) = self.excused(rows)? else { return Ok(()) };
        let expected = matching(self.oracle.entries(DOCUMENTS), &ask);
        let last = before.map(|before| before.last);
        judge_page(&rows, &expected, order, last, length, page.next.is_some())
            .map_err(|what| format!("a page of {} sorted by {order:?}: {what}", ask.filter()))?;
        if let (Some(token), Some(last)) = (page.next, rows.last()) {
            let last = order.rank(last);
            let (token, dropped) = (token.to_string(), self.dropped_indexes);
            self.pages.push(Pages { ask, order, token, last, dropped });
            let extra = self.pages.len().saturating_sub(PAGES_MAX);
            self.pages.drain(..extra);
        }
        Ok(())
    }
}

/// Compares the results of a query. The inner error says what is wrong.
pub(super) fn compare(
    find: &Find<'_>,
    expected: &[(Key, Fields)],
    order: Option<Order>,
    limit: u64,
) -> Result<Check> {
    let count = find.count()?;
    if count != expected.len() as u64 {
        return Ok(Err(format!("a count of {count}, expected {}", expected.len())));
    }
    let mut rows = found(find.run()?)?;
    rows.sort();
    if rows != expected {
        let keys = |rows: &[(Key, Fields)]| rows.iter().map(|row| row.0).collect::<Vec<_>>();
        return Ok(Err(format!("keys {:?}, expected {:?}", keys(&rows), keys(expected))));
    }
    let Some(order) = order else { return Ok(Ok(())) };
    let sorted = find.clone().sort(&order.text()).skip(limit / 4).limit(limit);
    let ranks =
        |rows: &[(Key, Fields)]| -> Vec<Rank> { rows.iter().map(|row| order.rank(row)).collect() };
    let rows = ranks(&found(sorted.run()?)?);
    let mut all = ranks(expected);
    all.sort_unstable();
    let part: Vec<Rank> = all.into_iter().skip(limit as usize / 4).take(limit as usize).collect();
    Ok(if rows == part {
        Ok(())
    } else {
        Err(format!("sorted by {order:?}: {rows:?}, expected {part:?}"))
    })
}

/// Judges one page after the position `last`. The order of documents with one rank is not known.
fn judge_page(
    rows: &[(Key, Fields)],
    expected: &[(Key, Fields)],
    order: Order,
    last: Option<Rank>,
    length: u64,
    has_more: bool,
) -> Check {
    let of = |row: &(Key, Fields)| order.rank(row);
    let (least, greatest) = ((i64::MIN, i64::MIN), (i64::MAX, i64::MAX));
    if let Some((key, _)) = rows.iter().find(|row| !expected.contains(row)) {
        return Err(format!("key {key} does not match, or is another document"));
    }
    if !rows.is_sorted_by_key(of) {
        return Err("it is not sorted".into());
    }
    let from = last.unwrap_or(least);
    if rows.iter().any(|row| of(row) < from) {
        return Err("it begins before the page before it has ended".into());
    }
    // Where it ends within equal ranks, some of these may be missing.
    let to = if has_more { rows.last().map_or(least, of) } else { greatest };
    let is_missing = |row: &&(Key, Fields)| {
        let rank = of(row);
        let is_inside = rank < to && (rank > from || last.is_none());
        is_inside && !rows.contains(row)
    };
    if let Some((key, _)) = expected.iter().find(is_missing) {
        return Err(format!("key {key} is missing"));
    }
    if has_more && rows.len() as u64 != length {
        Err(format!("{} documents of {length}, and there are more", rows.len()))
    } else {
        Ok(())
    }
}
