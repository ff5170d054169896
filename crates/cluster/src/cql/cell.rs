//! Values as the driver sends them, and rows as it reads them.

use crate::store::{StoredRow, Token};
use flagstone_base::{Error, ErrorKind, Moment, Result, Slice};
use scylla::cluster::metadata::ColumnType;
use scylla::errors::SerializationError;
use scylla::serialize::value::SerializeValue;
use scylla::serialize::writers::{CellWriter, WrittenCellProof};

/// `exp` of a row that does not expire. A null would be a tombstone in each row.
const NEVER: i64 = -1;

/// A value of a statement.
#[derive(Clone, Debug)]
pub(super) enum Cell {
    Int(i32),
    Long(i64),
    Blob(Slice),
    Text(String),
    Null,
    /// Leaves the column as it is.
    Unset,
}

/// The values of a statement, in the order of its question marks.
pub(super) type Cells = Vec<Cell>;

impl Cell {
    pub(super) fn token(token: Option<Token>) -> Self {
        token.map_or(Self::Null, |token| Self::Blob(Slice::copy_of(&token.0)))
    }

    pub(super) fn expiry(expiry: Option<Moment>) -> Self {
        // A moment that does not fit is in 292 million years.
        let millis = |expiry: Moment| i64::try_from(expiry.millis()).unwrap_or(i64::MAX);
        Self::Long(expiry.map_or(NEVER, millis))
    }

    pub(super) fn int(number: Option<i32>) -> Self {
        number.map_or(Self::Null, Self::Int)
    }

    pub(super) fn long(number: Option<i64>) -> Self {
        number.map_or(Self::Null, Self::Long)
    }
}

impl SerializeValue for Cell {
    fn serialize<'b>(
        &self,
        column: &ColumnType<'_>,
        writer: CellWriter<'b>,
    ) -> Result<WrittenCellProof<'b>, SerializationError> {
        match self {
            Self::Int(number) => number.serialize(column, writer),
            Self::Long(number) => number.serialize(column, writer),
            Self::Blob(bytes) => <&[u8]>::serialize(&&bytes[..], column, writer),
            Self::Text(text) => text.serialize(column, writer),
            Self::Null => Ok(writer.set_null()),
            Self::Unset => Ok(writer.set_unset()),
        }
    }
}

/// The columns of a row as they are read.
pub(super) struct Columns<'f> {
    pub(super) key: &'f [u8],
    /// `None` if it was not asked for.
    pub(super) value: Option<Option<&'f [u8]>>,
    pub(super) token: Option<&'f [u8]>,
    pub(super) expiry: Option<i64>,
}

impl Columns<'_> {
    /// # Errors
    /// Corruption if no flagstone has written it. `place` says where it is.
    pub(super) fn row(self, place: impl Fn() -> String) -> Result<StoredRow> {
        let damaged = |what: &str| {
            let text = format!("{}, k = 0x{}: {what}", place(), hex(self.key));
            Error::new(ErrorKind::Corruption, text)
        };
        let value = match self.value {
            None => Slice::EMPTY,
            Some(Some(value)) => Slice::copy_of(value),
            Some(None) => return Err(damaged("expected a value in v, found null")),
        };
        let token = match self.token.map(<[u8; 8]>::try_from) {
            None => None,
            Some(Ok(token)) => Some(Token(token)),
            Some(Err(_)) => return Err(damaged("expected 8 bytes in ver")),
        };
        let expiry = match self.expiry {
            Some(NEVER) => None,
            Some(millis) => match u64::try_from(millis) {
                Ok(millis) => Some(Moment::from_millis(millis)),
                Err(_) => return Err(damaged("expected -1 or a time in exp")),
            },
            None => return Err(damaged("expected a time in exp, found null")),
        };
        Ok(StoredRow { key: Slice::copy_of(self.key), value, token, expiry })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_nobody_wrote_is_refused_with_its_place() {
        let columns = |value, token, expiry| Columns { key: &[1, 255], value, token, expiry };
        let read = |columns: Columns<'_>| columns.row(|| "table rows, c = 1, b = 2".into());
        let row = read(columns(Some(Some(&[7])), Some(&[1; 8]), Some(-1))).unwrap();
        assert_eq!((row.token, row.expiry), (Some(Token([1; 8])), None));
        let row = read(columns(None, None, Some(0))).unwrap();
        assert_eq!((&row.value[..], row.expiry), (&[][..], Some(Moment::ZERO)));
        for (columns, said) in [
            (columns(Some(None), None, Some(-1)), "expected a value in v"),
            (columns(None, Some(&[1; 7]), Some(-1)), "expected 8 bytes in ver"),
            (columns(None, None, Some(-2)), "expected -1 or a time in exp"),
            (columns(None, None, None), "expected a time in exp"),
        ] {
            let error = read(columns).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corruption);
            assert!(error.to_string().starts_with("table rows, c = 1, b = 2, k = 0x01ff: "));
            assert!(error.to_string().contains(said), "{error}");
        }
    }
}
