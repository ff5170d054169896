//! Arrays with hostile contents: whatever their buffers hold, the import of an array is an error,
//! or each of its values can be read.
//!
//! Buffers are as long as the interface promises, because it does not say how long they are: of
//! text there are as many bytes as its last offset says. This runs under Miri and AddressSanitizer.

use crate::cells::{Reading, check, rows};
use crate::interface::batch_of;
use arrow_array::ffi::FFI_ArrowArray;
use arrow_buffer::Buffer;
use arrow_data::{ArrayData, ArrayDataBuilder};
use arrow_schema::{DataType, Field, Fields, Schema, TimeUnit, UnionFields, UnionMode};
use flagstone::internal::env::{Random, SeededRandom};
use std::sync::Arc;

struct Hostile(SeededRandom);

fn field(name: &str, data_type: DataType) -> Arc<Field> {
    Arc::new(Field::new(name, data_type, true))
}

fn types() -> Vec<DataType> {
    use DataType::*;
    let fields = || Fields::from(vec![field("a", Int32), field("b", Utf8)]);
    let union =
        || UnionFields::try_new([0, 5], [Field::new("a", Int8, true), Field::new("b", Utf8, true)]);
    let ends = |data_type| Arc::new(Field::new("run_ends", data_type, false));
    let pairs = Fields::from(vec![field("key", Utf8), field("value", Int16)]);
    let mut types = vec![
        Null,
        Boolean,
        Int64,
        Float16,
        Decimal128(38, 2),
        Decimal128(200, 127),
        Decimal256(76, -3),
        Timestamp(TimeUnit::Nanosecond, Some("+01:00".into())),
        Timestamp(TimeUnit::Second, Some("nowhere".into())),
        Date64,
        FixedSizeBinary(3),
        FixedSizeBinary(0),
        Utf8,
        LargeUtf8,
        Utf8View,
        Binary,
        BinaryView,
        List(field("item", Utf8)),
        LargeList(field("item", Boolean)),
        ListView(field("item", Int8)),
        LargeListView(field("item", Utf8)),
        FixedSizeList(field("item", UInt16), 2),
        FixedSizeList(field("item", Utf8), 0),
        Struct(fields()),
        Struct(vec![field("s", Struct(fields())), field("l", List(field("item", Null)))].into()),
        Map(field("entries", Struct(pairs)), false),
        Dictionary(Box::new(Int8), Box::new(Utf8)),
        Dictionary(Box::new(UInt64), Box::new(Int32)),
        RunEndEncoded(ends(Int16), field("values", Utf8)),
        RunEndEncoded(ends(Int64), field("values", Boolean)),
    ];
    let modes = [UnionMode::Sparse, UnionMode::Dense];
    types.extend(modes.into_iter().filter_map(|mode| Some(Union(union().ok()?, mode))));
    types
}

impl Hostile {
    fn below(&self, end: usize) -> usize {
        (self.0.next_u64() % end as u64) as usize
    }

    fn is(&self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }

    /// Returns a number that is mostly at most `near`, and sometimes far from it.
    fn number(&self, near: usize) -> i64 {
        match self.below(40) {
            0 => -1,
            1 => i64::MAX - self.below(3) as i64,
            2 => near as i64 + 1,
            3 => i64::from(i32::MIN),
            _ => self.below(near + 1) as i64,
        }
    }

    fn bytes(&self, len: usize) -> Buffer {
        let is_text = !self.is(6);
        let byte = |_| if is_text { b'a' + self.below(20) as u8 } else { self.0.next_u64() as u8 };
        let bytes: Vec<u8> = (0..=len).map(byte).collect();
        // Now and then at an odd address.
        Buffer::from_vec(bytes).slice_with_length(usize::from(self.is(9)), len)
    }

    /// Returns numbers of `width` bytes.
    fn numbers(&self, width: usize, numbers: impl IntoIterator<Item = i64>) -> Buffer {
        let bytes = |number: i64| number.to_le_bytes()[..width].to_vec();
        // Of eight bytes, so that the address is even.
        let bytes: Vec<u8> = numbers.into_iter().flat_map(bytes).collect();
        Buffer::from_slice_ref(&bytes)
    }

