//! The table of commands, from which dispatch, permissions and help come.

use super::run::Run;
use super::{aggregate, catalog, connection, operation, read, transaction, update, users, write};
use crate::access::Need;
use crate::failure::Outcome;

/// A command: what it is called, who may run it, and what runs it.
pub(crate) struct Entry {
    /// The name of its first field. A second name, if there is one, differs only in letters.
    pub(crate) name: &'static str,
    /// What it needs on the database that it is sent to.
    pub(crate) need: Need,
    /// The fields that it knows besides its name and those that all commands may have; `*` for any.
    pub(crate) fields: &'static [&'static str],
    /// What it does, in a sentence.
    pub(crate) help: &'static str,
    pub(crate) run: fn(&mut Run<'_, '_>) -> Outcome,
    /// Whether it may be part of a transaction.
    pub(crate) in_transaction: bool,
}

macro_rules! table {
    ($($name:literal $need:ident $run:path, [$($field:literal),* $(,)?], $help:literal;)*) => {
        /// All commands, in the order of their names.
        pub(crate) static TABLE: &[Entry] = &[
            $(Entry {
                name: $name,
                need: Need::$need,
                fields: &[$($field),*],
                help: $help,
                run: $run,
                in_transaction: is_in_transaction($name),
            },)*
        ];
    };
}

