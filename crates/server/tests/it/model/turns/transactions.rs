//! Transactions of clients: what they see, and which commits are refused.

use super::super::client::{code, is_ok};
use super::super::state::{Collection, UNIQUE};
use super::{Collections, Transaction, World};
use bson::doc;
use std::collections::BTreeSet;

impl World {
    pub(super) fn begin_transaction(&mut self, client: usize) {
        if self.transactions[client].is_some() {
            return;
        }
        self.numbers[client] += 1;
        self.retryable[client] = None;
        self.transactions[client] = Some(Transaction {
            number: self.numbers[client],
            start: 0,
            sees: Collections::new(),
            wrote: BTreeSet::new(),
            has_begun: false,
        });
    }

    pub(super) fn end_transaction(&mut self, client: usize, commits: bool) {
        let Some(transaction) = self.transactions[client].take() else { return };
        if !transaction.has_begun {
            return;
        }
        let name = if commits { "commitTransaction" } else { "abortTransaction" };
        let mut command = doc! { name: 1 };
        command.extend(self.clients[client].numbered(transaction.number));
        command.insert("autocommit", false);
        let reply = self.call(client, command.clone());
        if !commits {
            assert!(is_ok(&reply), "{reply}");
            return;
        }
        let is_overtaken = transaction.wrote.iter().any(|(name, key)| {
            let changed = self.collections.get(name).and_then(|c| c.changed.get(key));
            changed.is_some_and(|changed| *changed > transaction.start)
        });
        let names: BTreeSet<_> = transaction.wrote.iter().map(|(name, _)| *name).collect();
        let since = |at: fn(&Collection) -> u64, name: &str| {
            self.collections.get(name).is_some_and(|one| at(one) > transaction.start)
        };
        if !is_ok(&reply) {
            assert_eq!(code(&reply), 112, "{reply}");
            assert!(reply.get_array("errorLabels").is_ok(), "{reply}");
            // Another commit came between, to the same key, the same unique value or an index.
            let may_conflict = names.iter().any(|name| {
                since(|one| one.indexed, name)
                    || since(|one| one.last, name)
                        && transaction.sees[name].indexes.contains(UNIQUE)
            });
            assert!(is_overtaken || may_conflict, "{reply}");
            return;
        }
        assert!(!is_overtaken, "a change was lost: {reply}");
        if self.random.percent(30) {
            assert!(is_ok(&self.call(client, command)), "a commit is sent again");
        }
        self.commits += 1;
        for (name, key) in transaction.wrote {
            let new = transaction.sees[name].documents.get(&key).cloned();
            let Some(collection) = self.collections.get_mut(name) else { continue };
            match new {
                Some(document) => drop(collection.documents.insert(key.clone(), document)),
                None => drop(collection.documents.remove(&key)),
            }
            collection.changed.insert(key, self.commits);
            collection.last = self.commits;
        }
        for name in names {
            let collection = &self.collections[name];
            let is_unique = collection.indexes.contains(UNIQUE);
            assert!(!is_unique || !collection.has_duplicates(&collection.documents));
            self.check_all(name);
        }
    }
}
