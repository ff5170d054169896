//! Claims on the values of unique indexes.
//!
//! ```text
//! claims  partition: the bucket of the value | kind: number of the index, key: the value
//!         value: the key of the document that has it, or is to get it | token
//!
//! write:  read the document -> claim its new values -> one batch, if the document is as it was
//!         read -> let go of the claims of its old values
//! ```
//! A claim of another document is looked into. If that document has the value, the write is
//! refused. If not, its writer may be about to write it, or has ended: after a little while the
//! token of that document is changed, so that no batch of that writer is applied any more, and the
//! claim is taken, if nobody has touched it since. If others change the document meanwhile, they
//! have done the same: whoever rests on the claim has read the document before.
//!
//! So a document that has a value also has the claim of it. Each attempt of a write touches its
//! claims after it has read the document: a claim that was taken in between is noticed, or the
//! document has another token. No token comes again: a document that is removed leaves a row with
//! one, which has expired, for longer than any message is under way.

use super::send::new_token;
use crate::backoff::Backoff;
use crate::catalog::Generation;
use crate::form::{NOTHING, is_nothing, unpacked};
use crate::ground::{Ground, View, no_answer, place, settle};
use crate::side_by_side::side_by_side;
use crate::store::{
    Batch, Change, Condition, Freshness, Kind, Outcome, Partition, RowKey, Rows, RowsRequest,
    StoredRow, Token,
};
use flagstone::internal::duplicate as duplicate_of;
use flagstone::remote::{Catalog, EntryChange, RemoteIndex, Row};
use flagstone_base::{Error, ErrorKind, Moment, Result, Slice};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The epoch of the partitions of claims, until they are given up.
const EPOCH: i32 = 1;
/// How often claims are tried to be got. The bucket waits meanwhile, about half a second.
const TRIES: u32 = 40;
/// How often a document whose claim is in the way is looked at before its writer is stopped.
const LOOKS: u32 = 8;
/// How long ago a row without a document expired: no reader's clock is that far behind.
const EXPIRED: Duration = Duration::from_secs(3600);

/// How long an expired document keeps its values: other clocks may be behind.
const CLOCKS: Duration = Duration::from_secs(10);

/// A value that a document is to get.
pub(crate) struct Wanted {
    pub(crate) index: Arc<RemoteIndex>,
    /// The key of the entry.
    pub(crate) value: Slice,
    /// The key of the document ..
    pub(crate) key: Slice,
    /// .. and its token, as it was read.
    pub(crate) token: Option<Token>,
}

/// What became of claims.
pub(crate) enum Claimed {
    All,
    /// This one of those that were wanted cannot be claimed. Those before it are.
    Refused(usize, Error),
    /// The document of this one has changed since it was read. Those before it are claimed.
    Changed(usize),
    /// The collection has changed: nothing must be written that was decided before.
    Stale,
}

/// What a document whose claim is in the way says.
enum ClaimVerdict {
    /// It has the value.
    Has,
    /// Nobody can write it any more without its claim.
    Free,
    /// It must be looked at again.
    Unclear,
    Stale,
}

/// What was seen of a claim that is in the way: another token of it is another claim.
#[derive(Default)]
struct Looks {
    claim: Option<Token>,
    count: u32,
    /// That of the document at the first look.
    first: Option<Token>,
}

/// A claim, by its index and value: whose it is, and its token.
pub(crate) type Held = HashMap<(u32, Slice), (Slice, Option<Token>)>;

/// The claims of a collection.
pub(crate) struct Claims<'g> {
    ground: &'g Ground,
    view: Arc<View>,
    rows: Generation,
}

/// Returns a row that is in the place of a document that is not there.
pub(crate) fn no_document(ground: &Ground, key: Slice, token: Token) -> StoredRow {
    let millis = ground.now().millis().saturating_sub(EXPIRED.as_millis() as u64);
    let (value, expiry) = (Slice::copy_of(&[NOTHING]), Some(Moment::from_millis(millis)));
    StoredRow { key, value, token: Some(token), expiry }
}

/// Returns whether a document has expired by the clocks of all.
pub(crate) fn has_expired(ground: &Ground, expiry: Option<Moment>) -> bool {
    expiry.is_some_and(|at| at.after(CLOCKS) <= ground.now())
}

/// Returns the unique index of this number.
pub(crate) fn unique(view: &View, index: u32) -> Option<&Arc<RemoteIndex>> {
    view.catalog.indexes().iter().find(|one| one.id == index && one.is_unique())
}

