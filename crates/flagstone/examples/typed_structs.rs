//! Rust structs: in a typed keyspace, and as documents of a collection.
//!
//! `cargo run --example typed_structs`

#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use flagstone::{As, Database, Json, Patch, Result, Space};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize, Debug)]
struct User {
    name: String,
    role: Role,
    logins: u64,
    // Added later: values without this field read as an empty list.
    #[serde(default)]
    tags: Vec<String>,
}

#[derive(Serialize, Deserialize, Debug)]
enum Role {
    Reader,
    Editor { since: u16 },
}

/// A part of a user. Fields that are not named here are not decoded.
#[derive(Deserialize)]
struct Logins<'a> {
    name: &'a str,
    logins: u64,
}

fn main() -> Result<()> {
    let path = std::env::temp_dir().join(format!("flagstone-typed-structs-{}", std::process::id()));
    let db = Database::open(&path)?;
    typed(&db)?;
    documents(&db)?;
    db.close()?;
    std::fs::remove_dir_all(&path).map_err(|error| flagstone::Error::io("remove", &path, error))
}

/// A typed keyspace: keys and values of Rust types, nothing else to write.
fn typed(db: &Database) -> Result<()> {
    let users = db.typed::<String, User>("users")?;
    let ada = User { name: "Ada".into(), role: Role::Reader, logins: 1, tags: vec![] };
    users.put("ada", &ada)?;
    users.update("ada", |user| user.map(|user| User { logins: user.logins + 1, ..user }))?;
    println!("{:?}", users.get("ada")?);

    // A second order of the same users, kept in step by a batch. Tuples compare part by part.
    let by_logins = db.typed::<(u64, String), ()>("by_logins")?;
    let mut batch = db.batch();
    let bob = User { name: "Bob".into(), role: Role::Editor { since: 2019 }, logins: 9, ..ada };
    batch.put(&users, "bob", &bob)?;
    batch.put(&by_logins, &(bob.logins, "bob".into()), &())?;
    db.commit(batch)?;

    for entry in by_logins.scan((5, String::new())..) {
        let ((logins, id), ()) = entry?;
        println!("{id}: {logins} logins");
    }
    Ok(())
}

/// A collection: the same structs as documents, which JSON and patches change, too.
fn documents(db: &Database) -> Result<()> {
    let users = db.collection("user documents")?;
    let ada = User { name: "Ada".into(), role: Role::Reader, logins: 1, tags: vec![] };
    users.put("ada", As(&ada))?;
    users.patch("ada", &Patch::new().inc("logins", 1).push("tags", "new"))?;
    println!("{:?}", users.get_as::<User>("ada")?);

    users.put("bob", Json(r#"{"name":"Bob","role":"Reader","logins":7}"#))?;
    for entry in users.scan(..) {
        let (key, document) = entry?;
        let Logins { name, logins } = document.to()?;
        println!("{key}: {name} {logins}");
    }

    // A document that does not fit the type is an error that names the part.
    users.put("eve", Json(r#"{"name":"Eve","role":"Reader","logins":1.5}"#))?;
    if let Err(error) = users.get_as::<User>("eve") {
        println!("{error}");
    }
    Ok(())
}
