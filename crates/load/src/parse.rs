//! A parser: turns chunks into batches.

use crate::bad_documents::{BadDocuments, Places};
use crate::control::Control;
use crate::gate::Permit;
use crate::input::Input;
use crate::read::Parcel;
use crate::totals::Count;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use flagstone::{Batch, Collection, Database, DocumentParser, ErrorKind, JsonOptions, Refused};
use std::sync::Arc;
use std::time::Duration;

/// A batch for a writer, with the counts to add once it is acknowledged.
pub(crate) struct Work {
    pub(crate) batch: Batch,
    pub(crate) count: Count,
    /// The place of its chunk, for messages.
    pub(crate) rank: crate::control::Rank,
    pub(crate) permit: Arc<Permit>,
}

/// A parser and what it needs.
pub(crate) struct Parser {
    pub(crate) database: Database,
    pub(crate) collection: Collection,
    pub(crate) key_path: String,
    pub(crate) batch_bytes: usize,
    pub(crate) inputs: Arc<Vec<Input>>,
    pub(crate) bad: Arc<BadDocuments>,
    pub(crate) control: Arc<Control>,
    pub(crate) parcels: Receiver<Parcel>,
    pub(crate) works: Sender<Work>,
}

/// How long the parsers of a load that stops wait for a reader that waits for its input.
const PATIENCE: Duration = Duration::from_millis(100);

/// The writers have ended: parsing is pointless.
struct Stopped;

impl Parser {
    pub(crate) fn run(&self) {
        let mut parser = DocumentParser::new(&self.collection, JsonOptions::default());
        loop {
            match self.parcels.recv_timeout(PATIENCE) {
                Ok(_parcel) if self.control.has_failed() => {}
                Ok(parcel) => {
                    if let Err(Stopped) = self.parse(&mut parser, parcel) {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) if !self.control.is_stopping() => {}
                Err(_) => return,
            }
        }
    }

    fn parse(&self, parser: &mut DocumentParser, parcel: Parcel) -> Result<(), Stopped> {
        let Parcel { input, chunk, input_bytes, permit } = parcel;
        let permit = Arc::new(permit);
        let rank = (input, chunk.offset);
        let mut batch = self.database.batch();
        let mut count = Count::default();
        let mut places = Places::new(&chunk);
        for (at, json) in chunk.documents() {
            let mut put = parser.put(&mut batch, json, &self.key_path);
            if matches!(put, Err(Refused::Full)) {
                let (full, count) = (std::mem::take(&mut batch), std::mem::take(&mut count));
                self.send(Work { batch: full, count, rank, permit: Arc::clone(&permit) })?;
                put = parser.put(&mut batch, json, &self.key_path);
            }
            match put {
                Ok(()) => count.documents += 1,
                Err(refused) => {
                    count.bad += 1;
                    if !self.refused(input, &mut places, (at, json), &refused) {
                        break;
                    }
                }
            }
            if batch.bytes() >= self.batch_bytes {
                let (batch, count) = (std::mem::take(&mut batch), std::mem::take(&mut count));
                self.send(Work { batch, count, rank, permit: Arc::clone(&permit) })?;
            }
        }
        count.json_bytes = chunk.bytes.len() as u64;
        count.input_bytes = input_bytes;
        drop(chunk);
        self.send(Work { batch, count, rank, permit })
    }

    fn send(&self, work: Work) -> Result<(), Stopped> {
        self.works.send(work).map_err(|_nobody_writes| Stopped)
    }

    /// Handles a document that was refused. Returns false when it ends the load.
    fn refused(
        &self,
        input: usize,
        places: &mut Places<'_>,
        text: (usize, &[u8]),
        why: &Refused,
    ) -> bool {
        let rank = (input, places.chunk.offset + text.0 as u64);
        if let Refused::Batch(error) = why
            && error.kind() != ErrorKind::InvalidInput
        {
            self.control.fail(rank, error.clone().into());
            return false;
        }
        let taken = self.bad.take(&self.inputs[input], places, text, why);
        taken.map_err(|failure| self.control.fail(rank, failure)).is_ok()
    }
}
