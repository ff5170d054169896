//! Bits of integers, sizes of binary data, parts of timestamps, and random numbers.

use super::binary::parts;
use super::call::{Arg, Call, NULL, arg, found, is_nullish};
use super::kind::type_name;
use crate::error::{Result, code};
use flagstone::Value;
use flagstone::internal::document::{NumberType, long};
use std::hash::{BuildHasher, Hasher, RandomState};

/// Returns the integer of an argument, and whether it is a long; `None` if it is null.
fn integer(call: &Call<'_>, arg: &Arg<'_>) -> Result<Option<(i64, bool)>> {
    if is_nullish(arg) {
        return Ok(None);
    }
    let kind = arg.as_deref().and_then(NumberType::of);
    let is_whole = kind.is_some_and(|kind| kind <= NumberType::Long);
    let whole = arg.as_deref().filter(|_| is_whole).and_then(Value::as_i64);
    let whole = whole.ok_or_else(|| call.mistyped(code::TYPE_MISMATCH, "integers", arg))?;
    Ok(Some((whole, kind == Some(NumberType::Long))))
}

fn typed(bits: i64, is_long: bool) -> Value {
    if is_long { long(bits) } else { Value::Int(bits) }
}

fn folded(
    call: &Call<'_>,
    args: &[Arg<'_>],
    first: i64,
    fold: fn(i64, i64) -> i64,
) -> Result<Option<Value>> {
    let (mut bits, mut is_long, mut has_null) = (first, false, false);
    for arg in args {
        match integer(call, arg)? {
            Some((more, wide)) => (bits, is_long) = (fold(bits, more), is_long || wide),
            None => has_null = true,
        }
    }
    if has_null { NULL } else { found(typed(bits, is_long)) }
}

pub(super) fn and(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    folded(call, args, -1, |a, b| a & b)
}

pub(super) fn or(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    folded(call, args, 0, |a, b| a | b)
}

pub(super) fn xor(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    folded(call, args, 0, |a, b| a ^ b)
}

pub(super) fn not(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let Some((bits, is_long)) = integer(call, arg(args, 0))? else { return NULL };
    found(typed(!bits, is_long))
}

/// `$binarySize`: the bytes of text or of binary data.
pub(super) fn size_of_binary(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    let value = arg(args, 0);
    match value.as_deref() {
        _ if is_nullish(value) => NULL,
        Some(Value::Text(text)) => found(text.len()),
        Some(Value::Bytes(bytes)) => found(bytes.len()),
        Some(Value::Uuid(_)) => found(16),
        Some(other) if type_name(Some(other)) == "binData" => {
            found(parts(other).map_or(0, |(bytes, _)| bytes.len()))
        }
        _ => Err(call.mistyped(51276, "text or binary data", value)),
    }
}

/// `$tsSecond` and `$tsIncrement`.
fn part_of_timestamp(call: &Call<'_>, args: &[Arg<'_>], name: &str) -> Result<Option<Value>> {
    let value = arg(args, 0);
    if is_nullish(value) {
        return NULL;
    }
    let is_timestamp = type_name(value.as_deref()) == "timestamp";
    let inner = value.as_deref().filter(|_| is_timestamp).and_then(|value| value.get("$timestamp"));
    let part = inner.and_then(|inner| inner.get(name)?.as_i64());
    let code = if name == "t" { 5687301 } else { 5687302 };
    part.map(|part| Some(long(part))).ok_or_else(|| call.mistyped(code, "a timestamp", value))
}

pub(super) fn seconds(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    part_of_timestamp(call, args, "t")
}

pub(super) fn increment(call: &Call<'_>, args: &[Arg<'_>]) -> Result<Option<Value>> {
    part_of_timestamp(call, args, "i")
}

/// `$rand`: a number from 0 to 1, another one for each call.
pub(super) fn random(_: &Call<'_>, _: &[Arg<'_>]) -> Result<Option<Value>> {
    // The keys of each state differ.
    let bits = RandomState::new().build_hasher().finish() >> 11;
    found(Value::Float(bits as f64 / (1_u64 << 53) as f64))
}
