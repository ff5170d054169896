//! The arguments of a command.

use crate::bson::{Element, elements, kind};
use crate::failure::{Code, Failure, Outcome};
use flagstone::View;
use flagstone::doc::{FieldKey, ValueType};
use flagstone::internal::document::NumberType;

/// A map of arguments: a command, or a statement of one.
#[derive(Clone, Copy)]
pub(crate) struct Args<'a> {
    view: View<'a>,
    /// What the map is, for errors: `find`, `updates[3]`.
    what: &'a str,
}

/// Types that are stored as maps, by the names of these.
pub(super) const FORMS: [&str; 9] = [
    "$binary",
    "$timestamp",
    "$regularExpression",
    "$code",
    "$symbol",
    "$dbPointer",
    "$undefined",
    "$minKey",
    "$maxKey",
];

/// The types of arguments of statements that change documents, as a statement is checked by. Null
/// and undefined count as no argument.
const TYPES: [(&[&str], &[u8], &str); 6] = [
    (&["q", "c", "sort", "collation"], &[kind::DOCUMENT], "a document"),
    (&["u"], &[kind::DOCUMENT, kind::ARRAY], "a document or an array"),
    (&["arrayFilters"], &[kind::ARRAY], "an array"),
    (&["limit"], &[kind::DOUBLE, kind::INT32, kind::INT64, kind::DECIMAL], "a number"),
    (&["hint"], &[kind::DOCUMENT, kind::STRING], "the name or the keys of an index"),
    (
        &["multi", "upsert"],
        &[kind::BOOL, kind::DOUBLE, kind::INT32, kind::INT64, kind::DECIMAL],
        "true or false",
    ),
];

