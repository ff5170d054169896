//! Writes BSON.

use super::decimal;
use super::error::BsonError;
use super::kind;
use flagstone::View;
use flagstone::doc::{DateTime, FieldKey, Malformed, ObjectId, ValueType};
use flagstone::internal::document::{
    DEPTH_MAX, StoredNumber, base64, is_marked_decimal, prints_as,
};

/// Appends BSON to bytes: whole stored documents, or elements one by one.
///
/// ```
/// use flagstone::Document;
/// use flagstone_server::bson::BsonWriter;
/// let document = Document::from_json(r#"{"score":7}"#)?;
/// let mut out = Vec::new();
/// let mut reply = BsonWriter::new(&mut out);
/// reply.document(&document.root())?;
/// assert_eq!(out, b"\x10\0\0\0\x10score\0\x07\0\0\0\0");
///
/// let mut out = Vec::new();
/// let mut reply = BsonWriter::new(&mut out);
/// reply.begin();
/// reply.double("ok", 1.0)?;
/// reply.end()?;
/// assert_eq!(out.len(), 17);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct BsonWriter<'o> {
    out: &'o mut Vec<u8>,
    /// The offsets at which open documents begin, and the number of the next element of an array.
    open: Vec<(usize, Option<usize>)>,
}

type Written = Result<(), BsonError>;

impl<'o> BsonWriter<'o> {
    /// Creates a writer that appends to `out`.
    pub const fn new(out: &'o mut Vec<u8>) -> Self {
        Self { out, open: Vec::new() }
    }

    /// Creates a writer that goes on with the document at the end of `out`, which begins at
    /// `start`.
    pub(crate) fn reopen(out: &'o mut Vec<u8>, start: usize) -> Self {
        out.pop();
        Self { out, open: vec![(start, None)] }
    }

    /// Returns the number of bytes that `out` has so far.
    pub const fn len(&self) -> usize {
        self.out.len()
    }

    /// Returns whether `out` has no bytes yet.
    pub const fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Refuses a value with names that BSON cannot have, which other functions write as `$pairs`:
    /// for what is read back from BSON and stored.
    ///
    /// # Errors
    /// If a name has a zero, or is no text; or if the value is damaged.
    pub(crate) fn check_names(view: &View<'_>) -> Written {
        check(view, DEPTH_MAX)
    }

    /// Appends a stored document as a document of its own; several may follow one another.
    ///
    /// # Errors
    /// If the value is not a map, or holds what BSON cannot: a number of more than 34 digits, more
    /// than 2 GiB; or if it is damaged, such as nested deeper than documents may be. `out` is as
    /// before then.
    pub fn document(&mut self, view: &View<'_>) -> Written {
        let start = self.out.len();
        let put = if view.is_map() {
            put_map(view, DEPTH_MAX, self.out)
        } else {
            Err(BsonError::new(start, format!("a document, found {}", view.value_type())))
        };
        put.inspect_err(|_| self.out.truncate(start))
    }

    /// Appends the fields of a stored map to the document that is open, without those that
    /// `is_out` names: as the field `$pairs`, if BSON cannot have all of their names.
    ///
    /// # Errors
    /// As [`BsonWriter::document`]. `out` is as before then.
    pub fn fields(&mut self, view: &View<'_>, is_out: impl Fn(&str) -> bool) -> Written {
        let start = self.out.len();
        let put = match put_fields(view, DEPTH_MAX, &is_out, self.out) {
            Ok(true) => Ok(()),
            Ok(false) => {
                self.out.truncate(start);
                put_pairs(view, DEPTH_MAX, is_out, self.out)
            }
            Err(error) => Err(error),
        };
        put.inspect_err(|_| self.out.truncate(start))
    }

    /// Appends a document of BSON, which is not looked at, as the field `name`.
    ///
    /// # Errors
    /// If the name has a zero.
    pub fn raw_document(&mut self, name: &str, bson: &[u8]) -> Written {
        self.name(kind::DOCUMENT, name)?;
        self.out.extend_from_slice(bson);
        Ok(())
    }

