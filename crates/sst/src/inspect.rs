//! Prints any table as text, even a damaged one: everything that can still be read.

use crate::block::Block;
use crate::cache::BlockCache;
use crate::format::{FOOTER_BYTES, HEADER_BYTES, TableLabel, decode_header};
use crate::index::Index;
use crate::index_parts::TableIndex;
use crate::lookup::{CacheUse, Nearby};
use crate::open::read_tail;
use crate::options::TableIdent;
use crate::properties::Handle;
use crate::table::Table;
use flagstone_base::{EntryRef, Error, KeyspaceId, Result};
use flagstone_env::{Disk, ReadFile};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

/// Keys and values are printed up to this many bytes.
const SHOWN_BYTES: usize = 64;

/// What an inspection prints.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InspectOptions {
    /// Whether to print a line for every entry, not only for every block.
    pub entries: bool,
}

/// Writes a description of the table `path` to `out`, one fact a line. Damage is reported in its
/// place, and the inspection continues. Only a file that cannot be opened or read at all is an
/// error.
///
/// # Errors
/// Any error of opening and reading the file; InvalidInput if `out` fails.
pub fn inspect(
    disk: &dyn Disk,
    path: &Path,
    options: InspectOptions,
    out: &mut dyn Write,
) -> Result<()> {
    let file = disk.open(path)?;
    say(out, format_args!("{}: {} bytes", path.display(), file.len()))?;
    let mut header = vec![0; HEADER_BYTES.min(file.len() as usize)];
    file.read_exact_at(&mut header, 0)?;
    match decode_header(&header) {
        Ok(label) => say_label(out, "header", &label)?,
        Err(wrong) => say(out, format_args!("header   DAMAGED {wrong}"))?,
    }
    let tail = match read_tail(&*file, None) {
        Ok(tail) => tail,
        Err(error) => return say(out, format_args!("footer   DAMAGED {error}")),
    };
    let footer = tail.footer;
    say_label(out, "footer", &footer.label)?;
    say(
        out,
        format_args!(
            "tail     {}..{} properties {}+{}",
            footer.tail_offset,
            file.len() - FOOTER_BYTES as u64,
            footer.properties.offset,
            footer.properties.len
        ),
    )?;
    // A cache of size zero: an inspection reads everything once.
    let cache = BlockCache::new(0);
    match Table::open(file, footer.label.ident(), None, &cache) {
        Ok(table) => say_table(out, &table, options),
        Err(error) => say(out, format_args!("tail     DAMAGED {error}")),
    }
}

fn say_table(out: &mut dyn Write, table: &Arc<Table>, options: InspectOptions) -> Result<()> {
    let properties = table.properties();
    let content = &properties.content;
    say(out, format_args!("table    {table}"))?;
    let owner = match properties.owner {
        KeyspaceId(0) => String::new(),
        owner => format!(" of {owner}"),
    };
    say(
        out,
        format_args!(
            "content  {} deletes, {} merges, {} key bytes, {} value bytes; {}{}, {}, \
             seed {:#x}, filter key {}",
            content.deletes,
            content.merges,
            content.key_bytes_raw,
            content.value_bytes_raw,
            properties.keyspace,
            owner,
            properties.tree,
            properties.hash_seed,
            properties.filter_key
        ),
    )?;
    let sections = &properties.sections;
    for (name, handle) in [
        ("range deletes", sections.range_deletes),
        ("attachments", sections.attachments),
        ("sample", sections.sample),
        ("dictionary", sections.dictionary),
        ("filter", sections.filter),
        ("index", sections.index),
    ] {
        if let Some(handle) = handle {
            say(out, format_args!("section  {name} {}+{}", handle.offset, handle.len))?;
        }
    }
    if let Some(parts) = sections.filter_parts {
        let (count, len) = (parts.count(), parts.len());
        say(out, format_args!("filter   {}+{len} in {count} parts", parts.offset))?;
    }
    if let (Some(place), TableIndex::InParts(parts)) = (sections.index_parts, &table.index) {
        let (Handle { offset, len }, count) = (place, parts.count());
        say(out, format_args!("index    {offset}+{len} in {count} parts"))?;
    }
    for range in table.range_deletes()?.iter() {
        say(out, format_args!("deleted  {range:?}"))?;
    }
    for (id, bytes) in table.attachments()? {
        say(out, format_args!("attached {id}: {} bytes", bytes.len()))?;
    }
    let (mut nearby, mut number) = (Nearby::default(), 0);
    while number < table.index.count() {
        match table.index_of(&mut nearby, number, CacheUse::Pass) {
            Ok(index) => {
                say_block(out, table, index, number, options)?;
                number += 1;
            }
            Err(error) => {
                let TableIndex::InParts(parts) = &table.index else { return Err(error) };
                let blocks = parts.blocks(parts.part_of(number));
                let (first, last) = (blocks.start, blocks.end - 1);
                say(out, format_args!("blocks   {first} to {last} DAMAGED {error}"))?;
                number = blocks.end;
            }
        }
    }
    Ok(())
}

