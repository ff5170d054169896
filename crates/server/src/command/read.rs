//! Commands that read documents.

use super::args::{Args, long};
use super::filter::{self, Fields};
use super::id::{self, ID};
use super::name::Namespace;
use super::run::Run;
use super::service::{Service, ServiceCounters};
use super::variables::Variables;
use crate::access::Need;
use crate::bson::BsonWriter;
use crate::failure::{Code, Failure, Limit, Outcome};
use crate::room::Parsed;
use crate::session::cursors::{
    Cursor, CursorSlot, FIRST_BATCH, LONG, ROW_BYTES_MAX, Rows, Wait, check_len, take_room,
};
use crate::watch::{self, End};
use flagstone::internal::{
    Sorted, Sorter, distinct_ordered, interrupt_check, query_memory, stored_len,
};
use flagstone::query::Matcher;
use flagstone::{Collection, Document, Filter, Find, Space, Value};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The documents that a find returns.
struct Found<'t> {
    cursor: flagstone::Cursor<'t>,
    fields: Fields,
    /// What the filter tests, if a projection asks where it matched.
    matcher: Option<Matcher>,
    /// For the key of the current document.
    key: Vec<u8>,
}

impl Found<'_> {
    fn advance(&mut self) -> Outcome<bool> {
        self.cursor.advance().map_err(Failure::of_reading)
    }

    fn put(&mut self, out: &mut BsonWriter<'_>) -> Outcome {
        self.key.clear();
        self.key.extend_from_slice(self.cursor.key_bytes());
        let put = if self.fields.is_computed() {
            self.put_computed(out)
        } else if self.fields.has_key() {
            id::write_fields(out, &self.key, &self.cursor.view()?)
        } else {
            id::write_without_id(out, &self.cursor.view()?)
        };
        let key = &self.key;
        put.map_err(|failure| failure.context(format_args!("document {}", id::shown_key(key))))
    }

    fn put_computed(&mut self, out: &mut BsonWriter<'_>) -> Outcome {
        let document = self.cursor.document()?;
        let shown = id::shown(&self.cursor.key()?, &document)?;
        let root = document.root();
        let matched = self.matcher.as_ref().map(|matcher| (matcher, &root));
        let projected = Document::from_value(&self.fields.project(&shown, matched)?)?;
        Ok(out.fields(&projected.root(), |_name| false)?)
    }
}

/// Returns all documents of a query in a transaction.
fn all(mut found: Found<'_>, mut listed: Listed) -> Outcome<ListedRows> {
    while found.advance()? {
        listed.add(|out| found.put(out))?;
    }
    listed.rows()
}

impl Rows for Found<'static> {
    fn advance(&mut self) -> Outcome<bool> {
        Found::advance(self)
    }

    fn len(&self) -> usize {
        stored_len(&self.cursor)
    }

    fn write(&mut self, out: &mut BsonWriter<'_>) -> Outcome {
        self.put(out)
    }

    fn park(&mut self) {
        self.cursor.park();
    }
}

/// A few rows that are there already: documents of BSON.
pub(super) struct BufferedRows {
    documents: VecDeque<Vec<u8>>,
    current: Vec<u8>,
}

impl BufferedRows {
    pub(super) fn new(documents: Vec<Vec<u8>>) -> Self {
        Self { documents: documents.into(), current: Vec::new() }
    }
}

impl Rows for BufferedRows {
    fn holds_command(&self) -> bool {
        false
    }

    fn is_of_moment(&self) -> bool {
        false
    }

    fn advance(&mut self) -> Outcome<bool> {
        let next = self.documents.pop_front();
        let has_next = next.is_some();
        self.current = next.unwrap_or_default();
        Ok(has_next)
    }

    fn write(&mut self, out: &mut BsonWriter<'_>) -> Outcome {
        out.raw_fields(&self.current);
        Ok(())
    }
}

/// Rows that are read before their command goes on, in their order: in memory, or in temporary
/// files.
pub(super) struct Listed {
    sorter: Sorter,
    rows: u64,
}

impl Listed {
    pub(super) fn new(service: &Service) -> Self {
        let memory = query_memory(&service.db);
        Self { sorter: Sorter::new(&service.db, memory, 1, None), rows: 0 }
    }

