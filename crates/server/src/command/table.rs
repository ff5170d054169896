//! The table of commands, from which dispatch, permissions and help come.

use super::latency::OperationKind;
use super::run::Run;
use super::{
    aggregate, bulk, catalog, connection, current, explain, operation, read, tool, transaction,
    update, users, write,
};
use crate::access::Need;
use crate::failure::{Code, Failure, Outcome};

/// A command: what it is called, who may run it, and what runs it.
pub(crate) struct Entry {
    /// The name of its first field. A second name, if there is one, differs only in letters.
    pub(crate) name: &'static str,
    /// What it needs on the database that it is sent to.
    pub(crate) need: Need,
    /// The fields that it reads besides its name and those that all commands may have; `*` for any.
    pub(crate) fields: &'static [&'static str],
    /// The fields that say what is done anyway, or what has no meaning here.
    pub(crate) ignored: &'static [&'static str],
    /// The fields that are refused if they ask for something.
    pub(crate) refused: &'static [&'static str],
    /// What to use instead of it in a cluster, which does not have it.
    pub(crate) not_in_cluster: Option<&'static str>,
    /// What it does, in a sentence.
    pub(crate) help: &'static str,
    pub(crate) run: fn(&mut Run<'_, '_>) -> Outcome,
    /// What else is true of it.
    pub(crate) traits: &'static [Trait],
}

/// What is true of a command besides what its need says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trait {
    /// It may be part of a transaction: it reads or writes documents.
    InTransaction,
    /// It is in version 1 of the API, as are those of transactions.
    InApi,
    /// It takes a readConcern with a time.
    ReadConcern,
    /// It takes a writeConcern though it needs only to read.
    WriteConcern,
    /// It takes no writeConcern, like those that need only to read.
    NoWriteConcern,
    /// It ends when its client is gone, like those that need only to read.
    EndsWithClient,
    /// It changes something though it needs no more than a login.
    Writes,
}

impl Entry {
    pub(crate) fn is(&self, what: Trait) -> bool {
        self.traits.contains(&what)
    }

    pub(crate) fn is_in_api(&self) -> bool {
        self.is(Trait::InApi) || self.is(Trait::InTransaction)
    }

    pub(crate) fn refuses_write_concern(&self) -> bool {
        self.is(Trait::NoWriteConcern) || self.need == Need::Read && !self.is(Trait::WriteConcern)
    }

    pub(crate) fn ends_with_client(&self) -> bool {
        self.need == Need::Read || self.is(Trait::EndsWithClient)
    }

    pub(crate) fn writes(&self) -> bool {
        matches!(self.need, Need::Write | Need::Root) || self.is(Trait::Writes)
    }

    /// Returns what its latency counts as.
    pub(crate) fn kind(&self) -> OperationKind {
        if !self.is(Trait::InTransaction) {
            OperationKind::Command
        } else if self.ends_with_client() {
            OperationKind::Read
        } else if self.writes() {
            OperationKind::Write
        } else {
            OperationKind::Command
        }
    }
}

macro_rules! table {
    ($(
        $name:literal $need:ident $run:path, [$($field:literal),*],
        $(ignores [$($ignored:literal),*],)?
        $(refuses [$($refused:literal),*],)?
        $(refuses_all $all:path,)?
        $(is [$($trait:ident),*],)?
        $(not_in_cluster $instead:literal,)?
        $help:literal;
    )*) => {
        /// All commands, in the order of their names.
        pub(crate) static TABLE: &[Entry] = &[
            $(Entry {
                name: $name,
                need: Need::$need,
                fields: &[$($field),*],
                ignored: &[$($($ignored),*)?],
                refused: table!(@refused $(&[$($refused),*])? $($all)?),
                not_in_cluster: table!(@instead $($instead)?),
                help: $help,
                run: $run,
                traits: &[$($(Trait::$trait),*)?],
            },)*
        ];
    };
    (@refused) => { &[] };
    (@refused $refused:expr) => { $refused };
    (@instead) => { None };
    (@instead $instead:literal) => { Some($instead) };
}

