//! The catalog's record of one keyspace: numbers, name, route, content and options.

use super::name::check_name;
use super::owned::OwnedRecord;
use super::routing_text::RoutingText;
use crate::options::{KeyspaceOptions, Routing};
use crate::partition::{PARTITIONS_MAX, Route, hash_start};
use flagstone_base::codec::{put_bytes, put_u64, put_varint};
use flagstone_base::fields::{FieldReader, FieldWriter, narrow};
use flagstone_base::{Decoder, KeyspaceId, Malformed, SeqNo, TreeId, Undecoded};
use flagstone_sst::TableOptions;
use flagstone_tree::HashBounds;
use std::fmt;

/// The longest text of a [`KeyspaceContent`], in bytes.
const CONTENT_BYTES_MAX: usize = 4096;

/// What a keyspace holds, as a text: `documents`, for example. The catalog stores it, and a
/// keyspace is opened only with the content it was created with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyspaceContent(String);

impl fmt::Display for KeyspaceContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl KeyspaceContent {
    /// Returns the content that `text` describes. A keyspace can be created with a text of 1 to
    /// 4,096 bytes.
    pub fn of(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Refuses a text that is empty, too long, or holds control characters. The error says what was
    /// expected.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let is_good = (1..=CONTENT_BYTES_MAX).contains(&self.0.len())
            && !self.0.chars().any(char::is_control);
        let expected = "a content of 1 to 4,096 bytes without control characters";
        is_good.then_some(()).ok_or(expected)
    }
}

/// The record of one keyspace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyspaceRecord {
    /// The number of the keyspace, never assigned again.
    pub(crate) id: KeyspaceId,
    /// The name of the keyspace, unique at any time.
    pub(crate) name: String,
    /// The tree of each partition, in the order of the partitions.
    pub(crate) trees: Vec<TreeId>,
    /// The map from keys to partitions.
    pub(crate) route: Route,
    /// What the keyspace holds.
    pub(crate) content: KeyspaceContent,
    /// The name of the fold for merge operands, if there is one.
    pub(crate) fold: Option<String>,
    /// The options of new tables.
    pub(crate) tables: TableOptions,
    /// The bounds that the keyspace was created with, if splits have added others.
    pub(crate) given: Option<Vec<Vec<u8>>>,
    /// The number of hash partitions that the keyspace was created with, if splits have added
    /// others.
    pub(crate) given_hashes: Option<u16>,
    /// Whether entries may expire. An edit sets it before the first expiring entry is written; it
    /// is never cleared.
    pub(crate) expires: bool,
    /// Set if another keyspace owns this one.
    pub(crate) owned: Option<OwnedRecord>,
    /// The names that the keyspace had, oldest first, as far as readers of changes meet them.
    pub(crate) former: Vec<FormerName>,
}

/// A name that a keyspace had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FormerName {
    /// The SeqNo at which the keyspace got another name.
    pub(crate) through: SeqNo,
    /// The name up to there.
    pub(crate) name: String,
}

/// The scope of the names of keyspaces without an owner.
pub(super) const TOP: KeyspaceId = KeyspaceId(0);

const FIELDS: FieldReader = FieldReader::of("keyspace field");

// The table options, which crate `sst` lists, have the tags 12 to 62.
const ID: u64 = 1;
const NAME: u64 = 3;
const TREES: u64 = 5;
const ROUTE: u64 = 7;
const CONTENT: u64 = 9;
const FOLD: u64 = 11;
const EXPIRES: u64 = 63;
const OWNER: u64 = 65;
const NOTE: u64 = 67;
const DOUBTFUL: u64 = 69;
const GIVEN: u64 = 71;
const GIVEN_HASHES: u64 = 73;
const FORMER: u64 = 75;

const ROUTE_HASH: u8 = 1;
const ROUTE_RANGE: u8 = 2;

