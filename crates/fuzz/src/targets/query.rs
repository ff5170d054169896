//! What a query is asked for besides its filter: projections, sorts and groups. What is parsed
//! prints and parses again, and what is read of a document is its part.

use super::document::names;
use super::filter::documents;
use super::{bounded, join, note, split};
use flagstone::Group;
use flagstone_doc::json::append_json;
use flagstone_doc::{
    Direction, FieldPath, FilterError, IndexKeys, JsonMode, Names, Projection, Projector, SortSpec,
    View, validate,
};

/// Escaped, a path of a longer text may be longer than a path may be.
const TEXT_MAX: usize = 8 << 10;

/// Reads a document and the text of a projection, a sort or a group.
pub(super) fn body(bytes: &[u8]) {
    let Some((document, text)) = split(bytes) else { return };
    let text = String::from_utf8_lossy(text);
    if text.len() > TEXT_MAX {
        return note("long");
    }
    let names = names();
    let view = validate(document, Some(&names)).ok();
    match Projection::parse(&text) {
        Ok(projection) => {
            let printed = projection.to_string();
            let again = Projection::parse(&printed).expect("a printed projection is one");
            assert_eq!(again.to_string(), printed, "{text:?}");
            note(format_args!("projection {}", projection.is_inclusion()));
            if let Some(view) = &view {
                let kept = |projection| part(view, (document.len(), &names), projection);
                assert_eq!(kept(&projection), kept(&again), "{printed}");
            }
        }
        Err(error) => refused(&text, &error),
    }
    match SortSpec::parse(&text) {
        Ok(sort) => {
            let printed = sort.to_string();
            assert_eq!(SortSpec::parse(&printed).as_ref(), Ok(&sort), "{printed}");
            note(format_args!("sort {}", sort.parts().len()));
            if let Some(view) = &view {
                check_key(view, &sort);
            }
        }
        Err(error) => refused(&text, &error),
    }
    match Group::parse(&text) {
        Ok(group) => {
            let printed = group.to_string();
            let again = Group::parse(&printed).expect("a printed group is one");
            assert_eq!(again.to_string(), printed, "{text:?}");
            note("group");
        }
        Err(error) => note(error.to_string().split(" found ").next().unwrap_or_default()),
    }
}

fn refused(text: &str, error: &FilterError) {
    assert!(error.offset.is_none_or(|offset| offset <= text.len()), "{error}");
    note(error.expected.split('(').next().unwrap_or_default());
}

/// Returns what a projection keeps, as JSON.
fn part(view: &View<'_>, (len, names): (usize, &Names), projection: &Projection) -> Vec<u8> {
    let (mut projector, mut binary) = (Projector::new(), Vec::new());
    let applied = bounded(len, 600, "a projection", || {
        projector.apply(projection, view, Some(names), &mut binary)
    });
    applied.expect("a valid document is read");
    let kept = validate(&binary, Some(names)).expect("a projection writes a document");
    let (mut text, mut direct, mut twice) = (Vec::new(), Vec::new(), Vec::new());
    append_json(&kept, &mut text).expect("it is valid");
    projector.json(projection, view, JsonMode::Plain, &mut direct).expect("as above");
    projector.json(projection, &kept, JsonMode::Plain, &mut twice).expect("as above");
    assert_eq!(text, direct, "{projection}");
    assert_eq!(text, twice, "{projection} of what it keeps");
    text
}

/// Asserts that the key of a document consists of its keys by each path alone, and that only the
/// last path is the primary key, which it does not have.
fn check_key(view: &View<'_>, sort: &SortSpec) {
    let mut keys = IndexKeys::new();
    let mut key_of = |sort: &SortSpec| {
        let mut key = Vec::new();
        sort.key(view, &mut keys, &mut key).expect("a valid document is read");
        key
    };
    let whole = key_of(sort);
    let (_, front) = sort.parts().split_last().expect("a sort has a path");
    assert!(front.iter().all(|(path, _)| !path.is_primary_key()), "{sort}");
    let alone = |(path, direction): &(FieldPath, Direction)| {
        key_of(&SortSpec::new([(path.clone(), *direction)]).expect("one path"))
    };
    assert_eq!(whole, sort.parts().iter().flat_map(alone).collect::<Vec<u8>>(), "{sort}");
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let documents = documents(&names());
    let texts = [
        "id,a.b,score",
        "-tags,-$.a[0].b",
        r#"{"id":1,"a":{"b":1,"c":true}}"#,
        r#"{"a.b":0,"$['x y']":false}"#,
        "-score,id,+tags",
        "score,-$key,id",
        r#"{"$key":-1}"#,
        r#"{"score":-1,"a.b":1}"#,
        "id, a.b: count, avg(score) as mean, max(a.b)",
        r#"$['a,b'], tags: sum($["c)"]) as " as ", min(id)"#,
    ];
    let pairs = texts
        .iter()
        .flat_map(|text| documents.iter().map(|document| join(document, text.as_bytes())));
    pairs.collect()
}
