//! What updates do to a document.

use super::plain::{compare, equal, holds, number};
use bson::{Bson, Document};

/// An update that is refused, with its code where that is sure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused(pub(super) Option<i32>);

const ANY: Refused = Refused(None);

/// What an update needs besides the document.
#[derive(Clone, Copy, Default)]
pub(super) struct Around<'a> {
    pub(super) position: Option<usize>,
    pub(super) is_insert: bool,
    pub(super) filters: &'a [Document],
}

/// Returns the changed document.
pub(super) fn apply(
    document: &Document,
    update: &Bson,
    around: Around<'_>,
) -> Result<Document, Refused> {
    let update = match update {
        Bson::Array(stages) => return piped(document, stages),
        Bson::Document(update) => update,
        other => panic!("no update: {other}"),
    };
    if update.keys().next().is_none_or(|name| !name.starts_with('$')) {
        let mut new = Document::new();
        if let Some(id) = document.get("_id").or_else(|| update.get("_id")) {
            new.insert("_id", id.clone());
        }
        if let (Some(old), Some(id)) = (document.get("_id"), update.get("_id"))
            && !equal(old, id)
        {
            return Err(Refused(Some(66)));
        }
        for (name, value) in update.iter().filter(|(name, _)| *name != "_id") {
            new.insert(name, value.clone());
        }
        return Ok(new);
    }
    let mut new = Bson::Document(document.clone());
    for (operator, operands) in update {
        for (path, operand) in operands.as_document().unwrap() {
            let steps: Vec<_> = path.split('.').collect();
            if operator == "$rename" {
                renamed(&mut new, path, operand.as_str().unwrap());
                continue;
            }
            let mut slot = Some(new);
            change(&mut slot, &steps, (operator.as_str(), operand), around)?;
            new = slot.unwrap();
        }
    }
    let Bson::Document(new) = new else { panic!("a document stays one") };
    match (document.get("_id"), new.get("_id")) {
        (Some(old), Some(id)) if !equal(old, id) => Err(Refused(Some(66))),
        _ => Ok(new),
    }
}

/// Refuses two operators that change one place: whatever documents there are.
pub(super) fn check(update: &Bson) -> Result<(), Refused> {
    let Bson::Document(update) = update else { return Ok(()) };
    let operators = update.iter().filter(|(name, _)| name.starts_with('$'));
    let paths: Vec<_> =
        operators.flat_map(|(_, operands)| operands.as_document().unwrap().keys()).collect();
    let overlaps = |a: &str, b: &str| {
        a == b || a.starts_with(&format!("{b}.")) || b.starts_with(&format!("{a}."))
    };
    let is_conflict = |at: usize| paths[..at].iter().any(|other| overlaps(other, paths[at]));
    if (0..paths.len()).any(is_conflict) { Err(Refused(Some(40))) } else { Ok(()) }
}

/// Stages that set a field to a value or to another field, or remove one.
fn piped(document: &Document, stages: &[Bson]) -> Result<Document, Refused> {
    let mut new = document.clone();
    for stage in stages {
        let (name, operand) = stage.as_document().unwrap().iter().next().unwrap();
        match (name.as_str(), operand) {
            ("$set", Bson::Document(fields)) => {
                let before = new.clone();
                for (name, value) in fields {
                    match value {
                        Bson::String(path) if path.starts_with('$') => {
                            match before.get(&path[1..]) {
                                Some(value) => drop(new.insert(name, value.clone())),
                                None => drop(new.remove(name)),
                            }
                        }
                        value => drop(new.insert(name, value.clone())),
                    }
                }
            }
            ("$unset", Bson::String(name)) => drop(new.remove(name)),
            other => panic!("no updates have {other:?}"),
        }
    }
    Ok(new)
}

fn renamed(document: &mut Bson, from: &str, to: &str) {
    let Bson::Document(map) = document else { return };
    if let Some(value) = map.remove(from) {
        map.insert(to, value);
    }
}

type Operator<'a> = (&'a str, &'a Bson);

