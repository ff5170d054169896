//! What an accumulator has seen of a group.

use super::spec::Kind;
use super::sum::Sum;
use flagstone_base::bytes::assign;
use flagstone_base::codec::{put_bytes, put_varint};
use flagstone_base::{Decoder, Malformed, Result};
use flagstone_doc::sort_key::{self, Direction};
use flagstone_doc::{Encoder, Value, View};

/// The state of one accumulator for one group.
#[derive(Clone, Debug)]
pub(super) enum AccumulatorState {
    Count(u64),
    Sum(Sum),
    Least(Best),
    Greatest(Best),
    /// A sum and the number of its numbers.
    Mean(Sum, u64),
}

/// The best value so far: its sort key, and the value as a self-contained document. Both are empty
/// if there is none.
#[derive(Clone, Debug, Default)]
pub(super) struct Best {
    key: Vec<u8>,
    document: Vec<u8>,
}

/// What is reused from value to value.
pub(super) struct Buffers {
    key: Vec<u8>,
    encoder: Encoder,
}

impl Buffers {
    pub(super) fn new() -> Self {
        Self { key: Vec::new(), encoder: Encoder::new() }
    }
}

impl AccumulatorState {
    pub(super) fn new(kind: Kind) -> Self {
        match kind {
            Kind::Count => Self::Count(0),
            Kind::Sum => Self::Sum(Sum::default()),
            Kind::Least => Self::Least(Best::default()),
            Kind::Greatest => Self::Greatest(Best::default()),
            Kind::Mean => Self::Mean(Sum::default(), 0),
        }
    }

    /// Adds one value. A count counts documents: it is called once for each.
    pub(super) fn add(&mut self, value: &View<'_>, buffers: &mut Buffers) -> Result<(), Malformed> {
        match self {
            Self::Count(count) => *count += 1,
            Self::Sum(sum) => drop(sum.add(value)?),
            Self::Mean(sum, count) => *count += u64::from(sum.add(value)?),
            Self::Least(_) | Self::Greatest(_) if value.is_null() => {}
            Self::Least(best) => best.offer(value, buffers, |new, old| new < old)?,
            Self::Greatest(best) => best.offer(value, buffers, |new, old| new > old)?,
        }
        Ok(())
    }

    /// Adds one document to a count.
    pub(super) const fn add_one(&mut self) {
        if let Self::Count(count) = self {
            *count += 1;
        }
    }

    /// Adds the value of a sort key that decodes to just what the document holds.
    pub(super) fn add_key(
        &mut self,
        key: &[u8],
        direction: Direction,
        buffers: &mut Buffers,
    ) -> Result<(), Malformed> {
        match self {
            Self::Count(_) => self.add_one(),
            Self::Sum(sum) => drop(sum.add_key(key, direction)?),
            Self::Mean(sum, count) => *count += u64::from(sum.add_key(key, direction)?),
            Self::Least(best) => best.offer_key(key, direction, buffers, |new, old| new < old)?,
            Self::Greatest(best) => {
                best.offer_key(key, direction, buffers, |new, old| new > old)?
            }
        }
        Ok(())
    }

    /// Adds what another state of the same accumulator and group has seen, after this one.
    pub(super) fn merge(&mut self, other: Self) {
        match (self, other) {
            (Self::Count(count), Self::Count(more)) => *count += more,
            (Self::Sum(sum), Self::Sum(more)) => sum.merge(&more),
            (Self::Mean(sum, count), Self::Mean(more, others)) => {
                sum.merge(&more);
                *count += others;
            }
            (Self::Least(best), Self::Least(other)) if other.is_better(best, |a, b| a < b) => {
                *best = other;
            }
            (Self::Greatest(best), Self::Greatest(other))
                if other.is_better(best, |a, b| a > b) =>
            {
                *best = other;
            }
            // The other one is no better, or of another accumulator, which does not happen.
            _ => {}
        }
    }