    /// Adds the document that `put` writes.
    pub(super) fn add(&mut self, put: impl FnOnce(&mut BsonWriter<'_>) -> Outcome) -> Outcome {
        let mut bson = Vec::new();
        let mut out = BsonWriter::new(&mut bson);
        out.begin();
        put(&mut out)?;
        out.end()?;
        self.push(&bson)
    }

    /// Adds a document.
    pub(super) fn push(&mut self, bson: &[u8]) -> Outcome {
        self.sorter.push(&self.rows.to_be_bytes(), bson)?;
        self.rows += 1;
        Ok(())
    }

    /// Returns all rows.
    pub(super) fn rows(self) -> Outcome<ListedRows> {
        Ok(ListedRows(self.sorter.finish()?))
    }
}

/// The rows of a list.
pub(super) struct ListedRows(Sorted);

impl Rows for ListedRows {
    fn holds_command(&self) -> bool {
        false
    }

    fn is_of_moment(&self) -> bool {
        false
    }

    fn advance(&mut self) -> Outcome<bool> {
        self.0.advance().map_err(Failure::of_reading)
    }

    fn len(&self) -> usize {
        self.0.value().len()
    }

    fn write(&mut self, out: &mut BsonWriter<'_>) -> Outcome {
        out.raw_fields(self.0.value());
        Ok(())
    }

    fn park(&mut self) {
        self.0.park();
    }
}

/// No rows.
struct Nothing;

impl Rows for Nothing {
    fn advance(&mut self) -> Outcome<bool> {
        Ok(false)
    }

    fn write(&mut self, _out: &mut BsonWriter<'_>) -> Outcome {
        Ok(())
    }
}

/// What finds of MongoDB can do and this does not.
pub(super) const REFUSED: &[&str] = &["max", "min", "returnKey", "showRecordId", "tailable"];

/// Refuses numbers out of range.
pub(super) fn check_numbers(args: &Args<'_>) -> Outcome {
    args.count("skip")?;
    args.count("batchSize")?;
    limit(args)?;
    Ok(())
}

/// Returns the query of a find command, and what it returns of each document.
fn query<'t>(
    args: &Args<'_>,
    collection: &Collection,
    begin: impl FnOnce(Filter) -> Find<'t>,
) -> Outcome<(Find<'t>, Fields, Option<Matcher>)> {
    check_numbers(args)?;
    let fields = Fields::parse(args, "projection", &Variables::parse(args, "let")?)?;
    let filter = filter::filter(args.map("filter")?.as_ref())?;
    let (filter, hint) = filter::hint(args, collection, filter)?;
    let matcher = if fields.is_computed() { Some(filter.compile_with_key()?) } else { None };
    let mut find = begin(filter);
    if let Some(projection) = fields.plain() {
        find = find.project(projection);
    }
    if let Some(sort) = filter::sort(args)? {
        find = find.sort(sort);
    }
    if let Some(hint) = hint {
        find = find.hint(hint);
    }
    if let Some(skip) = args.count("skip")? {
        find = find.skip(skip);
    }
    match limit(args)? {
        0 => {}
        limit => find = find.limit(limit),
    }
    Ok((find, fields, matcher))
}

/// Returns the most documents of a find; 0 for all. A negative number asks for one batch.
pub(super) fn limit(args: &Args<'_>) -> Outcome<u64> {
    Ok(args.int("limit")?.unwrap_or(0).unsigned_abs())
}

/// The arguments of a find that change nothing if the filter is a key.
const OF_KEY: &[&str] = &["find", "filter", "limit", "singleBatch"];

/// Returns the key that a find asks for, if it asks for nothing else.
fn only_key(args: &Args<'_>) -> Outcome<Option<Value>> {
    if !args.has_only(OF_KEY)? {
        return Ok(None);
    }
    match args.map("filter")? {
        Some(filter) => id::only_key(&filter),
        None => Ok(None),
    }
}

