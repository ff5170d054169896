//! Commands about databases.

use super::counted::{COUNTED_MAX, documents_of};
use super::listing::{Listing, Matching, Sizes, collections, scale, sizes};
use crate::access::{ADMIN, Need};
use crate::bson::BsonWriter;
use crate::command::args::whole;
use crate::command::dropped::discard;
use crate::command::notes;
use crate::command::read::put_long;
use crate::command::run::Run;
use crate::failure::{Code, Failure, Outcome};
use flagstone::doc::ValueType;
use std::collections::BTreeMap;

pub(in crate::command) fn list_databases(run: &mut Run<'_, '_>) -> Outcome {
    let args = run.args();
    let (matching, names_only) = (Matching::parse(&args)?, args.is("nameOnly")?);
    let sizes = sizes(run.service);
    let mut databases: BTreeMap<String, u64> = BTreeMap::new();
    for (namespace, keyspace) in collections(run.service)? {
        let size = sizes.get(&keyspace).copied().unwrap_or_default();
        *databases.entry(namespace.database).or_default() += size.documents + size.indexes;
    }
    if run.service.users.exist() {
        // Users belong to it.
        databases.entry(ADMIN.to_owned()).or_default();
    }
    let mut listing = Listing { matching: matching.as_ref(), documents: Vec::new() };
    let mut total = 0_u64;
    for (name, bytes) in databases {
        if !may_see(run, &name) {
            continue;
        }
        total += bytes;
        listing.add(run.incoming, |out| {
            out.text("name", &name)?;
            if !names_only {
                out.long("sizeOnDisk", i64::try_from(bytes).unwrap_or(i64::MAX))?;
                out.bool("empty", false)?;
            }
            Ok(())
        })?;
    }
    run.reply.begin_array("databases")?;
    for document in &listing.documents {
        run.reply.raw_document("", document)?;
    }
    run.reply.end()?;
    if !names_only {
        run.reply.long("totalSize", i64::try_from(total).unwrap_or(i64::MAX))?;
        run.reply.long("totalSizeMb", i64::try_from(total >> 20).unwrap_or(i64::MAX))?;
    }
    Ok(())
}

/// Returns whether the client may read a database.
pub(in crate::command) fn may_see(run: &Run<'_, '_>, database: &str) -> bool {
    run.require(Need::Read, database).is_ok()
}

pub(in crate::command) fn drop_database(run: &mut Run<'_, '_>) -> Outcome {
    const NAME: &str = "dropDatabase";
    let database = &run.command.database;
    let args = run.args();
    let one = args.get(NAME)?.ok_or_else(|| args.missing(NAME))?;
    if one.value_type() != ValueType::Number {
        let text = format!("{NAME}: expected 1, found {one}");
        return Err(Failure::new(Code::TypeMismatch, text));
    }
    if whole(&one)? != 1.0 {
        return Err(Failure::numbered(5_255_100, format!("{NAME}: expected 1, found {one}")));
    }
    if database == ADMIN {
        let text = format!("database {ADMIN} has the users, and cannot be dropped");
        return Err(Failure::new(Code::IllegalOperation, text));
    }
    let mut is_there = false;
    for (namespace, keyspace) in collections(run.service)? {
        if namespace.database == *database {
            is_there |= discard(run.service, &keyspace)?;
        }
    }
    if is_there {
        notes::note_dropped(run.service, database)?;
        run.reply.text("dropped", database)?;
    }
    Ok(())
}

pub(in crate::command) fn db_stats(run: &mut Run<'_, '_>) -> Outcome {
    let (args, sizes) = (run.args(), sizes(run.service));
    // No file has room that is free and counts as used.
    let (scale, frees) = (scale(&args)?, args.is("freeStorage")?);
    let (mut n, mut objects, mut indexes, mut left) = (0, 0, 0, COUNTED_MAX);
    let mut total = Sizes::default();
    for (namespace, keyspace) in collections(run.service)? {
        if namespace.database != run.command.database {
            continue;
        }
        let Some(collection) = run.existing(&namespace)? else { continue };
        n += 1;
        objects += documents_of(&collection, &mut left)?;
        indexes += collection.indexes().len() as u64 + 1;
        let size = sizes.get(&keyspace).copied().unwrap_or_default();
        total.documents += size.documents;
        total.raw += size.raw;
        total.indexes += size.indexes;
    }
    let reply = &mut run.reply;
    reply.text("db", &run.command.database)?;
    put_long(reply, "collections", n)?;
    put_long(reply, "views", 0)?;
    put_long(reply, "objects", objects)?;
    let average = if objects == 0 { 0.0 } else { total.raw as f64 / objects as f64 };
    reply.double("avgObjSize", average)?;
    let both = total.documents + total.indexes;
    put_float(reply, "dataSize", total.raw, scale)?;
    put_float(reply, "storageSize", total.documents, scale)?;
    if frees {
        put_float(reply, "freeStorageSize", 0, scale)?;
    }
    put_long(reply, "indexes", indexes)?;
    put_float(reply, "indexSize", total.indexes, scale)?;
    if frees {
        put_float(reply, "indexFreeStorageSize", 0, scale)?;
    }
    put_float(reply, "totalSize", both, scale)?;
    if frees {
        put_float(reply, "totalFreeStorageSize", 0, scale)?;
    }
    put_long(reply, "scaleFactor", scale)
}

/// Appends a size of a database, which servers of MongoDB write as a double.
fn put_float(reply: &mut BsonWriter<'_>, name: &str, bytes: u64, scale: u64) -> Outcome {
    Ok(reply.double(name, bytes as f64 / scale as f64)?)
}
