//! A file whose appends a thread of its own carries out, so that whoever makes the bytes goes on.
//!
//! A page that is new to the page cache is dear, most of all on virtual machines, whose hosts back memory
//! on first use: docs/decisions/table-writing.md.

use crate::disk::{SyncFile, WriteFile};
use flagstone_base::{Error, ErrorKind, Result};
use parking_lot::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

/// Appends wait for the thread up to so many: with the one under way and the one being made, what a
/// file holds in memory.
const WAITING: usize = 2;
/// Smaller appends, to a file that has no thread yet, are done at once: most such files stay small.
const LARGE_BYTES: usize = 64 << 10;
/// Larger ones wait for the thread and are done at once: neither they nor their copies pile up.
const HUGE_BYTES: usize = 1 << 20;
/// A thread whose file is done waits so long for the next one, with its buffers: a database under
/// writes begins tens of files a second.
const IDLE: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 2000 });

/// The threads that have no file now.
static IDLERS: Mutex<Vec<Stream>> = Mutex::new(Vec::new());

/// A [`WriteFile`] over another one. A failed append is answered by a later call, at the latest by the
/// next `sync`; from then on every call answers it.
pub(crate) struct StreamedFile {
    state: State,
    position: u64,
}

enum State {
    /// No append waits.
    Here(Box<dyn WriteFile>),
    /// Appends are carried out by the thread.
    Away(Stream),
    /// An append failed.
    Failed(Error),
}

enum Task {
    Append(Vec<u8>),
    StartWriteback,
    /// Nothing more: the file is wanted back.
    End,
}

/// The way to a thread that writes files, one at a time.
struct Stream {
    id: u64,
    files: Sender<Box<dyn WriteFile>>,
    tasks: SyncSender<Task>,
    /// Buffers whose bytes were appended.
    emptied: Receiver<Vec<u8>>,
    /// The file once it is done.
    done: Receiver<Result<Box<dyn WriteFile>>>,
}

impl Stream {
    /// Gives `file` to a thread, or back when there can be none.
    fn start(file: Box<dyn WriteFile>) -> std::result::Result<Self, Box<dyn WriteFile>> {
        let idler = IDLERS.lock().pop();
        let Some(stream) = idler.or_else(Self::new) else { return Err(file) };
        match stream.files.send(file) {
            Ok(()) => Ok(stream),
            Err(unsent) => Err(unsent.0),
        }
    }

    /// A thread that waits for its first file.
    fn new() -> Option<Self> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let (files, to_write) = channel();
        let (tasks, to_do) = sync_channel(WAITING);
        let (empty, emptied) = channel();
        let (give_back, done) = channel();
        let work = move || serve(id, &to_write, &to_do, &empty, &give_back);
        std::thread::Builder::new().name("flagstone-write".to_owned()).spawn(work).ok()?;
        Some(Self { id, files, tasks, emptied, done })
    }

    /// An empty buffer in place of `bytes`, of the same size if possible.
    fn swap_buffer(&self, bytes: &mut Vec<u8>) -> Vec<u8> {
        let empty = self.emptied.try_recv();
        let empty = empty.unwrap_or_else(|_none| Vec::with_capacity(bytes.capacity()));
        std::mem::replace(bytes, empty)
    }

    /// Waits until all is appended. A thread that failed is gone.
    fn end(self) -> Result<Box<dyn WriteFile>> {
        // A thread that is gone has said why.
        let _gone = self.tasks.send(Task::End);
        let file = self.done.recv().map_err(|_panic| ended())??;
        IDLERS.lock().push(self);
        Ok(file)
    }
}

