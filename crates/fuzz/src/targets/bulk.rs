//! Text of many documents: it is cut into the same documents however it is read, and each byte
//! belongs to one of them.

use super::note;
use flagstone::Value;
use flagstone::doc::json;
use flagstone::load::{Chunk, Elements, ElementsError, Lines, Place, ranges};
use flagstone_testkit::short_reads::ShortReads;
use std::convert::Infallible;

/// Where each document begins, its text, and its line and column if they are counted.
type Documents = Vec<(u64, Vec<u8>, Option<Place>)>;

/// Returns all documents, and the error that ends them.
fn collect<E>(
    text: &[u8],
    mut next: impl FnMut() -> Result<Option<Chunk>, E>,
) -> (Documents, Option<E>) {
    let (mut documents, mut end) = (Vec::new(), 0);
    loop {
        let chunk = match next() {
            Ok(Some(chunk)) => chunk,
            Ok(None) => return (documents, None),
            Err(error) => return (documents, Some(error)),
        };
        assert!(chunk.offset >= end && chunk.end >= chunk.offset, "chunks follow one another");
        end = chunk.end;
        assert!(end <= text.len() as u64, "a chunk is within the text");
        let offset = chunk.offset as usize;
        assert_eq!(text.get(offset..offset + chunk.bytes.len()), Some(&chunk.bytes[..]));
        for (at, document) in chunk.documents() {
            let place = chunk.place.map(|place| place.after(&chunk.bytes[..at]));
            documents.push((chunk.offset + at as u64, document.to_vec(), place));
        }
    }
}

/// Reads a byte that says how long documents may be, one that says in which steps the text is read,
/// and the text.
pub(super) fn body(bytes: &[u8]) {
    let Some(([limit, step], text)) = bytes.split_first_chunk::<2>() else { return };
    let limit = if *limit < 128 { usize::from(*limit) } else { 1 << 20 };
    lines(text, limit, usize::from(*step) + 1);
    for is_array in [true, false] {
        elements(text, limit, usize::from(*step) + 1, is_array);
    }
}

fn lines(text: &[u8], limit: usize, step: usize) {
    let of_stream = |step: usize| {
        let mut lines = Lines::of_stream(ShortReads(text, step), limit);
        collect(text, || Ok::<_, Infallible>(lines.next_chunk().expect("memory is read"))).0
    };
    let documents = of_stream(usize::MAX);
    assert_eq!(of_stream(step), documents, "in steps of {step}");
    let mut of_ranges = Documents::new();
    // Each range reads on to the end of a long line.
    let len = text.len() as u64;
    for range in ranges(len, (step as u64).max(len / 64)) {
        let from = Lines::<&[u8]>::first_byte(&range) as usize;
        let mut lines = Lines::of_range(&text[from..], range, limit);
        of_ranges
            .extend(collect(text, || Ok::<_, Infallible>(lines.next_chunk().expect("as above"))).0);
    }
    assert!(
        documents.iter().map(|one| (one.0, &one.1)).eq(of_ranges.iter().map(|one| (one.0, &one.1))),
        "{documents:?} in ranges of {step}: {of_ranges:?}"
    );
    // What a naive reader finds. A line that is too long is cut one byte after the limit.
    let unmarked = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let lines = unmarked.split(|byte| *byte == b'\n').filter_map(|line| {
        let trimmed = line.strip_suffix(b"\r").unwrap_or(line);
        let is_blank = trimmed.iter().all(|byte| b" \t\r\n".contains(byte));
        (!is_blank || line.len() > limit).then_some(trimmed)
    });
    if limit >= text.len() {
        let found = documents.iter().map(|(_, line, _)| &line[..]);
        assert!(lines.eq(found), "{documents:?}");
    }
    note(format_args!("{} lines", documents.len().min(4)));
}

fn elements(text: &[u8], limit: usize, step: usize, is_array: bool) {
    let read = |step: usize| {
        let input = ShortReads(text, step);
        let mut elements = if is_array {
            Elements::of_stream(input, limit)
        } else {
            Elements::of_documents(input, limit)
        };
        let (documents, error) = collect(text, || elements.next_chunk());
        let error = error.map(|error| match error {
            ElementsError::Input(error) => panic!("memory is read: {error}"),
            ElementsError::NoArray { place, expected } => (place, expected),
        });
        (documents, error)
    };
    let (documents, error) = read(usize::MAX);
    assert_eq!(read(step), (documents.clone(), error), "in steps of {step}");
    for (offset, element, place) in &documents {
        let before = text.strip_prefix(b"\xEF\xBB\xBF").map_or(0, |_| 3);
        let expected = Place::START.after(&text[before..*offset as usize]);
        assert_eq!(*place, Some(expected), "{}", element.escape_ascii());
    }
    note(error.map_or("all", |(_, expected)| expected));
    note(format_args!("{is_array} {}", documents.len().min(4)));
    if limit < text.len() || !is_array {
        return;
    }
    let unmarked = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let found: Result<Vec<Value>, _> = documents.iter().map(|one| json::parse(&one.1)).collect();
    match (json::parse(unmarked), error, found) {
        (Ok(Value::Array(items)), None, Ok(found)) => assert_eq!(items, found),
        (Ok(Value::Array(items)), error, found) => panic!("{items:?}: {error:?} {found:?}"),
        // An array has room for one level more than a document in it.
        (whole, None, Ok(found)) => assert!(is_deep(unmarked), "{found:?} is {whole:?}"),
        _ => {}
    }
}

/// Returns whether the text may be nested too deeply to be one document.
fn is_deep(text: &[u8]) -> bool {
    text.iter().filter(|byte| b"[{".contains(byte)).count() > flagstone_doc::DEPTH_MAX
}

pub(super) fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        "{\"id\":1,\"t\":\"a b\"}\n{\"id\":2}\r\n\n \t\r\n{\"id\":3,\"t\":\"\\\"\\\\\"}",
        "[{\"id\":1},\n {\"id\":[2,{\"a\":\"],[\"}]} , 3,\"x\\\"\",null]\n",
        "{\n  \"id\": 1\n}\n{\n  \"id\": 2, \"a\": [{}]\n}{\"id\":3}\n[1]\n",
        "\u{feff}[]",
        "\u{feff}{\"\u{e9}\":\"\u{1f600}\"}\n{\"a\":1}",
        "[[[[[[[[]]]]]],{},{},{}]",
    ];
    let heads = [[255, 0], [255, 6], [9, 2]];
    let seeds = texts.iter().flat_map(|text| heads.map(|head| [&head, text.as_bytes()].concat()));
    seeds.collect()
}
