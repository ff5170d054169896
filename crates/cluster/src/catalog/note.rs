//! The note of a collection.

use super::buckets::Buckets;
use crate::store::Partition;
use flagstone_base::codec::{put_bytes, put_varint};
use flagstone_base::fields::{self, FieldReader, FieldWriter, items, narrow};
use flagstone_base::{Decoder, Error, Malformed, Result, Undecoded};

/// Where the documents of a collection are, and its indexes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// The number of the collection.
    pub(crate) id: i32,
    /// A random number, drawn when the collection is created: in another cluster, one of the same
    /// number has another.
    pub(crate) history: u64,
    pub(crate) rows: Generation,
    /// What the epoch of its buckets must be. Rises when an index is created or dropped, so that a
    /// writer that does not know it is refused.
    pub(crate) epoch: i32,
    pub(crate) state: State,
    /// In the order of their creation.
    pub(crate) indexes: Vec<Index>,
    /// The number of the next index.
    pub(crate) next_index: u32,
    /// Indexes that were dropped, whose entries may still be there.
    pub(crate) dropped_indexes: Vec<u32>,
    /// Generations that were replaced, whose rows may still be there.
    pub(crate) replaced: Vec<Replaced>,
    /// The claims on the values of unique indexes, if there is one.
    pub(crate) claims: Option<Generation>,
    /// The generation with which the last clear began.
    pub(crate) cleared: i32,
    /// While rows are copied into another generation: the epoch of its buckets.
    pub(crate) copy_epoch: i32,
    /// While rows are copied into another generation: the first epoch under which writers have
    /// noted something that may still be there.
    pub(crate) noted_since: i32,
}

/// The partitions of a collection. Another generation takes their place when it is cleared, or gets
/// another layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Generation {
    pub(crate) number: i32,
    pub(crate) buckets: Buckets,
}

/// What must be known of a generation to remove it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Replaced {
    pub(crate) number: i32,
    /// How many it has.
    pub(crate) buckets: u32,
}

/// What is being done with a collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Live,
    /// It is being cleared: its buckets get fences, then this generation takes the place of theirs.
    Clearing(i32),
    /// Its rows are being copied into this generation. Who writes a row also notes that it did.
    Moving(Generation),
    /// Its buckets get fences, and what was written since it was copied is copied again. Then this
    /// generation takes the place of theirs.
    Switching(Generation),
    /// It is being dropped. Nobody uses it any more.
    Dropping,
    /// It was dropped, and nothing is left of it.
    Dropped,
}

/// An index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Index {
    pub(crate) id: u32,
    pub(crate) name: String,
    /// What [`flagstone::remote::RemoteIndex`] reads.
    pub(crate) note: Vec<u8>,
}

impl Generation {
    pub(crate) const fn partition(&self, bucket: u32) -> Partition {
        Partition { generation: self.number, bucket: bucket as i32 }
    }

    pub(crate) fn partitions(&self) -> impl Iterator<Item = Partition> {
        self.replaced().partitions()
    }

    pub(crate) fn replaced(&self) -> Replaced {
        Replaced { number: self.number, buckets: self.buckets.count() }
    }
}

impl Replaced {
    pub(crate) fn partitions(self) -> impl Iterator<Item = Partition> {
        let partition =
            move |bucket: u32| Partition { generation: self.number, bucket: bucket as i32 };
        (0..self.buckets).map(partition)
    }
}

const ID: u64 = 1;
const GENERATION: u64 = 3;
const EPOCH: u64 = 5;
const BUCKETS: u64 = 7;
const STATE: u64 = 9;
const NEXT_GENERATION: u64 = 11;
const INDEXES: u64 = 13;
const NEXT_INDEX: u64 = 15;
const DROPPED_INDEXES: u64 = 17;
const REPLACED: u64 = 19;
const HISTORY: u64 = 21;
const NEXT_BUCKETS: u64 = 23;
const CLEARED: u64 = 25;
const CLAIMS: u64 = 27;
const COPY_EPOCH: u64 = 29;
const NOTED_SINCE: u64 = 31;
const BOUNDS: u64 = 33;
const NEXT_BOUNDS: u64 = 35;

/// The most buckets of a generation.
const GENERATION_BUCKETS_MAX: u32 = 1 << 16;