/// What a thread does: writes the files it is given until it fails or nobody wants it.
fn serve(
    id: u64,
    files: &Receiver<Box<dyn WriteFile>>,
    tasks: &Receiver<Task>,
    emptied: &Sender<Vec<u8>>,
    done: &Sender<Result<Box<dyn WriteFile>>>,
) {
    loop {
        let file = match files.recv_timeout(IDLE) {
            Ok(file) => file,
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {
                let mut idlers = IDLERS.lock();
                let Some(at) = idlers.iter().position(|idler| idler.id == id) else {
                    // Somebody has it, and will send a file.
                    continue;
                };
                let unwanted = idlers.swap_remove(at);
                drop(idlers);
                drop(unwanted);
                return;
            }
        };
        let written = carry_out(file, tasks, emptied);
        let is_failed = written.is_err();
        if done.send(written).is_err() || is_failed {
            return;
        }
    }
}

fn carry_out(
    mut file: Box<dyn WriteFile>,
    tasks: &Receiver<Task>,
    emptied: &Sender<Vec<u8>>,
) -> Result<Box<dyn WriteFile>> {
    for task in tasks {
        match task {
            Task::Append(mut bytes) => {
                file.append(&bytes)?;
                bytes.clear();
                // The maker may have gone: then nobody wants the buffer.
                let _unwanted = emptied.send(bytes);
            }
            Task::StartWriteback => file.start_writeback()?,
            Task::End => break,
        }
    }
    Ok(file)
}

fn ended() -> Error {
    Error::new(ErrorKind::Io, "the thread that writes a file ended before its time")
}

impl StreamedFile {
    /// Appends to `file` in the background from the first large one on.
    pub(crate) fn new(file: Box<dyn WriteFile>) -> Self {
        Self { position: file.position(), state: State::Here(file) }
    }

    /// The file, when nothing waits any more.
    fn file(&mut self) -> Result<&mut Box<dyn WriteFile>> {
        if let State::Away(_) = self.state {
            let away = std::mem::replace(&mut self.state, State::Failed(ended()));
            if let State::Away(stream) = away {
                self.state = stream.end().map_or_else(State::Failed, State::Here);
            }
        }
        match &mut self.state {
            State::Here(file) => Ok(file),
            State::Failed(error) => Err(error.clone()),
            State::Away(_) => Err(ended()),
        }
    }

    fn is_done_at_once(&self, len: usize) -> bool {
        len > HUGE_BYTES || (len < LARGE_BYTES && matches!(self.state, State::Here(_)))
    }

    fn append_at_once(&mut self, bytes: &[u8]) -> Result<()> {
        let appended = self.file()?.append(bytes);
        if let Err(error) = &appended {
            self.state = State::Failed(error.clone());
        }
        self.position += bytes.len() as u64;
        appended
    }

    /// The thread with the file, if there can be one.
    fn stream(&mut self) -> Option<&Stream> {
        if let State::Here(_) = self.state {
            let here = std::mem::replace(&mut self.state, State::Failed(ended()));
            if let State::Here(file) = here {
                self.state = Stream::start(file).map_or_else(State::Here, State::Away);
            }
        }
        match &self.state {
            State::Away(stream) => Some(stream),
            State::Here(_) | State::Failed(_) => None,
        }
    }
}

impl WriteFile for StreamedFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if self.is_done_at_once(bytes.len()) {
            return self.append_at_once(bytes);
        }
        self.append_vec(&mut bytes.to_vec())
    }

    fn append_vec(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        let len = bytes.len() as u64;
        if !self.is_done_at_once(bytes.len())
            && let Some(stream) = self.stream()
        {
            let full = stream.swap_buffer(bytes);
            if stream.tasks.send(Task::Append(full)).is_err() {
                // It ended because of an error, which is answered here.
                self.file()?;
                return Err(ended());
            }
            self.position += len;
            return Ok(());
        }
        self.append_at_once(bytes)?;
        bytes.clear();
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.file()?.sync()
    }

    fn start_writeback(&mut self) -> Result<()> {
        if let State::Away(stream) = &self.state
            && stream.tasks.send(Task::StartWriteback).is_ok()
        {
            return Ok(());
        }
        self.file()?.start_writeback()
    }

    fn reserve(&mut self, len: u64) -> Result<()> {
        self.file()?.reserve(len)
    }

    fn position(&self) -> u64 {
        self.position
    }

    fn syncer(&self) -> Result<Box<dyn SyncFile>> {
        match &self.state {
            State::Here(file) => file.syncer(),
            State::Away(_) => {
                Err(Error::new(ErrorKind::InvalidInput, "a streamed file is synced by its writer"))
            }
            State::Failed(error) => Err(error.clone()),
        }
    }
}

