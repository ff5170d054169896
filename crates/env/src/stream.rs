//! A file whose appends are done by another thread, so that the caller can continue to produce
//! bytes.
//!
//! A page that is new to the page cache is expensive, above all on virtual machines whose hosts
//! back memory on first use: docs/decisions/table-writing.md.

use crate::disk::{SyncFile, WriteFile};
use crate::forks::OfProcess;
use flagstone_base::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The number of appends that may wait for the thread. A file holds these in memory, and two more:
/// the running one and the one that the caller fills.
const WAITING: usize = 2;
/// Smaller appends to a file without a thread are done by the caller: most such files stay small.
const LARGE_BYTES: usize = 64 << 10;
/// Larger appends wait for the thread and are then done by the caller, so that neither they nor
/// copies of them pile up.
const HUGE_BYTES: usize = 1 << 20;
/// The time that a thread without a file waits for the next one, and keeps its buffers: a database
/// under load begins tens of files a second.
const IDLE: Duration = Duration::from_millis(if cfg!(test) { 50 } else { 2000 });

/// The threads that have no file now. They outlive the databases, so their lock is not one of those
/// that share a list of waiting threads, and the child of a fork begins with none of them.
#[derive(Default)]
struct Idlers(Mutex<Vec<Stream>>);

static IDLERS: OfProcess<Idlers> = OfProcess::new();

impl Idlers {
    fn lock(&self) -> MutexGuard<'_, Vec<Stream>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A [`WriteFile`] over another one. The error of a failed append is returned by a later call, at
/// the latest by the next `sync`, and by every call after that.
pub(crate) struct StreamedFile {
    idlers: &'static Idlers,
    state: StreamState,
    position: u64,
}

enum StreamState {
    /// This handle has the file, and no append waits.
    Here(Box<dyn WriteFile>),
    /// The thread has the file and does the appends.
    Away(Stream),
    /// An append failed with this error, and the file is closed.
    Failed(Error),
}

enum Task {
    Append(Vec<u8>),
    StartWriteback,
    /// There are no more appends: return the file.
    End,
}

/// The channels to a thread that writes files, one at a time.
struct Stream {
    id: u64,
    files: Sender<Box<dyn WriteFile>>,
    tasks: SyncSender<Task>,
    /// Empty buffers whose bytes were appended.
    emptied: Receiver<Vec<u8>>,
    /// The file, after its last task or an error.
    done: Receiver<Result<Box<dyn WriteFile>>>,
}

/// The thread's side of the channels of a [`Stream`].
struct Server {
    id: u64,
    idlers: &'static Idlers,
    files: Receiver<Box<dyn WriteFile>>,
    tasks: Receiver<Task>,
    emptied: Sender<Vec<u8>>,
    done: Sender<Result<Box<dyn WriteFile>>>,
}

impl Stream {
    /// Gives `file` to a thread. Returns the file when no thread can be started.
    fn start(
        file: Box<dyn WriteFile>,
        idlers: &'static Idlers,
    ) -> std::result::Result<Self, Box<dyn WriteFile>> {
        let idler = idlers.lock().pop();
        let Some(stream) = idler.or_else(|| Self::new(idlers)) else { return Err(file) };
        match stream.files.send(file) {
            Ok(()) => Ok(stream),
            Err(unsent) => Err(unsent.0),
        }
    }

    /// Starts a thread, which waits for its first file.
    fn new(idlers: &'static Idlers) -> Option<Self> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        let (files, to_write) = channel();
        let (tasks, to_do) = sync_channel(WAITING);
        let (empty, emptied) = channel();
        let (give_back, done) = channel();
        let server =
            Server { id, idlers, files: to_write, tasks: to_do, emptied: empty, done: give_back };
        let name = "flagstone-write".to_owned();
        std::thread::Builder::new().name(name).spawn(move || server.serve()).ok()?;
        Some(Self { id, files, tasks, emptied, done })
    }