impl Note {
    /// Returns the note of a new collection.
    pub(crate) const fn new(id: i32, history: u64, buckets: u32) -> Self {
        Self {
            id,
            history,
            rows: Generation { number: id, buckets: Buckets::Hash(buckets) },
            epoch: 1,
            state: State::Live,
            indexes: Vec::new(),
            next_index: 1,
            dropped_indexes: Vec::new(),
            replaced: Vec::new(),
            claims: None,
            cleared: 0,
            copy_epoch: 0,
            noted_since: 0,
        }
    }

    /// Returns the generation into which its rows are being copied.
    pub(crate) const fn next(&self) -> Option<&Generation> {
        match &self.state {
            State::Moving(next) | State::Switching(next) => Some(next),
            _ => None,
        }
    }

    /// Returns whether its rows are being copied into the generation of this number.
    pub(crate) fn is_moving_to(&self, number: i32) -> bool {
        matches!(&self.state, State::Moving(next) if next.number == number)
    }

    /// Returns whether the collection can be used.
    pub(crate) const fn is_there(&self) -> bool {
        !matches!(self.state, State::Dropping | State::Dropped)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let (state, next) = match &self.state {
            State::Live => (0, 0),
            State::Clearing(next) => (1, *next),
            State::Dropping => (2, 0),
            State::Dropped => (3, 0),
            State::Moving(next) => (4, next.number),
            State::Switching(next) => (5, next.number),
        };
        let mut out = Vec::new();
        let mut fields = FieldWriter::new(&mut out);
        fields.number(ID, self.id as u64);
        fields.number(GENERATION, self.rows.number as u64);
        fields.number(EPOCH, self.epoch as u64);
        if let Buckets::Hash(buckets) = self.rows.buckets {
            fields.number(BUCKETS, buckets.into());
        }
        fields.number_unless_zero(STATE, state);
        fields.number_unless_zero(NEXT_GENERATION, next as u64);
        fields.list(INDEXES, &self.indexes, |index, out| {
            put_varint(out, index.id.into());
            put_bytes(out, index.name.as_bytes());
            put_bytes(out, &index.note);
        });
        fields.number(NEXT_INDEX, self.next_index.into());
        fields
            .list(DROPPED_INDEXES, &self.dropped_indexes, |id, out| put_varint(out, (*id).into()));
        let put_replaced = |replaced: &Replaced, out: &mut Vec<u8>| {
            put_varint(out, replaced.number as u64);
            put_varint(out, replaced.buckets.into());
        };
        fields.list(REPLACED, &self.replaced, put_replaced);
        fields.number_unless_zero(HISTORY, self.history);
        if let Some(Generation { buckets: Buckets::Hash(buckets), .. }) = self.next() {
            fields.number(NEXT_BUCKETS, (*buckets).into());
        }
        fields.number_unless_zero(CLEARED, self.cleared as u64);
        let claims = self.claims.as_ref().map(Generation::replaced);
        fields.list(CLAIMS, claims.as_slice(), put_replaced);
        if self.next().is_some() {
            fields.number(COPY_EPOCH, self.copy_epoch as u64);
            fields.number(NOTED_SINCE, self.noted_since as u64);
        }
        let next = self.next().map(|next| &next.buckets);
        for (tag, buckets) in [(BOUNDS, Some(&self.rows.buckets)), (NEXT_BOUNDS, next)] {
            if let Some(bounds) = buckets.and_then(Buckets::encoded) {
                fields.bytes(tag, &bounds);
            }
        }
        out
    }

    /// Decodes the note of the collection `name`.
    ///
    /// # Errors
    /// Corruption that names collection and offset; Unsupported for a note of a newer flagstone.
    pub(crate) fn decode(name: &str, bytes: &[u8]) -> Result<Self> {
        Self::fields(bytes).map_err(|wrong| wrong.in_file(place(name), 0))
    }

