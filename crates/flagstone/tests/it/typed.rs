//! Typed keyspaces: the codec of serde, the plain codec, codecs of programs, and keys.

use crate::support::{hashed, open, small};
use flagstone::codec::{Codec, Serde};
use flagstone::{
    Database, Error, ErrorKind, Expect, Expires, Index, Plain, Prefix, Result, Space, TryGet,
    Typed, Value, doc,
};
use flagstone_testkit::World;
use serde::{Deserialize, Serialize};
use std::time::Duration;

#[derive(Serialize, Deserialize, Debug, PartialEq, Clone)]
struct User {
    name: String,
    logins: u64,
    tags: Vec<String>,
}

fn user(name: &str, logins: u64) -> User {
    User { name: name.into(), logins, tags: vec!["new".into()] }
}

fn nested(depth: usize) -> Value {
    (0..depth).fold(Value::Null, |inner, _| Value::Array(vec![inner]))
}

#[track_caller]
fn refused<T>(result: Result<T>, kind: ErrorKind, says: &str) {
    let error = result.err().expect("it should be refused");
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(says), "{says:?} is not in: {error}");
}

#[test]
fn structs_come_back_from_a_typed_keyspace_after_a_flush_and_a_reopen() {
    let world = World::new(1);
    let session = open(&world, &small());
    let users =
        session.db.space("users").options(hashed(2)).typed_codec::<String, User, Serde>().unwrap();
    for n in 0..100 {
        users.put(format!("{n:03}").as_str(), &user("x", n)).unwrap();
    }
    session.db.flush().unwrap();
    users.put("ada", &user("Ada", 1)).unwrap();
    users.update("ada", |user| user.map(|user| User { logins: 2, ..user })).unwrap();
    assert!(users.remove("007").unwrap() && !users.remove("007").unwrap());
    users.delete("008").unwrap();
    session.db.close().unwrap();
    let session = open(&world, &small());
    let users = session.db.typed::<String, User>("users").unwrap();
    assert_eq!(users.get("ada").unwrap(), Some(user("Ada", 2)));
    assert_eq!(users.get(&"042".to_owned()).unwrap(), Some(user("x", 42)));
    assert_eq!((users.get("007").unwrap(), users.get("008").unwrap()), (None, None));
    assert_eq!(users.count().unwrap(), 99);
    let range = "097".to_owned()..;
    let found: Vec<(String, u64)> = users
        .scan(range)
        .rev()
        .map(|entry| entry.map(|(key, user)| (key, user.logins)).unwrap())
        .collect();
    let expected = [("ada", 2), ("099", 99), ("098", 98), ("097", 97)];
    assert_eq!(found, expected.map(|(key, logins)| (key.to_owned(), logins)));
}

/// What is stored must not change: the catalog's text and the bytes of a value.
#[test]
fn a_struct_is_stored_as_a_document_with_its_field_names() {
    let session = open(&World::new(1), &small());
    let users = session.db.typed::<String, User>("users").unwrap();
    users.put("ada", &user("Ada", 1)).unwrap();
    let content = r#"keys of codec "string" and values of codec "document""#;
    assert_eq!(session.db.keyspaces()[0].content, content);
    let stored = users.keyspace().get("ada").unwrap().unwrap();
    let expected = b"\x12\x03\x04name\x06logins\x04tags\x43\x25\x17Ada\x06\x00\x00\x01\x43new";
    assert_eq!(stored.escape_ascii().to_string(), expected.escape_ascii().to_string());
    assert_eq!(users.key_bytes("ada").unwrap(), b"ada");
    // A value of documents has the same bytes, by either codec.
    let value = doc!({ "name": "Ada", "logins": 1, "tags": ["new"] });
    let values = session.db.typed::<u64, Value>("values").unwrap();
    values.put(&1, &value).unwrap();
    let plain = session.db.space("values").typed_codec::<u64, Value, Plain>().unwrap();
    plain.put(&2, &value).unwrap();
    for key in [1, 2] {
        let bytes = values.keyspace().get(values.key_bytes(&key).unwrap()).unwrap().unwrap();
        assert_eq!(bytes, stored);
        assert_eq!(plain.get(&key).unwrap(), Some(value.clone()));
    }
}

