//! Typed keyspaces: the codec of serde, the plain codec, codecs of programs, and keys.

use crate::support::{hashed, open, small};
use flagstone::{
    Codec, Database, Error, ErrorKind, Plain, Result, Serde, TryGet, Typed, Value, doc,
};
use flagstone_testkit::World;
use serde::{Deserialize, Serialize};

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
    let users = session.db.typed_with::<String, User>("users", hashed(2)).unwrap();
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
        .unwrap()
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
    let plain = session.db.typed_codec::<u64, Value, Plain>("values").unwrap();
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
    let found: Vec<bool> = users.scan(..).unwrap().map(|entry| entry.is_ok()).collect();
    assert_eq!(found, [true, false]);
}

#[test]
fn a_value_that_cannot_be_encoded_is_refused_and_nothing_is_written() {
    fn check<C: Codec<Value>>(db: &Database, name: &str) {
        let values = db.typed_codec::<u64, Value, C>(name).unwrap();
        values.put(&1, &nested(512)).unwrap();
        let says = "nested deeper than 512";
        refused(values.put(&1, &nested(513)), ErrorKind::InvalidInput, says);
        refused(values.put(&2, &nested(513)), ErrorKind::InvalidInput, says);
        let deeper = |_: Option<Value>| Some(nested(513));
        refused(values.update(&1, deeper), ErrorKind::InvalidInput, says);
        let mut batch = db.batch();
        let put = batch.put_typed(&values, &1, &nested(513));
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
    let even: Typed<String, u64, Even> = session.db.typed_codec("even").unwrap();
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
    let other = session.db.typed_codec::<String, u64, Plain>("even").map(|_| ());
    refused(other, ErrorKind::InvalidInput, "test.even/1");
    let other = session.db.typed::<String, u64>("even").map(|_| ());
    refused(other, ErrorKind::InvalidInput, "document");
    let even: Option<Typed<String, u64, Even>> = session.db.existing_typed("even").unwrap();
    assert_eq!(even.unwrap().get("a").unwrap(), Some(4));
    let missing: Option<Typed<String, u64>> = session.db.existing_typed("missing").unwrap();
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
    let keys: Vec<Vec<u8>> = bytes.scan(..).unwrap().map(|entry| entry.unwrap().0).collect();
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
    let by_name = session.db.typed_codec::<(String, u64), (), Plain>("by_name").unwrap();
    users.put(&1, &user("Ada", 0)).unwrap();
    let before = session.db.snapshot();
    let add = |id: u64, name: &str| {
        let mut batch = session.db.batch();
        batch.expect_absent(users.keyspace(), users.key_bytes(&id)?)?;
        batch.put_typed(&users, &id, &user(name, 0))?;
        batch.put_typed(&by_name, &(name.to_owned(), id), &())?;
        session.db.commit(batch)
    };
    add(2, "Bob").unwrap();
    refused(add(2, "Eve"), ErrorKind::Conflict, "");
    let mut batch = session.db.batch();
    batch.delete_typed(&users, &1).unwrap();
    batch.put_typed(&users, &3, &user("Cleo", 0)).unwrap();
    session.db.commit(batch).unwrap();
    let ids = |found: flagstone::TypedScan<u64, User>| -> Vec<u64> {
        found.map(|entry| entry.unwrap().0).collect()
    };
    assert_eq!(ids(users.scan(..).unwrap()), [2, 3]);
    assert_eq!(ids(before.scan_typed(&users, ..).unwrap()), [1]);
    assert_eq!(ids(before.scan_typed(&users, 2..).unwrap()), [0; 0]);
    assert_eq!(before.get_typed(&users, &1).unwrap(), Some(user("Ada", 0)));
    assert_eq!(before.get_typed(&users, &2).unwrap(), None);
    assert_eq!(by_name.count().unwrap(), 1);
    let other = open(&World::new(2), &small());
    let theirs = other.db.typed::<u64, User>("users").unwrap();
    refused(before.get_typed(&theirs, &1), ErrorKind::InvalidInput, "");
    refused(before.scan_typed(&theirs, ..).map(|_| ()), ErrorKind::InvalidInput, "");
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
    let last = users.scan(2..).unwrap().next().unwrap();
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
