//! When documents expire by the date in the field of an index.

use super::definition::Definition;
use super::state::index_of;
use flagstone_base::{Malformed, Moment};
use flagstone_doc::{DateTime, Reached, View};
use flagstone_engine::KeyspaceCore;
use std::ops::ControlFlow;

/// When a document expires by the indexes of its collection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByDate {
    /// No index decides.
    Undecided,
    /// At this moment, or never.
    At(Option<Moment>),
}

impl ByDate {
    /// Returns when a document expires that a write gives the expiry `given`.
    pub(crate) fn or(self, given: Option<Moment>) -> Option<Moment> {
        match self {
            Self::Undecided => given,
            Self::At(moment) => moment,
        }
    }
}

/// Returns whether an index of `owner` decides when documents expire.
pub(crate) fn decides(owner: &KeyspaceCore) -> bool {
    let set = owner.owned_set();
    set.keyspaces.iter().filter_map(|core| index_of(core)).any(|i| i.definition.expires.is_some())
}

/// Returns when the document `root` of `owner` expires by its indexes: the earliest moment of all.
///
/// # Errors
/// If the bytes read are malformed.
pub(crate) fn by_date(owner: &KeyspaceCore, root: &View<'_>) -> Result<ByDate, Malformed> {
    let mut found = ByDate::Undecided;
    for core in &owner.owned_set().keyspaces {
        let Some(definition) = index_of(core).map(|index| &index.definition) else { continue };
        if definition.expires.is_none() {
            continue;
        }
        let moment = moment_by(definition, root)?;
        found = ByDate::At([found.or(None), moment].into_iter().flatten().min());
    }
    Ok(found)
}

/// Returns when the document `root` expires by an index of this definition.
///
/// # Errors
/// If the bytes read are malformed.
pub(crate) fn moment_by(
    definition: &Definition,
    root: &View<'_>,
) -> Result<Option<Moment>, Malformed> {
    let Some(after) = definition.expires else { return Ok(None) };
    let date = if definition.may_hold(root)? { date(definition, root)? } else { None };
    Ok(date.map(|date| date.after(after)))
}

/// The earliest date that the first field of the index reaches.
fn date(definition: &Definition, root: &View<'_>) -> Result<Option<Moment>, Malformed> {
    let mut earliest: Option<Moment> = None;
    let mut note = |view: &View<'_>| {
        let moments = [earliest, moment(view)];
        earliest = moments.into_iter().flatten().min();
    };
    let Some(field) = definition.fields.first() else { return Ok(None) };
    field.path.reach(root, |reached| {
        if let Reached::Value(view) = reached {
            if view.is_array() {
                for item in view.items()? {
                    note(&item?);
                }
            } else {
                note(&view)
            }
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(earliest)
}

/// The moment that a value says: a datetime, a number of seconds since 1970, or text in the form of
/// RFC 3339. Dates before 1970 are the first millisecond after it began, as is the number
/// -infinity; infinity is the last moment, and NaN none.
fn moment(view: &View<'_>) -> Option<Moment> {
    let millis = if let Some(time) = view.as_datetime() {
        time.as_micros().div_euclid(1000)
    } else if let Some(text) = view.as_str() {
        DateTime::parse_rfc3339(text)?.as_micros().div_euclid(1000)
    } else if let Some(seconds) = view.as_i64() {
        seconds.saturating_mul(1000)
    } else {
        // A float saturates.
        (view.as_f64().filter(|seconds| !seconds.is_nan())? * 1000.0) as i64
    };
    Some(Moment::from_millis(u64::try_from(millis).unwrap_or(0).max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::Index;
    use flagstone_doc::{Document, Value, doc};
    use std::time::Duration;

    fn millis(value: Value) -> Option<u64> {
        let document = Document::from_value(&doc!({ "at": (value) })).unwrap();
        let index = Index::on("$.at").expire_after(Duration::ZERO);
        let definition = Definition::new("a", &index).unwrap();
        date(&definition, &document.root()).unwrap().map(Moment::millis)
    }

    #[test]
    fn a_date_is_a_datetime_or_seconds_or_text_and_of_an_array_the_earliest() {
        assert_eq!(millis(DateTime::from_micros(1_500_999).into()), Some(1500));
        assert_eq!(millis(1_564_617_600.into()), Some(1_564_617_600_000));
        assert_eq!(millis(1.5.into()), Some(1500));
        assert_eq!(millis("1970-01-01T00:00:02Z".into()), Some(2000));
        assert_eq!(millis((-7).into()), Some(1), "before 1970");
        assert_eq!(millis(i64::MAX.into()), Some(i64::MAX as u64));
        assert_eq!(millis(f64::INFINITY.into()), Some(i64::MAX as u64));
        assert_eq!(millis(f64::NEG_INFINITY.into()), Some(1));
        assert_eq!(millis(f64::NAN.into()), None);
        assert_eq!(millis(Value::number("1e400").unwrap()), Some(i64::MAX as u64));
        assert_eq!(millis(Value::number("2.0005e3").unwrap()), Some(2_000_500));
        assert_eq!(millis(doc!([9, "x", 4, [1]])), Some(4000));
        // All that RFC 3339 allows.
        for text in [
            "2001-01-01T00:00:00.123456789Z",
            "2001-01-01t02:00:00.123999+02:00",
            "2001-01-01 00:00:00.1239999999-00:00",
        ] {
            assert_eq!(millis(text.into()), Some(978_307_200_123), "{text}");
        }
        assert_eq!(millis("2016-12-31T23:59:60Z".into()), Some(1_483_228_800_000));
        assert_eq!(millis("2001-02-30T00:00:00Z".into()), None);
        for none in [doc!(null), doc!(true), doc!("tomorrow"), doc!({ "a": 1 }), doc!([])] {
            assert_eq!(millis(none), None);
        }
    }
}
