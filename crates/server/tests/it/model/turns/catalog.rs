//! Indexes and collections that come, go and are renamed.

use super::super::client::{batch, code, is_ok};
use super::super::state::{EXPIRY, INDEXES, UNIQUE, index};
use super::{NAMES, World};
use bson::doc;

impl World {
    pub(super) fn change_indexes(&mut self, client: usize, name: &'static str) {
        if self.transactions[client].is_some() || !self.collections.contains_key(name) {
            return;
        }
        let is_alone = self.transactions.iter().all(Option::is_none);
        let drops = self.random.percent(35);
        let chosen = match self.random.index(12) {
            0 | 1 => UNIQUE,
            2 => EXPIRY,
            _ => *self.random.pick(&INDEXES[..9]),
        };
        let is_heavy = matches!(chosen, UNIQUE | EXPIRY);
        // Transactions that began before would see neither.
        if is_heavy && !is_alone {
            return;
        }
        self.commits += 1;
        let commits = self.commits;
        if drops {
            // What has expired comes back without its index.
            if chosen == EXPIRY {
                return;
            }
            let command = doc! { "dropIndexes": name, "index": chosen };
            let reply = self.call(client, command);
            let collection = self.collections.get_mut(name).unwrap();
            assert_eq!(is_ok(&reply), collection.indexes.remove(chosen), "{reply}");
            if is_ok(&reply) {
                collection.indexed = commits;
                let of_it = self.open.iter_mut().filter(|open| open.collection == name);
                of_it.for_each(|open| open.may_fail = true);
            } else {
                assert_eq!(code(&reply), 27, "{reply}");
            }
            return;
        }
        let command = doc! { "createIndexes": name, "indexes": [index(chosen)] };
        let reply = self.call(client, command);
        let collection = self.collections.get_mut(name).unwrap();
        if chosen == UNIQUE && collection.has_duplicates(&collection.documents) {
            assert_eq!(code(&reply), 11000, "{reply}");
            return;
        }
        assert!(is_ok(&reply), "{reply}");
        if collection.indexes.insert(chosen) {
            collection.indexed = commits;
        }
        collection.expire();
        self.check_all(name);
    }

    /// Drops, renames or creates a collection.
    pub(super) fn change_catalog(&mut self, client: usize) {
        if self.transactions.iter().any(Option::is_some) {
            return;
        }
        let name = *self.random.pick(&NAMES);
        let is_there = self.collections.contains_key(name);
        self.commits += 1;
        let commits = self.commits;
        match self.random.index(4) {
            0 => {
                let reply = self.call(client, doc! { "drop": name });
                assert!(is_ok(&reply), "{reply}");
                self.collections.remove(name);
                self.spoil(name);
            }
            1 => {
                // One that is there, and has the same options, stays.
                let reply = self.call(client, doc! { "create": name });
                assert!(is_ok(&reply), "{reply}");
                self.collections.entry(name).or_default();
            }
            _ => {
                let to = *self.random.pick(&NAMES);
                let drops = self.random.percent(50);
                let full = |name: &str| format!("{}.{name}", super::super::client::DB);
                let command = doc! { "renameCollection": full(name), "to": full(to),
                "dropTarget": drops };
                let reply = self.call(client, command);
                let is_free = drops || !self.collections.contains_key(to);
                assert_eq!(is_ok(&reply), is_there && name != to && is_free, "{reply}");
                if is_ok(&reply) {
                    let mut collection = self.collections.remove(name).unwrap();
                    collection.last = commits;
                    self.collections.insert(to, collection);
                    self.spoil(name);
                    self.spoil(to);
                }
            }
        }
        let names = doc! { "listCollections": 1, "nameOnly": true };
        let mut listed: Vec<_> = batch(&self.call(client, names))
            .iter()
            .map(|c| c.get_str("name").unwrap().to_owned())
            .collect();
        listed.sort();
        assert_eq!(listed, self.collections.keys().copied().collect::<Vec<_>>());
    }

    /// Notes that cursors of a collection may end. What its writes have done is not asked again.
    fn spoil(&mut self, name: &str) {
        for open in self.open.iter_mut().filter(|open| open.collection == name) {
            open.may_fail = true;
        }
    }
}
