//! SQLite in WAL mode: one table of blobs, one connection that writes, one a reader.
//!
//! - table: `WITHOUT ROWID`, the key its primary key. Why: one B-tree instead of a table and an
//!   index.
//! - page: 8 KiB. Why: a row of 1 KiB would leave a page of 4 KiB for an overflow page of its own,
//!   in a `WITHOUT ROWID` table.
//! - journal: WAL, checkpoints from 16 MiB on. Why: readers continue while one writes; fewer
//!   checkpoints than at the default 4 MiB.
//! - cache: half of the memory for the writer, the rest shared by 16 readers. Why: caches belong to
//!   connections.
//! - map: 2 GiB, the most it allows. Why: reads without a copy.
//! - writers: one connection behind a lock. Why: writers exclude each other anyway; a queue in the
//!   process is fairer and faster than waiting for `SQLITE_BUSY` to pass.
//! - statements: prepared once a connection.
//!
//! A write is a transaction of its own, as the workloads ask for single operations. Durability:
//! `synchronous` is OFF for `None`, NORMAL for `Buffered` (synced at checkpoints only), FULL for
//! `Group` and `Each`; `Interval` is NORMAL and a checkpoint an interval, which syncs the log.

use super::choice::has;
use super::ticker::Ticker;
use flagstone::Durability;
use flagstone_bench::engine::{CommentStore, Engine, Outcome};
use flagstone_bench::options::StoreOptions;
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The variants of its tuning that were measured.
pub(super) const VARIANTS: &[(&str, &str)] =
    &[("16k", "pages of 16 KiB"), ("4k", "pages of 4 KiB"), ("nomap", "no memory map")];

pub(super) struct Sqlite {
    ticker: Option<Ticker>,
    path: PathBuf,
    pragmas: Pragmas,
    writer: Arc<Mutex<Connection>>,
    idle: Mutex<Vec<Connection>>,
    tuning: String,
}

#[derive(Clone, Copy)]
struct Pragmas {
    page_bytes: u32,
    map_bytes: u64,
    writer_cache_kib: u64,
    reader_cache_kib: u64,
    synchronous: &'static str,
}

impl Pragmas {
    fn new(variant: &str, options: &StoreOptions) -> Self {
        let page_bytes = match () {
            () if has(variant, "16k") => 16 << 10,
            () if has(variant, "4k") => 4 << 10,
            () => 8 << 10,
        };
        Self {
            page_bytes,
            map_bytes: if has(variant, "nomap") { 0 } else { 0x7fff_0000 },
            writer_cache_kib: options.memory_bytes / 2 / 1024,
            reader_cache_kib: options.memory_bytes / 2 / 16 / 1024,
            synchronous: match options.durability {
                Durability::None => "OFF",
                Durability::Buffered | Durability::Interval(_) => "NORMAL",
                Durability::Group | Durability::Each => "FULL",
            },
        }
    }

