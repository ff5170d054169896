//! The indexes of the collection of the simulator: what they hold, and what they refuse.

use super::document::{DATE, Fields, LISTS, fields_of, path_of, unpacked};
use super::model::{DOCUMENTS, Entry, Key, State};
use flagstone::{Filter, Index, Moment};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// The number of indexes that there may be.
pub(super) const INDEXES: usize = 10;
/// The index of the first field alone.
pub(super) const BY_FIRST_FIELD: usize = 0;
/// The index by whose date documents expire.
pub(super) const BY_DATE: usize = INDEXES - 1;
/// How long after their date.
const EXPIRE_AFTER: Duration = Duration::from_secs(30);

/// The part of a document that a field of an index reads.
#[derive(Clone, Copy)]
enum FieldPart {
    Field(u16),
    List(u16),
}

/// The definition of an index.
pub(super) struct Spec {
    pub(super) name: &'static str,
    /// The parts, and whether each is descending.
    parts: &'static [(FieldPart, bool)],
    pub(super) is_unique: bool,
    is_sparse: bool,
    /// Holds only documents whose field 0 is at least this.
    least: Option<i64>,
}

use FieldPart::{Field, List};

const fn plain(name: &'static str, parts: &'static [(FieldPart, bool)]) -> Spec {
    Spec { name, parts, is_unique: false, is_sparse: false, least: None }
}

pub(super) const SPECS: [Spec; INDEXES] = [
    plain("f0", &[(Field(0), false)]),
    plain("f1_desc_f0", &[(Field(1), true), (Field(0), false)]),
    plain("l0", &[(List(0), false)]),
    Spec { is_unique: true, is_sparse: true, ..plain("unique", &[(Field(1), false)]) },
    Spec { is_sparse: true, ..plain("sparse", &[(Field(2), true)]) },
    Spec { least: Some(3), ..plain("partial", &[(Field(1), false), (List(1), true)]) },
    plain("two_lists", &[(List(1), false), (List(2), false)]),
    Spec {
        is_unique: true,
        least: Some(0),
        ..plain("pair", &[(Field(0), true), (Field(2), false)])
    },
    plain("dates", &[(Field(DATE), true), (Field(0), false)]),
    plain("by_date", &[(Field(DATE), false)]),
];

/// Returns when a document expires by the date in it.
pub(super) fn expiry_by_date(fields: &Fields) -> Option<Moment> {
    let millis = *fields.get(&DATE)?;
    Some(Moment::from_millis(u64::try_from(millis).unwrap_or(0).max(1)).after(EXPIRE_AFTER))
}

/// Returns the documents, with the moments at which they expire, that the index by date writes
/// again when it is built. What has expired stays so, whatever the clock shows later.
pub(super) fn rewritten(state: &State, now: Moment) -> Vec<(Key, Vec<u8>, Option<Moment>)> {
    let end = |expiry: Option<Moment>| expiry.unwrap_or(Moment::MAX);
    let rewritten = |(key, entry): (Key, &Entry)| {
        let expiry = expiry_by_date(&fields_of(&entry.bytes));
        let is_later = end(expiry) > end(entry.expiry);
        let stays = expiry == entry.expiry || (!entry.is_alive(now) && is_later);
        (!stays).then(|| (key, entry.bytes.to_vec(), expiry))
    };
    state.stored(DOCUMENTS).filter_map(rewritten).collect()
}

/// Returns the documents that last since the index by date was dropped: what has expired does not.
pub(super) fn lasting(state: &State, now: Moment) -> Vec<(Key, Vec<u8>)> {
    let lasting = |(key, entry): (Key, &Entry)| {
        let is_dated =
            entry.expiry.is_some() && entry.expiry == expiry_by_date(&fields_of(&entry.bytes));
        (is_dated && entry.is_alive(now)).then(|| (key, entry.bytes.to_vec()))
    };
    state.stored(DOCUMENTS).filter_map(lasting).collect()
}

/// One component of an entry: `None` where the document has no value.
type Component = Option<i64>;
/// The component of an empty list.
const EMPTY: i64 = i64::MIN;

/// How far an index is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Built {
    #[default]
    No,
    /// It is there, and its build was interrupted.
    Partly,
    Ready,
}

