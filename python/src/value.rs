//! Python values as values of documents, exactly, or a `TypeError` that names the path.
//!
//! ```text
//!   None bool int str bytes list dict        as they are; an int of any size
//!   float                                    a binary float
//!   decimal.Decimal                          the number with its digits
//!   datetime with a time zone, uuid.UUID     datetime, uuid
//!   ObjectId, also that of bson              an ObjectId
//!   tuple                                    an array
//!   Document, Mapping                        a map
//!   dataclass, pydantic, msgspec, to_dict(), numpy   what they say of themselves
//! ```

use crate::decode;
use crate::document::Document;
use crate::error::{guarded, invalid};
use crate::models;
use flagstone::Value;
use flagstone::doc::{DateTime, Map, ObjectId};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyBool, PyByteArray, PyBytes, PyDate, PyDateTime, PyDelta, PyDeltaAccess, PyDict, PyFloat,
    PyFrozenSet, PyInt, PyList, PyMapping, PyMemoryView, PySet, PyString, PyTime, PyTuple, PyType,
    PyTzInfo, PyTzInfoAccess,
};
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// The deepest nesting that documents may have. It also ends values that contain themselves.
const DEPTH_MAX: usize = 512;

/// Returns the value of a Python object. `what` begins the path in messages: `$` for a document.
pub(crate) fn of_python(object: &Bound<'_, PyAny>, what: &str) -> PyResult<Value> {
    let py = object.py();
    guarded(py, || read(object, 0).map_err(|refused| refused.raise(py, what)))
}

/// Why a value is refused.
enum Refused {
    /// The reason, and the steps to the part, from the inside to the outside.
    Here(String, Vec<Step>),
    /// An exception of Python.
    Raised(PyErr),
    TooDeep,
}

enum Step {
    Field(String),
    Index(usize),
}

impl From<PyErr> for Refused {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

impl Refused {
    fn inside(mut self, step: impl FnOnce() -> Step) -> Self {
        if let Self::Here(_, steps) = &mut self {
            steps.push(step());
        }
        self
    }

    #[cold]
    fn raise(self, py: Python<'_>, what: &str) -> PyErr {
        match self {
            Self::Raised(error) => error,
            Self::TooDeep => {
                let text = format!("{what}: nested deeper than {DEPTH_MAX} levels, or in itself");
                invalid(py, text)
            }
            Self::Here(reason, steps) => {
                let mut path = what.to_owned();
                for step in steps.iter().rev() {
                    // A String takes everything that is written to it.
                    let _ = match step {
                        Step::Index(index) => write!(path, "[{index}]"),
                        Step::Field(name) => write!(path, "{}", step_of(name)),
                    };
                }
                PyTypeError::new_err(format!("{path}: {reason}"))
            }
        }
    }
}

/// Returns the step of a path to the field `name`, for messages.
pub(crate) fn step_of(name: &str) -> String {
    let is_plain = !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '_');
    if is_plain { format!(".{name}") } else { format!("[{name:?}]") }
}

/// Returns the text of a path of names, for messages.
pub(crate) fn path_of<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.fold("$".into(), |path, name| path + &step_of(name))
}

type Read<T = Value> = Result<T, Refused>;

fn read(object: &Bound<'_, PyAny>, depth: usize) -> Read {
    if let Ok(text) = object.cast::<PyString>() {
        return text_of(text).map(Value::Text);
    }
    if object.is_none() {
        return Ok(Value::Null);
    }
    // Before int, of which bool is a subclass.
    if let Ok(bool) = object.cast::<PyBool>() {
        return Ok(Value::Bool(bool.is_true()));
    }
    if let Ok(int) = object.cast::<PyInt>() {
        return int_of(int);
    }
    if let Ok(float) = object.cast::<PyFloat>() {
        return Ok(Value::Float(float.value()));
    }
    if depth > DEPTH_MAX {
        return Err(Refused::TooDeep);
    }
    if let Ok(dict) = object.cast::<PyDict>() {
        return map(dict.iter().map(Ok), depth);
    }
    if let Ok(list) = object.cast::<PyList>() {
        return array(list.iter(), depth);
    }
    if let Ok(tuple) = object.cast::<PyTuple>() {
        return array(tuple.iter(), depth);
    }
    if let Ok(document) = object.cast::<Document>() {
        return Ok(document.get().to_value(object.py())?);
    }
    bytes_or_time(object)?.map_or_else(|| other(object, depth), Ok)
}

fn text_of(text: &Bound<'_, PyString>) -> Read<String> {
    match text.to_cow() {
        Ok(text) => Ok(text.into_owned()),
        Err(_lone) => {
            Err(Refused::Here("text with a lone surrogate, which is not UTF-8".into(), Vec::new()))
        }
    }
}

