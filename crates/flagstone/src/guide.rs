//! The guide, page by page. Each example of it is compiled and run by the tests.

/// Declares a module for each page of `docs/guide`, with its text as documentation.
macro_rules! pages {
    ($($(#[$attribute:meta])* $name:ident $file:literal)+) => {$(
        $(#[$attribute])*
        #[doc = include_str!(concat!("../guide/", $file))]
        pub mod $name {}
    )+};
}

pages! {
    #[cfg(feature = "serde")]
    getting_started "getting-started.md"
    #[cfg(feature = "serde")]
    data_model "data-model.md"
    paths "paths.md"
    queries "queries.md"
    // The example is one of crate flagstone-pipeline, whose tests run it.
    #[cfg(not(doctest))]
    pipelines "pipelines.md"
    indexes "indexes.md"
    patches "patches.md"
    #[cfg(feature = "serde")]
    transactions "transactions.md"
    changes "changes.md"
    durability "durability.md"
    memory "memory.md"
    tuning "tuning.md"
    backup "backup.md"
    #[cfg(feature = "serde")]
    serde "serde.md"
    #[cfg(feature = "serde")]
    migrating "migrating.md"
    tool "tool.md"
    server "server.md"
    cluster "cluster.md"
    differences "differences.md"
    http "http.md"
    python "python.md"
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_page_is_a_module() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/guide");
        for page in std::fs::read_dir(folder).unwrap() {
            let name = page.unwrap().file_name().into_string().unwrap();
            assert!(include_str!("guide.rs").contains(&format!("\"{name}\"")), "{name}");
        }
    }
}
