use super::call::{Call, Decider, Item, Op, Woken};
use super::group;
use super::queue::Queue;
use super::send::Mark;
use crate::catalog::{Buckets, Note};
use crate::ground::Ground;
use crate::mem::{Fate, Faults, Mem};
use flagstone::remote::{Row, Write};
use flagstone_base::{Error, ErrorKind, Result, Slice};
use flagstone_env::SystemClock;
use std::sync::Arc;

const KEY: &[u8] = b"k";

/// Runs two calls as one group: a put, and one that decides after it by `decide`.
fn put_and_decide(
    mem: &Arc<Mem>,
    decide: &mut dyn FnMut(Option<&Row>) -> Result<Write>,
) -> [Result<bool>; 2] {
    let (store, clock) = (Arc::clone(mem) as _, Arc::new(SystemClock::default()));
    let ground = Ground::new(store, clock, "c", 1, Note::new(1, 7, 1)).unwrap();
    let row = Row { document: Slice::copy_of(b"new"), expiry: None };
    let key = || Slice::copy_of(KEY);
    let put = Arc::new(Call::new(vec![Item::of_document(key(), Op::Put(row))]));
    let decides = Arc::new(Call::new(vec![Item::of_document(key(), Op::Decide)]));
    let queue = Queue::of(vec![Arc::clone(&put), Arc::clone(&decides)]);
    let (mut mark, mut decider) = (Mark::new(7), Decider::new(Some(decide)));
    let mut lead = queue.take();
    group::run(&ground, 0, &Buckets::Hash(1), &mut mark, &mut lead, 1, &mut decider);
    drop(lead);
    [put, decides].map(|call| match call.wait(&mut Decider::new(None)) {
        Woken::Done(done) => done.result,
        Woken::Lead => panic!("nobody waits"),
    })
}

fn kind_of(result: &Result<bool>) -> Result<bool, ErrorKind> {
    result.as_ref().copied().map_err(Error::kind)
}

#[test]
fn a_call_sees_what_those_before_it_in_the_group_write() {
    let mem = Arc::new(Mem::new());
    let mut seen = Vec::new();
    let results = put_and_decide(&mem, &mut |row| {
        seen.push(row.map(|row| row.document.to_vec()));
        Ok(Write::Delete)
    });
    assert_eq!(results.map(|result| result.unwrap()), [true, true]);
    assert!(seen.iter().all(|seen| seen.as_deref() == Some(b"new")));
    let rows = mem.partitions().into_iter().flat_map(|place| mem.all_rows(place));
    assert!(rows.into_iter().all(|(_, row)| row.key != KEY));
}

#[test]
fn a_call_that_fails_leaves_the_others_of_the_group() {
    let mem = Arc::new(Mem::new());
    let refuse = &mut |_: Option<&Row>| Err(Error::new(ErrorKind::ConditionFailed, "there"));
    let results = put_and_decide(&mem, refuse);
    assert_eq!(results.each_ref().map(kind_of), [Ok(true), Err(ErrorKind::ConditionFailed)]);
}

#[test]
fn what_rests_on_a_write_of_the_group_is_as_unknown_as_the_write() {
    let mem = Arc::new(Mem::new());
    let refuse = &mut |row: Option<&Row>| match row {
        Some(_) => Err(Error::new(ErrorKind::ConditionFailed, "there")),
        None => Ok(Write::Nothing),
    };
    // Refused without an epoch, and the epoch, and then no answer any more.
    mem.plan(&[Fate::Answered, Fate::Answered]);
    mem.set_faults(Faults { lost: 1000, ..Faults::default() });
    let results = put_and_decide(&mem, refuse);
    assert_eq!(results.each_ref().map(kind_of), [Err(ErrorKind::Unknown); 2]);
}