table! {
    "abortTransaction" Login transaction::end_none,
        [],
        ignores ["recoveryToken"],
        is [InApi],
        not_in_cluster "a command that changes one document",
        "Aborts a transaction.";
    "aggregate" Read aggregate::aggregate,
        ["pipeline", "cursor", "explain", "let", "hint", "collation"],
        ignores ["allowDiskUse", "bypassDocumentValidation", "bypassEmptyTsReplacement"],
        is [InTransaction, ReadConcern, WriteConcern],
        "Runs a pipeline.";
    "buildInfo" Nothing connection::build_info, [], "Returns the version of the server.";
    "buildinfo" Nothing connection::build_info, [], "As buildInfo.";
    "bulkWrite" Login bulk::bulk_write,
        ["ordered", "errorsOnly", "let", "cursor"],
        ignores ["bypassDocumentValidation", "bypassEmptyTsReplacement"],
        is [InTransaction, ReadConcern, Writes],
        "Inserts, changes and removes documents of several collections.";
    "collMod" Write catalog::coll_mod,
        ["changeStreamPreAndPostImages", "index"],
        ignores ["validationLevel", "validationAction"],
        refuses ["expireAfterSeconds", "validator", "viewOn", "pipeline"],
        is [InApi],
        not_in_cluster "a new index, or another collection",
        "Changes the options of a collection.";
    "collStats" Read catalog::coll_stats, ["scale"], "Returns sizes and counts of a collection.";
    "collstats" Read catalog::coll_stats, ["scale"], "As collStats.";
    "commitTransaction" Login transaction::end_none,
        [],
        ignores ["recoveryToken"],
        is [InApi, Writes],
        not_in_cluster "a command that changes one document",
        "Commits a transaction.";
    "compact" Write catalog::compact,
        [],
        ignores ["force", "freeSpaceTargetMB"],
        refuses ["dryRun"],
        is [NoWriteConcern],
        not_in_cluster "nodetool compact of Cassandra",
        "Compacts a collection.";
    "connectionStatus" Nothing connection::connection_status,
        ["showPrivileges"],
        "Returns the users of the connection.";
    "count" Read read::count,
        ["query", "limit", "skip", "hint", "collation"],
        ignores ["fields"],
        is [InTransaction, ReadConcern],
        "Counts documents.";
    "create" Write catalog::create,
        ["changeStreamPreAndPostImages", "collation", "idIndex", "size", "max",
         "indexOptionDefaults"],
        ignores ["autoIndexId", "validationLevel", "validationAction", "flags", "temp"],
        refuses ["capped", "clusteredIndex", "storageEngine", "validator", "viewOn", "pipeline",
         "timeseries", "expireAfterSeconds", "encryptedFields"],
        is [InApi],
        "Creates a collection.";
    "createIndexes" Write catalog::create_indexes,
        ["indexes", "ignoreUnknownIndexOptions"],
        ignores ["commitQuorum"],
        is [InApi],
        "Creates indexes and waits until they are complete.";
    "createUser" Root users::create,
        ["pwd", "roles", "mechanisms", "digestPassword"],
        refuses ["customData", "authenticationRestrictions"],
        "Creates a user.";
    "currentOp" Login current::current_op,
        ["*"],
        "Returns the commands that run: those of the own user, or with the role root all.";
    "dbStats" Read catalog::db_stats,
        ["scale", "freeStorage"],
        "Returns sizes and counts of a database.";
    "dbstats" Read catalog::db_stats,
        ["scale", "freeStorage"],
        "As dbStats.";
    "delete" Write write::delete,
        ["ordered", "let"],
        ignores ["bypassDocumentValidation"],
        is [InTransaction, ReadConcern],
        "Removes documents.";
    "distinct" Read read::distinct,
        ["key", "query", "collation", "hint"],
        is [InTransaction, ReadConcern],
        "Returns the distinct values of a field.";
    "drop" Write catalog::drop, [],
        is [InApi],
        "Drops a collection.";
    "dropDatabase" Write catalog::drop_database, [],
        is [InApi],
        "Drops all collections of a database.";
    "dropIndexes" Write catalog::drop_indexes, ["index"],
        is [InApi],
        "Drops indexes.";
    "dropUser" Root users::drop, [], "Removes a user.";
    "endSessions" Nothing connection::end_sessions, [],
        is [InApi],
        "Ends sessions of the client.";
    "explain" Read explain::explain, ["verbosity"],
        is [InApi, ReadConcern],
        "Returns the plan of a command.";
    "find" Read read::find,
        ["filter", "sort", "projection", "hint", "skip", "limit", "batchSize", "singleBatch",
         "noCursorTimeout", "collation", "let"],
        ignores ["awaitData", "oplogReplay", "allowPartialResults", "allowDiskUse"],
        refuses_all read::REFUSED,
        is [InTransaction, ReadConcern],
        "Finds documents.";
    "findAndModify" Write update::find_and_modify,
        ["query", "sort", "remove", "update", "new", "fields", "upsert", "arrayFilters", "hint",
         "collation", "let"],
        ignores ["bypassDocumentValidation", "bypassEmptyTsReplacement"],
        is [InTransaction, ReadConcern],
        "Changes or removes a document and returns it.";
    "findandmodify" Write update::find_and_modify,
        ["query", "sort", "remove", "update", "new", "fields", "upsert", "arrayFilters", "hint",
         "collation", "let"],
        ignores ["bypassDocumentValidation", "bypassEmptyTsReplacement"],
        is [InTransaction, ReadConcern],
        "As findAndModify.";
    "flagstone" Login tool::run, ["*"],
        is [ReadConcern, Writes],
        "Does what flagstone's command-line tool asks for.";
    "getCmdLineOpts" Root operation::cmd_line_opts, [], "Returns how the server was started.";
    "getLog" Root operation::log, [], "Returns nothing: the log goes to stderr.";
    "getMore" Login read::get_more,
        ["collection", "batchSize", "term"],
        ignores ["lastKnownCommittedOpTime"],
        is [InTransaction, EndsWithClient],
        "Returns the next documents of a cursor.";
    "getParameter" Login operation::parameter, ["*"], "Returns parameters of the server.";
    "hello" Nothing connection::hello, ["*"],
        is [InApi],
        "Returns what the server can do.";
    "hostInfo" Login operation::host_info, [], "Returns what the machine is.";
    "insert" Write write::insert,
        ["ordered"],
        ignores ["bypassDocumentValidation", "bypassEmptyTsReplacement"],
        is [InTransaction, ReadConcern],
        "Inserts documents.";
    "isMaster" Nothing connection::hello, ["*"], "As hello, for old clients.";
    "ismaster" Nothing connection::hello, ["*"], "As hello, for old clients.";
    "killAllSessions" Root current::kill_all_sessions, [], "Ends sessions of users, or all.";
    "killCursors" Login read::kill_cursors, ["cursors"],
        is [InTransaction, NoWriteConcern],
        "Ends cursors.";
    "killOp" Login current::kill_op, ["op"], "Ends a command that runs.";
    "killSessions" Login connection::kill_sessions, [], "Ends sessions of the client.";
    "listCollections" Read catalog::list_collections,
        ["filter", "nameOnly", "cursor"],
        ignores ["authorizedCollections"],
        is [InApi],
        "Returns the collections of a database.";
    "listCommands" Nothing operation::list_commands, ["*"], "Returns the commands.";
    "listDatabases" Login catalog::list_databases,
        ["filter", "nameOnly"],
        ignores ["authorizedDatabases"],
        is [InApi, NoWriteConcern],
        "Returns the databases.";
    "listIndexes" Read catalog::list_indexes,
        ["cursor", "includeBuildUUIDs", "includeIndexBuildInfo"],
        is [InApi],
        "Returns the indexes of a collection.";
    "logout" Nothing connection::logout, [], "Forgets who the client is.";
    "ping" Nothing connection::ping, [],
        is [InApi],
        "Does nothing.";
    "profile" Read operation::profile,
        [],
        ignores ["slowms", "sampleRate", "filter"],
        "Returns that nothing is profiled.";
    "refreshSessions" Login connection::refresh_sessions, [],
        is [InApi],
        "Keeps sessions of the client.";
    "renameCollection" Login catalog::rename,
        ["to", "dropTarget", "stayTemp", "collectionUUID"],
        is [Writes],
        not_in_cluster "$merge into another collection",
        "Renames a collection.";
    "saslContinue" Nothing connection::sasl_continue,
        ["conversationId", "payload"],
        is [InApi],
        "Continues to tell who the client is.";
    "saslStart" Nothing connection::sasl_start,
        ["mechanism", "payload", "options"],
        ignores ["autoAuthorize"],
        is [InApi],
        "Begins to tell who the client is.";
    "serverStatus" Login operation::server_status, ["*"], "Returns counters of the server.";
    "setParameter" Root operation::set_parameter,
        ["*"],
        ignores ["ttlMonitorSleepSecs"],
        "Refuses: options are those of flagstone serve.";
    "startSession" Login connection::start_session, ["*"],
        is [NoWriteConcern],
        "Begins a session.";
    "top" Login current::top, ["*"], "Returns how much collections were used.";
    "update" Write update::update,
        ["ordered", "let"],
        ignores ["bypassDocumentValidation", "bypassEmptyTsReplacement"],
        is [InTransaction, ReadConcern],
        "Changes documents.";
    "updateUser" Root users::update,
        ["pwd", "roles", "mechanisms", "digestPassword"],
        refuses ["customData", "authenticationRestrictions"],
        "Changes the password or the roles of a user.";
    "usersInfo" Login users::info,
        [],
        ignores ["showPrivileges", "showCustomData", "showAuthenticationRestrictions"],
        refuses ["showCredentials", "filter"],
        "Returns users.";
    "validate" Read catalog::validate,
        ["*"],
        ignores ["full", "scandata", "checkBSONConformance", "background"],
        refuses ["repair", "fixMultikey"],
        "Checks a collection and its indexes.";
    "whatsmyuri" Nothing connection::my_uri, ["*"], "Returns the address of the client.";
}

