//! Sizes and counts of a collection.

use super::counted::{COUNTED_MAX, documents_of};
use super::listing::{put_size, scale, sizes};
use crate::bson::BsonWriter;
use crate::command::args::{Args, is_document};
use crate::command::name::Namespace;
use crate::command::read::put_count;
use crate::command::run::Run;
use crate::command::service::{Service, now_millis};
use crate::command::{current, operation};
use crate::failure::{Code, Failure, Outcome};
use flagstone::doc::{DateTime, FieldKey};
use flagstone::{Collection, Value, View};

pub(in crate::command) fn coll_stats(run: &mut Run<'_, '_>) -> Outcome {
    let (args, namespace) = (run.args(), run.namespace()?);
    run.look_again(&namespace);
    let (collection, service) = (run.existing(&namespace)?, run.service);
    run.reply.text("ns", &namespace.to_string())?;
    put_stats(&mut run.reply, service, &namespace, collection.as_ref(), scale(&args)?)
}

/// Appends sizes and counts of a collection to the document that is open.
fn put_stats(
    reply: &mut BsonWriter<'_>,
    service: &Service,
    namespace: &Namespace,
    collection: Option<&Collection>,
    scale: u64,
) -> Outcome {
    let sizes = sizes(service).get(&namespace.keyspace()).copied().unwrap_or_default();
    let count = collection.map_or(Ok(0), |one| documents_of(one, &mut { COUNTED_MAX }))?;
    put_size(reply, "size", sizes.raw, scale)?;
    put_count(reply, "count", count)?;
    put_count(reply, "avgObjSize", sizes.raw.checked_div(count).unwrap_or(0))?;
    put_size(reply, "storageSize", sizes.documents, scale)?;
    put_count(reply, "freeStorageSize", 0)?;
    reply.bool("capped", false)?;
    let indexes = collection.map(Collection::indexes).unwrap_or_default();
    put_count(reply, "nindexes", indexes.len() as u64 + u64::from(collection.is_some()))?;
    reply.begin_document("indexSizes")?;
    for index in &indexes {
        // The bytes of an index are those of all, divided by their entries.
        let all: u64 = indexes.iter().map(|index| index.entries).sum::<u64>().max(1);
        let bytes = u128::from(sizes.indexes) * u128::from(index.entries) / u128::from(all);
        put_size(reply, &index.name, u64::try_from(bytes).unwrap_or(u64::MAX), scale)?;
    }
    reply.end()?;
    // Indexes are listed when they are built.
    reply.begin_array("indexBuilds")?;
    reply.end()?;
    put_size(reply, "totalIndexSize", sizes.indexes, scale)?;
    put_size(reply, "totalSize", sizes.documents + sizes.indexes, scale)?;
    put_count(reply, "scaleFactor", scale)
}

/// Returns what `storageStats` divides sizes by: at least 1, and what is too large is the largest.
fn scale_of_stage(options: &Args<'_>) -> Outcome<u64> {
    let scale = options.int("scale")?.unwrap_or(1).min(i32::MAX.into());
    let scale = u64::try_from(scale).ok().filter(|scale| *scale > 0);
    scale.ok_or_else(|| Failure::new(Code::BadValue, "scale: expected 1 or more"))
}

/// What the stage `$collStats` is asked for.
#[derive(Default)]
struct CollStatsOptions<'a> {
    storage: Option<Args<'a>>,
    has_latency: bool,
    has_count: bool,
}

impl<'a> CollStatsOptions<'a> {
    fn parse(stage: &View<'a>) -> Outcome<Self> {
        let what = "$collStats";
        if !is_document(stage)? {
            let text = format!("{what}: expected a document, found {stage}");
            return Err(Failure::numbered(5447000, text));
        }
        let (mut asked, mut unsupported) = (Self::default(), None);
        for field in stage.fields()? {
            let (FieldKey::Name(name), value) = field? else { continue };
            if !["latencyStats", "storageStats", "count", "queryExecStats"].contains(&name) {
                let text = format!("BSON field '{what}.{name}' is an unknown field");
                return Err(Failure::new(Code::IDLUnknownField, text));
            }
            if value.is_null() {
                continue;
            }
            if !is_document(&value)? {
                let text = format!("{what}.{name}: expected a document, found {value}");
                return Err(Failure::new(Code::TypeMismatch, text));
            }
            let options = Args::new(value, "storageStats");
            match name {
                "storageStats" => {
                    scale_of_stage(&options)?;
                    asked.storage = Some(options);
                }
                "latencyStats" => {
                    asked.has_latency = true;
                    for field in value.fields()? {
                        let (FieldKey::Name(name), _) = field? else { continue };
                        if name != "histograms" {
                            let what = "$collStats.latencyStats";
                            let text = format!("BSON field '{what}.{name}' is an unknown field");
                            return Err(Failure::new(Code::IDLUnknownField, text));
                        }
                    }
                    let histograms = value.get("histograms")?;
                    let is_wanted = histograms.map(|value| value.as_bool().ok_or(value));
                    match is_wanted {
                        None | Some(Ok(false)) => {}
                        Some(Ok(true)) => unsupported = Some("latencyStats.histograms"),
                        Some(Err(found)) => {
                            let text = format!("histograms: expected true or false, found {found}");
                            return Err(Failure::new(Code::TypeMismatch, text));
                        }
                    }
                }
                _ if !value.is_empty()? => {
                    let text = format!("{what}.{name}: expected {{}}, found {value}");
                    return Err(Failure::numbered(31170, text));
                }
                "count" => asked.has_count = true,
                _ => unsupported = Some("queryExecStats"),
            }
        }
        match unsupported {
            Some(name) => Err(Failure::unsupported(format_args!("{what}.{name}"))),
            None => Ok(asked),
        }
    }
}

/// Returns the row of the stage `$collStats`.
pub(in crate::command) fn stats_row(
    run: &mut Run<'_, '_>,
    stage: &View<'_>,
    namespace: &Namespace,
) -> Outcome<Value> {
    let asked = CollStatsOptions::parse(stage)?;
    let collection = if asked.storage.is_some() || asked.has_count {
        Some(run.required(namespace)?)
    } else {
        None
    };
    let mut bson = Vec::new();
    let mut out = BsonWriter::new(&mut bson);
    out.begin();
    out.text("ns", &namespace.to_string())?;
    out.text("host", &operation::host())?;
    let now = DateTime::from_micros(now_millis().saturating_mul(1000));
    out.datetime("localTime", now)?;
    if asked.has_latency {
        out.begin_document("latencyStats")?;
        current::put_latencies(&mut out, run.service, namespace)?;
        out.end()?;
    }
    if let Some(options) = &asked.storage {
        out.begin_document("storageStats")?;
        let scale = scale_of_stage(options)?;
        put_stats(&mut out, run.service, namespace, collection.as_ref(), scale)?;
        out.end()?;
    }
    if asked.has_count {
        let count = |one| documents_of(one, &mut { COUNTED_MAX });
        let count = collection.as_ref().map_or(Ok(0), count)?;
        put_count(&mut out, "count", count)?;
    }
    out.end()?;
    Ok(run.incoming.any(&bson)?.to_value())
}
