//! The tables: they are created, or it is checked that they are ours.

use super::address::{Address, is_home};
use super::errors;
use flagstone_base::{Error, ErrorKind, Result};
use scylla::client::session::Session;
use scylla::deserialize::row::DeserializeRow;
use scylla::errors::ExecutionError;
use scylla::response::query_result::QueryRowsResult;
use scylla::serialize::row::SerializeRow;
use scylla::statement::Statement;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

/// The oldest Cassandra with what the tables use.
const OLDEST: u32 = 5;
/// The comment of our tables begins with it. Then comes the number of their format, and the home,
/// if there is one. So all clients have the same.
const COMMENT: &str = "flagstone cluster, format ";
const FORMAT: u32 = 1;
const HOME: &str = ", home ";
/// Copies of each row in a keyspace that is created.
const COPIES: u32 = 3;
/// How long the creation of a keyspace or table may take.
const CREATION: Duration = Duration::from_secs(60);
/// How long nodes may take to learn of a table that another client has created. A node lists the
/// table a moment before it answers statements about it. Other nodes hear of it later.
const SPREAD: Duration = Duration::from_secs(5);
/// The pause before a node is asked again.
const PAUSE: Duration = Duration::from_millis(50);

/// A table: its name, its columns with type and kind, and the end of the statement that creates it.
struct Table {
    name: &'static str,
    columns: &'static [(&'static str, &'static str, &'static str)],
    key: &'static str,
    options: &'static str,
}

const TABLES: [Table; 2] = [
    Table {
        name: "catalog",
        columns: &[
            ("name", "text", "partition_key"),
            ("note", "blob", "regular"),
            ("version", "bigint", "regular"),
        ],
        key: "name",
        // Queries read the version alone. Read repair would copy it alone, too: a node could have a
        // new version beside an old note. What was acknowledged is on a quorum without repair.
        options: " AND read_repair = 'NONE'",
    },
    Table {
        name: "rows",
        columns: &[
            ("c", "int", "partition_key"),
            ("b", "int", "partition_key"),
            ("kind", "int", "clustering"),
            ("k", "blob", "clustering"),
            ("v", "blob", "regular"),
            ("ver", "blob", "regular"),
            ("exp", "bigint", "regular"),
            ("epoch", "int", "static"),
        ],
        key: "(c, b), kind, k",
        options: " AND compaction = {'class': 'UnifiedCompactionStrategy'}",
    },
];

/// What system tables tell of a keyspace.
#[derive(Default)]
struct FoundKeyspace {
    /// `None` if there is no such keyspace.
    replication: Option<HashMap<String, String>>,
    /// The tables with their comments.
    tables: BTreeMap<String, String>,
    /// The tables with the types and kinds of their columns.
    columns: BTreeMap<String, BTreeMap<String, (String, String)>>,
}

/// Creates what is missing of the keyspace and its tables, and checks what is there. Returns the
/// data centre that is its home, if there is one.
///
/// # Errors
/// InvalidInput for a keyspace of another program, or with another number of copies or another
/// home; Unsupported for tables of a newer flagstone, or changed ones, or a Cassandra that is too
/// old.
pub(super) async fn ensure(session: &Session, address: &Address) -> Result<Option<String>> {
    check_versions(session).await?;
    let mut found = read(session, &address.keyspace).await?;
    if let Some(replication) = &found.replication {
        check_copies(address, replication)?;
    } else {
        let copies = address.copies.unwrap_or(COPIES);
        check_nodes(address, copies, &nodes(session))?;
        let text = format!(
            "CREATE KEYSPACE IF NOT EXISTS {} WITH replication = \
             {{'class': 'NetworkTopologyStrategy', 'replication_factor': {copies}}}",
            address.keyspace
        );
        create(session, &format!("keyspace {}", address.keyspace), text).await?;
        found = read(session, &address.keyspace).await?;
    }
    let home = check_tables(address, &found)?;
    let mut is_complete = true;
    for table in TABLES.iter().filter(|table| !found.tables.contains_key(table.name)) {
        is_complete = false;
        let place = format!("table {}.{}", address.keyspace, table.name);
        create(session, &place, table.statement(&address.keyspace, home.as_deref())).await?;
    }
    if is_complete {
        // Short, because schemas differ for hours while Cassandra is upgraded.
        await_nodes(session, SPREAD / 10).await;
        return Ok(home);
    }
    await_nodes(session, SPREAD).await;
    // Somebody else may have created it at the same time.
    let found = read(session, &address.keyspace).await?;
    if let Some(missing) = TABLES.iter().find(|table| !found.tables.contains_key(table.name)) {
        let (keyspace, name) = (&address.keyspace, missing.name);
        let text = format!(
            "table {keyspace}.{name} was created, and a node does not know it yet: try again"
        );
        return Err(Error::new(ErrorKind::Unavailable, text));
    }
    check_tables(address, &found)
}

