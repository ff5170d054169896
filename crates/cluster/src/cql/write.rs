//! Conditional batches. Each has one partition, and only UPDATE and DELETE: an INSERT would leave a
//! mark that outlives the columns.

use super::Inner;
use super::cell::{Cell, Cells};
use super::errors;
use crate::store::{
    Batch, Change, Freshness, Kind, Outcome, Partition, Record, RowKey, RowsRequest, StoredRow,
    Token,
};
use flagstone_base::{Error, ErrorKind, Moment, Result};
use flagstone_env::{Clock, SystemClock};
use scylla::response::query_result::QueryResult;
use scylla::statement::batch::{Batch as Statements, BatchType};
use scylla::statement::prepared::PreparedStatement;
use scylla::value::Row;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Cassandra removes a row so long after it has expired: then no clock of a client or node is so
/// far behind that it still shows it.
const KEPT: Duration = Duration::from_secs(24 * 3600);
/// The longest TTL of Cassandra: 20 years.
const TTL: u64 = 20 * 365 * 24 * 3600;
/// Where storage is compatible with Cassandra 4, no TTL may end behind 2038-01-19.
const LAST: Moment = Moment::from_millis(2_147_385_600_000);
/// How often the removal of rows is tried again when the epoch has changed meanwhile.
const TRIES: usize = 5;

/// Statements with their values.
#[derive(Default)]
struct Parts<'s> {
    statements: Vec<&'s PreparedStatement>,
    values: Vec<Cells>,
}

impl<'s> Parts<'s> {
    /// A batch that is refused unless the epoch of the partition is this.
    fn expecting(inner: &'s Inner, partition: Partition, epoch: Option<i32>) -> Self {
        let mut parts = Self::default();
        let Partition { generation, bucket } = partition;
        let expected = Cell::int(epoch);
        let cells = vec![Cell::Unset, Cell::Int(generation), Cell::Int(bucket), expected];
        parts.push(&inner.statements.expect, cells);
        parts
    }

    fn push(&mut self, statement: &'s PreparedStatement, cells: Cells) {
        self.statements.push(statement);
        self.values.push(cells);
    }

    /// Sends the batch.
    async fn send(self, inner: &Inner, place: impl Fn() -> String) -> Result<Outcome> {
        let mut batch = Statements::new(BatchType::Unlogged);
        batch.set_execution_profile_handle(Some(inner.statements.write.clone()));
        self.statements.into_iter().for_each(|one| batch.append_statement(one.clone()));
        let answer = inner.session.batch(&batch, self.values).await;
        outcome(answer.map_err(|error| errors::of_write(&place(), &error))?, place)
    }
}

/// Makes the changes of a batch if its conditions hold.
pub(super) async fn batch(inner: Arc<Inner>, batch: Batch) -> Result<Outcome> {
    let mut parts = Parts::expecting(&inner, batch.partition, Some(batch.epoch));
    let mut conditions: HashMap<(Kind, &[u8]), Option<Token>> = HashMap::new();
    for condition in &batch.conditions {
        conditions.insert((condition.row.kind, &condition.row.key), condition.token);
    }
    let now = Moment::since_1970(SystemClock::default().wall());
    let all = &inner.statements;
    for change in &batch.changes {
        let (kind, key) = match change {
            Change::Set { kind, row } => (*kind, &row.key),
            Change::Delete(row) => (row.kind, &row.key),
        };
        let condition = conditions.remove(&(kind, &key[..]));
        let mut cells = match change {
            Change::Set { kind, row } => set(*kind, row, now),
            Change::Delete(_) => Cells::new(),
        };
        cells.extend(address(batch.partition, &RowKey { kind, key: key.clone() }));
        let is_conditional = condition.is_some();
        cells.extend(condition.map(Cell::token));
        let statement = match (change, is_conditional) {
            (Change::Set { .. }, false) => &all.set,
            (Change::Set { .. }, true) => &all.set_if,
            (Change::Delete(_), false) => &all.delete,
            (Change::Delete(_), true) => &all.delete_if,
        };
        parts.push(statement, cells);
    }
    // A row that does not change has its condition in a statement that changes nothing.
    for condition in &batch.conditions {
        if conditions.contains_key(&(condition.row.kind, &condition.row.key[..])) {
            let mut cells = vec![Cell::Unset];
            cells.extend(address(batch.partition, &condition.row));
            cells.push(Cell::token(condition.token));
            parts.push(&all.hold_if, cells);
        }
    }
    parts.send(&inner, || inner.place(batch.partition)).await
}

/// Returns the values of the columns of a row.
fn set(kind: Kind, row: &StoredRow, now: Moment) -> Cells {
    let token = match row.token {
        // Entries never have one, and a null would be a tombstone in each.
        None if kind > Kind::DOCUMENTS => Cell::Unset,
        token => Cell::token(token),
    };
    let (value, expiry) = (Cell::Blob(row.value.clone()), Cell::expiry(row.expiry));
    vec![Cell::Int(ttl(row.expiry, now)), value, token, expiry]
}

