//! A small database that is served, for the targets that run commands.

use flagstone::doc::DateTime;
use flagstone::{Collection, Index, Options, Space, doc};
use flagstone_server::command::{Service, ServiceOptions};
use flagstone_testkit::world::{Session, World};
use std::sync::{Arc, Mutex};

/// A new database follows after this many inputs: its manifest and log have them all.
const RUNS: u32 = 500;

struct Place {
    service: Arc<Service>,
    session: Session,
    _world: World,
    runs: u32,
}

static PLACE: Mutex<Option<Place>> = Mutex::new(None);

/// The name of the collection, and of its index.
pub(super) const COLLECTION: &str = "shop.c";
const INDEX: &str = "a_1";

impl Place {
    fn new() -> Self {
        let world = World::new(11);
        let options = Options::new().memory_budget(16 << 20).compaction_workers(1);
        let session = world.open(&options).unwrap();
        let service = Service::new(session.db.clone(), ServiceOptions::default()).unwrap();
        Self { service, session, _world: world, runs: 0 }
    }

    /// Leaves nothing but the collection with its documents and its index.
    fn reset(&self) -> Collection {
        let db = &self.session.db;
        for info in db.keyspaces() {
            if info.owner.is_none() && info.name != COLLECTION {
                db.drop_keyspace(&info.name).unwrap();
            }
        }
        let collection = db.collection(COLLECTION).unwrap();
        for index in collection.indexes() {
            if index.name != INDEX {
                collection.drop_index(&index.name).unwrap();
            }
        }
        collection.clear().unwrap();
        collection.create_index(INDEX, Index::on("a")).unwrap();
        for (key, document) in [
            (1, doc!({ "a": 1, "b": "text", "c": [1, 2, 3] })),
            (2, doc!({ "a": 2.5, "c": [{ "x": 1, "y": "p" }, { "x": 2 }], "d": { "e": null } })),
            (3, doc!({ "a": "one", "b": -7, "c": [], "t": (DateTime::from_micros(7)) })),
            (4, doc!({ "b": [[1], { "a": true }] })),
        ] {
            collection.put(key, document).unwrap();
        }
        collection
    }
}

/// Runs `work` with a service over a database that is always the same.
pub(super) fn with_service(work: impl FnOnce(&Arc<Service>, &Collection)) {
    // A panic leaves no place, so that the next run starts anew. So does one that adds users.
    let taken = PLACE.lock().unwrap().take();
    let place = taken.filter(|place| place.runs < RUNS && !place.service.users().exist());
    let mut place = place.unwrap_or_else(Place::new);
    let collection = place.reset();
    work(&place.service, &collection);
    place.runs += 1;
    *PLACE.lock().unwrap() = Some(place);
}