impl Drop for StreamedFile {
    /// Waits for the thread: nothing is written to a file that its maker gave up.
    fn drop(&mut self) {
        let _unsynced = self.file();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Disk, Effect, Failure, Fault, FaultDisk, MemDisk, Op};
    use std::path::Path;
    use std::sync::Arc;

    fn pieces() -> Vec<Vec<u8>> {
        (0..40u8)
            .map(|i| match i {
                17 => vec![i; HUGE_BYTES + 1],
                _ => vec![i; if i % 5 == 0 { 100 } else { LARGE_BYTES + usize::from(i) }],
            })
            .collect()
    }

    #[test]
    fn what_is_appended_arrives_in_order_by_the_time_of_the_sync() {
        let disk = MemDisk::default();
        let path = Path::new("a");
        let mut file = StreamedFile::new(disk.create(path).unwrap());
        disk.sync_dir(Path::new("")).unwrap();
        let mut expected = Vec::new();
        for (i, mut piece) in pieces().into_iter().enumerate() {
            expected.extend_from_slice(&piece);
            if i % 2 == 0 {
                file.append(&piece).unwrap();
            } else {
                file.append_vec(&mut piece).unwrap();
                assert!(piece.is_empty());
            }
            file.start_writeback().unwrap();
            assert_eq!(file.position(), expected.len() as u64);
        }
        file.sync().unwrap();
        let synced = disk.crash_losing_unsynced();
        assert_eq!(synced.content(path).unwrap(), expected, "the sync came behind all appends");
        file.append(&[7; LARGE_BYTES]).unwrap();
        expected.extend([7; LARGE_BYTES]);
        drop(file);
        assert_eq!(disk.content(path).unwrap(), expected, "a drop waits for the thread");
    }

    #[test]
    fn a_thread_writes_one_file_after_another_and_ends_when_there_is_none() {
        let disk = MemDisk::default();
        let mut ids = Vec::new();
        let is_idle = |id: u64| IDLERS.lock().iter().any(|idler| idler.id == id);
        for name in ["a", "b", "c"] {
            let mut file = StreamedFile::new(disk.create(Path::new(name)).unwrap());
            file.append(&[1; LARGE_BYTES]).unwrap();
            let State::Away(stream) = &file.state else { panic!("a large append is streamed") };
            ids.push(stream.id);
            file.sync().unwrap();
            assert_eq!(disk.content(Path::new(name)).unwrap(), [1; LARGE_BYTES]);
        }
        // Other tests of this process take idle threads, too.
        while ids.iter().any(|id| is_idle(*id)) {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    #[test]
    fn a_failed_append_is_answered_by_a_later_call_and_by_each_behind_it() {
        // The first is a small one and the eighteenth a huge one: both are done at once.
        for nth in [1, 3, 18] {
            fail_append(nth);
        }
    }

    fn fail_append(nth: u64) {
        let disk = FaultDisk::new(Arc::new(MemDisk::default()));
        disk.inject(Fault::new(Effect::Fail(Failure::NoSpace)).on(&[Op::Append]).nth(nth));
        let mut file = StreamedFile::new(disk.create(Path::new("a")).unwrap());
        let appended: Result<Vec<()>> = pieces().iter().map(|piece| file.append(piece)).collect();
        let synced = file.sync().unwrap_err();
        assert_eq!(synced.kind(), ErrorKind::OutOfSpace);
        assert_eq!(appended.unwrap_err().kind(), ErrorKind::OutOfSpace);
        assert_eq!(file.append(b"x").unwrap_err().kind(), ErrorKind::OutOfSpace);
        assert_eq!(file.start_writeback().unwrap_err().kind(), ErrorKind::OutOfSpace);
        assert_eq!(file.syncer().err().unwrap().kind(), ErrorKind::OutOfSpace);
    }
}
