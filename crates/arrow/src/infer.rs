//! The type of a column from a sample of its values.
//!
//! Integers become decimals of up to 38 digits, which polars and DuckDB have, too, and text beyond;
//! a number with a fraction is a float as long as each number equals the shortest text of a float.
//! Values of different types, and maps with keys that are no names, become JSON text. So do maps
//! with a name that Arrow cannot carry, what is deeper than other packages take, and a column that
//! the sample shows nothing of: it takes everything.

use crate::digits::Digits;
use crate::kind::{Kind, PRECISION_128, has_nul};
use flagstone::doc::{FieldKey, Malformed, ValueType};
use flagstone::{Value, View};

/// A struct of more fields than this is JSON text: maps whose names are data.
const FIELDS_MAX: usize = 256;

/// Lists and structs within one another beyond this depth are JSON text. pyarrow takes 64 of them.
const DEPTH_MAX: usize = 32;

/// What was seen of a column.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    has_bool: bool,
    has_text: bool,
    has_bytes: bool,
    has_time: bool,
    has_uuid: bool,
    has_object_id: bool,
    is_only_json: bool,
    numbers: Option<Numbers>,
    items: Option<Box<Seen>>,
    fields: Option<Vec<(String, Seen)>>,
}

#[derive(Debug, Default)]
struct Numbers {
    /// The most digits before the point, and after it.
    whole: u64,
    scale: u64,
    has_other_than_i64: bool,
    has_fraction: bool,
    has_other_than_float: bool,
    has_limit: bool,
}

impl Seen {
    /// Adds a value.
    pub(crate) fn add(&mut self, view: &View<'_>) -> Result<(), Malformed> {
        match view.value_type() {
            ValueType::Null => {}
            ValueType::Bool => self.has_bool = true,
            ValueType::Number => {
                self.numbers.get_or_insert_default().add(&view.to_value()?);
            }
            ValueType::Text => self.has_text = true,
            ValueType::Bytes => self.has_bytes = true,
            ValueType::DateTime => self.has_time = true,
            ValueType::Uuid => self.has_uuid = true,
            ValueType::ObjectId => self.has_object_id = true,
            ValueType::Array => {
                let items = self.items.get_or_insert_default();
                for item in view.items()? {
                    items.add(&item?)?;
                }
            }
            ValueType::Map => {
                let fields = self.fields.get_or_insert_default();
                for field in view.fields()? {
                    let (FieldKey::Name(name), value) = field? else {
                        self.is_only_json = true;
                        return Ok(());
                    };
                    let at = match fields.iter().position(|(other, _)| other == name) {
                        Some(at) => at,
                        None if fields.len() == FIELDS_MAX => {
                            self.is_only_json = true;
                            return Ok(());
                        }
                        None => {
                            fields.push((name.to_owned(), Self::default()));
                            fields.len() - 1
                        }
                    };
                    fields[at].1.add(&value)?;
                }
            }
        }
        Ok(())
    }

    /// Returns whether [`Seen::kind`] is a struct.
    pub(crate) fn is_struct(&self) -> bool {
        matches!(self.kind_at(0), Kind::Struct(_))
    }

    /// Returns the fields in the order in which they were seen.
    pub(crate) fn fields(&self) -> &[(String, Self)] {
        self.fields.as_deref().unwrap_or_default()
    }

    /// Returns the fields themselves.
    pub(crate) fn into_fields(self) -> Vec<(String, Self)> {
        self.fields.unwrap_or_default()
    }

    /// Returns the type of a column that holds all that was seen.
    pub(crate) fn kind(&self) -> Kind {
        self.kind_at(1)
    }

    /// `depth` is that in documents, which have 0: their names are those of columns.
    fn kind_at(&self, depth: usize) -> Kind {
        let is_too_deep = depth > DEPTH_MAX && (self.items.is_some() || self.fields.is_some());
        let has_lost_name = depth > 0 && self.fields().iter().any(|(name, _)| has_nul(name));
        if self.is_only_json || is_too_deep || has_lost_name {
            return Kind::Json;
        }
        let kinds = [
            self.has_bool.then_some(Kind::Bool),
            self.has_text.then_some(Kind::Text),
            self.has_bytes.then_some(Kind::Bytes),
            self.has_time.then_some(Kind::Timestamp),
            self.has_uuid.then_some(Kind::Uuid),
            self.has_object_id.then_some(Kind::ObjectId),
            self.numbers.as_ref().map(Numbers::kind),
            self.items.as_ref().map(|items| Kind::List(Box::new(items.kind_at(depth + 1)))),
            self.fields.as_ref().map(|fields| {
                let kind = |(name, seen): &(String, Self)| (name.clone(), seen.kind_at(depth + 1));
                Kind::Struct(fields.iter().map(kind).collect())
            }),
        ];
        let mut seen = kinds.into_iter().flatten();
        match (seen.next(), seen.next()) {
            // An empty struct has no Arrow type of use.
            (Some(Kind::Struct(fields)), None) if fields.is_empty() => Kind::Json,
            (Some(kind), None) => kind,
            _ => Kind::Json,
        }
    }
}

impl Numbers {
    fn add(&mut self, value: &Value) {
        let Some(digits) = Digits::of(value) else {
            self.has_limit = true;
            return;
        };
        self.whole = self.whole.max(digits.whole());
        self.scale = self.scale.max(digits.scale());
        // Floats that are integers are integers; but a column of 1.0 is one of floats.
        let has_fraction = match value {
            Value::Int(_) => false,
            Value::Number(number) => number.as_str().contains('.') || digits.scale() > 0,
            _ => true,
        };
        self.has_fraction |= has_fraction;
        self.has_other_than_i64 |= value.as_i64().is_none();
        self.has_other_than_float |= float_of(value).is_none();
    }

    fn kind(&self) -> Kind {
        let precision = self.whole.saturating_add(self.scale).max(1);
        if !self.has_fraction && !self.has_limit && !self.has_other_than_i64 {
            return Kind::Int64;
        }
        if (self.has_fraction || self.has_limit) && !self.has_other_than_float {
            return Kind::Float64;
        }
        if !self.has_limit && precision <= u64::from(PRECISION_128) {
            // Both are at most 38.
            return Kind::Decimal(precision as u8, self.scale as u8);
        }
        Kind::NumberText
    }
}

/// Returns the float whose shortest text equals the number, if there is one.
pub(crate) fn float_of(value: &Value) -> Option<f64> {
    /// Integers up to this magnitude are floats.
    const EXACT: u64 = 1 << 53;
    match value {
        Value::Float(float) => Some(*float),
        Value::Int(int) if int.unsigned_abs() <= EXACT => Some(*int as f64),
        Value::Int(_) | Value::Number(_) => {
            let float = value.as_f64().filter(|float| float.is_finite())?;
            (Value::Float(float) == *value).then_some(float)
        }
        _ => None,
    }
}
