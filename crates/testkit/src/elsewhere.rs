//! Tests over another store: with `FLAGSTONE_STORE=mem`, the collections of the databases of a
//! [`World`](crate::World) are those of a cluster in memory, and their files hold none.

use flagstone::internal::{Redirected, redirect};
use flagstone::{Database, Result};
use flagstone_cluster::Cluster;
use flagstone_cluster::mem::Mem;
use flagstone_env::Clock;
use std::sync::Arc;

/// Returns whether the tests run over a cluster in memory.
pub fn is_elsewhere() -> bool {
    std::env::var_os("FLAGSTONE_STORE").is_some_and(|store| store == "mem")
}

/// Lets the collections of an open database be those of `store`.
pub(crate) fn redirected(
    database: &Database,
    store: &Arc<Mem>,
    clock: &Arc<dyn Clock>,
) -> Result<Redirected> {
    let environment = flagstone::admin::Environment {
        clock: Arc::clone(clock),
        ..flagstone::admin::Environment::default()
    };
    let store = Arc::<Mem>::clone(store);
    let cluster = Cluster::over_with(store, environment, &std::env::temp_dir())?;
    let collections = move |name: &str, creates: bool| {
        if creates { cluster.collection(name).map(Some) } else { cluster.existing(name) }
    };
    Ok(redirect(database, Arc::new(collections)))
}
