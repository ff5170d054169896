//! Cursors of a server.

use super::encoding::{Put, strange};
use super::there::Link;
use crate::failure::Failure;
use flagstone_server::bson::BsonWriter;
use flagstone_server::client::Reply;
use std::collections::VecDeque;
use std::rc::Rc;

/// The rows of a cursor, batch by batch.
pub(in crate::run) struct Received<T> {
    link: Rc<Link>,
    database: String,
    /// As the server names it.
    collection: String,
    /// The number of the cursor; 0 if the server has no more.
    id: i64,
    rows: VecDeque<T>,
    read: fn(Reply<'_>) -> Result<T, Failure>,
    has_failed: bool,
}

impl<T> Received<T> {
    /// Begins a cursor.
    pub(in crate::run) fn begin(
        link: &Rc<Link>,
        operation: &str,
        name: Option<&str>,
        put: impl FnOnce(&mut BsonWriter<'_>) -> Put,
        read: fn(Reply<'_>) -> Result<T, Failure>,
    ) -> Result<Self, Failure> {
        let begun = |reply: Reply<'_>| {
            let cursor = reply.document("cursor").ok_or_else(|| strange("cursor"))?;
            let id = cursor.int("id").ok_or_else(|| strange("id"))?;
            let (database, collection) =
                cursor.text("ns").and_then(|ns| ns.split_once('.')).ok_or_else(|| strange("ns"))?;
            let rows = cursor.documents("firstBatch").map(read).collect::<Result<_, _>>()?;
            let (database, collection) = (database.to_owned(), collection.to_owned());
            let link = Rc::clone(link);
            Ok(Self { link, database, collection, id, rows, read, has_failed: false })
        };
        link.operate(operation, name, put, begun)
    }

    /// Asks for the next batch. Returns false if there is none. Of a cursor that does not end, it
    /// may be empty.
    pub(in crate::run) fn more(&mut self) -> Result<bool, Failure> {
        if self.id == 0 {
            return Ok(false);
        }
        let (id, read) = (self.id, self.read);
        let put = |out: &mut BsonWriter<'_>| {
            out.long("getMore", id)?;
            out.text("collection", &self.collection)
        };
        let (id, rows) = self.link.run(&self.database, put, |reply| {
            let cursor = reply.document("cursor").ok_or_else(|| strange("cursor"))?;
            let rows = cursor.documents("nextBatch").map(read);
            let id = cursor.int("id").ok_or_else(|| strange("id"))?;
            Ok((id, rows.collect::<Result<Vec<_>, _>>()?))
        })?;
        self.id = id;
        self.rows.extend(rows);
        Ok(true)
    }

    /// Takes a row that has come.
    pub(in crate::run) fn received(&mut self) -> Option<T> {
        self.rows.pop_front()
    }

    fn next_row(&mut self) -> Result<Option<T>, Failure> {
        loop {
            if let Some(row) = self.rows.pop_front() {
                return Ok(Some(row));
            }
            if !self.more()? {
                return Ok(None);
            }
        }
    }
}

impl<T> Iterator for Received<T> {
    type Item = Result<T, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        let next = self.next_row().transpose();
        self.has_failed = matches!(next, Some(Err(_)));
        next
    }
}

/// A cursor that is left early is ended, so that the server keeps nothing for it.
impl<T> Drop for Received<T> {
    fn drop(&mut self) {
        if self.id == 0 || self.has_failed {
            return;
        }
        let id = self.id;
        let put = |out: &mut BsonWriter<'_>| {
            out.text("killCursors", &self.collection)?;
            out.begin_array("cursors")?;
            out.long("", id)?;
            out.end()
        };
        let _idle_ones_end = self.link.run(&self.database, put, |_reply| Ok(()));
    }
}
