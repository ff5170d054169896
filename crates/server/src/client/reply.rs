//! The reply to a command: a document of BSON, whose fields are looked at where they are.

use crate::bson::{Element, elements, kind};

/// A reply, or a document in one.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'b>(pub(super) &'b [u8]);

impl<'b> Reply<'b> {
    /// Returns the bytes of the document.
    pub const fn bson(self) -> &'b [u8] {
        self.0
    }

    /// Returns a field; none after a field that is damaged.
    fn get(self, name: &str) -> Option<Element<'b>> {
        elements(self.0).ok()?.map_while(Result::ok).find(|element| element.name == name)
    }

    /// Returns a text.
    pub fn text(self, name: &str) -> Option<&'b str> {
        text_of(&self.get(name)?)
    }

    /// Returns a whole number, or a double that is one.
    pub fn int(self, name: &str) -> Option<i64> {
        let element = self.get(name)?;
        match element.kind {
            kind::INT32 => Some(i32::from_le_bytes(*element.value.first_chunk()?).into()),
            kind::INT64 => Some(i64::from_le_bytes(*element.value.first_chunk()?)),
            kind::DOUBLE => Some(f64::from_le_bytes(*element.value.first_chunk()?) as i64),
            _ => None,
        }
    }

    /// Returns a boolean.
    pub fn bool(self, name: &str) -> Option<bool> {
        let element = self.get(name)?;
        (element.kind == kind::BOOL).then(|| element.value == [1])
    }

    /// Returns bytes: those of a binary without a meaning.
    pub fn bytes(self, name: &str) -> Option<&'b [u8]> {
        bytes_of(&self.get(name)?)
    }

    /// Returns a document.
    pub fn document(self, name: &str) -> Option<Self> {
        let element = self.get(name)?;
        (element.kind == kind::DOCUMENT).then_some(Self(element.value))
    }

    /// Returns the documents of an array, which are all that it has; none if there is no array.
    pub fn documents(self, name: &str) -> impl Iterator<Item = Self> {
        self.items(name).filter(|item| item.kind == kind::DOCUMENT).map(|item| Self(item.value))
    }

    /// Returns the texts of an array.
    pub fn texts(self, name: &str) -> impl Iterator<Item = &'b str> {
        self.items(name).filter_map(|item| text_of(&item))
    }

    fn items(self, name: &str) -> impl Iterator<Item = Element<'b>> {
        let array = self.get(name).filter(|element| element.kind == kind::ARRAY);
        let items = array.and_then(|array| elements(array.value).ok());
        items.into_iter().flatten().map_while(Result::ok)
    }
}

fn text_of<'b>(element: &Element<'b>) -> Option<&'b str> {
    let text = element.value.get(4..element.value.len().checked_sub(1)?)?;
    (element.kind == kind::STRING).then(|| str::from_utf8(text).ok()).flatten()
}

fn bytes_of<'b>(element: &Element<'b>) -> Option<&'b [u8]> {
    let (head, bytes) = element.value.split_at_checked(5)?;
    (element.kind == kind::BINARY && head[4] == kind::GENERIC).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bson::BsonWriter;

    #[test]
    fn fields_are_found_by_name_and_type() {
        let mut bson = Vec::new();
        let mut out = BsonWriter::new(&mut bson);
        out.begin();
        out.text("t", "x").unwrap();
        out.int("i", 7).unwrap();
        out.double("d", 1.0).unwrap();
        out.bytes("b", &[1, 2]).unwrap();
        out.bool("yes", true).unwrap();
        out.begin_array("list").unwrap();
        out.begin_document("").unwrap();
        out.long("n", 1 << 40).unwrap();
        out.end().unwrap();
        out.text("", "y").unwrap();
        out.end().unwrap();
        out.end().unwrap();
        let reply = Reply(&bson);
        assert_eq!(
            (reply.text("t"), reply.int("i"), reply.int("d")),
            (Some("x"), Some(7), Some(1))
        );
        assert_eq!((reply.bytes("b"), reply.bool("yes")), (Some(&[1, 2][..]), Some(true)));
        assert_eq!(reply.documents("list").map(|one| one.int("n")).next(), Some(Some(1 << 40)));
        assert_eq!(reply.texts("list").collect::<Vec<_>>(), ["y"]);
        assert!(
            reply.text("i").is_none() && reply.int("t").is_none() && reply.bytes("t").is_none()
        );
        // Whatever is cut off, nothing panics.
        for len in 0..bson.len() {
            let reply = Reply(&bson[..len]);
            assert!(reply.int("i").is_none() && reply.documents("list").next().is_none());
        }
    }
}