impl KeyspaceRecord {
    /// Returns the record of a new keyspace whose trees are numbered from `tree_first` on.
    pub(crate) fn new(
        id: KeyspaceId,
        name: &str,
        tree_first: TreeId,
        content: KeyspaceContent,
        options: &KeyspaceOptions,
        seed: u64,
    ) -> Self {
        let route = match options.routing_of_new() {
            Routing::Hash(partitions) => {
                let n = usize::from(partitions);
                Route::Hash { starts: (0..n).map(|i| hash_start(i, n)).collect(), seed }
            }
            Routing::Range(bounds) => Route::Range { bounds, seed },
            Routing::Auto => Route::Range { bounds: Vec::new(), seed },
        };
        let trees = (tree_first.0..).take(route.partitions()).map(TreeId).collect();
        Self {
            id,
            name: name.to_owned(),
            trees,
            route,
            content,
            fold: options.fold.clone(),
            tables: options.over(TableOptions::default()),
            given: None,
            given_hashes: None,
            expires: false,
            owned: None,
            former: Vec::new(),
        }
    }

    /// Returns the keyspace in which the name is unique: the owner, or [`TOP`].
    pub(super) fn scope(&self) -> KeyspaceId {
        self.owner().unwrap_or(TOP)
    }

    /// Returns the keyspace that owns this one.
    pub(crate) fn owner(&self) -> Option<KeyspaceId> {
        self.owned.as_ref().map(|owned| owned.owner)
    }

    /// Returns the record with another name from `at` on. The former one is kept if there are
    /// readers of changes, and so a SeqNo.
    pub(crate) fn renamed(&self, name: &str, at: Option<SeqNo>) -> Self {
        let mut renamed = Self { name: name.to_owned(), ..self.clone() };
        match at {
            Some(through) => renamed.former.push(FormerName { through, name: self.name.clone() }),
            None => renamed.former.clear(),
        }
        renamed
    }

    /// Returns the name that the keyspace had at `seqno`. At the SeqNo of its renaming it has the
    /// former one.
    pub(crate) fn name_at(&self, seqno: SeqNo) -> &str {
        let former = self.former.iter().find(|former| seqno <= former.through);
        former.map_or(&self.name, |former| &former.name)
    }

    /// Returns whether the keyspace got another name at `seqno`.
    pub(crate) fn is_renamed_at(&self, seqno: SeqNo) -> bool {
        self.former.iter().any(|former| former.through == seqno)
    }

    /// Returns the routing that the keyspace was created with.
    pub(crate) fn routing(&self) -> Routing {
        match &self.route {
            Route::Hash { starts, .. } => {
                let all = u16::try_from(starts.len()).unwrap_or(u16::MAX);
                Routing::Hash(self.given_hashes.unwrap_or(all))
            }
            Route::Range { .. } => Routing::Range(self.given_bounds().to_vec()),
        }
    }

    /// The bounds that the keyspace was created with.
    pub(crate) fn given_bounds(&self) -> &[Vec<u8>] {
        match (&self.given, &self.route) {
            (Some(given), _) => given,
            (None, Route::Range { bounds, .. }) => bounds,
            (None, Route::Hash { .. }) => &[],
        }
    }

    /// Returns whether the keyspace was created with `bound`.
    pub(crate) fn is_given(&self, bound: &[u8]) -> bool {
        self.given_bounds().iter().any(|given| given == bound)
    }

    /// Returns the record with `partition` cut at the keys `cuts`, each part with one of the new
    /// `trees`.
    pub(crate) fn split(&self, partition: usize, cuts: &[Vec<u8>], trees: &[TreeId]) -> Self {
        let mut split = self.clone();
        split.given = Some(self.given_bounds().to_vec());
        split.trees.splice(partition..=partition, trees.iter().copied());
        if let Route::Range { bounds, .. } = &mut split.route {
            bounds.splice(partition..partition, cuts.iter().cloned());
        }
        split
    }

    /// Returns the record with the hash partition `partition` cut at the hashes `cuts`, each part
    /// with one of the new `trees`.
    pub(crate) fn split_hashes(&self, partition: usize, cuts: &[u64], trees: &[TreeId]) -> Self {
        let mut split = self.clone();
        split.trees.splice(partition..=partition, trees.iter().copied());
        if let Route::Hash { starts, .. } = &mut split.route {
            let all = u16::try_from(starts.len()).unwrap_or(u16::MAX);
            split.given_hashes = self.given_hashes.or(Some(all));
            starts.splice(partition + 1..partition + 1, cuts.iter().copied());
        }
        split
    }