    /// Returns offsets into `len` values, mostly ascending, and the last one is `len`.
    fn offsets(&self, width: usize, count: usize, len: usize) -> Buffer {
        let mut offsets: Vec<i64> = (0..count).map(|_| self.below(len + 1) as i64).collect();
        offsets.sort_unstable();
        for offset in &mut offsets {
            if self.is(12) {
                *offset = self.number(len);
            }
        }
        offsets.push(len as i64);
        self.numbers(width, offsets)
    }

    /// Returns the descriptions of texts, and the bytes of the long ones.
    fn views(&self, count: usize) -> Vec<Buffer> {
        let texts: Vec<Buffer> = (0..self.below(3)).map(|_| self.bytes(30)).collect();
        let mut views = Vec::new();
        for _ in 0..count {
            let len = if self.is(2) { self.below(13) as i64 } else { self.number(20) };
            let (at, from) = (self.number(1).clamp(0, 2) as usize, self.number(12));
            let mut view = [0; 16];
            view[..4].copy_from_slice(&len.to_le_bytes()[..4]);
            match usize::try_from(len) {
                Ok(len @ 0..=12) => view[4..4 + len].copy_from_slice(&self.bytes(len)),
                _ => {
                    let text = texts.get(at).and_then(|text| text.get(from.try_into().ok()?..));
                    let head = text.and_then(|text| text.first_chunk::<4>());
                    view[4..8].copy_from_slice(head.unwrap_or(b"none"));
                    view[8] = at as u8;
                    view[12..].copy_from_slice(&from.to_le_bytes()[..4]);
                }
            }
            views.extend_from_slice(&view);
        }
        let mut buffers = vec![Buffer::from_slice_ref(&views)];
        buffers.extend(texts);
        buffers
    }

    /// Returns mostly `count`, and sometimes fewer.
    fn or_fewer(&self, count: usize) -> usize {
        if self.is(12) { count.saturating_sub(1 + self.below(3)) } else { count }
    }

    fn array(&self, data_type: &DataType, rows: usize) -> ArrayData {
        use DataType::*;
        let is_plain = matches!(data_type, RunEndEncoded(..) | Null | Union(..));
        let offset = if is_plain { 0 } else { self.below(3) };
        let (count, few) = (rows + offset, self.below(6));
        let numbers = |width: usize, count: usize, near: usize| {
            self.numbers(width, (0..count).map(|_| self.number(near)))
        };
        let text = |width: usize| {
            let len = self.below(30);
            vec![self.offsets(width, count, len), self.bytes(len)]
        };
        let (buffers, children) = match data_type {
            Null => (vec![], vec![]),
            Boolean => (vec![self.bytes(count.div_ceil(8))], vec![]),
            FixedSizeBinary(size) => (vec![self.bytes(count * *size as usize)], vec![]),
            Utf8 | Binary => (text(4), vec![]),
            LargeUtf8 | LargeBinary => (text(8), vec![]),
            Utf8View | BinaryView => (self.views(count), vec![]),
            List(item) | Map(item, _) => {
                (vec![self.offsets(4, count, few)], vec![self.array(item.data_type(), few)])
            }
            LargeList(item) => {
                (vec![self.offsets(8, count, few)], vec![self.array(item.data_type(), few)])
            }
            ListView(item) | LargeListView(item) => {
                let width = if matches!(data_type, ListView(_)) { 4 } else { 8 };
                let buffers = vec![numbers(width, count, few), numbers(width, count, 1)];
                (buffers, vec![self.array(item.data_type(), few)])
            }
            FixedSizeList(item, size) => {
                let items = self.or_fewer(count * *size as usize);
                (vec![], vec![self.array(item.data_type(), items)])
            }
            Struct(fields) => {
                let child =
                    |field: &Arc<Field>| self.array(field.data_type(), self.or_fewer(count));
                (vec![], fields.iter().map(child).collect())
            }
            Dictionary(key, values) => {
                let width = key.primitive_width().unwrap_or(1);
                (vec![numbers(width, count, few.saturating_sub(1))], vec![self.array(values, few)])
            }
            RunEndEncoded(ends, values) => {
                let width = ends.data_type().primitive_width().unwrap_or(2);
                let mut end = 0;
                let buffer = self.numbers(
                    width,
                    (0..=few).map(|run| {
                        end += 1 + self.below(3);
                        let end = if run == few { end.max(count) } else { end };
                        if self.is(20) { self.number(count) } else { end as i64 }
                    }),
                );
                let data = ArrayData::builder(ends.data_type().clone());
                let ends = unchecked(data.len(few + 1).add_buffer(buffer));
                (vec![], vec![ends, self.array(values.data_type(), self.or_fewer(few + 1))])
            }
            Union(fields, mode) => {
                let ids = (0..count).map(|_| if self.is(20) { self.number(5) } else { 5 });
                let mut buffers = vec![self.numbers(1, ids)];
                let is_dense = *mode == UnionMode::Dense;
                buffers.extend(is_dense.then(|| numbers(4, count, few)));
                let rows = || self.or_fewer(if is_dense { few + 1 } else { count });
                let children =
                    fields.iter().map(|(_, field)| self.array(field.data_type(), rows()));
                (buffers, children.collect())
            }
            other => (vec![self.bytes(count * other.primitive_width().unwrap_or(0))], vec![]),
        };
        let has_nulls = !is_plain && self.is(2);
        let nulls = has_nulls.then(|| self.bytes(count.div_ceil(8)));
        let data = ArrayData::builder(data_type.clone()).len(rows).offset(offset);
        unchecked(data.buffers(buffers).child_data(children).null_bit_buffer(nulls))
    }
}