/// Waits until all nodes that answer have the same schema, but no longer than `longest`.
async fn await_nodes(session: &Session, longest: Duration) {
    let same = async {
        while let Ok(None) = session.check_schema_agreement().await {
            tokio::time::sleep(PAUSE).await;
        }
    };
    let _in_time = tokio::time::timeout(longest, same).await;
}

/// Repeats a request while a node does not yet know a table or keyspace that another client has
/// created.
pub(super) async fn when_known<T, A>(what: &str, ask: impl Fn() -> A) -> Result<T>
where
    A: Future<Output = Result<T, ExecutionError>>,
{
    let end = Instant::now() + SPREAD;
    loop {
        match ask().await {
            Err(error) if errors::is_not_known(&error) && Instant::now() < end => {
                tokio::time::sleep(PAUSE).await;
            }
            answer => return answer.map_err(|error| errors::of_read(what, &error)),
        }
    }
}

/// Returns how many nodes of each data centre have a row. For a strategy without data centres the
/// name is empty.
pub(super) async fn replication(
    session: &Session,
    keyspace: &str,
) -> Result<BTreeMap<String, u32>> {
    let found = read(session, keyspace).await?;
    Ok(copies(&found.replication.unwrap_or_default()))
}

impl Table {
    fn statement(&self, keyspace: &str, home: Option<&str>) -> String {
        let columns = self.columns.iter().map(|(name, of, kind)| {
            let kind = if *kind == "static" { " static" } else { "" };
            format!("{name} {of}{kind}, ")
        });
        format!(
            "CREATE TABLE IF NOT EXISTS {keyspace}.{} ({}PRIMARY KEY ({})) \
             WITH comment = '{}'{}",
            self.name,
            columns.collect::<String>(),
            self.key,
            comment(home),
            self.options
        )
    }
}

/// Returns the comment of a table.
fn comment(home: Option<&str>) -> String {
    let home = home.map(|home| format!("{HOME}{home}")).unwrap_or_default();
    format!("{COMMENT}{FORMAT}{home}")
}

/// Reads the comment of a table of ours: the format and the home.
fn read_comment(comment: &str) -> Option<(u32, Option<&str>)> {
    let rest = comment.strip_prefix(COMMENT)?;
    let (format, home) = match rest.split_once(HOME) {
        Some((format, home)) => (format, Some(home)),
        None => (rest, None),
    };
    home.is_none_or(is_home).then_some((format.parse().ok()?, home))
}

/// Returns how many nodes each data centre has.
fn nodes(session: &Session) -> BTreeMap<String, u32> {
    let mut nodes = BTreeMap::new();
    for node in session.get_cluster_state().get_nodes_info() {
        *nodes.entry(node.datacenter.clone().unwrap_or_default()).or_default() += 1;
    }
    nodes
}

/// Checks the versions of the nodes.
async fn check_versions(session: &Session) -> Result<()> {
    let own = "SELECT rpc_address, release_version FROM system.local";
    let others = "SELECT rpc_address, release_version FROM system.peers";
    for text in [own, others] {
        let table = text.rsplit(' ').next().unwrap_or_default();
        let what = format!("table {table}");
        for (ip, version) in
            ask::<(Option<std::net::IpAddr>, Option<String>)>(session, &what, text, ()).await?
        {
            let version = version.unwrap_or_default();
            let major = version.split('.').next().and_then(|major| major.parse::<u32>().ok());
            if major.is_none_or(|major| major < OLDEST) {
                let ip = ip.map_or_else(|| "of unknown address".into(), |ip| ip.to_string());
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    format!(
                        "node {ip} runs Cassandra {version:?}: Cassandra {OLDEST}.0 or newer is \
                         needed"
                    ),
                ));
            }
        }
    }
    Ok(())
}

