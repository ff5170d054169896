//! Iterators over the values of an array and the fields of a map.

use super::body::{Body, ValueOffset};
use super::view::View;
use crate::layout::form;
use flagstone_base::{Decoder, Malformed};

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
