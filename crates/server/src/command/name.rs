//! Names: collection `orders` of database `shop` is the keyspace `shop.orders`. A keyspace whose
//! name has no dot belongs to the database `main`. One that this spells in no way, such as
//! `main.x`, is not shown: nobody could ask for it.

use crate::failure::{Code, Failure, Outcome};
use std::fmt;

/// The database of keyspaces without a dot in their names.
pub(crate) const MAIN: &str = "main";

/// What names of collections begin with that no data command touches.
const SYSTEM: &str = "system.";

/// The database and the collection whose keyspace has the marks of loads.
const MARKS: (&str, &str) = ("flagstone", "loads");

/// The most bytes of the names of a database and of a collection, and of the dot between them.
const NAMESPACE_BYTES_MAX: usize = 255;

/// A collection, as drivers name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Namespace {
    pub(crate) database: String,
    pub(crate) collection: String,
}

impl Namespace {
    pub(crate) fn new(database: &str, collection: &str) -> Outcome<Self> {
        check_database(database)?;
        let refuse = |why: &str| {
            let text = format!("invalid collection name {collection:?}: {why}");
            Err(Failure::new(Code::InvalidNamespace, text))
        };
        if collection.is_empty() {
            return refuse("it is empty");
        }
        if collection.contains(['$', '\0']) {
            return refuse("it has a $ or a zero");
        }
        if collection.starts_with('.') {
            return refuse("it begins with a dot");
        }
        if database.len() + 1 + collection.len() > NAMESPACE_BYTES_MAX {
            return refuse("with its database and a dot it is longer than 255 bytes");
        }
        if database == MAIN && collection.contains('.') {
            return refuse("collections of the database main have no dot in their names");
        }
        if (database, collection) == MARKS {
            return refuse("loads keep their marks under it");
        }
        if collection.starts_with(SYSTEM) {
            let text = format!("{database}.{collection} belongs to the server");
            return Err(Failure::new(Code::Unauthorized, text));
        }
        Ok(Self { database: database.to_owned(), collection: collection.to_owned() })
    }

    /// Parses `database.collection`.
    pub(crate) fn parse(text: &str) -> Outcome<Self> {
        match text.split_once('.') {
            Some((database, collection)) => Self::new(database, collection),
            None => {
                let text = format!("expected DATABASE.COLLECTION, found {text:?}");
                Err(Failure::new(Code::InvalidNamespace, text))
            }
        }
    }

    /// Returns the namespace whose keyspace has this name. None has one of the server, or one that
    /// was created without a server by a name that drivers cannot spell.
    pub(crate) fn of_keyspace(name: &str) -> Option<Self> {
        let (database, collection) = name.split_once('.').unwrap_or((MAIN, name));
        Self::new(database, collection).ok().filter(|namespace| namespace.keyspace() == name)
    }

    /// Returns the name of the keyspace.
    pub(crate) fn keyspace(&self) -> String {
        if self.database == MAIN { self.collection.clone() } else { self.to_string() }
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.database, self.collection)
    }
}

/// Refuses what cannot be the name of a database.
pub(crate) fn check_database(name: &str) -> Outcome {
    let why = if name.is_empty() {
        "it is empty"
    } else if name.len() > 63 {
        "it is longer than 63 bytes"
    } else if name.contains(['/', '\\', '.', ' ', '"', '$', '\0']) {
        "it has one of / \\ . \" $, a blank or a zero"
    } else {
        return Ok(());
    };
    let text = format!("invalid database name {name:?}: {why}");
    Err(Failure::new(Code::InvalidNamespace, text))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "test code")]
mod tests {
    use super::*;

    /// A driver that made a collection of it was in the way of the marks of all loads.
    #[test]
    fn the_keyspace_of_marks_is_no_collection_of_drivers() {
        let refused = Namespace::new("flagstone", "loads").unwrap_err().message;
        assert!(refused.contains("loads keep their marks under it"), "{refused}");
        assert_eq!(Namespace::of_keyspace("flagstone.loads"), None);
        let other = Namespace::new("flagstone", "other").unwrap();
        assert_eq!(Namespace::of_keyspace(&other.keyspace()), Some(other));
    }

    /// `main.x` was listed as a collection in which nothing was found: that is `x`.
    #[test]
    fn what_is_listed_is_found_by_its_name() {
        let long = format!("a.{}", "x".repeat(NAMESPACE_BYTES_MAX));
        for unspelled in ["main.x", "main.x.y", "a b.c", "a.$b", "a..b", ".a", "a.", "", &long] {
            assert_eq!(Namespace::of_keyspace(unspelled), None, "{unspelled:?}");
        }
        for name in ["x", "main", "shop.orders", "shop.orders.old"] {
            assert_eq!(Namespace::of_keyspace(name).unwrap().keyspace(), name);
        }
    }
}
