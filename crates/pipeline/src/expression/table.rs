//! The operators that need the values of all their arguments.

use super::call::Function;
use super::{
    arithmetic, array, bits, compare, convert, dates, object, regex, set, text, trigonometry,
};

/// How the arguments of an operator are written.
#[derive(Clone, Copy)]
pub(super) enum Shape {
    /// A single one, which may be an array.
    Alone,
    /// In an array, from so many to so many; a single one also alone.
    List(usize, usize),
    /// A map of names, each with the error code if it is not there; 0 if it need not be.
    Named(&'static [(&'static str, i32)]),
    /// As [`Named`](Self::Named), but a missing value does not count as null.
    NamedWithMissing(&'static [(&'static str, i32)]),
    /// A date alone, or named with a zone.
    DatePart,
}

/// An operator.
pub(super) struct Operator {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) function: Function,
}

const fn list(name: &'static str, least: usize, most: usize, function: Function) -> Operator {
    Operator { name, shape: Shape::List(least, most), function }
}

const fn named(
    name: &'static str,
    names: &'static [(&'static str, i32)],
    function: Function,
) -> Operator {
    Operator { name, shape: Shape::Named(names), function }
}

const fn part(name: &'static str, function: Function) -> Operator {
    Operator { name, shape: Shape::DatePart, function }
}

const MANY: usize = usize::MAX;
const REGEX: &[(&str, i32)] = &[("input", 31022), ("regex", 31023), ("options", 0)];
const TRIM: &[(&str, i32)] = &[("input", 50695), ("chars", 0)];
const REPLACE: &[(&str, i32)] = &[("input", 51749), ("find", 51748), ("replacement", 51747)];
const STEP: &[(&str, i32)] =
    &[("startDate", 5166402), ("unit", 5166402), ("amount", 5166402), ("timezone", 0)];

const FEW: &[(&str, i32)] = &[("n", 5787906), ("input", 5787907)];

