//! Groups and distinct values: what a query of the simulator sums up, and what that should be.

use super::document::{Fields, LIST_COUNT, LISTS, path_of, value_at};
use crate::rng::Rng;
use flagstone::{Find, Group, Result, Value};
use std::collections::BTreeMap;

/// What is summed up of the documents that a query finds.
#[derive(Clone, Debug)]
pub(super) struct Summary {
    /// The parts by whose values groups are formed.
    by: Vec<u16>,
    /// The part that is accumulated, and whose distinct values are read.
    of: u16,
    /// Whether the query has so little memory that it spills.
    spills: bool,
}

/// What accumulators say of the values of one group, with the sum as a number.
#[derive(Debug, PartialEq)]
struct Summed {
    key: Vec<Value>,
    count: u64,
    sum: i64,
    least: Value,
    greatest: Value,
    /// How many numbers the average is of.
    numbers: u64,
}

fn part(rng: &mut Rng, parts: &[u16]) -> u16 {
    if rng.percent(30) { LISTS + rng.below(u64::from(LIST_COUNT)) as u16 } else { *rng.pick(parts) }
}

/// Returns the values of a part: of a list its numbers. There are none if it is missing.
fn values(fields: &Fields, part: u16) -> Vec<Value> {
    match value_at(fields, part) {
        Some(Value::Array(items)) => items,
        other => other.into_iter().collect(),
    }
}

impl Summary {
    /// Draws a summary of some of `fields`, or of lists.
    pub(super) fn draw(rng: &mut Rng, fields: &[u16]) -> Self {
        let mut by: Vec<u16> = (0..rng.below(3)).map(|_| part(rng, fields)).collect();
        by.dedup();
        Self { by, of: part(rng, fields), spills: rng.percent(40) }
    }

    fn group(&self) -> Group {
        let by = self.by.iter().fold(Group::all(), |group, part| group.then_by(&path_of(*part)));
        let of = path_of(self.of);
        by.count("count").sum("sum", &of).min("least", &of).max("greatest", &of).avg("mean", &of)
    }

    /// Returns the groups of these documents.
    fn groups<'d>(&self, documents: impl Iterator<Item = &'d Fields>) -> Vec<Summed> {
        let mut groups: BTreeMap<Vec<Value>, (u64, Vec<Value>)> = BTreeMap::new();
        for fields in documents {
            let key = self.by.iter().map(|part| value_at(fields, *part).unwrap_or_default());
            let group = groups.entry(key.collect()).or_default();
            group.0 += 1;
            group.1.extend(values(fields, self.of));
        }
        let summed = |(key, (count, values)): (Vec<Value>, (u64, Vec<Value>))| {
            let numbers: Vec<i64> = values.iter().filter_map(Value::as_i64).collect();
            Summed {
                key,
                count,
                sum: numbers.iter().sum(),
                least: values.iter().min().cloned().unwrap_or_default(),
                greatest: values.iter().max().cloned().unwrap_or_default(),
                numbers: numbers.len() as u64,
            }
        };
        groups.into_iter().map(summed).collect()
    }

    /// Returns the distinct values of the part in these documents, in their order. An empty list is
    /// one.
    fn distinct<'d>(&self, documents: impl Iterator<Item = &'d Fields>) -> Vec<Value> {
        let whole = |fields: &Fields| match value_at(fields, self.of) {
            Some(Value::Array(items)) if !items.is_empty() => items,
            other => other.into_iter().collect(),
        };
        let mut values: Vec<Value> = documents.flat_map(whole).collect();
        values.sort();
        values.dedup();
        values
    }

    /// Compares what `find` sums up with these documents. The inner error says what is wrong.
    ///
    /// # Errors
    /// Those of the query.
    pub(super) fn compare(
        &self,
        find: &Find<'_>,
        documents: &[&Fields],
    ) -> Result<std::result::Result<(), String>> {
        let find = if self.spills { find.clone().memory(1) } else { find.clone() };
        let found: Vec<Value> = find.group(&self.group())?.collect::<Result<_>>()?;
        let expected = self.groups(documents.iter().copied());
        let are_same = found.len() == expected.len()
            && found.iter().zip(&expected).all(|(found, group)| Self::is_same(found, group));
        if !are_same {
            let found = found.iter().map(ToString::to_string).collect::<Vec<_>>();
            return Ok(Err(format!("groups {found:?}, expected {expected:?}")));
        }
        let found: Vec<Value> = find.distinct(&path_of(self.of))?.collect::<Result<_>>()?;
        let expected = self.distinct(documents.iter().copied());
        Ok(if found == expected {
            Ok(())
        } else {
            Err(format!("distinct values {found:?}, expected {expected:?}"))
        })
    }

    /// Returns whether a group is the expected one.
    fn is_same(found: &Value, expected: &Summed) -> bool {
        let Some(map) = found.as_map() else { return false };
        let found: Vec<&Value> = map.iter().map(|(_, value)| value).collect();
        let key = &expected.key;
        let (Some(keys), Some([count, sum, least, greatest, mean])) =
            (found.get(..key.len()), found.get(key.len()..))
        else {
            return false;
        };
        let is_mean = match expected.numbers {
            0 => mean.is_null(),
            numbers => mean.as_f64().is_some_and(|mean| {
                (mean * numbers as f64 - expected.sum as f64).abs() < 1e-6 * numbers as f64
            }),
        };
        keys.iter().zip(key).all(|(found, value)| *found == value)
            && count.as_u64() == Some(expected.count)
            && sum.as_i64() == Some(expected.sum)
            && (*least, *greatest) == (&expected.least, &expected.greatest)
            && is_mean
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::document::packed;

    #[test]
    fn a_summary_tells_another_sum_count_or_key_from_the_expected() {
        let one: Fields = [(0, 1), (1, 5), (LISTS, packed(&[2, 3]))].into();
        let two: Fields = [(0, 1), (1, 7)].into();
        let summary = Summary { by: vec![0], of: 1, spills: false };
        let groups = summary.groups([&one, &two].into_iter());
        let found = |sum: i64, count: u64, mean: f64| {
            let value = flagstone::doc!({
                "f0": 1, "count": (count), "sum": (sum), "least": 5, "greatest": 7, "mean": (mean)
            });
            Summary::is_same(&value, &groups[0])
        };
        assert!(found(12, 2, 6.0));
        assert!(!found(11, 2, 6.0) && !found(12, 1, 6.0) && !found(12, 2, 6.5));
        let lists = Summary { by: vec![], of: LISTS, spills: false };
        let groups = lists.groups([&one, &two].into_iter());
        assert_eq!((groups[0].sum, groups[0].numbers, groups[0].count), (5, 2, 2));
        assert_eq!(lists.distinct([&one, &two].into_iter()), [Value::from(2), Value::from(3)]);
    }
}
