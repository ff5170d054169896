//! The page of what differs from MongoDB, docs/guide/differences.md, made of the table of commands
//! and of what parsers say.

use super::table::{REFUSED, TABLE};
use flagstone::doc::Map;
use flagstone::{Filter, Value};
use flagstone_pipeline::update::Update;
use flagstone_pipeline::{Expression, RowStages};
use std::fmt::Write;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/differences.md");

/// What no table says.
const BEGINNING: &str = "\
<!-- Made by a test: FLAGSTONE_GOLDEN=1 cargo test -p flagstone-server differences -->
# What differs from MongoDB

For programs that use a [driver](server.md).

- Filters, sorts and indexes have [flagstone's](queries.md#differences-from-mongodb) order of
  values, equality of maps, regular expressions and null in unique indexes. Expressions,
  accumulators and updates compare as MongoDB does.
- The server says that it is `mongos`: drivers then use transactions without a replica set's
  members. `--replica-set NAME` says otherwise.
- Timestamps, regular expressions, code, MinKey, MaxKey and odd binary subtypes are stored as the
  maps of Extended JSON, and come back as what they were. Dates end in 294,246 and have
  milliseconds on the wire. A map whose names BSON cannot hold comes as `$pairs`.
- Documents with a repeated name, or a field that begins with `$`, are refused.
- An update of several documents changes each separately; if one fails, the reply has `writeErrors`
  and the counts so far. Without a sort, documents come in the order of `_id`.
- `count` is exact, and so are statistics of up to 10,000 documents. Above that, overwritten and
  expired documents count until a compaction.
- Change streams tell changed arrays as a whole, and `$out` as `invalidate`. Expiry gives no event.
  A transaction gives one event for each document, in the order of the first writes. A `wallTime` is
  up to a second early.
- A transaction learns of conflicts when it commits. It takes no `create` and no `createIndexes`.
- Creating or dropping an index with `expireAfterSeconds` rewrites the documents that it makes
  expire.
- Reads with the concern `snapshot` need a transaction.
- A document has at most 10,000 [entries](indexes.md) in an index, and a name of an index 255 bytes.
  An index whose first field is `_id` is listed, but queries use the collection.

## Arguments

Arguments that the table does not name are read; unknown ones are errors. *Ignored* ones ask for
what is done anyway. *Refused* ones are errors if they ask for something.

| command | ignored | refused |
|---|---|---|
";

/// Stages of MongoDB.
const STAGES: &[&str] = &[
    "$addFields",
    "$bucket",
    "$bucketAuto",
    "$changeStream",
    "$changeStreamSplitLargeEvent",
    "$collStats",
    "$count",
    "$currentOp",
    "$densify",
    "$documents",
    "$facet",
    "$fill",
    "$geoNear",
    "$graphLookup",
    "$group",
    "$indexStats",
    "$limit",
    "$listLocalSessions",
    "$listSearchIndexes",
    "$listSessions",
    "$lookup",
    "$match",
    "$merge",
    "$out",
    "$planCacheStats",
    "$project",
    "$querySettings",
    "$queryStats",
    "$redact",
    "$replaceRoot",
    "$replaceWith",
    "$sample",
    "$search",
    "$searchMeta",
    "$set",
    "$setWindowFields",
    "$skip",
    "$sort",
    "$sortByCount",
    "$unionWith",
    "$unset",
    "$unwind",
    "$vectorSearch",
];

/// Stages that the server has and crate `pipeline` has not.
const OF_SERVER: &[&str] = &["$changeStream", "$collStats", "$currentOp", "$merge", "$out"];

/// Expressions of MongoDB.
const EXPRESSIONS: &str = "$abs $acos $acosh $add $allElementsTrue $and $anyElementTrue \
    $arrayElemAt $arrayToObject $asin $asinh $atan $atan2 $atanh $avg $binarySize $bitAnd $bitNot \
    $bitOr $bitXor $bsonSize $ceil $cmp $concat $concatArrays $cond $convert $cos $cosh $dateAdd \
    $dateDiff $dateFromParts $dateFromString $dateSubtract $dateToParts $dateToString $dateTrunc \
    $dayOfMonth $dayOfWeek $dayOfYear $degreesToRadians $divide $eq $exp $filter $first $firstN \
    $floor $function $getField $gt $gte $hour $ifNull $in $indexOfArray $indexOfBytes $indexOfCP \
    $isArray $isNumber $isoDayOfWeek $isoWeek $isoWeekYear $last $lastN $let $literal $ln $log \
    $log10 $lt $lte $ltrim $map $max $maxN $median $mergeObjects $meta $millisecond $min $minN \
    $minute $mod $month $multiply $ne $not $objectToArray $or $percentile $pow $radiansToDegrees \
    $rand $range $reduce $regexFind $regexFindAll $regexMatch $replaceAll $replaceOne \
    $reverseArray $round $rtrim $second $setDifference $setEquals $setField \
    $setIntersection $setIsSubset $setUnion $sin $sinh $size $slice $sortArray $split $sqrt \
    $stdDevPop $stdDevSamp $strLenBytes $strLenCP $strcasecmp $substr $substrBytes $substrCP \
    $subtract $sum $switch $tan $tanh $toBool $toDate $toDecimal $toDouble $toHashedIndexKey \
    $toInt $toLong $toLower $toObjectId $toString $toUUID $toUpper $trim $trunc $tsIncrement \
    $tsSecond $type $unsetField $week $year $zip";

const ACCUMULATORS: &str = "$accumulator $addToSet $avg $bottom $bottomN $count $first $firstN \
    $last $lastN $max $maxN $median $mergeObjects $min $minN $percentile $push $stdDevPop \
    $stdDevSamp $sum $top $topN";

const CONDITIONS: &str = "$all $bitsAllClear $bitsAllSet $bitsAnyClear $bitsAnySet $elemMatch $eq \
    $exists $geoIntersects $geoWithin $gt $gte $in $lt $lte $mod $ne $near $nearSphere $nin $not \
    $regex $size $type";

const UPDATES: &str = "$addToSet $bit $currentDate $inc $max $min $mul $pop $pull $pullAll $push \
    $rename $set $setOnInsert $unset";

/// Returns a map of one field.
fn one(name: &str, value: impl Into<Value>) -> Value {
    let mut map = Map::new();
    map.insert(name, value);
    Value::Map(map)
}

/// Returns the names that `is_here` does not know.
fn missing<'n>(
    names: impl IntoIterator<Item = &'n str>,
    is_here: impl Fn(&str) -> bool,
) -> Vec<&'n str> {
    names.into_iter().filter(|name| !is_here(name)).collect()
}