/// Commands of MongoDB that are refused by name, and what does the same.
pub(crate) const REFUSED: &[(&str, &str)] = &[
    ("cloneCollectionAsCapped", "there are no capped collections"),
    ("convertToCapped", "there are no capped collections"),
    ("createRole", "roles are read, readWrite and root"),
    ("dropRole", "roles are read, readWrite and root"),
    ("grantRolesToUser", "updateUser sets the roles of a user"),
    ("mapReduce", "aggregate does it"),
    ("mapreduce", "aggregate does it"),
    ("reIndex", "validate checks indexes"),
    ("revokeRolesFromUser", "updateUser sets the roles of a user"),
    ("updateRole", "roles are read, readWrite and root"),
];

/// Returns the field of a command that names its collection, if there is one.
pub(crate) fn collection_field(name: &str) -> Option<&str> {
    match name {
        "getMore" | "flagstone" => Some("collection"),
        "bulkWrite" => None,
        "collMod" | "collStats" | "collstats" | "compact" | "create" | "createIndexes" | "drop"
        | "dropIndexes" | "listIndexes" | "validate" => Some(name),
        name => find(name).filter(|entry| entry.is(Trait::InTransaction)).map(|_document| name),
    }
}

/// Returns why there is no command of this name.
#[cold]
pub(crate) fn refusal(name: &str) -> Failure {
    match REFUSED.iter().find(|(refused, _)| *refused == name) {
        Some((name, instead)) => {
            let text = format!("{name} is not supported: {instead}");
            Failure::new(Code::CommandNotSupported, text)
        }
        None => Failure::new(Code::CommandNotFound, format!("no such command: '{name}'")),
    }
}