#[expect(unsafe_code, reason = "contents that break the rules are what is tested")]
fn unchecked(data: ArrayDataBuilder) -> ArrayData {
    // SAFETY: nothing reads its values before they are checked; buffers have their sizes.
    unsafe { data.build_unchecked() }
}

/// How many arrays of each type are read.
const ROUNDS: usize = 3_000;

/// Offsets, keys, runs and views used to be taken as the producer has them.
#[test]
#[expect(unsafe_code, reason = "the interface is one of C")]
fn whatever_buffers_hold_an_array_is_refused_or_read() {
    let seed = std::env::var("FLAGSTONE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    println!("FLAGSTONE_SEED={seed}");
    let hostile = Hostile(SeededRandom::new(seed));
    let reading = Reading { naive_is_utc: true, drops_nulls: false };
    for data_type in types() {
        let (mut taken, mut refused) = (0, 0);
        // Arrow itself refuses lists of no items.
        let is_refused = matches!(data_type, DataType::FixedSizeList(_, 0));
        // Miri takes long for a round.
        let rounds_min = if cfg!(miri) { 10 } else { ROUNDS };
        for round in 0..ROUNDS {
            if round >= rounds_min && (taken > 0 || is_refused) {
                break;
            }
            let column = hostile.array(&data_type, 1 + hostile.below(8));
            let schema = Arc::new(Schema::new(vec![Field::new("c", data_type.clone(), true)]));
            check(schema.fields(), reading).expect("the type has a form");
            let all = ArrayData::builder(DataType::Struct(schema.fields().clone()));
            let all = unchecked(all.len(column.len()).add_child_data(column));
            // SAFETY: arrow has made the array, and its buffers have their sizes.
            match unsafe { batch_of(FFI_ArrowArray::new(&all), schema) } {
                Ok(batch) => {
                    let read = rows(&batch, reading).expect("the type has a form");
                    let shown = (0..batch.num_rows()).map(|row| read(row).map(|v| v.to_string()));
                    taken += shown.filter(Result::is_ok).count();
                }
                Err(_) => refused += 1,
            }
        }
        assert!(taken > 0 || is_refused, "{data_type}: {refused} were refused");
    }
}