fn int_of(int: &Bound<'_, PyInt>) -> Read {
    if let Ok(int) = int.extract::<i64>() {
        return Ok(Value::Int(int));
    }
    // A Decimal has the digits of an int of any size; Python limits the length of the text of an
    // int.
    literal(&decimal_type(int.py())?.call1((int,))?)
}

/// Returns the number of a `Decimal`.
fn literal(decimal: &Bound<'_, PyAny>) -> Read {
    let text = decimal.str()?;
    let text = text.to_cow()?;
    Value::number(&text).ok_or_else(|| {
        Refused::Here(
            format!("Decimal({text:?}) is not a finite number; a float may be one"),
            Vec::new(),
        )
    })
}

fn array<'py>(items: impl Iterator<Item = Bound<'py, PyAny>>, depth: usize) -> Read {
    let item = |(index, item)| read(&item, depth + 1).map_err(|e| e.inside(|| Step::Index(index)));
    items.enumerate().map(item).collect::<Read<Vec<_>>>().map(Value::Array)
}

fn map<'py>(
    pairs: impl Iterator<Item = PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)>>,
    depth: usize,
) -> Read {
    let mut read_pairs = Vec::new();
    for pair in pairs {
        let (key, value) = pair?;
        let name = || Step::Field(key.str().map_or_else(|_| "?".into(), |text| text.to_string()));
        let value = read(&value, depth + 1).map_err(|refused| refused.inside(name))?;
        read_pairs.push((read(&key, depth + 1).map_err(|refused| refused.inside(name))?, value));
    }
    let given = read_pairs.len();
    let map: Map = read_pairs.into_iter().collect();
    if map.len() < given {
        return Err(Refused::Here(
            "a map with two keys that are equal in a document".into(),
            Vec::new(),
        ));
    }
    Ok(Value::Map(map))
}

/// Returns bytes, datetimes, decimals, UUIDs and ObjectIds.
fn bytes_or_time(object: &Bound<'_, PyAny>) -> Read<Option<Value>> {
    let py = object.py();
    if let Ok(bytes) = object.cast::<PyBytes>() {
        return Ok(Some(Value::Bytes(bytes.as_bytes().to_vec())));
    }
    if let Ok(bytes) = object.cast::<PyByteArray>() {
        return Ok(Some(Value::Bytes(bytes.to_vec())));
    }
    if object.cast::<PyMemoryView>().is_ok() {
        return Ok(Some(Value::Bytes(object.call_method0("tobytes")?.extract()?)));
    }
    if let Ok(at) = object.cast::<PyDateTime>() {
        return datetime(at).map(Some);
    }
    if object.is_instance(decimal_type(py)?)? {
        return literal(object).map(Some);
    }
    if object.is_instance(uuid_type(py)?)? {
        let bytes: [u8; 16] = object.getattr("bytes")?.extract()?;
        return Ok(Some(Value::Uuid(bytes)));
    }
    // That of the package `bson` is not imported to be compared with.
    if object.get_type().name()?.to_cow()? == "ObjectId"
        && let Some(binary) = object.getattr_opt("binary")?
        && let Ok(bytes) = binary.extract::<[u8; 12]>()
    {
        return Ok(Some(ObjectId::from_bytes(bytes).into()));
    }
    Ok(None)
}

/// Returns the bytes of a new ObjectId.
#[pyfunction]
pub(crate) fn _new_object_id() -> [u8; 12] {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let micros = i64::try_from(now.as_micros()).unwrap_or(i64::MAX);
    *ObjectId::new(DateTime::from_micros(micros)).as_bytes()
}

fn datetime(at: &Bound<'_, PyDateTime>) -> Read {
    let py = at.py();
    let here = |reason: &str| Refused::Here(reason.into(), Vec::new());
    if at.get_type().name()? == "NaTType" {
        return Err(here("pandas.NaT is no point in time; None is a value that is missing"));
    }
    if at.get_tzinfo().is_none() {
        return Err(here("a datetime without a time zone is no point in time; add tzinfo"));
    }
    // A pandas.Timestamp.
    if at.getattr_opt("nanosecond")?.is_some_and(|nanos| nanos.is_truthy().unwrap_or(true)) {
        return Err(here("a time finer than microseconds"));
    }
    let utc = PyTzInfo::utc(py)?.to_owned();
    let epoch = PyDateTime::new(py, 1970, 1, 1, 0, 0, 0, 0, Some(&utc))?;
    let since = at.sub(epoch)?;
    let since = since.cast::<PyDelta>().map_err(PyErr::from)?;
    let seconds = i64::from(since.get_days()) * 86_400 + i64::from(since.get_seconds());
    let micros = seconds * 1_000_000 + i64::from(since.get_microseconds());
    // A time zone may shift the first and the last hours of what Python has beyond it.
    if !decode::YEARS.contains(&micros) {
        return Err(here("a datetime that in UTC is beyond the years 1 to 9999"));
    }
    Ok(Value::DateTime(DateTime::from_micros(micros)))
}