    /// Appends the fields of a document of BSON, which are not looked at, to the document that is
    /// open.
    pub fn raw_fields(&mut self, bson: &[u8]) {
        let end = bson.len().saturating_sub(1);
        self.out.extend_from_slice(bson.get(4..end).unwrap_or_default());
    }

    /// Begins a document of its own.
    pub fn begin(&mut self) {
        self.open.push((begin(self.out), None));
    }

    /// Begins a document that is the field `name`. Inside of an array names are numbers that count
    /// up, and `name` is not used.
    ///
    /// # Errors
    /// If the name has a zero.
    pub fn begin_document(&mut self, name: &str) -> Written {
        self.name(kind::DOCUMENT, name)?;
        self.begin();
        Ok(())
    }

    /// Begins an array that is the field `name`.
    ///
    /// # Errors
    /// If the name has a zero.
    pub fn begin_array(&mut self, name: &str) -> Written {
        self.name(kind::ARRAY, name)?;
        self.open.push((begin(self.out), Some(0)));
        Ok(())
    }

    /// Ends the innermost document or array.
    ///
    /// # Errors
    /// If it is larger than 2 GiB.
    pub fn end(&mut self) -> Written {
        match self.open.pop() {
            Some((start, _)) => end(start, self.out),
            None => Ok(()),
        }
    }

    /// Reserves capacity for this many bytes more, without a surplus.
    pub(crate) fn reserve(&mut self, bytes: usize) {
        self.out.reserve_exact(bytes);
    }

    /// Removes the last elements of the open array, from byte `len` on. The caller adds no others.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.out.truncate(len);
    }

    /// Appends the field `name` with a stored value of any type.
    ///
    /// # Errors
    /// As [`BsonWriter::document`]. `out` is as before then.
    pub fn value(&mut self, name: &str, view: &View<'_>) -> Written {
        let start = self.out.len();
        self.name(kind::NULL, name)?;
        put_value(view, DEPTH_MAX, start, self.out).map_err(|error| {
            self.out.truncate(start);
            error.inside(name)
        })
    }

    /// Appends the field `name` with text.
    ///
    /// # Errors
    /// If the name has a zero, or the text more than 2 GiB.
    pub fn text(&mut self, name: &str, text: &str) -> Written {
        self.name(kind::STRING, name)?;
        put_text(text, self.out).map_err(|error| error.inside(name))
    }

    /// Appends the field `name` with a double.
    ///
    /// # Errors
    /// If the name has a zero.
    pub fn double(&mut self, name: &str, value: f64) -> Written {
        self.name(kind::DOUBLE, name)?;
        self.out.extend_from_slice(&value.to_le_bytes());
        Ok(())
    }

    /// Appends the field `name` with an integer of 32 bits.
    ///
    /// # Errors
    /// If the name has a zero.
    pub fn int(&mut self, name: &str, value: i32) -> Written {
        self.name(kind::INT32, name)?;
        self.out.extend_from_slice(&value.to_le_bytes());
        Ok(())
    }

    /// Appends the field `name` with an integer of 64 bits.
    ///
    /// # Errors
    /// If the name has a zero.
    pub fn long(&mut self, name: &str, value: i64) -> Written {
        self.name(kind::INT64, name)?;
        self.out.extend_from_slice(&value.to_le_bytes());
        Ok(())
    }

    /// Appends the field `name` with true or false.
    ///
    /// # Errors
    /// If the name has a zero.
    pub fn bool(&mut self, name: &str, value: bool) -> Written {
        self.name(kind::BOOL, name)?;
        self.out.push(value.into());
        Ok(())
    }

    /// Appends the field `name` with null.
    ///
    /// # Errors
    /// If the name has a zero.
    pub fn null(&mut self, name: &str) -> Written {
        self.name(kind::NULL, name)
    }

    /// Appends the field `name` with an ObjectId.
    ///
    /// # Errors
    /// If the name has a zero.
    pub fn object_id(&mut self, name: &str, id: ObjectId) -> Written {
        self.name(kind::OBJECT_ID, name)?;
        self.out.extend_from_slice(id.as_bytes());
        Ok(())
    }

    /// Appends the field `name` with bytes of the generic subtype.
    ///
    /// # Errors
    /// If the name has a zero, or there are more than 2 GiB.
    pub fn bytes(&mut self, name: &str, bytes: &[u8]) -> Written {
        self.name(kind::BINARY, name)?;
        put_binary(bytes, kind::GENERIC, self.out).map_err(|error| error.inside(name))
    }

    /// Appends the field `name` with a date, cut to milliseconds.
    ///
    /// # Errors
    /// If the name has a zero.
    pub fn datetime(&mut self, name: &str, time: DateTime) -> Written {
        self.name(kind::DATE, name)?;
        put_date(time, self.out);
        Ok(())
    }

    /// Appends the field `name` with a timestamp: the seconds above the increment.
    ///
    /// # Errors
    /// If the name has a zero.
    pub(crate) fn timestamp(&mut self, name: &str, bits: u64) -> Written {
        self.name(kind::TIMESTAMP, name)?;
        self.out.extend_from_slice(&bits.to_le_bytes());
        Ok(())
    }

    fn name(&mut self, kind: u8, name: &str) -> Written {
        match self.open.last_mut() {
            Some((_, Some(index))) => {
                put_index(kind, *index, self.out);
                *index += 1;
                Ok(())
            }
            _ => put_name(kind, name, self.out),
        }
    }
}

