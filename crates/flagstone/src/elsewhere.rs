//! For tests that run over several stores: the collections of an open database are elsewhere.

use crate::collection::Collection;
use flagstone_base::Result;
use flagstone_env::sync::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Returns the collection of a name; the second says whether it is created if there is none.
pub type Collections = Arc<dyn Fn(&str, bool) -> Result<Option<Collection>> + Send + Sync>;

/// By the address of what only one open database has.
static ELSEWHERE: std::sync::LazyLock<Mutex<BTreeMap<usize, Collections>>> =
    std::sync::LazyLock::new(Mutex::default);

/// The collections of an open database are elsewhere until this is dropped.
pub struct Redirected(usize);

impl Drop for Redirected {
    fn drop(&mut self) {
        let ended = ELSEWHERE.lock().remove(&self.0);
        drop(ended);
    }
}

/// Lets the collections of the database at an address be those of `collections`.
pub(crate) fn redirect(address: usize, collections: Collections) -> Redirected {
    ELSEWHERE.lock().insert(address, collections);
    Redirected(address)
}

/// Returns a collection of the database at an address, if they are elsewhere.
pub(crate) fn redirected(
    address: usize,
    name: &str,
    creates: bool,
) -> Option<Result<Option<Collection>>> {
    let collections = Arc::clone(ELSEWHERE.lock().get(&address)?);
    Some(collections(name, creates))
}