/// Returns the value of an object that says itself what it consists of.
fn other(object: &Bound<'_, PyAny>, depth: usize) -> Read {
    // A class is no value, though it has the attributes that its instances have.
    if object.cast::<PyType>().is_err() {
        if let Ok(mapping) = object.cast::<PyMapping>() {
            let pairs = mapping.items()?;
            return map(pairs.iter().map(|pair| pair.extract()), depth);
        }
        if object.hasattr("__dataclass_fields__")? || object.hasattr("__attrs_attrs__")? {
            return fields(object, depth);
        }
        // Structs of msgspec and models of pydantic have names and forms of their own.
        if object.hasattr("__struct_fields__")? || object.hasattr("model_dump")? {
            return read(&models::dump(object)?, depth + 1);
        }
        // What other libraries have.
        if let Some(method) = object.getattr_opt("to_dict")? {
            return read(&method.call0()?, depth + 1);
        }
        // Then numpy, whose numbers have it, too.
        if let Some(method) = object.getattr_opt("tolist")? {
            if let Some(reason) = times_of(object)? {
                return Err(Refused::Here(reason.into(), Vec::new()));
            }
            let list = method.call0()?;
            // A number that Python has no type for is returned as it is.
            if !list.get_type().is(object.get_type()) {
                return read(&list, depth + 1);
            }
        }
    }
    let found = object.get_type().fully_qualified_name()?;
    let hint = hint(object)?;
    Err(Refused::Here(format!("{found} is not supported in a document{hint}"), Vec::new()))
}

/// Returns why a scalar or an array of numpy is refused whose values are times. `tolist` makes
/// integers of those in nanoseconds, months or years, and loses the unit.
fn times_of(object: &Bound<'_, PyAny>) -> PyResult<Option<&'static str>> {
    match object.getattr_opt("dtype")? {
        Some(dtype)
            if dtype.get_type().getattr("__module__")?.str()?.to_cow()?.starts_with("numpy") =>
        {
            times_of_type(&dtype)
        }
        _ => Ok(None),
    }
}

fn times_of_type(dtype: &Bound<'_, PyAny>) -> PyResult<Option<&'static str>> {
    let kind: String = dtype.getattr("kind")?.extract()?;
    match kind.as_str() {
        "M" => Ok(Some(
            "a numpy.datetime64 has no time zone and is no point in time; use a datetime with one",
        )),
        "m" => Ok(Some("numpy.timedelta64 is not supported in a document; use a number")),
        // A record.
        _ => {
            let names = dtype.getattr("names")?;
            for name in names.extract::<Option<Vec<String>>>()?.unwrap_or_default() {
                let field = dtype.get_item(name)?;
                if let Some(reason) = times_of_type(&field.getattr("base")?)? {
                    return Ok(Some(reason));
                }
            }
            Ok(None)
        }
    }
}

/// Returns what to use instead.
fn hint(object: &Bound<'_, PyAny>) -> PyResult<&'static str> {
    static ENUM: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = object.py();
    Ok(if object.cast::<PyDate>().is_ok() {
        "; use a datetime with a time zone, or its isoformat()"
    } else if object.cast::<PyTime>().is_ok() {
        "; use its isoformat()"
    } else if object.cast::<PyDelta>().is_ok() {
        "; use its total_seconds()"
    } else if object.cast::<PySet>().is_ok() || object.cast::<PyFrozenSet>().is_ok() {
        "; use a list"
    } else if object.is_instance(ENUM.import(py, "enum", "Enum")?)? {
        "; use its value"
    } else if object.get_type().name()? == "NAType" {
        "; None is a value that is missing"
    } else {
        ""
    })
}

/// Returns the fields of a dataclass or an attrs class.
fn fields(object: &Bound<'_, PyAny>, depth: usize) -> Read {
    let all = if object.hasattr("__dataclass_fields__")? {
        // Class variables and arguments of the constructor alone are no fields.
        object.py().import("dataclasses")?.call_method1("fields", (object,))?
    } else {
        object.getattr("__attrs_attrs__")?
    };
    let names = all.try_iter()?.map(|field| field?.getattr("name")?.extract());
    let names: Vec<String> = names.collect::<PyResult<_>>()?;
    let pair = |name: String| {
        let value = object.getattr(name.as_str())?;
        Ok((PyString::new(object.py(), &name).into_any(), value))
    };
    map(names.into_iter().map(pair), depth)
}

pub(crate) fn decimal_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "decimal", "Decimal")
}

pub(crate) fn uuid_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "uuid", "UUID")
}

pub(crate) fn object_id_type(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    CLASS.import(py, "flagstone.objectid", "ObjectId")
}