/// Returns the seconds after which Cassandra removes a row, or 0 if it never does.
fn ttl(expiry: Option<Moment>, now: Moment) -> i32 {
    let Some(expiry) = expiry else { return 0 };
    let end = expiry.after(KEPT);
    let seconds = end.millis().saturating_sub(now.millis()) / 1000;
    // What Cassandra cannot remove so late stays: readers leave it out.
    if end > LAST || seconds > TTL { 0 } else { i32::try_from(seconds.max(1)).unwrap_or_default() }
}

fn address(partition: Partition, row: &RowKey) -> [Cell; 4] {
    let Partition { generation, bucket } = partition;
    let key = Cell::Blob(row.key.clone());
    [Cell::Int(generation), Cell::Int(bucket), Cell::Int(row.kind.0), key]
}

/// Sets the epoch of a partition if it is `expected`.
pub(super) async fn set_epoch(
    inner: Arc<Inner>,
    partition: Partition,
    expected: Option<i32>,
    new: i32,
) -> Result<Outcome> {
    let Partition { generation, bucket } = partition;
    let cells = [Cell::Int(new), Cell::Int(generation), Cell::Int(bucket), Cell::int(expected)];
    execute(&inner, &inner.statements.set_epoch, cells.into(), || inner.place(partition)).await
}

/// Removes all rows of a partition, or those of a kind. Also this is a conditional batch, whose
/// condition is what the epoch is: so it has its place in the order of the batches, whatever the
/// clock of this process says.
pub(super) async fn remove(
    inner: Arc<Inner>,
    partition: Partition,
    kind: Option<Kind>,
) -> Result<()> {
    let Partition { generation, bucket } = partition;
    let request = RowsRequest { partition, keys: Vec::new(), freshness: Freshness::Serial };
    for _ in 0..TRIES {
        let epoch = super::read::rows(Arc::clone(&inner), request.clone()).await?.epoch;
        let mut parts = Parts::expecting(&inner, partition, epoch);
        let mut cells = vec![Cell::Int(generation), Cell::Int(bucket)];
        cells.extend(kind.map(|kind| Cell::Int(kind.0)));
        let all = &inner.statements;
        parts.push(if kind.is_some() { &all.remove_kind } else { &all.remove_rows }, cells);
        if parts.send(&inner, || inner.place(partition)).await? == Outcome::Applied {
            return Ok(());
        }
    }
    let text = format!("{}: its epoch changes all the time", inner.place(partition));
    Err(Error::new(ErrorKind::Unavailable, text))
}

/// Sets a note of the catalog if its version is `expected`.
pub(super) async fn set_note(
    inner: Arc<Inner>,
    name: String,
    expected: Option<i64>,
    new: Record,
) -> Result<Outcome> {
    let place = || format!("table {}.catalog, name {name:?}", inner.keyspace);
    let (note, version) = (Cell::Blob(new.note), Cell::Long(new.version));
    let cells = vec![note, version, Cell::Text(name.clone()), Cell::long(expected)];
    execute(&inner, &inner.statements.set_note, cells, place).await
}

async fn execute(
    inner: &Inner,
    statement: &PreparedStatement,
    cells: Cells,
    place: impl Fn() -> String,
) -> Result<Outcome> {
    let answer = inner.session.execute_unpaged(statement, cells).await;
    outcome(answer.map_err(|error| errors::of_write(&place(), &error))?, place)
}

/// Reads the answer to a conditional statement: the first column of the first row.
fn outcome(answer: QueryResult, place: impl Fn() -> String) -> Result<Outcome> {
    // What cannot be read was done nevertheless, or not.
    let unknown = |error: String| {
        let text = format!("{}: an answer of another form: {error}", place());
        Error::new(ErrorKind::Unknown, text)
    };
    let rows = answer.into_rows_result().map_err(|error| unknown(error.to_string()))?;
    let row = rows.first_row::<Row>().map_err(|error| unknown(error.to_string()))?;
    let applied = row.columns.first().and_then(Option::as_ref).and_then(|cell| cell.as_boolean());
    match applied {
        Some(true) => Ok(Outcome::Applied),
        Some(false) => Ok(Outcome::Refused),
        None => Err(unknown("expected [applied]".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_kept_a_day_longer_than_it_lives_and_as_long_as_cassandra_can_count() {
        let now = Moment::from_millis(1_800_000_000_000);
        let day = 24 * 3600;
        let after = |seconds| Some(now.after(Duration::from_secs(seconds)));
        assert_eq!(ttl(None, now), 0);
        assert_eq!(ttl(after(10), now), day + 10);
        assert_eq!(ttl(Some(Moment::ZERO), now), 1);
        assert_eq!(ttl(Some(Moment::MAX), now), 0);
        assert_eq!(ttl(after(347_299_200), now), 347_385_600, "just before 2038-01-19");
        assert_eq!(ttl(after(347_299_201), now), 0);
        assert_eq!(ttl(Some(Moment::from_millis(1)), Moment::ZERO), day);
    }
}