#[test]
fn a_type_reads_what_an_older_form_of_it_wrote() {
    #[derive(Serialize, Deserialize, Debug, PartialEq)]
    struct Newer {
        #[serde(default)]
        mail: Option<String>,
        logins: u64,
        name: String,
        #[serde(default)]
        admin: bool,
    }
    let session = open(&World::new(1), &small());
    let users = session.db.typed::<u64, User>("users").unwrap();
    users.put(&1, &user("Ada", 3)).unwrap();
    let newer = session.db.typed::<u64, Newer>("users").unwrap();
    let expected = Newer { mail: None, logins: 3, name: "Ada".into(), admin: false };
    assert_eq!(newer.get(&1).unwrap(), Some(expected));
    // The other way a field is missing, and the error says which.
    let expected = Newer { mail: Some("x@y".into()), logins: 4, name: "Bob".into(), admin: true };
    newer.put(&2, &expected).unwrap();
    assert_eq!(newer.get(&2).unwrap(), Some(expected));
    let says = r#"a value of "users" (document): missing field `tags`"#;
    refused(users.get(&2), ErrorKind::InvalidInput, says);
    let says = "logins: invalid type";
    let texts = session.db.typed::<u64, std::collections::BTreeMap<String, String>>("users");
    refused(texts.unwrap().get(&2), ErrorKind::InvalidInput, says);
    // A scan continues after an entry that does not fit.
    let found: Vec<bool> = users.scan(..).map(|entry| entry.is_ok()).collect();
    assert_eq!(found, [true, false]);
}

#[test]
fn a_value_that_cannot_be_encoded_is_refused_and_nothing_is_written() {
    fn check<C: Codec<Value>>(db: &Database, name: &str) {
        let values = db.space(name).typed_codec::<u64, Value, C>().unwrap();
        values.put(&1, &nested(512)).unwrap();
        let says = "nested deeper than 512";
        refused(values.put(&1, &nested(513)), ErrorKind::InvalidInput, says);
        refused(values.put(&2, &nested(513)), ErrorKind::InvalidInput, says);
        let deeper = |_: Option<Value>| Some(nested(513));
        refused(values.update(&1, deeper), ErrorKind::InvalidInput, says);
        let mut batch = db.batch();
        let put = batch.put(&values, &1, &nested(513));
        refused(put, ErrorKind::InvalidInput, says);
        assert!(batch.is_empty());
        assert_eq!(values.get(&1).unwrap(), Some(nested(512)));
        assert_eq!((values.get(&2).unwrap(), values.count().unwrap()), (None, 1));
    }
    let session = open(&World::new(1), &small());
    check::<Plain>(&session.db, "plain");
    check::<Serde>(&session.db, "serde");
}

/// A codec that stores even numbers only, and says so.
struct Even;

impl Codec<u64> for Even {
    fn name() -> String {
        "test.even/1".into()
    }

    fn encode(value: &u64, out: &mut Vec<u8>) -> Result<()> {
        out.extend_from_slice(b"even ");
        if value % 2 == 1 {
            return Err(Error::invalid(format!("{value} is odd")));
        }
        out.extend_from_slice(value.to_string().as_bytes());
        Ok(())
    }

    fn decode(bytes: &[u8]) -> Result<u64> {
        let text = std::str::from_utf8(bytes).ok().and_then(|text| text.strip_prefix("even "));
        let number = text.and_then(|text| text.parse().ok());
        number.ok_or_else(|| Error::new(ErrorKind::Corruption, "not an even number"))
    }
}

#[test]
fn a_codec_of_the_program_is_used_by_its_name_and_its_errors_are_returned() {
    let world = World::new(1);
    let session = open(&world, &small());
    let even: Typed<String, u64, Even> = session.db.space("even").typed_codec().unwrap();
    even.put("a", &4).unwrap();
    let says = r#"a value for "even": 5 is odd"#;
    refused(even.put("a", &5), ErrorKind::InvalidInput, says);
    refused(even.update("a", |old| old.map(|n| n + 1)), ErrorKind::InvalidInput, says);
    assert_eq!(even.get("a").unwrap(), Some(4));
    even.keyspace().put("b", "odd 5").unwrap();
    let says = r#"a value of "even" (test.even/1): not an even number"#;
    refused(even.get("b"), ErrorKind::Corruption, says);
    session.db.close().unwrap();
    let session = open(&world, &small());
    let other = session.db.space("even").typed_codec::<String, u64, Plain>().map(|_| ());
    refused(other, ErrorKind::InvalidInput, "test.even/1");
    let other = session.db.typed::<String, u64>("even").map(|_| ());
    refused(other, ErrorKind::InvalidInput, "document");
    let even: Option<Typed<String, u64, Even>> =
        session.db.space("even").existing().typed_codec().unwrap();
    assert_eq!(even.unwrap().get("a").unwrap(), Some(4));
    let missing: Option<Typed<String, u64>> =
        session.db.space("missing").existing().typed_codec().unwrap();
    assert!(missing.is_none() && session.db.keyspaces().len() == 1);
}

