//! A user as a document of the collection of users, and the secret beside them.
//!
//! ```text
//! "ada":      {"salt": bytes, "iterations": 15000, "stored_key": bytes, "server_key": bytes,
//!              "roles": [{"role": "readWrite", "database": "shop"}, {"role": "root"}]}
//! ["secret"]: {"secret": bytes}
//! ```

use super::keys::{ITERATIONS_ALLOWED, Key, Keys};
use super::roles::{Role, RoleKind, User};
use flagstone::{Value, doc};

/// A user and his keys.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) user: User,
    pub(super) keys: Keys,
}

/// Why a document of the collection is no user.
pub(super) type Expected = &'static str;

impl Record {
    /// Returns the document.
    pub(super) fn to_value(&self) -> Value {
        let role = |role: &Role| match &role.database {
            Some(database) => doc!({ "role": role.kind.name(), "database": database.as_str() }),
            None => doc!({ "role": role.kind.name() }),
        };
        let roles = Value::Array(self.user.roles.iter().map(role).collect());
        doc!({
            "salt": (Value::Bytes(self.keys.salt.clone())),
            "iterations": (i64::from(self.keys.iterations)),
            "stored_key": (Value::Bytes(self.keys.stored_key.to_vec())),
            "server_key": (Value::Bytes(self.keys.server_key.to_vec())),
            "roles": roles,
        })
    }

    /// Reads the document of the user `name`.
    pub(super) fn from_value(name: &str, value: &Value) -> Result<Self, Expected> {
        let iterations = value.get("iterations").and_then(Value::as_u64);
        let iterations = iterations.and_then(|count| u32::try_from(count).ok());
        let keys = Keys {
            salt: value.get("salt").and_then(Value::as_bytes).ok_or("bytes in `salt`")?.to_vec(),
            iterations: iterations
                .filter(|count| ITERATIONS_ALLOWED.contains(count))
                .ok_or("a number from 4096 to 10000000 in `iterations`")?,
            stored_key: key(value, "stored_key").ok_or("32 bytes in `stored_key`")?,
            server_key: key(value, "server_key").ok_or("32 bytes in `server_key`")?,
        };
        let roles = value.get("roles").and_then(Value::as_array).ok_or("an array in `roles`")?;
        let roles = roles.iter().map(role).collect::<Result<_, _>>()?;
        Ok(Self { user: User { name: name.to_owned(), roles }, keys })
    }
}

fn role(value: &Value) -> Result<Role, Expected> {
    let kind = value.get("role").and_then(Value::as_str).and_then(RoleKind::parse);
    let database = match value.get("database") {
        None => None,
        Some(Value::Text(database)) => Some(database.clone()),
        Some(_) => return Err("text in `roles.database`"),
    };
    Ok(Role { kind: kind.ok_or("read, readWrite or root in `roles.role`")?, database })
}

fn key(value: &Value, name: &str) -> Option<Key> {
    value.get(name)?.as_bytes()?.try_into().ok()
}

/// Returns the key of the secret.
pub(super) fn secret_key() -> Value {
    doc!(["secret"])
}

/// Returns the document of the secret.
pub(super) fn secret_to_value(secret: &Key) -> Value {
    doc!({ "secret": (Value::Bytes(secret.to_vec())) })
}

/// Reads the document of the secret.
pub(super) fn secret_from_value(value: &Value) -> Result<Key, Expected> {
    key(value, "secret").ok_or("32 bytes in `secret`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_comes_back_from_its_document() {
        let role =
            |kind, database: Option<&str>| Role { kind, database: database.map(str::to_owned) };
        let roles = vec![role(RoleKind::Read, Some("shop")), role(RoleKind::Root, None)];
        let user = User { name: "ada".to_owned(), roles };
        let record = Record { user, keys: Keys::decoy(&[1; 32], "ada") };
        let read = Record::from_value("ada", &record.to_value()).unwrap();
        assert!(read.user == record.user && read.keys == record.keys);
    }

    #[test]
    fn a_damaged_user_is_refused_by_the_field() {
        let user = User { name: "ada".to_owned(), roles: Vec::new() };
        let whole = Record { user, keys: Keys::decoy(&[1; 32], "ada") }.to_value();
        for (field, bad) in [
            ("salt", doc!(1)),
            ("iterations", doc!(4095)),
            ("stored_key", Value::Bytes(vec![1; 31])),
            ("server_key", doc!(null)),
            ("roles", doc!([{ "role": "owner" }])),
            ("roles", doc!([{ "role": "read", "database": 1 }])),
        ] {
            let Value::Map(mut map) = whole.clone() else { panic!("a map") };
            map.insert(field, bad);
            let error = Record::from_value("ada", &Value::Map(map)).err().unwrap();
            assert!(error.contains(field), "{field}: {error}");
        }
    }
}