    /// The bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Count(_) => 0,
            Self::Sum(sum) | Self::Mean(sum, _) => sum.heap_bytes(),
            Self::Least(best) | Self::Greatest(best) => best.key.len() + best.document.len(),
        }
    }

    /// Returns the result.
    ///
    /// # Errors
    /// InvalidInput for a sum of more than 1,000 digits; Corruption.
    pub(super) fn result(&self) -> Result<Value> {
        match self {
            Self::Count(count) => Ok(Value::from(*count)),
            Self::Sum(sum) => sum.total(),
            Self::Mean(_, 0) => Ok(Value::Null),
            Self::Mean(sum, count) => sum.mean(*count),
            Self::Least(best) | Self::Greatest(best) if best.document.is_empty() => Ok(Value::Null),
            Self::Least(best) | Self::Greatest(best) => View::of(&best.document, None)
                .and_then(|view| view.to_value())
                .map_err(|malformed| malformed.in_file("a value of a group", 0)),
        }
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Count(count) => put_varint(out, *count),
            Self::Sum(sum) => sum.encode(out),
            Self::Mean(sum, count) => {
                sum.encode(out);
                put_varint(out, *count);
            }
            Self::Least(best) | Self::Greatest(best) => {
                put_bytes(out, &best.key);
                put_bytes(out, &best.document);
            }
        }
    }

    pub(super) fn decode(kind: Kind, decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        Ok(match kind {
            Kind::Count => Self::Count(decoder.varint("a count")?),
            Kind::Sum => Self::Sum(Sum::decode(decoder)?),
            Kind::Least => Self::Least(Best::decode(decoder)?),
            Kind::Greatest => Self::Greatest(Best::decode(decoder)?),
            Kind::Mean => Self::Mean(Sum::decode(decoder)?, decoder.varint("a count")?),
        })
    }
}

impl Best {
    /// Keeps `value` if it is better than the best one so far.
    fn offer(
        &mut self,
        value: &View<'_>,
        buffers: &mut Buffers,
        is_better: impl FnOnce(&[u8], &[u8]) -> bool,
    ) -> Result<(), Malformed> {
        let Buffers { key, encoder } = buffers;
        key.clear();
        sort_key::encode_view(value, Direction::Ascending, key)?;
        if !self.key.is_empty() && !is_better(key, &self.key) {
            return Ok(());
        }
        self.key.clone_from(key);
        self.document.clear();
        let encoded = encoder.encode_view(value, None, &mut self.document);
        // A part of a document is no larger than what an encoder takes.
        encoded.map(drop).map_err(|_damaged| Malformed { at: 0, expected: "a value" })
    }

    /// Keeps the value of a sort key if it is better than the best one so far.
    fn offer_key(
        &mut self,
        key: &[u8],
        direction: Direction,
        buffers: &mut Buffers,
        is_better: impl FnOnce(&[u8], &[u8]) -> bool,
    ) -> Result<(), Malformed> {
        let Buffers { key: buffer, encoder } = buffers;
        let key = sort_key::turned(key, direction, buffer);
        let is_none = matches!(key, [sort_key::MISSING | sort_key::NULL]);
        if is_none || !self.key.is_empty() && !is_better(key, &self.key) {
            return Ok(());
        }
        assign(&mut self.key, key);
        let value = sort_key::decode(key, Direction::Ascending)?;
        self.document.clear();
        let encoded = encoder.encode(&value, None, &mut self.document);
        encoded.map(drop).map_err(|_damaged| Malformed { at: 0, expected: "a value" })
    }

    fn is_better(&self, than: &Self, is_better: impl FnOnce(&[u8], &[u8]) -> bool) -> bool {
        !self.key.is_empty() && (than.key.is_empty() || is_better(&self.key, &than.key))
    }

    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, Malformed> {
        let key = decoder.bytes("a sort key")?.to_vec();
        Ok(Self { key, document: decoder.bytes("a value")?.to_vec() })
    }
}