/// Appends the length of a document, which [`end`] writes; returns its offset.
fn begin(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; 4]);
    out.len() - 4
}

/// Ends the document that begins at `start`.
fn end(start: usize, out: &mut Vec<u8>) -> Written {
    out.push(0);
    let len = length(out.len() - start, start)?;
    out[start..start + 4].copy_from_slice(&len);
    Ok(())
}

fn length(len: usize, offset: usize) -> Result<[u8; 4], BsonError> {
    match i32::try_from(len) {
        Ok(len) => Ok(len.to_le_bytes()),
        Err(_) => Err(BsonError::new(offset, format!("at most 2 GiB, found {len} bytes"))),
    }
}

fn put_name(kind: u8, name: &str, out: &mut Vec<u8>) -> Written {
    if has_zero(name) {
        return Err(BsonError::new(out.len(), "a name without a zero").inside(name));
    }
    push_name(kind, name, out);
    Ok(())
}

fn has_zero(name: &str) -> bool {
    memchr::memchr(0, name.as_bytes()).is_some()
}

fn push_name(kind: u8, name: &str, out: &mut Vec<u8>) {
    out.push(kind);
    out.extend_from_slice(name.as_bytes());
    out.push(0);
}

/// Appends the name of an element of an array: its index in decimal.
fn put_index(kind: u8, index: usize, out: &mut Vec<u8>) {
    out.push(kind);
    let mut digits = [0; 20];
    let (mut at, mut rest) = (digits.len(), index);
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
    out.push(0);
}

fn malformed(malformed: Malformed, offset: usize) -> BsonError {
    BsonError::new(offset, format!("a document that is not damaged: {malformed}"))
}

/// Returns how deep the values in an array or map may be nested, which may be nested `depth` deep
/// itself. Stored bytes that are damaged must not exhaust the stack.
fn inner(depth: usize, out: &[u8]) -> Result<usize, BsonError> {
    depth
        .checked_sub(1)
        .ok_or_else(|| BsonError::new(out.len(), format!("nesting of at most {DEPTH_MAX} levels")))
}

