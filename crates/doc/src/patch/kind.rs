//! The kinds of the parts of a patch: changes and conditions. The numbers are stored on disk.

/// The kind of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpKind {
    Set = 1,
    Unset = 2,
    Inc = 3,
    Mul = 4,
    Rename = 5,
    Push = 6,
    Min = 7,
    Max = 8,
    AddToSet = 9,
    Pull = 10,
    PopFirst = 11,
    PopLast = 12,
    PushAt = 13,
    Exists = 14,
    Missing = 15,
    Equal = 16,
    NotEqual = 17,
    Less = 18,
    LessOrEqual = 19,
    Greater = 20,
    GreaterOrEqual = 21,
}

/// What follows the path of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Argument {
    Nothing,
    /// A document.
    Document,
    /// A document that is an array.
    Array,
    /// The new name of a field.
    Name,
    /// A position in an array, then a document.
    Place,
}

impl OpKind {
    const ALL: [Self; 21] = [
        Self::Set,
        Self::Unset,
        Self::Inc,
        Self::Mul,
        Self::Rename,
        Self::Push,
        Self::Min,
        Self::Max,
        Self::AddToSet,
        Self::Pull,
        Self::PopFirst,
        Self::PopLast,
        Self::PushAt,
        Self::Exists,
        Self::Missing,
        Self::Equal,
        Self::NotEqual,
        Self::Less,
        Self::LessOrEqual,
        Self::Greater,
        Self::GreaterOrEqual,
    ];

    /// Returns the kind with this number; `None` if patches of `version` have none.
    pub(super) fn from_u8(byte: u8, version: u8) -> Option<Self> {
        let kind = *Self::ALL.get(usize::from(byte).checked_sub(1)?)?;
        (kind.version() <= version).then_some(kind)
    }

    /// Returns the first version of patches that has the kind.
    pub(super) const fn version(self) -> u8 {
        if (self as u8) < Self::AddToSet as u8 { 1 } else { 2 }
    }

    /// Returns whether the kind tests the document and changes nothing.
    pub(super) const fn is_condition(self) -> bool {
        self as u8 >= Self::Exists as u8
    }

    pub(super) const fn argument(self) -> Argument {
        match self {
            Self::Unset | Self::PopFirst | Self::PopLast | Self::Exists | Self::Missing => {
                Argument::Nothing
            }
            Self::Rename => Argument::Name,
            Self::Pull => Argument::Array,
            Self::PushAt => Argument::Place,
            _ => Argument::Document,
        }
    }

    /// Returns whether the names on the path may come into the document.
    pub(super) const fn brings_names(self) -> bool {
        let only_looks = matches!(
            self,
            Self::Unset | Self::Rename | Self::Pull | Self::PopFirst | Self::PopLast
        );
        !only_looks && !self.is_condition()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_is_found_by_its_number_in_the_versions_that_have_it() {
        for (at, kind) in OpKind::ALL.iter().enumerate() {
            let number = at as u8 + 1;
            assert_eq!(*kind as u8, number);
            assert_eq!(OpKind::from_u8(number, 2), Some(*kind));
            assert_eq!(OpKind::from_u8(number, 1), Some(*kind).filter(|_| number <= 8));
        }
        assert_eq!((OpKind::from_u8(0, 2), OpKind::from_u8(22, 2)), (None, None));
    }
}
