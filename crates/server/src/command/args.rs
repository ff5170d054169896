//! The arguments of a command.

use crate::failure::{Code, Failure, Outcome};
use flagstone::View;
use flagstone::doc::{FieldKey, ValueType};

/// A map of arguments: a command, or a statement of one.
#[derive(Clone, Copy)]
pub(crate) struct Args<'a> {
    view: View<'a>,
    /// What the map is, for errors: `find`, `updates[3]`.
    what: &'a str,
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
        for field in self.view.fields()? {
            let (FieldKey::Name(name), value) = field? else { continue };
            match name {
                "readConcern" => self.check_read_concern(&value)?,
                "writeConcern" => self.check_write_concern(&value)?,
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
        Ok(looked)
    }

    /// Refuses reads as of a moment that nothing keeps, and levels that there are not.
    fn check_read_concern(&self, concern: &View<'a>) -> Outcome {
        let concern = Args::new(*concern, "readConcern");
        if !concern.view.is_map() {
            return self.refuse("readConcern", "a document", &concern.view);
        }
        concern.check(&["level", "afterClusterTime", "atClusterTime", "provenance"])?;
        concern.refuse_if("atClusterTime", |_time| true)?;
        match concern.text("level")? {
            Some("snapshot") if self.get("autocommit")?.is_none() => {
                Err(Failure::unsupported("readConcern.level: snapshot outside of a transaction"))
            }
            None | Some("local" | "available" | "majority" | "linearizable" | "snapshot") => Ok(()),
            Some(other) => {
                let text = format!(
                    "readConcern.level: expected local, available, majority, linearizable or \
                     snapshot, found {other:?}"
                );
                Err(Failure::new(Code::FailedToParse, text))
            }
        }
    }

    fn check_write_concern(&self, concern: &View<'a>) -> Outcome {
        let concern = Args::new(*concern, "writeConcern");
        if !concern.view.is_map() {
            return self.refuse("writeConcern", "a document", &concern.view);
        }
        // Nobody else is waited for, so no wait takes too long.
        concern.check(&["w", "j", "wtimeout", "wtimeoutMS", "fsync", "provenance"])?;
        match concern.get("w")? {
            Some(w) if w.as_str().is_some_and(|w| w != "majority") => {
                let text = format!("writeConcern.w: there are no members tagged {}", shown(&w));
                Err(Failure::new(Code::UnknownReplWriteConcern, text))
            }
            // Drivers of languages that have one type of numbers send doubles.
            Some(w) if w.as_str().is_none() => match w.as_f64() {
                Some(0.0 | 1.0) => Ok(()),
                Some(members) if members.fract() == 0.0 && (2.0..=50.0).contains(&members) => {
                    let text = "writeConcern.w: expected 0, 1 or majority: this server is alone";
                    Err(Failure::new(Code::UnsatisfiableWriteConcern, text))
                }
                _ => {
                    let text = format!(
                        "writeConcern.w: expected majority or a number from 0 to 50, found {}",
                        shown(&w)
                    );
                    Err(Failure::new(Code::FailedToParse, text))
                }
            },
            _ => Ok(()),
        }
    }

    #[cold]
    fn unknown(&self, name: &str) -> Failure {
        let text = format!("BSON field '{}.{name}' is an unknown field", self.what);
        Failure::new(Code::IDLUnknownField, text)
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
        let text = format!("BSON field '{}.{name}' is missing but a required field", self.what);
        Failure::new(Code::IDLFailedToParse, text)
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
        let whole = value.as_i64().or_else(|| {
            let float = value.as_f64().filter(|_| value.value_type() == ValueType::Number)?;
            // Drivers of languages that have one type of numbers send doubles.
            (float.fract() == 0.0 && float.abs() < 9e15).then_some(float as i64)
        });
        whole.map_or_else(|| self.refuse(name, "a whole number", &value), |int| Ok(Some(int)))
    }

    /// Returns a whole number from 0 on.
    pub(crate) fn count(&self, name: &str) -> Outcome<Option<u64>> {
        match self.int(name)? {
            None => Ok(None),
            Some(int) => match u64::try_from(int) {
                Ok(count) => Ok(Some(count)),
                Err(_negative) => {
                    let text = format!("{}.{name}: expected 0 or more, found {int}", self.what);
                    // Servers of MongoDB say so.
                    Err(Failure::new(Code::Location51024, text))
                }
            },
        }
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

    pub(crate) fn map(&self, name: &str) -> Outcome<Option<View<'a>>> {
        let Some(value) = self.get(name)? else { return Ok(None) };
        if value.is_map() { Ok(Some(value)) } else { self.refuse(name, "a document", &value) }
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
fn is_set(value: &View<'_>) -> bool {
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