/// Appends a map as a document.
fn put_map(view: &View<'_>, depth: usize, out: &mut Vec<u8>) -> Written {
    let start = begin(out);
    if !put_fields(view, depth, |_name| false, out)? {
        out.truncate(start + 4);
        put_pairs(view, depth, |_name| false, out)?;
    }
    end(start, out)
}

/// Appends the fields of a map, without those that are out. Returns false, and appends some of
/// them, if a key is no text, or has a zero.
///
/// No map and no array is written before all keys are looked at: what is nested would be written
/// again at each level.
#[inline]
fn put_fields(
    view: &View<'_>,
    depth: usize,
    is_out: impl Fn(&str) -> bool,
    out: &mut Vec<u8>,
) -> Result<bool, BsonError> {
    let inner = inner(depth, out)?;
    let mut is_checked = false;
    for field in view.fields().map_err(|error| malformed(error, out.len()))? {
        let at = out.len();
        let (key, value) = field.map_err(|error| malformed(error, at))?;
        let FieldKey::Name(name) = key else { return Ok(false) };
        if is_out(name) {
            continue;
        }
        if has_zero(name) {
            return Ok(false);
        }
        let is_nested = value.is_map() || value.is_array();
        if is_nested && !is_checked && !has_names(view, &is_out) {
            return Ok(false);
        }
        is_checked |= is_nested;
        push_name(kind::NULL, name, out);
        put_value(&value, inner, at, out).map_err(|error| error.inside(name))?;
    }
    Ok(true)
}

/// Returns whether all keys of a map, without those that are out, are text without a zero. Damage
/// is an error when the map is written.
///
/// It is a function of its own, so that each level of nesting takes little stack.
#[inline(never)]
fn has_names(view: &View<'_>, is_out: &impl Fn(&str) -> bool) -> bool {
    let is_name = |key: FieldKey<'_>| match key {
        FieldKey::Name(name) => !has_zero(name) || is_out(name),
        FieldKey::Value(_) => false,
    };
    let is_damaged_or_name = |field: Result<(FieldKey<'_>, View<'_>), Malformed>| {
        field.map_or(true, |(key, _)| is_name(key))
    };
    view.fields().map_or(true, |mut fields| fields.all(is_damaged_or_name))
}

/// Refuses names in a value that are no text, or have a zero: what is read back from BSON would
/// have other names. The value may be nested `depth` deep.
fn check(view: &View<'_>, depth: usize) -> Written {
    if view.is_map() {
        let inner = inner(depth, &[])?;
        for field in view.fields().map_err(|error| malformed(error, 0))? {
            let (key, value) = field.map_err(|error| malformed(error, 0))?;
            match key {
                FieldKey::Name(name) if has_zero(name) => {
                    return Err(BsonError::new(0, "a name without a zero").inside(name));
                }
                FieldKey::Name(name) => check(&value, inner).map_err(|error| error.inside(name))?,
                FieldKey::Value(_) => {
                    return Err(BsonError::new(0, "a map whose names are text"));
                }
            }
        }
    } else if view.is_array() {
        let inner = inner(depth, &[])?;
        for (index, item) in view.items().map_err(|error| malformed(error, 0))?.enumerate() {
            let item = item.map_err(|error| malformed(error, 0))?;
            check(&item, inner).map_err(|error| error.inside(&format!("[{index}]")))?;
        }
    }
    Ok(())
}

fn put_items(view: &View<'_>, depth: usize, out: &mut Vec<u8>) -> Written {
    let inner = inner(depth, out)?;
    let start = begin(out);
    for (index, item) in view.items().map_err(|error| malformed(error, start))?.enumerate() {
        let at = out.len();
        let item = item.map_err(|error| malformed(error, at))?;
        put_index(kind::NULL, index, out);
        put_value(&item, inner, at, out).map_err(|error| error.inside(&format!("[{index}]")))?;
    }
    end(start, out)
}