    /// The hashes of `partition`, if it is a part of a hash partition that was split.
    pub(crate) fn hashes_of_part(&self, partition: usize) -> Option<HashBounds> {
        let given = usize::from(self.given_hashes?);
        let part = self.route.hashes_of(partition)?;
        let is_part = (0..given).all(|at| part != given_part(at, given));
        is_part.then_some(part)
    }

    /// Returns the record with `partition` and the next one made one, with a new tree.
    pub(crate) fn merged(&self, partition: usize, tree: TreeId) -> Self {
        let mut merged = self.clone();
        merged.trees.splice(partition..partition + 2, [tree]);
        if let Route::Range { bounds, .. } = &mut merged.route {
            bounds.remove(partition);
        }
        if merged.trees.len() == self.given_bounds().len() + 1 {
            merged.given = None;
        }
        merged
    }

    /// Returns the options that create such a keyspace. All are set, the fold only if there is one.
    pub(crate) fn options(&self) -> KeyspaceOptions {
        let fixed = KeyspaceOptions {
            routing: Some(self.routing()),
            fold: self.fold.clone(),
            ..KeyspaceOptions::new()
        };
        fixed.tables(self.tables)
    }

    /// Appends the record to `out`, as tagged fields.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut fields = FieldWriter::new(out);
        fields.number(ID, u64::from(self.id.0));
        fields.bytes(NAME, self.name.as_bytes());
        let mut bytes = Vec::new();
        for tree in &self.trees {
            put_varint(&mut bytes, u64::from(tree.0));
        }
        fields.bytes(TREES, &bytes);
        fields.bytes(ROUTE, &encode_route(&self.route));
        fields.bytes(CONTENT, self.content.0.as_bytes());
        if let Some(fold) = &self.fold {
            fields.bytes(FOLD, fold.as_bytes());
        }
        self.tables.encode(&mut fields);
        if self.expires {
            fields.bytes(EXPIRES, &[]);
        }
        if let Some(owned) = &self.owned {
            fields.number(OWNER, u64::from(owned.owner.0));
            fields.bytes(NOTE, &owned.note);
            if owned.is_doubtful {
                fields.bytes(DOUBTFUL, &[]);
            }
        }
        if let Some(given) = &self.given {
            bytes.clear();
            given.iter().for_each(|bound| put_bytes(&mut bytes, bound));
            fields.bytes(GIVEN, &bytes);
        }
        if let Some(given) = self.given_hashes {
            fields.number(GIVEN_HASHES, u64::from(given));
        }
        if !self.former.is_empty() {
            bytes.clear();
            for former in &self.former {
                put_varint(&mut bytes, former.through.get());
                put_bytes(&mut bytes, former.name.as_bytes());
            }
            fields.bytes(FORMER, &bytes);
        }
    }

    /// Decodes all of `bytes`, as [`KeyspaceRecord::encode`] wrote them.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Undecoded> {
        let mut record = Self {
            id: KeyspaceId(0),
            name: String::new(),
            trees: Vec::new(),
            route: Route::Range { bounds: Vec::new(), seed: 0 },
            content: KeyspaceContent(String::new()),
            fold: None,
            tables: TableOptions::default(),
            given: None,
            given_hashes: None,
            expires: false,
            owned: None,
            former: Vec::new(),
        };
        let mut fixed_seen = 0;
        FIELDS.read(bytes, |tag, field| {
            fixed_seen += u32::from(tag <= CONTENT && tag % 2 == 1);
            record.set(tag, field)
        })?;
        if fixed_seen != 5 {
            let expected = "a keyspace's id, name, trees, route and content";
            return Err(Malformed { at: bytes.len(), expected }.into());
        }
        record.check().map_err(|expected| Malformed { at: 0, expected })?;
        Ok(record)
    }

    fn set(&mut self, tag: u64, field: &[u8]) -> Result<bool, Undecoded> {
        match tag {
            ID => self.id = KeyspaceId(narrow(field)?),
            NAME => self.name = text(field)?,
            TREES => self.trees = decode_trees(field)?,
            ROUTE => self.route = decode_route(field)?,
            CONTENT => self.content = KeyspaceContent(text(field)?),
            FOLD => self.fold = Some(text(field)?),
            EXPIRES if field.is_empty() => self.expires = true,
            OWNER => {
                let owner = KeyspaceId(narrow(field)?);
                self.owned = Some(OwnedRecord { owner, note: Vec::new(), is_doubtful: false });
            }
            NOTE | DOUBTFUL if self.owned.is_none() => {
                return Err(Malformed { at: 0, expected: "an owner before what it owns" }.into());
            }
            NOTE => self.owned.iter_mut().for_each(|owned| owned.note = field.to_vec()),
            DOUBTFUL if field.is_empty() => {
                self.owned.iter_mut().for_each(|owned| owned.is_doubtful = true);
            }
            EXPIRES | DOUBTFUL => {
                return Err(Malformed { at: 0, expected: "an empty field" }.into());
            }
            GIVEN_HASHES => self.given_hashes = Some(narrow(field)?),
            FORMER => self.former = decode_former(&mut Decoder::new(field))?,
            GIVEN => self.given = Some(decode_bounds(&mut Decoder::new(field))?),
            _ => return self.tables.set(tag, field),
        }
        Ok(true)
    }

    /// Returns whether `starts` has the hash partitions that the keyspace was created with, and
    /// others if it was split.
    fn has_given(&self, starts: &[u64]) -> bool {
        let Some(given) = self.given_hashes.map(usize::from) else { return true };
        let has = |at| starts.binary_search(&hash_start(at, given)).is_ok();
        (1..starts.len()).contains(&given) && (0..given).all(has)
    }

    /// Checks that the fields fit one another. The error says what was expected.
    fn check(&self) -> Result<(), &'static str> {
        if self.id.0 == 0 || self.trees.iter().any(|tree| tree.0 == 0) {
            return Err("ids from 1 on");
        }
        if check_name(&self.name).is_err() {
            return Err("a keyspace name of 1 to 255 bytes without control characters");
        }
        self.content.check()?;
        self.owned.as_ref().map_or(Ok(()), |owned| owned.check(self.id))?;
        if let Route::Hash { starts, .. } = &self.route
            && !(starts.first() == Some(&0) && starts.is_sorted_by(|a, b| a < b))
        {
            return Err("hash ranges that begin with 0 and rise");
        }
        if self.trees.len() != self.route.partitions() {
            return Err("as many trees as partitions");
        }
        let is_sound = match &self.route {
            Route::Hash { starts, .. } => {
                self.given.is_none() && starts.len() <= PARTITIONS_MAX && self.has_given(starts)
            }
            // Sorted, so each bound is found.
            Route::Range { bounds, .. } => {
                self.given_hashes.is_none() && Routing::Range(bounds.clone()).check().is_ok()
            }
        };
        if !is_sound || self.routing().check().is_err() {
            return Err("a routing within its bounds");
        }
        if let (Some(given), Route::Range { bounds, .. }) = (&self.given, &self.route)
            && (given.len() == bounds.len()
                || given.iter().any(|b| bounds.binary_search(b).is_err()))
        {
            return Err("bounds of a new keyspace among those of its route, and fewer");
        }
        if self.tables.check().is_err() {
            return Err("table options within their bounds");
        }
        Ok(())
    }
}