/// Answers with the document of a key: the find that applications do most.
fn find_key(
    run: &mut Run<'_, '_>,
    namespace: &Namespace,
    collection: &Collection,
    key: &Value,
) -> Outcome {
    let found = match &run.transaction {
        Some(tx) => tx.get(collection, key)?,
        None => collection.get(key)?,
    };
    let reply = &mut run.reply;
    reply.begin_document("cursor")?;
    reply.begin_array("firstBatch")?;
    if let Some(document) = found {
        let (start, expected) = (reply.len(), document.as_bytes().len());
        if expected > LONG {
            let mut room = run.service.replies.begin();
            take_room(&mut room, expected, Wait::Yes)?;
            run.client.sending = Some(room);
            reply.reserve(expected + expected / 8);
        }
        reply.begin_document("")?;
        id::write_fields(reply, &id::key_bytes(key), &document.root())?;
        reply.end()?;
        check_len(reply.len() - start, ROW_BYTES_MAX)?;
    }
    reply.end()?;
    reply.long("id", 0)?;
    reply.text("ns", &namespace.to_string())?;
    Ok(reply.end()?)
}

pub(super) fn find(run: &mut Run<'_, '_>) -> Outcome {
    ServiceCounters::add(&run.service.counters.queries, 1);
    let (args, namespace) = (run.args(), run.namespace()?);
    let existing = run.existing(&namespace)?;
    if let (Some(collection), Some(key)) = (&existing, only_key(&args)?) {
        limit(&args)?;
        return find_key(run, &namespace, collection, &key);
    }
    if filter::has_expression(args.map("filter")?.as_ref())? {
        return super::aggregate::find(run, &namespace, existing.as_ref());
    }
    let rows: Box<dyn Rows> = match existing {
        None => {
            // What is malformed is refused all the same.
            check_numbers(&args)?;
            filter::filter(args.map("filter")?.as_ref())?;
            filter::sort(&args)?;
            Fields::parse(&args, "projection", &Variables::parse(&args, "let")?)?;
            Box::new(Nothing)
        }
        Some(collection) => match &run.transaction {
            None => {
                let (find, fields, matcher) =
                    query(&args, &collection, |filter| collection.find(filter))?;
                Box::new(Found { cursor: find.run()?, fields, matcher, key: Vec::new() })
            }
            // The cursor must not hold the transaction, which goes on to write.
            Some(tx) => {
                let begin = |filter| tx.find(&collection, filter);
                let (find, fields, matcher) = query(&args, &collection, begin)?;
                let found = Found { cursor: find.run()?, fields, matcher, key: Vec::new() };
                Box::new(all(found, Listed::new(run.service))?)
            }
        },
    };
    answer(run, &namespace, rows)
}

/// Answers a find with its first documents.
pub(super) fn answer(run: &mut Run<'_, '_>, namespace: &Namespace, rows: Box<dyn Rows>) -> Outcome {
    let args = run.args();
    let size = args.count("batchSize")?;
    let is_single = args.is("singleBatch")? || args.int("limit")?.is_some_and(|limit| limit < 0);
    let most = if is_single { size } else { Some(size.unwrap_or(FIRST_BATCH)) };
    let stays = args.is("noCursorTimeout")?;
    FirstBatch { is_single, stays, ..FirstBatch::of(most) }.put(run, namespace.to_string(), rows)
}

/// The first batch of a cursor.
#[derive(Default)]
pub(super) struct FirstBatch<'c> {
    /// The most documents in it.
    pub(super) most: Option<u64>,
    /// Whether there is no other: the cursor ends with it.
    pub(super) is_single: bool,
    /// Whether the cursor stays however long nobody asks for more.
    pub(super) stays: bool,
    /// What was taken before for the rest.
    pub(super) place: Option<CursorSlot<'c>>,
    /// Whether they tell what was done, and must not be refused.
    pub(super) is_exempt: bool,
}

