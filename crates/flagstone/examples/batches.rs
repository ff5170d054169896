//! Batches and conditions: threads transfer money between accounts, and none of it is lost.
//!
//! `cargo run --example batches [DIRECTORY]`

#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use flagstone::{
    Collection, Database, Error, ErrorKind, Expect, Keyspace, Patch, Result, Space, doc,
};
use std::path::PathBuf;

const NAMES: [&str; 3] = ["ada", "grace", "hedy"];

/// Opens an account unless there is one.
fn open_account(db: &Database, accounts: &Collection, name: &str) -> Result<()> {
    let mut batch = db.batch();
    batch.expect(accounts, name, Expect::Absent)?;
    batch.put(accounts, name, doc!({ "balance": 100 }))?;
    match db.commit(batch) {
        Err(error) if error.kind() == ErrorKind::Conflict => Ok(()),
        other => other,
    }
}

/// Moves money and writes a line to the journal, all or nothing. Returns the number of conflicts.
fn transfer(
    db: &Database,
    (accounts, journal): (&Collection, &Keyspace),
    (from, to): (&str, &str),
    amount: i64,
) -> Result<u64> {
    let mut conflicts = 0;
    loop {
        let no_account = || Error::invalid(format!("{from} has no account"));
        let (version, account) = accounts.get_versioned(from)?.ok_or_else(no_account)?;
        if account.int("balance").is_none_or(|balance| balance < amount) {
            return Ok(conflicts);
        }
        let mut batch = db.batch();
        // The decision depends on this account: the commit is refused if another thread has
        // written it since. What the other account holds does not matter: no condition for it.
        batch.expect(accounts, from, Expect::Version(version))?;
        batch.patch(accounts, from, &Patch::new().inc("balance", -amount))?;
        batch.patch(accounts, to, &Patch::new().upsert().inc("balance", amount))?;
        batch.put(journal, version.to_bytes(), format!("{from} gives {to} {amount}"))?;
        match db.commit(batch) {
            Err(error) if error.kind() == ErrorKind::Conflict => conflicts += 1,
            done => return done.map(|()| conflicts),
        }
    }
}

fn main() -> Result<()> {
    let scratch = tempfile::tempdir()
        .map_err(|error| Error::io("create a directory in", &std::env::temp_dir(), error))?;
    let path = std::env::args_os().nth(1);
    let db = Database::open(path.map_or_else(|| scratch.path().join("bank"), PathBuf::from))?;
    let (accounts, journal) = (db.collection("accounts")?, db.keyspace("journal")?);
    for name in NAMES {
        open_account(&db, &accounts, name)?;
    }
    let work = |thread: usize| -> Result<u64> {
        let mut conflicts = 0;
        for n in thread..thread + 500 {
            let names = (NAMES[n % 3], NAMES[(n + 1) % 3]);
            conflicts += transfer(&db, (&accounts, &journal), names, 7)?;
        }
        Ok(conflicts)
    };
    let conflicts = std::thread::scope(|scope| {
        let threads = [0, 1, 2, 3].map(|thread| scope.spawn(move || work(thread)));
        let ends = threads.into_iter().map(|thread| thread.join());
        ends.map(|end| end.unwrap_or_else(|p| std::panic::resume_unwind(p))).sum::<Result<u64>>()
    })?;
    println!("{conflicts} commits were refused and tried again");
    let mut total = 0;
    for entry in accounts.scan(..) {
        let (name, account) = entry?;
        let no_balance = || Error::invalid(format!("{name} has no balance"));
        let balance = account.int("balance").ok_or_else(no_balance)?;
        println!("{name} has {balance}");
        total += balance;
    }
    println!("together {total}; the journal has {} lines", journal.count()?);
    db.close()
}