/// The hashes of partition `at` of `given` even ones.
fn given_part(at: usize, given: usize) -> HashBounds {
    let last = if at + 1 < given { hash_start(at + 1, given) - 1 } else { u64::MAX };
    HashBounds::new(hash_start(at, given), last)
}

fn encode_route(route: &Route) -> Vec<u8> {
    let mut out = Vec::new();
    match route {
        Route::Hash { starts, seed } => {
            out.push(ROUTE_HASH);
            put_u64(&mut out, *seed);
            starts.iter().for_each(|start| put_u64(&mut out, *start));
        }
        Route::Range { bounds, seed } => {
            out.push(ROUTE_RANGE);
            put_u64(&mut out, *seed);
            bounds.iter().for_each(|bound| put_bytes(&mut out, bound));
        }
    }
    out
}

fn decode_route(field: &[u8]) -> Result<Route, Undecoded> {
    let mut decoder = Decoder::new(field);
    let kind = decoder.u8("a kind of routing")?;
    let seed = decoder.u64("the seed of the key hash")?;
    match kind {
        ROUTE_HASH => {
            let mut starts = Vec::with_capacity(decoder.remaining() / 8);
            while !decoder.is_done() {
                starts.push(decoder.u64("the start of a hash range")?);
            }
            Ok(Route::Hash { starts, seed })
        }
        ROUTE_RANGE => Ok(Route::Range { bounds: decode_bounds(&mut decoder)?, seed }),
        kind => Err(Undecoded::Newer { at: 0, what: "routing", number: u64::from(kind) }),
    }
}

