//! Pages and their tokens.

use super::model;
use crate::support::{hashed, small};
use flagstone::{Collection, ErrorKind, Find, Page, PageToken, Value, doc};
use flagstone_testkit::Rng;
use flagstone_testkit::{World, seed};

fn texts(page: &Page) -> Vec<String> {
    page.documents.iter().map(|(key, document)| format!("{key} {document}")).collect()
}

/// Reads all pages, each token through its text.
fn paged<'t>(find: impl Fn() -> Find<'t>, length: u64) -> Vec<String> {
    let (mut all, mut token) = (Vec::new(), None::<String>);
    loop {
        let find = match &token {
            Some(token) => find().after_text(token),
            None => find(),
        };
        let page = find.page(length).unwrap();
        assert!(page.documents.len() as u64 <= length);
        all.extend(texts(&page));
        match page.next {
            Some(next) => token = Some(next.to_string()),
            None => return all,
        }
    }
}

fn filled(world: &World) -> (flagstone_testkit::Session, Collection) {
    let session = world.open(&small()).unwrap();
    let collection = session.db.collection_with("documents", hashed(3)).unwrap();
    let rng = &mut Rng::new(seed("pages", 5));
    for key in 0..400_i64 {
        collection.put_value(key, &model::document(rng)).unwrap();
    }
    (session, collection)
}

#[test]
fn pages_together_are_the_whole_query() {
    let world = World::new(1);
    let (_session, collection) = filled(&world);
    for filter in ["{}", r#"{"n":{"$gte":2}}"#, r#"{"tags":"a"}"#] {
        for sort in ["", "n", "-n", "a,-n", "-tags"] {
            let find = || match sort {
                "" => collection.find(filter),
                sort => collection.find(filter).sort(sort),
            };
            let whole = texts(&find().page(1000).unwrap());
            assert!(!whole.is_empty());
            for length in [1, 7, whole.len() as u64] {
                assert_eq!(paged(find, length), whole, "{filter} {sort} {length}");
            }
        }
    }
}

#[test]
fn pages_continue_after_a_reopen_and_after_their_document_is_gone() {
    let world = World::new(1);
    let (session, collection) = filled(&world);
    let whole = texts(&collection.find("{}").sort("n").page(1000).unwrap());
    let page = collection.find("{}").sort("n").page(10).unwrap();
    collection.delete(page.documents[9].0.clone()).unwrap();
    let token = page.next.unwrap().to_string();
    drop(collection);
    session.db.close().unwrap();
    let session = world.open(&small()).unwrap();
    let collection = session.db.collection_with("documents", hashed(3)).unwrap();
    let rest = collection.find("{}").sort("n").after_text(&token).page(1000).unwrap();
    assert_eq!(texts(&rest), whole[10..]);
    // A projection is free to change.
    let rest = collection.find("{}").sort("n").project("n").after_text(&token).page(2).unwrap();
    assert_eq!(rest.documents.len(), 2);
}

#[test]
fn a_token_of_another_query_collection_or_database_is_refused() {
    let world = World::new(1);
    let (session, collection) = filled(&world);
    let token = collection.find(r#"{"n":{"$gte":2}}"#).sort("n").page(2).unwrap().next.unwrap();
    let refused = |find: Find<'_>| {
        let refused = find.after(&token).page(2).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidInput);
        refused.to_string()
    };
    assert!(refused(collection.find("{}").sort("n")).contains("another query"));
    assert!(refused(collection.find(r#"{"n":{"$gte":2}}"#)).contains("another query"));
    assert!(refused(collection.find(r#"{"n":{"$gte":2}}"#).sort("-n")).contains("another query"));
    let other = session.db.collection("other").unwrap();
    other.put_value(1, &doc!({"n": 3})).unwrap();
    assert!(refused(other.find(r#"{"n":{"$gte":2}}"#).sort("n")).contains("another query"));
    let elsewhere = World::new(2);
    let (_session, copy) = filled(&elsewhere);
    assert!(refused(copy.find(r#"{"n":{"$gte":2}}"#).sort("n")).contains("is of history"));
}

#[test]
fn a_page_has_neither_limit_nor_skip_and_values_have_no_pages() {
    let world = World::new(1);
    let (_session, collection) = filled(&world);
    let token: PageToken = collection.find("{}").page(1).unwrap().next.unwrap();
    let kind = |error: flagstone::Error| assert_eq!(error.kind(), ErrorKind::InvalidInput);
    kind(collection.find("{}").limit(3).page(1).unwrap_err());
    kind(collection.find("{}").skip(3).page(1).unwrap_err());
    kind(collection.find("{}").after(&token).distinct("n").err().unwrap());
    kind(collection.find("{}").after(&token).group(&flagstone::Group::by("n")).err().unwrap());
    let empty = collection.find("{}").page(0).unwrap();
    assert!(empty.documents.is_empty() && empty.next.is_none());
    // A cursor and a count may begin after a token, too.
    assert_eq!(collection.find("{}").after(&token).count().unwrap(), 399);
    let rest = collection.find("{}").after(&token).skip(398).run().unwrap();
    assert_eq!(rest.map(|entry| entry.unwrap().0).collect::<Vec<_>>(), [Value::from(399)]);
}
