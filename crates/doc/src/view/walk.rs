//! Walking the values of an array and the fields of a map.

use super::body::{Body, Place};
use super::view::View;
use crate::layout::form;
use flagstone_base::{Decoder, Malformed};

/// The key of a field.
#[derive(Clone, Copy, Debug)]
pub enum FieldKey<'a> {
    /// A name, in a map that has only names.
    Name(&'a str),
    /// Any value, in a map that has not.
    Value(View<'a>),
}

/// The values of an array, in their order.
#[derive(Clone, Debug)]
pub struct Items<'a> {
    body: Option<(Body<'a>, Place)>,
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
        let value = body.value(*place);
        if value.is_err() {
            place.index = body.count;
        } else {
            body.step(place);
        }
        Some(value)
    }
}

/// Keys and values of a map, in their order; pairs with keys of any value in the order of the keys.
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

    fn name(&mut self, body: &Body<'a>) -> Result<&'a str, Malformed> {
        let id = match body.form {
            form::INLINE_NAMES => return self.keys.text("a name"),
            form::IDS_1 => self.keys.u8("a name")?.into(),
            _ => self.keys.u16("a name")?.into(),
        };
        let Some(names) = body.names else {
            return Err(body.refuse(0, "a names table beside the document"));
        };
        names.lookup(id).ok_or(body.refuse(0, "names that are defined"))
    }

    fn read(&mut self, form: u8, body: Body<'a>) -> Option<<Self as Iterator>::Item> {
        if form == form::PAIRS {
            let key = match self.items.next()? {
                Ok(key) => key,
                Err(malformed) => return Some(Err(malformed)),
            };
            let value = self.items.next()?;
            return Some(value.map(|value| (FieldKey::Value(key), value)));
        }
        let value = self.items.next()?;
        Some(value.and_then(|value| Ok((FieldKey::Name(self.name(&body)?), value))))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(FieldKey<'a>, View<'a>), Malformed>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let body = self.items.body.as_ref()?.0;
        let field = self.read(body.form, body);
        if matches!(field, Some(Err(_))) {
            self.items.body = None;
        }
        field
    }
}