/// Returns the command of this name.
pub(crate) fn find(name: &str) -> Option<&'static Entry> {
    TABLE.iter().find(|entry| entry.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order_and_says_what_commands_do() {
        let names = TABLE.iter().map(|entry| entry.name.to_ascii_lowercase());
        assert!(names.is_sorted(), "the order of the alphabet, without regard to case");
        for entry in TABLE {
            assert!(entry.help.ends_with('.'), "{}", entry.name);
            assert!(REFUSED.iter().all(|(refused, _)| *refused != entry.name), "{}", entry.name);
        }
        assert!(REFUSED.is_sorted());
    }

    #[test]
    fn commands_that_read_and_write_are_told_apart() {
        let of = |name: &str| {
            let entry = find(name).unwrap();
            (entry.ends_with_client(), entry.writes(), entry.refuses_write_concern(), entry.kind())
        };
        assert_eq!(of("find"), (true, false, true, OperationKind::Read));
        // It may end with `$out`.
        assert_eq!(of("aggregate"), (true, false, false, OperationKind::Read));
        assert_eq!(of("getMore"), (true, false, false, OperationKind::Read));
        assert_eq!(of("killCursors"), (false, false, true, OperationKind::Command));
        assert_eq!(of("bulkWrite"), (false, true, false, OperationKind::Write));
        assert_eq!(of("compact"), (false, true, true, OperationKind::Command));
        assert_eq!(of("commitTransaction"), (false, true, false, OperationKind::Command));
    }

    /// The hint of an aggregate was documented as ignored, and chooses the index.
    #[test]
    fn no_command_ignores_a_hint() {
        for entry in TABLE {
            assert!(!entry.ignored.contains(&"hint"), "{}", entry.name);
        }
    }
}