async fn read(session: &Session, keyspace: &str) -> Result<FoundKeyspace> {
    let end = Instant::now() + SPREAD;
    loop {
        let found = read_once(session, keyspace).await?;
        // A table that is being created may be shown before its columns.
        let is_whole = found.tables.keys().all(|table| found.columns.contains_key(table));
        if is_whole || Instant::now() > end {
            return Ok(found);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn read_once(session: &Session, keyspace: &str) -> Result<FoundKeyspace> {
    let mut found = FoundKeyspace::default();
    let place = |table: &str| format!("keyspace {keyspace}, table system_schema.{table}");
    let what = place("keyspaces");
    let text = "SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?";
    let mut rows = ask::<(HashMap<String, String>,)>(session, &what, text, (keyspace,)).await?;
    found.replication = rows.pop().map(|(replication,)| replication);
    let what = place("tables");
    let text = "SELECT table_name, comment FROM system_schema.tables WHERE keyspace_name = ?";
    for (name, comment) in
        ask::<(String, Option<String>)>(session, &what, text, (keyspace,)).await?
    {
        found.tables.insert(name, comment.unwrap_or_default());
    }
    let what = place("columns");
    let text = "SELECT table_name, column_name, type, kind FROM system_schema.columns \
                WHERE keyspace_name = ?";
    for (table, name, of, kind) in
        ask::<(String, String, String, String)>(session, &what, text, (keyspace,)).await?
    {
        found.columns.entry(table).or_default().insert(name, (of, kind));
    }
    Ok(found)
}

/// Returns all rows of a statement that needs no preparation to be fast.
pub(super) async fn ask<R>(
    session: &Session,
    what: &str,
    text: impl Into<Statement>,
    values: impl SerializeRow,
) -> Result<Vec<R>>
where
    R: for<'f> DeserializeRow<'f, 'f>,
{
    let mut text = text.into();
    text.set_is_idempotent(true);
    let answer = session.query_unpaged(text, values).await;
    let answer = answer.map_err(|error| errors::of_read(what, &error))?;
    let rows = answer.into_rows_result().map_err(|error| unreadable(what, error))?;
    all(what, &rows)
}

fn all<R>(what: &str, rows: &QueryRowsResult) -> Result<Vec<R>>
where
    R: for<'f> DeserializeRow<'f, 'f>,
{
    let rows = rows.rows::<R>().map_err(|error| unreadable(what, error))?;
    rows.map(|row| row.map_err(|error| unreadable(what, error))).collect()
}

/// The error of an answer that is not what the statement asks for.
#[cold]
pub(super) fn unreadable(what: &str, error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Corruption, format!("{what}: an answer of another form: {error}"))
}

async fn create(session: &Session, what: &str, text: String) -> Result<()> {
    let mut statement = Statement::new(text);
    statement.set_request_timeout(Some(CREATION));
    // What is not answered may be there: the caller only has to connect again.
    when_known(what, || session.query_unpaged(statement.clone(), ())).await.map(|_nothing| ())
}

fn copies(replication: &HashMap<String, String>) -> BTreeMap<String, u32> {
    let each = replication.iter().filter(|(name, _)| *name != "class").map(|(name, copies)| {
        let name = if name == "replication_factor" { String::new() } else { name.clone() };
        // With transient copies it is like 3/1.
        let copies = copies.split('/').next().and_then(|copies| copies.parse().ok());
        (name, copies.unwrap_or_default())
    });
    each.collect()
}

/// Checks that each data centre has enough nodes for this many copies of each row.
fn check_nodes(address: &Address, copies: u32, nodes: &BTreeMap<String, u32>) -> Result<()> {
    let (keyspace, shown) = (&address.keyspace, address.shown());
    if let Some(home) = &address.home
        && !nodes.contains_key(home)
    {
        let names: Vec<&str> = nodes.keys().map(String::as_str).collect();
        return Err(Error::invalid(format!(
            "data centre {home:?} is to be the home of keyspace {keyspace}, and the cluster at \
             {shown} has these: {}",
            names.join(", ")
        )));
    }
    match nodes.iter().find(|(_, count)| copies > **count) {
        None => Ok(()),
        Some((datacenter, count)) => Err(Error::invalid(format!(
            "keyspace {keyspace} is to have {copies} copies of each row, and the cluster at \
             {shown} has {count} nodes in data centre {datacenter}: add nodes, name fewer copies, \
             as in cql://HOST/{keyspace}?rf={count}, or create the keyspace yourself"
        ))),
    }
}

fn check_copies(address: &Address, replication: &HashMap<String, String>) -> Result<()> {
    let Some(wanted) = address.copies else { return Ok(()) };
    let found = copies(replication);
    if !found.is_empty() && found.values().all(|copies| *copies == wanted) {
        return Ok(());
    }
    let keyspace = &address.keyspace;
    let shown: Vec<String> = found
        .iter()
        .map(
            |(name, copies)| {
                if name.is_empty() { copies.to_string() } else { format!("{name}: {copies}") }
            },
        )
        .collect();
    Err(Error::invalid(format!(
        "keyspace {keyspace} has not {wanted} copies of each row, as rf={wanted} says, but ({}): \
         leave rf away, or change the keyspace by ALTER KEYSPACE {keyspace} WITH replication = .. \
         and nodetool repair --full {keyspace} on each node",
        shown.join(", ")
    )))
}

/// Checks that all tables that are there are ours, and of the format that this version knows.
/// Returns their home; that of the address, if there are none.
fn check_tables(address: &Address, found: &FoundKeyspace) -> Result<Option<String>> {
    let (keyspace, mut homes) = (&address.keyspace, Vec::new());
    for (name, comment) in &found.tables {
        let table = TABLES.iter().find(|table| table.name == name);
        let (Some(table), Some((format, home))) = (table, read_comment(comment)) else {
            return Err(Error::invalid(format!(
                "keyspace {keyspace} belongs to another program, whose table {keyspace}.{name} is \
                 in it: name a keyspace of its own, which is created if it is not there"
            )));
        };
        if format != FORMAT {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "table {keyspace}.{name} has format {format}, and this flagstone knows format \
                     {FORMAT}: use the flagstone that has created it, or a newer one"
                ),
            ));
        }
        homes.push(home);
        let none = BTreeMap::new();
        let columns = found.columns.get(name).unwrap_or(&none);
        for (column, of, kind) in table.columns {
            let there = columns.get(*column);
            if there.is_none_or(|(its, kinds)| (its.as_str(), kinds.as_str()) != (*of, *kind)) {
                let there = there.map_or("is not there".into(), |(of, kind)| {
                    format!("has type {of} and kind {kind}")
                });
                return Err(Error::new(
                    ErrorKind::Unsupported,
                    format!(
                        "table {keyspace}.{name}: column {column} {there}, and not type {of} and \
                         kind {kind}: somebody has changed the table; change it back"
                    ),
                ));
            }
        }
    }
    let home = match homes.first() {
        None => address.home.as_deref(),
        Some(first) if homes.iter().any(|home| home != first) => {
            return Err(Error::invalid(format!(
                "the tables of keyspace {keyspace} have different homes in their comments, {:?} \
                 and {:?}: expected one. End all clients, run nodetool repair --full {keyspace} on \
                 each node, and change the wrong one by ALTER TABLE .. WITH comment = ..",
                comment(*first),
                comment(homes.iter().copied().find(|home| home != first).flatten())
            )));
        }
        Some(home) => *home,
    };
    if let Some(wanted) = &address.home
        && home != Some(wanted.as_str())
    {
        let has = home.map_or("no home".into(), |home| format!("the home {home}"));
        return Err(Error::invalid(format!(
            "keyspace {keyspace} has {has}, and not {wanted}: leave home={wanted} away, or name \
             another keyspace"
        )));
    }
    if let (Some(home), Some(replication)) = (home, &found.replication)
        && copies(replication).get(home).is_none_or(|copies| *copies == 0)
    {
        return Err(Error::invalid(format!(
            "keyspace {keyspace} has no copies in its home, data centre {home}: change its \
             replication by ALTER KEYSPACE {keyspace} WITH replication = .., and run nodetool \
             repair --full {keyspace} on each node"
        )));
    }
    Ok(home.map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(copies: Option<u32>, home: Option<&str>) -> Address {
        let (hosts, keyspace) = (vec!["h".into()], "shop".into());
        Address { hosts, keyspace, user: None, copies, home: home.map(str::to_owned) }
    }

    /// The keyspace as this version creates it.
    fn ours() -> FoundKeyspace {
        let mut found = FoundKeyspace::default();
        for table in TABLES {
            found.tables.insert(table.name.into(), comment(None));
            let columns = table.columns.iter();
            let columns =
                columns.map(|(name, of, kind)| ((*name).into(), ((*of).into(), (*kind).into())));
            found.columns.insert(table.name.into(), columns.collect());
        }
        found
    }

    #[test]
    fn only_our_tables_of_our_format_are_taken() {
        let shop = address(None, None);
        assert!(check_tables(&shop, &FoundKeyspace::default()).is_ok());
        assert!(check_tables(&shop, &ours()).is_ok());
        let refused = |change: &dyn Fn(&mut FoundKeyspace), kind, said: &str| {
            let mut found = ours();
            change(&mut found);
            let error = check_tables(&shop, &found).unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(said), "{error}");
        };
        refused(
            &|found| drop(found.tables.insert("orders".into(), String::new())),
            ErrorKind::InvalidInput,
            "another program, whose table shop.orders",
        );
        refused(
            &|found| drop(found.tables.insert("rows".into(), "theirs".into())),
            ErrorKind::InvalidInput,
            "another program, whose table shop.rows",
        );
        refused(
            &|found| drop(found.tables.insert("rows".into(), format!("{COMMENT}2"))),
            ErrorKind::Unsupported,
            "table shop.rows has format 2, and this flagstone knows format 1",
        );
        refused(
            &|found| drop(found.tables.insert("rows".into(), format!("{COMMENT}1, home "))),
            ErrorKind::InvalidInput,
            "another program, whose table shop.rows",
        );
        refused(
            &|found| drop(found.columns.get_mut("rows").unwrap().remove("epoch")),
            ErrorKind::Unsupported,
            "table shop.rows: column epoch is not there, and not type int and kind static",
        );
    }

    #[test]
    fn another_number_of_copies_than_asked_for_is_refused() {
        let address = |copies| address(copies, None);
        let class = ("class".to_owned(), "x.NetworkTopologyStrategy".to_owned());
        let of = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter().map(|(name, value)| ((*name).into(), (*value).into()));
            pairs.chain([class.clone()]).collect::<HashMap<String, String>>()
        };
        let (one, two) = (of(&[("dc1", "3")]), of(&[("dc1", "3"), ("dc2", "2/1")]));
        assert!(check_copies(&address(Some(3)), &one).is_ok());
        assert!(check_copies(&address(None), &two).is_ok());
        assert!(check_copies(&address(Some(1)), &of(&[("replication_factor", "1")])).is_ok());
        let error = check_copies(&address(Some(3)), &two).unwrap_err().to_string();
        assert!(error.contains("but (dc1: 3, dc2: 2): leave rf away, or change"), "{error}");
    }
    #[test]
    fn all_clients_of_a_keyspace_have_the_home_of_its_tables() {
        let of = |wanted: Option<&str>, homes: [Option<&str>; 2], replication: &[(&str, &str)]| {
            let mut found = ours();
            for (table, home) in TABLES.iter().zip(homes) {
                found.tables.insert(table.name.into(), comment(home));
            }
            let pairs = replication.iter();
            let replication = pairs.map(|(name, value)| ((*name).into(), (*value).into()));
            found.replication = Some(replication.collect());
            check_tables(&address(None, wanted), &found).map_err(|error| error.to_string())
        };
        let (both, east) = (&[("east", "3"), ("west", "2")][..], Some("east"));
        assert_eq!(of(None, [east; 2], both), Ok(Some("east".into())));
        assert_eq!(of(east, [east; 2], both), Ok(Some("east".into())));
        assert_eq!(of(None, [None; 2], both), Ok(None));
        let refused = |found: Result<Option<String>, String>, said: &str| {
            let error = found.unwrap_err();
            assert!(error.contains(said), "{error}");
        };
        refused(of(Some("west"), [east; 2], both), "has the home east, and not west: leave home");
        refused(of(east, [None; 2], both), "has no home, and not east");
        refused(
            of(None, [None, east], both),
            "\"flagstone cluster, format 1\" and \"flagstone cluster, format 1, home east\": exp",
        );
        refused(of(None, [east; 2], &both[1..]), "no copies in its home, data centre east");
        refused(of(None, [east; 2], &[("replication_factor", "3")]), "no copies in its home");
        // Before there are tables.
        let new = check_tables(&address(None, east), &FoundKeyspace::default());
        assert_eq!(new.unwrap(), Some("east".into()));
    }

    #[test]
    fn a_data_centre_with_too_few_nodes_is_named() {
        let nodes = BTreeMap::from([("east".to_owned(), 3), ("west".to_owned(), 1)]);
        let refused = |copies, home, said: &str| {
            let address = address(Some(copies), home);
            let error = check_nodes(&address, copies, &nodes).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        };
        refused(3, None, "has 1 nodes in data centre west: add nodes");
        refused(4, None, "has 3 nodes in data centre east");
        refused(1, Some("north"), "has these: east, west");
        assert!(check_nodes(&address(Some(1), Some("west")), 1, &nodes).is_ok());
    }
}