fn say_block(
    out: &mut dyn Write,
    table: &Table,
    index: &Index,
    number: usize,
    options: InspectOptions,
) -> Result<()> {
    let handle = index.handle(number);
    let separator = EscapedBytes(&index.separator(number)).to_string();
    let place = format!("block    {number} {}+{} from {separator}", handle.offset, handle.len);
    let block = match table.block(index, number, CacheUse::Leave) {
        Ok(block) => block,
        Err(error) => return say(out, format_args!("{place} DAMAGED {error}")),
    };
    say(out, format_args!("{place} {} entries, {} raw", block.count(), block.bytes().len()))?;
    if options.entries {
        for index in 0..block.count() {
            say_entry(out, &block, index)?;
        }
    }
    Ok(())
}

fn say_entry(out: &mut dyn Write, block: &Block, index: usize) -> Result<()> {
    let entry = block.parse(index).and_then(|parsed| {
        let mut key = Vec::new();
        block.read_key(index, &parsed, &mut key)?;
        Ok((key, parsed))
    });
    match entry {
        Ok((key, parsed)) => {
            let value = &block.bytes()[parsed.value()];
            let entry = EntryRef { key: &key, trailer: parsed.trailer, value };
            let (key, value) = (EscapedBytes(entry.key), EscapedBytes(entry.value));
            say(out, format_args!("entry    {index} {key}{:?}={value}", entry.trailer))
        }
        Err(wrong) => say(out, format_args!("entry    {index} DAMAGED {wrong}")),
    }
}

/// Returns the identity of the table that the header records, or else the footer. `None` if both
/// are damaged.
pub fn identify(file: &dyn ReadFile) -> Option<TableIdent> {
    let mut header = [0; HEADER_BYTES];
    let begins = file.read_exact_at(&mut header, 0).ok().and_then(|()| decode_header(&header).ok());
    let label = begins.or_else(|| Some(read_tail(file, Some(0)).ok()?.footer.label));
    Some(label?.ident())
}

fn say_label(out: &mut dyn Write, name: &str, label: &TableLabel) -> Result<()> {
    let TableIdent { database, number, .. } = label.ident();
    let label = label.label;
    say(out, format_args!("{name}   {label}, database {database}, table {number}"))
}

fn say(out: &mut dyn Write, line: std::fmt::Arguments<'_>) -> Result<()> {
    writeln!(out, "{line}").map_err(|_full| Error::invalid("the output of an inspection failed"))
}

/// Bytes as escaped text, cut after [`SHOWN_BYTES`].
struct EscapedBytes<'a>(&'a [u8]);

impl std::fmt::Display for EscapedBytes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.get(..SHOWN_BYTES) {
            Some(front) if self.0.len() > SHOWN_BYTES => {
                write!(f, "{}...({} bytes)", front.escape_ascii(), self.0.len())
            }
            _ => write!(f, "{}", self.0.escape_ascii()),
        }
    }
}