fn decode_bounds(decoder: &mut Decoder<'_>) -> Result<Vec<Vec<u8>>, Undecoded> {
    let mut bounds = Vec::new();
    while !decoder.is_done() {
        bounds.push(decoder.bytes("a range bound")?.to_vec());
    }
    Ok(bounds)
}

fn decode_former(decoder: &mut Decoder<'_>) -> Result<Vec<FormerName>, Undecoded> {
    let mut former: Vec<FormerName> = Vec::new();
    while !decoder.is_done() {
        let at = decoder.position();
        let through = decoder.varint("the SeqNo of a renaming")?;
        let is_rising = former.last().is_none_or(|last| last.through.get() < through);
        if !is_rising || through > SeqNo::MAX.get() {
            return Err(Malformed { at, expected: "rising SeqNos of 56 bits" }.into());
        }
        let through = SeqNo::new(through);
        let name = text(decoder.bytes("a former name")?)?;
        former.push(FormerName { through, name });
    }
    Ok(former)
}

fn decode_trees(field: &[u8]) -> Result<Vec<TreeId>, Undecoded> {
    let mut decoder = Decoder::new(field);
    let mut trees = Vec::new();
    while !decoder.is_done() {
        trees.push(TreeId(decoder.varint_u32("a tree id")?));
    }
    Ok(trees)
}

fn text(field: &[u8]) -> Result<String, Undecoded> {
    let text = std::str::from_utf8(field);
    Ok(text.map_err(|wrong| Malformed { at: wrong.valid_up_to(), expected: "UTF-8" })?.to_owned())
}