/// What the indexes make of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WriteFate {
    Accepted,
    /// It depends on what an unfinished build has seen.
    Either,
    Refused,
}

/// A build of an index, as far as it is known before.
pub(super) enum BuildOutcome {
    /// It succeeds, and removes these documents, which have expired.
    Complete(Vec<Key>),
    Refused,
}

impl Spec {
    pub(super) fn index(&self) -> Index {
        let text = |(part, is_descending): &(FieldPart, bool)| {
            let sign = if *is_descending { "-" } else { "" };
            match part {
                Field(n) => format!("{sign}{}", path_of(*n)),
                List(n) => format!("{sign}{}", path_of(LISTS + n)),
            }
        };
        let mut index = Index::on(text(&self.parts[0]));
        for part in &self.parts[1..] {
            index = index.then(text(part));
        }
        if self.is_unique {
            index = index.unique();
        }
        if self.is_sparse {
            index = index.sparse();
        }
        if self.name == SPECS[BY_DATE].name {
            index = index.expire_after(EXPIRE_AFTER);
        }
        match self.least {
            Some(least) => index.only(Filter::field("f0").gte(least)),
            None => index,
        }
    }

    /// Returns whether a write of an unfinished index may change other documents, or their expiry.
    pub(super) fn changes_documents(&self) -> bool {
        self.is_unique || self.name == SPECS[BY_DATE].name
    }

    /// Returns whether the index may refuse documents. Its build may remove those of them that have
    /// expired.
    pub(super) fn may_remove(&self) -> bool {
        let lists = self.parts.iter().filter(|(part, _)| matches!(part, List(_)));
        self.is_unique || lists.count() > 1
    }

    /// Returns the entries of a document; `None` if the index cannot hold it.
    fn entries(&self, fields: &Fields) -> Option<BTreeSet<Vec<Component>>> {
        if let Some(least) = self.least
            && fields.get(&0).is_none_or(|value| *value < least)
        {
            return Some(BTreeSet::new());
        }
        let (mut entries, mut lists) = (BTreeSet::from([Vec::new()]), 0);
        for (part, _) in self.parts {
            let components: BTreeSet<Component> = match part {
                Field(n) => [fields.get(n).copied()].into(),
                List(n) => match fields.get(&(LISTS + n)) {
                    None => [None].into(),
                    Some(list) => {
                        lists += 1;
                        let numbers = unpacked(*list);
                        if numbers.is_empty() {
                            [Some(EMPTY)].into()
                        } else {
                            numbers.into_iter().map(|n| Some(n.into())).collect()
                        }
                    }
                },
            };
            entries = entries
                .iter()
                .flat_map(|entry| {
                    components.iter().map(move |component| [&entry[..], &[*component]].concat())
                })
                .collect();
        }
        if self.is_sparse {
            entries.retain(|entry| entry.iter().any(Option::is_some));
        }
        (lists <= 1 || entries.is_empty()).then_some(entries)
    }

    fn entries_at(&self, state: &State, key: Key) -> BTreeSet<Vec<Component>> {
        let stored = state.stored(DOCUMENTS).find(|(known, _)| *known == key);
        stored.and_then(|(_, entry)| self.entries(&fields_of(&entry.bytes))).unwrap_or_default()
    }

    /// Returns what a build of the index does with these documents.
    pub(super) fn build(&self, state: &State, now: Moment) -> BuildOutcome {
        let mut removed = BTreeSet::new();
        let mut holders: BTreeMap<Vec<Component>, Vec<(Moment, Key)>> = BTreeMap::new();
        for (key, entry) in state.stored(DOCUMENTS) {
            match self.entries(&fields_of(&entry.bytes)) {
                None if entry.is_alive(now) => return BuildOutcome::Refused,
                None => drop(removed.insert(key)),
                Some(entries) => {
                    let end = entry.expiry.unwrap_or(Moment::MAX);
                    entries
                        .into_iter()
                        .for_each(|e| holders.entry(e).or_default().push((end, key)));
                }
            }
        }
        if self.is_unique {
            for mut of_one in holders.into_values() {
                of_one.sort_unstable();
                of_one.pop();
                if of_one.iter().any(|(end, _)| *end > now) {
                    return BuildOutcome::Refused;
                }
                removed.extend(of_one.into_iter().map(|(_, key)| key));
            }
        }
        BuildOutcome::Complete(removed.into_iter().collect())
    }
}

