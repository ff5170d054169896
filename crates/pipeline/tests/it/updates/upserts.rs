//! The documents that upserts insert.

use super::{parse, update};
use flagstone::Filter;
use flagstone_pipeline::update::Context;

#[test]
fn an_upsert_takes_the_values_that_the_filter_requires() {
    for (filter, text, expected) in [
        (r#"{"a":1}"#, r#"{"$set":{"b":2}}"#, Ok(r#"{"a":1,"b":2}"#)),
        (r#"{"a":1}"#, r#"{"$inc":{"a":2}}"#, Ok(r#"{"a":3}"#)),
        (r#"{"a":{"$eq":1},"b":{"$gt":2}}"#, r#"{"$set":{"c":3}}"#, Ok(r#"{"a":1,"c":3}"#)),
        (r#"{"a.b":1,"a.c":2}"#, r#"{"$set":{}}"#, Ok(r#"{"a":{"b":1,"c":2}}"#)),
        (r#"{"a":{"$in":[7]},"b":{"$in":[1,2]}}"#, r#"{"$set":{}}"#, Ok(r#"{"a":7}"#)),
        (r#"{"a":{"$all":[7]}}"#, r#"{"$set":{}}"#, Ok(r#"{"a":7}"#)),
        (r#"{"$and":[{"a":1},{"$and":[{"b":2}]}]}"#, r#"{"$set":{}}"#, Ok(r#"{"a":1,"b":2}"#)),
        (r#"{"$or":[{"a":1}],"$nor":[{"b":2}]}"#, r#"{"$set":{}}"#, Ok(r#"{"a":1}"#)),
        (r#"{"$or":[{"a":1},{"b":2}]}"#, r#"{"$set":{}}"#, Ok("{}")),
        (r#"{"a":{"$elemMatch":{"x":1}}}"#, r#"{"$set":{}}"#, Ok("{}")),
        (r#"{"a":{"x":1}}"#, r#"{"$set":{"a.y":1}}"#, Ok(r#"{"a":{"x":1,"y":1}}"#)),
        (r#"{"a.0":1}"#, r#"{"$set":{}}"#, Ok(r#"{"a":{"0":1}}"#)),
        (r#"{"b":1,"_id":2}"#, r#"{"$set":{"a":1}}"#, Ok(r#"{"_id":2,"b":1,"a":1}"#)),
        (r#"{"b":1,"$key":2}"#, r#"{"$set":{"a":1}}"#, Ok(r#"{"_id":2,"b":1,"a":1}"#)),
        (r#"{"b":1}"#, r#"{"$set":{"_id":1}}"#, Ok(r#"{"_id":1,"b":1}"#)),
        (r#"{"b":1}"#, r#"{"$setOnInsert":{"_id":1},"$unset":{"b":1}}"#, Ok(r#"{"_id":1}"#)),
        // A replacement takes the `_id` alone.
        (r#"{"b":1,"_id":2}"#, r#"{"a":1}"#, Ok(r#"{"_id":2,"a":1}"#)),
        (r#"{"b":1,"b.c":2,"_id":2}"#, r#"{"a":1,"_id":2}"#, Ok(r#"{"_id":2,"a":1}"#)),
        (r#"{"b":1}"#, r#"{"a":1,"_id":2}"#, Ok(r#"{"_id":2,"a":1}"#)),
        (r#"{"a":1,"_id":2}"#, r#"[{"$set":{"b":"$a"}}]"#, Ok(r#"{"_id":2,"a":1,"b":1}"#)),
        (r#"{"_id":1}"#, r#"{"_id":2}"#, Err(66)),
        (r#"{"_id":1}"#, r#"{"$set":{"_id":2}}"#, Err(66)),
        (r#"{"a":1,"a.b":2}"#, r#"{"$set":{}}"#, Err(54)),
        (r#"{"a":{"$all":[1,2]}}"#, r#"{"$set":{}}"#, Err(54)),
        (r#"{"a":1}"#, r#"{"$set":{"a.b":2}}"#, Err(28)),
        (r#"{"a":1}"#, r#"{"$set":{"a.$":2}}"#, Err(2)),
        (r#"{"b":1}"#, r#"{"$set":{"_id":[1]}}"#, Err(53)),
    ] {
        let change = update(text, "[]").unwrap();
        let found =
            change.upserted(&Filter::from_value(&parse(filter)).unwrap(), &Context::default());
        let found = found.map(|found| found.to_string()).map_err(|error| error.code());
        assert_eq!(found, expected.map(str::to_owned), "{text} of {filter}");
    }
}