/// Keyspaces are opened by these names, so they must not change.
#[test]
fn the_plain_codec_keeps_its_names_and_forms() {
    fn form<T>(value: &T, name: &str, bytes: &[u8])
    where
        T: PartialEq + std::fmt::Debug,
        Plain: Codec<T>,
    {
        assert_eq!(<Plain as Codec<T>>::name(), name);
        let mut out = b"before".to_vec();
        Plain::encode(value, &mut out).unwrap();
        assert_eq!(out[6..].escape_ascii().to_string(), bytes.escape_ascii().to_string());
        assert_eq!(&<Plain as Codec<T>>::decode(bytes).unwrap(), value);
        assert!(<Plain as Codec<T>>::size_hint(value) <= bytes.len() + 2);
    }
    form(&7_u8, "u8", b"\x07");
    form(&7_u16, "u16", b"\0\x07");
    form(&7_u32, "u32", b"\0\0\0\x07");
    form(&7_u64, "u64", b"\0\0\0\0\0\0\0\x07");
    form(&1_u128, "u128", b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01");
    form(&-1_i8, "i8", b"\x7F");
    form(&1_i16, "i16", b"\x80\x01");
    form(&-1_i32, "i32", b"\x7F\xFF\xFF\xFF");
    form(&1_i64, "i64", b"\x80\0\0\0\0\0\0\x01");
    form(&1_i128, "i128", b"\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x01");
    form(&vec![1_u8, 0], "bytes", b"\x01\0");
    form(&"a\0".to_owned(), "string", b"a\0");
    form(&(), "unit", b"");
    form(&(1_u8, "a\0".to_owned()), "tuple(u8,string)", b"\x01a\0\xFF\0\0");
    form(&(doc!(7),), "tuple(sort-key)", b"\x43\x07\x01");
    form(&doc!(["a"]), "document", b"\x10\x01\x41a");
    let wrong = <Plain as Codec<()>>::decode(b"x");
    refused(wrong, ErrorKind::Corruption, "no bytes");
    refused(<Plain as Codec<u64>>::decode(b"short"), ErrorKind::Corruption, "u64");
    refused(<Plain as Codec<String>>::decode(b"\xFF"), ErrorKind::Corruption, "UTF-8");
    refused(<Plain as Codec<Value>>::decode(b""), ErrorKind::Corruption, "");
}

#[test]
fn keys_are_taken_in_borrowed_forms() {
    let session = open(&World::new(1), &small());
    let bytes = session.db.typed::<Vec<u8>, ()>("bytes").unwrap();
    bytes.put(b"array", &()).unwrap();
    bytes.put(b"slice".as_slice(), &()).unwrap();
    bytes.put(&b"vector".to_vec(), &()).unwrap();
    let keys: Vec<Vec<u8>> = bytes.scan(..).map(|entry| entry.unwrap().0).collect();
    assert_eq!(keys, [b"array".to_vec(), b"slice".to_vec(), b"vector".to_vec()]);
    let texts = session.db.typed::<String, ()>("texts").unwrap();
    texts.put("text", &()).unwrap();
    assert_eq!(texts.get(&"text".to_owned()).unwrap(), Some(()));
    refused(texts.put("", &()), ErrorKind::InvalidInput, "key");
}

#[test]
fn batches_and_snapshots_take_typed_keyspaces() {
    let session = open(&World::new(1), &small());
    let users = session.db.typed::<u64, User>("users").unwrap();
    let by_name = session.db.space("by_name").typed_codec::<(String, u64), (), Plain>().unwrap();
    users.put(&1, &user("Ada", 0)).unwrap();
    let before = session.db.snapshot();
    let add = |id: u64, name: &str| {
        let mut batch = session.db.batch();
        batch.expect(users.keyspace(), users.key_bytes(&id)?, Expect::Absent)?;
        batch.put(&users, &id, &user(name, 0))?;
        batch.put(&by_name, &(name.to_owned(), id), &())?;
        session.db.commit(batch)
    };
    add(2, "Bob").unwrap();
    refused(add(2, "Eve"), ErrorKind::Conflict, "");
    let mut batch = session.db.batch();
    batch.delete(&users, &1).unwrap();
    batch.put(&users, &3, &user("Cleo", 0)).unwrap();
    session.db.commit(batch).unwrap();
    let ids = |found: flagstone::Scan<'_, Typed<u64, User>>| -> Vec<u64> {
        found.map(|entry| entry.unwrap().0).collect()
    };
    assert_eq!(ids(users.scan(..)), [2, 3]);
    assert_eq!(ids(before.scan(&users, ..)), [1]);
    assert_eq!(ids(before.scan(&users, 2..)), [0; 0]);
    assert_eq!(before.get(&users, &1).unwrap(), Some(user("Ada", 0)));
    assert_eq!(before.get(&users, &2).unwrap(), None);
    assert_eq!(by_name.count().unwrap(), 1);
    let other = open(&World::new(2), &small());
    let theirs = other.db.typed::<u64, User>("users").unwrap();
    refused(before.get(&theirs, &1), ErrorKind::InvalidInput, "");
    refused(before.scan(&theirs, ..).next().unwrap(), ErrorKind::InvalidInput, "");
}

