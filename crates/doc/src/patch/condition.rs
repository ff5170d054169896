//! The conditions of a patch: tests of the value at a path.

use super::kind::OpKind;
use crate::value::Value;
use std::fmt;

/// A test of the value at a path, or of its absence.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Condition {
    Exists,
    Missing,
    Compares(Relation, Value),
}

/// The way in which the value at a path must compare with the argument of the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Condition {
    pub(super) const fn kind(&self) -> OpKind {
        match self {
            Self::Exists => OpKind::Exists,
            Self::Missing => OpKind::Missing,
            Self::Compares(Relation::Equal, _) => OpKind::Equal,
            Self::Compares(Relation::NotEqual, _) => OpKind::NotEqual,
            Self::Compares(Relation::Less, _) => OpKind::Less,
            Self::Compares(Relation::LessOrEqual, _) => OpKind::LessOrEqual,
            Self::Compares(Relation::Greater, _) => OpKind::Greater,
            Self::Compares(Relation::GreaterOrEqual, _) => OpKind::GreaterOrEqual,
        }
    }

    /// Returns the condition of a kind that is one. `value` is its argument.
    pub(super) fn of(kind: OpKind, value: Value) -> Option<Self> {
        let comparison = match kind {
            OpKind::Exists => return Some(Self::Exists),
            OpKind::Missing => return Some(Self::Missing),
            OpKind::Equal => Relation::Equal,
            OpKind::NotEqual => Relation::NotEqual,
            OpKind::Less => Relation::Less,
            OpKind::LessOrEqual => Relation::LessOrEqual,
            OpKind::Greater => Relation::Greater,
            OpKind::GreaterOrEqual => Relation::GreaterOrEqual,
            _ => return None,
        };
        Some(Self::Compares(comparison, value))
    }

    /// Returns the argument, if there is one.
    pub(super) const fn value(&self) -> Option<&Value> {
        match self {
            Self::Exists | Self::Missing => None,
            Self::Compares(_, value) => Some(value),
        }
    }

    /// Returns whether the value found at the path fulfils the condition. Values of different
    /// types are not equal, and neither less nor greater. No value equals nothing.
    pub(super) fn holds(&self, found: Option<&Value>) -> bool {
        let Self::Compares(comparison, wanted) = self else {
            return found.is_some() == (*self == Self::Exists);
        };
        let ordered = |is_so: fn(&Value, &Value) -> bool| {
            found.is_some_and(|found| {
                found.value_type() == wanted.value_type() && is_so(found, wanted)
            })
        };
        match comparison {
            Relation::Equal => found == Some(wanted),
            Relation::NotEqual => found != Some(wanted),
            Relation::Less => ordered(|found, wanted| found < wanted),
            Relation::LessOrEqual => ordered(|found, wanted| found <= wanted),
            Relation::Greater => ordered(|found, wanted| found > wanted),
            Relation::GreaterOrEqual => ordered(|found, wanted| found >= wanted),
        }
    }

    /// Writes the condition of the value at `path` as the methods of a patch are called.
    pub(super) fn write(&self, path: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.kind() {
            OpKind::Exists => "if_exists",
            OpKind::Missing => "if_missing",
            OpKind::NotEqual => "if_ne",
            OpKind::Less => "if_lt",
            OpKind::LessOrEqual => "if_lte",
            OpKind::Greater => "if_gt",
            OpKind::GreaterOrEqual => "if_gte",
            _ => "if_eq",
        };
        write!(f, "{name} {path}")?;
        self.value().map_or(Ok(()), |value| write!(f, " {value}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doc;

    #[test]
    fn only_values_of_one_type_are_less_or_greater() {
        let holds = |comparison, found: Option<Value>, wanted: Value| {
            Condition::Compares(comparison, wanted).holds(found.as_ref())
        };
        assert!(holds(Relation::Less, Some(doc!(1)), doc!(1.5)));
        assert!(holds(Relation::GreaterOrEqual, Some(doc!("b")), doc!("b")));
        assert!(holds(Relation::LessOrEqual, Some(doc!([1, 2])), doc!([1, 3])));
        assert!(holds(Relation::Greater, Some(doc!(true)), doc!(false)));
        for comparison in [Relation::Less, Relation::Greater, Relation::Equal] {
            assert!(!holds(comparison, Some(doc!("1")), doc!(1)));
            assert!(!holds(comparison, None, doc!(1)));
        }
        assert!(holds(Relation::NotEqual, None, doc!(1)));
        assert!(holds(Relation::Equal, Some(doc!(1.0)), doc!(1)));
        assert!(!holds(Relation::Equal, None, Value::Null));
    }
}
