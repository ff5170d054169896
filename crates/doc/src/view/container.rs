//! Reads arrays and maps: lookups, iterators, and values with all that is in them.

use super::body::{Body, ValueOffset};
use super::view::View;
use crate::datetime::DateTime;
use crate::depth::{DEPTH_MAX, TOO_DEEP};
use crate::field_name::{FieldName, without_root};
use crate::layout::{form, signed, tag};
use crate::map::Map;
use crate::names::Names;
use crate::utf8::from_utf8;
use crate::value::Value;
use flagstone_base::{Decoder, Malformed};
use std::fmt;

/// A view that is opened to look up several fields: it costs less than to open it for each.
#[derive(Clone, Copy)]
pub struct OpenView<'a> {
    pub(crate) view: View<'a>,
    /// The inside of a map whose names are in the table.
    body: Option<(Body<'a>, &'a Names)>,
}

impl<'a> OpenView<'a> {
    /// As [`View::len`], without opening the map again.
    ///
    /// # Errors
    /// If the bytes read are malformed.
    #[inline]
    pub fn count(&self) -> Result<usize, Malformed> {
        self.body.as_ref().map_or_else(|| self.view.len(), |(body, _names)| Ok(body.count))
    }

    /// Returns the field `name` of a map; remembers the id of the name for the next document.
    #[inline]
    pub(crate) fn field(&self, name: &FieldName) -> Result<Option<View<'a>>, Malformed> {
        let Some((body, names)) = &self.body else { return self.view.get(name.as_str()) };
        let Some(id) = name.id(names) else { return Ok(None) };
        body.find_id(id).map(|index| body.value(body.place(index))).transpose()
    }
}