const OPERATORS: &[Operator] = &[
    list("$eq", 2, 2, compare::equal),
    list("$ne", 2, 2, compare::not_equal),
    list("$gt", 2, 2, compare::greater),
    list("$gte", 2, 2, compare::greater_or_equal),
    list("$lt", 2, 2, compare::less),
    list("$lte", 2, 2, compare::less_or_equal),
    list("$cmp", 2, 2, compare::compared),
    list("$not", 1, 1, compare::not),
    list("$in", 2, 2, compare::is_in),
    list("$add", 0, MANY, arithmetic::add),
    list("$subtract", 2, 2, arithmetic::subtract),
    list("$multiply", 0, MANY, arithmetic::multiply),
    list("$divide", 2, 2, arithmetic::divide),
    list("$mod", 2, 2, arithmetic::modulo),
    list("$abs", 1, 1, arithmetic::magnitude),
    list("$ceil", 1, 1, arithmetic::ceil),
    list("$floor", 1, 1, arithmetic::floor),
    list("$round", 1, 2, arithmetic::round),
    list("$trunc", 1, 2, arithmetic::truncate),
    list("$pow", 2, 2, arithmetic::power),
    list("$sqrt", 1, 1, arithmetic::root),
    list("$exp", 1, 1, arithmetic::exponential),
    list("$ln", 1, 1, arithmetic::natural_logarithm),
    list("$log10", 1, 1, arithmetic::logarithm_of_ten),
    list("$log", 2, 2, arithmetic::logarithm),
    Operator { name: "$sigmoid", shape: Shape::Alone, function: trigonometry::sigmoid },
    list("$sin", 1, 1, trigonometry::sine),
    list("$cos", 1, 1, trigonometry::cosine),
    list("$tan", 1, 1, trigonometry::tangent),
    list("$asin", 1, 1, trigonometry::arc_sine),
    list("$acos", 1, 1, trigonometry::arc_cosine),
    list("$atan", 1, 1, trigonometry::arc_tangent),
    list("$atan2", 2, 2, trigonometry::arc_tangent_of_two),
    list("$sinh", 1, 1, trigonometry::hyperbolic_sine),
    list("$cosh", 1, 1, trigonometry::hyperbolic_cosine),
    list("$tanh", 1, 1, trigonometry::hyperbolic_tangent),
    list("$asinh", 1, 1, trigonometry::area_sine),
    list("$acosh", 1, 1, trigonometry::area_cosine),
    list("$atanh", 1, 1, trigonometry::area_tangent),
    list("$degreesToRadians", 1, 1, trigonometry::to_radians),
    list("$radiansToDegrees", 1, 1, trigonometry::to_degrees),
    list("$bitAnd", 0, MANY, bits::and),
    list("$bitOr", 0, MANY, bits::or),
    list("$bitXor", 0, MANY, bits::xor),
    list("$bitNot", 1, 1, bits::not),
    list("$binarySize", 1, 1, bits::size_of_binary),
    list("$tsSecond", 1, 1, bits::seconds),
    list("$tsIncrement", 1, 1, bits::increment),
    list("$rand", 0, 0, bits::random),
    list("$stdDevPop", 0, MANY, array::deviation),
    list("$stdDevSamp", 0, MANY, array::sample_deviation),
    named("$firstN", FEW, array::first_few),
    named("$lastN", FEW, array::last_few),
    named("$minN", FEW, array::least_few),
    named("$maxN", FEW, array::greatest_few),
    named("$median", &[("input", 40414), ("method", 40414)], array::median),
    named("$percentile", &[("input", 40414), ("p", 40414), ("method", 40414)], array::percentiles),
    list("$sum", 0, MANY, array::sum),
    list("$avg", 0, MANY, array::average),
    list("$min", 0, MANY, array::least),
    list("$max", 0, MANY, array::greatest),
    list("$arrayElemAt", 2, 2, array::element_at),
    list("$first", 1, 1, array::first),
    list("$last", 1, 1, array::last),
    list("$slice", 2, 3, array::slice),
    list("$size", 1, 1, array::size),
    list("$concatArrays", 0, MANY, array::concatenated),
    list("$reverseArray", 1, 1, array::reversed),
    list("$range", 2, 3, array::range),
    list("$isArray", 1, 1, array::is_array),
    list("$indexOfArray", 2, 4, array::index_of),
    named("$zip", &[("inputs", 34465), ("useLongestLength", 0), ("defaults", 0)], array::zipped),
    named("$sortArray", &[("input", 2942502), ("sortBy", 2942503)], array::sorted),
    list("$setUnion", 0, MANY, set::union),
    list("$setIntersection", 0, MANY, set::intersection),
    list("$setDifference", 2, 2, set::difference),
    list("$setIsSubset", 2, 2, set::is_subset),
    list("$setEquals", 2, MANY, set::are_equal),
    list("$anyElementTrue", 1, 1, set::any_true),
    list("$allElementsTrue", 1, 1, set::all_true),
    list("$concat", 0, MANY, text::concatenated),
    list("$toUpper", 1, 1, text::upper),
    list("$toLower", 1, 1, text::lower),
    list("$strcasecmp", 2, 2, text::compared_without_case),
    list("$substr", 3, 3, text::part_by_bytes),
    list("$substrBytes", 3, 3, text::part_by_bytes),
    list("$substrCP", 3, 3, text::part_by_chars),
    list("$split", 2, 2, text::split),
    list("$strLenCP", 1, 1, text::length_in_chars),
    list("$strLenBytes", 1, 1, text::length_in_bytes),
    list("$indexOfBytes", 2, 4, text::index_in_bytes),
    list("$indexOfCP", 2, 4, text::index_in_chars),
    named("$trim", TRIM, text::trim),
    named("$ltrim", TRIM, text::trim_start),
    named("$rtrim", TRIM, text::trim_end),
    named("$replaceOne", REPLACE, text::replace_one),
    named("$replaceAll", REPLACE, text::replace_all),
    named("$regexMatch", REGEX, regex::is_match),
    named("$regexFind", REGEX, regex::first),
    named("$regexFindAll", REGEX, regex::all),
    list("$mergeObjects", 0, MANY, object::merged),
    list("$bsonSize", 1, 1, object::size),
    list("$objectToArray", 1, 1, object::to_array),
    list("$arrayToObject", 1, 1, object::from_array),
    Operator {
        name: "$getField",
        shape: Shape::NamedWithMissing(&[("field", 3041702), ("input", 3041703)]),
        function: object::field,
    },
    Operator {
        name: "$setField",
        shape: Shape::NamedWithMissing(&[
            ("field", 4161102),
            ("value", 4161103),
            ("input", 4161109),
        ]),
        function: object::with_field,
    },
    Operator {
        name: "$unsetField",
        shape: Shape::NamedWithMissing(&[("field", 4161102), ("input", 4161109)]),
        function: object::with_field,
    },
    list("$type", 1, 1, convert::type_of),
    list("$isNumber", 1, 1, convert::is_number),
    list("$toDouble", 1, 1, convert::to_double),
    list("$toString", 1, 1, convert::to_text),
    list("$toObjectId", 1, 1, convert::to_object_id),
    list("$toBool", 1, 1, convert::to_bool),
    list("$toDate", 1, 1, convert::to_date),
    list("$toInt", 1, 1, convert::to_int),
    list("$toLong", 1, 1, convert::to_long),
    list("$toDecimal", 1, 1, convert::to_decimal),
    list("$toUUID", 1, 1, convert::to_uuid),
    named(
        "$convert",
        &[("input", 9), ("to", 9), ("onNull", 0), ("format", 0), ("byteOrder", 0), ("base", 0)],
        convert::convert,
    ),
    part("$year", dates::year),
    part("$month", dates::month),
    part("$dayOfMonth", dates::day),
    part("$dayOfWeek", dates::day_of_week),
    part("$dayOfYear", dates::day_of_year),
    part("$hour", dates::hour),
    part("$minute", dates::minute),
    part("$second", dates::second),
    part("$millisecond", dates::millisecond),
    part("$week", dates::week),
    part("$isoWeek", dates::iso_week),
    part("$isoWeekYear", dates::iso_year),
    part("$isoDayOfWeek", dates::iso_weekday),
    named("$dateAdd", STEP, dates::add),
    named("$dateSubtract", STEP, dates::subtract),
    named(
        "$dateDiff",
        &[
            ("startDate", 5166303),
            ("endDate", 5166304),
            ("unit", 5166305),
            ("timezone", 0),
            ("startOfWeek", 0),
        ],
        dates::between,
    ),
    named(
        "$dateTrunc",
        &[
            ("date", 5439009),
            ("unit", 5439010),
            ("binSize", 0),
            ("timezone", 0),
            ("startOfWeek", 0),
        ],
        dates::truncate,
    ),
    named("$dateToParts", &[("date", 40522), ("timezone", 0), ("iso8601", 0)], dates::to_parts),
    named(
        "$dateFromParts",
        &[
            ("year", 0),
            ("month", 0),
            ("day", 0),
            ("isoWeekYear", 0),
            ("isoWeek", 0),
            ("isoDayOfWeek", 0),
            ("hour", 0),
            ("minute", 0),
            ("second", 0),
            ("millisecond", 0),
            ("timezone", 0),
        ],
        dates::from_parts,
    ),
    named(
        "$dateToString",
        &[("date", 18628), ("format", 0), ("timezone", 0), ("onNull", 0)],
        dates::to_text,
    ),
    named(
        "$dateFromString",
        &[("dateString", 40542), ("format", 0), ("timezone", 0), ("onNull", 0)],
        dates::from_text,
    ),
];

/// Returns the operator of a name.
pub(super) fn operator(name: &str) -> Option<&'static Operator> {
    OPERATORS.iter().find(|operator| operator.name == name)
}
