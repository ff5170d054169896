//! Types that documents lack, which are stored as the maps that Extended JSON has for them.

use crate::map::Map;
use crate::view::{FieldKey, View};
use flagstone_base::Malformed;

/// A type of MongoDB that documents store as a map.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoredForm {
    /// `{"$binary":{"base64":"AQI=","subType":"05"}}`
    Binary,
    /// `{"$timestamp":{"t":1,"i":2}}`
    Timestamp,
    /// `{"$regularExpression":{"pattern":"x","options":"i"}}`
    Regex,
    /// `{"$code":"x"}`
    Code,
    /// `{"$code":"x","$scope":{}}`
    CodeWithScope,
    /// `{"$symbol":"x"}`
    Symbol,
    /// `{"$dbPointer":{"$ref":"x","$id":{"$oid":".."}}}`
    DbPointer,
    /// `{"$undefined":true}`
    Undefined,
    /// `{"$minKey":1}`
    MinKey,
    /// `{"$maxKey":1}`
    MaxKey,
}

/// The names of the forms.
const NAMES: [(&str, StoredForm); 9] = [
    ("$binary", StoredForm::Binary),
    ("$timestamp", StoredForm::Timestamp),
    ("$regularExpression", StoredForm::Regex),
    ("$code", StoredForm::Code),
    ("$symbol", StoredForm::Symbol),
    ("$dbPointer", StoredForm::DbPointer),
    ("$undefined", StoredForm::Undefined),
    ("$minKey", StoredForm::MinKey),
    ("$maxKey", StoredForm::MaxKey),
];

impl StoredForm {
    /// The number of forms.
    pub(crate) const COUNT: u8 = 10;

    /// Returns whether a map has the names of a form, whatever its values are.
    pub(crate) fn has_name(map: &Map) -> bool {
        let mut names = map.iter().map(|(name, _)| name.as_str().unwrap_or_default());
        match (names.next(), names.next(), names.next()) {
            (Some(name), None, None) => NAMES.iter().any(|(form, _)| *form == name),
            (Some("$code"), Some("$scope"), None) => true,
            _ => false,
        }
    }

    /// Returns the type that a stored map stands for; `None` for other values.
    pub(crate) fn of(view: &View<'_>) -> Result<Option<Self>, Malformed> {
        let Some((name, value, second)) = two(view)? else { return Ok(None) };
        let Some((_, form)) = NAMES.iter().find(|(form, _)| *form == name) else { return Ok(None) };
        if let Some((second, scope)) = second {
            let is_code = *form == Self::Code && second == "$scope";
            return Ok((is_code && scope.is_map()).then_some(Self::CodeWithScope));
        }
        let pair = |a: &str, b: &str| {
            two(&value).map(|found| {
                let (name, first, second) = found?;
                let (second_name, second) = second?;
                (name == a && second_name == b).then_some((first, second))
            })
        };
        let texts = |(a, b): (View<'_>, View<'_>)| a.as_str().is_some() && b.as_str().is_some();
        let is_form = match form {
            Self::Timestamp => pair("t", "i")?.is_some_and(|(t, i)| {
                [t, i].iter().all(|n| n.as_small_int().is_some_and(|n| u32::try_from(n).is_ok()))
            }),
            Self::Binary => pair("base64", "subType")?.is_some_and(texts),
            Self::Regex => pair("pattern", "options")?.is_some_and(texts),
            Self::DbPointer => pair("$ref", "$id")?
                .is_some_and(|(name, id)| name.as_str().is_some() && id.as_object_id().is_some()),
            Self::Code | Self::Symbol => value.as_str().is_some(),
            Self::Undefined => value.as_bool() == Some(true),
            Self::MinKey | Self::MaxKey => value.as_small_int() == Some(1),
            Self::CodeWithScope => false,
        };
        Ok(is_form.then_some(*form))
    }
}

/// A field of a map.
type Named<'a> = (&'a str, View<'a>);

/// The first field of a map, and the second one if there is one.
type FirstFields<'a> = (&'a str, View<'a>, Option<Named<'a>>);

/// Returns the fields of a map of one or two; `None` for other values.
fn two<'a>(view: &View<'a>) -> Result<Option<FirstFields<'a>>, Malformed> {
    if !view.is_map() {
        return Ok(None);
    }
    let mut fields = view.fields()?;
    let (first, second) = (fields.next().transpose()?, fields.next().transpose()?);
    let is_more = fields.next().is_some();
    Ok(match (first, second) {
        (Some((FieldKey::Name(name), value)), None) => Some((name, value, None)),
        (Some((FieldKey::Name(name), value)), Some((FieldKey::Name(second), other)))
            if !is_more =>
        {
            Some((name, value, Some((second, other))))
        }
        _ => None,
    })
}