/// Refuses an argument of another type.
fn check_type(what: &str, element: &Element<'_>) -> Outcome {
    if matches!(element.kind, kind::NULL | kind::UNDEFINED) {
        return Ok(());
    }
    match TYPES.iter().find(|(names, ..)| names.contains(&element.name)) {
        Some((_, kinds, expected)) if !kinds.contains(&element.kind) => {
            let is_parsed = matches!(element.name, "u" | "hint");
            let code = if is_parsed { Code::FailedToParse } else { Code::TypeMismatch };
            let text = format!("{what}.{}: expected {expected}", element.name);
            Err(Failure::new(code, text))
        }
        Some(_) if element.name == "arrayFilters" => {
            for filter in elements(element.value)? {
                let filter = filter?;
                if filter.kind != kind::DOCUMENT {
                    let text = format!("{what}.arrayFilters.{}: expected a document", filter.name);
                    return Err(Failure::new(Code::TypeMismatch, text));
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Refuses statements that have other arguments than `known`, or one of another type, or lack a
/// `needed` one, before any of them is carried out.
pub(super) fn check_statements(
    what: &str,
    statements: &[&[u8]],
    known: &[&str],
    needed: &[&str],
) -> Outcome {
    for bson in statements {
        let mut found = 0;
        for element in elements(bson)? {
            let element = element?;
            let name = element.name;
            if !(name.starts_with('$') || known.contains(&name) || COMMON.contains(&name)) {
                return Err(unknown(what, name));
            }
            check_type(what, &element)?;
            let is_null = matches!(element.kind, kind::NULL | kind::UNDEFINED);
            found += usize::from(needed.contains(&name) && !is_null);
        }
        if found < needed.len() {
            let is_given = |one: &Element<'_>, name: &str| {
                one.name == name && !matches!(one.kind, kind::NULL | kind::UNDEFINED)
            };
            let has = |name: &str| {
                elements(bson)
                    .is_ok_and(|mut all| all.any(|one| one.is_ok_and(|one| is_given(&one, name))))
            };
            if let Some(name) = needed.iter().find(|name| !has(name)) {
                return Err(missing(what, name));
            }
        }
    }
    Ok(())
}

#[cold]
fn unknown(what: &str, name: &str) -> Failure {
    Failure::new(Code::IDLUnknownField, format!("BSON field '{what}.{name}' is an unknown field"))
}

#[cold]
fn missing(what: &str, name: &str) -> Failure {
    let text = format!("BSON field '{what}.{name}' is missing but a required field");
    Failure::new(Code::IDLFailedToParse, text)
}

/// Returns whether a value is a document, and does not stand for a value of another type.
pub(super) fn is_document(value: &View<'_>) -> Outcome<bool> {
    if !value.is_map() {
        return Ok(false);
    }
    let first = value.fields()?.next().transpose()?;
    let Some((FieldKey::Name(name), _)) = first else { return Ok(true) };
    let is_form = FORMS.contains(&name)
        && (value.len()? == 1 || name == "$code" && value.get("$scope")?.is_some());
    Ok(!is_form)
}

/// Returns an integer; `None` for a number of another type, also if it is whole.
pub(super) fn long(value: &View<'_>) -> Outcome<Option<i64>> {
    // A client that sends JSON has one type of integers.
    let is_integer =
        matches!(NumberType::of(&value.to_value()?), Some(NumberType::Int | NumberType::Long));
    Ok(value.as_i64().filter(|_| is_integer))
}

/// Returns whether a value is bytes of any subtype.
pub(super) fn is_binary(value: &View<'_>) -> Outcome<bool> {
    let is_other = value.is_map() && value.get("$binary")?.is_some();
    Ok(is_other || matches!(value.value_type(), ValueType::Bytes | ValueType::Uuid))
}

/// Returns a number as servers of MongoDB cut it: towards zero, or a decimal to the nearest one.
pub(super) fn whole(number: &View<'_>) -> Outcome<f64> {
    let float = number.as_f64().unwrap_or(f64::NAN);
    let is_decimal = NumberType::of(&number.to_value()?) == Some(NumberType::Decimal);
    Ok(if is_decimal { float.round_ties_even() } else { float.trunc() })
}

/// The arguments that every command may have, and which change nothing, or are read for all.
pub(super) const COMMON: &[&str] = &[
    "lsid",
    "txnNumber",
    "stmtId",
    "stmtIds",
    "autocommit",
    "startTransaction",
    "readConcern",
    "writeConcern",
    "maxTimeMS",
    "maxTimeMSOpOnly",
    "comment",
    "apiVersion",
    "apiStrict",
    "apiDeprecationErrors",
    "mayBypassWriteBlocking",
];

/// The answer to a look at the arguments of a command.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Looked {
    /// The client does not want the command to run, but to know what it does.
    pub(crate) asks_help: bool,
    /// The client wants nothing but what every version of the API has.
    pub(crate) is_strict: bool,
}

impl<'a> Args<'a> {
    pub(crate) const fn new(view: View<'a>, what: &'a str) -> Self {
        Self { view, what }
    }

    /// Looks at the arguments of a command, and refuses those that are not known, ask for what is
    /// not done, or ask all commands for it.
    pub(crate) fn look(
        &self,
        fields: &[&str],
        ignored: &[&str],
        refused: &[&str],
    ) -> Outcome<Looked> {
        let mut looked = Looked::default();
        let (mut has_version, mut needs_version) = (false, false);
        for field in self.view.fields()? {
            let (FieldKey::Name(name), value) = field? else { continue };
            has_version |= name == "apiVersion";
            needs_version |= matches!(name, "apiStrict" | "apiDeprecationErrors");
            looked.is_strict |= name == "apiStrict" && is_set(&value);
            match name {
                "apiVersion" if value.as_str() != Some("1") => {
                    let text = format!("apiVersion: expected \"1\", found {}", shown(&value));
                    return Err(Failure::new(Code::APIVersionError, text));
                }
                "encryptionInformation" => {
                    return Err(Failure::unsupported(format_args!("{}.{name}", self.what)));
                }
                "help" => looked.asks_help = is_set(&value),
                name if name.starts_with('$') || name == self.what => {}
                name if fields.contains(&name) || ignored.contains(&name) => {}
                name if refused.contains(&name) => {
                    if is_set(&value) {
                        return Err(Failure::unsupported(format_args!("{}.{name}", self.what)));
                    }
                }
                name if COMMON.contains(&name) || fields == ["*"] => {}
                name => return Err(self.unknown(name)),
            }
        }
        if needs_version && !has_version {
            let text = "apiStrict and apiDeprecationErrors: expected them with apiVersion";
            return Err(Failure::numbered(4_886_600, text));
        }
        Ok(looked)
    }

    #[cold]
    fn unknown(&self, name: &str) -> Failure {
        unknown(self.what, name)
    }

    /// Refuses arguments that are neither `known` nor common to all commands. Names that begin with
    /// `$` belong to the connection.
    pub(crate) fn check(&self, known: &[&str]) -> Outcome {
        if known == ["*"] {
            return Ok(());
        }
        for field in self.view.fields()? {
            let (FieldKey::Name(name), _) = field? else { continue };
            let is_known = |name| known.contains(&name) || COMMON.contains(&name);
            if !(name.starts_with('$') || name == self.what || is_known(name)) {
                return Err(self.unknown(name));
            }
        }
        Ok(())
    }

    /// Returns whether there are no arguments but `known`, and those common to all commands.
    pub(crate) fn has_only(&self, known: &[&str]) -> Outcome<bool> {
        for field in self.view.fields()? {
            let (FieldKey::Name(name), _) = field? else { return Ok(false) };
            if !(name.starts_with('$') || known.contains(&name) || COMMON.contains(&name)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns an argument, and null as it is.
    pub(crate) fn given(&self, name: &str) -> Outcome<Option<View<'a>>> {
        Ok(self.view.get(name)?)
    }

    /// Returns an argument. Null counts as none.
    pub(crate) fn get(&self, name: &str) -> Outcome<Option<View<'a>>> {
        Ok(self.view.get(name)?.filter(|value| !value.is_null()))
    }

    #[cold]
    fn refuse<T>(&self, name: &str, expected: &str, found: &View<'_>) -> Outcome<T> {
        let text = format!("{}.{name}: expected {expected}, found {}", self.what, shown(found));
        Err(Failure::new(Code::TypeMismatch, text))
    }

    #[cold]
    pub(crate) fn missing(&self, name: &str) -> Failure {
        missing(self.what, name)
    }

    pub(crate) fn text(&self, name: &str) -> Outcome<Option<&'a str>> {
        let Some(value) = self.get(name)? else { return Ok(None) };
        value.as_str().map_or_else(|| self.refuse(name, "text", &value), |text| Ok(Some(text)))
    }

    pub(crate) fn required_text(&self, name: &str) -> Outcome<&'a str> {
        self.text(name)?.ok_or_else(|| self.missing(name))
    }

    /// Returns a whole number of any type.
    pub(crate) fn int(&self, name: &str) -> Outcome<Option<i64>> {
        let Some(value) = self.get(name)? else { return Ok(None) };
        if let Some(int) = value.as_i64() {
            return Ok(Some(int));
        }
        // As servers of MongoDB read it: what is no number counts as 0, a double is cut, a decimal
        // is rounded, and what is too large is the largest.
        let float = value.as_f64().filter(|_| value.value_type() == ValueType::Number);
        let Some(float) = float else { return self.refuse(name, "a number", &value) };
        Ok(Some(if float.is_nan() { 0 } else { whole(&value)? as i64 }))
    }

    /// Returns an integer, and no number of another type.
    pub(crate) fn long(&self, name: &str) -> Outcome<Option<i64>> {
        let Some(value) = self.get(name)? else { return Ok(None) };
        match long(&value)? {
            Some(long) => Ok(Some(long)),
            None => self.refuse(name, "an integer", &value),
        }
    }

    /// Returns a whole number from 0 on.
    pub(crate) fn count(&self, name: &str) -> Outcome<Option<u64>> {
        match self.int(name)? {
            None => Ok(None),
            Some(int) => match u64::try_from(int) {
                Ok(count) => Ok(Some(count)),
                Err(_negative) => {
                    let text = format!("{}.{name}: expected 0 or more, found {int}", self.what);
                    Err(Failure::new(Code::BadValue, text))
                }
            },
        }
    }

    /// Returns the milliseconds that a command may take; `None` without a limit.
    pub(crate) fn max_time(&self) -> Outcome<Option<u64>> {
        let Some(value) = self.get("maxTimeMS")? else { return Ok(None) };
        let float = value.as_f64().filter(|_| value.value_type() == ValueType::Number);
        let Some(millis) = float else { return self.refuse("maxTimeMS", "a number", &value) };
        let refuse = |code| {
            let text = format!("maxTimeMS: expected a whole number of milliseconds, found {value}");
            Err(Failure::new(code, text))
        };
        if millis.fract() != 0.0 || !millis.is_finite() || millis.abs() > i64::MAX as f64 {
            return refuse(Code::FailedToParse);
        }
        if !(0.0..=f64::from(i32::MAX)).contains(&millis) {
            return refuse(Code::BadValue);
        }
        Ok(Some(millis as u64).filter(|millis| *millis > 0))
    }

    /// Returns whether an argument is true, or a number other than 0.
    pub(crate) fn is(&self, name: &str) -> Outcome<bool> {
        Ok(self.bool(name)?.unwrap_or(false))
    }

    pub(crate) fn bool(&self, name: &str) -> Outcome<Option<bool>> {
        let Some(value) = self.get(name)? else { return Ok(None) };
        match (value.as_bool(), value.as_f64()) {
            (Some(is), _) => Ok(Some(is)),
            (None, Some(number)) => Ok(Some(number != 0.0)),
            _ => self.refuse(name, "true or false", &value),
        }
    }

    /// As [`Args::bool`], where a number says nothing.
    pub(crate) fn flag(&self, name: &str) -> Outcome<Option<bool>> {
        let Some(value) = self.get(name)? else { return Ok(None) };
        match value.as_bool() {
            Some(is) => Ok(Some(is)),
            None => self.refuse(name, "true or false", &value),
        }
    }

    /// Returns the bytes of a UUID.
    pub(crate) fn uuid(&self, name: &str) -> Outcome<Option<[u8; 16]>> {
        let Some(value) = self.get(name)? else { return Ok(None) };
        if let Some(uuid) = value.as_uuid() {
            return Ok(Some(*uuid));
        }
        // A UUID of another length is stored as a map.
        let subtype = value.path("$binary.subType")?.and_then(|subtype| subtype.as_str());
        let is_other = subtype == Some("04");
        let code = if is_other { Code::InvalidUUID } else { Code::TypeMismatch };
        let text = format!("{}.{name}: expected a UUID, found {}", self.what, shown(&value));
        Err(Failure::new(code, text))
    }

    /// Refuses null where an argument that is left out means something else.
    pub(crate) fn refuse_null(&self, name: &str, code: Code) -> Outcome {
        match self.view.get(name)? {
            Some(value) if value.is_null() => {
                let text = format!("{}.{name}: expected a value, found null", self.what);
                Err(Failure::new(code, text))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn map(&self, name: &str) -> Outcome<Option<View<'a>>> {
        let Some(value) = self.get(name)? else { return Ok(None) };
        if is_document(&value)? { Ok(Some(value)) } else { self.refuse(name, "a document", &value) }
    }

    /// Returns a document that is not empty.
    pub(crate) fn filled_map(&self, name: &str) -> Outcome<Option<View<'a>>> {
        Ok(match self.map(name)? {
            Some(map) if !map.is_empty()? => Some(map),
            _ => None,
        })
    }

    pub(crate) fn required_map(&self, name: &str) -> Outcome<View<'a>> {
        self.map(name)?.ok_or_else(|| self.missing(name))
    }

    pub(crate) fn list(&self, name: &str) -> Outcome<Option<Vec<View<'a>>>> {
        let Some(value) = self.get(name)? else { return Ok(None) };
        if value.is_array() {
            Ok(Some(value.items()?.collect::<Result<_, _>>()?))
        } else {
            self.refuse(name, "an array", &value)
        }
    }

    pub(crate) fn required_list(&self, name: &str) -> Outcome<Vec<View<'a>>> {
        self.list(name)?.ok_or_else(|| self.missing(name))
    }

    /// Refuses an argument that this version does not know, unless it says what is done anyway.
    pub(crate) fn refuse_if(&self, name: &str, means: impl Fn(&View<'a>) -> bool) -> Outcome {
        match self.get(name)? {
            Some(value) if means(&value) => {
                Err(Failure::unsupported(format_args!("{}.{name}", self.what)))
            }
            _ => Ok(()),
        }
    }

    /// Refuses arguments that ask for something.
    pub(crate) fn refuse_set(&self, names: &[&str]) -> Outcome {
        names.iter().try_for_each(|name| self.refuse_if(name, is_set))
    }

    /// Refuses a collation other than the comparison of bytes.
    pub(crate) fn refuse_collation(&self) -> Outcome {
        self.refuse_if("collation", |collation| {
            let locale = collation.get("locale").ok().flatten();
            let is_empty = collation.is_map() && collation.is_empty().unwrap_or(false);
            !(is_empty || locale.is_some_and(|locale| locale.as_str() == Some("simple")))
        })
    }
}

/// Returns whether the value of an argument asks for something.
pub(super) fn is_set(value: &View<'_>) -> bool {
    match (value.as_bool(), value.as_f64(), value.value_type()) {
        (Some(is), ..) => is,
        (_, Some(number), _) => number != 0.0,
        (_, _, ValueType::Map | ValueType::Array) => !value.is_empty().unwrap_or(false),
        (_, _, kind) => kind != ValueType::Null,
    }
}

/// Returns a value as a short text.
fn shown(value: &View<'_>) -> String {
    let mut text = value.to_string();
    if text.len() > 80 {
        let end = text.floor_char_boundary(80);
        text.truncate(end);
        text.push_str("..");
    }
    text
}