impl FirstBatch<'_> {
    pub(super) fn of(most: Option<u64>) -> Self {
        Self { most, ..Self::default() }
    }

    /// Appends a cursor with its first batch to the reply, and keeps the rest.
    pub(super) fn put(
        self,
        run: &mut Run<'_, '_>,
        namespace: String,
        rows: Box<dyn Rows>,
    ) -> Outcome {
        let mut cursor = Cursor::new(namespace.clone(), run.user(), rows);
        cursor.stays = self.stays;
        cursor.session = run.service.session_key(run)?;
        cursor.transaction = run.transaction_number()?;
        let began = run.command.began;
        if cursor.rows.live().is_none() {
            let time = run.args().max_time()?.map(Duration::from_millis);
            cursor.left = time.map(|time| time.saturating_sub(began.elapsed()));
        }
        if cursor.rows.is_of_moment() {
            cursor.ages_at = began.checked_add(run.service.options.snapshot_age);
        }
        run.reply.begin_document("cursor")?;
        let mut room = run.service.replies.begin();
        let (held, is_whole) = ((!self.is_exempt).then_some(&mut room), self.is_single);
        let has_more = cursor.batch("firstBatch", self.most, &mut run.reply, held, is_whole)?;
        run.client.sending = Some(room);
        if has_more && !self.is_single && cursor.rows.holds_command() {
            cursor.parsed = run.command.parsed.take();
            let kept = cursor.parsed.as_mut().map_or(Ok(()), Parsed::keep);
            kept.map_err(|bytes| no_room(bytes, run.service.parsed.most()))?;
        }
        let id = match self.place {
            _ if !has_more || self.is_single => 0,
            Some(place) => place.keep(cursor),
            None => run.service.cursors.place()?.keep(cursor),
        };
        run.left = (id != 0 && run.transaction.is_some()).then_some(id);
        run.reply.long("id", id)?;
        run.reply.text("ns", &namespace)?;
        Ok(run.reply.end()?)
    }
}

#[cold]
fn no_room(bytes: usize, most: usize) -> Failure {
    let text = format!(
        "expected room for the cursor, some {bytes} bytes, among at most {most} bytes of the open \
         cursors of all clients"
    );
    Failure::limited(Code::ExceededMemoryLimit, Limit::Messages, text)
}

/// How long a call waits for the next event of a change stream, and the most that it may ask for:
/// a server that stops waits for calls that run.
const AWAIT: Duration = Duration::from_secs(1);
const AWAIT_MAX: Duration = Duration::from_secs(5);

pub(super) fn get_more(run: &mut Run<'_, '_>) -> Outcome {
    ServiceCounters::add(&run.service.counters.get_mores, 1);
    let args = run.args();
    let Some(id) = args.long("getMore")? else { return Err(args.missing("getMore")) };
    args.long("term")?;
    let collection = args.required_text("collection")?;
    check_reader(run, collection)?;
    let namespace = format!("{}.{collection}", run.command.database);
    let most = args.count("batchSize")?.filter(|size| *size > 0);
    let user = run.user();
    let (session, transaction) = (run.service.session_key(run)?, run.transaction_number()?);
    let (cursors, session) = (&run.service.cursors, session.as_ref());
    let taken = cursors.take(id, user.as_deref(), &namespace, session, transaction);
    let (mut cursor, place) = taken?;
    let has_more = next_batch(run, &mut cursor, collection, most)?;
    if has_more {
        place.give_back(cursor);
    }
    run.reply.long("id", if has_more { id } else { 0 })?;
    run.reply.text("ns", &namespace)?;
    Ok(run.reply.end()?)
}

/// Appends the next batch of a cursor. Returns whether there are more.
fn next_batch(
    run: &mut Run<'_, '_>,
    cursor: &mut Cursor,
    collection: &str,
    most: Option<u64>,
) -> Outcome<bool> {
    let need = cursor.rows.need();
    run.require(need, &run.command.database)?;
    run.reply.begin_document("cursor")?;
    let Some(live) = cursor.rows.live() else { return timed_batch(run, cursor, most) };
    let wait = run.args().count("maxTimeMS")?.map_or(AWAIT, Duration::from_millis);
    *live.deadline = Instant::now() + wait.min(AWAIT_MAX);
    let has_more = next_rows(run, cursor, most)?;
    // The user may have lost rights while the batch was waited for.
    run.service.refresh(run.client);
    check_reader(run, collection)?;
    run.require(need, &run.command.database)?;
    Ok(has_more)
}