impl<'g> Claims<'g> {
    /// Returns those of a collection that has a unique index.
    pub(crate) fn of(ground: &'g Ground, view: &Arc<View>) -> Result<Self> {
        Ok(Self { ground, view: Arc::clone(view), rows: ground.claims(view)? })
    }

    fn partition(&self, value: &[u8]) -> Partition {
        self.rows.partition(self.rows.buckets.bucket_of(value))
    }

    /// Claims values, all of different names, for documents that were read before.
    ///
    /// # Errors
    /// Those of the store. Some may be claimed nevertheless: they are in nobody's way for long.
    pub(crate) fn claim(&self, wanted: &[Wanted]) -> Result<Claimed> {
        let mut left: Vec<usize> = (0..wanted.len()).collect();
        let mut looks: HashMap<usize, Looks> = HashMap::new();
        // The first that is not claimed, and why.
        let (mut backoff, mut refused) = (Backoff::of(TRIES), None);
        while !left.is_empty() {
            let names = left.iter().map(|at| (wanted[*at].index.id, &wanted[*at].value));
            let Some(rows) = self.read(names)? else { return Ok(Claimed::Stale) };
            let mut batches: BTreeMap<i32, (Vec<usize>, Batch)> = BTreeMap::new();
            for (&at, row) in left.iter().zip(&rows) {
                let one = &wanted[at];
                if let Some(row) = row.as_ref().filter(|row| row.value != one.key) {
                    let looks = looks.entry(at).or_default();
                    if looks.claim != row.token {
                        *looks = Looks { claim: row.token, ..Looks::default() };
                    }
                    let error = match self.look_into(one, &row.value, looks) {
                        // The other may have got what this one has given up since.
                        Ok(ClaimVerdict::Has) if self.is_changed(&[(&one.key, one.token)])? => {
                            refused = Some((at, None));
                            break;
                        }
                        Ok(ClaimVerdict::Has) => {
                            Some(duplicate_of(&one.index, &one.value, &row.value, &one.key))
                        }
                        Ok(ClaimVerdict::Free) => None,
                        Ok(ClaimVerdict::Unclear) => continue,
                        Ok(ClaimVerdict::Stale) => return Ok(Claimed::Stale),
                        // Of the other document, not of the store.
                        Err(error) if error.kind() == ErrorKind::Corruption => Some(error),
                        Err(error) => return Err(error),
                    };
                    if error.is_some() {
                        // Those before it are claimed nevertheless: they may be written.
                        refused = Some((at, error));
                        break;
                    }
                }
                let partition = self.partition(&one.value);
                let (places, batch) = batches.entry(partition.bucket).or_insert_with(|| {
                    let (conditions, changes) = (Vec::new(), Vec::new());
                    (Vec::new(), Batch { partition, epoch: EPOCH, conditions, changes })
                });
                places.push(at);
                add(batch, one, row.as_ref().and_then(|row| row.token));
            }
            let claimed = Mutex::new(HashSet::new());
            side_by_side(batches.into_values().collect(), |(places, batch)| {
                match self.ground.store.batch(&batch) {
                    Ok(Outcome::Applied) => {
                        claimed.lock().unwrap_or_else(PoisonError::into_inner).extend(places);
                        Ok(())
                    }
                    Ok(Outcome::Refused) => Ok(()),
                    // The next reading tells. One that comes late finds another token.
                    Err(error) if error.kind() == ErrorKind::Unknown => Ok(()),
                    Err(error) => Err(error),
                }
            })?;
            let claimed = claimed.into_inner().unwrap_or_else(PoisonError::into_inner);
            let end = refused.as_ref().map_or(wanted.len(), |(at, _)| *at);
            left.retain(|at| *at < end && !claimed.contains(at));
            if let Some(&first) = left.first()
                && !backoff.again()
            {
                let text = format!(
                    "a value of unique index {:?} of collection {:?} (table rows, c = {}) was \
                     claimed by others {TRIES} times: nothing was written; try again",
                    wanted[first].index.name(),
                    self.ground.name,
                    self.rows.number
                );
                refused = Some((first, Some(Error::new(ErrorKind::Unavailable, text))));
                break;
            }
        }
        Ok(match refused {
            None => Claimed::All,
            Some((at, Some(error))) => Claimed::Refused(at, error),
            Some((at, None)) => Claimed::Changed(at),
        })
    }

