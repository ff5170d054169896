//! `$bitsAllSet`, `$bitsAnySet`, `$bitsAllClear` and `$bitsAnyClear`: tests of single bits of
//! integers and bytes.

use super::cursor::Cursor;
use super::error::FilterError;
use super::intervals::KeySet;
use super::literal;
use super::sets::Sets;
use super::value_test::ValueOperator;
use crate::json::StoredForm;
use crate::map::Map;
use crate::print::base64;
use crate::value::Value;
use crate::value_type::ValueType;
use crate::view::View;
use flagstone_base::Malformed;
use flagstone_base::sorted::sort_by;
use std::fmt;

/// The most bits in a test.
const BITS_MAX: usize = 100_000;

/// Any, or all, of some bits are set, or clear. An integer has the bits of its two's complement,
/// with its sign before them. The first bit of bytes is the lowest of the first byte, and bits
/// after the last byte are clear.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BitTest<const ANY: bool, const SET: bool> {
    /// The positions of the bits, which ascend and are distinct.
    positions: Box<[u32]>,
}

/// Returns the positions of the bits that are set.
fn set_bits(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.iter().zip(0_u32..).flat_map(|(byte, at)| {
        (0..8).filter(move |bit| byte >> bit & 1 == 1).map(move |bit| 8 * at + bit)
    })
}

fn positions(value: &Value) -> Option<Vec<u32>> {
    let mut positions: Vec<u32> = match value {
        Value::Array(items) => items
            .iter()
            .map(|item| item.as_u64().and_then(|at| i32::try_from(at).ok()))
            .map(|at| at.map(i32::unsigned_abs))
            .collect::<Option<_>>()?,
        // Bytes of many megabytes have as many bits.
        Value::Bytes(bytes) => set_bits(bytes).take(BITS_MAX + 1).collect(),
        Value::Uuid(bytes) => set_bits(bytes).collect(),
        Value::Map(map) => {
            let bytes = base64(map.get("$binary")?.get("base64")?.as_str()?)?;
            set_bits(&bytes).take(BITS_MAX + 1).collect()
        }
        number => set_bits(&u64::try_from(number.as_i64()?).ok()?.to_le_bytes()).collect(),
    };
    sort_by(&mut positions, Ord::cmp);
    positions.dedup();
    (positions.len() <= BITS_MAX).then_some(positions)
}

impl<const ANY: bool, const SET: bool> BitTest<ANY, SET> {
    fn holds_for(&self, is_set: impl Fn(u32) -> bool) -> bool {
        let mut bits = self.positions.iter();
        if ANY { bits.any(|at| is_set(*at) == SET) } else { bits.all(|at| is_set(*at) == SET) }
    }
}

impl<const ANY: bool, const SET: bool> ValueOperator for BitTest<ANY, SET> {
    fn parse(cursor: &mut Cursor<'_>, _operators: &Map) -> Result<Self, FilterError> {
        let value = literal::read(cursor)?;
        match positions(&value) {
            Some(positions) => Ok(Self { positions: positions.into() }),
            None => Err(cursor.refuse(format!(
                "bits: an integer from 0 on, bytes, or an array of positions from 0 on, at most \
                 {BITS_MAX}"
            ))),
        }
    }

    fn write_operand(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let positions: Vec<String> = self.positions.iter().map(ToString::to_string).collect();
        write!(f, "[{}]", positions.join(","))
    }

    fn cost(&self) -> usize {
        4 + self.positions.len() / 8
    }

    fn holds(&self, value: &View<'_>) -> Result<bool, Malformed> {
        let in_bytes = |bytes: &[u8]| {
            self.holds_for(|at| {
                bytes.get(at as usize / 8).is_some_and(|byte| byte >> (at % 8) & 1 == 1)
            })
        };
        Ok(match value.value_type() {
            ValueType::Number => {
                value.as_i64().is_some_and(|int| self.holds_for(|at| int >> at.min(63) & 1 == 1))
            }
            ValueType::Bytes => value.as_bytes().is_some_and(in_bytes),
            ValueType::Uuid => value.as_uuid().is_some_and(|bytes| in_bytes(bytes)),
            // Bytes of the other subtypes.
            ValueType::Map if StoredForm::of(value)? == Some(StoredForm::Binary) => {
                let text = value.get("$binary")?.map_or(Ok(None), |form| form.get("base64"))?;
                let bytes = text.and_then(|text| base64(text.as_str()?));
                bytes.is_some_and(|bytes| in_bytes(&bytes))
            }
            _ => false,
        })
    }

    fn keys(&self) -> Sets {
        let types = [ValueType::Number, ValueType::Bytes, ValueType::Uuid, ValueType::Map];
        Sets::any(types.map(|one| Sets::at_most(KeySet::of_type(one))))
    }
}