/// Appends the next batch of a cursor that waits for no events. All batches of a query share the
/// time that it may take.
fn timed_batch(run: &mut Run<'_, '_>, cursor: &mut Cursor, most: Option<u64>) -> Outcome<bool> {
    if run.args().get("maxTimeMS")?.is_some() {
        let text = "getMore.maxTimeMS: expected none for a cursor that waits for no events: that \
                    of its query counts";
        return Err(Failure::new(Code::BadValue, text));
    }
    let began = Instant::now();
    let after = |time: Option<Duration>| time.and_then(|time| began.checked_add(time));
    let deadlines = [
        (after(cursor.left), End::Late),
        (after(run.service.options.command_time), End::Slow),
        (cursor.ages_at, End::Old),
    ];
    let has_more = watch::until(&deadlines, || {
        // Rows that are in memory already are not read in steps.
        interrupt_check()?;
        next_rows(run, cursor, most)
    });
    if let Some(left) = &mut cursor.left {
        *left = left.saturating_sub(began.elapsed());
    }
    has_more
}

fn next_rows(run: &mut Run<'_, '_>, cursor: &mut Cursor, most: Option<u64>) -> Outcome<bool> {
    let mut room = run.service.replies.begin();
    let is_whole = false;
    let has_more = cursor.batch("nextBatch", most, &mut run.reply, Some(&mut room), is_whole);
    run.client.sending = Some(room);
    has_more
}

/// The name of the cursor of `bulkWrite`.
pub(super) const BULK_RESULTS: &str = "$cmd.bulkWrite";
/// The name of the cursor of the tool's feed of all collections.
pub(super) const FEED: &str = "$cmd.watch";

/// Refuses cursors of a database that the client may not read. What it has written itself, it may
/// know, and the feed shows what it may read.
fn check_reader(run: &Run<'_, '_>, collection: &str) -> Outcome {
    let need = if matches!(collection, BULK_RESULTS | FEED) { Need::Login } else { Need::Read };
    run.require(need, &run.command.database)
}

pub(super) fn kill_cursors(run: &mut Run<'_, '_>) -> Outcome {
    let args = run.args();
    let Some(collection) = args.get("killCursors")?.and_then(|name| name.as_str()) else {
        let text = "killCursors: expected the name of a collection";
        return Err(Failure::new(Code::InvalidNamespace, text));
    };
    check_reader(run, collection)?;
    let ids = run.args().required_list("cursors")?;
    let user = run.user();
    let (mut killed, mut unknown) = (Vec::new(), Vec::new());
    for id in ids.iter().filter(|id| !id.is_null()) {
        let Some(id) = long(id)? else {
            let text = format!("killCursors.cursors: expected integers, found {id}");
            return Err(Failure::new(Code::TypeMismatch, text));
        };
        if run.service.cursors.kill(id, user.as_deref()) { &mut killed } else { &mut unknown }
            .push(id);
    }
    let none = Vec::new();
    for (name, ids) in [
        ("cursorsKilled", &killed),
        ("cursorsNotFound", &unknown),
        ("cursorsAlive", &none),
        ("cursorsUnknown", &none),
    ] {
        run.reply.begin_array(name)?;
        for id in ids {
            run.reply.long("", *id)?;
        }
        run.reply.end()?;
    }
    Ok(())
}

pub(super) fn count(run: &mut Run<'_, '_>) -> Outcome {
    ServiceCounters::add(&run.service.counters.queries, 1);
    let (args, namespace) = (run.args(), run.namespace()?);
    if filter::has_expression(args.map("query")?.as_ref())? {
        let existing = run.existing(&namespace)?;
        let n = super::aggregate::count(run, existing.as_ref())?;
        return put_count(&mut run.reply, "n", n);
    }
    let filter = filter::filter(args.map("query")?.as_ref())?;
    let mut n = 0;
    let (skip, limit) = (args.count("skip")?.unwrap_or(0), count_limit(&args)?);
    if let Some(collection) = run.existing(&namespace)? {
        let (filter, hint) = filter::hint(&args, &collection, filter)?;
        let find = match &run.transaction {
            Some(tx) => tx.find(&collection, filter),
            None => collection.find(filter),
        };
        let mut find = find.skip(skip);
        if let Some(hint) = hint {
            find = find.hint(hint);
        }
        if limit > 0 {
            find = find.limit(limit);
        }
        n = find.count()?;
    }
    put_count(&mut run.reply, "n", n)
}