fn creates(operator: &str, around: Around<'_>) -> bool {
    match operator {
        "$unset" | "$pop" | "$pull" | "$pullAll" => false,
        "$setOnInsert" => around.is_insert,
        _ => true,
    }
}

/// Changes what a path leads to from the value in `slot`.
fn change(
    slot: &mut Option<Bson>,
    steps: &[&str],
    (operator, operand): Operator<'_>,
    around: Around<'_>,
) -> Result<(), Refused> {
    let creates = creates(operator, around);
    let Some((step, rest)) = steps.split_first() else {
        return change_value(slot, (operator, operand), creates);
    };
    let inner = |slot: &mut Option<Bson>| change(slot, rest, (operator, operand), around);
    if let Some(name) = step.strip_prefix("$[").and_then(|name| name.strip_suffix(']')) {
        let Some(Bson::Array(items)) = slot else { return Err(ANY) };
        for item in items {
            let filter = around.filters.iter().find_map(|filter| filter.get(name));
            if name.is_empty() || filter.is_some_and(|filter| holds(filter, &[Some(&*item)], true))
            {
                let mut one = Some(item.clone());
                inner(&mut one)?;
                *item = one.unwrap_or(Bson::Null);
            }
        }
        return Ok(());
    }
    let at;
    let step = if *step == "$" {
        at = around.position.ok_or(ANY)?.to_string();
        at.as_str()
    } else {
        *step
    };
    match slot {
        None => {
            if creates {
                let mut value = None;
                inner(&mut value)?;
                let mut map = Document::new();
                if let Some(value) = value {
                    map.insert(step, value);
                }
                *slot = Some(Bson::Document(map));
            }
            Ok(())
        }
        Some(Bson::Document(map)) => {
            let mut value = map.get(step).cloned();
            inner(&mut value)?;
            match value {
                Some(value) => drop(map.insert(step, value)),
                None => drop(map.remove(step)),
            }
            Ok(())
        }
        Some(Bson::Array(items)) => match step.parse::<usize>() {
            Ok(index) if index < items.len() => {
                let mut value = Some(items[index].clone());
                inner(&mut value)?;
                items[index] = value.unwrap_or(Bson::Null);
                Ok(())
            }
            Ok(index) => {
                let mut value = None;
                inner(&mut value)?;
                if let Some(value) = value {
                    items.resize(index, Bson::Null);
                    items.push(value);
                }
                Ok(())
            }
            Err(_) if creates || operator == "$pop" => Err(ANY),
            Err(_) => Ok(()),
        },
        Some(_) if creates || operator == "$pop" => Err(ANY),
        Some(_) => Ok(()),
    }
}

fn change_value(
    slot: &mut Option<Bson>,
    (operator, operand): Operator<'_>,
    creates: bool,
) -> Result<(), Refused> {
    if slot.is_none() && !creates {
        return Ok(());
    }
    match operator {
        "$set" => *slot = Some(operand.clone()),
        "$setOnInsert" if creates => *slot = Some(operand.clone()),
        "$setOnInsert" => {}
        "$unset" => *slot = None,
        "$inc" | "$mul" => {
            let is_sum = operator == "$inc";
            *slot = Some(match slot {
                Some(old) => computed(old, operand, is_sum)?,
                None if is_sum => operand.clone(),
                None => computed(&Bson::Int32(0), operand, false)?,
            });
        }
        "$min" | "$max" => {
            let is_taken = slot.as_ref().is_none_or(|old| {
                let of_types = bson_rank(operand).cmp(&bson_rank(old));
                let order = of_types.then_with(|| compare(Some(operand), Some(old)));
                if operator == "$min" { order.is_lt() } else { order.is_gt() }
            });
            if is_taken {
                *slot = Some(operand.clone());
            }
        }
        _ => {
            let items = match slot.get_or_insert_with(|| Bson::Array(Vec::new())) {
                Bson::Array(items) => items,
                _ => return Err(ANY),
            };
            change_array(items, (operator, operand));
        }
    }
    Ok(())
}