/// Appends a map with keys of any type as the field `"$pairs":[[key, value], ..]`, without those
/// that are out.
#[cold]
fn put_pairs(
    view: &View<'_>,
    depth: usize,
    is_out: impl Fn(&str) -> bool,
    out: &mut Vec<u8>,
) -> Written {
    let inner = inner(depth, out)?;
    put_name(kind::ARRAY, "$pairs", out)?;
    let (list, mut index) = (begin(out), 0);
    for field in view.fields().map_err(|error| malformed(error, list))? {
        let (key, value) = field.map_err(|error| malformed(error, list))?;
        if matches!(key, FieldKey::Name(name) if is_out(name)) {
            continue;
        }
        put_index(kind::ARRAY, index, out);
        index += 1;
        let pair = begin(out);
        match key {
            FieldKey::Name(name) => {
                put_index(kind::STRING, 0, out);
                put_text(name, out)?;
            }
            FieldKey::Value(key) => {
                let at = out.len();
                put_index(kind::NULL, 0, out);
                put_value(&key, inner, at, out)?;
            }
        }
        let at = out.len();
        put_index(kind::NULL, 1, out);
        put_value(&value, inner, at, out)?;
        end(pair, out)?;
    }
    end(list, out)
}

/// Appends a value that may be nested `depth` deep. Its type goes to offset `at`; its name is there
/// already.
///
/// Scalars have a function of their own, so that each level of nesting takes little stack.
fn put_value(view: &View<'_>, depth: usize, at: usize, out: &mut Vec<u8>) -> Written {
    out[at] = if view.is_map() {
        match put_form(view, depth, out)? {
            Some(kind) => kind,
            None => {
                put_map(view, depth, out)?;
                kind::DOCUMENT
            }
        }
    } else if view.is_array() {
        put_items(view, depth, out)?;
        kind::ARRAY
    } else {
        put_scalar(view, at, out)?
    };
    Ok(())
}

/// Appends a value that is neither an array nor a map; returns its type.
#[inline]
fn put_scalar(view: &View<'_>, at: usize, out: &mut Vec<u8>) -> Result<u8, BsonError> {
    Ok(match view.value_type() {
        ValueType::Text => {
            let Some(text) = view.as_str() else {
                return Err(BsonError::new(at, "text in UTF-8"));
            };
            put_text(text, out)?;
            kind::STRING
        }
        ValueType::Number => put_number(view, at, out)?,
        ValueType::Bool => {
            out.push(view.as_bool().unwrap_or_default().into());
            kind::BOOL
        }
        ValueType::ObjectId => {
            let id = view.as_object_id().ok_or_else(|| BsonError::new(at, "an ObjectId"))?;
            out.extend_from_slice(id.as_bytes());
            kind::OBJECT_ID
        }
        ValueType::DateTime => {
            put_date(view.as_datetime().unwrap_or_default(), out);
            kind::DATE
        }
        ValueType::Bytes => {
            put_binary(view.as_bytes().unwrap_or_default(), kind::GENERIC, out)?;
            kind::BINARY
        }
        ValueType::Uuid => {
            put_binary(view.as_uuid().map_or(&[], |uuid| &uuid[..]), kind::UUID, out)?;
            kind::BINARY
        }
        ValueType::Null | ValueType::Array | ValueType::Map => kind::NULL,
    })
}

fn put_text(text: &str, out: &mut Vec<u8>) -> Written {
    out.extend_from_slice(&length(text.len() + 1, out.len())?);
    out.extend_from_slice(text.as_bytes());
    out.push(0);
    Ok(())
}

fn put_binary(bytes: &[u8], subtype: u8, out: &mut Vec<u8>) -> Written {
    if subtype == kind::OLD_BINARY {
        out.extend_from_slice(&length(bytes.len() + 4, out.len())?);
        out.push(subtype);
        out.extend_from_slice(&length(bytes.len(), out.len())?);
    } else {
        out.extend_from_slice(&length(bytes.len(), out.len())?);
        out.push(subtype);
    }
    out.extend_from_slice(bytes);
    Ok(())
}