#[test]
fn a_typed_keyspace_reads_memory_alone_and_is_emptied() {
    let world = World::new(3);
    let session = open(&world, &small());
    session.db.typed::<u64, User>("users").unwrap().put(&1, &user("Ada", 1)).unwrap();
    session.db.close().unwrap();
    let session = open(&world, &small());
    let users = session.db.typed::<u64, User>("users").unwrap();
    assert_eq!(users.try_get(&1).unwrap(), TryGet::WouldRead);
    assert_eq!(users.get(&1).unwrap(), Some(user("Ada", 1)));
    assert_eq!(users.try_get(&1).unwrap(), TryGet::Found(user("Ada", 1)));
    users.clear().unwrap();
    assert_eq!(users.try_get(&1).unwrap(), TryGet::Absent);
    assert_eq!(users.count().unwrap(), 0);
    users.keyspace().put(users.key_bytes(&1).unwrap(), b"\xFF").unwrap();
    refused(users.try_get(&1), ErrorKind::Corruption, r#"a value of "users" (document)"#);
}

#[test]
fn bytes_that_are_no_document_are_corruption() {
    let session = open(&World::new(1), &small());
    let users = session.db.typed::<u64, User>("users").unwrap();
    let says = r#"a value of "users" (document)"#;
    for bytes in [&b""[..], b"\xFF", b"\x12\x01\x04name\x41\xFF", b"\x13\x01\x00\x25"] {
        users.keyspace().put(users.key_bytes(&1).unwrap(), bytes).unwrap();
        refused(users.get(&1), ErrorKind::Corruption, says);
    }
    users.keyspace().put("short", "").unwrap();
    let last = users.scan(2..).next().unwrap();
    refused(last, ErrorKind::Corruption, r#"a key of "users" (u64)"#);
}

/// A value whose `Serialize` writes another value.
struct Nosy(Option<Typed<u64, User>>);

impl Serialize for Nosy {
    fn serialize<S: serde::Serializer>(
        &self,
        serializer: S,
    ) -> std::result::Result<S::Ok, S::Error> {
        if let Some(users) = &self.0 {
            users.put(&1, &user("inner", 1)).map_err(serde::ser::Error::custom)?;
        }
        serializer.serialize_str("outer")
    }
}

impl<'de> Deserialize<'de> for Nosy {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(from).map(|_outer| Self(None))
    }
}

#[test]
fn a_typed_value_may_write_others_while_it_is_encoded() {
    let session = open(&World::new(1), &small());
    let users = session.db.typed::<u64, User>("users").unwrap();
    let nosy = session.db.typed::<u64, Nosy>("nosy").unwrap();
    nosy.put(&1, &Nosy(Some(users.clone()))).unwrap();
    assert!(nosy.get(&1).unwrap().is_some());
    assert_eq!(users.get(&1).unwrap(), Some(user("inner", 1)));
}

/// The same methods for bytes, Rust types and documents, alone and in every context.
#[test]
fn the_verbs_of_the_three_spaces_agree() {
    let session = open(&World::new(9), &small());
    let db = &session.db;
    let kv = db.keyspace("kv").unwrap();
    let numbers = db.typed::<String, u64>("numbers").unwrap();
    let posts = db.collection("posts").unwrap();
    let in_a_day = db.now().after(Duration::from_secs(86_400));

    let mut batch = db.batch();
    batch.put(&kv, "a", "1".expires(in_a_day)).unwrap();
    batch.put(&numbers, "a", (&1).expires(in_a_day)).unwrap();
    batch.put(&posts, "a", doc!({ "n": 1 }).expires(in_a_day)).unwrap();
    batch.expect(&kv, "a", Expect::Absent).unwrap();
    batch.expect(&numbers, "a", Expect::Absent).unwrap();
    batch.expect(&posts, "a", Expect::Absent).unwrap();
    db.commit(batch).unwrap();
    let expiries = [kv.expiry("a"), numbers.expiry("a"), posts.expiry("a")];
    assert_eq!(expiries.map(Result::unwrap), [Some(in_a_day); 3]);

    let version = numbers.get_versioned("a").unwrap().unwrap().0;
    db.transaction(|tx| -> Result<()> {
        assert!(tx.update(&kv, "a", |old| old.map(|old| [old, b"x"].concat()))?);
        assert!(tx.update(&numbers, "a", |old| old.map(|old| old + 1))?);
        assert!(tx.update(&posts, "a", |post| post.inc("n", 1).map(drop))?);
        assert!(!tx.update(&numbers, "b", |old| old)?);
        assert!(!tx.update(&posts, "b", |post| post.inc("n", 1).map(drop))?);
        let seen = (tx.get(&kv, "a")?, tx.get(&numbers, "a")?, tx.get(&posts, "a")?);
        assert_eq!((seen.0.as_deref(), seen.1), (Some(b"1x".as_slice()), Some(2)));
        assert_eq!(seen.2.and_then(|post| post.int("n")), Some(2));
        Ok(())
    })
    .unwrap();
    let expiries = [kv.expiry("a"), numbers.expiry("a"), posts.expiry("a")];
    assert_eq!(expiries.map(Result::unwrap), [Some(in_a_day); 3], "updates keep the expiry");
    let mut batch = db.batch();
    batch.expect(&numbers, "a", Expect::Version(version)).unwrap();
    refused(db.commit(batch), ErrorKind::Conflict, "");

    for key in ["ab", "b"] {
        kv.put(key, "2").unwrap();
        numbers.put(key, &2).unwrap();
        posts.put(key, doc!({ "n": 2 })).unwrap();
    }
    let before = db.snapshot();
    db.transaction(|tx| -> Result<()> {
        tx.delete_range(&kv, Prefix("a"))?;
        tx.delete_range(&numbers, Prefix("a"))?;
        tx.delete_range(&posts, Prefix("a"))
    })
    .unwrap();
    let left = (kv.scan(..).count(), numbers.scan(..).count(), posts.scan(..).count());
    assert_eq!(left, (1, 1, 1));
    let found = [before.scan(&kv, Prefix("a")).count(), before.scan(&posts, Prefix("a")).count()];
    assert_eq!((found, before.scan(&numbers, Prefix("a")).rev().count()), ([2, 2], 2));
    assert!(kv.update("b", |_| Some(b"3".to_vec())).unwrap());
    assert!(!kv.update("b", |_| None).unwrap() && !numbers.update("b", |_| None).unwrap());
    numbers.delete_range(..).unwrap();
    assert_eq!((kv.count().unwrap(), numbers.count().unwrap()), (0, 0));
}

/// A document of an indexed collection that a transaction removes by range leaves the indexes, and
/// a stopped load does not continue over it.
#[test]
fn a_range_of_documents_that_a_transaction_removes_leaves_the_indexes() {
    let session = open(&World::new(10), &small());
    let posts = session.db.collection("posts").unwrap();
    posts.create_index("n", Index::on("$.n")).unwrap();
    for n in 0..20 {
        posts.put(n, doc!({ "n": n })).unwrap();
    }
    session
        .db
        .transaction(|tx| -> Result<()> {
            tx.delete_range(&posts, 5..15)?;
            assert_eq!(tx.find(&posts, r#"{"n":{"$gte":0}}"#).count()?, 10);
            assert_eq!(tx.scan(&posts, ..).count(), 10);
            Ok(())
        })
        .unwrap();
    posts.verify_indexes().unwrap();
    assert_eq!(posts.find(r#"{"n":{"$gte":5}}"#).count().unwrap(), 5);
}
