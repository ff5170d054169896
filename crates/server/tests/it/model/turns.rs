//! Clients that take turns: every reply is compared with the model.

mod catalog;
mod transactions;

use super::client::{Client, batch, code, count, cursor, is_ok, open};
use super::draw;
use super::plain::{self, Key, loose, matches, sort_order, strict_document};
use super::state::{Collection, Done, Statement, UNIQUE, condition, shown};
use bson::{Bson, Document, doc};
use flagstone_testkit::Rng;
use std::collections::{BTreeMap, BTreeSet};

const STEPS: usize = 150;
const CLIENTS: usize = 3;
const NAMES: [&str; 3] = ["one", "two", "three"];

pub(super) fn run(seed: u64) {
    let mut world = World::new(seed);
    for _ in 0..STEPS {
        world.step();
    }
    for client in 0..CLIENTS {
        world.end_transaction(client, true);
    }
    for name in NAMES {
        world.check_all(name);
    }
    world.log.clear();
}

/// What was done last, printed if a run fails.
#[derive(Default)]
struct Log(Vec<String>);

impl Log {
    fn add(&mut self, line: String) {
        self.0.push(line);
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for line in &self.0[self.0.len().saturating_sub(40)..] {
                eprintln!("{line}");
            }
        }
    }
}

type Collections = BTreeMap<&'static str, Collection>;

/// An open transaction of a client.
struct Transaction {
    number: i64,
    /// The commits that it sees.
    start: u64,
    sees: Collections,
    wrote: BTreeSet<(&'static str, Key)>,
    has_begun: bool,
}

/// A cursor that is open.
struct Open {
    client: usize,
    id: i64,
    collection: &'static str,
    rest: Vec<Document>,
    /// Its collection or an index was dropped: it may end with an error.
    may_fail: bool,
}

struct World {
    random: Rng,
    dir: tempfile::TempDir,
    clients: Vec<Client>,
    collections: Collections,
    commits: u64,
    transactions: Vec<Option<Transaction>>,
    numbers: Vec<i64>,
    /// The last retryable write of each session, and its reply.
    retryable: Vec<Option<(Document, Document)>>,
    open: Vec<Open>,
    log: Log,
}

impl World {
    fn new(seed: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut world = Self {
            random: Rng::new(seed),
            dir,
            clients: Vec::new(),
            collections: Collections::new(),
            commits: 0,
            transactions: (0..CLIENTS).map(|_| None).collect(),
            numbers: vec![0; CLIENTS],
            retryable: vec![None; CLIENTS],
            open: Vec::new(),
            log: Log::default(),
        };
        world.connect();
        world
    }

    fn connect(&mut self) {
        let service = open(self.dir.path());
        self.clients = (0..CLIENTS).map(|n| Client::new(&service, n as u8)).collect();
    }

    fn call(&mut self, client: usize, command: Document) -> Document {
        self.log.add(format!("{client} > {command}"));
        let reply = self.clients[client].call(command);
        self.log.add(format!("{client} < {reply}"));
        reply
    }

    fn step(&mut self) {
        let client = self.random.index(CLIENTS);
        let name = *self.random.pick(&NAMES[..2]);
        match self.random.index(100) {
            0..=19 => self.insert(client, name),
            20..=37 => self.update(client, name),
            38..=43 => self.find_and_modify(client, name),
            44..=49 => self.delete(client, name),
            50..=61 => self.find(client, name),
            62..=67 => self.count(client, name),
            68..=71 => self.distinct(client, name),
            72..=77 => self.aggregate(client, name),
            78..=82 => self.get_more(client),
            83..=86 => self.begin_transaction(client),
            87..=90 => {
                let commits = self.random.percent(70);
                self.end_transaction(client, commits);
            }
            91..=94 => self.change_indexes(client, name),
            95 => self.change_catalog(client),
            96 => self.restart(),
            97 | 98 => self.send_again(client),
            _ => self.check_all(name),
        }
    }

    /// Adds what makes a command part of the client's transaction. Returns whether it is.
    fn in_transaction(&mut self, client: usize, command: &mut Document) -> bool {
        let Some(transaction) = &mut self.transactions[client] else { return false };
        command.extend(self.clients[client].numbered(transaction.number));
        command.insert("autocommit", false);
        if !transaction.has_begun {
            transaction.has_begun = true;
            transaction.start = self.commits;
            transaction.sees = self.collections.clone();
            command.insert("startTransaction", true);
        }
        true
    }