    /// Returns whether one of these documents, all of one bucket, has not the token any more that
    /// was read.
    pub(crate) fn is_changed(&self, documents: &[(&Slice, Option<Token>)]) -> Result<bool> {
        let Some((first, _)) = documents.first() else { return Ok(false) };
        let partition = self.view.partition(self.view.bucket_of(first));
        let key = |key: &Slice| RowKey { kind: Kind::DOCUMENTS, key: key.clone() };
        let keys = documents.iter().map(|(one, _)| key(one)).collect();
        let request = RowsRequest { partition, keys, freshness: Freshness::Serial };
        let read = self.ground.store.rows(&[request]).pop().ok_or_else(no_answer)??;
        let tokens = read.rows.iter().map(|row| row.as_ref().and_then(|row| row.token));
        let known = documents.iter().map(|(_, token)| *token);
        Ok(read.epoch != Some(self.view.note.epoch) || !tokens.eq(known))
    }

    /// Reads claims. Returns `None` if they are given up.
    fn read<'v>(
        &self,
        names: impl Iterator<Item = (u32, &'v Slice)>,
    ) -> Result<Option<Vec<Option<StoredRow>>>> {
        let mut requests: BTreeMap<i32, (Vec<usize>, RowsRequest)> = BTreeMap::new();
        let mut count = 0;
        for (index, value) in names {
            let (partition, freshness) = (self.partition(value), Freshness::Serial);
            let (places, request) = requests.entry(partition.bucket).or_insert_with(|| {
                (Vec::new(), RowsRequest { partition, keys: Vec::new(), freshness })
            });
            places.push(count);
            request.keys.push(RowKey { kind: Kind(index as i32), key: value.clone() });
            count += 1;
        }
        let (places, requests): (Vec<_>, Vec<_>) = requests.into_values().unzip();
        let mut found = vec![None; count];
        let answers = self.ground.rows_of(&requests)?;
        for ((places, request), answer) in places.into_iter().zip(&requests).zip(answers) {
            let Rows { epoch, rows } = answer;
            match epoch {
                Some(EPOCH) => {}
                Some(_) => {
                    drop(self.ground.reload(Freshness::Serial)?);
                    return Ok(None);
                }
                None => match self.ground.store.set_epoch(request.partition, None, EPOCH) {
                    Err(error) if error.kind() != ErrorKind::Unknown => return Err(error),
                    // Batches are refused until it is set.
                    _ => {}
                },
            }
            for (at, row) in places.into_iter().zip(rows) {
                found[at] = row;
            }
        }
        Ok(Some(found))
    }

    /// Looks at the document `holder`, which has the claim of a value that is wanted.
    fn look_into(
        &self,
        wanted: &Wanted,
        holder: &Slice,
        looks: &mut Looks,
    ) -> Result<ClaimVerdict> {
        let bucket = self.view.bucket_of(holder);
        let (partition, buckets) = (self.view.partition(bucket), &self.view.note.rows.buckets);
        let row_key = RowKey { kind: Kind::DOCUMENTS, key: holder.clone() };
        let (keys, freshness) = (vec![row_key.clone()], Freshness::Serial);
        let mut read = self.ground.store.rows(&[RowsRequest { partition, keys, freshness }]);
        let Rows { epoch, mut rows } = read.pop().ok_or_else(no_answer)??;
        if epoch != Some(self.view.note.epoch) {
            let newest = settle(self.ground, bucket, buckets)?;
            return Ok(if Arc::ptr_eq(&newest, &self.view) {
                ClaimVerdict::Unclear
            } else {
                ClaimVerdict::Stale
            });
        }
        let stored = rows.pop().flatten();
        let document = self.document(partition, stored.as_ref())?;
        let is_there = document.as_ref().is_some_and(|row| !has_expired(self.ground, row.expiry));
        let alone = Catalog::new(self.view.catalog.version, vec![Arc::clone(&wanted.index)]);
        let entries = alone.changes(holder, None, document.as_ref())?.entries;
        let has = entries.iter().any(|entry| entry.key[..] == wanted.value[..]);
        if has && is_there {
            return Ok(ClaimVerdict::Has);
        }
        let current = stored.as_ref().and_then(|row| row.token);
        looks.count += 1;
        if looks.count == 1 {
            looks.first = current;
        } else if !has && current.is_some() && current != looks.first {
            return Ok(ClaimVerdict::Free);
        }
        if looks.count <= LOOKS {
            return Ok(ClaimVerdict::Unclear);
        }
        let token = new_token();
        let epoch = self.view.note.epoch;
        let changes = self.view.noted(&row_key, token).into_iter().collect();
        let conditions = vec![Condition { row: row_key, token: current }];
        let mut batch = Batch { partition, epoch, conditions, changes };
        let row = match stored {
            Some(row) if is_there => StoredRow { token: Some(token), ..row },
            _ => {
                // One that has expired is removed.
                let entries = self.view.catalog.changes(holder, document.as_ref(), None)?.entries;
                let Some(entries) = self.own(holder, entries)? else {
                    return Ok(ClaimVerdict::Stale);
                };
                batch.changes.extend(entries.into_iter().map(
                    |EntryChange { index, key, .. }| {
                        Change::Delete(RowKey { kind: Kind(index as i32), key: key.into() })
                    },
                ));
                no_document(self.ground, holder.clone(), token)
            }
        };
        batch.changes.push(Change::Set { kind: Kind::DOCUMENTS, row });
        match self.ground.store.batch(&batch) {
            Ok(Outcome::Applied) => Ok(ClaimVerdict::Free),
            Ok(Outcome::Refused) => Ok(ClaimVerdict::Unclear),
            Err(error) if error.kind() == ErrorKind::Unknown => Ok(ClaimVerdict::Unclear),
            Err(error) => Err(error),
        }
    }