fn has_stage(name: &str) -> bool {
    let stages = Value::Array(vec![one(name, Value::Null)]);
    match RowStages::parse(&stages, &[name], &Map::new()) {
        // An unknown name, or one that is refused.
        Err(error) => OF_SERVER.contains(&name) || !matches!(error.code(), 115 | 40324 | 31082),
        Ok(_) => true,
    }
}

fn has_expression(name: &str) -> bool {
    let parsed = Expression::parse(&one(name, Value::Null));
    parsed.err().is_none_or(|error| error.code() != 168)
}

fn has_accumulator(name: &str) -> bool {
    let mut group = Map::new();
    group.insert("_id", 1);
    group.insert("x", one(name, Value::Null));
    let stages = Value::Array(vec![one("$group", Value::Map(group))]);
    let parsed = RowStages::parse(&stages, &["$group"], &Map::new());
    parsed.err().is_none_or(|error| error.code() != 15952)
}

fn has_condition(name: &str) -> bool {
    let says = |name: &str| {
        let parsed = Filter::of_driver(&one("a", one(name, Value::Null)), None);
        let error = parsed.and_then(|filter| filter.check()).err();
        error.map(|error| error.to_string().replace(name, ""))
    };
    says(name).is_none_or(|text| says("$nonsense").as_ref() != Some(&text))
}

fn has_update(name: &str) -> bool {
    let parsed = Update::parse(&one(name, one("a", Value::Null)), &[]);
    parsed.err().is_none_or(|error| !error.to_string().contains("expected one of"))
}

/// Wraps words at 100 characters.
fn wrapped(text: &str) -> String {
    let (mut out, mut len) = (String::new(), 0);
    for word in text.split(' ') {
        if len > 0 && len + 1 + word.len() > 100 {
            out.push('\n');
            len = 0;
        } else if len > 0 {
            out.push(' ');
            len += 1;
        }
        out.push_str(word);
        len += word.len();
    }
    out
}

fn page() -> String {
    let mut page = BEGINNING.to_owned();
    for entry in TABLE {
        let is_second = entry.help.starts_with("As ");
        if is_second || entry.ignored.is_empty() && entry.refused.is_empty() {
            continue;
        }
        let list = |names: &[&str]| {
            if names.is_empty() { String::new() } else { format!("`{}`", names.join(" ")) }
        };
        let (ignored, refused) = (list(entry.ignored), list(entry.refused));
        let _always = writeln!(page, "| {} | {ignored} | {refused} |", entry.name);
    }
    page.push_str("\nAll indexes: no `hidden`. All commands: no collation other than `simple`.\n");
    page.push_str("\n## Not here\n\n");
    let refused: Vec<_> = REFUSED
        .iter()
        .filter(|(name, _)| *name != "mapreduce")
        .map(|(name, instead)| format!("`{name}`: {instead}"))
        .collect();
    let split = |names: &'static str| names.split(' ').filter(|name| !name.is_empty());
    let list = |names: Vec<&str>| format!("`{}`", names.join(" "));
    let items = [
        format!("Commands, code 115: {}.", refused.join("; ")),
        "Commands of replica sets and shards, code 59.".to_owned(),
        format!(
            "Stages: {}; `$bucketAuto` with `granularity`.",
            list(missing(STAGES.iter().copied(), has_stage))
        ),
        format!("Expressions: {}.", list(missing(split(EXPRESSIONS), has_expression))),
        format!("Accumulators: {}.", list(missing(split(ACCUMULATORS), has_accumulator))),
        format!(
            "Conditions: {} and `$where $text $jsonSchema`.",
            list(missing(split(CONDITIONS), has_condition))
        ),
        "Geo, text, hashed and wildcard indexes, capped collections, tailable cursors, views, \
         validators, time series."
            .to_owned(),
    ];
    assert_eq!(missing(split(UPDATES), has_update), [""; 0], "all operators of updates are here");
    for item in items {
        let _always = writeln!(page, "{}", wrapped(&format!("- {item}")).replace('\n', "\n  "));
    }
    page
}

#[test]
fn the_page_of_differences_is_current() {
    let (page, words) = (page(), page().split_whitespace().count());
    if std::env::var_os("FLAGSTONE_GOLDEN").is_some() {
        std::fs::write(PAGE, &page).unwrap();
    }
    assert!(words < 800, "{words} words");
    let stored = std::fs::read_to_string(PAGE).unwrap_or_default();
    assert!(
        stored == page,
        "docs/guide/differences.md is stale: FLAGSTONE_GOLDEN=1 cargo test -p flagstone-server \
         differences writes it"
    );
}
