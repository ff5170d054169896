//! What indexes should hold, computed from plain values without any code of the index.

use flagstone::{Collection, Filter, Index, Moment, Value, internal};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// The documents by key, each with its expiry.
pub(super) type Documents = BTreeMap<u32, (Value, Option<Moment>)>;

/// The values of an entry and the key of its document.
pub(super) type Entry = (Vec<Option<Value>>, Value);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Computed {
    Value,
    Length,
    Lower,
}

/// An index of the model.
pub(super) struct Spec {
    pub(super) name: &'static str,
    /// Path, what is computed, and whether it is descending.
    pub(super) fields: &'static [(&'static str, Computed, bool)],
    pub(super) is_unique: bool,
    pub(super) is_sparse: bool,
    /// Holds only documents whose `n` is at least this.
    pub(super) at_least: Option<i64>,
}

/// Why a document cannot be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    Unfit,
    Duplicate,
}

impl Spec {
    pub(super) fn index(&self) -> Index {
        let text = |(path, computed, is_descending): &(&str, Computed, bool)| {
            let sign = if *is_descending { "-" } else { "" };
            match computed {
                Computed::Value => format!("{sign}$.{path}"),
                Computed::Length => format!("{sign}length({path})"),
                Computed::Lower => format!("{sign}lower($.{path})"),
            }
        };
        let mut index = Index::on(text(&self.fields[0]));
        for field in &self.fields[1..] {
            index = index.then(text(field));
        }
        if self.is_unique {
            index = index.unique();
        }
        if self.is_sparse {
            index = index.sparse();
        }
        match self.at_least {
            Some(least) => index.only(Filter::field("n").gte(least)),
            None => index,
        }
    }

    /// Returns the values of the entries of a document.
    pub(super) fn entries(
        &self,
        document: &Value,
    ) -> Result<BTreeSet<Vec<Option<Value>>>, Refusal> {
        if let Some(least) = self.at_least {
            let mut found = Vec::new();
            reach(document, &["n"], &mut found, &mut false);
            let numbers = found.into_iter().flatten().flat_map(|value| match value {
                Value::Array(items) => items,
                one => vec![one],
            });
            if !numbers.into_iter().any(|n| n.as_f64().is_some_and(|n| n >= least as f64)) {
                return Ok(BTreeSet::new());
            }
        }
        let fields: Vec<_> = self.fields.iter().map(|field| components(document, field)).collect();
        if self.is_sparse && fields.iter().all(|(values, _)| values.iter().all(Option::is_none)) {
            return Ok(BTreeSet::new());
        }
        if fields.iter().filter(|(_, is_multi)| *is_multi).count() > 1 {
            return Err(Refusal::Unfit);
        }
        let mut entries = BTreeSet::from([Vec::new()]);
        for (values, _) in &fields {
            entries = entries
                .into_iter()
                .flat_map(|entry: Vec<Option<Value>>| {
                    values
                        .iter()
                        .map(move |value| [&entry[..], std::slice::from_ref(value)].concat())
                })
                .collect();
        }
        Ok(entries)
    }

    /// Returns the entries of all documents, in the order of the index.
    pub(super) fn all(&self, documents: &Documents, now: Moment) -> Vec<Entry> {
        let mut all = Vec::new();
        for (key, (document, expiry)) in documents {
            if expiry.is_none_or(|expiry| expiry > now) {
                let entries = self.entries(document).expect("unfit documents are refused");
                all.extend(entries.into_iter().map(|values| (values, Value::from(*key))));
            }
        }
        all.sort_by(|(a, a_key), (b, b_key)| self.order(a, b).then(a_key.cmp(b_key)));
        all
    }

    fn order(&self, a: &[Option<Value>], b: &[Option<Value>]) -> Ordering {
        let pairs = a.iter().zip(b).zip(self.fields);
        let orders = pairs.map(
            |((a, b), (_, _, is_descending))| if *is_descending { b.cmp(a) } else { a.cmp(b) },
        );
        orders.fold(Ordering::Equal, Ordering::then)
    }
}