    fn document(&self, partition: Partition, stored: Option<&StoredRow>) -> Result<Option<Row>> {
        let Some(row) = stored.filter(|row| !is_nothing(&row.value)) else { return Ok(None) };
        let document = unpacked(&row.value).map_err(|error| {
            let (place, key) = (place(&self.ground.name, partition), &row.key);
            let key = flagstone::remote::shown_key(key);
            error.context(format!("{place}, document of key {key}"))
        })?;
        Ok(Some(Row { document, expiry: row.expiry }))
    }

    /// Leaves out the removals of unique entries that another document has. Returns `None` if the
    /// claims are given up.
    fn own(&self, key: &Slice, entries: Vec<EntryChange>) -> Result<Option<Vec<EntryChange>>> {
        let is_lost = |entry: &&EntryChange| {
            entry.value.is_none() && unique(&self.view, entry.index).is_some()
        };
        let lost = entries.iter().filter(is_lost);
        let lost: Vec<_> = lost.map(|it| (it.index, Slice::copy_of(&it.key))).collect();
        let Some(held) = self.held(&lost)? else { return Ok(None) };
        let is_own = |entry: &EntryChange| {
            let of = held.get(&(entry.index, Slice::copy_of(&entry.key)));
            !is_lost(&entry) || of.is_some_and(|(holder, _)| holder == key)
        };
        Ok(Some(entries.into_iter().filter(is_own).collect()))
    }

    /// Returns whose some values are. Returns `None` if the claims are given up.
    pub(crate) fn held(&self, values: &[(u32, Slice)]) -> Result<Option<Held>> {
        if values.is_empty() {
            return Ok(Some(Held::new()));
        }
        let Some(rows) = self.read(values.iter().map(|(index, value)| (*index, value)))? else {
            return Ok(None);
        };
        let found = values.iter().cloned().zip(rows);
        Ok(Some(
            found.filter_map(|(of, row)| row.map(|row| (of, (row.value, row.token)))).collect(),
        ))
    }

    /// Lets go of claims that were held before documents gave up their values. One that stays is
    /// found by who wants the value.
    pub(crate) fn let_go(&self, held: &Held) {
        let mut batches: BTreeMap<i32, Batch> = BTreeMap::new();
        for ((index, value), (_, token)) in held {
            let partition = self.partition(value);
            let (conditions, changes) = (Vec::new(), Vec::new());
            let batch = Batch { partition, epoch: EPOCH, conditions, changes };
            let batch = batches.entry(partition.bucket).or_insert(batch);
            let row = RowKey { kind: Kind(*index as i32), key: value.clone() };
            batch.conditions.push(Condition { row: row.clone(), token: *token });
            batch.changes.push(Change::Delete(row));
        }
        let _stay = side_by_side(batches.into_values().collect(), |batch: Batch| {
            let _stays = self.ground.store.batch(&batch);
            Ok(())
        });
    }
}

/// Adds a claim to a batch, if it has this token.
fn add(batch: &mut Batch, wanted: &Wanted, token: Option<Token>) {
    let (kind, key) = (Kind(wanted.index.id as i32), wanted.value.clone());
    let row = RowKey { kind, key: key.clone() };
    batch.conditions.push(Condition { row, token });
    let (value, token) = (wanted.key.clone(), Some(new_token()));
    let row = StoredRow { key, value, token, expiry: None };
    batch.changes.push(Change::Set { kind, row });
}
