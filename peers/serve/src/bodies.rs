//! The commands that are sent, and what their replies must say.

use crate::connection::Failed;
use flagstone::doc::ObjectId;
use flagstone_server::bson::{BsonError, BsonWriter, elements};
use flagstone_server::wire::{Request, put_message};

/// A kind of command.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Body {
    Hello,
    Ping,
    /// Inserts the documents that `Find` and `Update` choose from, 1,000 a command.
    Fill,
    Find,
    Insert,
    /// An insert that is acknowledged once it survives a power cut.
    InsertSynced,
    /// New documents, 1,000 a command.
    InsertMany,
    Update,
}

/// The works by their names.
pub(crate) const NAMES: [(&str, Body); 7] = [
    ("ping", Body::Ping),
    ("fill", Body::Fill),
    ("find", Body::Find),
    ("insert", Body::Insert),
    ("insert-synced", Body::InsertSynced),
    ("insert-many", Body::InsertMany),
    ("update", Body::Update),
];

/// The documents of a command that inserts many.
const MANY: u32 = 1000;

/// Makes commands.
pub(crate) struct Bodies {
    body: Body,
    documents: u32,
    /// The number of the next command.
    next: u32,
    random: u64,
    seed: u64,
}

impl Bodies {
    pub(crate) const fn new(body: Body, documents: u32, seed: u64) -> Self {
        Self { body, documents, next: 0, random: seed, seed }
    }

    /// Returns the documents of a command.
    pub(crate) const fn documents(&self) -> u32 {
        match self.body {
            Body::Fill | Body::InsertMany => MANY,
            _ => 1,
        }
    }

    /// Returns whether all commands were made.
    pub(crate) const fn is_over(&self) -> bool {
        matches!(self.body, Body::Fill) && self.next >= self.documents.div_ceil(MANY)
    }

    /// Appends the message of the next command.
    ///
    /// # Errors
    /// Never: all fits a message.
    pub(crate) fn put(&mut self, out: &mut Vec<u8>) -> Result<(), Failed> {
        let number = self.next;
        self.next += 1;
        let id = i32::try_from(number & 0x7FFF_FFFF).unwrap_or_default();
        let (seed, documents) = (self.seed, self.documents);
        let chosen = self.chosen();
        put_message(out, (id, 0), false, false, |out| match self.body {
            Body::Hello => command(out, |body| body.int("hello", 1)),
            Body::Ping => command(out, |body| body.int("ping", 1)),
            Body::Find => command(out, |body| {
                body.text("find", "documents")?;
                body.begin_document("filter")?;
                put_id(body, 0, chosen)?;
                body.end()?;
                // As drivers ask for one document.
                body.int("limit", 1)?;
                body.bool("singleBatch", true)
            }),
            Body::Update => {
                command(out, |body| body.text("update", "documents"))?;
                sequence(out, "updates", |out| {
                    let mut update = BsonWriter::new(out);
                    update.begin();
                    update.begin_document("q")?;
                    put_id(&mut update, 0, chosen)?;
                    update.end()?;
                    update.begin_document("u")?;
                    update.begin_document("$inc")?;
                    update.int("score", 1)?;
                    for _open in 0..3 {
                        update.end()?;
                    }
                    Ok(())
                })
            }
            Body::Fill => {
                command(out, |body| body.text("insert", "documents"))?;
                let from = number * MANY;
                let to = documents.min(from + MANY);
                sequence(out, "documents", |out| put_documents(out, 0, from..to))
            }
            Body::InsertMany => {
                command(out, |body| body.text("insert", "many"))?;
                let from = number * MANY;
                sequence(out, "documents", |out| put_documents(out, seed, from..from + MANY))
            }
            Body::Insert | Body::InsertSynced => {
                command(out, |body| {
                    body.text("insert", "ones")?;
                    if self.body == Body::InsertSynced {
                        body.begin_document("writeConcern")?;
                        body.bool("j", true)?;
                        body.end()?;
                    }
                    Ok(())
                })?;
                sequence(out, "documents", |out| put_documents(out, seed, number..number + 1))
            }
        })?;
        Ok(())
    }