fn put_date(time: DateTime, out: &mut Vec<u8>) {
    out.extend_from_slice(&time.as_micros().div_euclid(1000).to_le_bytes());
}

/// Appends a number; returns its type.
fn put_number(view: &View<'_>, at: usize, out: &mut Vec<u8>) -> Result<u8, BsonError> {
    let number = view.stored_number().ok_or_else(|| BsonError::new(at, "a number"))?;
    Ok(match number {
        StoredNumber::Int(int) => match i32::try_from(int) {
            Ok(int) => {
                out.extend_from_slice(&int.to_le_bytes());
                kind::INT32
            }
            Err(_wide) => {
                out.extend_from_slice(&int.to_le_bytes());
                kind::INT64
            }
        },
        StoredNumber::Long(int) => {
            out.extend_from_slice(&int.to_le_bytes());
            kind::INT64
        }
        StoredNumber::Float(float) => {
            out.extend_from_slice(&float.to_le_bytes());
            kind::DOUBLE
        }
        StoredNumber::Literal { text, is_wide } if is_wide || is_marked_decimal(text) => {
            put_decimal(text, at, out)?
        }
        StoredNumber::Literal { text, .. } => put_exact(text, at, out)?,
        StoredNumber::Unsigned(_) | StoredNumber::Decimal { .. } => {
            put_exact(&view.to_string(), at, out)?
        }
    })
}

/// Appends an exact number as a double, if that prints the same number, else as a decimal.
fn put_exact(literal: &str, at: usize, out: &mut Vec<u8>) -> Result<u8, BsonError> {
    let double = literal.parse::<f64>().ok().filter(|double| prints_as(*double, literal));
    match double {
        Some(double) => {
            out.extend_from_slice(&double.to_le_bytes());
            Ok(kind::DOUBLE)
        }
        None => put_decimal(literal, at, out),
    }
}

fn put_decimal(literal: &str, at: usize, out: &mut Vec<u8>) -> Result<u8, BsonError> {
    let Some(bytes) = decimal::encode(literal) else {
        let shown = literal.get(..60).unwrap_or(literal);
        let text = format!("a number of at most 34 digits and an exponent of BSON, found {shown}");
        return Err(BsonError::new(at, text));
    };
    out.extend_from_slice(&bytes);
    Ok(kind::DECIMAL)
}

/// Appends the value of another type that a map stands for; returns its type. `None` if the map is
/// none that the reader writes.
fn put_form(view: &View<'_>, depth: usize, out: &mut Vec<u8>) -> Result<Option<u8>, BsonError> {
    let at = out.len();
    let damaged = |error| malformed(error, at);
    let mut fields = view.fields().map_err(damaged)?;
    let Some(first) = fields.next() else { return Ok(None) };
    let (FieldKey::Name(name), value) = first.map_err(damaged)? else { return Ok(None) };
    if !name.starts_with('$') {
        return Ok(None);
    }
    let second = fields.next().transpose().map_err(damaged)?;
    if fields.next().is_some() {
        return Ok(None);
    }
    let form = match (name, second) {
        ("$code", Some((FieldKey::Name("$scope"), scope))) if scope.is_map() => {
            put_code_with_scope(&value, &scope, depth, out)
        }
        (name, None) => put_form_of(name, &value, out),
        _ => return Ok(None),
    };
    let form = form?;
    if form.is_none() {
        out.truncate(at);
    }
    Ok(form)
}

fn put_code_with_scope(
    code: &View<'_>,
    scope: &View<'_>,
    depth: usize,
    out: &mut Vec<u8>,
) -> Result<Option<u8>, BsonError> {
    let Some(code) = code.as_str() else { return Ok(None) };
    let inner = inner(depth, out)?;
    let start = begin(out);
    put_text(code, out)?;
    put_map(scope, inner, out).map_err(|error| error.inside("$scope"))?;
    let len = length(out.len() - start, start)?;
    out[start..start + 4].copy_from_slice(&len);
    Ok(Some(kind::CODE_WITH_SCOPE))
}