/// Arrays and maps. Of other values there are no items, no fields, and a length of 0.
impl<'a> View<'a> {
    /// Iterates over the elements of an array, in order. There are none if the value is not an
    /// array.
    ///
    /// ```
    /// use flagstone_doc::Document;
    /// let document = Document::from_json("[1,[2],3]")?;
    /// let mut kinds = Vec::new();
    /// for item in document.root().items()? {
    ///     kinds.push(item?.is_array());
    /// }
    /// assert_eq!(kinds, [false, true, false]);
    /// assert_eq!(Document::from_json("7")?.root().items()?.count(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the bytes read are malformed.
    pub fn items(&self) -> Result<Items<'a>, Malformed> {
        Items::new(if self.tag == tag::ARRAY_4 { Some(Body::open(self)?) } else { None })
    }

    /// Iterates over the keys and values of a map, in stored order. There are none if the value is
    /// not a map.
    ///
    /// ```
    /// use flagstone_doc::{Document, FieldKey};
    /// let document = Document::from_json(r#"{"b":1,"a":2}"#)?;
    /// let mut found = Vec::new();
    /// for field in document.root().fields()? {
    ///     let (FieldKey::Name(name), value) = field? else { continue };
    ///     found.push((name, value.as_i64()));
    /// }
    /// assert_eq!(found, [("b", Some(1)), ("a", Some(2))]);        // in stored order
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the bytes read are malformed.
    pub fn fields(&self) -> Result<Fields<'a>, Malformed> {
        Fields::new(if self.tag == tag::MAP_4 { Some(Body::open(self)?) } else { None })
    }

    /// Returns the inside of a map whose names are all in the table, and the table.
    #[inline]
    pub(crate) fn known_names(&self) -> Result<Option<(Body<'a>, &'a Names)>, Malformed> {
        let has_ids = matches!(self.form, form::IDS_1 | form::IDS_2) && self.tag == tag::MAP_4;
        match self.names.filter(|_| has_ids) {
            Some(names) => Ok(Some((Body::open(self)?, names))),
            None => Ok(None),
        }
    }

    /// Returns the number of elements of an array or of pairs of a map; 0 for other values.
    ///
    /// # Errors
    /// If the bytes read are malformed.
    pub fn len(&self) -> Result<usize, Malformed> {
        if !matches!(self.tag, tag::ARRAY_4 | tag::MAP_4) {
            return Ok(0);
        }
        let body = Body::open(self)?;
        Ok(if self.form == form::PAIRS { body.count / 2 } else { body.count })
    }

    /// Returns whether [`View::len`] is 0.
    ///
    /// # Errors
    /// If the bytes read are malformed.
    pub fn is_empty(&self) -> Result<bool, Malformed> {
        self.len().map(|len| len == 0)
    }

    /// Returns the field `name` of a map; `None` if there is none or the value is not a map.
    ///
    /// Decodes nothing else: the lookup searches the keys for the name's id, then adds up widths.
    ///
    /// # Errors
    /// If the bytes read are malformed.
    pub fn get(&self, name: &str) -> Result<Option<View<'a>>, Malformed> {
        if self.tag != tag::MAP_4 {
            return Ok(None);
        }
        if self.form == form::PAIRS {
            for field in self.fields()? {
                let (FieldKey::Value(key), value) = field? else { continue };
                if key.as_text_bytes() == Some(name.as_bytes()) {
                    return Ok(Some(value));
                }
            }
            return Ok(None);
        }
        let body = Body::open(self)?;
        body.find(name)?.map(|index| body.value(body.place(index))).transpose()
    }

    /// Returns the field `name` of a map; remembers the id of the name for the next document.
    ///
    /// # Errors
    /// If the bytes read are malformed.
    #[inline]
    pub(crate) fn field(&self, name: &FieldName) -> Result<Option<View<'a>>, Malformed> {
        self.opened()?.field(name)
    }

    /// Opens a map to look up several fields.
    ///
    /// ```
    /// use flagstone_doc::Document;
    /// let document = Document::from_json(r#"{"a":1,"b":2}"#)?;
    /// let opened = document.root().opened()?;
    /// assert_eq!(opened.count()?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the bytes read are malformed.
    #[inline]
    pub fn opened(&self) -> Result<OpenView<'a>, Malformed> {
        Ok(OpenView { view: *self, body: self.known_names()? })
    }

    /// Returns the element `index` of an array; `None` beyond its end or if the value is not an
    /// array.
    ///
    /// # Errors
    /// If the bytes read are malformed.
    pub fn at(&self, index: usize) -> Result<Option<View<'a>>, Malformed> {
        if self.tag != tag::ARRAY_4 {
            return Ok(None);
        }
        let body = Body::open(self)?;
        (index < body.count).then(|| body.value(body.place(index))).transpose()
    }

    /// Returns the value at a dotted path: `id`, `a.b`, `tags.0`. `$.a.b` is `a.b`. A path cannot
    /// reach a name that contains a dot.
    ///
    /// ```
    /// use flagstone_doc::Document;
    /// let document = Document::from_json(r#"{"author":{"name":"ada"},"tags":["a"],"x.y":1}"#)?;
    /// let root = document.root();
    /// assert_eq!(root.path("author.name")?.and_then(|name| name.as_str()), Some("ada"));
    /// assert!(root.path("tags.1")?.is_none() && root.path("x.y")?.is_none());
    /// assert!(root.get("x.y")?.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the bytes read are malformed.
    pub fn path(&self, path: &str) -> Result<Option<View<'a>>, Malformed> {
        let mut view = *self;
        for step in without_root(path).split('.') {
            let next = match view.tag {
                tag::MAP_4 => view.get(step)?,
                tag::ARRAY_4 => match step.parse() {
                    Ok(index) => view.at(index)?,
                    Err(_no_index) => None,
                },
                _ => None,
            };
            let Some(next) = next else { return Ok(None) };
            view = next;
        }
        Ok(Some(view))
    }

    /// Decodes the value into memory, independent of the bytes.
    ///
    /// ```
    /// use flagstone_doc::{Document, doc};
    /// let document = Document::from_json(r#"{"author":{"name":"ada"},"body":"long"}"#)?;
    /// let author = document.get("author").expect("it has one").to_value()?;
    /// drop(document);
    /// assert_eq!(author, doc!({ "name": "ada" }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// If the bytes read are malformed.
    pub fn to_value(&self) -> Result<Value, Malformed> {
        self.decoded(DEPTH_MAX)
    }

    fn decoded(&self, depth: usize) -> Result<Value, Malformed> {
        if let Some(text) = self.as_text_bytes() {
            let text = from_utf8(text).ok_or_else(|| self.malformed("text in UTF-8"))?;
            return Ok(Value::Text(text.to_owned()));
        }
        let is_container = matches!(self.tag, tag::ARRAY_4 | tag::MAP_4);
        if is_container && depth == 0 {
            return Err(self.malformed(TOO_DEEP));
        }
        Ok(match self.tag {
            tag::NULL => Value::Null,
            tag::FALSE => Value::Bool(false),
            tag::TRUE => Value::Bool(true),
            tag::EMPTY_ARRAY => Value::Array(Vec::new()),
            tag::EMPTY_MAP => Value::object(),
            tag::DATE_TIME => Value::DateTime(DateTime::from_micros(signed(self.payload))),
            tag::UUID => Value::Uuid(*self.as_uuid().ok_or(self.malformed("a uuid"))?),
            tag::OBJECT_ID => {
                Value::ObjectId(self.as_object_id().ok_or(self.malformed("an ObjectId"))?)
            }
            tag::BYTES_1 | tag::BYTES_4 => Value::Bytes(self.payload.to_vec()),
            tag::ARRAY_4 => {
                let items: Result<_, _> =
                    self.items()?.map(|item| item?.decoded(depth - 1)).collect();
                Value::Array(items?)
            }
            tag::MAP_4 => Value::Map(self.decoded_map(depth)?),
            _ => self.number().ok_or(self.malformed("a number"))?,
        })
    }

    fn decoded_map(&self, depth: usize) -> Result<Map, Malformed> {
        let mut pairs = Vec::new();
        for field in self.fields()? {
            let (key, value) = field?;
            let key = match key {
                FieldKey::Name(name) => Value::Text(name.to_owned()),
                FieldKey::Value(key) => key.decoded(depth - 1)?,
            };
            pairs.push((key, value.decoded(depth - 1)?));
        }
        Ok(Map::from_distinct(pairs))
    }
}

