//! A collection of documents: JSON in and out, single fields, changes, patches, scans.
//!
//! `cargo run --example documents [DIRECTORY]`

#![allow(clippy::print_stdout, reason = "an example prints what it does")]

use flagstone::{Database, Error, Json, Patch, Patched, Result, Space, doc};
use std::path::PathBuf;

fn main() -> Result<()> {
    let scratch = tempfile::tempdir()
        .map_err(|error| Error::io("create a directory in", &std::env::temp_dir(), error))?;
    let path = std::env::args_os().nth(1);
    let db = Database::open(path.map_or_else(|| scratch.path().join("shop"), PathBuf::from))?;
    let products = db.collection("products")?;

    // Documents come as JSON text, or as values that `doc!` writes. Numbers stay as they were
    // written: 49.90.
    products.put(
        "kettle",
        Json(r#"{"name":"Kettle","price":49.90,"stock":{"berlin":3,"oslo":0},"tags":["kitchen"]}"#),
    )?;
    products.put("lamp", doc!({ "name": "Lamp", "price": 20, "stock": { "oslo": 8 } }))?;

    // A whole document, and parts of it.
    if let Some(kettle) = products.get("kettle")? {
        // `None` if there is nothing, or a value of another type.
        let (name, stock) = (kettle.str("name"), kettle.int("stock.berlin"));
        println!("{}: {} in Berlin", name.unwrap_or("?"), stock.unwrap_or(0));
        if let Some(price) = kettle.get("price") {
            println!("its price is {price}");
        }
    }
    // One field, when the rest is not needed: nothing else is decoded.
    let in_oslo = products.get_path("lamp", "stock.oslo")?;
    println!("lamps in Oslo: {}", in_oslo.unwrap_or_default());

    // Read, decide, write: no other write of the key comes between. After an error the document is
    // as it was.
    let found = products.update("kettle", |kettle| match kettle.int("stock.berlin") {
        Some(1..) => kettle.inc("stock.berlin", -1),
        _ => Err(Error::invalid("Berlin has no kettle left")),
    })?;
    println!("sold a kettle: {found}");

    // A patch changes a document without reading it first. It is as cheap as a put.
    products.patch("lamp", &Patch::new().inc("stock.oslo", -2).push("tags", "light"))?;

    // `apply_patch` reads, so it can tell that a patch does not fit. Nothing is written then.
    if let Err(error) =
        products.patch_if("lamp", &Patch::new().inc("name", 1)).and_then(Patched::applied)
    {
        println!("refused: {error}");
    }
    // Text that is no JSON is refused with the place of the mistake.
    if let Err(error) = products.put("mug", Json(r#"{"name":"Mug","price":}"#)) {
        println!("refused: {error}");
    }

    // Primary keys are values, and a scan returns documents in their order.
    for entry in products.scan("a".."z") {
        let (key, document) = entry?;
        println!("{key}: {document}");
    }
    db.close()
}