/// Returns the most documents that are counted; 0 for all. Its number is taken as it is, or not at
/// all.
fn count_limit(args: &Args<'_>) -> Outcome<u64> {
    args.refuse_null("limit", Code::BadValue)?;
    let Some(limit) = args.get("limit")? else { return Ok(0) };
    let refuse = |code| {
        let text = format!("count.limit: expected a whole number of 64 bits, found {limit}");
        Err(Failure::new(code, text))
    };
    let Some(float) = limit.as_f64() else { return refuse(Code::BadValue) };
    // The first double beyond 64 bits.
    let is_whole = float.fract() == 0.0 && (-i64::MAX as f64..i64::MAX as f64).contains(&float);
    match limit.as_i64() {
        Some(i64::MIN) => refuse(Code::BadValue),
        Some(limit) => Ok(limit.unsigned_abs()),
        None if float == i64::MIN as f64 => refuse(Code::BadValue),
        None if !is_whole => refuse(Code::FailedToParse),
        None => Ok(float.abs() as u64),
    }
}

/// Appends a number as int32 if it fits.
pub(super) fn put_count(reply: &mut BsonWriter<'_>, name: &str, n: u64) -> Outcome {
    match i32::try_from(n) {
        Ok(n) => reply.int(name, n)?,
        Err(_wide) => reply.long(name, i64::try_from(n).unwrap_or(i64::MAX))?,
    }
    Ok(())
}

/// Appends a number as int64.
pub(super) fn put_long(reply: &mut BsonWriter<'_>, name: &str, n: u64) -> Outcome {
    Ok(reply.long(name, i64::try_from(n).unwrap_or(i64::MAX))?)
}

pub(super) fn distinct(run: &mut Run<'_, '_>) -> Outcome {
    ServiceCounters::add(&run.service.counters.queries, 1);
    let (args, namespace) = (run.args(), run.namespace()?);
    let key = args.required_text("key")?;
    if key.contains('\0') {
        return Err(Failure::numbered(31_032, "distinct.key: expected a text without a zero"));
    }
    // No document has such a field.
    let is_nowhere = key.starts_with('$');
    if !is_nowhere {
        filter::path(key)?;
    }
    if !is_nowhere && filter::has_expression(args.map("query")?.as_ref())? {
        let existing = run.existing(&namespace)?;
        let values = super::aggregate::distinct(run, existing.as_ref(), key)?;
        run.reply.begin_array("values")?;
        let start = run.reply.len();
        for value in values {
            id::write_value(&mut run.reply, "", &value)?;
            check_values(&run.reply, start)?;
        }
        return Ok(run.reply.end()?);
    }
    let filter = filter::filter(args.map("query")?.as_ref())?;
    run.reply.begin_array("values")?;
    if let Some(collection) = run.existing(&namespace)?.filter(|_there| !is_nowhere) {
        let (filter, hint) = filter::hint(&args, &collection, filter)?;
        let mut find = match &run.transaction {
            Some(tx) => tx.find(&collection, filter),
            None => collection.find(filter),
        };
        if let Some(hint) = hint {
            find = find.hint(hint);
        }
        let start = run.reply.len();
        if key == ID {
            let (mut cursor, mut key) = (find.run()?, Vec::new());
            while cursor.advance().map_err(Failure::of_reading)? {
                key.clear();
                key.extend_from_slice(cursor.key_bytes());
                id::write_id(&mut run.reply, "", &key, &cursor.view()?)?;
                check_values(&run.reply, start)?;
            }
        } else {
            for value in distinct_ordered(&find, key)? {
                id::write_value(&mut run.reply, "", &value?)?;
                check_values(&run.reply, start)?;
            }
        }
    }
    Ok(run.reply.end()?)
}

fn check_values(reply: &BsonWriter<'_>, start: usize) -> Outcome {
    if reply.len() - start <= crate::wire::DOCUMENT_BYTES_MAX {
        return Ok(());
    }
    Err(too_many_values())
}

#[cold]
pub(super) fn too_many_values() -> Failure {
    let text = "the distinct values are more than a document of 16 MiB can hold";
    Failure::numbered(17_217, text)
}

/// Returns the size of the first batch, from the argument `cursor`.
pub(super) fn batch_size(args: &Args<'_>) -> Outcome<Option<u64>> {
    match args.map("cursor")? {
        Some(cursor) => Args::new(cursor, "cursor").count("batchSize"),
        None => Ok(None),
    }
}