    /// Waits until everything is appended, and returns the file. A thread ends when an append
    /// fails.
    fn end(self, idlers: &Idlers) -> Result<Box<dyn WriteFile>> {
        // A thread that has ended has sent its error before.
        let _gone = self.tasks.send(Task::End);
        let file = self.done.recv().map_err(|_panic| ended())??;
        idlers.lock().push(self);
        Ok(file)
    }
}

impl Server {
    /// Writes one file after another, until a write fails or no file comes for [`IDLE`].
    fn serve(self) {
        loop {
            match self.files.recv_timeout(IDLE) {
                Ok(file) => {
                    let written = self.write(file);
                    let is_failed = written.is_err();
                    if self.done.send(written).is_err() || is_failed {
                        return;
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    let mut idlers = self.idlers.lock();
                    if let Some(at) = idlers.iter().position(|idler| idler.id == self.id) {
                        let unwanted = idlers.remove(at);
                        drop(idlers);
                        drop(unwanted);
                        return;
                    }
                    // A caller holds the stream, and will send a file or make the thread idle
                    // again.
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn write(&self, mut file: Box<dyn WriteFile>) -> Result<Box<dyn WriteFile>> {
        for task in &self.tasks {
            match task {
                Task::Append(mut bytes) => {
                    file.append(&bytes)?;
                    bytes.clear();
                    // The caller may be gone and not need the buffer.
                    let _unwanted = self.emptied.send(bytes);
                }
                Task::StartWriteback => file.start_writeback()?,
                Task::End => break,
            }
        }
        Ok(file)
    }
}

fn ended() -> Error {
    Error::new(ErrorKind::Io, "the thread that writes a file ended before its time")
}

impl StreamedFile {
    /// Wraps `file`. Its appends are done in the background from the first large one on.
    pub(crate) fn new(file: Box<dyn WriteFile>) -> Self {
        Self::with_idlers(file, IDLERS.get())
    }

    fn with_idlers(file: Box<dyn WriteFile>, idlers: &'static Idlers) -> Self {
        Self { idlers, position: file.position(), state: StreamState::Here(file) }
    }

    /// Waits until all appends are done, and returns the file.
    fn file(&mut self) -> Result<&mut Box<dyn WriteFile>> {
        if let StreamState::Away(_) = self.state {
            let away = std::mem::replace(&mut self.state, StreamState::Failed(ended()));
            if let StreamState::Away(stream) = away {
                self.state =
                    stream.end(self.idlers).map_or_else(StreamState::Failed, StreamState::Here);
            }
        }
        match &mut self.state {
            StreamState::Here(file) => Ok(file),
            StreamState::Failed(error) => Err(error.clone()),
            StreamState::Away(_) => Err(ended()),
        }
    }

    fn is_done_at_once(&self, len: usize) -> bool {
        len > HUGE_BYTES || (len < LARGE_BYTES && matches!(self.state, StreamState::Here(_)))
    }

    fn append_at_once(&mut self, bytes: &[u8]) -> Result<()> {
        let appended = self.file()?.append(bytes);
        if let Err(error) = &appended {
            self.state = StreamState::Failed(error.clone());
        }
        self.position += bytes.len() as u64;
        appended
    }

    /// An empty buffer with room for `len` bytes, if a thread has the file or can be given it.
    fn buffer(&mut self, len: usize) -> Option<Vec<u8>> {
        if let StreamState::Here(_) = self.state {
            let here = std::mem::replace(&mut self.state, StreamState::Failed(ended()));
            if let StreamState::Here(file) = here {
                self.state = Stream::start(file, self.idlers)
                    .map_or_else(StreamState::Here, StreamState::Away);
            }
        }
        let StreamState::Away(stream) = &self.state else { return None };
        Some(stream.emptied.try_recv().unwrap_or_else(|_none| Vec::with_capacity(len)))
    }

    /// Gives bytes to the thread that has the file.
    fn send(&mut self, bytes: Vec<u8>) -> Result<()> {
        self.position += bytes.len() as u64;
        if let StreamState::Away(stream) = &self.state
            && stream.tasks.send(Task::Append(bytes)).is_ok()
        {
            return Ok(());
        }
        // The thread ended because of an error, which is returned here.
        self.file()?;
        Err(ended())
    }
}

impl WriteFile for StreamedFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if !self.is_done_at_once(bytes.len())
            && let Some(mut copy) = self.buffer(bytes.len())
        {
            copy.extend_from_slice(bytes);
            return self.send(copy);
        }
        self.append_at_once(bytes)
    }

    fn append_vec(&mut self, bytes: &mut Vec<u8>) -> Result<()> {
        if !self.is_done_at_once(bytes.len())
            && let Some(empty) = self.buffer(bytes.capacity())
        {
            let full = std::mem::replace(bytes, empty);
            return self.send(full);
        }
        self.append_at_once(bytes)?;
        bytes.clear();
        Ok(())
    }

    fn blank(&mut self, offset: u64, len: u64) -> Result<()> {
        self.file()?.blank(offset, len)
    }

    fn sync(&mut self) -> Result<()> {
        self.file()?.sync()
    }

    fn start_writeback(&mut self) -> Result<()> {
        if let StreamState::Away(stream) = &self.state
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
            StreamState::Here(file) => file.syncer(),
            StreamState::Away(_) => {
                Err(Error::new(ErrorKind::InvalidInput, "a streamed file is synced by its writer"))
            }
            StreamState::Failed(error) => Err(error.clone()),
        }
    }
}

impl Drop for StreamedFile {
    /// Waits for the thread, so that nothing is written to the file after its handle is dropped.
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
        assert_eq!(synced.content(path).unwrap(), expected, "the sync came after all appends");
        file.append(&[7; LARGE_BYTES]).unwrap();
        expected.extend([7; LARGE_BYTES]);
        drop(file);
        assert_eq!(disk.content(path).unwrap(), expected, "a drop waits for the thread");
    }

    fn id(file: &StreamedFile) -> u64 {
        let StreamState::Away(stream) = &file.state else { panic!("a large append is streamed") };
        stream.id
    }

    #[test]
    fn a_thread_writes_one_file_after_another_and_ends_when_there_is_none() {
        static MINE: OfProcess<Idlers> = OfProcess::new();
        let disk = MemDisk::default();
        let large = [1; LARGE_BYTES];
        let mut ids = Vec::new();
        for name in ["a", "b", "c", "d", "e", "f"] {
            let path = Path::new(name);
            let mut file = StreamedFile::with_idlers(disk.create(path).unwrap(), MINE.get());
            file.append(&large).unwrap();
            ids.push(id(&file));
            assert!(MINE.get().lock().is_empty());
            file.sync().unwrap();
            assert_eq!(disk.content(path).unwrap(), large);
        }
        // The thread may have ended in between, if this test was delayed long enough.
        ids.dedup();
        assert!(ids.len() < 6, "each file had a thread of its own");
        let thread_ended = || MINE.get().lock().is_empty();
        while !thread_ended() {
            std::thread::sleep(IDLE / 5);
        }
    }

    #[test]
    fn a_thread_whose_append_failed_takes_no_other_file() {
        static MINE: OfProcess<Idlers> = OfProcess::new();
        let disk = FaultDisk::new(Arc::new(MemDisk::default()));
        disk.inject(Fault::new(Effect::Fail(Failure::NoSpace)).on(&[Op::Append]).nth(1));
        let mut file = StreamedFile::with_idlers(disk.create(Path::new("a")).unwrap(), MINE.get());
        file.append(&[1; LARGE_BYTES]).unwrap();
        assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::OutOfSpace);
        assert!(MINE.get().lock().is_empty());
    }

    #[test]
    fn files_whose_threads_come_and_go_hold_what_was_appended_to_them() {
        let disk = MemDisk::default();
        std::thread::scope(|scope| {
            for maker in 0..4u8 {
                let disk = &disk;
                scope.spawn(move || {
                    for turn in 0..20u8 {
                        let name = format!("{maker}-{turn}");
                        let path = Path::new(&name);
                        let mut file = StreamedFile::new(disk.create(path).unwrap());
                        let mut piece = vec![maker * 20 + turn; LARGE_BYTES];
                        file.append(&piece).unwrap();
                        file.append_vec(&mut piece).unwrap();
                        drop(file);
                        let content = disk.content(path).unwrap();
                        assert_eq!(content, vec![maker * 20 + turn; 2 * LARGE_BYTES]);
                        if turn % 5 == maker {
                            std::thread::sleep(IDLE + IDLE / 50 * u32::from(maker));
                        }
                    }
                });
            }
        });
    }

    #[test]
    fn the_error_of_a_failed_append_is_returned_by_a_later_call_and_all_after_it() {
        // The first append is small and the eighteenth is huge, so the caller does both of them.
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