table! {
    "abortTransaction" Login transaction::end_none, [], "Aborts a transaction.";
    "aggregate" Read aggregate::aggregate,
        ["pipeline", "cursor", "explain", "allowDiskUse", "hint", "let", "collation",
         "bypassDocumentValidation"],
        "Runs a pipeline.";
    "buildInfo" Nothing connection::build_info, [], "Returns the version of the server.";
    "buildinfo" Nothing connection::build_info, [], "As buildInfo.";
    "collMod" Write catalog::coll_mod,
        ["index", "changeStreamPreAndPostImages", "expireAfterSeconds", "validator",
         "validationLevel", "validationAction", "viewOn", "pipeline"],
        "Changes the options of a collection.";
    "collStats" Read catalog::coll_stats, ["scale"], "Returns sizes and counts of a collection.";
    "collstats" Read catalog::coll_stats, ["scale"], "As collStats.";
    "commitTransaction" Login transaction::end_none, [], "Commits a transaction.";
    "compact" Write catalog::compact, ["force", "dryRun", "freeSpaceTargetMB"],
        "Compacts a collection.";
    "connectionStatus" Nothing connection::connection_status, ["showPrivileges"],
        "Returns the users of the connection.";
    "count" Read read::count, ["query", "limit", "skip", "hint", "fields", "collation"],
        "Counts documents.";
    "create" Write catalog::create,
        ["capped", "autoIndexId", "idIndex", "size", "max", "storageEngine", "validator",
         "validationLevel", "validationAction", "indexOptionDefaults", "viewOn", "pipeline",
         "collation", "changeStreamPreAndPostImages", "timeseries", "clusteredIndex",
         "expireAfterSeconds", "encryptedFields", "flags", "temp"],
        "Creates a collection.";
    "createIndexes" Write catalog::create_indexes,
        ["indexes", "commitQuorum", "ignoreUnknownIndexOptions"],
        "Creates indexes and waits until they are complete.";
    "createUser" Root users::create,
        ["pwd", "roles", "mechanisms", "customData", "digestPassword",
         "authenticationRestrictions"],
        "Creates a user.";
    "dbStats" Read catalog::db_stats, ["scale", "freeStorage"],
        "Returns sizes and counts of a database.";
    "dbstats" Read catalog::db_stats, ["scale", "freeStorage"], "As dbStats.";
    "delete" Write write::delete, ["ordered", "let", "bypassDocumentValidation"],
        "Removes documents.";
    "distinct" Read read::distinct, ["key", "query", "collation", "hint"],
        "Returns the distinct values of a field.";
    "drop" Write catalog::drop, [], "Drops a collection.";
    "dropDatabase" Write catalog::drop_database, [], "Drops all collections of a database.";
    "dropIndexes" Write catalog::drop_indexes, ["index"], "Drops indexes.";
    "dropUser" Root users::drop, [], "Removes a user.";
    "endSessions" Nothing connection::end_sessions, [], "Ends sessions of the client.";
    "explain" Read read::explain, ["verbosity"], "Returns the plan of a command.";
    "find" Read read::find,
        ["filter", "sort", "projection", "hint", "skip", "limit", "batchSize", "singleBatch",
         "max", "min", "returnKey", "showRecordId", "tailable", "awaitData", "oplogReplay",
         "noCursorTimeout", "allowPartialResults", "collation", "allowDiskUse", "let"],
        "Finds documents.";
    "findAndModify" Write update::find_and_modify,
        ["query", "sort", "remove", "update", "new", "fields", "upsert", "arrayFilters", "hint",
         "collation", "bypassDocumentValidation", "let"],
        "Changes or removes a document and returns it.";
    "findandmodify" Write update::find_and_modify,
        ["query", "sort", "remove", "update", "new", "fields", "upsert", "arrayFilters", "hint",
         "collation", "bypassDocumentValidation", "let"],
        "As findAndModify.";
    "getCmdLineOpts" Root operation::cmd_line_opts, [], "Returns how the server was started.";
    "getLog" Root operation::log, [], "Returns nothing: the log goes to stderr.";
    "getMore" Read read::get_more, ["collection", "batchSize", "term", "lastKnownCommittedOpTime"],
        "Returns the next documents of a cursor.";
    "getParameter" Login operation::parameter, ["*"],
        "Returns parameters of the server.";
    "hello" Nothing connection::hello,
        ["helloOk", "client", "compression", "saslSupportedMechs", "speculativeAuthenticate",
         "topologyVersion", "maxAwaitTimeMS", "loadBalanced", "backpressure"],
        "Returns what the server can do.";
    "hostInfo" Login operation::host_info, [], "Returns what the machine is.";
    "insert" Write write::insert, ["ordered", "bypassDocumentValidation"], "Inserts documents.";
    "isMaster" Nothing connection::hello,
        ["helloOk", "client", "compression", "saslSupportedMechs", "speculativeAuthenticate",
         "topologyVersion", "maxAwaitTimeMS", "loadBalanced", "backpressure"],
        "As hello, for old clients.";
    "ismaster" Nothing connection::hello,
        ["helloOk", "client", "compression", "saslSupportedMechs", "speculativeAuthenticate",
         "topologyVersion", "maxAwaitTimeMS", "loadBalanced", "backpressure"],
        "As hello, for old clients.";
    "killCursors" Read read::kill_cursors, ["cursors"], "Ends cursors.";
    "killSessions" Login connection::end_sessions, [], "Ends sessions of the client.";
    "listCollections" Read catalog::list_collections,
        ["filter", "nameOnly", "authorizedCollections", "cursor"],
        "Returns the collections of a database.";
    "listCommands" Nothing operation::list_commands, [], "Returns the commands.";
    "listDatabases" Login catalog::list_databases, ["filter", "nameOnly", "authorizedDatabases"],
        "Returns the databases.";
    "listIndexes" Read catalog::list_indexes, ["cursor"], "Returns the indexes of a collection.";
    "logout" Nothing connection::logout, [], "Forgets who the client is.";
    "ping" Nothing connection::ping, [], "Does nothing.";
    "refreshSessions" Login connection::refresh_sessions, [], "Keeps sessions of the client.";
    "renameCollection" Root catalog::rename, ["to", "dropTarget", "stayTemp"], "Renames a collection.";
    "saslContinue" Nothing connection::sasl_continue, ["conversationId", "payload"],
        "Continues to tell who the client is.";
    "saslStart" Nothing connection::sasl_start,
        ["mechanism", "payload", "options", "autoAuthorize"],
        "Begins to tell who the client is.";
    "serverStatus" Login operation::server_status, ["*"],
        "Returns counters of the server.";
    "startSession" Login connection::start_session, [], "Begins a session.";
    "update" Write update::update, ["ordered", "let", "bypassDocumentValidation"],
        "Changes documents.";
    "updateUser" Root users::update,
        ["pwd", "roles", "mechanisms", "customData", "digestPassword",
         "authenticationRestrictions"],
        "Changes the password or the roles of a user.";
    "usersInfo" Login users::info,
        ["showCredentials", "showPrivileges", "showCustomData", "showAuthenticationRestrictions",
         "filter"],
        "Returns users.";
    "validate" Read catalog::validate, ["full", "repair", "metadata", "checkBSONConformance"],
        "Checks a collection and its indexes.";
    "whatsmyuri" Nothing connection::my_uri, [], "Returns the address of the client.";
}

/// Returns whether a command may be part of a transaction: those that read and write documents.
const fn is_in_transaction(name: &str) -> bool {
    matches!(
        name.as_bytes(),
        b"insert"
            | b"update"
            | b"delete"
            | b"find"
            | b"getMore"
            | b"killCursors"
            | b"count"
            | b"distinct"
            | b"aggregate"
            | b"findAndModify"
            | b"findandmodify"
    )
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
        }
    }
}