    fn fields(bytes: &[u8]) -> Result<Self, Undecoded> {
        let mut note = Self { next_index: 0, ..Self::new(0, 0, 0) };
        let (mut state, mut number) = (0_u32, 0);
        // Each generation has either a number of buckets or bounds.
        let (mut rows, mut next, mut is_twice) = (None, None, false);
        FieldReader::of("field of a collection").read(bytes, |tag, field| {
            match tag {
                ID => note.id = narrow(field)?,
                GENERATION => note.rows.number = narrow(field)?,
                EPOCH => note.epoch = narrow(field)?,
                BUCKETS => rows = Some(Buckets::Hash(buckets(narrow(field)?, 0)?)),
                STATE => state = narrow(field)?,
                NEXT_GENERATION => number = narrow(field)?,
                INDEXES => note.indexes = items(field, index)?,
                NEXT_INDEX => note.next_index = narrow(field)?,
                DROPPED_INDEXES => {
                    note.dropped_indexes = items(field, |item| Ok(narrow(item)?))?;
                }
                REPLACED => note.replaced = items(field, replaced)?,
                HISTORY => note.history = fields::number(field)?,
                NEXT_BUCKETS => next = Some(Buckets::Hash(buckets(narrow(field)?, 0)?)),
                CLEARED => note.cleared = narrow(field)?,
                CLAIMS => note.claims = items(field, claims)?.pop(),
                COPY_EPOCH => note.copy_epoch = narrow(field)?,
                NOTED_SINCE => note.noted_since = narrow(field)?,
                BOUNDS => is_twice |= rows.replace(Buckets::decode(field)?).is_some(),
                NEXT_BOUNDS => is_twice |= next.replace(Buckets::decode(field)?).is_some(),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        let has_rows = rows.is_some();
        note.rows.buckets = rows.unwrap_or(note.rows.buckets);
        let next = next.map(|buckets| Generation { number, buckets });
        note.state = match (state, next) {
            (0, _) => State::Live,
            (1, _) if number > 0 => State::Clearing(number),
            (2, _) => State::Dropping,
            (3, _) => State::Dropped,
            (4, Some(next)) if number > 0 => State::Moving(next),
            (5, Some(next)) if number > 0 => State::Switching(next),
            _ => return Err(Malformed { at: 0, expected: "a state of a collection" }.into()),
        };
        let is_whole = note.id > 0
            && note.rows.number > 0
            && has_rows
            && !is_twice
            && note.epoch > 0
            && (note.next().is_none()
                || (1..=note.epoch).contains(&note.copy_epoch)
                    && (1..=note.epoch).contains(&note.noted_since))
            && note.indexes.iter().all(|index| (1..note.next_index).contains(&index.id));
        if !is_whole {
            let expected = "numbers of a collection, its generation, its epoch and its indexes";
            return Err(Malformed { at: 0, expected }.into());
        }
        Ok(note)
    }
}

/// Returns how errors call the note of a collection.
fn place(name: &str) -> String {
    format!("table catalog, collection {name:?}")
}

fn index(item: &[u8]) -> Result<Index, Undecoded> {
    let mut decoder = Decoder::new(item);
    let id = decoder.varint_u32("the number of an index")?;
    let name = decoder.text("the name of an index")?.to_owned();
    let note = decoder.bytes("the note of an index")?.to_vec();
    decoder.finish("the end of an index")?;
    Ok(Index { id, name, note })
}

fn replaced(item: &[u8]) -> Result<Replaced, Undecoded> {
    let mut decoder = Decoder::new(item);
    let number = decoder.varint_u32("the number of a generation")?;
    let number = i32::try_from(number)
        .map_err(|_too_large| Malformed { at: 0, expected: "the number of a generation" })?;
    let at = decoder.position();
    let buckets = decoder.varint_u32("a number of buckets")?;
    if !(1..=GENERATION_BUCKETS_MAX).contains(&buckets) {
        return Err(Malformed { at, expected: "1 to 65536 buckets" }.into());
    }
    decoder.finish("the end of a generation")?;
    Ok(Replaced { number, buckets })
}

fn claims(item: &[u8]) -> Result<Generation, Undecoded> {
    let Replaced { number, buckets: count } = replaced(item)?;
    Ok(Generation { number, buckets: Buckets::Hash(buckets(count, 0)?) })
}

fn buckets(buckets: u32, at: usize) -> Result<u32, Malformed> {
    if buckets.is_power_of_two() && buckets <= GENERATION_BUCKETS_MAX {
        return Ok(buckets);
    }
    Err(Malformed { at, expected: "a power of two up to 65536" })
}

/// Returns the error of an unusable record of the catalog.
pub(super) fn corrupt(name: &str, malformed: Malformed) -> Error {
    malformed.in_file(place(name), 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flagstone_base::{ErrorKind, Slice};

    fn full() -> Note {
        let index = Index { id: 2, name: "by a".into(), note: vec![7, 8] };
        Note {
            rows: Generation { number: 300, buckets: Buckets::Hash(16) },
            state: State::Clearing(9),
            indexes: vec![index],
            next_index: 3,
            dropped_indexes: vec![1],
            replaced: vec![Replaced { number: 5, buckets: 4 }],
            claims: Some(Generation { number: 8, buckets: Buckets::Hash(2) }),
            cleared: 6,
            ..Note::new(5, 300, 16)
        }
    }

    #[test]
    fn a_note_has_these_bytes_and_comes_back() {
        let bytes = full().encode();
        let golden =
            b"\x01\x01\x05\x03\x02\xAC\x02\x05\x01\x01\x07\x01\x10\x09\x01\x01\x0B\x01\x09\
            \x0D\x0A\x09\x02\x04by a\x02\x07\x08\x0F\x01\x03\x11\x02\x01\x01\x13\x03\x02\x05\x04\
            \x15\x02\xAC\x02\x19\x01\x06\x1B\x03\x02\x08\x02";
        assert_eq!(bytes, golden);
        assert_eq!(Note::decode("c", &bytes).unwrap(), full());
        let next = |buckets| Generation { number: 9, buckets };
        for state in [
            State::Live,
            State::Dropping,
            State::Dropped,
            State::Moving(next(Buckets::Hash(1 << 16))),
            State::Switching(next(Buckets::Hash(1 << 16))),
            State::Moving(next(ranges(&[b"a", b"ab"]))),
            State::Switching(next(ranges(&[]))),
        ] {
            let mut note = Note { state, epoch: 9, ..Note::new(1, 7, 1) };
            for buckets in [Buckets::Hash(4), ranges(&[b"x"])] {
                note.rows.buckets = buckets;
                if note.next().is_some() {
                    (note.copy_epoch, note.noted_since) = (3, 5);
                }
                assert_eq!(Note::decode("c", &note.encode()).unwrap(), note);
                if note.next().is_some() {
                    let wrong = Note { noted_since: 10, ..note.clone() };
                    assert!(Note::decode("c", &wrong.encode()).is_err());
                }
            }
        }
    }

    fn ranges(bounds: &[&[u8]]) -> Buckets {
        Buckets::Ranges(bounds.iter().map(|bound| Slice::copy_of(bound)).collect())
    }

    #[test]
    fn the_note_of_a_collection_in_ranges_has_these_bytes() {
        let mut note = Note::new(5, 300, 16);
        note.rows.buckets = ranges(&[b"k", b"kl"]);
        let golden = b"\x01\x01\x05\x03\x01\x05\x05\x01\x01\x0F\x01\x01\x15\x02\xAC\x02\
            \x21\x06\0\x01k\x01\x01l";
        assert_eq!(note.encode(), golden);
        assert_eq!(Note::decode("c", golden).unwrap(), note);
        let refused = |bytes: &[u8]| Note::decode("shop", bytes).unwrap_err().to_string();
        // The second bound is the first one again.
        let same = refused(&[&golden[..21], b"\0\x01k"].concat());
        let place = "table catalog, collection \"shop\", offset 21: ";
        assert!(same.starts_with(place) && same.contains("a bound above"), "{same}");
        // Both a number of buckets and bounds, and none of both.
        let both = [&golden[..9], b"\x07\x01\x10", &golden[9..]].concat();
        assert!(refused(&both).contains("numbers of a collection"), "{}", refused(&both));
        let none = refused(&golden[..golden.len() - 8]);
        assert!(none.contains("numbers of a collection"), "{none}");
    }

    #[test]
    fn damaged_notes_are_refused_with_the_collection() {
        let bytes = full().encode();
        for cut in 0..bytes.len() {
            // Some are whole with fewer fields at their end.
            if let Err(error) = Note::decode("shop", &bytes[..cut]) {
                assert_eq!(error.kind(), ErrorKind::Corruption);
                assert!(error.to_string().starts_with("table catalog, collection \"shop\", off"));
            }
        }
        let newer = [&bytes[..], &[37, 0]].concat();
        assert_eq!(Note::decode("c", &newer).unwrap_err().kind(), ErrorKind::Unsupported);
        let three = Note { rows: Generation { number: 1, buckets: Buckets::Hash(3) }, ..full() };
        let error = Note::decode("c", &three.encode()).unwrap_err();
        assert!(error.to_string().contains("a power of two"), "{error}");
    }
}