/// Returns the place of a type in the order of BSON, which updates keep to.
const fn bson_rank(value: &Bson) -> u8 {
    match value {
        Bson::Null => 0,
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Decimal128(_) => 1,
        Bson::String(_) => 2,
        Bson::Document(_) => 3,
        Bson::Array(_) => 4,
        Bson::Binary(_) => 5,
        Bson::ObjectId(_) => 6,
        Bson::Boolean(_) => 7,
        Bson::DateTime(_) => 8,
        _ => 9,
    }
}

/// Adds or multiplies; the result has the wider type.
fn computed(a: &Bson, b: &Bson, is_sum: bool) -> Result<Bson, Refused> {
    let ints = |value: &Bson| match value {
        Bson::Int32(n) => Some(i64::from(*n)),
        Bson::Int64(n) => Some(*n),
        _ => None,
    };
    if let (Some(x), Some(y)) = (ints(a), ints(b)) {
        let result = if is_sum { x.checked_add(y) } else { x.checked_mul(y) };
        let result = result.ok_or(ANY)?;
        let is_narrow = matches!((a, b), (Bson::Int32(_), Bson::Int32(_)));
        return Ok(match i32::try_from(result) {
            Ok(narrow) if is_narrow => Bson::Int32(narrow),
            _ => Bson::Int64(result),
        });
    }
    let (x, y) = number(a).zip(number(b)).ok_or(ANY)?;
    Ok(Bson::Double(if is_sum { x + y } else { x * y }))
}

fn change_array(items: &mut Vec<Bson>, (operator, operand): Operator<'_>) {
    let map = operand.as_document().filter(|map| map.contains_key("$each"));
    let each =
        || map.map_or_else(|| vec![operand.clone()], |map| map.get_array("$each").unwrap().clone());
    match operator {
        "$push" => push(items, each(), map),
        "$addToSet" => {
            for new in each() {
                if !items.iter().any(|item| equal(item, &new)) {
                    items.push(new);
                }
            }
        }
        "$pop" if items.is_empty() => {}
        "$pop" if operand.as_i32() == Some(-1) => drop(items.remove(0)),
        "$pop" => drop(items.pop()),
        "$pullAll" => {
            let values = operand.as_array().unwrap();
            items.retain(|item| !values.iter().any(|value| equal(item, value)));
        }
        "$pull" => items.retain(|item| match operand {
            Bson::Document(map) if map.keys().next().is_some_and(|name| !name.starts_with('$')) => {
                !item.as_document().is_some_and(|item| super::plain::matches(map, item))
            }
            condition => !holds(condition, &[Some(item)], true),
        }),
        other => panic!("no updates have {other}"),
    }
}

fn push(items: &mut Vec<Bson>, new: Vec<Bson>, map: Option<&Document>) {
    let number = |name: &str| map.and_then(|map| map.get_i32(name).ok());
    let at = match number("$position") {
        None => items.len(),
        Some(at) if at < 0 => items.len().saturating_sub(at.unsigned_abs() as usize),
        Some(at) => items.len().min(at as usize),
    };
    items.splice(at..at, new);
    if let Some(direction) = number("$sort") {
        items.sort_by(|a, b| {
            let order = compare(Some(a), Some(b));
            if direction < 0 { order.reverse() } else { order }
        });
    }
    match number("$slice") {
        None => {}
        Some(slice) if slice >= 0 => items.truncate(slice as usize),
        Some(slice) => {
            let gone = items.len().saturating_sub(slice.unsigned_abs() as usize);
            drop(items.drain(..gone));
        }
    }
}

/// Returns the document that an upsert inserts, without a new `_id` if nothing says one.
pub(super) fn upserted(
    filter: &Document,
    update: &Bson,
    around: Around<'_>,
) -> Result<Document, Refused> {
    let mut document = Document::new();
    let is_replacement = matches!(update, Bson::Document(update)
        if update.keys().next().is_none_or(|name| !name.starts_with('$')));
    for (path, condition) in filter {
        let is_operators = matches!(condition, Bson::Document(map)
            if map.keys().next().is_some_and(|name| name.starts_with('$')));
        if !is_operators && (path == "_id" || !is_replacement) {
            document.insert(path, condition.clone());
        }
    }
    apply(&document, update, Around { is_insert: true, position: None, ..around })
}
