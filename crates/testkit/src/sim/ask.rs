//! The queries of the simulator: filters and sorts of its documents, and what they mean.

use super::document::{
    DATE, DATE_IN, Fields, LIST_COUNT, LISTS, dated_field, path_of, unpacked, value_of_field,
};
use super::model::Key;
use crate::rng::Rng;
use flagstone::{Filter, Moment};

/// A condition on a field or a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Test {
    Equal(u16, i16),
    AtLeast(u16, i64),
    Below(u16, i64),
    OneOf(u16, [i16; 2]),
    Missing(u16),
    /// The list has this number.
    Has(u16, u8),
    /// The list has a number of at least this.
    HasAtLeast(u16, u8),
}

/// A filter: all or any of some conditions. Without conditions it matches everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FilterSpec {
    tests: Vec<Test>,
    is_any: bool,
}

/// In the place of a field of an order, the primary key.
const KEY: u16 = u16::MAX - 4;

/// The order of a query: a field or the primary key, and the primary key among documents of one
/// value, if the sort names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order {
    field: u16,
    is_descending: bool,
    /// Whether the primary key is descending.
    ties: Option<bool>,
}

/// Draws an order.
pub(super) fn draw_order(rng: &mut Rng) -> Order {
    let field = match rng.below(20) {
        0..=2 => DATE,
        3..=5 => KEY,
        _ => rng.below(3) as u16,
    };
    Order {
        field,
        is_descending: rng.percent(50),
        ties: rng.percent(40).then(|| rng.percent(50)).filter(|_| field != KEY),
    }
}

/// A query whose pages are read, over lives.
pub(super) struct Pages {
    pub(super) ask: FilterSpec,
    pub(super) order: Order,
    /// The text of the token.
    pub(super) token: String,
    /// The rank of the last document in the order.
    pub(super) last: Rank,
    /// The number of indexes and collections that were dropped before.
    pub(super) dropped: u64,
}

impl Test {
    fn draw(rng: &mut Rng) -> Self {
        if rng.percent(15) {
            let millis = rng.below(120_000) as i64 - 60_000;
            return match rng.below(3) {
                0 => Self::AtLeast(DATE_IN, millis),
                1 => Self::Below(DATE_IN, millis),
                _ => Self::Missing(DATE),
            };
        }
        let (field, number) = (rng.below(3) as u16, rng.below(12) as i16 - 1);
        let (list, item) = (rng.below(u64::from(LIST_COUNT)) as u16, rng.below(6) as u8);
        match rng.below(10) {
            0 | 1 => Self::Equal(field, number),
            2 | 3 => Self::AtLeast(field, number.into()),
            4 => Self::Below(field, number.into()),
            5 => Self::OneOf(field, [number, number + 3]),
            6 => Self::Missing(field),
            7 | 8 => Self::Has(list, item),
            _ => Self::HasAtLeast(list, item),
        }
    }

    /// Returns the test as a step at `now` means it.
    fn dated(self, now: Moment) -> Self {
        match self {
            Self::AtLeast(name, value) => {
                let (name, value) = dated_field((name, value), now);
                Self::AtLeast(name, value)
            }
            Self::Below(name, value) => {
                let (name, value) = dated_field((name, value), now);
                Self::Below(name, value)
            }
            other => other,
        }
    }

    fn filter(self) -> Filter {
        let field = |name: u16| Filter::field(path_of(name).as_str());
        let list = |name: u16| Filter::field(format!("l{name}").as_str());
        match self {
            Self::Equal(name, number) => field(name).eq(i64::from(number)),
            Self::AtLeast(name, number) => field(name).gte(value_of_field(name, number)),
            Self::Below(name, number) => field(name).lt(value_of_field(name, number)),
            Self::OneOf(name, numbers) => field(name).one_of(numbers.map(i64::from)),
            Self::Missing(name) => field(name).is_missing(),
            Self::Has(name, item) => list(name).eq(i64::from(item)),
            Self::HasAtLeast(name, item) => list(name).gte(i64::from(item)),
        }
    }

    fn holds(self, fields: &Fields) -> bool {
        let value = |name: u16| fields.get(&name).copied();
        let list = |name: u16| fields.get(&(LISTS + name)).map_or(Vec::new(), |l| unpacked(*l));
        match self {
            Self::Equal(name, number) => value(name) == Some(number.into()),
            Self::AtLeast(name, number) => value(name).is_some_and(|v| v >= number),
            Self::Below(name, number) => value(name).is_some_and(|v| v < number),
            Self::OneOf(name, numbers) => {
                value(name).is_some_and(|v| numbers.iter().any(|n| v == i64::from(*n)))
            }
            Self::Missing(name) => value(name).is_none(),
            Self::Has(name, item) => list(name).contains(&item),
            Self::HasAtLeast(name, item) => list(name).into_iter().any(|found| found >= item),
        }
    }
}

impl FilterSpec {
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let tests = (0..rng.below(4)).map(|_| Test::draw(rng)).collect();
        Self { tests, is_any: rng.percent(30) }
    }

    /// Draws a condition on the first field, which an index alone can answer.
    pub(super) fn draw_of_first_field(rng: &mut Rng) -> Self {
        let number = rng.below(9) as i16 - 1;
        let test = match rng.below(3) {
            0 => Test::Equal(0, number),
            1 => Test::AtLeast(0, number.into()),
            _ => Test::OneOf(0, [number, number + 3]),
        };
        Self { tests: vec![test], is_any: false }
    }

    /// Returns the filter as a step at `now` means it.
    pub(super) fn dated(&self, now: Moment) -> Self {
        let tests = self.tests.iter().map(|test| test.dated(now)).collect();
        Self { tests, is_any: self.is_any }
    }

    pub(super) fn filter(&self) -> Filter {
        let filters = self.tests.iter().map(|test| test.filter());
        if self.tests.is_empty() {
            Filter::everything()
        } else if self.is_any {
            Filter::any(filters)
        } else {
            Filter::all(filters)
        }
    }

    /// Returns whether a document matches.
    pub(super) fn holds(&self, fields: &Fields) -> bool {
        let mut tests = self.tests.iter();
        if self.is_any && !self.tests.is_empty() {
            tests.any(|test| test.holds(fields))
        } else {
            tests.all(|test| test.holds(fields))
        }
    }
}

/// Numbers whose order is that of documents in a sort.
pub(super) type Rank = (i64, i64);

impl Order {
    /// The text of the sort.
    pub(super) fn text(self) -> String {
        let path = if self.field == KEY { "$key".to_owned() } else { path_of(self.field) };
        let ties =
            self.ties.map_or("", |is_descending| [",$key", ",-$key"][usize::from(is_descending)]);
        format!("{}{path}{ties}", if self.is_descending { "-" } else { "" })
    }

    /// Returns the rank of a document. What is missing comes first.
    pub(super) fn rank(self, (key, fields): &(Key, Fields)) -> Rank {
        let directed = |rank: i64, is_descending| if is_descending { -rank } else { rank };
        let rank = match self.field {
            KEY => i64::from(*key),
            field => fields.get(&field).map_or(i64::MIN / 2, |value| *value),
        };
        let tie = self.ties.map_or(0, |is_descending| directed(i64::from(*key), is_descending));
        (directed(rank, self.is_descending), tie)
    }
}
