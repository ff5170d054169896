use super::parts::{EPOCH, Place, row, row_key, token};
use flagstone_base::ErrorKind;
use flagstone_cluster::store::{Freshness, Outcome, Store};
use std::sync::atomic::{AtomicU64, Ordering};

const WRITERS: u64 = 6;
const EACH: u64 = 15;

pub(super) fn no_increment_of_several_writers_is_lost(store: &dyn Store, generation: i32) {
    let place = Place::new(store, generation, 0);
    place.batch().set(0, row("n", 0_u64.to_be_bytes(), 1)).applied();
    let tokens = AtomicU64::new(2);
    let increment = || {
        loop {
            let found = place.read(&[row_key(0, "n")], Freshness::Serial).rows.remove(0).unwrap();
            let number = u64::from_be_bytes(found.value[..].try_into().unwrap()) + 1;
            let own = tokens.fetch_add(1, Ordering::Relaxed);
            let old = u64::from_be_bytes(found.token.unwrap().0);
            let batch = place.batch().when(0, "n", old).set(0, row("n", number.to_be_bytes(), own));
            match store.batch(&batch.batch) {
                Ok(Outcome::Applied) => return,
                Ok(Outcome::Refused) => {}
                // Nobody else can have replaced it: then its token was seen.
                Err(error) if error.kind() == ErrorKind::Unknown => {
                    let found = place.read(&[row_key(0, "n")], Freshness::Serial);
                    if found.rows[0].as_ref().unwrap().token == Some(token(own)) {
                        return;
                    }
                    panic!("the machine is too slow for this test: {error}");
                }
                Err(error) => panic!("{error}"),
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| (0..EACH).for_each(|_| increment()));
        }
    });
    let found = place.get("n").unwrap();
    assert_eq!(found.value[..], (WRITERS * EACH).to_be_bytes());
}

pub(super) fn one_of_several_sets_an_epoch(store: &dyn Store, generation: i32) {
    let place = Place::new(store, generation, 0);
    let applied = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for n in 0..6 {
            let (place, applied) = (&place, &applied);
            scope.spawn(move || {
                if place.set_epoch(Some(EPOCH), EPOCH + 1 + n) == Outcome::Applied {
                    applied.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(applied.into_inner(), 1);
}