    /// Chooses a document at random.
    fn chosen(&mut self) -> u32 {
        // SplitMix64.
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % u64::from(self.documents)) as u32
    }

    /// Checks a reply.
    ///
    /// # Errors
    /// If it is no reply, or does not say what it must.
    pub(crate) fn check(&self, message: &[u8]) -> Result<(), Failed> {
        let (_, request) = Request::parse(message)?;
        let Request::Message(reply) = request else {
            return Err("a reply that is no OP_MSG".into());
        };
        let (mut is_ok, mut is_found, mut count, mut is_refused) = (false, false, 0, false);
        for element in elements(reply.command)? {
            let element = element?;
            match (element.name, element.value.len()) {
                ("ok", _) => is_ok = is_one(element.value),
                ("n", _) => count = int(element.value),
                ("cursor", _) => {
                    for part in elements(element.value)? {
                        let part = part?;
                        is_found |= part.name == "firstBatch" && part.value.len() > 5;
                    }
                }
                ("writeErrors", _) => is_refused = true,
                _ => {}
            }
        }
        let is_done = match self.body {
            Body::Hello | Body::Ping => true,
            Body::Find => is_found,
            // The last command of a fill may be smaller.
            Body::Fill => count > 0,
            Body::Insert | Body::InsertSynced | Body::Update => count == 1,
            Body::InsertMany => count == i64::from(MANY),
        };
        if is_ok && is_done && !is_refused {
            return Ok(());
        }
        let shown: String = reply.command.escape_ascii().take(600).map(char::from).collect();
        Err(format!("a reply that was not expected: {shown}").into())
    }
}

fn is_one(value: &[u8]) -> bool {
    value == 1_f64.to_le_bytes() || int(value) == 1
}

fn int(value: &[u8]) -> i64 {
    match (<[u8; 4]>::try_from(value), <[u8; 8]>::try_from(value)) {
        (Ok(int), _) => i32::from_le_bytes(int).into(),
        (_, Ok(long)) => i64::from_le_bytes(long),
        _ => -1,
    }
}

/// Appends a command: what `put` appends, and the database.
fn command(
    out: &mut Vec<u8>,
    put: impl FnOnce(&mut BsonWriter<'_>) -> Result<(), BsonError>,
) -> Result<(), BsonError> {
    let mut body = BsonWriter::new(out);
    body.begin();
    put(&mut body)?;
    body.text("$db", "bench")?;
    body.end()
}

/// Appends a sequence of documents to a message, as drivers send them.
fn sequence(
    out: &mut Vec<u8>,
    name: &str,
    put: impl FnOnce(&mut Vec<u8>) -> Result<(), BsonError>,
) -> Result<(), BsonError> {
    out.push(1);
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(name.as_bytes());
    out.push(0);
    put(out)?;
    // At most some 400 kB.
    let len = i32::try_from(out.len() - start).unwrap_or(i32::MAX);
    out[start..start + 4].copy_from_slice(&len.to_le_bytes());
    Ok(())
}

/// Appends the documents of these numbers.
fn put_documents(
    out: &mut Vec<u8>,
    seed: u64,
    numbers: std::ops::Range<u32>,
) -> Result<(), BsonError> {
    const CITIES: [&str; 8] =
        ["Lima", "Oslo", "Kyiv", "Cairo", "Hanoi", "Quito", "Accra", "Berlin"];
    for number in numbers {
        let mut document = BsonWriter::new(out);
        document.begin();
        put_id(&mut document, seed, number)?;
        document.text("name", &format!("customer {number}"))?;
        document.int("score", (number % 1000) as i32)?;
        document.double("balance", f64::from(number) * 0.25)?;
        document.bool("active", number % 3 == 0)?;
        document.begin_document("address")?;
        document.text("city", CITIES[number as usize % CITIES.len()])?;
        document.text("street", &format!("{} Long Street", number % 500))?;
        document.end()?;
        document.begin_array("tags")?;
        for tag in 0..3 {
            document.text("", CITIES[(number as usize + tag) % CITIES.len()])?;
        }
        document.end()?;
        document.text("note", "A customer since the first days, who likes short answers.")?;
        document.end()?;
    }
    Ok(())
}

/// Appends the identifier of a document: as drivers make them, a time, bytes of the process and a
/// counter.
fn put_id(out: &mut BsonWriter<'_>, seed: u64, number: u32) -> Result<(), BsonError> {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&0x6650_0000_u32.to_be_bytes());
    bytes[4..8].copy_from_slice(&(seed as u32).to_be_bytes());
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    out.object_id("_id", ObjectId::from_bytes(bytes))
}