impl fmt::Display for KeyspaceRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let routing = self.routing();
        write!(f, "{} {:?}: {}, {}", self.id, self.name, self.content, RoutingText(&routing))?;
        if let Some(fold) = &self.fold {
            write!(f, ", fold {fold:?}")?;
        }
        write!(f, ", {}", self.tables)?;
        if self.expires {
            f.write_str(", entries expire")?;
        }
        if self.given.is_some() || self.given_hashes.is_some() {
            write!(f, ", split into {} partitions", self.trees.len())?;
        }
        let Some(OwnedRecord { owner, note, is_doubtful }) = &self.owned else { return Ok(()) };
        write!(f, ", of {owner}, a note of {} bytes", note.len())?;
        if *is_doubtful { f.write_str(", doubtful") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{KeyspaceOptions, Routing};
    use flagstone_base::Compression;

    fn record(routing: Routing, content: &str) -> KeyspaceRecord {
        let content = KeyspaceContent::of(content);
        let options = KeyspaceOptions::new().routing(routing);
        KeyspaceRecord::new(KeyspaceId(3), "posts", TreeId(9), content, &options, 77)
    }

    fn encoded(record: &KeyspaceRecord) -> Vec<u8> {
        let mut bytes = Vec::new();
        record.encode(&mut bytes);
        bytes
    }

    #[test]
    fn any_record_decodes_to_itself() {
        let contents = ["bytes", "keys of codec \"u64\" and values of codec \"é\"", "documents"];
        let bounds = vec![b"g".to_vec(), b"p\xFF".to_vec()];
        for content in contents {
            for routing in [
                Routing::Hash(1),
                Routing::Hash(200),
                Routing::Range(vec![]),
                Routing::Range(bounds.clone()),
            ] {
                let mut record = record(routing, content);
                for fold in [None, Some("sum".to_owned())] {
                    record.expires = fold.is_some();
                    record.owned = fold.as_ref().map(|_| OwnedRecord {
                        owner: KeyspaceId(2),
                        note: b"note".to_vec(),
                        is_doubtful: content == "documents",
                    });
                    record.fold = fold;
                    record.tables.compression = Compression::None;
                    record.tables.bottom_compression = Compression::Zstd(19);
                    assert_eq!(KeyspaceRecord::decode(&encoded(&record)), Ok(record.clone()));
                }
            }
        }
    }

    #[test]
    fn a_record_has_golden_bytes() {
        let mut record = record(Routing::Hash(2), "documents");
        record.fold = Some("f".into());
        let golden = [
            &[1, 1, 3][..],
            &[3, 5, b'p', b'o', b's', b't', b's'],
            &[5, 2, 9, 10],
            &[7, 25, 1],
            &[77, 0, 0, 0, 0, 0, 0, 0],
            &[0, 0, 0, 0, 0, 0, 0, 0],
            &[0, 0, 0, 0, 0, 0, 0, 0x80],
            &[9, 9],
            b"documents",
            &[11, 1, b'f'],
            &[12, 2, 1, 0],
            &[14, 2, 2, 1],
            &[16, 3, 0x80, 0x80, 1],
            &[18, 1, 10],
        ];
        assert_eq!(encoded(&record), golden.concat());
        record.expires = true;
        assert_eq!(encoded(&record), [&golden.concat()[..], &[63, 0]].concat());
        let owner = KeyspaceId(2);
        record.owned = Some(OwnedRecord { owner, note: b"note".to_vec(), is_doubtful: true });
        let owned = [&golden.concat()[..], &[63, 0, 65, 1, 2, 67, 4], b"note", &[69, 0]].concat();
        assert_eq!(encoded(&record), owned);
    }

    #[test]
    fn a_split_keeps_the_bounds_of_the_user_and_a_merge_undoes_it() {
        let before = record(Routing::Range(vec![b"g".to_vec()]), "bytes");
        let split = before.split(1, &[b"p".to_vec()], &[TreeId(20), TreeId(21)]);
        assert_eq!(split.trees, [TreeId(9), TreeId(20), TreeId(21)]);
        assert_eq!(split.routing(), before.routing());
        let bytes = encoded(&split);
        assert_eq!(bytes[bytes.len() - 4..], [71, 2, 1, b'g']);
        assert_eq!(KeyspaceRecord::decode(&bytes), Ok(split.clone()));
        assert!(split.is_given(b"g") && !split.is_given(b"p"));
        let thirds = before.split(0, &[b"b".to_vec(), b"d".to_vec()], &[20, 21, 22].map(TreeId));
        assert_eq!(thirds.trees, [20, 21, 22, 10].map(TreeId));
        assert_eq!(KeyspaceRecord::decode(&encoded(&thirds)), Ok(thirds));
        let merged = split.merged(1, TreeId(22));
        assert_eq!((merged.given.clone(), &merged.route), (None, &before.route));
        assert_eq!(merged.trees, [TreeId(9), TreeId(22)]);
        let refused = |given: Vec<Vec<u8>>| {
            let wrong = KeyspaceRecord { given: Some(given), ..split.clone() };
            assert!(KeyspaceRecord::decode(&encoded(&wrong)).is_err());
        };
        refused(vec![b"x".to_vec()]);
        refused(vec![b"g".to_vec(), b"p".to_vec()]);
    }

    #[test]
    fn a_split_of_hashes_keeps_the_partitions_of_the_user() {
        let before = record(Routing::Hash(2), "bytes");
        let split = before.split_hashes(1, &[3 << 62], &[TreeId(20), TreeId(21)]);
        assert_eq!(split.trees, [9, 20, 21].map(TreeId));
        assert_eq!(split.routing(), Routing::Hash(2));
        let parts: Vec<_> = (0..3).map(|at| split.hashes_of_part(at)).collect();
        let (upper, last) = (HashBounds::new(1 << 63, (3 << 62) - 1), 3 << 62);
        assert_eq!(parts, [None, Some(upper), Some(HashBounds::new(last, u64::MAX))]);
        let bytes = encoded(&split);
        assert_eq!(bytes[bytes.len() - 3..], [73, 1, 2]);
        assert_eq!(KeyspaceRecord::decode(&bytes), Ok(split.clone()));
        assert_eq!(before.hashes_of_part(1), None);
        let again = split.split_hashes(2, &[7 << 61], &[TreeId(22), TreeId(23)]);
        assert_eq!((again.routing(), again.trees.len()), (Routing::Hash(2), 4));
        for given in [0, 3, 4] {
            let wrong = KeyspaceRecord { given_hashes: Some(given), ..split.clone() };
            assert!(KeyspaceRecord::decode(&encoded(&wrong)).is_err(), "{given}");
        }
        let range = KeyspaceRecord { given_hashes: Some(1), ..record(Routing::Auto, "bytes") };
        assert!(KeyspaceRecord::decode(&encoded(&range)).is_err());
    }

    #[test]
    fn a_reader_skips_options_it_does_not_know_and_has_defaults_for_missing_ones() {
        let record = record(Routing::Hash(1), "bytes");
        let mut bytes = encoded(&record);
        bytes.extend_from_slice(&[98, 1, 7]);
        assert_eq!(KeyspaceRecord::decode(&bytes), Ok(record.clone()));
        bytes.extend_from_slice(&[99, 0]);
        let newer = Undecoded::Newer { at: bytes.len() - 2, what: "keyspace field", number: 99 };
        assert_eq!(KeyspaceRecord::decode(&bytes), Err(newer));
        let fixed = encoded(&record).len() - (4 + 4 + 5 + 3);
        assert_eq!(KeyspaceRecord::decode(&encoded(&record)[..fixed]), Ok(record));
    }

    #[test]
    fn damaged_records_are_refused_or_read_but_never_panic() {
        let bytes = encoded(&record(Routing::Range(vec![b"g".to_vec()]), "bytes"));
        for at in 0..bytes.len() {
            assert!(KeyspaceRecord::decode(&bytes[..at]).is_err() || at > bytes.len() - 17);
            for value in 0..=255 {
                let mut damaged = bytes.clone();
                damaged[at] = value;
                if let Ok(record) = KeyspaceRecord::decode(&damaged) {
                    assert!(record.check().is_ok());
                }
            }
        }
    }

    #[test]
    fn fields_that_do_not_fit_one_another_are_refused() {
        let refused = |change: fn(&mut KeyspaceRecord)| {
            let mut record = record(Routing::Hash(2), "bytes");
            change(&mut record);
            assert!(KeyspaceRecord::decode(&encoded(&record)).is_err(), "{record:?}");
        };
        refused(|r| r.id = KeyspaceId(0));
        refused(|r| r.name = "a\u{7}".into());
        refused(|r| r.content = KeyspaceContent::of(""));
        refused(|r| r.content = KeyspaceContent::of("a\u{7}"));
        refused(|r| r.trees.truncate(1));
        refused(|r| r.trees[1] = TreeId(0));
        refused(|r| r.route = Route::Hash { starts: vec![1, 2], seed: 0 });
        refused(|r| r.route = Route::Hash { starts: vec![0, 0], seed: 0 });
        refused(|r| r.route = Route::Range { bounds: vec![vec![]], seed: 0 });
        refused(|r| r.tables.block_bytes = 1);
        let owned = |owner, note| OwnedRecord { owner, note: vec![0; note], is_doubtful: false };
        assert!(owned(KeyspaceId(2), 64 << 10).check(KeyspaceId(3)).is_ok());
        for (owner, note) in [(0, 0), (3, 0), (4, 0), (2, (64 << 10) + 1)] {
            assert!(owned(KeyspaceId(owner), note).check(KeyspaceId(3)).is_err());
        }
        refused(|r| r.tables.filter_bits = 21);
        refused(|r| r.tables.compression = Compression::Zstd(99));
    }
}