    /// Returns what a client sees of a collection.
    fn seen(&self, client: usize, name: &str) -> Collection {
        let sees = self.transactions[client].as_ref().filter(|transaction| transaction.has_begun);
        let collections = sees.map_or(&self.collections, |transaction| &transaction.sees);
        collections.get(name).cloned().unwrap_or_default()
    }

    /// Returns whether a client may work on a collection: a transaction only on what is there.
    fn may_use(&self, client: usize, name: &str) -> bool {
        match &self.transactions[client] {
            Some(transaction) if transaction.has_begun => transaction.sees.contains_key(name),
            Some(_) => self.collections.contains_key(name),
            None => true,
        }
    }

    /// Returns all documents of a collection as a client sees them.
    fn read_all(&mut self, client: usize, name: &str) -> Vec<Document> {
        let mut find = doc! { "find": name };
        self.in_transaction(client, &mut find);
        self.clients[client].all(find)
    }

    /// Runs a write, and compares reply and collection with what may come of it.
    /// `possible` gets the collection and the reply.
    fn write(
        &mut self,
        (client, name): (usize, &'static str),
        mut command: Document,
        is_retryable: bool,
        possible: impl Fn(&Collection, &Document) -> Option<Vec<Done>>,
    ) {
        if !self.may_use(client, name) {
            return;
        }
        let is_in_transaction = self.in_transaction(client, &mut command);
        let is_numbered = !is_in_transaction && is_retryable && self.random.percent(50);
        if is_numbered {
            self.numbers[client] += 1;
            command.extend(self.clients[client].numbered(self.numbers[client]));
        }
        if !is_in_transaction && self.random.percent(10) {
            command.insert("writeConcern", doc! { "w": "majority" });
        }
        let reply = self.call(client, command.clone());
        let before = self.seen(client, name);
        let possible = possible(&before, &reply);
        let is_refused = !is_ok(&reply);
        if is_refused {
            assert!(is_in_transaction || reply.get("codeName").is_some(), "{reply}");
        }
        if is_in_transaction && is_refused {
            // It has ended.
            self.transactions[client] = None;
            let is_expected = possible.is_none_or(|possible| {
                possible.iter().any(|done| {
                    let first = done.errors.first();
                    first.is_some_and(|(_, refused)| refused.0.is_none_or(|is| is == code(&reply)))
                })
            });
            assert!(is_expected, "{command}\n{reply}");
            return;
        }
        if is_numbered {
            // Sent again, once or twice: the same reply, and nothing more is done.
            for _ in 0..self.random.index(3) {
                let again = self.call(client, command.clone());
                assert_eq!(again, reply, "{command}");
            }
            let is_whole = is_ok(&reply) && reply.get("writeErrors").is_none();
            let found = match reply.get_document("lastErrorObject") {
                Ok(told) => told.get("n"),
                Err(_) => reply.get("n"),
            };
            let is_noted = is_whole && found != Some(&Bson::Int32(0));
            self.retryable[client] = is_noted.then(|| (command.clone(), reply.clone()));
        }
        let after = self.read_all(client, name);
        let is_now = shown(&after);
        let adopted: BTreeMap<Key, Document> =
            after.iter().map(|document| (Key::of_document(document), document.clone())).collect();
        let wrote = match possible {
            Some(possible) => chosen(&possible, &is_now, (&command, &reply)).wrote.clone(),
            // Each document is as before, or changed.
            None => {
                let differs = |(key, document): (&Key, &Document)| {
                    (before.documents.get(key) != Some(document)).then(|| key.clone())
                };
                assert!(!before.indexes.contains(UNIQUE) || !before.has_duplicates(&adopted));
                let gone = before.documents.keys().filter(|key| !adopted.contains_key(*key));
                adopted.iter().filter_map(differs).chain(gone.cloned()).collect()
            }
        };
        match &mut self.transactions[client] {
            Some(transaction) => {
                transaction.wrote.extend(wrote.iter().map(|key| (name, key.clone())));
                if let Some(collection) = transaction.sees.get_mut(name) {
                    collection.documents = adopted;
                }
            }
            None => {
                let is_created = command.contains_key("insert")
                    || reply.get_array("upserted").is_ok()
                    || is_upsert(&command);
                if !self.collections.contains_key(name)
                    && (!is_created || !self.exists(client, name))
                {
                    return;
                }
                self.commits += 1;
                let commit = self.commits;
                let collection = self.collections.entry(name).or_default();
                collection.documents = adopted;
                collection.last = commit;
                collection.changed.extend(wrote.into_iter().map(|key| (key, commit)));
            }
        }
    }

    fn exists(&mut self, client: usize, name: &str) -> bool {
        let list = doc! { "listCollections": 1, "nameOnly": true, "filter": { "name": name } };
        !batch(&self.call(client, list)).is_empty()
    }

    fn insert(&mut self, client: usize, name: &'static str) {
        let random = &mut self.random;
        let many = if random.percent(60) { 1 } else { 1 + random.index(6) };
        let documents: Vec<_> = (0..many).map(|_| draw::document(random)).collect();
        let is_ordered = random.percent(60);
        let command =
            doc! { "insert": name, "documents": documents.clone(), "ordered": is_ordered };
        self.write((client, name), command, true, |collection, _| {
            Some(vec![collection.insert(&documents, is_ordered)])
        });
    }

    fn update(&mut self, client: usize, name: &'static str) {
        let random = &mut self.random;
        let change = draw::change(random);
        let is_multi = random.percent(25) && !is_replacement(&change.update);
        let is_upsert = random.percent(20);
        let filter = match change.filter {
            Some(filter) => filter,
            None if is_upsert => upsert_filter(random),
            None if is_multi => draw::filter(random),
            None => draw::narrow(random),
        };
        let sort = (!is_multi && random.percent(30)).then(|| draw::total_sort(random));
        let mut statement = doc! { "q": filter.clone(), "u": change.update.clone() };
        if is_multi {
            statement.insert("multi", true);
        }
        if is_upsert {
            statement.insert("upsert", true);
        }
        if !change.array_filters.is_empty() {
            statement.insert("arrayFilters", change.array_filters.clone());
        }
        if let Some(sort) = &sort {
            statement.insert("sort", sort.clone());
        }
        let command = doc! { "update": name, "updates": [statement] };
        self.write((client, name), command, !is_multi, |collection, reply| {
            let new_id = upserted(reply).into_iter().next().map(|(_, id)| id);
            let statement = Statement {
                number: 0,
                filter: &filter,
                update: &change.update,
                filters: &change.array_filters,
                sort: sort.as_ref(),
                is_upsert,
                new_id: new_id.as_ref(),
            };
            let begun = collection.begin();
            if is_multi {
                collection.update_all(&begun, &statement).map(|done| vec![done])
            } else {
                Some(collection.update_one(&begun, &statement))
            }
        });
    }

    fn find_and_modify(&mut self, client: usize, name: &'static str) {
        let random = &mut self.random;
        let change = draw::change(random);
        let removes = random.percent(25);
        let is_upsert = !removes && random.percent(20);
        let wants_new = !removes && random.percent(50);
        let filter = match change.filter {
            Some(filter) if !removes => filter,
            _ if is_upsert => upsert_filter(random),
            _ => draw::narrow(random),
        };
        let sort = random.percent(50).then(|| draw::total_sort(random));
        let mut command = doc! { "findAndModify": name, "query": filter.clone() };
        if removes {
            command.insert("remove", true);
        } else {
            command.extend(doc! { "update": change.update.clone(), "new": wants_new,
            "upsert": is_upsert });
            if !change.array_filters.is_empty() {
                command.insert("arrayFilters", change.array_filters.clone());
            }
        }
        if let Some(sort) = &sort {
            command.insert("sort", sort.clone());
        }
        self.write((client, name), command, true, |collection, reply| {
            let told = reply.get_document("lastErrorObject").ok();
            let new_id = told.and_then(|told| told.get("upserted"));
            let statement = Statement {
                number: 0,
                filter: &filter,
                update: &change.update,
                filters: &change.array_filters,
                sort: sort.as_ref(),
                is_upsert,
                new_id,
            };
            let begun = collection.begin();
            Some(if removes {
                collection.delete_one(&begun, &statement)
            } else {
                collection.update_one(&begun, &statement)
            })
        });
    }

    fn delete(&mut self, client: usize, name: &'static str) {
        let random = &mut self.random;
        let is_many = random.percent(30);
        let filter = if is_many { draw::filter(random) } else { draw::narrow(random) };
        // Not everything each time.
        if is_many && filter.is_empty() && random.percent(70) {
            return;
        }
        let limit = i32::from(!is_many);
        let command = doc! { "delete": name, "deletes": [{ "q": filter.clone(), "limit": limit }] };
        let none = Bson::Null;
        self.write((client, name), command, !is_many, |collection, _| {
            let begun = collection.begin();
            let statement = Statement {
                number: 0,
                filter: &filter,
                update: &none,
                filters: &[],
                sort: None,
                is_upsert: false,
                new_id: None,
            };
            Some(if is_many {
                vec![collection.delete_all(&begun, &filter)]
            } else {
                collection.delete_one(&begun, &statement)
            })
        });
    }

    /// Returns the commands that ask the same with each hint of an index that has all the documents
    /// which match.
    fn hinted(&self, client: usize, name: &str, command: &Document) -> Vec<Document> {
        let mut all = vec![command.clone()];
        if self.transactions[client].is_some() {
            return all;
        }
        let with = |hint: Bson| {
            let mut command = command.clone();
            command.insert("hint", hint);
            command
        };
        all.push(with(doc! { "$natural": 1 }.into()));
        let filter = command.get_document("filter").or_else(|_| command.get_document("query"));
        let matching = self.seen(client, name).matching(&filter.cloned().unwrap_or_default());
        for name in &self.seen(client, name).indexes {
            let has_all = condition(name)
                .is_none_or(|one| matching.iter().all(|document| matches(&one, document)));
            if has_all {
                all.push(with(Bson::String((*name).to_owned())));
            }
        }
        all
    }

    /// Asks the same with each hint, and passes the replies to `check`.
    fn ask(
        &mut self,
        (client, name): (usize, &'static str),
        command: &Document,
        mut check: impl FnMut(&Document, &Document),
    ) {
        for mut command in self.hinted(client, name, command) {
            self.in_transaction(client, &mut command);
            let reply = self.call(client, command.clone());
            assert!(is_ok(&reply), "{command}\n{reply}");
            check(&command, &reply);
        }
    }

    fn find(&mut self, client: usize, name: &'static str) {
        if !self.may_use(client, name) {
            return;
        }
        let random = &mut self.random;
        let filter = draw::filter(random);
        let is_total = random.percent(60);
        let sort = if is_total {
            draw::total_sort(random)
        } else if random.percent(50) {
            draw::sort(random)
        } else {
            Document::new()
        };
        let skip = if random.percent(25) { random.index(6) } else { 0 };
        let limit = if random.percent(35) { 1 + random.index(6) } else { 0 };
        let projection = (is_total && random.percent(30)).then(|| {
            let mut projection = Document::new();
            let value = i32::from(random.percent(50));
            for field in ["a", "b", "c", "d"] {
                if random.percent(50) {
                    projection.insert(field, value);
                }
            }
            projection
        });
        let mut command = doc! { "find": name, "filter": filter.clone() };
        for (field, number) in [("skip", skip), ("limit", limit)] {
            if number > 0 {
                command.insert(field, number as i32);
            }
        }
        if !sort.is_empty() {
            command.insert("sort", sort.clone());
        }
        if let Some(projection) = &projection {
            command.insert("projection", projection.clone());
        }
        let batch_size = if is_total && random.percent(40) { random.index(4) as i32 } else { 1000 };
        command.insert("batchSize", batch_size);
        // A transaction begins with its first command.
        let is_new = self.transactions[client].as_ref().is_some_and(|one| !one.has_begun);
        let collection =
            if is_new { self.collections[name].clone() } else { self.seen(client, name) };
        let mut matching = collection.matching(&filter);
        matching.sort_by(|a, b| sort_order(&sort, a, b));
        let most = if limit == 0 { usize::MAX } else { limit };
        let window: Vec<_> = matching.iter().skip(skip).take(most).cloned().collect();
        let mut opened = Vec::new();
        self.ask((client, name), &command, |command, reply| {
            let found = batch(reply);
            if !is_total {
                check_ties(&sort, &matching, (&window, &found));
                return;
            }
            let expected: Vec<_> = match &projection {
                Some(projection) => window.iter().map(|one| projected(one, projection)).collect(),
                None => window.clone(),
            };
            let here = expected.len().min(batch_size as usize);
            let text = |documents: &[Document]| {
                documents.iter().map(strict_document).collect::<Vec<_>>().join("\n")
            };
            assert_eq!(text(&found), text(&expected[..here]), "{command}");
            let rest = expected[here..].to_vec();
            match cursor(reply) {
                Some(id) => opened.push((id, rest)),
                None => assert!(rest.is_empty(), "{command}"),
            }
        });
        let is_in = self.transactions[client].is_some();
        for (id, rest) in opened {
            if is_in || self.open.len() > 8 {
                // A cursor of a transaction belongs to it.
                let kill = doc! { "killCursors": name, "cursors": [id] };
                let reply = self.call(client, kill);
                assert_eq!(reply.get_array("cursorsKilled").unwrap().len(), 1, "{reply}");
                continue;
            }
            self.open.push(Open { client, id, collection: name, rest, may_fail: false });
        }
    }

    /// Reads on from a cursor: what has changed since does not show.
    fn get_more(&mut self, client: usize) {
        if self.open.is_empty() {
            return;
        }
        let at = self.random.index(self.open.len());
        let is_killed = self.random.percent(20);
        let size = 1 + self.random.index(4);
        let is_refused = self.random.percent(10);
        let Open { id, collection, .. } = self.open[at];
        if is_killed {
            let kill = doc! { "killCursors": collection, "cursors": [id] };
            let reply = self.call(client, kill);
            assert_eq!(reply.get_array("cursorsKilled").unwrap().len(), 1, "{reply}");
            self.open.swap_remove(at);
            return;
        }
        if is_refused {
            let more = doc! { "getMore": id, "collection": "another" };
            assert!(!is_ok(&self.call(client, more)));
        }
        let more = doc! { "getMore": id, "collection": collection, "batchSize": size as i32 };
        let reply = self.call(self.open[at].client, more);
        let Open { rest, may_fail, .. } = &mut self.open[at];
        if !is_ok(&reply) {
            assert!(*may_fail, "{reply}");
            self.open.swap_remove(at);
            return;
        }
        let here: Vec<_> = rest.drain(..rest.len().min(size)).collect();
        let text = |documents: &[Document]| {
            documents.iter().map(strict_document).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(text(&batch(&reply)), text(&here), "{reply}");
        match cursor(&reply) {
            Some(_) => assert!(!rest.is_empty(), "{reply}"),
            None => {
                assert!(rest.is_empty(), "{reply}");
                self.open.swap_remove(at);
            }
        }
    }

    fn count(&mut self, client: usize, name: &'static str) {
        if !self.may_use(client, name) {
            return;
        }
        let filter = draw::filter(&mut self.random);
        let mut command = doc! { "count": name, "query": filter.clone() };
        let skip = if self.random.percent(20) { self.random.index(4) } else { 0 };
        let limit = if self.random.percent(20) { 1 + self.random.index(4) } else { 0 };
        if skip > 0 {
            command.insert("skip", skip as i32);
        }
        if limit > 0 {
            command.insert("limit", limit as i32);
        }
        let is_new = self.transactions[client].as_ref().is_some_and(|one| !one.has_begun);
        let collection =
            if is_new { self.collections[name].clone() } else { self.seen(client, name) };
        let all = collection.matching(&filter).len().saturating_sub(skip);
        let expected = if limit == 0 { all } else { all.min(limit) };
        self.ask((client, name), &command, |command, reply| {
            assert_eq!(count(reply, "n"), expected as i64, "{command}");
        });
    }

    fn distinct(&mut self, client: usize, name: &'static str) {
        if !self.may_use(client, name) {
            return;
        }
        let filter = draw::filter(&mut self.random);
        let path = *self.random.pick(&["a", "b", "c", "c.x", "d.e", "d.f", "u", "_id"]);
        let command = doc! { "distinct": name, "key": path, "query": filter.clone() };
        let is_new = self.transactions[client].as_ref().is_some_and(|one| !one.has_begun);
        let collection =
            if is_new { self.collections[name].clone() } else { self.seen(client, name) };
        let expected = plain::distinct(&collection.matching(&filter), path);
        self.ask((client, name), &command, |command, reply| {
            let values = reply.get_array("values").unwrap();
            let mut found: Vec<_> = values.iter().map(plain::in_order).collect();
            found.sort();
            assert_eq!(found, expected, "{command}");
        });
    }

    fn aggregate(&mut self, client: usize, name: &'static str) {
        if !self.may_use(client, name) {
            return;
        }
        let (pipeline, is_ordered) = draw::pipeline(&mut self.random);
        let command = doc! { "aggregate": name, "pipeline": pipeline.clone(),
        "cursor": { "batchSize": 1000 } };
        let is_new = self.transactions[client].as_ref().is_some_and(|one| !one.has_begun);
        let collection =
            if is_new { self.collections[name].clone() } else { self.seen(client, name) };
        let text = |rows: Vec<Document>| {
            let mut rows: Vec<_> =
                rows.into_iter().map(|row| loose(&Bson::Document(row))).collect();
            if !is_ordered {
                rows.sort();
            }
            rows
        };
        let expected = text(plain::aggregate(&collection.all(), &pipeline));
        let mut command = command;
        self.in_transaction(client, &mut command);
        let reply = self.call(client, command.clone());
        assert!(is_ok(&reply), "{command}\n{reply}");
        assert_eq!(text(batch(&reply)), expected, "{command}");
    }

    /// Closes the database and opens it again: cursors and transactions are gone, writes are not.
    fn restart(&mut self) {
        self.log.add("restart".to_owned());
        self.clients.clear();
        self.connect();
        for client in 0..CLIENTS {
            if let Some(transaction) = self.transactions[client].take()
                && transaction.has_begun
            {
                let mut command = doc! { "commitTransaction": 1 };
                command.extend(self.clients[client].numbered(transaction.number));
                command.insert("autocommit", false);
                assert_eq!(code(&self.call(client, command)), 251);
            }
        }
        for Open { id, collection, .. } in std::mem::take(&mut self.open) {
            let more = doc! { "getMore": id, "collection": collection };
            assert_eq!(code(&self.call(0, more)), 43);
        }
        for name in NAMES {
            self.check_all(name);
        }
    }

    /// Sends the last write of a session again: maybe after a restart and other writes.
    fn send_again(&mut self, client: usize) {
        if self.transactions[client].is_some() {
            return;
        }
        let Some((command, reply)) = self.retryable[client].clone() else { return };
        let again = self.call(client, command.clone());
        assert_eq!(again, reply, "{command}");
        for name in NAMES {
            self.check_all(name);
        }
    }

    /// Compares a collection, as those see it who have no transaction, with the model, by each
    /// index, and checks it.
    fn check_all(&mut self, name: &'static str) {
        let Some(collection) = self.collections.get(name).cloned() else { return };
        let Some(client) = (0..CLIENTS).find(|client| self.transactions[*client].is_none()) else {
            return;
        };
        let expected = shown(collection.documents.values());
        let find = doc! { "find": name, "batchSize": 1000 };
        self.ask((client, name), &find, |find, reply| {
            assert_eq!(shown(&batch(reply)), expected, "{find}");
        });
        for index in &collection.indexes {
            let Some(condition) = condition(index) else { continue };
            let reply = self.call(client, doc! { "find": name, "hint": *index, "batchSize": 1000 });
            let has = collection.matching(&condition);
            assert_eq!(shown(&batch(&reply)), shown(&has), "{index} of {name}: {reply}");
        }
        let reply = self.call(client, doc! { "validate": name });
        assert!(reply.get_bool("valid").unwrap(), "{reply}");
        let mut names: Vec<_> = batch(&self.call(client, doc! { "listIndexes": name }))
            .iter()
            .map(|index| index.get_str("name").unwrap().to_owned())
            .collect();
        names.retain(|name| name != "_id_");
        names.sort();
        let mut expected: Vec<_> = collection.indexes.iter().copied().collect();
        expected.sort_unstable();
        assert_eq!(names, expected);
    }
}

/// Returns the result that collection and reply show.
fn chosen<'d>(
    possible: &'d [Done],
    is_now: &[String],
    (command, reply): (&Document, &Document),
) -> &'d Done {
    let fits =
        |done: &&Done| shown(done.documents.values()) == is_now && answers(done, command, reply);
    let Some(done) = possible.iter().find(fits) else {
        let expected: Vec<_> = possible
            .iter()
            .take(4)
            .map(|done| {
                let now = shown(done.documents.values());
                let added: Vec<_> = is_now.iter().filter(|line| !now.contains(line)).collect();
                let gone: Vec<_> = now.iter().filter(|line| !is_now.contains(line)).collect();
                format!(
                    "n {} modified {} upserted {:?} errors {:?} value {:?}\n  \
                     there is {added:#?}\n  not {gone:#?}",
                    done.n, done.modified, done.upserted, done.errors, done.value
                )
            })
            .collect();
        panic!("{command}\n{reply}\nexpected one of\n{}", expected.join("\n"));
    };
    done
}

/// Asserts that what was found of an order with ties is right.
fn check_ties(sort: &Document, matching: &[Document], (window, found): (&[Document], &[Document])) {
    assert_eq!(found.len(), window.len());
    let all = shown(matching);
    let mut rest = all.clone();
    for one in shown(found) {
        let at = rest.iter().position(|other| *other == one);
        rest.remove(at.unwrap_or_else(|| panic!("{one} is not one of {all:#?}")));
    }
    for (one, expected) in found.iter().zip(window) {
        assert!(sort_order(sort, one, expected).is_eq(), "{sort}\n{one}\n{expected}");
    }
}

fn projected(document: &Document, projection: &Document) -> Document {
    let is_inclusion = projection.values().next().is_some_and(|value| *value == Bson::Int32(1));
    let is_kept = |name: &str| match projection.get(name) {
        Some(value) => *value == Bson::Int32(1),
        None => name == "_id" || !is_inclusion,
    };
    document.clone().into_iter().filter(|(name, _)| is_kept(name)).collect()
}

fn is_replacement(update: &Bson) -> bool {
    matches!(update, Bson::Document(update)
        if update.keys().next().is_none_or(|name| !name.starts_with('$')))
}

fn is_upsert(command: &Document) -> bool {
    let of_statements = command.get_array("updates").is_ok_and(|updates| {
        updates.iter().any(|one| one.as_document().unwrap().get_bool("upsert").ok() == Some(true))
    });
    of_statements || command.get_bool("upsert").ok() == Some(true)
}

/// Returns a filter whose equal values an upsert takes.
fn upsert_filter(random: &mut Rng) -> Document {
    let mut filter = Document::new();
    if random.percent(70) {
        filter.insert("_id", draw::id(random));
    }
    if random.percent(40) {
        filter.insert("u", random.index(9) as i32);
    }
    if random.percent(30) {
        filter.insert("b", doc! { "$gte": draw::number(random) });
    }
    filter
}

/// Returns what a reply says to be inserted by upserts.
fn upserted(reply: &Document) -> Vec<(i32, Bson)> {
    let list = reply.get_array("upserted").map(Vec::as_slice).unwrap_or_default();
    let one = |one: &Bson| {
        let one = one.as_document().unwrap();
        (one.get_i32("index").unwrap(), one.get("_id").unwrap().clone())
    };
    list.iter().map(one).collect()
}

/// Returns whether a reply is what a result says.
fn answers(done: &Done, command: &Document, reply: &Document) -> bool {
    let has_code =
        |refused: super::update::Refused, found: i32| refused.0.is_none_or(|code| code == found);
    if command.contains_key("findAndModify") {
        if let Some((_, refused)) = done.errors.first() {
            return !is_ok(reply) && has_code(*refused, code(reply));
        }
        if !is_ok(reply) {
            return false;
        }
        let (old, new) = done.value.clone().unwrap_or_default();
        let wants_new = command.get_bool("new").ok() == Some(true);
        let expected = if wants_new { new.clone() } else { old.clone() };
        let found = reply.get("value").unwrap();
        let expected = expected.map_or(Bson::Null, Bson::Document);
        let n = reply.get_document("lastErrorObject").unwrap().get_i32("n").unwrap();
        let is_one = old.is_some() || new.is_some();
        return plain::strict(found) == plain::strict(&expected) && n == i32::from(is_one);
    }
    if !is_ok(reply) || count(reply, "n") != done.n {
        return false;
    }
    if command.contains_key("update") && count(reply, "nModified") != done.modified {
        return false;
    }
    let list = reply.get_array("writeErrors").map(Vec::as_slice).unwrap_or_default();
    let is_same = list.len() == done.errors.len()
        && list.iter().zip(&done.errors).all(|(found, (index, refused))| {
            let found = found.as_document().unwrap();
            found.get_i32("index").ok() == Some(*index) && has_code(*refused, code(found))
        });
    let ids = |list: Vec<(i32, Bson)>| {
        list.into_iter().map(|(index, id)| (index, plain::strict(&id))).collect::<Vec<_>>()
    };
    is_same && ids(upserted(reply)) == ids(done.upserted.clone())
}