    fn connect(&self, path: &Path, writes: bool) -> Outcome<Connection> {
        let flags = if writes {
            OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE
        } else {
            OpenFlags::SQLITE_OPEN_READ_ONLY
        };
        let flags = flags | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        if writes {
            let checkpoint_pages = (16 << 20) / self.page_bytes;
            connection.execute_batch(&format!(
                "PRAGMA page_size = {};
                 PRAGMA journal_mode = WAL;
                 PRAGMA synchronous = {};
                 PRAGMA wal_autocheckpoint = {checkpoint_pages};
                 CREATE TABLE IF NOT EXISTS kv
                     (k BLOB NOT NULL PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID;
                 CREATE TABLE IF NOT EXISTS comments
                     (id TEXT NOT NULL PRIMARY KEY, doc BLOB NOT NULL) WITHOUT ROWID;",
                self.page_bytes, self.synchronous,
            ))?;
        }
        let cache = if writes { self.writer_cache_kib } else { self.reader_cache_kib };
        connection.execute_batch(&format!(
            "PRAGMA cache_size = -{cache}; PRAGMA mmap_size = {};",
            self.map_bytes,
        ))?;
        Ok(connection)
    }
}

/// Opens a store as the workload asks.
pub(super) fn open(variant: &str, options: &StoreOptions) -> Outcome<Box<dyn Engine>> {
    std::fs::create_dir_all(&options.dir)?;
    let path = options.dir.join("kv.sqlite");
    let pragmas = Pragmas::new(variant, options);
    let writer = Arc::new(Mutex::new(pragmas.connect(&path, true)?));
    let ticker = match options.durability {
        Durability::Interval(interval) => {
            let writer = Arc::clone(&writer);
            Some(Ticker::start(interval, move || {
                checkpoint(&locked_connection(&writer), "PASSIVE")
            }))
        }
        _ => None,
    };
    let tuning = format!(
        "WAL, synchronous {}, pages of {} KiB, cache of {} MiB for the writer and {} a reader, \
         map of {} MiB",
        pragmas.synchronous,
        pragmas.page_bytes >> 10,
        pragmas.writer_cache_kib >> 10,
        pragmas.reader_cache_kib >> 10,
        pragmas.map_bytes >> 20,
    );
    Ok(Box::new(Sqlite { ticker, path, pragmas, writer, idle: Mutex::default(), tuning }))
}

fn locked_connection(connection: &Mutex<Connection>) -> MutexGuard<'_, Connection> {
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

fn checkpoint(connection: &Connection, mode: &str) -> Outcome<()> {
    connection.query_row(&format!("PRAGMA wal_checkpoint({mode})"), (), |_| Ok(()))?;
    Ok(())
}

impl Sqlite {
    /// Locks the connection that writes.
    pub(super) fn writer(&self) -> MutexGuard<'_, Connection> {
        locked_connection(&self.writer)
    }

    /// Calls `read` with a connection that no other thread uses.
    pub(super) fn reading<T>(&self, read: impl FnOnce(&Connection) -> Outcome<T>) -> Outcome<T> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let connection = match idle {
            Some(connection) => connection,
            None => self.pragmas.connect(&self.path, false)?,
        };
        let answer = read(&connection);
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        answer
    }
}

impl Engine for Sqlite {
    fn put(&self, key: &[u8], value: &[u8]) -> Outcome<()> {
        let writer = locked_connection(&self.writer);
        writer.prepare_cached("REPLACE INTO kv (k, v) VALUES (?1, ?2)")?.execute((key, value))?;
        Ok(())
    }

    fn get(&self, key: &[u8], found: &mut dyn FnMut(&[u8])) -> Outcome<bool> {
        self.reading(|connection| {
            let mut statement = connection.prepare_cached("SELECT v FROM kv WHERE k = ?1")?;
            let mut rows = statement.query((key,))?;
            let Some(row) = rows.next()? else { return Ok(false) };
            found(row.get_ref(0)?.as_blob()?);
            Ok(true)
        })
    }

    fn delete(&self, key: &[u8]) -> Outcome<()> {
        let writer = locked_connection(&self.writer);
        writer.prepare_cached("DELETE FROM kv WHERE k = ?1")?.execute((key,))?;
        Ok(())
    }

    fn scan(
        &self,
        from: &[u8],
        limit: usize,
        each: &mut dyn FnMut(&[u8], &[u8]),
    ) -> Outcome<usize> {
        self.reading(|connection| {
            let sql = "SELECT k, v FROM kv WHERE k >= ?1 ORDER BY k LIMIT ?2";
            let mut statement = connection.prepare_cached(sql)?;
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            let mut rows = statement.query((from, limit))?;
            let mut seen = 0;
            while let Some(row) = rows.next()? {
                each(row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
                seen += 1;
            }
            Ok(seen)
        })
    }

    fn comments(&self) -> Option<&dyn CommentStore> {
        Some(self)
    }

    fn flush(&self) -> Outcome<()> {
        checkpoint(&locked_connection(&self.writer), "PASSIVE")
    }

    fn compact(&self) -> Outcome<()> {
        checkpoint(&locked_connection(&self.writer), "TRUNCATE")
    }

    fn version(&self) -> String {
        format!("sqlite {}", rusqlite::version())
    }

    fn tuning(&self) -> String {
        self.tuning.clone()
    }

    fn close(self: Box<Self>) -> Outcome<()> {
        let Self { ticker, writer, idle, .. } = *self;
        drop(ticker);
        drop(idle);
        checkpoint(&locked_connection(&writer), "TRUNCATE")
    }
}