/// Returns what the index number `at` makes of a write of `changed`, after which there is `state`.
fn fate_of(
    at: usize,
    built: Built,
    state: &State,
    changed: &BTreeSet<Key>,
    now: Moment,
) -> WriteFate {
    let spec = &SPECS[at];
    let is_changed = |(key, _): &(Key, _)| changed.contains(key);
    let refused = if built == Built::Ready { WriteFate::Refused } else { WriteFate::Either };
    let mut fate = WriteFate::Accepted;
    for (key, entry) in state.stored(DOCUMENTS).filter(is_changed) {
        let Some(entries) = spec.entries(&fields_of(&entry.bytes)) else { return refused };
        if !spec.is_unique || entries.is_empty() {
            continue;
        }
        for (other, held) in state.stored(DOCUMENTS).filter(|(other, _)| *other != key) {
            let has_expired = !held.is_alive(now);
            if has_expired && !changed.contains(&other) {
                continue;
            }
            let others = spec.entries(&fields_of(&held.bytes)).unwrap_or_default();
            if others.is_disjoint(&entries) {
                continue;
            }
            // Both may be written with a moment in the past.
            if !has_expired && built == Built::Ready {
                return WriteFate::Refused;
            }
            fate = WriteFate::Either;
        }
    }
    fate
}

/// Returns what the indexes make of a write of the documents `changed`, after which there is
/// `state`.
pub(super) fn fate(
    indexes: &[Built; INDEXES],
    state: &State,
    changed: &BTreeSet<Key>,
    now: Moment,
) -> WriteFate {
    let there = indexes.iter().copied().enumerate().filter(|(_, built)| *built != Built::No);
    let fates = there.map(|(at, built)| fate_of(at, built, state, changed, now));
    fates.fold(WriteFate::Accepted, |all, one| match (all, one) {
        (WriteFate::Refused, _) | (_, WriteFate::Refused) => WriteFate::Refused,
        (WriteFate::Either, _) | (_, WriteFate::Either) => WriteFate::Either,
        _ => WriteFate::Accepted,
    })
}

/// Returns the documents that have expired and whose unique values a write of `changed`, which
/// leads from `before` to `after`, gives to others: the write removes them.
pub(super) fn giving_way(
    indexes: &[Built; INDEXES],
    before: &State,
    after: &State,
    changed: &BTreeSet<Key>,
    now: Moment,
) -> BTreeSet<Key> {
    let mut gone = BTreeSet::new();
    for (at, spec) in SPECS.iter().enumerate() {
        if !spec.is_unique || indexes[at] != Built::Ready {
            continue;
        }
        let given: BTreeSet<_> =
            changed.iter().flat_map(|key| spec.entries_at(after, *key)).collect();
        let expired = before.stored(DOCUMENTS).filter(|(_, entry)| !entry.is_alive(now));
        for (key, entry) in expired.filter(|(key, _)| !changed.contains(key)) {
            let entries = spec.entries(&fields_of(&entry.bytes)).unwrap_or_default();
            if !entries.is_disjoint(&given) {
                gone.insert(key);
            }
        }
    }
    gone
}

/// Returns whether one of the documents `theirs`, expired or not, has a unique value that a
/// transaction gives to one of its own.
pub(super) fn has_taken(
    indexes: &[Built; INDEXES],
    seen: &State,
    ours: &BTreeSet<Key>,
    now: &State,
    theirs: impl Iterator<Item = Key> + Clone,
) -> bool {
    SPECS.iter().zip(indexes).filter(|(spec, built)| spec.is_unique && **built == Built::Ready).any(
        |(spec, _)| {
            let given: BTreeSet<_> =
                ours.iter().flat_map(|key| spec.entries_at(seen, *key)).collect();
            theirs.clone().any(|key| !given.is_disjoint(&spec.entries_at(now, key)))
        },
    )
}