/// Returns the components of one field, and whether an array is on its path.
fn components(
    document: &Value,
    (path, computed, _): &(&str, Computed, bool),
) -> (BTreeSet<Option<Value>>, bool) {
    let steps: Vec<&str> = path.split('.').collect();
    let (mut found, mut is_multi) = (Vec::new(), false);
    reach(document, &steps, &mut found, &mut is_multi);
    if found.is_empty() {
        found.push(None);
    }
    let mut components = BTreeSet::new();
    for value in found {
        match (value, computed) {
            (value, Computed::Length) => {
                components.insert(value.as_ref().and_then(length).map(Value::from));
            }
            (Some(Value::Array(items)), _) => {
                is_multi = true;
                if items.is_empty() {
                    components.insert(Some(Value::Array(items)));
                } else {
                    components.extend(items.into_iter().map(|item| Some(lower(item, *computed))));
                }
            }
            (value, _) => {
                components.insert(value.map(|value| lower(value, *computed)));
            }
        }
    }
    (components, is_multi)
}

fn lower(value: Value, computed: Computed) -> Value {
    match value {
        Value::Text(text) if computed == Computed::Lower => Value::Text(text.to_lowercase()),
        other => other,
    }
}

fn length(value: &Value) -> Option<usize> {
    match value {
        Value::Text(text) => Some(text.chars().count()),
        Value::Bytes(bytes) => Some(bytes.len()),
        Value::Array(items) => Some(items.len()),
        Value::Map(map) => Some(map.len()),
        _ => None,
    }
}

fn reach(value: &Value, steps: &[&str], found: &mut Vec<Option<Value>>, is_multi: &mut bool) {
    let Some((step, rest)) = steps.split_first() else {
        found.push(Some(value.clone()));
        return;
    };
    match value {
        Value::Array(items) => {
            *is_multi = true;
            for item in items.iter().filter(|item| item.as_map().is_some()) {
                match item.get(step) {
                    Some(next) => reach(next, rest, found, is_multi),
                    None => found.push(None),
                }
            }
        }
        _ => match value.get(step) {
            Some(next) => reach(next, rest, found, is_multi),
            None => found.push(None),
        },
    }
}

/// Returns why the documents cannot be as they are, of which `changed` were written together.
pub(super) fn refusal(
    specs: &[&Spec],
    documents: &Documents,
    changed: &BTreeSet<u32>,
    now: Moment,
) -> Option<Refusal> {
    let mut duplicate = None;
    for spec in specs {
        for (key, (document, _)) in documents.iter().filter(|(key, _)| changed.contains(key)) {
            let Ok(entries) = spec.entries(document) else { return Some(Refusal::Unfit) };
            if !spec.is_unique {
                continue;
            }
            let others = documents.iter().filter(|(other, (_, expiry))| {
                *other != key && expiry.is_none_or(|expiry| expiry > now)
            });
            for (_, (other, _)) in others {
                if spec.entries(other).is_ok_and(|others| !others.is_disjoint(&entries)) {
                    duplicate = Some(Refusal::Duplicate);
                }
            }
        }
    }
    duplicate
}

/// Compares the indexes with the model.
pub(super) fn check(collection: &Collection, specs: &[&Spec], documents: &Documents, now: Moment) {
    let names: Vec<String> = collection.indexes().into_iter().map(|index| index.name).collect();
    assert_eq!(names, specs.iter().map(|spec| spec.name).collect::<Vec<_>>());
    for spec in specs {
        let found = internal::index_entries(collection, spec.name).unwrap();
        let expected = spec.all(documents, now);
        let differs = found.iter().zip(&expected).find(|(a, b)| a != b);
        assert!(differs.is_none(), "{}: found and expected {differs:?}", spec.name);
        assert_eq!(found.len(), expected.len(), "{}", spec.name);
    }
    collection.verify_indexes().unwrap();
}