impl fmt::Display for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.to_value() {
            Ok(value) => write!(f, "{value}"),
            Err(malformed) => write!(f, "<malformed {malformed}>"),
        }
    }
}

impl fmt::Debug for View<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The key of a field of a map.
#[derive(Clone, Copy, Debug)]
pub enum FieldKey<'a> {
    /// A name; all keys of this map are names.
    Name(&'a str),
    /// A value of any type; at least one key of this map is not a name.
    Value(View<'a>),
}

/// An iterator over the values of an array, in order.
#[derive(Clone, Debug)]
pub struct Items<'a> {
    body: Option<(Body<'a>, ValueOffset)>,
}

impl<'a> Items<'a> {
    pub(super) fn new(body: Option<Body<'a>>) -> Result<Self, Malformed> {
        Ok(Self { body: body.map(|body| (body, body.start())) })
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = Result<View<'a>, Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (body, place) = self.body.as_mut()?;
        if place.index == body.count {
            return None;
        }
        let value = body.next(place);
        if value.is_err() {
            place.index = body.count;
        }
        Some(value)
    }
}

/// An iterator over the keys and values of a map, in order. Pairs with keys of any value come in
/// the order of the keys.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    items: Items<'a>,
    keys: Decoder<'a>,
}

impl<'a> Fields<'a> {
    pub(super) fn new(body: Option<Body<'a>>) -> Result<Self, Malformed> {
        let keys = Decoder::new(body.as_ref().map_or(&[], |body| body.keys));
        Ok(Self { items: Items::new(body)?, keys })
    }
}

/// Decodes the next name of a map of names.
#[inline]
fn name<'a>(body: &Body<'a>, keys: &mut Decoder<'a>) -> Result<&'a str, Malformed> {
    let id = match body.form {
        form::INLINE_NAMES => return keys.text("a name"),
        form::IDS_1 => keys.u8("a name")?.into(),
        _ => keys.u16("a name")?.into(),
    };
    let Some(names) = body.names else {
        return Err(body.refuse(0, "a names table for the document"));
    };
    names.lookup(id).ok_or(body.refuse(0, "defined names"))
}

/// Decodes the field at `place` and moves `place` to the next one.
#[inline]
fn field<'a>(
    body: &Body<'a>,
    place: &mut ValueOffset,
    keys: &mut Decoder<'a>,
) -> Result<(FieldKey<'a>, View<'a>), Malformed> {
    let key = if body.form == form::PAIRS {
        FieldKey::Value(body.next(place)?)
    } else {
        FieldKey::Name(name(body, keys)?)
    };
    Ok((key, body.next(place)?))
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(FieldKey<'a>, View<'a>), Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let (body, place) = self.items.body.as_mut()?;
        if place.index == body.count {
            return None;
        }
        let field = field(body, place, &mut self.keys);
        if field.is_err() {
            place.index = body.count;
        }
        Some(field)
    }
}