/// Returns the two values of a map with these names, in this order, and no others.
fn two<'v>(
    view: &View<'v>,
    first: &str,
    second: &str,
) -> Result<Option<(View<'v>, View<'v>)>, Malformed> {
    let mut fields = view.fields()?;
    let (one, two) = (fields.next().transpose()?, fields.next().transpose()?);
    Ok(match (one, two, fields.next()) {
        (Some((FieldKey::Name(a), one)), Some((FieldKey::Name(b), two)), None)
            if a == first && b == second =>
        {
            Some((one, two))
        }
        _ => None,
    })
}

/// Appends the value of a map of one name.
fn put_form_of(name: &str, value: &View<'_>, out: &mut Vec<u8>) -> Result<Option<u8>, BsonError> {
    let at = out.len();
    let two = |first, second| two(value, first, second).map_err(|error| malformed(error, at));
    let int = |view: &View<'_>| match view.stored_number() {
        Some(StoredNumber::Int(int)) => u32::try_from(int).ok(),
        _ => None,
    };
    Ok(match name {
        "$timestamp" => {
            let parts = two("t", "i")?.and_then(|(t, i)| int(&t).zip(int(&i)));
            parts.map(|(time, increment)| {
                let bits = u64::from(time) << 32 | u64::from(increment);
                out.extend_from_slice(&bits.to_le_bytes());
                kind::TIMESTAMP
            })
        }
        "$regularExpression" => {
            let parts = two("pattern", "options")?;
            let texts = parts.and_then(|(a, b)| a.as_str().zip(b.as_str()));
            let is_free = |text: &str| memchr::memchr(0, text.as_bytes()).is_none();
            // The reader sorts the options.
            let is_one = |a: &str, b: &str| is_free(a) && is_free(b) && b.as_bytes().is_sorted();
            texts.filter(|(a, b)| is_one(a, b)).map(|(pattern, options)| {
                for text in [pattern, options] {
                    out.extend_from_slice(text.as_bytes());
                    out.push(0);
                }
                kind::REGEX
            })
        }
        "$code" | "$symbol" => match value.as_str() {
            Some(text) => {
                put_text(text, out)?;
                Some(if name == "$code" { kind::CODE } else { kind::SYMBOL })
            }
            None => None,
        },
        "$dbPointer" => {
            let parts = two("$ref", "$id")?.and_then(|(a, b)| a.as_str().zip(b.as_object_id()));
            match parts {
                Some((collection, id)) => {
                    put_text(collection, out)?;
                    out.extend_from_slice(id.as_bytes());
                    Some(kind::DB_POINTER)
                }
                None => None,
            }
        }
        "$binary" => {
            let parts = two("base64", "subType")?;
            let texts = parts.and_then(|(a, b)| a.as_str().zip(b.as_str()));
            let subtype = |text: &str| {
                let subtype = u8::from_str_radix(text, 16).ok()?;
                (format!("{subtype:02x}") == text).then_some(subtype)
            };
            let found = texts.and_then(|(data, text)| base64(data).zip(subtype(text)));
            // Those of the other subtypes are bytes and UUIDs, which are no maps.
            let has_type = |(bytes, subtype): &(Vec<u8>, u8)| {
                *subtype == kind::GENERIC || *subtype == kind::UUID && bytes.len() == 16
            };
            match found.filter(|found| !has_type(found)) {
                Some((bytes, subtype)) => {
                    put_binary(&bytes, subtype, out)?;
                    Some(kind::BINARY)
                }
                None => None,
            }
        }
        "$undefined" => (value.as_bool() == Some(true)).then_some(kind::UNDEFINED),
        "$minKey" => (int(value) == Some(1)).then_some(kind::MIN_KEY),
        "$maxKey" => (int(value) == Some(1)).then_some(kind::MAX_KEY),
        _ => None,
    })
}
